"""Folding: the partials of many overlapping row ranges, each combine done a constant number of times.

Ranges [low[i], high[i]) come in runs with both ends non-decreasing (the instances of one window over one key); where
`low` starts a new run, it starts at or after the previous end. Two stacks hold a run's rows: suffix folds of the front
ones and one fold of the back ones, so any associative combine costs O(1) amortised per row and per range and nothing
is ever subtracted. Source: the two-stacks queue, as in Tangwongsan, Hirzel and Schneider, DEBS 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import is_greater
from panewise.kernels.pairs import add_pairs
from panewise.kernels.squares import add_squares

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def prefix_sums(values: Ints) -> Ints:
    """The sums of the first 0, 1, ... values. They may wrap; their differences are still right."""
    prefix = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=prefix[1:])
    return prefix


@njit(cache=True, nogil=True)
def fold_sum_int(prefix: Ints, low: Ints, high: Ints) -> Ints:
    """Sums by differences of prefix sums."""
    out = np.empty(len(low), np.int64)
    for i in range(len(low)):
        out[i] = prefix[high[i]] - prefix[low[i]]
    return out


@njit(cache=True, nogil=True)
def fold_sum_pairs(values_high: Floats, values_low: Floats, low: Ints, high: Ints) -> tuple[Floats, Floats]:
    """Sums of pairs."""
    out_high = np.empty(len(low))
    out_low = np.empty(len(low))
    front_high = np.empty(len(values_high))
    front_low = np.empty(len(values_high))
    middle = end = 0
    back_high = back_low = 0.0
    for i in range(len(low)):
        if low[i] >= middle:
            # The front is used up, or a new run begins: all rows up to the range's end move to the front.
            middle = end = high[i]
            fold_high = fold_low = 0.0
            for j in range(middle - 1, low[i] - 1, -1):
                fold_high, fold_low = add_pairs(values_high[j], values_low[j], fold_high, fold_low)
                front_high[j] = fold_high
                front_low[j] = fold_low
            back_high = back_low = 0.0
        for j in range(end, high[i]):
            back_high, back_low = add_pairs(back_high, back_low, values_high[j], values_low[j])
        end = high[i]
        out_high[i], out_low[i] = add_pairs(front_high[low[i]], front_low[low[i]], back_high, back_low)
    return out_high, out_low


@njit(cache=True, nogil=True)
def fold_squares(squares: tuple[Floats, ...], begins: Ints, ends: Ints) -> tuple[Floats, ...]:
    """Sums of sums of squares. The additions of both pairs run side by side, so that two take little more than one."""
    high, low, rest_high, rest_low = squares
    out = np.empty((4, len(begins)))
    front = np.empty((len(high), 4))
    middle = end = 0
    back = (0.0, 0.0, 0.0, 0.0)
    for i in range(len(begins)):
        if begins[i] >= middle:
            middle = end = ends[i]
            fold = (0.0, 0.0, 0.0, 0.0)
            for j in range(middle - 1, begins[i] - 1, -1):
                fold = add_squares(
                    high[j], low[j], rest_high[j], rest_low[j], fold[0], fold[1], fold[2], fold[3]
                )  # fmt: skip
                front[j, 0], front[j, 1], front[j, 2], front[j, 3] = fold
            back = (0.0, 0.0, 0.0, 0.0)
        for j in range(end, ends[i]):
            back = add_squares(back[0], back[1], back[2], back[3], high[j], low[j], rest_high[j], rest_low[j])
        end = ends[i]
        first = front[begins[i]]
        out[0, i], out[1, i], out[2, i], out[3, i] = add_squares(
            first[0], first[1], first[2], first[3], back[0], back[1], back[2], back[3]
        )
    return out[0], out[1], out[2], out[3]


@njit(cache=True, nogil=True)
def fold_extreme(values: npt.NDArray[Any], low: Ints, high: Ints, greatest: bool) -> npt.NDArray[Any]:
    """The least or the greatest value of each range; NaN is above all numbers."""
    out = np.empty(len(low), values.dtype)
    front = np.empty(len(values), values.dtype)
    middle = end = 0
    back = 0  # row of the best value behind the front, or -1
    for i in range(len(low)):
        if low[i] >= middle:
            middle = end = high[i]
            for j in range(middle - 1, low[i] - 1, -1):
                front[j] = values[j]
                if j + 1 < middle and is_greater(front[j + 1], values[j]) == greatest:
                    front[j] = front[j + 1]
            back = -1
        for j in range(end, high[i]):
            if back < 0 or is_greater(values[j], values[back]) == greatest:
                back = j
        end = high[i]
        best = front[low[i]]
        if back >= 0 and is_greater(values[back], best) == greatest:
            best = values[back]
        out[i] = best
    return out
