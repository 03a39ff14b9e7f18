"""Numbers of many keys: which positions of a key's substream have event numbers between two bounds.

A key's numbers rise and lie in its segment, a ring of 2**shift places (`kernels.keyed_pool`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]


@njit(nogil=True)
def _first_from(numbers: Ints, at: int, mask: int, low: int, high: int, number: int) -> int:
    """The first of positions low .. high - 1 whose number is `number` or more; `high` where there is none."""
    # Most windows end at the newest event, and many begin before the oldest that is held.
    if low >= high or numbers[at + ((high - 1) & mask)] < number:
        return high
    if numbers[at + (low & mask)] >= number:
        return low
    while low < high:
        middle = (low + high) >> 1
        if numbers[at + (middle & mask)] < number:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def positions_between(
    numbers: Ints,
    offset: Ints,
    shift: Shifts,
    first: Ints,
    length: Ints,
    keys: Ints,
    from_number: Ints,
    to_number: Ints,
    low: Ints,
    high: Ints,
) -> int:
    """The positions [low, high) of each key with numbers in [from_number, to_number); 0 and 0 where there are none.

    The two bounds have one element for each key, or one for all. Returns how many keys have such positions.
    """
    step = 0 if len(from_number) == 1 else 1
    present = 0
    for i in range(len(keys)):
        key = keys[i]
        low[i] = high[i] = 0
        if key < 0 or key >= len(length) or length[key] == 0:
            continue
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        end = _first_from(numbers, at, mask, first[key], length[key], to_number[i * step])
        begin = _first_from(numbers, at, mask, first[key], end, from_number[i * step])
        if begin < end:
            low[i] = begin
            high[i] = end
            present += 1
    return present
