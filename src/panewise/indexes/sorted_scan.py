"""The window in sorted order, kept from one evaluation to the next.

Invariant: after an evaluation it has the rows of the window by value, and where those of each node end.
Cost: the values, the tuples since the last evaluation, and a copy of the rest, which takes a fifth of the time that
following all rings takes. Space: 1 a tuple, 1 a value, from the first evaluation on. Needs: a ring from the youngest
tuple back.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.ring import Ring
from panewise.kernels.ring_sorted import merge_sorted


class SortedScan:
    """The sorted rows of a ring's window."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._rows = np.empty(0, np.int64)
        self._ends = np.empty(0, np.int64)
        self._seen = 0

    def rows(self, nodes: Ints) -> Ints:
        """The rows of all nodes of the window, given in the order of their values. Do not write to the array."""
        ring, index = self._ring, self._ring.index
        if len(self._ends) < index.capacity:
            self._ends = np.concatenate([self._ends, np.zeros(index.capacity - len(self._ends), np.int64)])
        total = ring.attached - ring.first
        if ring.is_forward or 2 * (ring.attached - max(self._seen, ring.first)) > total:
            self._rows, sizes = ring.walk_all(nodes)
            self._ends[nodes] = np.cumsum(sizes)
        else:
            self._rows = merge_sorted(
                nodes,
                index.counts[0],
                ring.newest,
                ring.links,
                self._rows,
                self._ends,
                self._seen,
                total,
            )
        self._rows.flags.writeable = False
        self._seen = ring.attached
        return self._rows

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes + self._ends.nbytes
