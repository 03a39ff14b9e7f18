"""Predicate bits: the truth of a condition, as Arrow packs it, into one bit of each event's word."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@njit(cache=True, nogil=True)
def set_bits(words: Ints, packed: Bytes, valid: Bytes, offset: int, bit: int) -> None:
    """Set a bit of the words where the condition is true; `valid` is empty when it is never NULL.

    Both bitmaps have the first event's truth at place `offset`.
    """
    has_nulls = len(valid) > 0
    for i in range(len(words)):
        place = offset + i
        truth = packed[place >> 3] >> (place & 7)
        if has_nulls:
            truth &= valid[place >> 3] >> (place & 7)
        words[i] |= np.int64(truth & 1) << bit
