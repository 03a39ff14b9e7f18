"""Folding ranges of many keys element by element, and sorting them: what a structure saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine
from panewise.kernels.sorting import sort_with_places

Elements = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]


@njit(cache=True, nogil=True)
def write_rings(
    rings: Elements, offset: Ints, shift: Shifts, keys: Ints, bounds: Ints, begin: Ints, after: Ints, values: Elements
) -> None:
    """Put each key's group of values at positions `begin`, ...; leave out those before `after`."""
    for j in range(len(keys)):
        key = keys[j]
        mask = (1 << int(shift[key])) - 1
        source = bounds[j] - begin[j]
        for t in range(max(begin[j], after[j]), bounds[j + 1] - source):
            rings[offset[key] + (t & mask)] = values[source + t]


@njit(cache=True, nogil=True)
def fold_rings(
    operation: int,
    user: Any,
    identity: Any,
    rings: Elements,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    low: Ints,
    high: Ints,
) -> Elements:
    """The elements of each key's range, combined one after the other."""
    out = np.empty(len(keys), rings.dtype)
    for i in range(len(keys)):
        total = identity
        if low[i] < high[i]:
            at = offset[keys[i]]
            mask = (1 << int(shift[keys[i]])) - 1
            for t in range(low[i], high[i]):
                total = combine(operation, user, total, rings[at + (t & mask)])
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
    values: Elements, valid: Bools, offset: Ints, shift: Shifts, keys: Ints, low: Ints, high: Ints, ranks: Ints
) -> Elements:
    """The value at the 1-based rank of each key's range; zero where the rank is 0."""
    out = np.zeros(len(keys), values.dtype)
    for i in range(len(keys)):
        if ranks[i] > 0:
            mask = (1 << int(shift[keys[i]])) - 1
            out[i] = _gather_sorted(values, valid, offset[keys[i]], mask, low[i], high[i])[ranks[i] - 1]
    return out


@njit(cache=True, nogil=True)
def count_distinct_in_rings(
    values: Elements, valid: Bools, offset: Ints, shift: Shifts, keys: Ints, low: Ints, high: Ints
) -> Ints:
    """The number of different values of each key's range. NaN equals NaN."""
    out = np.zeros(len(keys), np.int64)
    for i in range(len(keys)):
        if low[i] >= high[i]:
            continue
        mask = (1 << int(shift[keys[i]])) - 1
        run = _gather_sorted(values, valid, offset[keys[i]], mask, low[i], high[i])
        for j in range(len(run)):
            if j == 0 or (run[j] != run[j - 1] and (run[j] == run[j] or run[j - 1] == run[j - 1])):
                out[i] += 1
    return out
