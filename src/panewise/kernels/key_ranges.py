"""Key ranges: which of the rows that are sorted by (key, slot) belong to some keys and to a range of slots."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.searching import Numbers, first_from

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def key_ranges(keys: Numbers, slots: Numbers, wanted: Ints, from_slot: int, to_slot: int, low: Ints, high: Ints) -> int:
    """The rows [low, high) of each wanted key with slots in [from_slot, to_slot); returns how many rows there are.

    Wanted keys rise. Cost: O(log rows) a key.
    """
    begin = total = 0
    for i in range(len(wanted)):
        begin = first_from(keys, begin, len(keys), wanted[i])
        end = first_from(keys, begin, len(keys), wanted[i] + 1)
        low[i] = first_from(slots, begin, end, from_slot)
        high[i] = first_from(slots, low[i], end, to_slot)
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
