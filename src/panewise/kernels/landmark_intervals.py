"""Landmark intervals: combinations up to the next multiple of a spacing, and from the last one on.

Each partition of the windows has landmarks at the multiples of 2**level. The suffix of a position runs to the next
landmark, the prefix of a position from the landmark before it. A range at least one spacing wide and less than two is
its first suffix, at most one whole block, and its last prefix. The prefixes of blocks that begin before the first held
position are not right, as no range asks for them.

One array holds the suffixes and prefixes of all partitions, and `table` says where they are. Its first 64 numbers are,
by level, where the row of the partition is, -1 for none. A row has the places below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine, differs, is_dear
from panewise.kernels.pool import Keys, key_at, write_ring

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]

LEVELS = 64
LEVEL, SUFFIXES, SUFFIX_MASK, SUFFIX_REACH, PREFIXES, PREFIX_MASK, PREFIX_REACH, ROW_WIDTH = range(8)
"""Places in a row: the level; where its suffixes begin in the store, how many of a segment's places they use, less one,
and how far back they reach; and the same for its prefixes."""
EVERYTHING = 2**62
"""The reach of a partition that serves its widths anywhere."""


@njit(cache=True, nogil=True)
def _extend_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    store: Elements,
    table: Ints,
    at: int,
    mask: int,
    begin: int,
    end: int,
    oldest: int,
) -> None:
    """Prefixes of positions begin .. end - 1, and suffixes of the blocks that they complete, from `oldest` on."""
    for row in range(LEVELS, len(table), ROW_WIDTH):
        spacing = 1 << table[row + LEVEL]
        suffixes = table[row + SUFFIXES] + at
        suffix_mask = mask & table[row + SUFFIX_MASK]
        prefixes = table[row + PREFIXES] + at
        prefix_mask = mask & table[row + PREFIX_MASK]
        position = max(begin, oldest)
        block = position & -spacing
        while position < end:
            stop = min(block + spacing, end)
            total = elements[at + (position & mask)]
            if position > block and position > oldest:
                total = combine(operation, user, store[prefixes + ((position - 1) & prefix_mask)], total)
            store[prefixes + (position & prefix_mask)] = total
            for t in range(position + 1, stop):
                total = combine(operation, user, total, elements[np.uint64(at + (t & mask))])
                store[np.uint64(prefixes + (t & prefix_mask))] = total
            if stop == block + spacing:
                total = elements[at + ((stop - 1) & mask)]
                store[suffixes + ((stop - 1) & suffix_mask)] = total
                for t in range(stop - 2, max(block, oldest) - 1, -1):
                    total = combine(operation, user, elements[np.uint64(at + (t & mask))], total)
                    store[np.uint64(suffixes + (t & suffix_mask))] = total
            position = stop
            block += spacing


@njit(cache=True, nogil=True)
def append_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    store: Elements,
    table: Ints,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    bounds: Ints,
    begin: Ints,
    after: Ints,
    values: Elements,
) -> None:
    """Take in each key's group of values from position `begin` on; `after` is its first held position when done."""
    for j in range(len(keys)):
        key = keys[j]
        mask = (1 << int(shift[key])) - 1
        at = offset[key]
        source = bounds[j] - begin[j]
        end = bounds[j + 1] - source
        write_ring(elements, at, mask + 1, values, source, max(begin[j], after[j]), end)
        _extend_landmarks(operation, user, elements, store, table, at, mask, begin[j], end, after[j])


@njit(cache=True, nogil=True)
def rebuild_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    store: Elements,
    table: Ints,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    first: Ints,
    length: Ints,
) -> None:
    """Build the suffixes and prefixes of some keys again from their elements."""
    for j in range(len(keys)):
        key = keys[j]
        mask = (1 << int(shift[key])) - 1
        _extend_landmarks(
            operation, user, elements, store, table, offset[key], mask, first[key], length[key], first[key]
        )


@njit(cache=True, nogil=True)
def fold_landmarks(
    operation: int,
    user: Any,
    identity: Any,
    store: Elements,
    table: Ints,
    offset: Ints,
    shift: Shifts,
    length: Ints,
    keys: Keys,
    low: Ints,
    high: Ints,
    out: Elements,
) -> int:
    """Fold each range with the partition that serves its width; returns the first range that none serves, or -1."""
    for i in range(len(low)):
        a = low[i]
        b = high[i] - 1
        if a > b:
            out[i] = identity
            continue
        key = key_at(keys, i)
        # The exponent of the width as a double: its logarithm, rounded down.
        row = table[(np.float64(b - a + 1).view(np.int64) >> 52) - 1023]
        if row < 0 or not _reaches(table, row, length, key, a, b):
            row = _row_from_beginning(table, length, key, a, b)
            if row < 0:
                return i
        level = table[row + LEVEL]
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        prefixes = table[row + PREFIXES] + at
        prefix_mask = mask & table[row + PREFIX_MASK]
        block = a >> level
        last = b >> level
        ending = store[np.uint64(prefixes + (b & prefix_mask))]
        if last == block:
            # One block from its beginning on.
            out[i] = ending
            continue
        total = store[np.uint64(table[row + SUFFIXES] + at + (a & mask & table[row + SUFFIX_MASK]))]
        whole = np.uint64(prefixes + (((last << level) - 1) & prefix_mask))
        if is_dear(user, identity):
            if last - block == 2:
                total = combine(operation, user, total, store[whole])
        else:
            # Combine whether a whole block lies between or not: that is as good as random, and a wrong guess costs
            # more.
            longer = combine(operation, user, total, store[whole])
            total = longer if last - block == 2 else total
        out[i] = combine(operation, user, total, ending)
    return -1


@njit(inline="always")
def _reaches(table: Ints, row: int, length: Ints, key: int, low: int, last: int) -> bool:
    """Whether a partition reaches back to both ends of a range."""
    if table[row + SUFFIX_REACH] == EVERYTHING:
        return True
    return bool(length[key] - low <= table[row + SUFFIX_REACH] and length[key] - 1 - last < table[row + PREFIX_REACH])


@njit(cache=True, nogil=True)
def _row_from_beginning(table: Ints, length: Ints, key: int, low: int, last: int) -> int:
    """The partition of a range from the beginning of a substream, where a window is not yet full; -1 for none.

    Such a range is a prefix of the first block.
    """
    if low == 0:
        for row in range(LEVELS, len(table), ROW_WIDTH):
            if last < 1 << table[row + LEVEL] and _reaches(table, row, length, key, low, last):
                return row
    return -1


@njit(cache=True, nogil=True)
def move_landmarks(
    source: Elements,
    old_table: Ints,
    target: Elements,
    table: Ints,
    old_offset: Ints,
    old_shift: Shifts,
    new_offset: Ints,
    new_shift: Shifts,
) -> None:
    """Copy the suffixes and prefixes of segments that keep their size to a new pool; the others are built again."""
    for row in range(LEVELS, len(table), ROW_WIDTH):
        for side in (SUFFIXES, PREFIXES):
            for j in range(len(old_offset)):
                if old_shift[j] == new_shift[j]:
                    old = old_table[row + side] + old_offset[j]
                    new = table[row + side] + new_offset[j]
                    for place in range(min((1 << int(old_shift[j])) - 1, table[row + side + 1]) + 1):
                        target[new + place] = source[old + place]


@njit(cache=True, nogil=True)
def find_wrong_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    store: Elements,
    table: Ints,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    first: Ints,
    length: Ints,
) -> int:
    """The first key whose prefixes or suffixes do not follow from its elements; -1 if there is none."""
    for j in range(len(keys)):
        key = keys[j]
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        for row in range(LEVELS, len(table), ROW_WIDTH):
            spacing = 1 << table[row + LEVEL]
            suffixes = table[row + SUFFIXES] + at
            suffix_mask = mask & table[row + SUFFIX_MASK]
            prefixes = table[row + PREFIXES] + at
            prefix_mask = mask & table[row + PREFIX_MASK]
            for t in range(first[key], length[key]):
                block = t & -spacing
                element = elements[at + (t & mask)]
                # The oldest prefix in a ring has none before it.
                if block >= first[key] and length[key] - t <= prefix_mask:
                    wanted = element
                    if t > block:
                        wanted = combine(operation, user, store[prefixes + ((t - 1) & prefix_mask)], element)
                    stored = store[prefixes + (t & prefix_mask)]
                    if differs(stored, wanted):
                        return int(key)
                if block + spacing <= length[key] and length[key] - t <= suffix_mask + 1:
                    wanted = element
                    if t + 1 < block + spacing:
                        wanted = combine(operation, user, element, store[suffixes + ((t + 1) & suffix_mask)])
                    stored = store[suffixes + (t & suffix_mask)]
                    if differs(stored, wanted):
                        return int(key)
    return -1


def split(low: int, high: int, spacing: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two landmark intervals that make up a range of positions low .. high.

    >>> split(3257, 5164, spacing=1000)
    ((3257, 3999), (4000, 5164))
    """
    landmark = (low // spacing + 1) * spacing
    return (low, landmark - 1), (landmark, high)
