"""Sketches: small summaries of any number of values, which give approximate answers and their error.

QUANTILES is a KLL sketch of doubles, DISTINCT a HyperLogLog sketch of hashed values, FREQUENT a Misra-Gries sketch of
values with their counts; all come from Apache DataSketches. A held sketch never changes: a union is a new sketch, so
partials can be shared.
Invariant: the union of the sketches of parts describes the whole as well as a sketch of the whole does.
Cost: adding a value about 100 ns (FREQUENT: a microsecond); a union up to some 50 us (FREQUENT: 150 us); space at most
about 5 kB (FREQUENT: 12 kB), less while there are few values.
Needs: the package `datasketches`, which is imported only when a query asks for a sketch.
Source: Karnin, Lang and Liberty, FOCS 2016; Flajolet et al., AofA 2007; Anderson et al., IMC 2017; the DataSketches
library.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Kind
from panewise.aggregates.kept_values import KeptValues
from panewise.arrays import Ints
from panewise.extras import missing, require

PACKAGE = "datasketches"

KLL_K = 200
"""The size of a KLL sketch: ranks are off by at most 1.33 % of the number of values, with a confidence of 99 %."""
HLL_LOG_K = 12
"""4,096 registers: an estimate has a standard error of 1.6 %."""

FREQUENT_LOG_SIZE = 10
"""A table of 1,024 places that holds up to 768: a count is off by at most 3.5 / 1,024 of the number of values."""
MOST_RANKS = 100
"""The most ranks of frequent values that a query can ask for."""

Sketch = Any
"""A `kll_doubles_sketch`, a `hll_sketch`, `FrequentItems`, or the `KeptValues` that strings and lists are made of."""
Sketches = npt.NDArray[np.object_]
"""A column of sketches. None means no value at all, and bytes a sketch that was not needed so far."""

_MAGNITUDE = 2**63 - 1
_EMPTY_STRING = -1
"""What replaces the empty string, which the library skips: eight bytes that are not UTF-8."""


def is_installed() -> bool:
    """Whether the package with the sketches is installed."""
    return not missing("sketches")


def require_package(aggregate: str) -> None:
    """Raise if approximate aggregates cannot be computed here."""
    require("sketches", aggregate)


@cache
def _library() -> Any:
    require_package("an approximate aggregate")
    return import_module(PACKAGE)


@dataclass(frozen=True)
class Ranking:
    """The most frequent values that a sketch knows: by count, the greatest first; at equal counts by value."""

    words: Ints
    """The values, as `ordered_words` gives them."""
    counts: Ints
    """How often each occurs at most."""
    error: int
    """How much less it may be; also how often any other value occurs at most."""
    is_certain: npt.NDArray[np.bool_]
    """Whether it is certain that this value, and no other, has this rank."""


class FrequentItems:
    """A FREQUENT sketch: words with their counts. The same words in the same order give the same sketch."""

    def __init__(self, sketch: Any) -> None:
        self._sketch = sketch

    @classmethod
    def of(cls, words: Ints, counts: Ints) -> FrequentItems:
        """A sketch of different words, each with its count. They are added in sorted order."""
        sketch = _library().frequent_items_sketch(FREQUENT_LOG_SIZE)
        add = sketch.update
        order = np.argsort(words)
        for word, count in zip(words[order].tolist(), counts[order].tolist()):
            add(word, count)
        return cls(sketch)

    @classmethod
    def merged(cls, parts: list[FrequentItems]) -> FrequentItems:
        """The union of some sketches. The smallest come first, so that the order of arrival matters little."""
        sketch = _library().frequent_items_sketch(FREQUENT_LOG_SIZE)
        for part in sorted(parts, key=lambda part: (part.total, part._sketch.num_active_items)):
            sketch.merge(part._sketch)
        return cls(sketch)

    @classmethod
    def opened(cls, content: bytes) -> FrequentItems:
        """The inverse of `serialised`."""
        return cls(_library().frequent_items_sketch.deserialize(content, _words_of_bytes()))

    def serialised(self) -> bytes:
        """The sketch in the format of the library, with an item as 8 bytes."""
        content: bytes = self._sketch.serialize(_words_of_bytes())
        return content

    @property
    def total(self) -> int:
        """How many values went in."""
        return int(self._sketch.total_weight)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes: each item is a Python integer, and a count and a reference in a table."""
        return 64 + 56 * int(self._sketch.num_active_items)

    @cached_property
    def ranking(self) -> Ranking:
        """The most frequent values."""
        library = _library()
        found = self._sketch.get_frequent_items(library.frequent_items_error_type.NO_FALSE_NEGATIVES, 0)
        words, counts = (np.fromiter((row[place] for row in found), np.int64, len(found)) for place in (0, 1))
        order = np.lexsort((words, -counts))[: MOST_RANKS + 1]
        words, counts = words[order], counts[order]
        # For a value that it does not know, a sketch gives the error itself.
        error = found[0][3] - found[0][2] if found else int(self._sketch.get_upper_bound(0))
        above, below = np.append(2**62, counts[:-1]), np.append(counts[1:], error)
        is_certain = (above - error > counts) & (counts - error > below) if error else np.ones(len(counts), np.bool_)
        return Ranking(words[:MOST_RANKS], counts[:MOST_RANKS], error, is_certain[:MOST_RANKS])


@cache
def _words_of_bytes() -> Any:
    return _library().PyLongsSerDe()


def lift(kind: Kind, values: npt.NDArray[Any]) -> Sketch:
    """A sketch of numbers, none of them NULL; None if there are no numbers. NaN has no rank: quantiles leave it out."""
    if not len(values):
        return None
    if kind is Kind.QUANTILES:
        quantiles = _library().kll_doubles_sketch(KLL_K)
        quantiles.update(np.ascontiguousarray(values, np.float64))
        return quantiles
    if kind is Kind.FREQUENT:
        return FrequentItems.of(*np.unique(ordered_words(values), return_counts=True))
    return _lift_different(words_of(values).tolist())


def lift_strings(values: Iterable[str]) -> Sketch:
    """A DISTINCT sketch of strings; None if there are no strings."""
    return _lift_different([value or _EMPTY_STRING for value in values])


def lift_counted(words: Ints, counts: Ints) -> Sketch:
    """A FREQUENT sketch of different words with their counts; None if there are no words."""
    return FrequentItems.of(words, counts) if len(words) else None


def words_of(values: npt.NDArray[Any]) -> Ints:
    """Numbers as int64 words that are equal where the numbers are: one zero, one NaN."""
    if values.dtype == np.float64:
        plain = values + 0.0
        plain[np.isnan(plain)] = np.nan
        return plain.view(np.int64)
    return values.astype(np.int64, copy=False)


def ordered_words(values: npt.NDArray[Any]) -> Ints:
    """Numbers as int64 words that are equal, less or greater where the numbers are; NaN is above all."""
    words = words_of(values)
    # Negative doubles count their magnitude upwards.
    return np.where(words < 0, words ^ _MAGNITUDE, words) if values.dtype == np.float64 else words


def doubles_of(words: Ints) -> npt.NDArray[np.float64]:
    """The inverse of `ordered_words` for doubles."""
    return np.where(words < 0, words ^ _MAGNITUDE, words).view(np.float64)


def hashed_words(values: Iterable[str]) -> Ints:
    """Strings as words that are equal where the strings are, in every process."""
    content = b"".join(blake2b(value.encode(), digest_size=8).digest() for value in values)
    return np.frombuffer(content, "<i8").astype(np.int64)


def union(kind: Kind, parts: Iterable[Sketch], *, is_last: bool = False) -> Sketch:
    """The union of some sketches; a single sketch is its own union, and the union of none is None.

    With `is_last` the result only has to give answers: a DISTINCT then stays in the form in which it was gathered,
    since turning that into a sketch takes several times as long as the union.
    """
    known = [opened(kind, part) for part in parts if part is not None]
    if len(known) < 2:
        return known[0] if known else None
    if kind.is_kept:
        return KeptValues.merged(kind, known)
    if kind is Kind.FREQUENT:
        return FrequentItems.merged(known)
    library = _library()
    if kind is Kind.QUANTILES:
        merged = library.kll_doubles_sketch(KLL_K)
        for part in known:
            merged.merge(part)
        return merged
    gathered = library.hll_union(HLL_LOG_K)
    for part in known:
        gathered.update(part)
    return gathered if is_last else gathered.get_result(library.HLL_8)


def opened(kind: Kind, sketch: Sketch) -> Sketch:
    """A sketch as an object, opened if it is bytes."""
    if not isinstance(sketch, bytes):
        return sketch
    if kind.is_kept:
        return KeptValues.opened(sketch)
    if kind is Kind.FREQUENT:
        return FrequentItems.opened(sketch)
    library = _library()
    form = library.kll_doubles_sketch if kind is Kind.QUANTILES else library.hll_sketch
    return form.deserialize(sketch)


def serialised(kind: Kind, sketch: Sketch) -> bytes | None:
    """A sketch as bytes, in the portable format of the library; None for no value."""
    if sketch is None or isinstance(sketch, bytes):
        return sketch
    if isinstance(sketch, FrequentItems | KeptValues):
        return sketch.serialised()
    content: bytes = sketch.serialize() if kind is Kind.QUANTILES else sketch.serialize_compact()
    return content


def closed(sketch: Sketch) -> bytes | None:
    """A sketch of any kind as bytes."""
    is_open = sketch is not None and not isinstance(sketch, bytes | FrequentItems | KeptValues)
    is_quantiles = is_open and isinstance(sketch, _library().kll_doubles_sketch)
    return serialised(Kind.QUANTILES if is_quantiles else Kind.DISTINCT, sketch)


def bytes_of_sketch(sketch: Sketch) -> int:
    """About how much memory a sketch takes."""
    if sketch is None:
        return 0
    if isinstance(sketch, bytes):
        return len(sketch)
    if isinstance(sketch, FrequentItems | KeptValues):
        return sketch.nbytes
    if isinstance(sketch, _library().kll_doubles_sketch):
        return 8 * int(sketch.num_retained)
    return int(sketch.get_updatable_serialization_bytes())


def _lift_different(values: list[Any]) -> Sketch:
    if not values:
        return None
    library = _library()
    different = library.hll_sketch(HLL_LOG_K, library.HLL_8)
    add = different.update
    for value in values:
        add(value)
    return different
