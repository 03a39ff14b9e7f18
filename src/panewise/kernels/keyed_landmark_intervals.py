"""Landmark intervals of many keys: combinations up to the next multiple of a spacing, and from the last one on.

Each partition of the windows has landmarks at the multiples of 2**level, and for each place of the pool a suffix and a
prefix: those of partition p lie from p * size on, in the same order as the elements. The suffix of a position runs to
the next landmark, the prefix of a position from the landmark before it. The prefixes of blocks that begin before the
first held position are not right, as no range asks for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]


@njit(cache=True, nogil=True)
def _extend_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    suffixes: Elements,
    prefixes: Elements,
    levels: Ints,
    at: int,
    mask: int,
    begin: int,
    end: int,
    oldest: int,
) -> None:
    """Prefixes of positions begin .. end - 1, and suffixes of the blocks that they complete, from `oldest` on."""
    size = len(elements)
    for partition in range(len(levels)):
        spacing = 1 << levels[partition]
        base = partition * size + at
        position = max(begin, oldest)
        block = position & -spacing
        while position < end:
            stop = min(block + spacing, end)
            is_begun = position > block and position > oldest
            total = prefixes[base + ((position - 1) & mask)] if is_begun else elements[at + (position & mask)]
            for t in range(position, stop):
                if is_begun or t > position:
                    total = combine(operation, user, total, elements[at + (t & mask)])
                prefixes[base + (t & mask)] = total
            if stop == block + spacing:
                total = elements[at + ((stop - 1) & mask)]
                suffixes[base + ((stop - 1) & mask)] = total
                for t in range(stop - 2, max(block, oldest) - 1, -1):
                    total = combine(operation, user, elements[at + (t & mask)], total)
                    suffixes[base + (t & mask)] = total
            position = stop
            block += spacing


@njit(cache=True, nogil=True)
def append_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    suffixes: Elements,
    prefixes: Elements,
    levels: Ints,
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
        for t in range(max(begin[j], after[j]), end):
            elements[at + (t & mask)] = values[source + t]
        _extend_landmarks(operation, user, elements, suffixes, prefixes, levels, at, mask, begin[j], end, after[j])


@njit(cache=True, nogil=True)
def rebuild_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    suffixes: Elements,
    prefixes: Elements,
    levels: Ints,
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
            operation,
            user,
            elements,
            suffixes,
            prefixes,
            levels,
            offset[key],
            mask,
            first[key],
            length[key],
            first[key],
        )


@njit(cache=True, nogil=True)
def fold_landmarks_of_keys(
    operation: int,
    user: Any,
    identity: Any,
    suffixes: Elements,
    prefixes: Elements,
    size: int,
    levels: Ints,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    low: Ints,
    high: Ints,
    out: Elements,
) -> int:
    """Fold each key's range with the partition that serves its width; returns the first that none serves, or -1."""
    for i in range(len(keys)):
        a = low[i]
        b = high[i] - 1
        if a > b:
            out[i] = identity
            continue
        width = b - a + 1
        chosen = -1
        for partition in range(len(levels)):
            spacing = 1 << levels[partition]
            # A range from the beginning of the substream lies in its first block while that is not complete.
            if spacing <= width < 2 * spacing or (a == 0 and width <= spacing):
                chosen = partition
                break
        if chosen < 0:
            return i
        level = levels[chosen]
        mask = (1 << int(shift[keys[i]])) - 1
        base = chosen * size + offset[keys[i]]
        block = a >> level
        last = b >> level
        ending = prefixes[base + (b & mask)]
        if last == block:
            # One block from its beginning on.
            out[i] = ending
            continue
        total = suffixes[base + (a & mask)]
        if last - block == 2:
            total = combine(operation, user, total, prefixes[base + (((last << level) - 1) & mask)])
        out[i] = combine(operation, user, total, ending)
    return -1


@njit(cache=True, nogil=True)
def move_landmarks(
    source: Elements,
    target: Elements,
    partitions: int,
    old_offset: Ints,
    old_shift: Shifts,
    new_offset: Ints,
    new_shift: Shifts,
) -> None:
    """Copy the suffixes, or prefixes, of segments that keep their size to a new pool; the others are built again."""
    if not partitions:
        return
    old_size = len(source) // partitions
    new_size = len(target) // partitions
    for partition in range(partitions):
        for j in range(len(old_offset)):
            if old_shift[j] == new_shift[j]:
                old = partition * old_size + old_offset[j]
                new = partition * new_size + new_offset[j]
                for place in range(1 << int(old_shift[j])):
                    target[new + place] = source[old + place]


@njit(cache=True, nogil=True)
def find_wrong_landmarks(
    operation: int,
    user: Any,
    elements: Elements,
    suffixes: Elements,
    prefixes: Elements,
    levels: Ints,
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
        for partition in range(len(levels)):
            spacing = 1 << levels[partition]
            base = partition * len(elements) + at
            for t in range(first[key], length[key]):
                block = t & -spacing
                element = elements[at + (t & mask)]
                if block >= first[key]:
                    wanted = element
                    if t > block:
                        wanted = combine(operation, user, prefixes[base + ((t - 1) & mask)], element)
                    stored = prefixes[base + (t & mask)]
                    if not (stored == wanted or (stored != stored and wanted != wanted)):
                        return int(key)
                if block + spacing <= length[key]:
                    wanted = element
                    if t + 1 < block + spacing:
                        wanted = combine(operation, user, element, suffixes[base + ((t + 1) & mask)])
                    stored = suffixes[base + (t & mask)]
                    if not (stored == wanted or (stored != stored and wanted != wanted)):
                        return int(key)
    return -1
