"""Lowering of joined components: moments of one and of two columns, decayed sums, and values picked by their partners.

Like Spark, an aggregate of moments is NULL where it would divide by zero, and NaN where a value is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import FoldedComponents, Lowered, lower_text
from panewise.aggregates.sketches import doubles_of
from panewise.arrays import Floats


def lower_skewness(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """SKEWNESS(x): sqrt(n) * m3 / m2 ** 1.5, of the sums of powers of distances from the mean."""
    count, _, _, second, third, _ = folded.floats(Kind.MOMENTS)
    with np.errstate(all="ignore"):
        return _unless_zero(np.sqrt(count) * third / (second * np.sqrt(second)), count, second)


def lower_kurtosis(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """KURTOSIS(x): n * m4 / m2 ** 2 - 3."""
    count, _, _, second, _, fourth = folded.floats(Kind.MOMENTS)
    with np.errstate(all="ignore"):
        return _unless_zero(count * (fourth / second / second) - 3.0, count, second)


def lower_covariance(*, sample: bool) -> Callable[[FoldedComponents, float | None], Lowered]:
    """COVAR_POP(x, y) or COVAR_SAMP(x, y)."""

    def lower(folded: FoldedComponents, parameter: float | None) -> Lowered:
        count, *_, products, _ = folded.floats(Kind.COMOMENTS)
        divisor = count - 1.0 if sample else count
        return Lowered(products / np.maximum(divisor, 1.0), None, divisor > 0.0)

    return lower


def lower_correlation(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """CORR(x, y)."""
    count, *_, squares, products, others = folded.floats(Kind.COMOMENTS)
    with np.errstate(all="ignore"):
        # Each root by itself: their product is a double where that of the squares may not be.
        deviations = np.sqrt(squares) * np.sqrt(others)
        is_flat = (squares == 0.0) | (others == 0.0)
        return Lowered(products / deviations, None, (count > 1.0) & ~is_flat)


def lower_slope(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """REGR_SLOPE(y, x): of the line through the points that leaves the least squares."""
    count, *_, products, squares = folded.floats(Kind.COMOMENTS)
    with np.errstate(all="ignore"):
        return _unless_zero(products / squares, count, squares)


def lower_intercept(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """REGR_INTERCEPT(y, x): where that line is at x = 0."""
    count, mean, _, other, _, _, products, squares = folded.floats(Kind.COMOMENTS)
    with np.errstate(all="ignore"):
        return _unless_zero(mean - products / squares * other, count, squares)


def _unless_zero(values: Floats, count: Floats, divisor: Floats) -> Lowered:
    return Lowered(values, None, (count > 0.0) & (divisor != 0.0))


def lower_decayed(*, mean: bool) -> Callable[[FoldedComponents, float | None], Lowered]:
    """EWM_SUM(x, h) or EWM_AVG(x, h): for each half life before the newest value, a value counts half as much."""

    def lower(folded: FoldedComponents, parameter: float | None) -> Lowered:
        _, _, weight, total = folded.floats(Kind.DECAYED)
        some = weight > 0.0
        return Lowered(total / np.where(some, weight, 1.0) if mean else total, None, some)

    return lower


def lower_picked(kind: Kind) -> Callable[[FoldedComponents, float | None], Lowered]:
    """The value of the least or the greatest pair: FIRST, LAST, ARG_MIN and ARG_MAX."""
    of_strings = Kind.LEAST_VALUES if kind is Kind.AT_LEAST else Kind.GREATEST_VALUES

    def lower(folded: FoldedComponents, parameter: float | None) -> Lowered:
        if folded.is_string:
            return lower_text(folded, of_strings, is_pair=True)
        (count,) = folded.ints(Kind.COUNT)
        _, words = folded.ints(kind)
        if folded.is_float:
            return Lowered(doubles_of(words), None, count > 0)
        exact = words != 0 if folded.is_boolean else words
        return Lowered(exact.astype(np.float64), exact, count > 0)

    return lower
