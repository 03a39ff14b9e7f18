"""BW: rings from the youngest tuple back, so that a value's tuples leave together (Indexing, section 5.3).

Invariant: a node has its youngest tuple, each tuple the next older one, the oldest of the window the node.
Cost: insertion as in AUX; a deletion takes off all tuples of a value in the oldest basic window at once, then follows
the ring to its new end: N / D for each value of a basic window.
Space: 1 a tuple, 2 a value, and the auxiliary index. Needs: LIST, and an index with nodes.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.filling_ring import FillingRing
from panewise.indexes.sheet import Cost, RingSheet
from panewise.kernels.ring_backward import expire_backward, link_backward

_NO_OWNERS = np.empty(0, np.int64)


class BackwardRing(FillingRing):
    """Rings from the youngest tuple to the oldest."""

    is_forward: ClassVar[bool] = False
    sheet: ClassVar[RingSheet] = RingSheet(
        name="backward",
        title="BW",
        source="5.3",
        insert=Cost("1", lambda s: 1.0),
        delete=Cost("1 + d/b N/D", lambda s: 1.0 + s.news * s.per_value),
        space=Cost("N + 2 D + 3 d", lambda s: s.tuples + 2.0 * s.distinct + 3.0 * s.basic_distinct),
    )

    def _owners(self) -> Ints:
        """The node of each row, if it is kept."""
        return _NO_OWNERS

    def _link(self, first: int, nodes: Ints) -> None:
        index, auxiliary = self.index, self._auxiliary
        auxiliary.known = link_backward(
            first,
            nodes,
            self.links,
            self._owners(),
            self.newest,
            self.filling,
            index.counts[0],
            index.pins,
            auxiliary.touched,
            auxiliary.known,
        )

    def _expire(self, first: int, end: int, gone: Ints) -> int:
        return int(expire_backward(first, end, self.links, self.newest, self.index.counts[0], gone))

    def _starts(self, nodes: Ints, including_filling: bool) -> Ints:
        if not including_filling:
            return self.newest[nodes]
        return np.where(self.index.pins[nodes] > 0, self.filling[nodes], self.newest[nodes])

    def _check_ends(self, nodes: Ints) -> None:
        for node in nodes.tolist():
            rows, _ = self.walk(np.array([node]))
            if len(rows):
                assert self.newest[node] == rows[-1], "readers start at the wrong tuple"
                self._check_end(node, int(self.links[rows[0] & (len(self.links) - 1)]))

    def _check_end(self, node: int, link: int) -> None:
        assert link == ~node, "a ring does not lead back to its node"
