"""Exact sums of squares of integers: the square of an int64 as four words of 32 bits, each added up by itself.

No word overflows before 2**31 events, and wrapping arithmetic undoes itself, as for the two words of a sum. A variance
is made of n times the sum of squares less the square of the sum, without any rounding, and of one division.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pairs import add_near_pairs, divide_pair, multiply

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

WORD = np.uint64(0xFFFFFFFF)
BITS = np.uint64(32)
_DIGITS = 8
"""Words of what is subtracted: n * squares stays below 2**(31 + 126 + 31)."""


@njit(inline="always")
def square_words(value: Any) -> tuple[Any, Any, Any, Any]:
    """The square of an int64 as words of 32 bits, the lowest first."""
    if -(2**31) <= value < 2**31:
        square = value * value
        return square & 0xFFFFFFFF, square >> 32, 0, 0
    magnitude = np.uint64(-value) if value < 0 else np.uint64(value)
    upper, lower = magnitude >> BITS, magnitude & WORD
    low, middle, high = lower * lower, upper * lower, upper * upper
    # The middle counts twice: its bits are shifted by 33.
    first = low & WORD
    second = (low >> BITS) + ((middle << np.uint64(1)) & WORD)
    third = (second >> BITS) + (middle >> np.uint64(31)) + (high & WORD)
    fourth = (third >> BITS) + (high >> BITS)
    return np.int64(first), np.int64(second & WORD), np.int64(third & WORD), np.int64(fourth)


@njit(cache=True, nogil=True)
def squares_in_words(values: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The squares of integers as columns of words, the lowest first."""
    out = np.empty((4, len(values)), np.int64)
    for i in range(len(values)):
        out[0, i], out[1, i], out[2, i], out[3, i] = square_words(values[i])
    return out[0], out[1], out[2], out[3]


@njit(inline="always")
def _multiply_digits(a: Words, b: Words, out: Words) -> None:
    """out = a * b, of digits of 32 bits with the lowest first; what does not fit is left out."""
    out[:] = np.uint64(0)
    for i in range(len(a)):
        carry = np.uint64(0)
        for j in range(min(len(b), len(out) - i)):
            digit = a[i] * b[j] + out[i + j] + carry
            out[i + j] = digit & WORD
            carry = digit >> BITS
        if i + len(b) < len(out):
            out[i + len(b)] = carry


@njit(nogil=True)
def _difference(
    count: int, total_high: int, total_low: int, first: int, second: int, third: int, fourth: int
) -> tuple[float, float]:
    """count * squares - total**2 as a pair: exact in digits, and then rounded to about 106 bits."""
    squares = np.zeros(6, np.uint64)
    carry = np.uint64(0)
    for place, word in enumerate((first, second, third, fourth)):
        digit = np.uint64(word) + carry
        squares[place] = digit & WORD
        carry = digit >> BITS
    squares[4], squares[5] = carry & WORD, carry >> BITS
    upper = total_high + (total_low >> 32)
    lower = total_low & 0xFFFFFFFF
    if upper < 0:
        # -(upper * 2**32 + lower), with a lower word that is not negative.
        upper, lower = (-upper - 1, 2**32 - lower) if lower > 0 else (-upper, 0)
    total = np.empty(3, np.uint64)
    total[0], total[1], total[2] = np.uint64(lower), np.uint64(upper) & WORD, np.uint64(upper) >> BITS
    counts = np.empty(2, np.uint64)
    counts[0], counts[1] = np.uint64(count) & WORD, np.uint64(count) >> BITS
    left, right = np.empty(_DIGITS, np.uint64), np.empty(_DIGITS, np.uint64)
    _multiply_digits(squares, counts, left)
    _multiply_digits(total, total, right)
    borrow = np.uint64(0)
    for place in range(_DIGITS):
        taken = right[place] + borrow
        borrow = np.uint64(1) if left[place] < taken else np.uint64(0)
        left[place] = (left[place] + (borrow << BITS)) - taken
    high = low = 0.0
    scale = 2.0 ** (32 * (_DIGITS - 1))
    for place in range(_DIGITS - 1, -1, -1):
        high, low = add_near_pairs(high, low, float(left[place]) * scale, 0.0)
        scale *= 2.0**-32
    return high, low


@njit(cache=True, nogil=True)
def variance_of_integers(
    count: int,
    total_high: int,
    total_low: int,
    first: int,
    second: int,
    third: int,
    fourth: int,
    sample: int,
    is_root: bool,
) -> float:
    """The variance of more than `sample` integers, or its root; the total is total_high * 2**32 + total_low."""
    n = float(count)
    mean_square = n * (float(second) * 2.0**32 + float(first))
    if third == 0 and fourth == 0 and mean_square < 2.0**62:
        # All fits in one word, the square of the total too: it is at most count * squares.
        total = (total_high << 32) + total_low
        difference = count * ((second << 32) + first) - total * total
        whole = float(difference)
        rest = float(difference - np.int64(whole))
    else:
        whole, rest = _difference(count, total_high, total_low, first, second, third, fourth)
    divisor_high, divisor_low = multiply(n, n - sample)
    result = divide_pair(whole, rest, divisor_high, divisor_low)
    return float(np.sqrt(result)) if is_root else result


@njit(cache=True, nogil=True)
def variances_of_integers(
    counts: Ints, totals: tuple[Ints, ...], squares: tuple[Ints, ...], sample: int, is_root: bool
) -> Floats:
    """The variance of each window, or its root; NaN of too few values."""
    total_high, total_low = totals
    first, second, third, fourth = squares
    out = np.full(len(counts), np.nan)
    for i in range(len(counts)):
        if counts[i] > sample:
            out[i] = variance_of_integers(
                counts[i], total_high[i], total_low[i], first[i], second[i], third[i], fourth[i], sample, is_root
            )
    return out
