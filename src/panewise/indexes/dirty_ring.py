"""DB: rings from the youngest tuple back, whose end nobody repairs (Indexing, section 5.4).

Invariant: as in BW, but the oldest tuple of the window may lead to one that has left.
Cost: insertion as in AUX; a deletion counts the tuple out, O(1).
Space: 2 a tuple, 2 a value, and the auxiliary index. Needs: LIST, and an index with nodes.

The paper keeps a bit for each value that says whether the last tuple of its ring has left, and keeps that tuple itself
as the way to the node. Here the row number shows that a tuple has left: it is below the first of the window. A reader
never even comes to it, as the count of the node says how far to go. Instead of the way back, each row has its node, so
that a scan of the whole window is one pass over the rows.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.backward_ring import BackwardRing
from panewise.indexes.ring import FIRST_ROWS, NO_ROW
from panewise.indexes.set_index import NodeIndex
from panewise.indexes.sheet import Cost, RingSheet
from panewise.kernels.ring_backward import expire_dirty, sort_owners


class DirtyRing(BackwardRing):
    """Rings from the youngest tuple to the oldest, with stale ends."""

    sheet: ClassVar[RingSheet] = RingSheet(
        name="dirty_bits",
        title="DB",
        source="5.4",
        insert=Cost("1", lambda s: 1.0),
        delete=Cost("1", lambda s: 1.0),
        space=Cost("2 N + 2 D + 3 d", lambda s: 2.0 * s.tuples + 2.0 * s.distinct + 3.0 * s.basic_distinct),
    )

    def __init__(self, index: NodeIndex) -> None:
        super().__init__(index)
        self.owners = np.full(FIRST_ROWS, NO_ROW, np.int64)

    def _row_arrays(self) -> list[str]:
        return ["links", "owners"]

    def _owners(self) -> Ints:
        return self.owners

    def _expire(self, first: int, end: int, gone: Ints) -> int:
        return int(expire_dirty(first, end, self.owners, self.index.counts[0], gone))

    def walk_all(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Every row of the window by node, from the nodes of the rows rather than along the rings."""
        sizes = self.index.counts[0].take(nodes)
        rows = sort_owners(self.first, self.attached, self.owners, nodes, sizes, self.index.capacity)
        return rows, sizes

    def _check_end(self, node: int, link: int) -> None:
        assert link == ~node or 0 <= link < self.first, "a ring ends neither at its node nor at a stale tuple"
