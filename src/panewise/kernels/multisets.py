"""Multisets: each row holds a run of (item, count) pairs; runs lie end to end, and `offsets` says where each begins.

A range of rows gets its answer by gathering its runs and sorting them, or as much of them as is needed: O(W log W) a
range at most, W its pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.sorting import place_of_rank, sort_with_places

Ints = npt.NDArray[np.int64]
Items = npt.NDArray[Any]


@njit(cache=True, nogil=True)
def select_ranks(items: Items, counts: Ints, offsets: Ints, low: Ints, high: Ints, ranks: Ints) -> Items:
    """The item at each range's 1-based rank in sorted order (NaN last); zero where the rank is 0.

    Cost: O(W) a range expected: the part without the rank is never sorted.
    """
    out = np.zeros(len(low), items.dtype)
    room = 0
    for i in range(len(low)):
        room = max(room, offsets[high[i]] - offsets[low[i]])
    run, weights = np.empty(room, items.dtype), np.empty(room, np.int64)
    for i in range(len(low)):
        if ranks[i] > 0:
            begin, end = offsets[low[i]], offsets[high[i]]
            for j in range(begin, end):
                run[j - begin], weights[j - begin] = items[j], counts[j]
            out[i] = run[place_of_rank(run, weights, end - begin, ranks[i])]
    return out


@njit(cache=True, nogil=True)
def count_distinct(items: Items, offsets: Ints, low: Ints, high: Ints) -> Ints:
    """The number of different items in each range. NaN equals NaN."""
    out = np.zeros(len(low), np.int64)
    for i in range(len(low)):
        run, _ = sort_with_places(items[offsets[low[i]] : offsets[high[i]]])
        for j in range(len(run)):
            if j == 0 or (run[j] != run[j - 1] and (run[j] == run[j] or run[j - 1] == run[j - 1])):
                out[i] += 1
    return out


@njit(cache=True, nogil=True)
def most_frequent(items: Items, counts: Ints, offsets: Ints, low: Ints, high: Ints) -> Items:
    """The item of greatest count in each range, the smallest of several (NaN last); zero where a range is empty."""
    out = np.zeros(len(low), items.dtype)
    for i in range(len(low)):
        begin, end = offsets[low[i]], offsets[high[i]]
        best = seen = 0
        run, places = sort_with_places(items[begin:end])
        for j in range(len(run)):
            item = run[j]
            before = run[max(j - 1, 0)]
            if item != before and (item == item or before == before):
                seen = 0
            seen += counts[begin + places[j]]
            if seen > best:
                best = seen
                out[i] = item
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


@njit(cache=True, nogil=True)
def merge_runs(items: Items, counts: Ints, bounds: Ints) -> tuple[Items, Ints, Ints]:
    """Merge the runs between two neighbouring bounds into one, sorted, with each item once. NaN equals NaN."""
    new_items = np.empty(bounds[-1] - bounds[0], items.dtype)
    new_counts = np.empty(bounds[-1] - bounds[0], np.int64)
    offsets = np.zeros(len(bounds), np.int64)
    at = 0
    for i in range(len(bounds) - 1):
        run, places = sort_with_places(items[bounds[i] : bounds[i + 1]])
        for j in range(len(run)):
            item = run[j]
            count = counts[bounds[i] + places[j]]
            before = new_items[at - 1]
            if at > offsets[i] and (before == item or (item != item and before != before)):
                new_counts[at - 1] += count
            else:
                new_items[at] = item
                new_counts[at] = count
                at += 1
        offsets[i + 1] = at
    return new_items[:at].copy(), new_counts[:at].copy(), offsets
