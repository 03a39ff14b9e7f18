"""Pairs of one key: sums and variances of single windows, as plain numbers in and out.

A pair is one complex number, as in `kernels.operations`. The arithmetic is that of `kernels.pairs`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.kernels.pairs import add_pairs, multiply_pairs


@njit(cache=True, nogil=True)
def add_two_pairs(a: complex, b: complex) -> complex:
    """The sum of two pairs."""
    high, low = add_pairs(a.real, a.imag, b.real, b.imag)
    return complex(high, low)


@njit(cache=True, nogil=True)
def variance_of_one(count: int, total: complex, squares: complex, sample: int) -> float:
    """(squares - total**2 / count) / (count - sample) of more than `sample` values, as `variance_of_pairs` has it."""
    if not (np.isfinite(total.real) and np.isfinite(squares.real)):
        return np.nan
    n = float(count)
    left_high, left_low = multiply_pairs(squares.real, squares.imag, n, 0.0)
    right_high, right_low = multiply_pairs(total.real, total.imag, total.real, total.imag)
    high, low = add_pairs(left_high, left_low, -right_high, -right_low)
    return max(high + low, 0.0) / n / (n - sample)
