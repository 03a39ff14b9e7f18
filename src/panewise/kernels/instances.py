"""Window instances: which of them close, and which rows each covers.

Rows are sorted by (key, slot). Everything is counted in slots: an instance k covers [k * slide, k * slide + length).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(inline="always")
def _first_at(slots: Ints, low: int, high: int, wanted: int) -> int:
    """The first row of [low, high) whose slot is not before the wanted one."""
    while low < high:
        middle = (low + high) // 2
        if slots[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def closed_instances(slots: Ints, segments: Ints, length: int, slide: int, first_k: int, last_k: int, out: Ints) -> int:
    """List the instances first_k .. last_k that cover some row of a key: row of the key, k, first row, past last row.

    `segments` holds where each key's rows begin, and the number of rows at its end. Two pointers move over the rows of
    a key from the first that an instance may cover, so the cost is those rows plus the instances found. Returns the
    number of instances; those that do not fit into the four rows of `out` are only counted.
    """
    found = 0
    for segment in range(len(segments) - 1):
        begin, end = segments[segment], segments[segment + 1]
        low = _first_at(slots, begin, end, first_k * slide)
        high = low
        k = first_k
        while low < end:
            # The first instance that reaches past the first row not yet left behind.
            reaching = (slots[low] - length) // slide + 1
            if reaching > k:
                k = reaching
            if k > last_k:
                break
            start = k * slide
            while low < end and slots[low] < start:
                low += 1
            if high < low:
                high = low
            while high < end and slots[high] < start + length:
                high += 1
            if high > low:
                if found < out.shape[1]:
                    out[0, found] = begin
                    out[1, found] = k
                    out[2, found] = low
                    out[3, found] = high
                found += 1
                k += 1
    return found
