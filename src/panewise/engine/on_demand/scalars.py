"""Scalars: the answers of one group as plain numbers, without arrays of one element on the way.

This serves the aggregates that are made from a few numbers; those that need the values themselves are lowered as
arrays. The numbers are the same: sums are read from the same pairs and words, and rounded once.
"""

from __future__ import annotations

from typing import Any, Protocol

from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import Lowered
from panewise.kernels.integer_squares import variance_of_integers
from panewise.kernels.keyed_pairs import add_two_pairs, add_two_squares, value_of_one
from panewise.kernels.squares import variance
from panewise.structures.aggregated import FoldedColumns

Answer = tuple[float | None, int | None]
"""An answer as a double, and also as an exact integer if it is one; None and None for NULL."""

Values = dict[str, int | float | None]
"""The answers of one group by the names of SELECT; None for NULL."""

NULL: Answer = (None, None)
_EXTREMES = {"MIN": Kind.MIN, "MAX": Kind.MAX}
_SAMPLES = {"VAR_POP": 0, "STDDEV_POP": 0, "VAR_SAMP": 1, "STDDEV_SAMP": 1}
PLAIN = frozenset({"COUNT", "SUM", "AVG", *_EXTREMES, *_SAMPLES})
"""Aggregates that have a short way."""


class FoldedOne(Protocol):
    """The folded columns of one range."""

    is_float: bool
    """Whether the values are doubles."""
    count: int
    """How many values are not NULL."""

    def columns(self, kind: Kind) -> tuple[Any, ...]:
        """The folded columns of a component; pairs as one complex number each, sums of squares as four numbers."""
        ...


class FirstOf:
    """The first of several ranges that were folded as arrays."""

    def __init__(self, folded: FoldedColumns) -> None:
        self._folded = folded
        self.is_float = folded.is_float
        self.count = int(folded.counts[0])

    def columns(self, kind: Kind) -> tuple[Any, ...]:
        """The folded columns of a component."""
        if kind is Kind.SQUARES:
            return tuple([column.item(0) for column in self._folded.floats(kind)])
        if kind is Kind.SQUARES_INT:
            return tuple([column.item(0) for column in self._folded.ints(kind)])
        return tuple([column.item(0) for column in self._folded.columns(kind)])


class Joined:
    """A range of final events and one of pending events, put together."""

    def __init__(self, final: FoldedOne, pending: FoldedOne) -> None:
        self._final, self._pending = final, pending
        self.is_float = final.is_float
        self.count = final.count + pending.count

    def columns(self, kind: Kind) -> tuple[Any, ...]:
        """The folded columns of a component; an integer sum of any size is one column."""
        final, pending = self._final.columns(kind), self._pending.columns(kind)
        match kind:
            case Kind.SUM_INT:
                return (_whole(final) + _whole(pending),)
            case Kind.SQUARES_INT:
                return tuple([one + other for one, other in zip(final, pending, strict=True)])
            case Kind.SQUARES:
                return tuple(add_two_squares(final, pending))
            case Kind.MIN:
                return (_least(final[0], pending[0]),)
            case Kind.MAX:
                return (_greatest(final[0], pending[0]),)
            case _:
                return (add_two_pairs(final[0], pending[0]),)


def plain_answer(function: str, folded: FoldedOne) -> Answer:
    """The answer of a plain aggregate over one range; NULL for a sum of values that does not fit in 64 bits."""
    count = folded.count
    if function == "COUNT":
        return float(count), count
    if count <= _SAMPLES.get(function, 0):
        return NULL
    if function in _EXTREMES:
        best = folded.columns(_EXTREMES[function])[0]
        return (best, None) if folded.is_float else (float(best), best)
    if function in _SAMPLES:
        return _variance(function, folded, count), None
    if folded.is_float:
        return value_of_one(folded.columns(Kind.SUM_FLOAT)[0], 1.0 if function == "SUM" else float(count)), None
    whole = _whole(folded.columns(Kind.SUM_INT))
    if function == "AVG":
        return float(whole) / count, None
    if not -(2**63) <= whole < 2**63:
        return NULL
    return float(whole), whole


def as_scalars(lowered: Lowered) -> Answer:
    """The first of some answers."""
    if not lowered.valid[0]:
        return NULL
    return lowered.values.item(0), None if lowered.exact is None else lowered.exact.item(0)


def _variance(function: str, folded: FoldedOne, count: int) -> float:
    sample, is_root = _SAMPLES[function], function.startswith("STDDEV")
    found: float
    if folded.is_float:
        (total,) = folded.columns(Kind.SUM_FLOAT)
        high, low, rest_high, rest_low = folded.columns(Kind.SQUARES)
        found = variance(count, total.real, total.imag, high, low, rest_high, rest_low, sample, is_root)
    else:
        whole = _whole(folded.columns(Kind.SUM_INT))
        one, two, three, four = folded.columns(Kind.SQUARES_INT)
        found = variance_of_integers(count, whole >> 32, whole & 0xFFFFFFFF, one, two, three, four, sample, is_root)
    return found


def _whole(words: tuple[int, ...]) -> int:
    """An integer sum that is held in one word, or in two."""
    return words[0] if len(words) == 1 else (words[0] << 32) + words[1]


def _least(a: float, b: float) -> float:
    # NaN is above all numbers, so in a MIN it stands for "no value".
    return b if b < a or a != a else a


def _greatest(a: float, b: float) -> float:
    return b if b > a or b != b else a
