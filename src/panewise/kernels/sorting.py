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
def comes_before(a: Any, b: Any) -> Any:
    """Whether a value lies before another in ascending order."""
    return a < b or (b != b and a == a)


@njit(inline="always")
def _split(values: Values, others: Ints, begin: int, end: int) -> tuple[int, int]:
    """Put the smaller ones of values begin .. end - 1, and what stands beside them, before the others.

    Up to the second of the places returned no value is above some pivot, and from the first on none is below it.
    """
    # The middle one of three is the pivot.
    a, b, c = values[begin], values[(begin + end) >> 1], values[end - 1]
    if comes_before(b, a):
        a, b = b, a
    if comes_before(c, b):
        b = a if comes_before(c, a) else c
    left, right = begin, end - 1
    while left <= right:
        while comes_before(values[left], b):
            left += 1
        while comes_before(b, values[right]):
            right -= 1
        if left <= right:
            values[left], values[right] = values[right], values[left]
            others[left], others[right] = others[right], others[left]
            left += 1
            right -= 1
    return left, right


@njit(inline="always")
def _insert(values: Values, others: Ints, begin: int, end: int) -> None:
    """Sort a short stretch by insertion."""
    for i in range(begin + 1, end):
        value, other = values[i], others[i]
        at = i
        while at > begin and comes_before(value, values[at - 1]):
            values[at] = values[at - 1]
            others[at] = others[at - 1]
            at -= 1
        values[at] = value
        others[at] = other


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
            left, right = _split(ordered, places, begin, end)
            if right + 1 - begin < end - left:
                waiting[waits, 0], waiting[waits, 1] = left, end
                end = right + 1
            else:
                waiting[waits, 0], waiting[waits, 1] = begin, right + 1
                begin = left
            waits += 1
        _insert(ordered, places, begin, end)
        if waits == 0:
            return ordered, places
        waits -= 1
        begin, end = waiting[waits, 0], waiting[waits, 1]


@njit(cache=True, nogil=True)
def place_of_rank(values: Values, weights: Ints, length: int, rank: int) -> int:
    """The place of the value at a 1-based rank of the first `length` values, each of which counts by its weight.

    Values and weights come into another order. Cost: O(length) expected.
    """
    begin, end = 0, length
    while end - begin > SHORT:
        _, right = _split(values, weights, begin, end)
        before = 0
        for i in range(begin, right + 1):
            before += weights[i]
        if rank <= before:
            end = right + 1
        else:
            rank -= before
            begin = right + 1
    _insert(values, weights, begin, end)
    while rank > weights[begin]:
        rank -= weights[begin]
        begin += 1
    return begin
