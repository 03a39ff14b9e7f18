"""Rings that find tuples through an auxiliary index of the basic window that fills (Indexing, section 5.2).

Invariant: the auxiliary index has the values of the filling basic window, each with its node; `filling` has the
youngest tuple of each, which readers see once the basic window is attached.
Cost: attaching takes a step for each value of the basic window.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.auxiliary_index import AuxiliaryIndex
from panewise.indexes.ring import NO_ROW, Ring
from panewise.indexes.set_index import NodeIndex
from panewise.kernels.ring_backward import attach_filling


class FillingRing(Ring):
    """What such rings share: finding nodes, and attaching."""

    def __init__(self, index: NodeIndex) -> None:
        super().__init__(index)
        self._auxiliary = AuxiliaryIndex(index)
        self.filling = np.full(index.capacity, NO_ROW, np.int64)

    def _node_arrays(self) -> list[str]:
        return [*super()._node_arrays(), "filling"]

    def _locate(self, codes: Ints) -> Ints:
        return self._auxiliary.locate(codes)

    def _attach(self) -> int:
        nodes = self._auxiliary.nodes()
        gained = attach_filling(nodes, self.newest, self.filling, self.index.counts[0], self.index.pins)
        self._auxiliary.clear()
        return int(gained)

    @property
    def nbytes(self) -> int:
        """Bytes held beside the index."""
        return super().nbytes + self._auxiliary.nbytes
