"""The H-INDEX in arrays: buckets of nodes, each a list sorted by value (Indexing, section 4.2).

`heads` has the first node of each bucket, -1 for none. The caller decides whether the number of buckets ever grows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.set_index_nodes import HELD, find_place, give_node, take_node

Ints = npt.NDArray[np.int64]


@njit(inline="always")
def bucket_of(value: int, buckets: int) -> np.int64:
    """The bucket of a value, for any number of buckets. It scales the high bits of a product: a division is slow."""
    h = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(((h >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def locate_in_buckets(
    wanted: Ints, begin: int, out: Ints, state: Ints, values: Ints, links: Ints, heads: Ints, most: int
) -> int:
    """The node of each value, entering new ones.

    Returns how far it came: short of the end when nodes ran out, or when there are `most` of them.
    """
    for i in range(begin, len(wanted)):
        value = wanted[i]
        bucket = bucket_of(value, len(heads))
        before, node = find_place(heads[bucket], value, values, links)
        if node < 0 or values[node] != value:
            after = node
            if state[HELD] >= most:
                return i
            node = take_node(state, links, values, value)
            if node < 0:
                return i
            links[node] = after
            if before < 0:
                heads[bucket] = node
            else:
                links[before] = node
        out[i] = node
    return len(wanted)


@njit(cache=True, nogil=True)
def find_in_buckets(wanted: Ints, values: Ints, links: Ints, heads: Ints) -> Ints:
    """The node of each value, -1 where there is none."""
    out = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        _, node = find_place(heads[bucket_of(wanted[i], len(heads))], wanted[i], values, links)
        out[i] = node if node >= 0 and values[node] == wanted[i] else -1
    return out


@njit(cache=True, nogil=True)
def scan_buckets(state: Ints, links: Ints, heads: Ints) -> Ints:
    """Every node, bucket by bucket."""
    out = np.empty(state[HELD], np.int64)
    found = 0
    for bucket in range(len(heads)):
        node = heads[bucket]
        while node >= 0:
            out[found] = node
            found += 1
            node = links[node]
    return out


@njit(cache=True, nogil=True)
def rehash(nodes: Ints, values: Ints, links: Ints, heads: Ints) -> None:
    """Enter nodes into empty buckets, the greatest value first."""
    for i in range(len(nodes) - 1, -1, -1):
        bucket = bucket_of(values[nodes[i]], len(heads))
        links[nodes[i]] = heads[bucket]
        heads[bucket] = nodes[i]


@njit(cache=True, nogil=True)
def remove_from_buckets(nodes: Ints, state: Ints, values: Ints, links: Ints, heads: Ints) -> None:
    """Take nodes out."""
    for i in range(len(nodes)):
        bucket = bucket_of(values[nodes[i]], len(heads))
        before = -1
        node = heads[bucket]
        while node != nodes[i]:
            before = node
            node = links[node]
        if before < 0:
            heads[bucket] = links[node]
        else:
            links[before] = links[node]
        give_node(state, links, node)
