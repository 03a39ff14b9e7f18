"""A search tree over the positions of each key, in arrays: each node the combination of the leaves below it.

A node of level j has FAN_OUT children of level j - 1 and covers FAN_OUT**j positions. The newest node of each level
grows with every leaf, as in PSoup, so every update touches every level. `starts` says where each level begins. A
segment of 2**shift places at `offset` has 2**shift / FAN_OUT**j nodes of level j, from offset / FAN_OUT**j on: as
segments do not overlap, these do not either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine, differs
from panewise.kernels.pool import Keys, key_at

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]

FAN_OUT_BITS = 3
FAN_OUT = 1 << FAN_OUT_BITS


@njit(cache=True, nogil=True)
def extend_trees(
    operation: int,
    user: Any,
    nodes: Elements,
    starts: Ints,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    bounds: Ints,
    begin: Ints,
    after: Ints,
    values: Elements,
) -> None:
    """Add each key's group of leaves from position `begin` on, and each leaf to its node on every level.

    `after` is the key's first held position when done.
    """
    for j in range(len(keys)):
        key = keys[j]
        source = bounds[j] - begin[j]
        start = max(begin[j], after[j])
        for level in range(int(shift[key]) // FAN_OUT_BITS + 1):
            bits = FAN_OUT_BITS * level
            base = starts[level] + (offset[key] >> bits)
            mask = (1 << (int(shift[key]) - bits)) - 1
            for t in range(start, begin[j] + bounds[j + 1] - bounds[j]):
                at = base + ((t >> bits) & mask)
                if t & ((1 << bits) - 1) == 0 or t == after[j]:
                    nodes[at] = values[source + t]
                else:
                    nodes[at] = combine(operation, user, nodes[at], values[source + t])


@njit(cache=True, nogil=True)
def fold_search_trees(
    operation: int,
    user: Any,
    identity: Any,
    nodes: Elements,
    starts: Ints,
    offset: Ints,
    shift: Shifts,
    keys: Keys,
    low: Ints,
    high: Ints,
) -> Elements:
    """Fold each range from the nodes that lie wholly in it, from the leaves up on both sides."""
    out = np.empty(len(low), nodes.dtype)
    for i in range(len(low)):
        a = low[i]
        b = high[i]
        front = identity
        back = identity
        if a < b:
            key = key_at(keys, i)
            log_size = int(shift[key])
            at = offset[key]
            level = 0
            while a < b:
                base = starts[level] + (at >> FAN_OUT_BITS * level)
                mask = (1 << log_size) - 1
                is_top = log_size < FAN_OUT_BITS
                while a < b and (is_top or a & (FAN_OUT - 1)):
                    front = combine(operation, user, front, nodes[base + (a & mask)])
                    a += 1
                while a < b and b & (FAN_OUT - 1):
                    b -= 1
                    back = combine(operation, user, nodes[base + (b & mask)], back)
                a >>= FAN_OUT_BITS
                b >>= FAN_OUT_BITS
                log_size -= FAN_OUT_BITS
                level += 1
        out[i] = combine(operation, user, front, back)
    return out


@njit(cache=True, nogil=True)
def find_wrong_node(
    operation: int,
    user: Any,
    nodes: Elements,
    starts: Ints,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    first: Ints,
    length: Ints,
) -> int:
    """The first key with a whole node that is not the combination of its leaves; -1 if there is none."""
    for j in range(len(keys)):
        key = keys[j]
        mask = (1 << int(shift[key])) - 1
        for level in range(1, int(shift[key]) // FAN_OUT_BITS + 1):
            bits = FAN_OUT_BITS * level
            base = starts[level] + (offset[key] >> bits)
            for number in range((first[key] + (1 << bits) - 1) >> bits, length[key] >> bits):
                wanted = nodes[offset[key] + ((number << bits) & mask)]
                for t in range((number << bits) + 1, (number + 1) << bits):
                    wanted = combine(operation, user, wanted, nodes[offset[key] + (t & mask)])
                stored = nodes[base + (number & (mask >> bits))]
                if differs(stored, wanted):
                    return int(key)
    return -1
