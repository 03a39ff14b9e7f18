"""Base intervals: each segment of 2**shift elements has a tree of twice as many places.

The tree is laid out as a heap: position t is the leaf `2**shift + (t mod 2**shift)`, and the parent of node i is i / 2.
Interval k of level j covers positions k * 2**j .. (k + 1) * 2**j - 1 and is written when its last element comes.
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


@njit(cache=True, nogil=True)
def _complete_nodes(
    operation: int, user: Any, nodes: Elements, root: int, shift: int, start: int, end: int, oldest: int
) -> None:
    """Write the intervals that end in (start, end] and begin at `oldest` or later; the leaves are filled already."""
    for level in range(1, shift + 1):
        number = max(start >> level, (oldest + (1 << level) - 1) >> level)
        last = end >> level
        if last <= number:
            break
        size = 1 << (shift - level)
        above = root + size
        below = root + 2 * size
        while number < last:
            at = number & (size - 1)
            # Up to the end of the ring without a test in the loop.
            run = min(last - number, size - at)
            for i in range(at, at + run):
                left = nodes[np.uint64(below + 2 * i)]
                nodes[np.uint64(above + i)] = combine(operation, user, left, nodes[np.uint64(below + 2 * i + 1)])
            number += run


@njit(cache=True, nogil=True)
def append_trees(
    operation: int,
    user: Any,
    nodes: Elements,
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
        log_size = int(shift[key])
        size = 1 << log_size
        root = 2 * offset[key]
        source = bounds[j] - begin[j]
        end = bounds[j + 1] - source
        write_ring(nodes, root + size, size, values, source, max(begin[j], after[j]), end)
        _complete_nodes(operation, user, nodes, root, log_size, begin[j], end, after[j])


@njit(cache=True, nogil=True)
def fold_trees(
    operation: int,
    user: Any,
    identity: Any,
    nodes: Elements,
    offset: Ints,
    shift: Shifts,
    keys: Keys,
    low: Ints,
    high: Ints,
) -> Elements:
    """Combine the cover of each range: at most two nodes a level, found from the bits of its ends."""
    out = np.empty(len(low), nodes.dtype)
    for i in range(len(low)):
        a = low[i]
        b = high[i]
        front = identity
        back = identity
        if a < b:
            key = key_at(keys, i)
            root = 2 * offset[key]
            size = 1 << int(shift[key])
            while a < b:
                left = np.uint64(root + size + (a & (size - 1)))
                right = np.uint64(root + size + ((b - 1) & (size - 1)))
                if is_dear(user, identity):
                    if a & 1:
                        front = combine(operation, user, front, nodes[left])
                    if b & 1:
                        back = combine(operation, user, nodes[right], back)
                else:
                    # Read and combine both, whether they belong to the cover or not: which of them do is as good as
                    # random, and a branch that is guessed wrong costs more.
                    longer_front = combine(operation, user, front, nodes[left])
                    longer_back = combine(operation, user, nodes[right], back)
                    front = longer_front if a & 1 else front
                    back = longer_back if b & 1 else back
                a = (a + 1) >> 1
                b >>= 1
                size >>= 1
        out[i] = combine(operation, user, front, back)
    return out


@njit(cache=True, nogil=True)
def move_trees(
    operation: int,
    user: Any,
    source: Elements,
    target: Elements,
    old_offset: Ints,
    old_shift: Shifts,
    new_offset: Ints,
    new_shift: Shifts,
    first: Ints,
    length: Ints,
) -> None:
    """Move trees: copy those that keep their size; of the others copy the leaves and build the rest again."""
    for j in range(len(old_offset)):
        old_root = 2 * old_offset[j]
        new_root = 2 * new_offset[j]
        old_size = 1 << int(old_shift[j])
        new_size = 1 << int(new_shift[j])
        if old_size == new_size:
            for place in range(2 * new_size):
                target[new_root + place] = source[old_root + place]
            continue
        for t in range(first[j], length[j]):
            leaf = source[old_root + old_size + (t & (old_size - 1))]
            target[new_root + new_size + (t & (new_size - 1))] = leaf
        _complete_nodes(operation, user, target, new_root, int(new_shift[j]), first[j], length[j], first[j])


@njit(cache=True, nogil=True)
def find_wrong_tree(
    operation: int, user: Any, nodes: Elements, offset: Ints, shift: Shifts, keys: Ints, first: Ints, length: Ints
) -> int:
    """The first key with a node that is not the combination of its children; -1 if there is none."""
    for j in range(len(keys)):
        key = keys[j]
        root = 2 * offset[key]
        for level in range(1, int(shift[key]) + 1):
            size = 1 << (int(shift[key]) - level)
            for number in range((first[key] + (1 << level) - 1) >> level, length[key] >> level):
                at = root + size + (number & (size - 1))
                below = root + 2 * (size + (number & (size - 1)))
                wanted = combine(operation, user, nodes[below], nodes[below + 1])
                if differs(nodes[at], wanted):
                    return int(key)
    return -1


def cover(low: int, high: int) -> list[tuple[int, int]]:
    """The fewest base intervals that make up positions low .. high - 1, as (level, number), from left to right.

    >>> [(k << j, ((k + 1) << j) - 1) for j, k in cover(0, 43)]
    [(0, 31), (32, 39), (40, 41), (42, 42)]
    """
    front: list[tuple[int, int]] = []
    back: list[tuple[int, int]] = []
    level = 0
    while low < high:
        if low & 1:
            front.append((level, low))
            low += 1
        if high & 1:
            high -= 1
            back.append((level, high))
        low, high, level = low >> 1, high >> 1, level + 1
    return front + back[::-1]
