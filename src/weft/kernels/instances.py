"""Window instances: which of them close, and which rows each covers.

Rows are sorted by (key, slot). Everything is counted in slots: an instance k covers [k * slide, k * slide + length).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def closed_instances(keys: Ints, slots: Ints, length: int, slide: int, first_k: int, last_k: int, out: Ints) -> int:
    """List the instances first_k .. last_k that cover some row of a key: (row of the key, k, first row, past last row).

    Two pointers move over each key's rows, so the cost is the rows plus the instances found. With an `out` of no
    rows it only counts.
    """
    n = len(slots)
    found = 0
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and keys[end] == keys[begin]:
            end += 1
        low = begin
        high = begin
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
                if len(out) > 0:
                    out[found, 0] = begin
                    out[found, 1] = k
                    out[found, 2] = low
                    out[found, 3] = high
                found += 1
                k += 1
        begin = end
    return found
