"""Sorting by comparison: quicksort, values together with the places they came from, NaN after all numbers.

numba would compile its own sort into each kernel that names `np.sort` or `np.argsort`, and takes over two seconds for a
type. This one takes a fraction of that, once for a type: it is kept on disk and linked into the kernels that call it.
Cost: O(n log n) expected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[Any]

SHORT = 16
"""Stretches up to this length are sorted by insertion."""
DEEP = 64
"""The shorter part of a split is sorted first, so no more than log2(n) parts wait."""


@njit(inline="always")
def _comes_before(a: Any, b: Any) -> Any:
    return a < b or (b != b and a == a)


@njit(cache=True, nogil=True)
def sort_with_places(values: Values) -> tuple[Values, Ints]:
    """The values in ascending order, and the place where each came from."""
    ordered = np.empty(len(values), values.dtype)
    places = np.empty(len(values), np.int64)
    for i in range(len(values)):
        ordered[i] = values[i]
        places[i] = i
    waiting = np.empty((DEEP, 2), np.int64)
    waits = 0
    begin, end = 0, len(values)
    while True:
        while end - begin > SHORT:
            # The middle one of three is the pivot.
            a, b, c = ordered[begin], ordered[(begin + end) >> 1], ordered[end - 1]
            if _comes_before(b, a):
                a, b = b, a
            if _comes_before(c, b):
                b = a if _comes_before(c, a) else c
            left, right = begin, end - 1
            while left <= right:
                while _comes_before(ordered[left], b):
                    left += 1
                while _comes_before(b, ordered[right]):
                    right -= 1
                if left <= right:
                    ordered[left], ordered[right] = ordered[right], ordered[left]
                    places[left], places[right] = places[right], places[left]
                    left += 1
                    right -= 1
            if right + 1 - begin < end - left:
                waiting[waits, 0], waiting[waits, 1] = left, end
                end = right + 1
            else:
                waiting[waits, 0], waiting[waits, 1] = begin, right + 1
                begin = left
            waits += 1
        for i in range(begin + 1, end):
            value, place = ordered[i], places[i]
            at = i
            while at > begin and _comes_before(value, ordered[at - 1]):
                ordered[at] = ordered[at - 1]
                places[at] = places[at - 1]
                at -= 1
            ordered[at] = value
            places[at] = place
        if waits == 0:
            return ordered, places
        waits -= 1
        begin, end = waiting[waits, 0], waiting[waits, 1]
