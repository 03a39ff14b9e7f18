"""Folding ranges of a ring element by element: what a structure saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine
from panewise.kernels.rings import place
from panewise.kernels.sorting import sort_with_places

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def fold_plainly(operation: int, user: Any, identity: Any, ring: Elements, lap: int, low: Ints, high: Ints) -> Elements:
    """The elements of each range, combined one after the other."""
    out = np.empty(len(low), ring.dtype)
    size = len(ring)
    for i in range(len(low)):
        at = place(low[i], lap, size)
        total = identity
        for _ in range(high[i] - low[i]):
            total = combine(operation, user, total, ring[at])
            at += 1
            if at == size:
                at = 0
        out[i] = total
    return out


@njit(cache=True, nogil=True)
def gather_valid(values: Elements, valid: npt.NDArray[np.bool_], lap: int, low: int, high: int) -> Elements:
    """The values of one range that are not NULL."""
    out = np.empty(high - low, values.dtype)
    count = 0
    for i in range(low, high):
        at = place(i, lap, len(values))
        if valid[at]:
            out[count] = values[at]
            count += 1
    return out[:count]


@njit(cache=True, nogil=True)
def select_plainly(
    values: Elements, valid: npt.NDArray[np.bool_], lap: int, low: Ints, high: Ints, ranks: Ints
) -> Elements:
    """The value at each range's 1-based rank, NaN last; zero where the rank is 0."""
    out = np.zeros(len(low), values.dtype)
    for i in range(len(low)):
        if ranks[i] > 0:
            out[i] = sort_with_places(gather_valid(values, valid, lap, low[i], high[i]))[0][ranks[i] - 1]
    return out


@njit(cache=True, nogil=True)
def count_distinct_plainly(values: Elements, valid: npt.NDArray[np.bool_], lap: int, low: Ints, high: Ints) -> Ints:
    """The number of different values of each range. NaN equals NaN."""
    out = np.zeros(len(low), np.int64)
    for i in range(len(low)):
        run = sort_with_places(gather_valid(values, valid, lap, low[i], high[i]))[0]
        for j in range(len(run)):
            if j == 0 or (run[j] != run[j - 1] and (run[j] == run[j] or run[j - 1] == run[j - 1])):
                out[i] += 1
    return out
