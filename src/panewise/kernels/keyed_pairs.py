"""Pairs of one key, and sums of squares, as plain numbers in and out.

A pair is one complex number, as in `kernels.operations`. The arithmetic is that of `kernels.pairs` and
`kernels.squares`.
"""

from __future__ import annotations

from numba import njit

from panewise.kernels.pairs import add_pairs, value_of_pair
from panewise.kernels.squares import Squares, add_squares


@njit(cache=True, nogil=True)
def add_two_pairs(a: complex, b: complex) -> complex:
    """The sum of two pairs."""
    high, low = add_pairs(a.real, a.imag, b.real, b.imag)
    return complex(high, low)


@njit(cache=True, nogil=True)
def value_of_one(pair: complex, divisor: float) -> float:
    """A pair divided by a number from 1 on, rounded."""
    return value_of_pair(pair.real, pair.imag, divisor)


@njit(cache=True, nogil=True)
def add_two_squares(a: Squares, b: Squares) -> Squares:
    """The sum of two sums of squares."""
    return add_squares(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3])
