"""AUX: rings in the order of arrival, with a small index of the basic window that fills (Indexing, section 5.2).

Invariant: as in FW; also, the auxiliary index has the values of the filling basic window, each with its node.
Cost: an insertion searches the auxiliary index, and the large one for the first tuple of each value of a basic window;
a deletion follows the ring, N / D; attaching takes a step for each value of the basic window.
Space: 1 a tuple, 3 a value, and the auxiliary index. Needs: LIST, and an index with nodes.
"""

from __future__ import annotations

from typing import ClassVar

from panewise.arrays import Ints
from panewise.indexes.filling_ring import FillingRing
from panewise.indexes.forward_ring import ForwardRing
from panewise.indexes.sheet import Cost, RingSheet
from panewise.kernels.ring_forward import link_auxiliary


class AuxiliaryRing(FillingRing, ForwardRing):
    """Rings from the oldest tuple to the youngest, insertion through an auxiliary index."""

    sheet: ClassVar[RingSheet] = RingSheet(
        name="auxiliary",
        title="AUX",
        source="5.2",
        insert=Cost("1", lambda s: 1.0),
        delete=Cost("N/D", lambda s: s.per_value),
        space=Cost("N + 3 D + 3 d", lambda s: s.tuples + 3.0 * s.distinct + 3.0 * s.basic_distinct),
    )

    def _link(self, first: int, nodes: Ints) -> None:
        auxiliary = self._auxiliary
        auxiliary.known = link_auxiliary(
            first,
            nodes,
            self.links,
            self.oldest,
            self.newest,
            self.filling,
            self.index.pins,
            auxiliary.touched,
            auxiliary.known,
        )
