"""Moving windows: fold rows into the words of their keys, and note what these were before.

A note tells what remains of a key once the row and all that were folded after it are gone. Cost: O(rows).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pairs import add_pairs
from panewise.kernels.squares import add_squares

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
Numbers = npt.NDArray[np.unsignedinteger[Any]]


@njit(cache=True, nogil=True)
def count_events(
    keys: Numbers, events: Ints, sign: int, totals: Ints, is_touched: Bools, touched: Numbers, known: int
) -> tuple[int, int]:
    """Add events to the totals of their keys, or take them off, and list the keys that are not yet `touched`.

    Returns by how many keys there are more with events, and how many keys are touched; `known` of them were before.
    """
    more = 0
    for row in range(len(keys)):
        key = keys[row]
        before = totals[key]
        totals[key] = before + sign * events[row]
        more += int(totals[key] != 0) - int(before != 0)
        if not is_touched[key]:
            is_touched[key] = True
            touched[known] = key
            known += 1
    return more, known


@njit(cache=True, nogil=True)
def note_doubles(keys: Numbers, pairs: tuple[Floats, ...], words: Floats, notes: Floats) -> None:
    """Add pairs of doubles to the sums of their keys."""
    high, low = pairs
    for row in range(len(keys)):
        key = keys[row]
        notes[0, row] = words[0, key]
        notes[1, row] = words[1, key]
        words[0, key], words[1, key] = add_pairs(words[0, key], words[1, key], high[row], low[row])


@njit(cache=True, nogil=True)
def note_squares(keys: Numbers, squares: tuple[Floats, ...], words: Floats, notes: Floats) -> None:
    """Add sums of squares to those of their keys."""
    high, low, rest_high, rest_low = squares
    for row in range(len(keys)):
        key = keys[row]
        for word in range(4):
            notes[word, row] = words[word, key]
        words[0, key], words[1, key], words[2, key], words[3, key] = add_squares(
            words[0, key], words[1, key], words[2, key], words[3, key],
            high[row], low[row], rest_high[row], rest_low[row],
        )  # fmt: skip


@njit(cache=True, nogil=True)
def note_extremes(keys: Numbers, values: Column, greatest: bool, best: Column, notes: Column) -> None:
    """Keep the least or the greatest value of each key; NaN is above all numbers."""
    for row in range(len(keys)):
        key, value = keys[row], values[row]
        held = best[key]
        notes[row] = held
        if greatest:
            best[key] = value if value > held or value != value else held
        else:
            best[key] = value if value < held or held != held else held
