"""Searches in sorted values, for use inside kernels."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from numba import njit

Numbers = npt.NDArray[Any]
"""Integers of any width."""


@njit(inline="always")
def first_from(values: Numbers, low: int, high: int, bound: int) -> int:
    """The first of the places low .. high - 1 whose value is `bound` or more; `high` where there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def first_above(values: Numbers, low: int, high: int, bound: int) -> int:
    """The first of the places low .. high - 1 whose value is more than `bound`; `high` where there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] > bound:
            high = middle
        else:
            low = middle + 1
    return low
