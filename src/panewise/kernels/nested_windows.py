"""Nested windows: the partials of several windows that end together, each row visited once for all of them.

The starts of the windows cut what they cover into pieces, the newest first: a row belongs to one piece, and a window is
the pieces from the newest to its own. These kernels put each row into the cell of its piece and key. Cells are one
array, a line of keys for each piece. A place is what decides the piece of a row (its slot and shard): `lines` has the
first cell of the line of each place. One more line, the last, takes the rows that no window covers: so no loop branches
on the data (with a branch, loops took four times as long). Cost: O(rows).
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
Column = npt.NDArray[Any]
Numbers = npt.NDArray[np.unsignedinteger[Any]]
"""Numbers of keys, places or cells. They have no sign, so that an index need not be checked for one."""


@njit(cache=True, nogil=True)
def mark_covered(keys: Numbers, places: Numbers, lines: Numbers, covered: npt.NDArray[np.bool_], nowhere: int) -> int:
    """Mark the cells that have rows; returns how many rows lie before `nowhere`, the line of those not covered."""
    visited = 0
    last = np.uint64(nowhere)
    for row in range(len(keys)):
        line = lines[places[row]]
        covered[line + keys[row]] = True
        visited += line < last
    return visited


@njit(cache=True, nogil=True)
def add_integers(keys: Numbers, places: Numbers, lines: Numbers, values: Ints, sums: Ints) -> None:
    """Add to the sums of integers. They may wrap."""
    for row in range(len(keys)):
        sums[lines[places[row]] + keys[row]] += values[row]


@njit(cache=True, nogil=True)
def add_doubles(
    keys: Numbers, places: Numbers, lines: Numbers, high: Floats, low: Floats, sums_high: Floats, sums_low: Floats
) -> None:
    """Add to the sums of pairs of doubles."""
    for row in range(len(keys)):
        cell = lines[places[row]] + keys[row]
        sums_high[cell], sums_low[cell] = add_pairs(sums_high[cell], sums_low[cell], high[row], low[row])


@njit(cache=True, nogil=True)
def add_sums_of_squares(
    keys: Numbers, places: Numbers, lines: Numbers, squares: tuple[Floats, ...], sums: Floats
) -> None:
    """Add to the sums of squares, which have a row each for squares and rests, high and low."""
    high, low, rest_high, rest_low = squares
    for row in range(len(keys)):
        cell = lines[places[row]] + keys[row]
        sums[0, cell], sums[1, cell], sums[2, cell], sums[3, cell] = add_squares(
            sums[0, cell], sums[1, cell], sums[2, cell], sums[3, cell],
            high[row], low[row], rest_high[row], rest_low[row],
        )  # fmt: skip


@njit(cache=True, nogil=True)
def keep_extremes(keys: Numbers, places: Numbers, lines: Numbers, values: Column, greatest: bool, best: Column) -> None:
    """Keep the least or the greatest value; NaN is above all numbers."""
    if greatest:
        for row in range(len(keys)):
            cell, value = lines[places[row]] + keys[row], values[row]
            held = best[cell]
            best[cell] = value if value > held or value != value else held
    else:
        for row in range(len(keys)):
            cell, value = lines[places[row]] + keys[row], values[row]
            held = best[cell]
            best[cell] = value if value < held or held != held else held


@njit(cache=True, nogil=True)
def accumulate_pairs(high: Floats, low: Floats) -> None:
    """Replace each line of pairs by the sum of all lines up to it."""
    for line in range(1, high.shape[0]):
        for key in range(high.shape[1]):
            high[line, key], low[line, key] = add_pairs(
                high[line - 1, key], low[line - 1, key], high[line, key], low[line, key]
            )


@njit(cache=True, nogil=True)
def accumulate_squares(sums: npt.NDArray[np.float64]) -> None:
    """Make of each line of sums of squares the sum of all lines up to it: sums[part, line, key]."""
    for line in range(1, sums.shape[1]):
        for key in range(sums.shape[2]):
            before, here = sums[:, line - 1, key], sums[:, line, key]
            here[0], here[1], here[2], here[3] = add_squares(
                before[0], before[1], before[2], before[3], here[0], here[1], here[2], here[3]
            )
