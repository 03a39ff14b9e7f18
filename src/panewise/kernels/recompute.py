"""Folding ranges of segments element by element, and sorting them: what a structure saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine
from panewise.kernels.pool import Keys, key_at
from panewise.kernels.sorting import sort_with_places

Elements = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]


@njit(cache=True, nogil=True)
def fold_rings(
    operation: int,
    user: Any,
    identity: Any,
    rings: Elements,
    offset: Ints,
    shift: Shifts,
    keys: Keys,
    low: Ints,
    high: Ints,
) -> Elements:
    """The elements of each key's range, combined one after the other."""
    out = np.empty(len(low), rings.dtype)
    for i in range(len(low)):
        total = identity
        if low[i] < high[i]:
            key = key_at(keys, i)
            size = 1 << int(shift[key])
            begin = offset[key] + (low[i] & (size - 1))
            end = offset[key] + size
            # Up to the end of the segment, and then from its beginning on, without a test in the loop.
            until = min(begin + high[i] - low[i], end)
            for at in range(begin, until):
                total = combine(operation, user, total, rings[np.uint64(at)])
            for at in range(end - size, end - size + high[i] - low[i] - (until - begin)):
                total = combine(operation, user, total, rings[np.uint64(at)])
        out[i] = total
    return out


@njit(cache=True, nogil=True)
def _gather_sorted(values: Elements, valid: Bools, at: int, mask: int, low: int, high: int) -> Elements:
    """The values of one range that are not NULL, in order, NaN last."""
    out = np.empty(high - low, values.dtype)
    count = 0
    for t in range(low, high):
        if valid[at + (t & mask)]:
            out[count] = values[at + (t & mask)]
            count += 1
    return sort_with_places(out[:count])[0]


@njit(cache=True, nogil=True)
def select_in_rings(
    values: Elements, valid: Bools, offset: Ints, shift: Shifts, keys: Keys, low: Ints, high: Ints, ranks: Ints
) -> Elements:
    """The value at the 1-based rank of each key's range; zero where the rank is 0."""
    out = np.zeros(len(low), values.dtype)
    for i in range(len(low)):
        if ranks[i] > 0:
            key = key_at(keys, i)
            mask = (1 << int(shift[key])) - 1
            out[i] = _gather_sorted(values, valid, offset[key], mask, low[i], high[i])[ranks[i] - 1]
    return out


@njit(cache=True, nogil=True)
def count_distinct_in_rings(
    values: Elements, valid: Bools, offset: Ints, shift: Shifts, keys: Keys, low: Ints, high: Ints
) -> Ints:
    """The number of different values of each key's range. NaN equals NaN."""
    out = np.zeros(len(low), np.int64)
    for i in range(len(low)):
        if low[i] >= high[i]:
            continue
        key = key_at(keys, i)
        mask = (1 << int(shift[key])) - 1
        run = _gather_sorted(values, valid, offset[key], mask, low[i], high[i])
        for j in range(len(run)):
            if j == 0 or (run[j] != run[j - 1] and (run[j] == run[j] or run[j - 1] == run[j - 1])):
                out[i] += 1
    return out
