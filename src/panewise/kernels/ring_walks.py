"""Reading rings: a given number of tuples of each of many nodes, one node after the other, in the order of arrival.

A ring is a chain of dependent reads. The walks go along several rings at once, so that the reads overlap.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]

LANES = 8
"""Rings that a walk follows at once."""


@njit(cache=True, nogil=True)
def walk_rings(starts: Ints, sizes: Ints, links: Ints, is_forward: bool) -> Ints:
    """The rows of each ring from its start, `sizes[i]` of ring i; in each ring the oldest first."""
    total = 0
    for i in range(len(sizes)):
        total += sizes[i]
    out = np.empty(total, np.int64)
    step = 1 if is_forward else -1
    mask = len(links) - 1
    rows = np.zeros(LANES, np.int64)
    places = np.zeros(LANES, np.int64)
    left = np.zeros(LANES, np.int64)
    base = 0
    following = 0
    while following < len(starts):
        lanes = min(LANES, len(starts) - following)
        longest = 0
        for lane in range(lanes):
            size = sizes[following]
            rows[lane] = starts[following]
            left[lane] = size
            places[lane] = base if is_forward else base + size - 1
            longest = max(longest, size)
            base += size
            following += 1
        for k in range(longest):
            for lane in range(lanes):
                if k < left[lane]:
                    row = rows[lane]
                    out[places[lane] + k * step] = row
                    rows[lane] = links[row & mask]
    return out
