"""Sliding windows kept up to date at every element: the work of materialising every answer.

Each window of each key has a queue in two stacks: suffix combinations of its front elements, and one combination of the
others. Window w of key k has its facts at place k * windows + w, and its front from w * size on, where elements lie.
Source: the two-stacks queue, as in Tangwongsan, Hirzel and Schneider, DEBS 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine
from panewise.kernels.pool import Keys, key_at

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]


@njit(cache=True, nogil=True)
def slide_windows(
    operation: int,
    user: Any,
    identity: Any,
    rings: Elements,
    fronts: Elements,
    windows: Ints,
    middles: Ints,
    backs: Elements,
    answers: Elements,
    offset: Ints,
    shift: Shifts,
    first: Ints,
    keys: Ints,
    bounds: Ints,
    begin: Ints,
    values: Elements,
) -> None:
    """Bring every window's answer up to date after each of the new elements, which are not in `rings` yet.

    `windows` has [left, right] of each. `middles` is where a front ends, `backs` the combination of what follows.
    """
    for j in range(len(keys)):
        key = keys[j]
        start = begin[j]
        source = bounds[j] - start
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        for window in range(len(windows)):
            left, right = windows[window]
            place = key * len(windows) + window
            front = fronts[window * len(rings) + at : window * len(rings) + at + mask + 1]
            middle = middles[place]
            back = backs[place]
            answer = answers[place]
            if start == first[key]:
                middle = start
                back = answer = identity
            for end in range(start + 1, bounds[j + 1] - source + 1):
                high = end - right
                if high <= first[key]:
                    continue
                low = max(end - left, first[key])
                newest = high - 1
                element = values[source + newest] if newest >= start else rings[at + (newest & mask)]
                back = combine(operation, user, back, element)
                if low >= middle:
                    # The front is used up: everything moves there.
                    total = identity
                    for t in range(high - 1, low - 1, -1):
                        element = values[source + t] if t >= start else rings[at + (t & mask)]
                        total = combine(operation, user, element, total)
                        front[t & mask] = total
                    middle = high
                    back = identity
                answer = combine(operation, user, front[low & mask], back)
            middles[place] = middle
            backs[place] = back
            answers[place] = answer


@njit(cache=True, nogil=True)
def gather_answers(
    identity: Any, windows: Ints, answers: Elements, length: Ints, keys: Keys, low: Ints, high: Ints, out: Elements
) -> int:
    """The answer of the window that covers each range now; returns the first range that no window covers, or -1."""
    for i in range(len(low)):
        if low[i] >= high[i]:
            out[i] = identity
            continue
        key = key_at(keys, i)
        left = length[key] - low[i]
        right = length[key] - high[i]
        # Windows are in order. A range from the beginning belongs to any window that reaches so far back.
        begin = 0
        end = len(windows)
        while begin < end:
            middle = (begin + end) >> 1
            if windows[middle, 0] < left or (windows[middle, 0] == left and windows[middle, 1] < right):
                begin = middle + 1
            else:
                end = middle
        while low[i] == 0 and begin < len(windows) and windows[begin, 1] != right:
            begin += 1
        if begin == len(windows) or windows[begin, 1] != right or (low[i] > 0 and windows[begin, 0] != left):
            return i
        out[i] = answers[key * len(windows) + begin]
    return -1


@njit(cache=True, nogil=True)
def rebuild_windows(
    operation: int,
    user: Any,
    identity: Any,
    rings: Elements,
    fronts: Elements,
    windows: Ints,
    middles: Ints,
    backs: Elements,
    answers: Elements,
    offset: Ints,
    shift: Shifts,
    first: Ints,
    length: Ints,
    keys: Ints,
) -> None:
    """Make the answers of some keys again from their elements."""
    for j in range(len(keys)):
        key = keys[j]
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        for window in range(len(windows)):
            left, right = windows[window]
            place = key * len(windows) + window
            low = max(length[key] - left, first[key])
            high = max(length[key] - right, low)
            total = identity
            for t in range(high - 1, low - 1, -1):
                total = combine(operation, user, rings[at + (t & mask)], total)
                fronts[window * len(rings) + at + (t & mask)] = total
            middles[place] = high
            backs[place] = identity
            answers[place] = total
