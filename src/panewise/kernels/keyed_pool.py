"""Segments of many keys in one array: grouping a batch by key, the ranges of windows, moving segments.

A key's newest elements lie in its segment, a ring of 2**shift places: position t at `offset + (t mod 2**shift)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]


@njit(cache=True, nogil=True)
def group_by_key(codes: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """A stable counting sort that costs the batch alone, however many keys there are.

    Returns the keys of the batch in order of first arrival, where the group of each begins (and the last ends), and the
    places of the elements, group after group. `counts` has a zero for each key, before and after.
    """
    keys = np.empty(min(len(codes), len(counts)), np.int64)
    found = 0
    for i in range(len(codes)):
        key = codes[i]
        if counts[key] == 0:
            keys[found] = key
            found += 1
        counts[key] += 1
    bounds = np.empty(found + 1, np.int64)
    total = 0
    for j in range(found):
        bounds[j] = total
        total += counts[keys[j]]
        counts[keys[j]] = bounds[j]
    bounds[found] = total
    order = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        key = codes[i]
        order[counts[key]] = i
        counts[key] += 1
    for j in range(found):
        counts[keys[j]] = 0
    return keys[:found].copy(), bounds, order


@njit(cache=True, nogil=True)
def key_ranges(keys: Ints, left: Ints, right: Ints, length: Ints, first: Ints, low: Ints, high: Ints) -> int:
    """The positions [low, high) that windows back from the end of each key cover; 0 and 0 where they cover none.

    Returns the first window that is ill-formed or needs what is no longer held; -1 if there is none.
    """
    for i in range(len(keys)):
        key = keys[i]
        if left[i] < right[i] or right[i] < 0 or left[i] <= 0:
            return i
        elements = length[key] if key < len(length) else 0
        a = max(elements - left[i], 0)
        b = elements - right[i]
        if b <= a:
            a = b = 0
        elif a < first[key]:
            return i
        low[i] = a
        high[i] = b
    return -1


@njit(cache=True, nogil=True)
def move_rings(
    source: Elements,
    target: Elements,
    old_offset: Ints,
    old_shift: Shifts,
    new_offset: Ints,
    new_shift: Shifts,
    first: Ints,
    length: Ints,
) -> None:
    """Copy positions first .. length - 1 of each moved segment to their places in the new one."""
    for j in range(len(old_offset)):
        old_mask = (1 << old_shift[j]) - 1
        new_mask = (1 << new_shift[j]) - 1
        for t in range(first[j], length[j]):
            target[new_offset[j] + (t & new_mask)] = source[old_offset[j] + (t & old_mask)]


@njit(cache=True, nogil=True)
def find_overlap(starts: Ints, sizes: Ints, total: int) -> int:
    """The first of some segments that begins before the one before it ends; -1 if they cover 0 .. total - 1 once."""
    end = 0
    for j in range(len(starts)):
        if starts[j] != end:
            return j
        end += sizes[j]
    return -1 if end == total else len(starts)
