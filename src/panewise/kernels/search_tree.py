"""A search tree over positions, in arrays: each node the combination of the leaves below it.

A node of level j has FAN_OUT children of level j - 1 and covers FAN_OUT**j positions. The newest node of each level
grows with every leaf, as in PSoup, so every update touches every level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine
from panewise.kernels.rings import place

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

FAN_OUT_BITS = 3
FAN_OUT = 1 << FAN_OUT_BITS


@njit(cache=True, nogil=True)
def extend_tree(operation: int, user: Any, nodes: Elements, offsets: Ints, start: int, values: Elements) -> None:
    """Add leaves, and each of them to its node on every level."""
    for level in range(len(offsets) - 1):
        shift = FAN_OUT_BITS * level
        ring = nodes[offsets[level] : offsets[level + 1]]
        mask = (1 << shift) - 1
        at = (start >> shift) % len(ring)
        for i in range(len(values)):
            t = start + i
            if t & mask == 0:
                at = (t >> shift) % len(ring)
                ring[at] = values[i]
            else:
                ring[at] = combine(operation, user, ring[at], values[i])


@njit(cache=True, nogil=True)
def fold_tree(
    operation: int, user: Any, identity: Any, nodes: Elements, offsets: Ints, laps: Ints, low: Ints, high: Ints
) -> Elements:
    """Fold each range from the nodes that lie wholly in it, from the leaves up on both sides."""
    out = np.empty(len(low), nodes.dtype)
    for i in range(len(low)):
        a = low[i]
        b = high[i]
        front = identity
        back = identity
        level = 0
        while a < b:
            base = offsets[level]
            size = offsets[level + 1] - base
            while a < b and a & (FAN_OUT - 1):
                front = combine(operation, user, front, nodes[base + place(a, laps[level], size)])
                a += 1
            while a < b and b & (FAN_OUT - 1):
                b -= 1
                back = combine(operation, user, nodes[base + place(b, laps[level], size)], back)
            if level == len(offsets) - 2:
                while a < b:
                    front = combine(operation, user, front, nodes[base + place(a, laps[level], size)])
                    a += 1
            a >>= FAN_OUT_BITS
            b >>= FAN_OUT_BITS
            level += 1
        out[i] = combine(operation, user, front, back)
    return out
