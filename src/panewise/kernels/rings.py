"""Rings: the newest elements of a sequence in a circular array.

Element `i` lies at place `i mod size`. Kernels get the newest multiple of the size (the lap) and so need no division:
an element of the current lap lies at `i - lap`, one of the lap before at `i - lap + size`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@njit(inline="always")
def place(i: int, lap: int, size: int) -> int:
    """Where element i lies."""
    at = i - lap
    return at if at >= 0 else at + size


def write(ring: Elements, start: int, values: Elements) -> None:
    """Put values at positions start, start + 1, ...; if not all fit, the newest stay."""
    size = len(ring)
    if len(values) > size:
        start += len(values) - size
        values = values[-size:]
    at = start % size
    first = min(len(values), size - at)
    ring[at : at + first] = values[:first]
    ring[: len(values) - first] = values[first:]


def read(ring: Elements, start: int, end: int) -> Elements:
    """A copy of the values at positions start .. end - 1, which the ring must hold."""
    size = len(ring)
    assert end - start <= size, "the ring does not hold that many"
    at = start % size
    first = ring[at : min(at + end - start, size)]
    return np.concatenate([first, ring[: end - start - len(first)]])


def resized(ring: Elements, size: int, start: int, end: int) -> Elements:
    """A ring of another size with the newest of positions start .. end - 1."""
    if size == len(ring):
        return ring
    larger = np.zeros(size, ring.dtype)
    kept = max(start, end - size)
    write(larger, kept, read(ring, kept, end))
    return larger


def lap_of(length: int, size: int) -> int:
    """The newest multiple of the size after `length` elements."""
    return max(length - 1, 0) // size * size


@njit(cache=True, nogil=True)
def window_ranges(left: Ints, right: Ints, length: int, held_from: int, low: Ints, high: Ints) -> tuple[int, int]:
    """The positions [low, high) that windows back from the end cover; `low` equals `high` where they cover none.

    Returns the number of windows that cover nothing, and the first window that needs what is no longer held or is
    ill-formed (-1 if there is none).
    """
    empty = 0
    for i in range(len(left)):
        a = length - left[i]
        b = length - right[i]
        if left[i] < right[i] or right[i] < 0 or left[i] <= 0:
            return empty, i
        a = max(a, 0)
        if b <= a:
            empty += 1
            a = b = max(b, held_from)
        elif a < held_from:
            return empty, i
        low[i] = a
        high[i] = b
    return empty, -1
