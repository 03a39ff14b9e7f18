"""Rings from the youngest tuple back: deletion a value at a time, or with nothing repaired (Indexing, 5.3 and 5.4).

`links[row & mask]` is the next older tuple of the same value; the oldest has ~node. A node has its youngest tuple in
the window. Tuples of the filling basic window link into the ring, but nothing links to them yet, so readers never meet
them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]

OFF_RING = np.iinfo(np.int64).min
"""The link of a tuple that has been taken off its ring."""


@njit(cache=True, nogil=True)
def link_backward(
    first: int,
    nodes: Ints,
    links: Ints,
    owners: Ints,
    newest: Ints,
    filling: Ints,
    counts: Ints,
    pins: Ints,
    touched: Ints,
    known: int,
) -> int:
    """Put tuples in front of their rings; `owners`, when it is kept, gets the node of each.

    Notes in `touched` the nodes that had no tuple in the filling basic window, and returns how many are noted.
    """
    mask = len(links) - 1
    keeps_owners = len(owners) > 0
    for i in range(len(nodes)):
        node = nodes[i]
        row = first + i
        before = filling[node]
        if pins[node] == 0:
            before = newest[node] if counts[node] else ~node
            touched[known] = node
            known += 1
        links[row & mask] = before
        filling[node] = row
        pins[node] += 1
        if keeps_owners:
            owners[row & mask] = node
    return known


@njit(cache=True, nogil=True)
def attach_filling(nodes: Ints, newest: Ints, filling: Ints, counts: Ints, pins: Ints) -> int:
    """Let readers see the tuples that filled, a node at a time. Returns how many values are new in the window."""
    gained = 0
    for i in range(len(nodes)):
        node = nodes[i]
        gained += 1 if counts[node] == 0 else 0
        newest[node] = filling[node]
        counts[node] += pins[node]
        pins[node] = 0
    return gained


@njit(cache=True, nogil=True)
def expire_backward(first: int, end: int, links: Ints, newest: Ints, counts: Ints, gone: Ints) -> int:
    """Take the tuples [first, end) off their rings, a value at a time, then walk the ring to its new end.

    Notes in `gone` the nodes that nothing counts any more, and returns how many.
    """
    mask = len(links) - 1
    lost = 0
    for start in range(end - 1, first - 1, -1):
        row = start
        if links[row & mask] == OFF_RING:
            continue
        taken = 0
        while row >= 0:
            older = links[row & mask]
            links[row & mask] = OFF_RING
            taken += 1
            row = older
        node = ~row
        counts[node] -= taken
        if counts[node] == 0:
            newest[node] = -1
            gone[lost] = node
            lost += 1
            continue
        row = newest[node]
        for _ in range(counts[node] - 1):
            row = links[row & mask]
        links[row & mask] = ~node
    return lost


@njit(cache=True, nogil=True)
def expire_dirty(first: int, end: int, owners: Ints, counts: Ints, gone: Ints) -> int:
    """Count the tuples [first, end) out and leave their rings as they are: whatever lies before `end` is stale.

    Notes in `gone` the nodes that nothing counts any more, and returns how many.
    """
    mask = len(owners) - 1
    lost = 0
    for row in range(first, end):
        node = owners[row & mask]
        counts[node] -= 1
        if counts[node] == 0:
            gone[lost] = node
            lost += 1
    return lost


@njit(cache=True, nogil=True)
def sort_owners(first: int, end: int, owners: Ints, nodes: Ints, sizes: Ints, capacity: int) -> Ints:
    """The rows [first, end) in the order of their nodes, each node's in the order of arrival.

    `nodes` are those of the rows, in order, and `sizes` how many rows each has. One pass over the rows, in which no
    step waits for another: five times as fast as following the rings.
    """
    out = np.empty(end - first, np.int64)
    places = np.empty(capacity, np.int64)
    total = 0
    for i in range(len(nodes)):
        places[nodes[i]] = total
        total += sizes[i]
    mask = len(owners) - 1
    for row in range(first, end):
        node = owners[row & mask]
        out[places[node]] = row
        places[node] += 1
    return out
