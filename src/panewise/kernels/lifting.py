"""Lifting: events into partials. Each kernel adds the values of one input to one component's columns.

`index[i]` is the partial that event i belongs to. `valid` is empty when no value is NULL, so that one kernel
serves both cases.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.integer_squares import square_words
from panewise.kernels.pairs import add_pairs
from panewise.kernels.squares import add_square

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@njit(cache=True, nogil=True)
def lift_count(index: Ints, valid: Bools, out: Ints) -> None:
    """Count the values that are not NULL."""
    if len(valid) == 0:
        for i in range(len(index)):
            out[index[i]] += 1
    else:
        for i in range(len(index)):
            out[index[i]] += valid[i]


@njit(cache=True, nogil=True)
def lift_sum_int(index: Ints, values: Ints, valid: Bools, high: Ints, low: Ints) -> None:
    """Add integers as high and low words, which do not overflow."""
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        high[index[i]] += values[i] >> 32
        low[index[i]] += values[i] & 0xFFFFFFFF


@njit(cache=True, nogil=True)
def lift_sum_float(index: Ints, values: Floats, valid: Bools, high: Floats, low: Floats) -> None:
    """Add doubles as pairs."""
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        g = index[i]
        high[g], low[g] = add_pairs(high[g], low[g], values[i], 0.0)


@njit(cache=True, nogil=True)
def lift_squares(index: Ints, values: Floats, valid: Bools, squares: tuple[Floats, ...]) -> None:
    """Add the squares of doubles."""
    high, low, rest_high, rest_low = squares
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        g = index[i]
        high[g], low[g], rest_high[g], rest_low[g] = add_square(high[g], low[g], rest_high[g], rest_low[g], values[i])


@njit(cache=True, nogil=True)
def lift_squares_int(index: Ints, values: Ints, valid: Bools, words: tuple[Ints, ...]) -> None:
    """Add the squares of integers as words, which do not overflow."""
    first, second, third, fourth = words
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        g = index[i]
        one, two, three, four = square_words(values[i])
        first[g] += one
        second[g] += two
        if three | four:
            third[g] += three
            fourth[g] += four


@njit(cache=True, nogil=True)
def lift_extreme_int(index: Ints, values: Ints, valid: Bools, out: Ints, greatest: bool) -> None:
    """Keep the least or the greatest integer."""
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        g = index[i]
        value, best = values[i], out[g]
        is_better = value > best if greatest else value < best
        if has_nulls:
            is_better &= valid[i]
        # A choice instead of a branch: nobody can predict which events are better.
        out[g] = value if is_better else best


@njit(cache=True, nogil=True)
def lift_extreme_float(index: Ints, values: Floats, valid: Bools, out: Floats, greatest: bool) -> None:
    """Keep the least or the greatest double; NaN is above all numbers."""
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        g = index[i]
        value, best = values[i], out[g]
        # A number that does not equal itself is NaN.
        is_better = (value > best) | (value != value) if greatest else (value < best) | (best != best)
        if has_nulls:
            is_better &= valid[i]
        out[g] = value if is_better else best
