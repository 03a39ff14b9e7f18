"""Scalars: the answers of one group as plain numbers, without arrays of one element on the way.

For the aggregates that most lookups ask for, and where all covered events are final; the others are lowered as arrays
are. The numbers are the same: sums are read from the same pairs and words, and rounded once.
"""

from __future__ import annotations

from math import isfinite

from weft.aggregates.components import Kind
from weft.aggregates.lowering import Lowered
from weft.structures.aggregated import FoldedColumns

Answer = tuple[float | None, int | None]
"""An answer as a double, and where it is an integer also exactly; None and None for NULL."""

PLAIN = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
"""Aggregates that have a short way."""
_EXTREMES = {"MIN": Kind.MIN, "MAX": Kind.MAX}


def plain_answer(function: str, folded: FoldedColumns) -> Answer | None:
    """The answer of a plain aggregate over one range; None for a sum in two words, which needs the long way."""
    count = int(folded.counts[0])
    if function == "COUNT":
        return float(count), count
    if not count:
        return None, None
    if function in _EXTREMES:
        best = folded.columns(_EXTREMES[function])[0].item(0)
        return (best, None) if folded.is_float else (float(best), best)
    if folded.is_float:
        pair = folded.columns(Kind.SUM_FLOAT)[0].item(0)
        total = pair.real + pair.imag if isfinite(pair.real) else pair.real
        return (total, None) if function == "SUM" else (total / count, None)
    words = folded.columns(Kind.SUM_INT)
    if len(words) > 1:
        return None
    whole = words[0].item(0)
    return (float(whole), whole) if function == "SUM" else (float(whole) / count, None)


def as_scalars(lowered: Lowered) -> Answer:
    """The first of some answers."""
    if not lowered.valid[0]:
        return None, None
    return lowered.values.item(0), None if lowered.exact is None else lowered.exact.item(0)
