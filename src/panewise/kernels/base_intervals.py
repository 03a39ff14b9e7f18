"""Base intervals: combinations of 1, 2, 4, ... neighbouring elements, each level a ring of its own.

Interval k of level j covers positions k * 2**j .. (k + 1) * 2**j - 1. All levels lie end to end in one array; `offsets`
says where each begins, the next offset where it ends, and `laps` is the newest multiple of its size (see `rings`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def extend_levels(
    operation: int, user: Any, levels: Elements, offsets: Ints, length: int, new_length: int, oldest: int
) -> None:
    """Complete the intervals that end in (length, new_length] and begin at `oldest` or later; level 0 is filled."""
    for level in range(1, len(offsets) - 1):
        first = max(length >> level, (oldest + (1 << level) - 1) >> level)
        last = new_length >> level
        if last <= first:
            continue
        size = offsets[level + 1] - offsets[level]
        below_size = offsets[level] - offsets[level - 1]
        above = levels[offsets[level] : offsets[level + 1]]
        below = levels[offsets[level - 1] : offsets[level]]
        number = first
        while number < last:
            at = number % size
            left = (2 * number) % below_size
            # Combine as many as need no test for the ends of the rings, or one alone whose halves lie at both ends.
            run = min(last - number, size - at, (below_size - left) // 2)
            source = below[left : left + 2 * run]
            target = above[at : at + run]
            for i in range(run):
                target[i] = combine(operation, user, source[2 * i], source[2 * i + 1])
            if run == 0:
                above[at] = combine(operation, user, below[left], below[0])
                run = 1
            number += run


@njit(cache=True, nogil=True)
def fold_levels(
    operation: int, user: Any, identity: Any, levels: Elements, offsets: Ints, laps: Ints, low: Ints, high: Ints
) -> Elements:
    """Combine the cover of each range: at most two intervals a level, found from the bits of its ends."""
    out = np.empty(len(low), levels.dtype)
    for i in range(len(low)):
        a = low[i]
        b = high[i]
        front = identity
        back = identity
        level = 0
        while a < b:
            base = offsets[level]
            size = offsets[level + 1] - base
            lap = laps[level]
            # Read and combine both, whether they belong to the cover or not: which of them do is as good as random,
            # and a branch that is guessed wrong costs more.
            left = a - lap
            left += size if left < 0 else 0
            left -= size if left >= size else 0
            right = b - 1 - lap
            right += size if right < 0 else 0
            longer_front = combine(operation, user, front, levels[np.uint64(base + left)])
            longer_back = combine(operation, user, levels[np.uint64(base + right)], back)
            front = longer_front if a & 1 else front
            back = longer_back if b & 1 else back
            a = (a + 1) >> 1
            b >>= 1
            level += 1
        out[i] = combine(operation, user, front, back)
    return out


def cover(low: int, high: int) -> list[tuple[int, int]]:
    """The fewest base intervals that make up positions low .. high - 1, as (level, number), from left to right.

    >>> [(k << j, ((k + 1) << j) - 1) for j, k in cover(0, 43)]
    [(0, 31), (32, 39), (40, 41), (42, 42)]
    """
    front: list[tuple[int, int]] = []
    back: list[tuple[int, int]] = []
    level = 0
    while low < high:
        if low & 1:
            front.append((level, low))
            low += 1
        if high & 1:
            high -= 1
            back.append((level, high))
        low, high, level = low >> 1, high >> 1, level + 1
    return front + back[::-1]
