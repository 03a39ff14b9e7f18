"""The window in sorted order, from the order at the last evaluation and the tuples that came since."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(inline="always")
def copy_run(out: Ints, at: int, rows: Ints, begin: int, end: int) -> None:
    """Copy rows[begin:end] to a place of `out`."""
    # In slices the compiler knows that no place is negative, so it copies many rows at once.
    target = out[at : at + end - begin]
    source = rows[begin:end]
    for k in range(len(target)):
        target[k] = source[k]


@njit(cache=True, nogil=True)
def merge_sorted(
    nodes: Ints,
    counts: Ints,
    newest: Ints,
    links: Ints,
    rows: Ints,
    ends: Ints,
    seen: int,
    total: int,
) -> Ints:
    """The rows of nodes, in the order of nodes, over backward rings.

    `rows` has them as they were when `seen` was the next row to attach, those of a node up to `ends[node]`. Since then
    the oldest rows of a node have left and others have come. The kernel follows the rings only through those that came,
    and copies what stays, as many unchanged neighbours at once as it can. Updates `ends`.
    """
    out = np.empty(total, np.int64)
    mask = len(links) - 1
    done = 0
    begin = 0
    end = 0
    at = 0
    for i in range(len(nodes)):
        node = nodes[i]
        size = counts[node]
        place = done + size
        row = newest[node]
        while place > done and row >= seen:
            place -= 1
            out[place] = row
            row = links[row & mask]
        if place > done:
            kept_end = ends[node]
            kept_begin = kept_end - (place - done)
            if kept_begin != end or done != at + end - begin:
                copy_run(out, at, rows, begin, end)
                begin = kept_begin
                at = done
            end = kept_end
        done += size
        ends[node] = done
    copy_run(out, at, rows, begin, end)
    return out


@njit(cache=True, nogil=True)
def turn_segments(rows: Ints, sizes: Ints) -> Ints:
    """The segments of rows, of these sizes, in reverse order; the rows within a segment keep theirs."""
    out = np.empty(len(rows), np.int64)
    at = len(rows)
    begin = 0
    for i in range(len(sizes)):
        at -= sizes[i]
        copy_run(out, at, rows, begin, begin + sizes[i])
        begin += sizes[i]
    return out
