"""Segments of keys in one array: grouping a batch by key, the ranges of windows, moving segments.

A key's newest elements lie in its segment, a ring of 2**shift places: position t at `offset + (t mod 2**shift)`.
Kernels take the keys of lookups as an array, or as None for a stream without groups, which has key 0 alone. In long
loops places are unsigned: numba then makes no test for places that count from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import overload

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Keys = Ints | None
Shifts = npt.NDArray[np.int8]


def key_at(keys: Keys, i: int) -> int:
    """The key of lookup i. For use inside kernels only."""
    raise NotImplementedError


@overload(key_at, inline="always")
def _key_at(keys: Any, i: Any) -> Any:
    if isinstance(keys, types.NoneType):

        def only_key(keys: Any, i: Any) -> Any:
            return 0

        return only_key

    def given_key(keys: Any, i: Any) -> Any:
        return keys[i]

    return given_key


@njit(cache=True, nogil=True)
def write_rings(
    rings: Elements, offset: Ints, shift: Shifts, keys: Ints, bounds: Ints, begin: Ints, after: Ints, values: Elements
) -> None:
    """Put each key's group of values at positions `begin`, ...; leave out those before `after`."""
    for j in range(len(keys)):
        key = keys[j]
        write_ring(rings, offset[key], 1 << int(shift[key]), values, bounds[j] - begin[j], max(begin[j], after[j]),
                   begin[j] + bounds[j + 1] - bounds[j])  # fmt: skip


@njit(inline="always")
def write_ring(ring: Elements, at: int, size: int, values: Elements, source: int, start: int, end: int) -> None:
    """Put values[source + t] at positions t = start .. end - 1, at most `size` of them, of a segment."""
    place = start & (size - 1)
    # Up to the end of the segment, and then from its beginning on, without a test in the loop.
    until = min(end, start + size - place)
    for t in range(start, until):
        ring[np.uint64(at + place + t - start)] = values[np.uint64(source + t)]
    for t in range(until, end):
        ring[np.uint64(at + t - until)] = values[np.uint64(source + t)]


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
def window_ranges(
    keys: Keys, left: Ints, right: Ints, length: Ints, first: Ints, low: Ints, high: Ints
) -> tuple[int, int]:
    """The positions [low, high) that windows back from the end of each key cover; 0 and 0 where they cover none.

    Returns the number of windows that cover nothing, and the first window that is ill-formed or needs what is no longer
    held; -1 if there is none.
    """
    empty = 0
    for i in range(len(left)):
        key = key_at(keys, i)
        if left[i] < right[i] or right[i] < 0 or left[i] <= 0:
            return empty, i
        elements = length[key] if key < len(length) else 0
        a = max(elements - left[i], 0)
        b = elements - right[i]
        if b <= a:
            empty += 1
            a = b = 0
        elif a < first[key]:
            return empty, i
        low[i] = a
        high[i] = b
    return empty, -1


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
