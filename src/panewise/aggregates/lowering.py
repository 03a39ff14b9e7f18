"""Lowering: from the folded components of many windows to their answers.

All arrays run over windows. `valid` is False where an answer is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Kind
from panewise.aggregates.kept_values import ORDER_BYTES
from panewise.aggregates.sketches import Sketches
from panewise.arrays import Bools, Column, Floats, Ints

Objects = npt.NDArray[np.object_]
"""Strings, or lists of values."""

Whole = TypeVar("Whole", int, Ints)

SUM_OVERFLOW = "the sum of a window does not fit in a BIGINT; use AVG, or declare the attribute as DOUBLE"


@dataclass(frozen=True, slots=True)
class Lowered:
    """Answers as doubles; integer answers also exactly, as int64, and BOOLEAN ones as bools.

    Strings and lists are objects in `exact` alone, and their doubles are zeros.
    """

    values: Floats
    exact: Ints | Bools | Objects | None
    valid: Bools
    bounds: tuple[Floats, Floats] | None = None
    """Bounds of the exact answers; None if the answers are exact."""
    overflown: Bools | None = None
    """Where an answer is NULL because it does not fit in 64 bits; None if all fit."""

    @property
    def is_object(self) -> bool:
        """Whether the answers are strings or lists."""
        return self.exact is not None and self.exact.dtype == np.object_

    def take(self, rows: Ints) -> Lowered:
        """Some of the answers."""
        exact = None if self.exact is None else self.exact[rows]
        bounds = None if self.bounds is None else (self.bounds[0][rows], self.bounds[1][rows])
        overflown = None if self.overflown is None else self.overflown[rows]
        return Lowered(self.values[rows], exact, self.valid[rows], bounds, overflown)

    def blank(self) -> Lowered:
        """One answer of the same kind, which is NULL."""
        exact: Column | None = None if self.exact is None else np.zeros(1, self.exact.dtype)
        bounds = None if self.bounds is None else (np.zeros(1), np.zeros(1))
        overflown = None if self.overflown is None else np.zeros(1, np.bool_)
        return Lowered(np.zeros(1), exact, np.zeros(1, np.bool_), bounds, overflown)

    def put(self, rows: Ints, answers: Lowered) -> None:
        """Replace some of the answers, by others of the same aggregate."""
        for mine, its in zip(self._arrays, answers._arrays, strict=True):
            mine[rows] = its

    @staticmethod
    def joined(parts: list[Lowered]) -> Lowered:
        """The answers of one aggregate, one part after the other."""
        values, valid, *others = (np.concatenate(arrays) for arrays in zip(*(part._arrays for part in parts)))
        exact = None if parts[0].exact is None else others.pop(0)
        overflown = None if parts[0].overflown is None else others.pop(0)
        return Lowered(values, exact, valid, (others[0], others[1]) if others else None, overflown)

    @property
    def nbytes(self) -> int:
        """The memory of the answers."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def _arrays(self) -> tuple[Ints | Floats | Bools | Objects, ...]:
        """All arrays. Of an aggregate whose answers are kept, each part has the same ones."""
        others = (one for one in (self.exact, self.overflown) if one is not None)
        return self.values, self.valid, *others, *(self.bounds or ())

    @property
    def overflows(self) -> int:
        """How many answers are NULL because they do not fit."""
        return 0 if self.overflown is None else int(np.count_nonzero(self.overflown))


class FoldedComponents(Protocol):
    """The folded components of one aggregate's input, over many windows."""

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        """The int64 columns of a component; one for sums of integers where each is known to fit in a word."""
        ...

    def floats(self, kind: Kind) -> tuple[Floats, ...]:
        """The float64 columns of a component."""
        ...

    @property
    def is_float(self) -> bool:
        """Whether the input holds doubles."""
        ...

    @property
    def is_boolean(self) -> bool:
        """Whether the input holds conditions."""
        ...

    @property
    def is_string(self) -> bool:
        """Whether the input holds strings."""
        ...

    def select(self, ranks: Ints) -> Ints | Floats:
        """The value at each window's 1-based rank in its sorted multiset (any value where the rank is 0)."""
        ...

    def distinct(self) -> Ints:
        """The number of different values in each window's multiset."""
        ...

    def mode(self) -> Ints | Floats | Objects:
        """The most frequent value of each window's multiset, the smallest one of several; any value if it is empty."""
        ...

    def sketches(self, kind: Kind) -> Sketches:
        """The sketch of each window; None if it has no value."""
        ...


def _from_ints(values: Ints, valid: Bools) -> Lowered:
    return Lowered(values.astype(np.float64), values, valid)


def lower_rows(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """COUNT(*)."""
    (rows,) = folded.ints(Kind.ROWS)
    return _from_ints(rows, np.ones(len(rows), np.bool_))


def lower_count(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """COUNT(x)."""
    (count,) = folded.ints(Kind.COUNT)
    return _from_ints(count, np.ones(len(count), np.bool_))


def in_two_words(sums: tuple[Whole, ...]) -> tuple[Whole, ...]:
    """Sums of integers as high * 2**32 + low, if they are not yet held so."""
    return sums if len(sums) == 2 else (sums[0] >> 32, sums[0] & 0xFFFFFFFF)


def lower_sum(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """SUM(x): exact for integers, and NULL where it does not fit."""
    from panewise.kernels.integer_sums import sum_of_words
    from panewise.kernels.pairs import values_of_pairs

    (count,) = folded.ints(Kind.COUNT)
    if folded.is_float:
        return Lowered(values_of_pairs(folded.floats(Kind.SUM_FLOAT), np.ones_like(count)), None, count > 0)
    words = folded.ints(Kind.SUM_INT)
    if len(words) == 1:
        return _from_ints(words[0], count > 0)
    sums, fits = sum_of_words(*words)
    if fits.all():
        return _from_ints(sums, count > 0)
    sums[~fits] = 0
    return Lowered(sums.astype(np.float64), sums, fits & (count > 0), None, ~fits)


def lower_average(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """AVG(x), in DOUBLE; its sum may exceed a BIGINT."""
    from panewise.kernels.integer_sums import mean_of_words
    from panewise.kernels.pairs import values_of_pairs

    (count,) = folded.ints(Kind.COUNT)
    if folded.is_float:
        return Lowered(values_of_pairs(folded.floats(Kind.SUM_FLOAT), count), None, count > 0)
    high, low = in_two_words(folded.ints(Kind.SUM_INT))
    return Lowered(mean_of_words(high, low, np.maximum(count, 1)), None, count > 0)


def lower_variance(folded: FoldedComponents, *, sample: bool, root: bool) -> Lowered:
    """The variance or its root, from n * squares - sum**2: exact of integers, and of doubles where much cancels."""
    from panewise.kernels.integer_squares import variances_of_integers
    from panewise.kernels.squares import variances

    (count,) = folded.ints(Kind.COUNT)
    fewest = 1 if sample else 0
    if folded.is_float:
        values = variances(count, folded.floats(Kind.SUM_FLOAT), folded.floats(Kind.SQUARES), fewest, root)
    else:
        sums = in_two_words(folded.ints(Kind.SUM_INT))
        values = variances_of_integers(count, sums, folded.ints(Kind.SQUARES_INT), fewest, root)
    return Lowered(values, None, count > fewest)


def objects_of(values: Iterable[Any], size: int) -> Objects:
    """Strings or lists as an array of objects."""
    return np.fromiter(values, np.object_, size)


def lower_text(folded: FoldedComponents, kind: Kind, *, is_pair: bool) -> Lowered:
    """The best string of each window: MIN and MAX, and of pairs FIRST, LAST, ARG_MIN and ARG_MAX."""
    kept = folded.sketches(kind)
    begin = ORDER_BYTES if is_pair else 0
    texts = objects_of((None if one is None else one.values[0][begin:].decode() for one in kept), len(kept))
    return Lowered(np.zeros(len(kept)), texts, np.array([one is not None for one in kept], np.bool_))


def lower_extreme(kind: Kind) -> Callable[[FoldedComponents, float | None], Lowered]:
    """MIN(x) or MAX(x)."""
    of_strings = Kind.LEAST_VALUES if kind is Kind.MIN else Kind.GREATEST_VALUES

    def lower(folded: FoldedComponents, parameter: float | None) -> Lowered:
        if folded.is_string:
            return lower_text(folded, of_strings, is_pair=False)
        (count,) = folded.ints(Kind.COUNT)
        if folded.is_float:
            (values,) = folded.floats(kind)
            return Lowered(values, None, count > 0)
        return _from_ints(folded.ints(kind)[0], count > 0)

    return lower


def lower_condition(kind: Kind) -> Callable[[FoldedComponents, float | None], Lowered]:
    """BOOL_AND(c) or BOOL_OR(c): the least or the greatest of FALSE and TRUE."""

    def lower(folded: FoldedComponents, parameter: float | None) -> Lowered:
        (count,), (words,) = folded.ints(Kind.COUNT), folded.ints(kind)
        truth = (words != 0) & (count > 0)
        return Lowered(truth.astype(np.float64), truth, count > 0)

    return lower


def quantile_ranks(counts: Ints, phi: float | Floats) -> Ints:
    """The 1-based rank max(1, floor(phi * n)) for each n; 0 where n is 0. One phi, or one for each n.

    phi counts as the decimal that was written, so that 0.29 of 100 is rank 29, not 28.
    """
    phis = np.broadcast_to(np.asarray(phi, np.float64), counts.shape)
    products = phis * counts
    ranks = np.floor(products).astype(np.int64)
    # Rounding can only matter next to an integer, and there the decimal decides.
    fractions: dict[float, Fraction] = {}
    for place in np.flatnonzero(np.abs(products - np.rint(products)) <= products * 1e-15).tolist():
        value = float(phis[place])
        if value not in fractions:
            fractions[value] = Fraction(repr(value))
        fraction = fractions[value]
        ranks[place] = int(counts[place]) * fraction.numerator // fraction.denominator
    return np.where(counts > 0, np.maximum(ranks, 1), 0)


def lower_quantile(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """QUANTILE(x, phi), and with no parameter MEDIAN(x): the middle value, the lower one of two."""
    (count,) = folded.ints(Kind.COUNT)
    selected = folded.select((count + 1) // 2 if parameter is None else quantile_ranks(count, parameter))
    if folded.is_float:
        return Lowered(selected.astype(np.float64), None, count > 0)
    return _from_ints(selected.astype(np.int64), count > 0)


def lower_distinct(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """COUNT(DISTINCT x)."""
    distinct = folded.distinct()
    return _from_ints(distinct, np.ones(len(distinct), np.bool_))


def lower_mode(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """MODE(x): the value that occurs most often, the smallest one of several."""
    (count,) = folded.ints(Kind.COUNT)
    modes = folded.mode()
    if folded.is_string:
        return Lowered(np.zeros(len(count)), modes.astype(np.object_), count > 0)
    if folded.is_float:
        return Lowered(modes.astype(np.float64), None, count > 0)
    return _from_ints(modes.astype(np.int64), count > 0)
