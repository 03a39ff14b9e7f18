"""Sessions, and windows from one event to another: which stretches of a key's rows belong together, and which close.

Rows are sorted by (key, time). Each has the times of its first and its last event; several rows may be of one stretch
of time. Rows within one run are near each other: each begins at most a gap after the last event before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


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


@njit(cache=True, nogil=True)
def closed_punctuated(
    keys: Ints, times: Ints, opens: Bools, closes: Bools, longest: int, after: int, until: int, out: Ints
) -> int:
    """List the windows from one event to another that close in (after, until], in O(rows).

    Rows are sorted by (key, time); those of one time count as one event, which opens or closes if one of them does. Of
    each window, `out` gets the key, its number, its first row, the row after its last, where it starts and ends, and
    from when on events must be known. Returns how many there are.
    """
    found = 0
    row = 0
    count = len(keys)
    while row < count:
        key = keys[row]
        is_open, has_opened = False, False
        start, first, last_opening = 0, 0, 0
        while row < count and keys[row] == key:
            time = times[row]
            begin = row
            is_opening, is_closing = False, False
            while row < count and keys[row] == key and times[row] == time:
                is_opening |= opens[row]
                is_closing |= closes[row]
                row += 1
            if is_open:
                closing, end, behind = 0, 0, begin
                if time >= start + longest:
                    closing = start + longest
                    end = closing
                elif is_closing:
                    closing = time + 1
                    # What opens the next window belongs to that one.
                    end = time if is_opening else closing
                    behind = begin if is_opening else row
                if closing:
                    is_open = False
                    if after < closing <= until:
                        _put_window(out, found, key, first, behind, start, end, start - longest)
                        found += 1
            if is_closing:
                has_opened = False
            if is_opening:
                if not is_open and (not has_opened or time - last_opening >= longest):
                    is_open = True
                    start, first = time, begin
                has_opened = True
                last_opening = time
        if is_open and after < start + longest <= until:
            end = start + longest
            _put_window(out, found, key, first, row, start, end, start - longest)
            found += 1
    return found


@njit(inline="always")
def _put_window(
    out: Ints, place: int, key: int, first: int, behind: int, start: int, end: int, known_from: int
) -> None:
    out[0, place] = key
    # Not the instant at which it closes: windows are in the order of their ends.
    out[1, place] = end + 1
    out[2, place] = first
    out[3, place] = behind
    out[4, place] = start
    out[5, place] = end
    out[6, place] = known_from
