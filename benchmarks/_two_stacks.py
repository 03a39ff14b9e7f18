"""Two stacks for each key: the best way known to carry one sliding window by itself, compiled.

Each event is a node of its key's back stack, or of its front stack with the fold of all nodes below it. An event enters
the back; when the front is empty, the back is turned over into it. Nodes that have left are used again.
Source: Tangwongsan, Hirzel, Schneider, "Low-Latency Sliding-Window Aggregation in Worst-Case Constant Time", 2017,
section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

NONE = -1


@njit(cache=True)
def _enter(keys, times, xs, ys, free, free_count, below, time_of, sums, counts, tops, back, back_fold, oldest):
    """Put events on the back stacks of their keys; returns how many free nodes are left."""
    for event in range(len(keys)):
        key = keys[event]
        free_count -= 1
        node = free[free_count]
        below[node], time_of[node] = back[key], times[event]
        sums[node], counts[node], tops[node] = xs[event], 1, ys[event]
        if back[key] == NONE:
            oldest[key] = times[event]
            back_fold[0, key], back_fold[1, key], back_fold[2, key] = xs[event], 1, ys[event]
        else:
            back_fold[0, key] += xs[event]
            back_fold[1, key] += 1
            back_fold[2, key] = max(back_fold[2, key], ys[event])
        back[key] = node
    return free_count


@njit(cache=True)
def _leave(start, free, free_count, below, time_of, sums, counts, tops, front, back, oldest):
    """Take events before a time off all keys; returns how many nodes are free."""
    for key in range(len(front)):
        while True:
            if front[key] == NONE:
                if back[key] == NONE or oldest[key] >= start:
                    break
                node = back[key]
                while node != NONE:
                    after, top = below[node], front[key]
                    if top != NONE:
                        sums[node] += sums[top]
                        counts[node] += counts[top]
                        tops[node] = max(tops[node], tops[top])
                    below[node], front[key] = top, node
                    node = after
                back[key] = NONE
            node = front[key]
            if time_of[node] >= start:
                break
            front[key] = below[node]
            free[free_count] = node
            free_count += 1
    return free_count


@njit(cache=True)
def _answer(front, back, sums, counts, tops, back_fold, found, totals, numbers, best):
    """The answers of all keys with events; returns how many they are."""
    count = 0
    for key in range(len(front)):
        node, has_back = front[key], back[key] != NONE
        if node == NONE and not has_back:
            continue
        total, number, top = 0, 0, -np.inf
        if node != NONE:
            total, number, top = sums[node], counts[node], tops[node]
        if has_back:
            total += np.int64(back_fold[0, key])
            number += np.int64(back_fold[1, key])
            top = max(top, back_fold[2, key])
        found[count], totals[count], numbers[count], best[count] = key, total, number, top
        count += 1
    return count


class TwoStacks:
    """SUM, COUNT and MAX of one window, for keys that are numbers from 0 on."""

    def __init__(self, keys: int, room: int, range_us: int) -> None:
        self._range_us = range_us
        self._front, self._back = np.full(keys, NONE), np.full(keys, NONE)
        self._back_fold, self._oldest = np.zeros((3, keys)), np.zeros(keys, np.int64)
        self._free, self._free_count = np.arange(room), room
        self._below, self._time_of = np.full(room, NONE), np.zeros(room, np.int64)
        self._nodes = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room)

    def push(self, events: dict[str, Any]) -> None:
        """Take in events."""
        self._free_count = _enter(
            events["k"], events["t"], events["x"], events["y"], self._free, self._free_count, self._below,
            self._time_of, *self._nodes, self._back, self._back_fold, self._oldest,
        )  # fmt: skip

    def advance(self, end_us: int) -> pa.Table:
        """The answers of the window that ends at a time."""
        start_us = end_us - self._range_us
        self._free_count = _leave(
            start_us, self._free, self._free_count, self._below, self._time_of, *self._nodes, self._front, self._back,
            self._oldest,
        )  # fmt: skip
        keys = len(self._front)
        (found, totals, numbers), best = np.empty((3, keys), np.int64), np.empty(keys)
        count = _answer(self._front, self._back, *self._nodes, self._back_fold, found, totals, numbers, best)
        columns = {"k": found, "total": totals, "n": numbers, "top": best}
        bounds = {"window_start": np.full(count, start_us), "window_end": np.full(count, end_us)}
        return pa.table({**bounds, **{name: column[:count] for name, column in columns.items()}})
