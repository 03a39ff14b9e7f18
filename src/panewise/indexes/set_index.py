"""A set-valued index: the values of one window or of two, and how often each occurs (Indexing, section 4).

Storages give it keys. With the domain storage model (`NodeIndex`) a key is the number of the node that has the value;
the G-INDEX does without that model and has the groups themselves as keys. Counts change when basic windows come and go,
never before. A value that nothing counts stays until the next purge, which scans the index or reads a list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints
from panewise.indexes.sheet import SetIndexSheet
from panewise.kernels import set_index_nodes as nodes_kernel
from panewise.kernels.set_index_nodes import FREE, FREE_PAGE, HELD, ROOT, STATE_PLACES, USED

Counts = npt.NDArray[np.int64]
"""One row for each window."""

PURGES = ("periodic", "zero_list")
FIRST_NODES = 16


class Entries(NamedTuple):
    """What a basic window holds: keys of the index, and how many tuples each stands for."""

    keys: Ints
    weights: Ints


NO_ENTRIES = Entries(np.empty(0, np.int64), np.empty(0, np.int64))


class SetIndex(ABC):
    """Values, or groups of them, and their counts in `sides` windows."""

    sheet: ClassVar[SetIndexSheet]
    needs_sorted_entries: ClassVar[bool] = False

    def __init__(self, sides: int = 1, purge: str = "periodic") -> None:
        self.sides = sides
        self._lists_zeros = purge == "zero_list"
        self._present = [0] * sides

    @abstractmethod
    def locate(self, codes: Ints) -> Ints:
        """The key of each code, entering new codes. The caller pins what it keeps."""

    @abstractmethod
    def pin(self, keys: Ints) -> None:
        """Hold keys that a filling basic window has, until `change` counts them."""

    @abstractmethod
    def change(self, side: int, new: Entries, old: Entries) -> None:
        """Count in one basic window, which was pinned, and count out another one."""

    @abstractmethod
    def purge(self) -> Ints:
        """Take out values that nothing counts or holds; returns their codes."""

    @abstractmethod
    def scan(self) -> tuple[Ints, Counts]:
        """Every code in the index's own order, and its counts; zero counts included."""

    @abstractmethod
    def nodes_held(self) -> int:
        """How many values are in the index, including those that nothing counts."""

    @abstractmethod
    def check_invariants(self) -> None:
        """Raise AssertionError if the index is not what it should be."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""

    @property
    def scans_in_order(self) -> bool:
        """Whether `scan` gives codes in order."""
        return True

    def present(self, side: int) -> int:
        """How many values a window has."""
        return self._present[side]


class NodeIndex(SetIndex):
    """An index with the domain storage model: each value has one node, and basic windows point to it.

    A kind of index adds its links, and kernels that locate, find, scan and remove.
    """

    has_long_searches: ClassVar[bool] = False
    """Whether a small table of recent values beats a search of the index."""

    def __init__(self, sides: int = 1, purge: str = "periodic") -> None:
        super().__init__(sides, purge)
        self.state = np.zeros(STATE_PLACES, np.int64)
        self.state[[FREE, ROOT, FREE_PAGE]] = -1
        self.values = np.zeros(FIRST_NODES, np.int64)
        self.links = np.full(FIRST_NODES, -1, np.int64)
        self.counts = np.zeros((sides, FIRST_NODES), np.int64)
        self.pins = np.zeros(FIRST_NODES, np.int64)
        self._zeros = np.zeros(FIRST_NODES, np.int64)
        self._queued = np.zeros(FIRST_NODES, np.bool_)
        self._waiting = 0

    @abstractmethod
    def _locate(self, codes: Ints, begin: int, out: Ints) -> int:
        """The kernel's locate: how far it came before something ran out."""

    @abstractmethod
    def find(self, codes: Ints) -> Ints:
        """The node of each code, -1 where there is none."""

    @abstractmethod
    def scan_nodes(self) -> Ints:
        """Every node, in the index's own order."""

    @abstractmethod
    def _remove(self, nodes: Ints) -> None:
        """Take nodes out."""

    @abstractmethod
    def _check_links(self) -> None:
        """Raise AssertionError if nodes are not linked as they should be."""

    def nodes_held(self) -> int:
        """How many nodes are in the index."""
        return int(self.state[HELD])

    @property
    def capacity(self) -> int:
        """How many nodes there is room for."""
        return len(self.values)

    def locate(self, codes: Ints) -> Ints:
        """The node of each code, entering new ones."""
        nodes = np.empty(len(codes), np.int64)
        done = self._locate(codes, 0, nodes)
        while done < len(codes):
            self._grow()
            done = self._locate(codes, done, nodes)
        return nodes

    def _grow(self) -> None:
        """Make room for what the kernel ran out of: nodes, by default."""
        self.grow_nodes()

    def grow_nodes(self) -> None:
        """Make room for twice as many nodes if all are in use."""
        if self.state[FREE] >= 0 or self.state[USED] < self.capacity:
            return
        more = self.capacity
        self.values = np.concatenate([self.values, np.zeros(more, np.int64)])
        self.links = np.concatenate([self.links, np.full(more, -1, np.int64)])
        self.counts = np.concatenate([self.counts, np.zeros((self.sides, more), np.int64)], axis=1)
        self.pins = np.concatenate([self.pins, np.zeros(more, np.int64)])
        self._zeros = np.concatenate([self._zeros, np.zeros(more, np.int64)])
        self._queued = np.concatenate([self._queued, np.zeros(more, np.bool_)])

    def pin(self, keys: Ints) -> None:
        """Hold nodes."""
        nodes_kernel.pin(self.pins, keys)

    def change(self, side: int, new: Entries, old: Entries) -> None:
        """Count in one basic window and count out another one."""
        change, waiting = nodes_kernel.change_counts(
            self.counts,
            side,
            self.pins,
            new.keys,
            new.weights,
            old.keys,
            old.weights,
            self._lists_zeros,
            self._zeros,
            self._queued,
            self._waiting,
        )
        self._waiting = int(waiting)
        self._present[side] += int(change)

    def gain(self, side: int, gained: int) -> None:
        """Say that `gained` values are new in a window; for rings, which count by themselves."""
        self._present[side] += gained

    def lose(self, side: int, nodes: Ints) -> None:
        """Say that one window no longer counts these nodes; for rings."""
        self._present[side] -= len(nodes)
        if self._lists_zeros:
            fresh = nodes[~self._queued[nodes] & (self.counts[:, nodes] == 0).all(axis=0)]
            self._zeros[self._waiting : self._waiting + len(fresh)] = fresh
            self._queued[fresh] = True
            self._waiting += len(fresh)

    def purge(self) -> Ints:
        """Take out the nodes that nothing counts or holds, from the list or by a scan."""
        candidates = self._zeros[: self._waiting] if self._lists_zeros else self.scan_nodes()
        unused = nodes_kernel.unused_nodes(self.counts, self.pins, candidates, self._queued)
        self._waiting = 0
        codes = self.values[unused]
        if len(unused):
            self._remove(unused)
        return codes

    def scan(self) -> tuple[Ints, Counts]:
        """Every code and its counts."""
        nodes = self.scan_nodes()
        return self.values.take(nodes), self.counts.take(nodes, axis=1)

    def clear(self) -> None:
        """Empty the index; for a temporary one, in which nothing is counted or pinned."""
        self.state[:] = 0
        self.state[[FREE, ROOT, FREE_PAGE]] = -1

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.values, self.links, self.counts, self.pins, self._zeros, self._queued)
        return sum(array.nbytes for array in arrays)

    def check_invariants(self) -> None:
        """Assert that nodes are in the index or on the free list, values differ, and zero counts are listed."""
        nodes = self.scan_nodes()
        assert len(set(nodes.tolist())) == len(nodes) == self.nodes_held(), "a node occurs twice"
        free, node = set(), int(self.state[FREE])
        while node >= 0:
            assert node not in free, "the free list runs in a circle"
            free.add(node)
            node = int(self.links[node])
        assert free.isdisjoint(nodes.tolist()), "a free node is in the index"
        assert len(free) + len(nodes) == self.state[USED], "a node is lost"
        assert len(set(self.values[nodes].tolist())) == len(nodes), "a value has two nodes"
        self._check_links()
        assert (self.find(self.values[nodes]) == nodes).all(), "a node cannot be found"
        assert (self.counts >= 0).all(), "a count is negative"
        assert (self.pins >= 0).all(), "a pin is negative"
        unheld = sorted(free)
        assert not self.counts[:, unheld].any(), "a free node is counted"
        assert not self.pins[unheld].any(), "a free node is held"
        for side in range(self.sides):
            assert self._present[side] == np.count_nonzero(self.counts[side]), "values present are miscounted"
        if self._lists_zeros:
            listed = self._zeros[: self._waiting].tolist()
            assert len(set(listed)) == len(listed), "a node is listed twice"
            assert set(np.flatnonzero(self._queued).tolist()) == set(listed), "marks and list differ"
            zero = nodes[(self.counts[:, nodes] == 0).all(axis=0) & (self.pins[nodes] == 0)]
            assert set(zero.tolist()) <= set(listed), "a zero count is not listed"
