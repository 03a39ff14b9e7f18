"""Window instances: which of them close, and which rows each covers.

Rows are sorted by (key, slot). Everything is counted in slots: an instance k covers [k * slide, k * slide + length),
shifted by an offset. With a period it begins where its period does, and ends where it would without one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.searching import first_from

Ints = npt.NDArray[np.int64]


@njit(inline="always")
def _start(k: int, slide: int, offset: int, period: int) -> int:
    """Where an instance starts; a period of 0 is none."""
    return (k * slide // period * period if period else k * slide) + offset


@njit(cache=True, nogil=True)
def closed_instances(
    slots: Ints,
    segments: Ints,
    length: int,
    slide: int,
    offset: int,
    period: int,
    first_k: int,
    last_k: int,
    out: Ints,
) -> int:
    """List the instances first_k .. last_k that cover some row of a key: row of the key, k, first row, past last row.

    `segments` holds where each key's rows begin, and the number of rows at its end. Two pointers move over the rows of
    a key from the first that an instance may cover, so the cost is those rows plus the instances found. Returns the
    number of instances; those that do not fit into the four rows of `out` are only counted.
    """
    found = 0
    for segment in range(len(segments) - 1):
        begin, end = segments[segment], segments[segment + 1]
        low = first_from(slots, begin, end, _start(first_k, slide, offset, period))
        high = low
        k = first_k
        while low < end:
            # The first instance that reaches past the first row not yet left behind.
            reaching = (slots[low] - offset - length) // slide + 1
            if reaching > k:
                k = reaching
            if k > last_k:
                break
            start = _start(k, slide, offset, period)
            while low < end and slots[low] < start:
                low += 1
            if high < low:
                high = low
            while high < end and slots[high] < k * slide + length + offset:
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


@njit(cache=True, nogil=True)
def listed_instances(slots: Ints, segments: Ints, starts: Ints, ends: Ints, first_k: int, out: Ints) -> int:
    """The same for instances whose starts and ends are listed from first_k on. Cost: rows, and instances, a key."""
    found = 0
    for segment in range(len(segments) - 1):
        begin, end = segments[segment], segments[segment + 1]
        low = begin
        high = begin
        for place in range(len(starts)):
            while low < end and slots[low] < starts[place]:
                low += 1
            if low == end:
                break
            if high < low:
                high = low
            while high < end and slots[high] < ends[place]:
                high += 1
            if high > low:
                if found < out.shape[1]:
                    out[0, found] = begin
                    out[1, found] = first_k + place
                    out[2, found] = low
                    out[3, found] = high
                found += 1
    return found
