"""Kept multisets: the sorted (item, count) pairs of each key; others are merged into them or taken from them.

The pairs of a key lie together, with room behind them. A key that outgrows its room moves to the end. Cost: O(pairs) of
each changed key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.sorting import comes_before

Ints = npt.NDArray[np.int64]
Items = npt.NDArray[Any]


@njit(cache=True, nogil=True)
def merge_into(
    keys: Ints, items: Items, counts: Ints, offsets: Ints, done: int,
    places: Ints, held_items: Items, held_counts: Ints, end: int,
) -> tuple[int, int]:  # fmt: skip
    """Merge the multiset of each key into what is held of it, from key number `done` on.

    `places` has where a key's pairs begin, how many there are and room for how many; nothing lies from `end` on.
    Returns how many keys are done, fewer than all if there is no room at the end, and the new end.
    """
    for i in range(done, len(keys)):
        begin, length, room = places[0, keys[i]], places[1, keys[i]], places[2, keys[i]]
        both = length + offsets[i + 1] - offsets[i]
        if both > room:
            room = both + both // 2
            if end + room > len(held_items):
                return i, end
            for j in range(length):
                held_items[end + j], held_counts[end + j] = held_items[begin + j], held_counts[begin + j]
            begin, end = end, end + room
        # From the back, so that nothing is overwritten before it is read.
        out, left, right = begin + both, begin + length - 1, offsets[i + 1] - 1
        while right >= offsets[i]:
            out -= 1
            if left >= begin and comes_before(items[right], held_items[left]):
                held_items[out], held_counts[out] = held_items[left], held_counts[left]
                left -= 1
                continue
            held, more = items[right], counts[right]
            if left >= begin and not comes_before(held_items[left], held):
                more += held_counts[left]
                left -= 1
            held_items[out], held_counts[out] = held, more
            right -= 1
        # Pairs that were in both leave a gap before those that were merged.
        gap = out - left - 1
        for j in range(out, begin + both if gap else out):
            held_items[j - gap], held_counts[j - gap] = held_items[j], held_counts[j]
        places[0, keys[i]], places[1, keys[i]], places[2, keys[i]] = begin, both - gap, room
    return len(keys), end


@njit(cache=True, nogil=True)
def take_from(
    keys: Ints, items: Items, counts: Ints, offsets: Ints, places: Ints, held_items: Items, held_counts: Ints
) -> None:
    """Take the multiset of each key off what is held of it, which has all of it."""
    for i in range(len(keys)):
        begin = places[0, keys[i]]
        out, taken = begin, offsets[i]
        for j in range(begin, begin + places[1, keys[i]]):
            item, count = held_items[j], held_counts[j]
            if taken < offsets[i + 1] and not comes_before(item, items[taken]):
                count -= counts[taken]
                taken += 1
            if count > 0:
                held_items[out], held_counts[out] = item, count
                out += 1
        places[1, keys[i]] = out - begin
