"""Multisets: each row holds a run of (item, count) pairs, runs lie end to end with `offsets` between them.

A range of rows is answered by gathering and sorting its runs: O(W log W) a range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Items = npt.NDArray[Any]


@njit(cache=True, nogil=True)
def select_ranks(items: Items, counts: Ints, offsets: Ints, low: Ints, high: Ints, ranks: Ints) -> Items:
    """The item at each range's 1-based rank in sorted order (NaN last); zero where the rank is 0."""
    out = np.zeros(len(low), items.dtype)
    for i in range(len(low)):
        if ranks[i] == 0:
            continue
        begin, end = offsets[low[i]], offsets[high[i]]
        order = np.argsort(items[begin:end])
        seen = 0
        for j in order:
            seen += counts[begin + j]
            if seen >= ranks[i]:
                out[i] = items[begin + j]
                break
    return out


@njit(cache=True, nogil=True)
def count_distinct(items: Items, offsets: Ints, low: Ints, high: Ints) -> Ints:
    """The number of different items in each range. NaN equals NaN."""
    out = np.zeros(len(low), np.int64)
    for i in range(len(low)):
        run = np.sort(items[offsets[low[i]] : offsets[high[i]]])
        for j in range(len(run)):
            if j == 0 or (run[j] != run[j - 1] and (run[j] == run[j] or run[j - 1] == run[j - 1])):
                out[i] += 1
    return out


@njit(cache=True, nogil=True)
def gather_runs(items: Items, counts: Ints, offsets: Ints, rows: Ints) -> tuple[Items, Ints, Ints]:
    """The runs of the given rows, in their order."""
    new_offsets = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        new_offsets[i + 1] = new_offsets[i] + offsets[rows[i] + 1] - offsets[rows[i]]
    new_items = np.empty(new_offsets[-1], items.dtype)
    new_counts = np.empty(new_offsets[-1], np.int64)
    for i in range(len(rows)):
        at = new_offsets[i]
        for j in range(offsets[rows[i]], offsets[rows[i] + 1]):
            new_items[at] = items[j]
            new_counts[at] = counts[j]
            at += 1
    return new_items, new_counts, new_offsets
