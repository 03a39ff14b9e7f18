"""A window whose single tuples can be found by value: sorted scans and join probes (Indexing, section 5).

A tuple is a row number; its other columns stay with the caller, who addresses them by it.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from panewise.arrays import Ints
from panewise.errors import IndexingError
from panewise.indexes.auxiliary_ring import AuxiliaryRing
from panewise.indexes.backward_ring import BackwardRing
from panewise.indexes.counted import PURGES_PER_ROLL_OVER, build_index, check_names, check_purging
from panewise.indexes.dirty_ring import DirtyRing
from panewise.indexes.forward_ring import ForwardRing
from panewise.indexes.ring import Ring
from panewise.indexes.set_index import NodeIndex
from panewise.indexes.sorted_scan import SortedScan
from panewise.indexes.storage import CircularArray
from panewise.indexes.values import StringCodes, ValueCodes, Values, codes_of, known
from panewise.kernels.ring_sorted import turn_segments

EVERY_RING: tuple[type[Ring], ...] = (ForwardRing, AuxiliaryRing, BackwardRing, DirtyRing)
"""The list of all rings, which find the tuples of a value."""

RINGS = {each.sheet.name: each for each in EVERY_RING}


class RingWindow:
    """The tuples of a window of basic windows, found by their key.

    With `index="g_index"` a ring has the tuples of a range of `group_width`, in a list of ranges with nodes; answers
    are the same, and sort or search within the ranges.

    >>> window = RingWindow(basic_windows=2)
    >>> for basic_window in ([5, 3, 5], [1, 5], [3, 4]):
    ...     rows = window.append(basic_window)
    ...     first = window.attach()
    >>> rows.tolist(), first
    ([5, 6], 3)
    >>> window.sorted_rows().tolist()
    [3, 5, 6, 4]
    >>> places, rows = window.probe([5, 9, 3])
    >>> places.tolist(), rows.tolist()
    ([0, 2], [4, 5])
    """

    def __init__(
        self,
        basic_windows: int,
        type: str = "int64",
        *,
        ring: str = "dirty_bits",
        index: str = "t_index",
        purge: str = "periodic",
        group_width: float | None = None,
        index_buckets: int | None = None,
        purges_per_roll_over: int = PURGES_PER_ROLL_OVER,
    ) -> None:
        check_names("list", index, group_width, None, index_buckets)
        known(ring, RINGS, "ring")
        check_purging(purge, purges_per_roll_over)
        self._codes: ValueCodes = codes_of(type)
        self._groups = None if group_width is None else codes_of(type, group_width)
        # Rings need nodes: the G-INDEX with domain storage is an L-INDEX of groups (section 4.3).
        built = build_index("l_index" if index == "g_index" else index, 1, purge, index_buckets)
        self._index = cast(NodeIndex, built)
        self._ring = RINGS[ring](self._index)
        self._sorted = SortedScan(self._ring)
        self._array = CircularArray(basic_windows)
        self._keys = np.zeros(1, np.int64)
        self._purge_every = max(1, -(-basic_windows // purges_per_roll_over))
        self._since_purge = 0
        self._has_lost = False
        """Whether a tuple has left since the last purge: only then may a value be in no window."""
        self._purges = 0
        self._purged = 0

    def append(self, keys: Values) -> Ints:
        """Put tuples into the basic window that fills; returns their row numbers, consecutive from 0."""
        codes = self._codes.encode(keys)
        if self._groups is None:
            rows = self._ring.append(codes)
        else:
            rows = self._ring.append(self._groups.encode(keys))
            self._keep_keys(rows, codes)
        self._array.fill(len(rows), len(rows))
        return rows

    def attach(self, count: int = 1) -> int:
        """Make the filling basic window the newest, then `count` - 1 empty ones; as many of the oldest leave.

        Returns the first row number that is still held. Cost: the tuples that come and go; empty basic windows cost
        nothing.
        """
        if count < 0:
            raise IndexingError(f"the number of basic windows to attach must be 0 or more, got {count}")
        if count and self._array.close(count) is not None:
            self._ring.attach()
        leaving = 0
        while (place := self._array.drop()) is not None:
            leaving += self._array.tuples_of(place)
        if leaving:
            self._ring.expire(leaving)
            self._has_lost = True
        self._since_purge += count
        if self._since_purge >= self._purge_every:
            self._since_purge = 0
            if self._has_lost:
                self.purge()
        return self._ring.first

    def purge(self) -> None:
        """Take out values that no longer occur, now rather than at the next due purge."""
        removed = self._index.purge()
        if self._groups is None:
            self._codes.release(removed)
        self._since_purge, self._has_lost = 0, False
        self._purges += 1
        self._purged += len(removed)

    def sorted_rows(self, descending: bool = False) -> Ints:
        """The rows of the window by key, ties in the order of arrival; the array is read-only.

        Cost: the index's histogram, and a copy of N rows if little has changed since the last time; otherwise it
        follows N links. Forward rings are always followed.
        """
        nodes = self._sorted_nodes()
        if self._groups is not None:
            rows, sizes = self._ring.walk_all(nodes[::-1].copy() if descending else nodes)
            keys = self._keys_of(rows)
            groups = np.repeat(np.arange(len(sizes)), sizes)
            rows = rows[np.lexsort((~keys if descending else keys, groups))]
        else:
            rows = self._sorted.rows(nodes)
            if descending:
                rows = turn_segments(rows, self._index.counts[0].take(nodes))
        rows.flags.writeable = False
        return rows

    def probe(self, keys: Values, including_filling: bool = False) -> tuple[Ints, Ints]:
        """The tuples of the window with any of these keys: the place in `keys`, and the row, of each match.

        Matches are in the order of places, then of arrival. With `including_filling` the tuples that wait to be
        attached are searched as well. Cost: finding each key, and the matches.
        """
        codes = self._codes.find(keys)
        wanted = codes if self._groups is None else self._groups.encode(keys)
        nodes = self._index.find(wanted)
        places = np.flatnonzero(nodes >= 0)
        rows, sizes = self._ring.walk(nodes[places], including_filling)
        places = np.repeat(places, sizes)
        if self._groups is not None:
            is_match = self._keys_of(rows) == codes[places]
            places, rows = places[is_match], rows[is_match]
        return places, rows

    @property
    def first_row(self) -> int:
        """The first row number that is still held."""
        return self._ring.first

    @property
    def next_row(self) -> int:
        """The row number of the next tuple."""
        return self._ring.end

    @property
    def tuples(self) -> int:
        """How many tuples the window has."""
        return self._array.tuples

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        parts = (self._index, self._ring, self._sorted, self._keys, self._codes)
        return sum(part.nbytes for part in parts)

    def statistics(self) -> dict[str, int]:
        """What is held: basic windows, tuples, filling tuples, distinct values, nodes, zero nodes, purges.

        `visited` counts the basic windows so far that were not empty. With a G-INDEX values are ranges.
        """
        nodes = self._index.nodes_held()
        return {
            "basic_windows": self._array.held,
            "visited": self._array.visited,
            "tuples": self._array.tuples,
            "filling": self._array.tuples_of(self._array.filling),
            "distinct": self._index.present(0),
            "nodes": nodes,
            "zero_nodes": nodes - self._index.present(0),
            "purges": self._purges,
            "purged": self._purged,
        }

    def check_invariants(self) -> None:
        """Raise AssertionError if the window is not what it should be."""
        self._index.check_invariants()
        self._ring.check_invariants()
        assert self._ring.attached - self._ring.first == self._array.tuples, "rows are not the tuples of the window"
        filling = self._array.tuples_of(self._array.filling)
        assert self._ring.end - self._ring.attached == filling == self._index.pins.sum(), (
            "rows that fill are miscounted"
        )
        if isinstance(self._codes, StringCodes):
            assert len(self._codes) == self._index.nodes_held(), "strings leak"

    def _sorted_nodes(self) -> Ints:
        # Nodes of values that have left are among them: reading their rings gives no rows.
        nodes = self._index.scan_nodes()
        if self._index.scans_in_order and self._codes.sorts_by_code:
            return nodes
        order: Ints = self._codes.order(self._index.values.take(nodes))
        return nodes[order]

    def _keys_of(self, rows: Ints) -> Ints:
        keys: Ints = self._keys[rows & (len(self._keys) - 1)]
        return keys

    def _keep_keys(self, rows: Ints, codes: Ints) -> None:
        """Keep the keys of rows, because groups do not show them."""
        size = len(self._ring.links)
        if len(self._keys) < size:
            held = np.arange(self._ring.first, self._ring.end - len(rows))
            keys = np.zeros(size, np.int64)
            keys[held & (size - 1)] = self._keys[held & (len(self._keys) - 1)]
            self._keys = keys
        self._keys[rows & (size - 1)] = codes
