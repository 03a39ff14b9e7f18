"""Sums of squares of doubles that a variance can be made of, whatever the mean and the magnitude.

The square of a double has up to 106 bits, and n times the sum of squares less the square of the sum cancels as many
where the values lie close together. So a square is a rounded double and what rounding left, which is a double too, and
each is added up as a pair: *squares* and *rests*. Values that are within a factor of 2**25 / sqrt(n) of each other are
multiples of one unit that both pairs reach down to: sums of their squares have no error at all. Where values are
farther apart their variance is at least 1 / 2n of the mean of their squares, and what pairs round off does not show.

Squares have twice the exponents of their values. So where the greatest |x| is from 2**450 on, squares are those of
x * 2**-600, and where it is below 2**-350, those of x * 2**600: the sum is *large* or *small*. It says so itself: its
parts change places, and those of a small one change their sign too. No other sum has its greater part behind.
One NaN or infinity makes the sum NaN. Cost: two additions of pairs for each value and for each combine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pairs import FAR, STEP, add_near_pairs, divide_pair, multiply, multiply_pairs

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Squares = tuple[float, float, float, float]
"""Squares and rests: high and low part of each."""

Columns = tuple[Floats, ...]
"""The same of many sums, in an array each."""

MOST, LEAST = 2.0**450, 2.0**-350
"""From the one on values are large, below the other small."""
SCALE = 2.0**600
"""What small values are multiplied by, and large ones divided."""
ENOUGH = 2.0**-30
"""While so much of n times the sum of squares remains, a difference of pairs has all digits of a double."""


@njit(inline="always")
def is_common(value: float) -> bool:
    """Whether a value is neither large nor small nor NaN."""
    magnitude = np.abs(value)
    return bool(LEAST <= magnitude < MOST or magnitude == 0.0)


@njit(cache=True, nogil=True)
def square_any(value: float) -> Squares:
    """The square of any double."""
    if not np.isfinite(value):
        return np.nan, 0.0, 0.0, 0.0
    if is_common(value):
        square, rest = multiply(value, value)
        return square, 0.0, rest, 0.0
    if np.abs(value) >= MOST:
        square, rest = multiply(value / SCALE, value / SCALE)
        return 0.0, square, rest, 0.0
    square, rest = multiply(value * SCALE, value * SCALE)
    return -0.0, -square, rest, 0.0


@njit(inline="always")
def add_squares(
    high: float,
    low: float,
    rest_high: float,
    rest_low: float,
    other_high: float,
    other_low: float,
    other_rest_high: float,
    other_rest_low: float,
) -> Squares:
    """The sum of two sums of squares."""
    if np.abs(low) > np.abs(high) or np.abs(other_low) > np.abs(other_high):
        return _add_scaled(
            high, low, rest_high, rest_low, other_high, other_low, other_rest_high, other_rest_low
        )  # fmt: skip
    sum_high, sum_low = add_near_pairs(high, low, other_high, other_low)
    sum_rest_high, sum_rest_low = add_near_pairs(rest_high, rest_low, other_rest_high, other_rest_low)
    return sum_high, sum_low, sum_rest_high, sum_rest_low


@njit(inline="always")
def add_square(high: float, low: float, rest_high: float, rest_low: float, value: float) -> Squares:
    """A sum of squares with that of one more value."""
    if np.abs(low) > np.abs(high) or not is_common(value):
        return _add_any(high, low, rest_high, rest_low, value)
    square, rest = multiply(value, value)
    sum_high, sum_low = add_near_pairs(high, low, square, 0.0)
    sum_rest_high, sum_rest_low = add_near_pairs(rest_high, rest_low, rest, 0.0)
    return sum_high, sum_low, sum_rest_high, sum_rest_low


@njit(cache=True, nogil=True)
def _add_any(high: float, low: float, rest_high: float, rest_low: float, value: float) -> Squares:
    """The same where one of the two is large, small or NaN."""
    square_high, square_low, square_rest, _ = square_any(value)
    return _add_scaled(high, low, rest_high, rest_low, square_high, square_low, square_rest, 0.0)


@njit(inline="always")
def _class_of(high: float, low: float) -> int:
    """1 of a large sum, -1 of a small one, else 0."""
    if np.abs(low) > np.abs(high):
        return 1 if low > 0.0 else -1
    return 0


@njit(inline="always")
def _parts_of(high: float, low: float) -> tuple[float, float]:
    """The parts of a sum in the usual order and with their own sign."""
    if np.abs(low) > np.abs(high):
        return (low, high) if low > 0.0 else (-low, -high)
    return high, low


@njit(cache=True, nogil=True)
def _add_scaled(
    high: float,
    low: float,
    rest_high: float,
    rest_low: float,
    other_high: float,
    other_low: float,
    other_rest_high: float,
    other_rest_low: float,
) -> Squares:
    """The sum of two sums of squares of which one is large or small: it is what the greater one is."""
    if high != high or other_high != other_high:
        return np.nan, 0.0, 0.0, 0.0
    if high == 0.0 and low == 0.0:
        return other_high, other_low, other_rest_high, other_rest_low
    if other_high == 0.0 and other_low == 0.0:
        return high, low, rest_high, rest_low
    one, other = _class_of(high, low), _class_of(other_high, other_low)
    most = max(one, other)
    high, low = _parts_of(high, low)
    other_high, other_low = _parts_of(other_high, other_low)
    # What underflows here is too little beside the greater one to be seen.
    for _ in range(2 * (most - one)):
        high, low, rest_high, rest_low = high / SCALE, low / SCALE, rest_high / SCALE, rest_low / SCALE
    for _ in range(2 * (most - other)):
        other_high, other_low = other_high / SCALE, other_low / SCALE
        other_rest_high, other_rest_low = other_rest_high / SCALE, other_rest_low / SCALE
    sum_high, sum_low = add_near_pairs(high, low, other_high, other_low)
    sum_rest_high, sum_rest_low = add_near_pairs(rest_high, rest_low, other_rest_high, other_rest_low)
    if most > 0:
        return sum_low, sum_high, sum_rest_high, sum_rest_low
    if most < 0:
        return -sum_low, -sum_high, sum_rest_high, sum_rest_low
    return sum_high, sum_low, sum_rest_high, sum_rest_low


@njit(cache=True, nogil=True)
def sum_squares(squares: Columns, others: Columns) -> Columns:
    """The sums of two arrays of sums of squares."""
    high, low, rest_high, rest_low = squares
    out = np.empty((4, len(high)))
    other_high, other_low, other_rest_high, other_rest_low = others
    for i in range(len(high)):
        out[0, i], out[1, i], out[2, i], out[3, i] = add_squares(
            high[i], low[i], rest_high[i], rest_low[i],
            other_high[i], other_low[i], other_rest_high[i], other_rest_low[i],
        )  # fmt: skip
    return out[0], out[1], out[2], out[3]


@njit(cache=True, nogil=True)
def squares_of(values: Floats) -> Squares:
    """The sum of the squares of some doubles."""
    high = low = rest_high = rest_low = 0.0
    for i in range(len(values)):
        high, low, rest_high, rest_low = add_square(high, low, rest_high, rest_low, values[i])
    return high, low, rest_high, rest_low


@njit(cache=True, nogil=True)
def squares_as_pairs(values: Floats) -> tuple[npt.NDArray[np.complex128], npt.NDArray[np.complex128]]:
    """The squares of doubles and their rests, as columns of pairs that are added up apart.

    Apart from each other they cannot be large or small: the square of such a value is infinite.
    """
    squares, rests = np.empty(len(values), np.complex128), np.empty(len(values), np.complex128)
    for i in range(len(values)):
        square, rest = multiply(values[i], values[i])
        if not is_common(values[i]):
            square, rest = np.inf if np.isfinite(values[i]) else np.nan, 0.0
        squares[i] = complex(square, 0.0)
        rests[i] = complex(rest, 0.0)
    return squares, rests


@njit(nogil=True)
def _difference_of_squares(
    n: float, total: float, rest: float, high: float, low: float, rest_high: float, rest_low: float
) -> tuple[float, float]:
    """n * squares - total**2 with every digit of a double, whatever cancels: all products are added without error."""
    terms = np.empty(14)
    terms[0], terms[1] = multiply(n, high)
    terms[2], terms[3] = multiply(n, low)
    terms[4], terms[5] = multiply(n, rest_high)
    terms[6], terms[7] = multiply(n, rest_low)
    terms[8], terms[9] = multiply(-total, total)
    terms[10], terms[11] = multiply(-2.0 * total, rest)
    terms[12], terms[13] = multiply(-rest, rest)
    # Each sweep leaves what additions rounded off behind, and the sum unchanged (Ogita, Rump and Oishi, 2005).
    for _ in range(5):
        for i in range(1, 14):
            a, b = terms[i - 1], terms[i]
            terms[i] = a + b
            part = terms[i] - a
            terms[i - 1] = (a - (terms[i] - part)) + (b - part)
    left = 0.0
    for i in range(13):
        left += terms[i]
    whole = terms[13] + left
    return whole, left - (whole - terms[13])


@njit(cache=True, nogil=True)
def variance(
    count: int,
    total_high: float,
    total_low: float,
    high: float,
    low: float,
    rest_high: float,
    rest_low: float,
    sample: int,
    is_root: bool,
) -> float:
    """(squares - total**2 / count) / (count - sample) of more than `sample` values, or its root.

    The total is a pair as in `kernels.pairs`. NaN where a value is one, or infinite.
    """
    if high != high or not np.isfinite(total_high):
        return np.nan
    n = float(count)
    kind = _class_of(high, low)
    high, low = _parts_of(high, low)
    if np.abs(total_low) >= FAR:
        total_high, total_low = total_low / SCALE * STEP, total_high / SCALE * STEP
    elif kind > 0:
        total_high, total_low = total_high / SCALE, total_low / SCALE
    elif kind < 0:
        total_high, total_low = total_high * SCALE, total_low * SCALE
    square_high, square_low = add_near_pairs(high, low, rest_high, rest_low)
    left_high, left_low = multiply_pairs(square_high, square_low, n, 0.0)
    right_high, right_low = multiply_pairs(total_high, total_low, total_high, total_low)
    whole, rest = add_near_pairs(left_high, left_low, -right_high, -right_low)
    if not whole > ENOUGH * left_high:
        whole, rest = _difference_of_squares(n, total_high, total_low, high, low, rest_high, rest_low)
    if whole <= 0.0:
        return 0.0
    divisor_high, divisor_low = multiply(n, n - sample)
    result = divide_pair(whole, rest, divisor_high, divisor_low)
    if is_root:
        result = np.sqrt(result)
    for _ in range(1 if is_root else 2):
        result = result * SCALE if kind > 0 else result / SCALE if kind < 0 else result
    return result


@njit(cache=True, nogil=True)
def variances(counts: Ints, totals: Columns, squares: Columns, sample: int, is_root: bool) -> Floats:
    """The variance of each window, or its root; NaN of too few values."""
    total_high, total_low = totals
    high, low, rest_high, rest_low = squares
    out = np.full(len(counts), np.nan)
    for i in range(len(counts)):
        if counts[i] > sample:
            out[i] = variance(
                counts[i], total_high[i], total_low[i], high[i], low[i], rest_high[i], rest_low[i], sample, is_root
            )
    return out
