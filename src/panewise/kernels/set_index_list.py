"""The L-INDEX in arrays: nodes in a list sorted by value, linked both ways (Indexing, section 4.1).

The list starts at `state[ROOT]`; -1 ends it. The paper links forwards only; the links back let a node be taken out
without a scan.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.set_index_nodes import HELD, ROOT, find_place, give_node, take_node

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def locate_in_list(wanted: Ints, begin: int, out: Ints, state: Ints, values: Ints, links: Ints, back: Ints) -> int:
    """The node of each value, entering new ones. Returns how far it came: short of the end when nodes ran out."""
    for i in range(begin, len(wanted)):
        value = wanted[i]
        before, node = find_place(state[ROOT], value, values, links)
        if node < 0 or values[node] != value:
            after = node
            node = take_node(state, links, values, value)
            if node < 0:
                return i
            links[node] = after
            back[node] = before
            if after >= 0:
                back[after] = node
            if before < 0:
                state[ROOT] = node
            else:
                links[before] = node
        out[i] = node
    return len(wanted)


@njit(cache=True, nogil=True)
def find_in_list(wanted: Ints, state: Ints, values: Ints, links: Ints) -> Ints:
    """The node of each value, -1 where there is none."""
    out = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        _, node = find_place(state[ROOT], wanted[i], values, links)
        out[i] = node if node >= 0 and values[node] == wanted[i] else -1
    return out


@njit(cache=True, nogil=True)
def scan_list(state: Ints, links: Ints) -> Ints:
    """Every node, in the order of values."""
    out = np.empty(state[HELD], np.int64)
    node = state[ROOT]
    for i in range(len(out)):
        out[i] = node
        node = links[node]
    return out


@njit(cache=True, nogil=True)
def remove_from_list(nodes: Ints, state: Ints, links: Ints, back: Ints) -> None:
    """Take nodes out."""
    for i in range(len(nodes)):
        node = nodes[i]
        before, after = back[node], links[node]
        if before < 0:
            state[ROOT] = after
        else:
            links[before] = after
        if after >= 0:
            back[after] = before
        give_node(state, links, node)
