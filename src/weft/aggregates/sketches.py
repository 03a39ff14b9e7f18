"""Sketches: small summaries from which approximate answers follow, with their error, however many values went in.

QUANTILES is a KLL sketch of doubles, DISTINCT a HyperLogLog sketch of hashed values; both are those of Apache
DataSketches. A sketch that is held is never changed: a union is a new sketch, so partials can be shared.
Invariant: the union of the sketches of parts describes the whole as well as a sketch of the whole does.
Cost: adding a value about 100 ns; a union up to some 50 us; space at most about 5 kB, less while there are few values.
Needs: the package `datasketches`, which is imported only when a query asks for a sketch.
Source: Karnin, Lang and Liberty, FOCS 2016; Flajolet et al., AofA 2007; the DataSketches library.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates.components import Kind
from weft.errors import WeftError

PACKAGE = "datasketches"
CURE = "pip install 'weft[sketches]'"

KLL_K = 200
"""The size of a KLL sketch: ranks are off by at most 1.33 % of the number of values, with a confidence of 99 %."""
HLL_LOG_K = 12
"""4,096 registers: an estimate has a standard error of 1.6 %."""

Sketch = Any
"""A `kll_doubles_sketch` or a `hll_sketch`."""
Sketches = npt.NDArray[np.object_]
"""A column of them. None stands for no value at all, and bytes for a sketch that was not needed so far."""

_EMPTY_STRING = -1
"""What stands for the empty string, which the library skips: eight bytes that are no UTF-8."""


class MissingPackageError(WeftError):
    """An approximate aggregate without the package that has the sketches."""


def is_installed() -> bool:
    """Whether the package with the sketches is there."""
    return find_spec(PACKAGE) is not None


def require_package(aggregate: str) -> None:
    """Raise when an approximate aggregate cannot be computed here."""
    if not is_installed():
        raise MissingPackageError(f"{aggregate} needs the package {PACKAGE}, which is not installed: {CURE}")


@cache
def _library() -> Any:
    require_package("an approximate aggregate")
    return import_module(PACKAGE)


def lift(kind: Kind, values: npt.NDArray[Any]) -> Sketch:
    """A sketch of numbers, none of them NULL; None when there are none. NaN has no rank: quantiles leave it out."""
    if not len(values):
        return None
    if kind is Kind.QUANTILES:
        quantiles = _library().kll_doubles_sketch(KLL_K)
        quantiles.update(np.ascontiguousarray(values, np.float64))
        return quantiles
    return _lift_different(words_of(values).tolist())


def lift_strings(values: Iterable[str]) -> Sketch:
    """A DISTINCT sketch of strings; None when there are none."""
    return _lift_different([value or _EMPTY_STRING for value in values])


def words_of(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Numbers as int64 words that are equal where the numbers are: one zero, one NaN."""
    if values.dtype == np.float64:
        plain = values + 0.0
        plain[np.isnan(plain)] = np.nan
        return plain.view(np.int64)
    return values.astype(np.int64, copy=False)


def union(kind: Kind, parts: Iterable[Sketch], *, is_last: bool = False) -> Sketch:
    """One sketch of all that some sketches describe; that of the only one is itself, and of none is None.

    With `is_last` only answers are asked of it: a DISTINCT is then left as what it was gathered in, since making a
    sketch of that takes several times as long as the union.
    """
    known = [opened(kind, part) for part in parts if part is not None]
    if len(known) < 2:
        return known[0] if known else None
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
    """A sketch that may be serialised as an object."""
    if not isinstance(sketch, bytes):
        return sketch
    library = _library()
    form = library.kll_doubles_sketch if kind is Kind.QUANTILES else library.hll_sketch
    return form.deserialize(sketch)


def serialised(kind: Kind, sketch: Sketch) -> bytes | None:
    """A sketch as bytes, in the portable format of the library; None for no value."""
    if sketch is None or isinstance(sketch, bytes):
        return sketch
    content: bytes = sketch.serialize() if kind is Kind.QUANTILES else sketch.serialize_compact()
    return content


def bytes_of_sketch(sketch: Sketch) -> int:
    """About how much memory a sketch takes."""
    if sketch is None:
        return 0
    if isinstance(sketch, bytes):
        return len(sketch)
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
