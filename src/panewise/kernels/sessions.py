"""Sessions: which stretches of a key's rows lie near each other, and which of them close.

Rows are sorted by (key, time). Each has the times of its first and its last event; several rows may be of one stretch
of time. Rows within one run are near each other: each begins at most a gap after the last event before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def join_near(keys: Ints, firsts: Ints, lasts: Ints, begins: Ints, gap: int, out: Ints) -> int:
    """Join neighbours of one key that are at most a gap apart. Cost: O(rows).

    What is joined are rows, or runs with a smaller gap, which begin at the rows `begins`. Of each run, `out` gets the
    key, the times of its first and its last event, and its first row. Returns the number of runs.
    """
    found = 0
    for place in range(len(keys)):
        if found and keys[place] == out[0, found - 1] and firsts[place] - out[2, found - 1] <= gap:
            out[1, found - 1] = min(out[1, found - 1], firsts[place])
            out[2, found - 1] = max(out[2, found - 1], lasts[place])
            continue
        out[0, found] = keys[place]
        out[1, found] = firsts[place]
        out[2, found] = lasts[place]
        out[3, found] = begins[place]
        found += 1
    return found


@njit(cache=True, nogil=True)
def closed_sessions(
    runs: Ints, firsts: Ints, lasts: Ints, gap: int, longest: int, after: int, until: int, out: Ints
) -> int:
    """List the sessions that close in (after, until]. One closes a microsecond after its end: until then it may grow.

    `runs` are those of `join_near`, `firsts` and `lasts` the times of all rows. A run whose window is longer than
    `longest` is cut at the multiples of that length. Its first piece closes when it is known to be that long. Of each
    session, `out` gets the key, its number, its first row, the row after its last, where its window starts and
    ends, and from when on events must be known. Returns their number. Cost: O(runs), and the rows of those cut.
    """
    found = 0
    runs_count = runs.shape[1]
    for run in range(runs_count):
        key, first, last, low = runs[0, run], runs[1, run], runs[2, run], runs[3, run]
        high = runs[3, run + 1] if run + 1 < runs_count else len(firsts)
        is_cut = last + gap - first > longest
        if max(last + gap, first + longest if is_cut else last + gap) < after or first >= until:
            continue
        begin = low
        while begin < high:
            end, piece_first, piece_last = high, first, last
            edge = last + gap
            if is_cut:
                cell = firsts[begin] // longest
                edge = (cell + 1) * longest
                piece_first, piece_last, end = firsts[begin], lasts[begin], begin
                while end < high and firsts[end] // longest == cell:
                    piece_first = min(piece_first, firsts[end])
                    piece_last = max(piece_last, lasts[end])
                    end += 1
            window_end = min(piece_last + gap, edge)
            closes = (max(window_end, first + longest) if is_cut else window_end) + 1
            if after < closes <= until:
                out[0, found] = key
                # After the end, as that of a session that is not cut: pieces are in the order of their ends.
                out[1, found] = window_end + 1
                out[2, found] = begin
                out[3, found] = end
                out[4, found] = piece_first
                out[5, found] = window_end
                out[6, found] = max(first - gap, closes - 1 - longest - 2 * gap)
                found += 1
            begin = end
    return found
