"""Aggregated basic windows in arrays: buckets of entries, each bucket a list sorted by value (Indexing, section 2.2).

An entry is a value, its count in one basic window, and a key: the node of the index that has the value, or the value
itself. One bucket is AGGR or GROUP, more are HASH. All basic windows share one pool of entries; `heads` has the first
entry of each bucket of one of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.set_index_hash import bucket_of
from panewise.kernels.set_index_nodes import find_place, give_node, take_node

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def fill_chains(
    wanted: Ints,
    begin: int,
    heads: Ints,
    state: Ints,
    values: Ints,
    counts: Ints,
    links: Ints,
    fresh: Ints,
    known: int,
) -> tuple[int, int]:
    """Count values into the basic window that fills; note the entries that are new to it.

    Returns how far it came, short of the end when entries ran out, and how many entries are noted in `fresh`.
    """
    for i in range(begin, len(wanted)):
        value = wanted[i]
        bucket = bucket_of(value, len(heads))
        before, entry = find_place(heads[bucket], value, values, links)
        if entry < 0 or values[entry] != value:
            after = entry
            entry = take_node(state, links, values, value)
            if entry < 0:
                return i, known
            counts[entry] = 0
            links[entry] = after
            if before < 0:
                heads[bucket] = entry
            else:
                links[before] = entry
            fresh[known] = entry
            known += 1
        counts[entry] += 1
    return len(wanted), known


@njit(cache=True, nogil=True)
def read_chains(heads: Ints, counts: Ints, keys: Ints, links: Ints, size: int) -> tuple[Ints, Ints]:
    """The keys and counts of a basic window with `size` entries, bucket by bucket."""
    out = np.empty(size, np.int64)
    weights = np.empty(size, np.int64)
    found = 0
    for bucket in range(len(heads)):
        entry = heads[bucket]
        while entry >= 0:
            out[found] = keys[entry]
            weights[found] = counts[entry]
            found += 1
            entry = links[entry]
    return out, weights


@njit(cache=True, nogil=True)
def free_chains(heads: Ints, state: Ints, links: Ints) -> None:
    """Give back every entry of a basic window."""
    for bucket in range(len(heads)):
        entry = heads[bucket]
        while entry >= 0:
            after = links[entry]
            give_node(state, links, entry)
            entry = after
        heads[bucket] = -1
