"""Edge sets as bitmaps: one bit per instant at which a window of a set opens or closes.

Instants come in blocks of equal length, each with a first instant. One block that spans the common period of all
windows makes every count exact; blocks at random places make it an estimate.
Source: Guirguis et al., section 8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int32]


class Classes(NamedTuple):
    """Windows with different edges: each has the instants `first` and `second` modulo `period` (equal: one edge)."""

    periods: Ints
    firsts: Ints
    seconds: Ints


@njit(inline="always")
def _ones(word: np.uint64) -> int:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def mark(classes: Classes, blocks: Ints, length: int, rows: Ints, bitmaps: Words) -> None:
    """Set the bits of each class c in the row rows[c]: instant blocks[b] + x has the bit b * length + x."""
    for one in range(len(classes.periods)):
        period, bitmap = classes.periods[one], bitmaps[rows[one]]
        for residue in (classes.firsts[one], classes.seconds[one]):
            for block in range(len(blocks)):
                place = block * length + (residue - blocks[block]) % period
                while place < (block + 1) * length:
                    bitmap[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
                    place += period


@njit(cache=True, nogil=True)
def count_classes_at(classes: Classes, instants: Ints) -> Ints:
    """How many classes have an edge at each instant."""
    counts = np.zeros(len(instants), np.int64)
    for one in range(len(classes.periods)):
        period = classes.periods[one]
        for place in range(len(instants)):
            since = (instants[place] - classes.firsts[one]) % period
            counts[place] += since == 0 or since == (classes.seconds[one] - classes.firsts[one]) % period
    return counts


@njit(cache=True, nogil=True)
def count(bitmap: Words) -> int:
    """How many bits are set."""
    total = 0
    for word in bitmap:
        total += _ones(word)
    return total


@njit(cache=True, nogil=True)
def count_rows(bitmaps: Words) -> Ints:
    """How many bits each row has."""
    counts = np.empty(len(bitmaps), np.int64)
    for row in range(len(bitmaps)):
        counts[row] = count(bitmaps[row])
    return counts


@njit(cache=True, nogil=True)
def count_common(left: Words, right: Words) -> int:
    """How many bits two bitmaps have in common."""
    total = 0
    for place in range(len(left)):
        total += _ones(left[place] & right[place])
    return total


@njit(cache=True, nogil=True)
def count_unions(classes: Classes, blocks: Ints, length: int, members: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """For each tree members[starts[t]:starts[t + 1]]: the bits of its union, and the sum of its classes' bits.

    Needs one bitmap, however many trees there are.
    """
    unions = np.zeros(len(starts) - 1, np.int64)
    sums = np.zeros(len(starts) - 1, np.int64)
    bitmap = np.zeros(-(-len(blocks) * length // 64), np.uint64)
    for tree in range(len(unions)):
        bitmap[:] = np.uint64(0)
        for member in members[starts[tree] : starts[tree + 1]]:
            period = classes.periods[member]
            for residue in (classes.firsts[member], classes.seconds[member]):
                for block in range(len(blocks)):
                    place = block * length + (residue - blocks[block]) % period
                    while place < (block + 1) * length:
                        bit = np.uint64(1) << np.uint64(place & 63)
                        unions[tree] += bitmap[place >> 6] & bit == np.uint64(0)
                        sums[tree] += 1
                        bitmap[place >> 6] |= bit
                        place += period
                if classes.firsts[member] == classes.seconds[member]:
                    break
    return unions, sums


@njit(cache=True, nogil=True)
def list_bits(bitmaps: Words, starts: Ints, lists: Places) -> None:
    """Write the set bits of each row in rising order, from its start."""
    for row in range(len(bitmaps)):
        place = starts[row]
        for word in range(bitmaps.shape[1]):
            left = bitmaps[row, word]
            while left != np.uint64(0):
                lowest = left & (~left + np.uint64(1))
                lists[place] = word * 64 + _ones(lowest - np.uint64(1))
                place += 1
                left ^= lowest
