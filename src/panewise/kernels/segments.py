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
