"""Segments: pieces of one large array, each a power of two long, handed out and taken back.

A segment that was given back carries the start of the next free one of its size in its first place, so that free
segments need no memory of their own. When an array is used up, the caller makes it longer; what is in it stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Pool = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

# Columns of the row of a heap.
HEAP_OFFSET, HEAP_LOG_SIZE, HEAP_SIZE = 0, 1, 2

TOP = 63
"""Where a list of free segments holds how much of the array was ever handed out."""


def no_segments() -> Ints:
    """The list of free segments of an array when nothing of it is handed out."""
    free = np.full(TOP + 1, -1, np.int64)
    free[TOP] = 0
    return free


@njit(cache=True, nogil=True)
def take_segment(pool: Pool, free: Ints, log_size: int) -> int:
    """The start of a segment of 2**log_size places; -1 when the array must be made longer first."""
    first = free[log_size]
    if first >= 0:
        free[log_size] = pool[first]
        return int(first)
    start = free[TOP]
    end = start + (1 << log_size)
    if end > len(pool):
        return -1
    free[TOP] = end
    return int(start)


@njit(cache=True, nogil=True)
def give_segment(pool: Pool, free: Ints, start: int, log_size: int) -> None:
    """Take a segment back."""
    pool[start] = free[log_size]
    free[log_size] = start


@njit(cache=True, nogil=True)
def take_place(row: Ints, pool: Pool, beside: Pool, free: Ints, least_log_size: int) -> int:
    """Give a heap one more place at its end, in a segment twice as long if it must; -1 when the pool is used up.

    The row of a heap has the start of its segment, -1 for none, the size of that, and how many entries it has. The
    entries lie in two arrays that share segments.
    """
    offset, log_size, size = row[HEAP_OFFSET], row[HEAP_LOG_SIZE], row[HEAP_SIZE]
    if offset < 0 or size == 1 << log_size:
        larger = log_size + 1 if offset >= 0 else least_log_size
        start = take_segment(pool, free, larger)
        if start < 0:
            return -1
        if offset >= 0:
            for i in range(size):
                pool[start + i] = pool[offset + i]
                beside[start + i] = beside[offset + i]
            give_segment(pool, free, offset, log_size)
        row[HEAP_OFFSET] = start
        row[HEAP_LOG_SIZE] = larger
    row[HEAP_SIZE] = size + 1
    return int(size)


@njit(cache=True, nogil=True)
def first_later(times: Ints, offset: int, mask: int, low: int, high: int, time: int) -> int:
    """The first of positions low .. high - 1 of a ring whose time is after the given one; high when there is none."""
    while low < high:
        middle = (low + high) >> 1
        if times[offset + (middle & mask)] <= time:
            low = middle + 1
        else:
            high = middle
    return int(low)
