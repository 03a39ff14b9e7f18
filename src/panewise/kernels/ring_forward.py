"""Rings in the order of arrival: the plain ring index, and insertion with an auxiliary index (Indexing, 5.1 and 5.2).

`links[row & mask]` is the next younger tuple of the same value; the youngest has ~node, which leads back to the index.
A node has its oldest tuple, and its youngest in the window, where readers stop; -1 for none. Only the end of a ring
knows the node, so a tuple that leaves is followed all the way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(inline="always")
def end_of_ring(links: Ints, row: int) -> int:
    """The youngest tuple of a ring, from any of its tuples."""
    mask = len(links) - 1
    after = links[row & mask]
    while after >= 0:
        row = after
        after = links[row & mask]
    return row


@njit(cache=True, nogil=True)
def link_forward(first: int, nodes: Ints, links: Ints, oldest: Ints, newest: Ints, pins: Ints) -> None:
    """Append tuples to their rings, each time from the youngest in the window to the end."""
    mask = len(links) - 1
    for i in range(len(nodes)):
        node = nodes[i]
        row = first + i
        start = newest[node] if newest[node] >= 0 else oldest[node]
        if start < 0:
            oldest[node] = row
        else:
            links[end_of_ring(links, start) & mask] = row
        links[row & mask] = ~node
        pins[node] += 1


@njit(cache=True, nogil=True)
def attach_forward(nodes: Ints, links: Ints, oldest: Ints, newest: Ints, counts: Ints, pins: Ints) -> int:
    """Move the ends that readers see, for all nodes of the index. Returns how many values are new in the window."""
    gained = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if pins[node] == 0:
            continue
        gained += 1 if counts[node] == 0 else 0
        newest[node] = end_of_ring(links, newest[node] if newest[node] >= 0 else oldest[node])
        counts[node] += pins[node]
        pins[node] = 0
    return gained


@njit(cache=True, nogil=True)
def link_auxiliary(
    first: int,
    nodes: Ints,
    links: Ints,
    oldest: Ints,
    newest: Ints,
    filling: Ints,
    pins: Ints,
    touched: Ints,
    known: int,
) -> int:
    """Append tuples to their rings; `filling` has the youngest tuple of each node in the basic window that fills.

    Notes in `touched` the nodes that had no tuple there before, and returns how many are noted.
    """
    mask = len(links) - 1
    for i in range(len(nodes)):
        node = nodes[i]
        row = first + i
        before = filling[node]
        if pins[node] == 0:
            before = newest[node]
            touched[known] = node
            known += 1
        if before < 0:
            oldest[node] = row
        else:
            links[before & mask] = row
        links[row & mask] = ~node
        filling[node] = row
        pins[node] += 1
    return known


@njit(cache=True, nogil=True)
def expire_forward(first: int, end: int, links: Ints, oldest: Ints, newest: Ints, counts: Ints, gone: Ints) -> int:
    """Take the tuples [first, end) off their rings, the oldest first, each by following its ring to the index.

    Notes in `gone` the nodes that nothing counts any more, and returns how many.
    """
    mask = len(links) - 1
    lost = 0
    for row in range(first, end):
        node = ~links[end_of_ring(links, row) & mask]
        after = links[row & mask]
        oldest[node] = after if after >= 0 else -1
        counts[node] -= 1
        if counts[node] == 0:
            newest[node] = -1
            gone[lost] = node
            lost += 1
    return lost
