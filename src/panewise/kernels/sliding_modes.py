"""The most frequent symbol of ranges that slide over a key: the counts of symbols are the leaves of a tournament.

Ranges come in the order of labels: sorted by key, with both ends non-decreasing. Each symbol enters and leaves once,
and each step plays the matches from its leaf to the root again. Of equal counts the smaller symbol wins.
Cost: O(log s) for each step, with s different symbols; O(s) memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(inline="always")
def _step(counts: Ints, winners: Ints, leaves: int, symbol: int, step: int) -> None:
    """Change the count of a symbol, and who wins above it."""
    counts[symbol] += step
    node = (leaves + symbol) >> 1
    while node > 0:
        left, right = winners[2 * node], winners[2 * node + 1]
        winners[node] = right if counts[right] > counts[left] else left
        node >>= 1


@njit(cache=True, nogil=True)
def slide_modes(symbols: Ints, segments: Ints, different: Ints, keys: Ints, begins: Ints, ends: Ints) -> Ints:
    """The most frequent symbol of each range; none is empty. Key k has symbols 0 .. different[k] - 1."""
    most = 1
    for key in range(len(different)):
        most = max(most, different[key])
    full = 1
    while full < most:
        full *= 2
    counts, winners = np.zeros(full, np.int64), np.empty(2 * full, np.int64)
    out = np.empty(len(keys), np.int64)
    current = -1
    begin = end = 0
    leaves = 1
    for i in range(len(keys)):
        if keys[i] != current:
            for j in range(begin, end):
                counts[symbols[j]] = 0
            current = keys[i]
            begin = end = begins[i]
            leaves = 1
            while leaves < different[current]:
                leaves *= 2
            for symbol in range(leaves):
                winners[leaves + symbol] = symbol
            for node in range(leaves - 1, 0, -1):
                winners[node] = winners[2 * node]
        for j in range(max(end, begins[i]), ends[i]):
            _step(counts, winners, leaves, symbols[j], 1)
        for j in range(begin, min(end, begins[i])):
            _step(counts, winners, leaves, symbols[j], -1)
        begin, end = begins[i], ends[i]
        out[i] = winners[1] if leaves > 1 else 0
    return out
