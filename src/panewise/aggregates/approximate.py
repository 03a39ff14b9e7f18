"""Lowering of sketches: approximate answers, and bounds for the exact ones.

The library gives the bounds. For a quantile they are the values at ranks that are off by the sketch's error, with a
confidence of 99 % on either side; for a distinct count two standard errors, a confidence of 95 %. The bounds of
frequent values always hold. While few values went in (about 200 for a quantile, some hundred different ones for a count
or for frequent values), the answer is exact and the bounds are equal.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import FoldedComponents, Lowered, quantile_ranks
from panewise.aggregates.sketches import Sketch, doubles_of
from panewise.arrays import Floats, Ints

DEVIATIONS = 2
"""The distance of a distinct count's bounds, in standard errors."""


def lower_approximate_quantile(folded: FoldedComponents, parameter: float | Floats | None) -> Lowered:
    """APPROX_QUANTILE(x, phi): the value at the rank of QUANTILE, in DOUBLE. NaN is above all numbers."""
    assert parameter is not None
    (count,) = folded.ints(Kind.COUNT)
    ranks = quantile_ranks(count, parameter)
    found = np.zeros((3, len(count)))
    for place, (sketch, rank) in enumerate(zip(folded.sketches(Kind.QUANTILES), ranks.tolist())):
        if rank:
            found[:, place] = _quantile(sketch, rank)
    low, values, high = found
    return Lowered(values, None, count > 0, (low, high))


def _quantile(sketch: Sketch, rank: int) -> tuple[float, float, float]:
    """The value at a 1-based rank, between its bounds."""
    n = 0 if sketch is None else sketch.n
    if rank > n:
        # Every value that went in and is not in the sketch is NaN, so this is exact.
        return np.nan, np.nan, np.nan
    if rank in (1, n):
        extreme = sketch.get_min_value() if rank == 1 else sketch.get_max_value()
        return extreme, extreme, extreme
    # Half a rank below, so that rounding finds the same value.
    middle = (rank - 0.5) / n
    error = sketch.normalized_rank_error(False) if sketch.is_estimation_mode() else 0.0
    low, value, high = sketch.get_quantiles([max(middle - error, 0.0), middle, min(middle + error, 1.0)], True)
    if middle - error <= 0.0:
        low = sketch.get_min_value()
    if middle + error >= 1.0:
        high = sketch.get_max_value()
    return low, value, high


def lower_approximate_distinct(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """APPROX_COUNT_DISTINCT(x): a whole number between two whole numbers."""
    sketches = folded.sketches(Kind.DISTINCT)
    found = np.zeros((3, len(sketches)))
    for place, sketch in enumerate(sketches):
        if sketch is not None:
            bounds = sketch.get_lower_bound(DEVIATIONS), sketch.get_estimate(), sketch.get_upper_bound(DEVIATIONS)
            found[:, place] = bounds
    # The count is a whole number, so the bounds may move inwards to the next ones.
    low, values, high = np.ceil(found[0]), np.rint(found[1]), np.floor(found[2])
    low, high = np.minimum(low, values), np.maximum(high, values)
    return Lowered(values, values.astype(np.int64), np.ones(len(values), np.bool_), (low, high))


def lower_top_item(folded: FoldedComponents, parameter: float | Ints | None) -> Lowered:
    """APPROX_TOP_ITEM(x, rank): the value at a rank of the most frequent ones; NULL if no such value is known.

    The bounds are equal if the value certainly has this rank, and infinite if another one may have it.
    """
    assert parameter is not None
    sketches = folded.sketches(Kind.FREQUENT)
    words = np.zeros(len(sketches), np.int64)
    valid, certain = np.zeros(len(sketches), np.bool_), np.zeros(len(sketches), np.bool_)
    for place, (sketch, rank) in enumerate(zip(sketches, _ranks(parameter, len(sketches)))):
        if sketch is not None and rank <= len(sketch.ranking.words):
            words[place], valid[place] = sketch.ranking.words[rank - 1], True
            certain[place] = sketch.ranking.is_certain[rank - 1]
    values = doubles_of(words) if folded.is_float else words.astype(np.float64)
    low, high = np.where(certain, values, -np.inf), np.where(certain, values, np.inf)
    return Lowered(values, None if folded.is_float else words, valid, (low, high))


def lower_top_count(folded: FoldedComponents, parameter: float | Ints | None) -> Lowered:
    """APPROX_TOP_COUNT(x, rank): how often that value occurs at most; 0 if no such value is known.

    The bounds hold for this value's count, and also for the exact count at this rank: no count is too high by more than
    the same error.
    """
    assert parameter is not None
    sketches = folded.sketches(Kind.FREQUENT)
    low, counts, high = np.zeros((3, len(sketches)), np.int64)
    for place, (sketch, rank) in enumerate(zip(sketches, _ranks(parameter, len(sketches)))):
        if sketch is None:
            continue
        ranking = sketch.ranking
        if rank <= len(ranking.counts):
            counts[place] = high[place] = ranking.counts[rank - 1]
            low[place] = high[place] - ranking.error
        else:
            high[place] = ranking.error
    bounds = (low.astype(np.float64), high.astype(np.float64))
    return Lowered(counts.astype(np.float64), counts, np.ones(len(counts), np.bool_), bounds)


def _ranks(parameter: float | Ints, size: int) -> list[int]:
    """One rank for all answers, or one for each."""
    ranks: list[int] = np.broadcast_to(np.asarray(parameter, np.int64), (size,)).tolist()
    return ranks
