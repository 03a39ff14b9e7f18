"""Key ranges: which of the rows that are sorted by (key, slot) belong to some keys and to a range of slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
"""Integers of any width."""


@njit(inline="always")
def _first_from(values: Numbers, low: int, high: int, bound: int) -> int:
    """The first of the places low .. high - 1 whose value is `bound` or more; `high` where there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def key_ranges(keys: Numbers, slots: Numbers, wanted: Ints, from_slot: int, to_slot: int, low: Ints, high: Ints) -> int:
    """The rows [low, high) of each wanted key with slots in [from_slot, to_slot); returns how many rows there are.

    Wanted keys rise. Cost: O(log rows) a key.
    """
    begin = total = 0
    for i in range(len(wanted)):
        begin = _first_from(keys, begin, len(keys), wanted[i])
        end = _first_from(keys, begin, len(keys), wanted[i] + 1)
        low[i] = _first_from(slots, begin, end, from_slot)
        high[i] = _first_from(slots, low[i], end, to_slot)
        total += high[i] - low[i]
    return total


@njit(cache=True, nogil=True)
def rows_of_ranges(low: Ints, high: Ints, total: int) -> Ints:
    """The rows of all ranges, one range after the other; `total` of them together."""
    rows = np.empty(total, np.int64)
    place = 0
    for i in range(len(low)):
        for row in range(low[i], high[i]):
            rows[place] = row
            place += 1
    return rows
