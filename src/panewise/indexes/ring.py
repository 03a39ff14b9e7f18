"""A ring index: the tuples of each value linked, so that single tuples can be found (Indexing, section 5).

Tuples have row numbers in the order of arrival, which serve as the pointers of the paper: the link of row r is at place
r modulo the length of a log that holds the window and what fills. Basic windows are LISTs of rows, and need no memory
of their own. A ring stands on any index with nodes; a node's count says how many tuples of its ring are in the window,
its pins how many fill.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.set_index import NodeIndex
from panewise.indexes.sheet import RingSheet
from panewise.kernels.ring_walks import walk_rings

FIRST_ROWS = 64
NO_ROW = -1


class Ring(ABC):
    """Rings over the nodes of an index."""

    sheet: ClassVar[RingSheet]
    is_forward: ClassVar[bool]
    """Whether a ring leads from the oldest tuple to the youngest, or back."""

    def __init__(self, index: NodeIndex) -> None:
        self.index = index
        self.first = 0
        """The oldest row of the window."""
        self.attached = 0
        """One past the youngest row of the window: what follows fills."""
        self.end = 0
        """The next row."""
        self.links = np.full(FIRST_ROWS, NO_ROW, np.int64)
        self.newest = np.full(index.capacity, NO_ROW, np.int64)

    def append(self, codes: Ints) -> Ints:
        """Link tuples into their rings, out of readers' sight; returns their rows."""
        nodes = self._locate(codes)
        self._fit(len(codes))
        rows = np.arange(self.end, self.end + len(codes))
        self._link(self.end, nodes)
        self.end += len(codes)
        return rows

    def attach(self) -> None:
        """Let readers see the tuples that filled."""
        self.index.gain(0, self._attach())
        self.attached = self.end

    def expire(self, count: int) -> None:
        """Take the `count` oldest tuples out."""
        gone = np.empty(count, np.int64)
        lost = self._expire(self.first, self.first + count, gone)
        self.first += count
        self.index.lose(0, gone[:lost])

    def walk(self, nodes: Ints, including_filling: bool = False) -> tuple[Ints, Ints]:
        """The rows of nodes, one node after the other, each in the order of arrival; also how many each node has."""
        sizes = self.index.counts[0].take(nodes)
        if including_filling:
            sizes = sizes + self.index.pins[nodes]
        return walk_rings(self._starts(nodes, including_filling), sizes, self.links, self.is_forward), sizes

    def walk_all(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Every row of the window, as `walk` gives them for all nodes with rows."""
        return self.walk(nodes)

    @abstractmethod
    def _locate(self, codes: Ints) -> Ints:
        """The node of each code."""

    @abstractmethod
    def _link(self, first: int, nodes: Ints) -> None:
        """Link rows from `first` on into the rings of nodes, and pin the nodes."""

    @abstractmethod
    def _attach(self) -> int:
        """Count the pinned tuples; returns how many values are new in the window."""

    @abstractmethod
    def _expire(self, first: int, end: int, gone: Ints) -> int:
        """Count rows out; returns how many nodes, noted in `gone`, nothing counts any more."""

    @abstractmethod
    def _starts(self, nodes: Ints, including_filling: bool) -> Ints:
        """Where readers start; any row for a ring that is empty."""

    def _node_arrays(self) -> list[str]:
        """The names of the arrays with a place a node."""
        return ["newest"]

    def _row_arrays(self) -> list[str]:
        """The names of the arrays with a place a row."""
        return ["links"]

    def _fit(self, more: int) -> None:
        """Make room for all nodes of the index, and for `rows` more rows."""
        for name in self._node_arrays():
            array = getattr(self, name)
            if len(array) < self.index.capacity:
                missing = self.index.capacity - len(array)
                setattr(self, name, np.concatenate([array, np.full(missing, NO_ROW, np.int64)]))
        size = len(self.links)
        while size < self.end - self.first + more:
            size *= 2
        if size > len(self.links):
            rows = np.arange(self.first, self.end)
            for name in self._row_arrays():
                array = getattr(self, name)
                longer = np.full(size, NO_ROW, np.int64)
                longer[rows & (size - 1)] = array[rows & (len(array) - 1)]
                setattr(self, name, longer)

    @property
    def nbytes(self) -> int:
        """Bytes held beside the index."""
        return sum(getattr(self, name).nbytes for name in self._node_arrays() + self._row_arrays())

    def check_invariants(self) -> None:
        """Assert that the rings of all nodes together are the window, and with the filling tuples all rows."""
        nodes = self.index.scan_nodes()
        for including, end in ((False, self.attached), (True, self.end)):
            rows, sizes = self.walk(nodes, including)
            assert sorted(rows.tolist()) == list(range(self.first, end)), "rings are not the rows of the window"
            rings = np.repeat(np.arange(len(sizes)), sizes)
            assert (np.lexsort((rows, rings)) == np.arange(len(rows))).all(), "a ring is not in the order of arrival"
        held = nodes[self.index.counts[0, nodes] > 0]
        assert (self.walk_all(held)[0] == self.walk(held)[0]).all(), "two ways of reading differ"
        self._check_ends(nodes)

    @abstractmethod
    def _check_ends(self, nodes: Ints) -> None:
        """Raise AssertionError if rings do not end as they should."""
