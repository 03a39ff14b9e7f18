"""Double-double arithmetic: a number as an unevaluated pair (high, low) of doubles, about 106 bits.

Sums kept as pairs lose nothing that an answer could show, however many events they run over.
An infinity or a NaN lives in `high` alone, with `low` zero. Source: Dekker 1971; Knuth, TAOCP 2, 4.2.2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SPLITTER = 134217729.0  # 2**27 + 1


@njit(inline="always")
def add_pairs(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """The sum of two pairs."""
    total = high + other_high
    part = total - high
    error = (high - (total - part)) + (other_high - part) + low + other_low
    rounded = total + error
    # Choices and no branch, so that loops over pairs are vectorised.
    is_finite = np.abs(total) < np.inf
    return (rounded if is_finite else total), (error - (rounded - total) if is_finite else 0.0)


@njit(inline="always")
def square(value: float) -> tuple[float, float]:
    """value * value as a pair."""
    high = value * value
    if not np.isfinite(high) or np.abs(value) > 1e150:
        return high, 0.0
    scaled = _SPLITTER * value
    upper = scaled - (scaled - value)
    lower = value - upper
    return high, ((upper * upper - high) + 2.0 * upper * lower) + lower * lower


@njit(inline="always")
def multiply_pairs(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """The product of two pairs."""
    product = high * other_high
    scaled = _SPLITTER * high
    upper = scaled - (scaled - high)
    lower = high - upper
    scaled = _SPLITTER * other_high
    other_upper = scaled - (scaled - other_high)
    other_lower = other_high - other_upper
    error = ((upper * other_upper - product) + upper * other_lower + lower * other_upper) + lower * other_lower
    error += high * other_low + low * other_high
    rounded = product + error
    return rounded, error - (rounded - product)


@njit(cache=True, nogil=True)
def variance_of_pairs(
    counts: Ints, sum_high: Floats, sum_low: Floats, square_high: Floats, square_low: Floats, sample: int
) -> Floats:
    """(squares - sum**2 / n) / (n - sample) for each window, with the subtraction done in pairs."""
    out = np.full(len(counts), np.nan)
    for i in range(len(counts)):
        n = float(counts[i])
        if n <= sample:
            continue
        if not (np.isfinite(sum_high[i]) and np.isfinite(square_high[i])):
            continue
        # n * squares - sum**2 needs no division before the cancellation.
        left_high, left_low = multiply_pairs(square_high[i], square_low[i], n, 0.0)
        right_high, right_low = multiply_pairs(sum_high[i], sum_low[i], sum_high[i], sum_low[i])
        high, low = add_pairs(left_high, left_low, -right_high, -right_low)
        out[i] = max(high + low, 0.0) / n / (n - sample)
    return out


@njit(cache=True, nogil=True)
def sum_pairs(high: Floats, low: Floats, other_high: Floats, other_low: Floats) -> tuple[Floats, Floats]:
    """The sums of two arrays of pairs."""
    out_high, out_low = np.empty(len(high)), np.empty(len(high))
    for i in range(len(high)):
        out_high[i], out_low[i] = add_pairs(high[i], low[i], other_high[i], other_low[i])
    return out_high, out_low
