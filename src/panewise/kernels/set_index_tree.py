"""The T-INDEX in arrays: a B+ tree of pages whose leaves point to nodes (Indexing, section 4.2).

A page has up to FAN_OUT entries, a key and a link each; free places have the greatest key, so that a search counts the
keys of a whole page without a branch. The link of a leaf's entry is a node, that of any other a page one level down.
The key of an inner entry is at most every key below it, and above every key below the entry before it. A page leaves
the tree when it is empty, not before (Johnson and Shasha, 1993).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.set_index_nodes import FREE_PAGE, HEIGHT, HELD, PAGES, ROOT, give_node, take_node

Ints = npt.NDArray[np.int64]

FAN_OUT = 16
BUILT = 12
"""Entries of a page that is built in one go: room for a few more."""
TALLEST = 24
"""More levels than a tree of 2**63 values with half-full pages can have."""
GREATEST = np.iinfo(np.int64).max


@njit(inline="always")
def below(keys: Ints, value: int) -> int:
    """How many keys of a page are below a value."""
    found = 0
    # The length must not be a constant: the compiler would unroll a loop of FAN_OUT steps and not vectorise it.
    for i in range(len(keys)):
        found += 1 if keys[i] < value else 0
    return found


@njit(inline="always")
def child_of(keys: Ints, value: int, size: int) -> int:
    """The entry of an inner page whose subtree a value belongs to."""
    found = 0
    for i in range(len(keys)):
        found += 1 if keys[i] <= value else 0
    return max(0, min(found, size) - 1)


@njit(inline="always")
def take_page(state: Ints, keys: Ints, links: Ints, sizes: Ints) -> int:
    """An empty page; the caller has made sure that there is one."""
    page: int = state[FREE_PAGE]
    if page >= 0:
        state[FREE_PAGE] = links[page, 0]
    else:
        page = state[PAGES]
        state[PAGES] += 1
    keys[page, :] = GREATEST
    sizes[page] = 0
    return page


@njit(inline="always")
def give_page(state: Ints, links: Ints, sizes: Ints, page: int) -> None:
    """Put a page on the free list; a free page has size -1."""
    links[page, 0] = state[FREE_PAGE]
    state[FREE_PAGE] = page
    sizes[page] = -1


@njit(inline="always")
def put_entry(keys: Ints, links: Ints, sizes: Ints, page: int, at: int, key: int, link: int) -> None:
    """Insert an entry into a page that has room."""
    for i in range(sizes[page], at, -1):
        keys[page, i] = keys[page, i - 1]
        links[page, i] = links[page, i - 1]
    keys[page, at] = key
    links[page, at] = link
    sizes[page] += 1


@njit(inline="always")
def drop_entry(keys: Ints, links: Ints, sizes: Ints, page: int, at: int) -> None:
    """Take an entry out of a page."""
    sizes[page] -= 1
    for i in range(at, sizes[page]):
        keys[page, i] = keys[page, i + 1]
        links[page, i] = links[page, i + 1]
    keys[page, sizes[page]] = GREATEST


@njit(cache=True, nogil=True)
def split_child(state: Ints, keys: Ints, links: Ints, sizes: Ints, page: int, at: int) -> None:
    """Split a full child of a page that has room."""
    child = links[page, at]
    right = take_page(state, keys, links, sizes)
    half = FAN_OUT // 2
    for i in range(half):
        keys[right, i] = keys[child, half + i]
        links[right, i] = links[child, half + i]
        keys[child, half + i] = GREATEST
    sizes[right] = half
    sizes[child] = half
    put_entry(keys, links, sizes, page, at + 1, keys[right, 0], right)


@njit(cache=True, nogil=True)
def insert(state: Ints, keys: Ints, links: Ints, sizes: Ints, value: int, node: int) -> None:
    """Insert a value that is not there; split full pages on the way down."""
    if sizes[state[ROOT]] == FAN_OUT:
        root = take_page(state, keys, links, sizes)
        put_entry(keys, links, sizes, root, 0, keys[state[ROOT], 0], state[ROOT])
        state[ROOT] = root
        state[HEIGHT] += 1
        split_child(state, keys, links, sizes, root, 0)
    page = state[ROOT]
    for _ in range(state[HEIGHT]):
        at = child_of(keys[page], value, sizes[page])
        keys[page, 0] = min(keys[page, 0], value)
        if sizes[links[page, at]] == FAN_OUT:
            split_child(state, keys, links, sizes, page, at)
            if value >= keys[page, at + 1]:
                at += 1
        page = links[page, at]
    put_entry(keys, links, sizes, page, below(keys[page], value), value, node)


@njit(cache=True, nogil=True)
def locate_in_tree(
    wanted: Ints,
    begin: int,
    out: Ints,
    state: Ints,
    values: Ints,
    free: Ints,
    keys: Ints,
    links: Ints,
    sizes: Ints,
) -> int:
    """The node of each value, entering new ones.

    Returns how far it came: short of the end when nodes or pages ran out. `free` links the free nodes.
    """
    for i in range(begin, len(wanted)):
        value = wanted[i]
        page = state[ROOT]
        for _ in range(state[HEIGHT]):
            page = links[page, child_of(keys[page], value, sizes[page])]
        at = below(keys[page], value)
        if at < sizes[page] and keys[page, at] == value:
            out[i] = links[page, at]
            continue
        if state[PAGES] + state[HEIGHT] + 2 > len(sizes):
            return i
        node = take_node(state, free, values, value)
        if node < 0:
            return i
        insert(state, keys, links, sizes, value, node)
        out[i] = node
    return len(wanted)


@njit(cache=True, nogil=True)
def find_in_tree(wanted: Ints, state: Ints, keys: Ints, links: Ints, sizes: Ints) -> Ints:
    """The node of each value, -1 where there is none."""
    out = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        page = state[ROOT]
        for _ in range(state[HEIGHT]):
            page = links[page, child_of(keys[page], wanted[i], sizes[page])]
        at = below(keys[page], wanted[i])
        out[i] = links[page, at] if at < sizes[page] and keys[page, at] == wanted[i] else -1
    return out


@njit(cache=True, nogil=True)
def scan_tree(state: Ints, links: Ints, sizes: Ints) -> Ints:
    """Every node, in the order of values: the leaves from left to right."""
    out = np.empty(state[HELD], np.int64)
    path = np.zeros(TALLEST, np.int64)
    at = np.zeros(TALLEST, np.int64)
    path[0] = state[ROOT]
    level = 0
    found = 0
    while level >= 0:
        page = path[level]
        if level == state[HEIGHT]:
            for i in range(sizes[page]):
                out[found] = links[page, i]
                found += 1
            level -= 1
        elif at[level] == sizes[page]:
            level -= 1
        else:
            path[level + 1] = links[page, at[level]]
            at[level] += 1
            level += 1
            at[level] = 0
    return out


@njit(cache=True, nogil=True)
def remove_from_tree(nodes: Ints, state: Ints, values: Ints, free: Ints, keys: Ints, links: Ints, sizes: Ints) -> None:
    """Take out nodes, and pages that become empty."""
    path = np.zeros(TALLEST, np.int64)
    taken = np.zeros(TALLEST, np.int64)
    for i in range(len(nodes)):
        value = values[nodes[i]]
        path[0] = state[ROOT]
        for level in range(state[HEIGHT]):
            page = path[level]
            taken[level] = child_of(keys[page], value, sizes[page])
            path[level + 1] = links[page, taken[level]]
        level = state[HEIGHT]
        drop_entry(keys, links, sizes, path[level], below(keys[path[level]], value))
        while level > 0 and sizes[path[level]] == 0:
            give_page(state, links, sizes, path[level])
            level -= 1
            drop_entry(keys, links, sizes, path[level], taken[level])
        if sizes[state[ROOT]] == 0:
            state[HEIGHT] = 0
        while state[HEIGHT] > 0 and sizes[state[ROOT]] == 1:
            child = links[state[ROOT], 0]
            give_page(state, links, sizes, state[ROOT])
            state[ROOT] = child
            state[HEIGHT] -= 1
        give_node(state, free, nodes[i])


@njit(cache=True, nogil=True)
def build_tree(nodes: Ints, state: Ints, values: Ints, keys: Ints, links: Ints, sizes: Ints) -> None:
    """Build a tree of nodes given in the order of values; it replaces the old tree."""
    state[PAGES] = 0
    state[FREE_PAGE] = -1
    state[HEIGHT] = 0
    below_keys = values[nodes]
    below_links = nodes
    while True:
        pages = max(1, (len(below_links) + BUILT - 1) // BUILT)
        page_keys = np.empty(pages, np.int64)
        page_links = np.empty(pages, np.int64)
        for p in range(pages):
            page = take_page(state, keys, links, sizes)
            for i in range(p * BUILT, min((p + 1) * BUILT, len(below_links))):
                put_entry(keys, links, sizes, page, sizes[page], below_keys[i], below_links[i])
            page_keys[p] = keys[page, 0]
            page_links[p] = page
        if pages == 1:
            state[ROOT] = page_links[0]
            return
        below_keys = page_keys
        below_links = page_links
        state[HEIGHT] += 1
