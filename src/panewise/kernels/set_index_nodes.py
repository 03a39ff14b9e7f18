"""Nodes of a set-valued index: a value, its counts in the windows, and how many tuples wait to be counted.

Node numbers are the pointers of the domain storage model: what a basic window holds of a value is its node. A node
that is taken out goes to a free list, linked through `links`, and is the first to be used again.
`pins` counts the pointers from basic windows that still fill; a pinned node stays even when nothing counts it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

USED, FREE, HELD, ROOT, HEIGHT, PAGES, FREE_PAGE = range(7)
STATE_PLACES = 7


@njit(inline="always")
def take_node(state: Ints, links: Ints, values: Ints, value: int) -> int:
    """A free node for a value, or -1 when every node is in use."""
    node: int = state[FREE]
    if node >= 0:
        state[FREE] = links[node]
    elif state[USED] < len(values):
        node = state[USED]
        state[USED] += 1
    else:
        return -1
    values[node] = value
    state[HELD] += 1
    return node


@njit(inline="always")
def find_place(head: int, value: int, values: Ints, links: Ints) -> tuple[int, int]:
    """In a chain sorted by value: the last node below a value, and the first that is not; -1 for none."""
    before = -1
    node = head
    while node >= 0 and values[node] < value:
        before = node
        node = links[node]
    return before, node


@njit(inline="always")
def give_node(state: Ints, links: Ints, node: int) -> None:
    """Put a node on the free list."""
    links[node] = state[FREE]
    state[FREE] = node
    state[HELD] -= 1


@njit(cache=True, nogil=True)
def pin(pins: Ints, nodes: Ints) -> None:
    """Hold nodes that a filling basic window points to."""
    for i in range(len(nodes)):
        pins[nodes[i]] += 1


@njit(inline="always")
def list_zero(counts: npt.NDArray[np.int64], node: int, zeros: Ints, queued: Flags, waiting: int) -> int:
    """Enter a node into the list of zero counts, once, when no side counts it. Returns the length of the list."""
    if queued[node]:
        return waiting
    for other in range(len(counts)):
        if counts[other, node] != 0:
            return waiting
    zeros[waiting] = node
    queued[node] = True
    return waiting + 1


@njit(cache=True, nogil=True)
def change_counts(
    counts: npt.NDArray[np.int64],
    side: int,
    pins: Ints,
    new: Ints,
    new_weights: Ints,
    old: Ints,
    old_weights: Ints,
    lists_zeros: bool,
    zeros: Ints,
    queued: Flags,
    waiting: int,
) -> tuple[int, int]:
    """Count a basic window in, let go of its nodes, and count another one out.

    If wanted, the nodes that no side counts any more are listed. Returns by how much the number of values in the
    window changes, and the length of the list.
    """
    change = 0
    for i in range(len(new)):
        node = new[i]
        change += 1 if counts[side, node] == 0 else 0
        counts[side, node] += new_weights[i]
        pins[node] -= 1
    for i in range(len(old)):
        node = old[i]
        counts[side, node] -= old_weights[i]
        if counts[side, node] == 0:
            change -= 1
            if lists_zeros:
                waiting = list_zero(counts, node, zeros, queued, waiting)
    return change, waiting


@njit(cache=True, nogil=True)
def unused_nodes(counts: npt.NDArray[np.int64], pins: Ints, nodes: Ints, queued: Flags) -> Ints:
    """Those of the nodes that nothing counts and nothing holds. None of the nodes is listed any more."""
    out = np.empty(len(nodes), np.int64)
    found = 0
    for i in range(len(nodes)):
        node = nodes[i]
        queued[node] = False
        is_unused = pins[node] == 0
        for side in range(len(counts)):
            is_unused = is_unused and counts[side, node] == 0
        if is_unused:
            out[found] = node
            found += 1
    return out[:found]
