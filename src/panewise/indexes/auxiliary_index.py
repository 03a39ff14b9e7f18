"""The auxiliary index of the basic window that fills, as AUX, BW and DB use it (Indexing, section 5.2).

It has two parts. The first has the youngest filling tuple of each node, and the nodes that have one: with it an
insertion takes one step a tuple, and an attach one step a value. The second is a small table of the values that fill.
It saves searches of the large index; that pays only where they are long, so the T-INDEX and the H-INDEX go without it.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.hash_index import HashIndex
from panewise.indexes.set_index import NodeIndex


class AuxiliaryIndex:
    """The values and nodes of the basic window that fills."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._local = HashIndex() if index.has_long_searches else None
        self._nodes = np.empty(0, np.int64)
        self.touched = np.empty(0, np.int64)
        """The nodes with a filling tuple, `known` of them."""
        self.known = 0

    def locate(self, codes: Ints) -> Ints:
        """The node of each code in the large index, searched once for each value of the basic window."""
        nodes = self._index.locate(codes) if self._local is None else self._locate_once(self._local, codes)
        if len(self.touched) < self._index.capacity:
            missing = self._index.capacity - len(self.touched)
            self.touched = np.concatenate([self.touched, np.empty(missing, np.int64)])
        return nodes

    def _locate_once(self, local: HashIndex, codes: Ints) -> Ints:
        before = local.nodes_held()
        places = local.locate(codes)
        if len(self._nodes) < local.capacity:
            self._nodes = np.concatenate([self._nodes, np.empty(local.capacity - len(self._nodes), np.int64)])
        # Values never leave it one by one, so new values have the highest places.
        held = local.nodes_held()
        self._nodes[before:held] = self._index.locate(local.values[before:held])
        return self._nodes[places]

    def nodes(self) -> Ints:
        """The nodes with a filling tuple."""
        return self.touched[: self.known]

    def clear(self) -> None:
        """Forget the basic window."""
        self.known = 0
        if self._local is not None:
            self._local.clear()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._nodes.nbytes + self.touched.nbytes + (0 if self._local is None else self._local.nbytes)
