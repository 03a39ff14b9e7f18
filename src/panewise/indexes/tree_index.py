"""The T-INDEX: values in a balanced search tree (Indexing, section 4.2).

Invariant: a B+ tree; every leaf is at the same depth, keys ascend from leaf to leaf, no page but the root is empty.
Cost: O(log D) to find a value; the leaves from left to right are the sorted answer.
Needs: nothing. Space: at most 8 entries a value beside counts, mostly 1.5.

The paper uses an AVL tree. With 10,000 values, pages of 16 keys need four steps and an AVL tree needs fourteen; each
step compares a whole page at once.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.set_index import NodeIndex
from panewise.indexes.sheet import Cost, SetIndexSheet, log2
from panewise.kernels.set_index_nodes import FREE_PAGE, HEIGHT, PAGES, ROOT
from panewise.kernels.set_index_tree import (
    FAN_OUT,
    GREATEST,
    build_tree,
    find_in_tree,
    locate_in_tree,
    remove_from_tree,
    scan_tree,
)

FIRST_PAGES = 4
SPARSE = 8
"""A tree with fewer entries than one in this many places is built again."""


class TreeIndex(NodeIndex):
    """Values in a B+ tree."""

    sheet: ClassVar[SetIndexSheet] = SetIndexSheet(
        name="t_index",
        title="T-INDEX",
        source="4.2",
        locate=Cost("log D", lambda s: log2(s.distinct)),
        histogram=Cost("D", lambda s: s.distinct),
        space=Cost("1 to 8 entries of 2, and 2 D", lambda s: 5.0 * s.distinct),
    )

    def __init__(self, sides: int = 1, purge: str = "periodic") -> None:
        super().__init__(sides, purge)
        self._keys = np.full((FIRST_PAGES, FAN_OUT), GREATEST, np.int64)
        self._page_links = np.zeros((FIRST_PAGES, FAN_OUT), np.int64)
        self._sizes = np.full(FIRST_PAGES, -1, np.int64)
        self._start()

    def _start(self) -> None:
        """One empty leaf."""
        build_tree(np.empty(0, np.int64), self.state, self.values, self._keys, self._page_links, self._sizes)

    def _locate(self, codes: Ints, begin: int, out: Ints) -> int:
        done = locate_in_tree(
            codes, begin, out, self.state, self.values, self.links, self._keys, self._page_links, self._sizes
        )
        return int(done)

    def _grow(self) -> None:
        self.grow_nodes()
        pages = len(self._sizes)
        if self.state[PAGES] + self.state[HEIGHT] + 2 > pages:
            self._keys = np.concatenate([self._keys, np.full((pages, FAN_OUT), GREATEST, np.int64)])
            self._page_links = np.concatenate([self._page_links, np.zeros((pages, FAN_OUT), np.int64)])
            self._sizes = np.concatenate([self._sizes, np.full(pages, -1, np.int64)])

    def find(self, codes: Ints) -> Ints:
        """The node of each code, -1 where there is none."""
        return find_in_tree(codes, self.state, self._keys, self._page_links, self._sizes)

    def scan_nodes(self) -> Ints:
        """Every node, by value."""
        return scan_tree(self.state, self._page_links, self._sizes)

    def _remove(self, nodes: Ints) -> None:
        remove_from_tree(nodes, self.state, self.values, self.links, self._keys, self._page_links, self._sizes)
        pages = np.count_nonzero(self._sizes >= 0)
        if pages > 2 and pages * FAN_OUT > SPARSE * self.nodes_held():
            held = self.scan_nodes()
            self._sizes[:] = -1
            build_tree(held, self.state, self.values, self._keys, self._page_links, self._sizes)

    def clear(self) -> None:
        """Empty the index."""
        super().clear()
        self._start()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return super().nbytes + self._keys.nbytes + self._page_links.nbytes + self._sizes.nbytes

    def _check_links(self) -> None:
        seen: list[int] = []
        self._check_page(int(self.state[ROOT]), int(self.state[HEIGHT]), None, None, seen)
        free, page = [], int(self.state[FREE_PAGE])
        while page >= 0:
            assert self._sizes[page] == -1, "a free page is in use"
            free.append(page)
            page = int(self._page_links[page, 0])
        assert sorted(seen + free) == list(range(self.state[PAGES])), "a page is lost, or in two places"
        values = self.values[self.scan_nodes()]
        assert (values[:-1] < values[1:]).all(), "the leaves are not in order"

    def _check_page(self, page: int, height: int, low: int | None, high: int | None, seen: list[int]) -> None:
        seen.append(page)
        size = int(self._sizes[page])
        keys, links = self._keys[page].tolist(), self._page_links[page].tolist()
        assert keys[size:] == [GREATEST] * (FAN_OUT - size), "a free place has a key"
        assert size > 0 or page == self.state[ROOT], "an empty page is in the tree"
        assert keys[:size] == sorted(set(keys[:size])), "a page is not sorted"
        for i in range(size):
            if height == 0:
                assert self.values[links[i]] == keys[i], "a leaf's key is not its node's value"
                assert low is None or low <= keys[i], "a key is below its page"
                assert high is None or keys[i] < high, "a key is above its page"
            else:
                upper = high if i == size - 1 else keys[i + 1]
                self._check_page(links[i], height - 1, keys[i], upper, seen)
