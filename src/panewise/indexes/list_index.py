"""The L-INDEX: values in a sorted list (Indexing, section 4.1).

Invariant: a list linked both ways, values ascending.
Cost: O(D) to find a value; the list is the sorted answer. Needs: nothing. Space: 3 D beside counts.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.set_index import FIRST_NODES, NodeIndex
from panewise.indexes.sheet import Cost, SetIndexSheet
from panewise.kernels.set_index_list import find_in_list, locate_in_list, remove_from_list, scan_list
from panewise.kernels.set_index_nodes import ROOT


class ListIndex(NodeIndex):
    """Values in a sorted list."""

    has_long_searches: ClassVar[bool] = True
    sheet: ClassVar[SetIndexSheet] = SetIndexSheet(
        name="l_index",
        title="L-INDEX",
        source="4.1",
        locate=Cost("D", lambda s: s.distinct),
        histogram=Cost("D", lambda s: s.distinct),
        space=Cost("3 D", lambda s: 3.0 * s.distinct),
    )

    def __init__(self, sides: int = 1, purge: str = "periodic") -> None:
        super().__init__(sides, purge)
        self._back = np.full(FIRST_NODES, -1, np.int64)

    def _locate(self, codes: Ints, begin: int, out: Ints) -> int:
        return int(locate_in_list(codes, begin, out, self.state, self.values, self.links, self._back))

    def grow_nodes(self) -> None:
        """Room for twice as many nodes, when all are in use."""
        super().grow_nodes()
        more = self.capacity - len(self._back)
        self._back = np.concatenate([self._back, np.full(more, -1, np.int64)])

    def find(self, codes: Ints) -> Ints:
        """The node of each code, -1 where there is none."""
        return find_in_list(codes, self.state, self.values, self.links)

    def scan_nodes(self) -> Ints:
        """Every node, by value."""
        return scan_list(self.state, self.links)

    def _remove(self, nodes: Ints) -> None:
        remove_from_list(nodes, self.state, self.links, self._back)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return super().nbytes + self._back.nbytes

    def _check_links(self) -> None:
        nodes = self.scan_nodes()
        assert (self.values[nodes[:-1]] < self.values[nodes[1:]]).all(), "the list is not sorted"
        assert (self._back[nodes[1:]] == nodes[:-1]).all(), "links back do not match"
        if len(nodes):
            assert self._back[nodes[0]] == -1, "the first node has one before it"
            assert self.links[nodes[-1]] == -1, "the last node has one after it"
        else:
            assert self.state[ROOT] == -1, "an empty list has a head"
