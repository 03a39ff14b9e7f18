"""Lifting: events into partials. Each kernel adds the values of one input to one component's columns.

`index[i]` is the partial that event i belongs to. `valid` is empty when no value is NULL, so that one kernel
serves both cases.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from weft.kernels.pairs import add_pairs, square

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
def lift_sum_float(index: Ints, values: Floats, valid: Bools, high: Floats, low: Floats, squared: bool) -> None:
    """Add doubles, or their squares, as pairs."""
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        g = index[i]
        if squared:
            value_high, value_low = square(values[i])
            high[g], low[g] = add_pairs(high[g], low[g], value_high, value_low)
        else:
            high[g], low[g] = add_pairs(high[g], low[g], values[i], 0.0)


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
        # A choice and no branch: which events are better cannot be foretold.
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
