"""Double-double arithmetic: a number as an unevaluated pair (high, low) of doubles, about 106 bits.

Sums kept as pairs lose nothing that an answer could show, however many events they run over.
An infinity or a NaN lives in `high` alone, with `low` zero. Source: Dekker 1971; Knuth, TAOCP 2, 4.2.2.

A sum may be greater than any double on its way to an answer that is one. Such a pair is *far*: its parts are 2**32
times smaller than what they stand for, and they change places. In any other pair `low` is below 2**971, in a far one it
is above 2**991, so one comparison finds out. Sums of up to 2**31 doubles are in reach.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FAR = 2.0**980
"""A greater `low` is that of a far pair."""
STEP = 2.0**32
"""What the parts of a far pair are too small by."""
_SPLITTER = 134217729.0  # 2**27 + 1


@njit(inline="always")
def add_near_pairs(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """The sum of two pairs that are not far, nor infinite, nor is their sum: then it is no pair."""
    total = high + other_high
    part = total - high
    error = (high - (total - part)) + (other_high - part) + low + other_low
    rounded = total + error
    return rounded, error - (rounded - total)


@njit(inline="always")
def add_pairs(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """The sum of two pairs."""
    sum_high, sum_low = add_near_pairs(high, low, other_high, other_low)
    if not (np.abs(sum_high) < np.inf and np.abs(low) + np.abs(other_low) < FAR):
        sum_high, sum_low = _add_far_pairs(high, low, other_high, other_low)
    return sum_high, sum_low


@njit(cache=True, nogil=True)
def _add_far_pairs(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """The sum of two pairs where one is far or infinite, or the sum may be."""
    is_far, is_other_far = np.abs(low) >= FAR, np.abs(other_low) >= FAR
    if not (np.isfinite(high) and np.isfinite(other_high)):
        # What is beside an infinity does not count, and may not make a NaN of it.
        return (0.0 if is_far else high) + (0.0 if is_other_far else other_high), 0.0
    one_high, one_low = (low, high) if is_far else (high / STEP, low / STEP)
    two_high, two_low = (other_low, other_high) if is_other_far else (other_high / STEP, other_low / STEP)
    sum_high, sum_low = add_near_pairs(one_high, one_low, two_high, two_low)
    near = sum_high * STEP
    if np.abs(near) < np.inf:
        return near, sum_low * STEP
    return sum_low, sum_high


@njit(inline="always")
def value_of_pair(high: float, low: float, divisor: float) -> float:
    """A pair divided by a number from 1 on, rounded: the sum, or a mean that is in reach though the sum is not."""
    if np.abs(low) >= FAR:
        return (low + high) / divisor * STEP
    # The low part of an infinity or a NaN is 0.
    return (high + low) / divisor


@njit(cache=True, nogil=True)
def values_of_pairs(pairs: tuple[Floats, ...], divisors: Ints) -> Floats:
    """Each pair divided by its number, or by 1 where that is less."""
    high, low = pairs
    out = np.empty(len(high))
    for i in range(len(high)):
        out[i] = value_of_pair(high[i], low[i], float(max(divisors[i], 1)))
    return out


@njit(inline="always")
def multiply(a: float, b: float) -> tuple[float, float]:
    """The product of two doubles without any error, as far as it neither overflows nor underflows."""
    product = a * b
    scaled = _SPLITTER * a
    upper = scaled - (scaled - a)
    lower = a - upper
    scaled = _SPLITTER * b
    other_upper = scaled - (scaled - b)
    other_lower = b - other_upper
    error = ((upper * other_upper - product) + upper * other_lower + lower * other_upper) + lower * other_lower
    return product, error


@njit(inline="always")
def multiply_pairs(high: float, low: float, other_high: float, other_low: float) -> tuple[float, float]:
    """The product of two pairs that are not far."""
    product, error = multiply(high, other_high)
    error += high * other_low + low * other_high
    rounded = product + error
    return rounded, error - (rounded - product)


@njit(inline="always")
def divide_pair(high: float, low: float, divisor_high: float, divisor_low: float) -> float:
    """A pair that is not far divided by another, rounded."""
    quotient = high / divisor_high
    product_high, product_low = multiply_pairs(divisor_high, divisor_low, quotient, 0.0)
    rest_high, rest_low = add_near_pairs(high, low, -product_high, -product_low)
    return quotient + (rest_high + rest_low) / divisor_high


@njit(cache=True, nogil=True)
def sum_pairs(high: Floats, low: Floats, other_high: Floats, other_low: Floats) -> tuple[Floats, Floats]:
    """The sums of two arrays of pairs."""
    out_high, out_low = np.empty(len(high)), np.empty(len(high))
    for i in range(len(high)):
        out_high[i], out_low[i] = add_pairs(high[i], low[i], other_high[i], other_low[i])
    return out_high, out_low
