"""FW, the plain ring index: tuples of a value linked in the order of arrival (Indexing, section 5.1).

Invariant: a node has its oldest tuple, each tuple the next younger one, the youngest the node; and a node has the
youngest tuple that readers may see.
Cost: an insertion searches the index and follows the tuples of the value that fill; a deletion follows the ring,
N / D; attaching scans the index. Space: 1 a tuple, 2 a value. Needs: LIST, and an index with nodes.

The paper follows the whole ring to its end at an insertion; starting where readers stop is shorter.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.ring import NO_ROW, Ring
from panewise.indexes.set_index import NodeIndex
from panewise.indexes.sheet import Cost, RingSheet
from panewise.kernels.ring_forward import attach_forward, expire_forward, link_forward


class ForwardRing(Ring):
    """Rings from the oldest tuple to the youngest."""

    is_forward: ClassVar[bool] = True
    sheet: ClassVar[RingSheet] = RingSheet(
        name="forward",
        title="ring, FW",
        source="5.1",
        insert=Cost("b/d + D/b", lambda s: 1.0 / s.news + s.distinct / max(1.0, s.basic_tuples)),
        delete=Cost("N/D", lambda s: s.per_value),
        space=Cost("N + 2 D", lambda s: s.tuples + 2.0 * s.distinct),
        uses_auxiliary=False,
    )

    def __init__(self, index: NodeIndex) -> None:
        super().__init__(index)
        self.oldest = np.full(index.capacity, NO_ROW, np.int64)

    def _node_arrays(self) -> list[str]:
        return ["newest", "oldest"]

    def _locate(self, codes: Ints) -> Ints:
        return self.index.locate(codes)

    def _link(self, first: int, nodes: Ints) -> None:
        link_forward(first, nodes, self.links, self.oldest, self.newest, self.index.pins)

    def _attach(self) -> int:
        index = self.index
        nodes = index.scan_nodes()
        gained = attach_forward(nodes, self.links, self.oldest, self.newest, index.counts[0], index.pins)
        return int(gained)

    def _expire(self, first: int, end: int, gone: Ints) -> int:
        return int(expire_forward(first, end, self.links, self.oldest, self.newest, self.index.counts[0], gone))

    def _starts(self, nodes: Ints, including_filling: bool) -> Ints:
        return self.oldest[nodes]

    def _check_ends(self, nodes: Ints) -> None:
        mask = len(self.links) - 1
        for node in nodes.tolist():
            rows, _ = self.walk(np.array([node]))
            every, _ = self.walk(np.array([node]), including_filling=True)
            assert self.newest[node] == (rows[-1] if len(rows) else NO_ROW), "readers stop at the wrong tuple"
            assert self.oldest[node] == (every[0] if len(every) else NO_ROW), "readers start at the wrong tuple"
            assert len(every) == 0 or self.links[every[-1] & mask] == ~node, "a ring does not lead back to its node"
