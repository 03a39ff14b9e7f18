"""One set-valued index over the basic windows of one window or two: what SetWindow and TwoSetWindow share.

Invariant: the count of a key is the sum of its weights in the attached basic windows; its pins are its entries in the
filling ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints
from panewise.errors import IndexingError
from panewise.indexes.aggregated_storage import AggregatedStorage
from panewise.indexes.group_index import GroupIndex
from panewise.indexes.grouped_storage import GroupedStorage
from panewise.indexes.hash_index import HashIndex
from panewise.indexes.hashed_storage import BUCKETS, HashedStorage
from panewise.indexes.list_index import ListIndex
from panewise.indexes.list_storage import ListStorage
from panewise.indexes.set_index import NO_ENTRIES, PURGES, Entries, NodeIndex, SetIndex
from panewise.indexes.storage import Storage
from panewise.indexes.tree_index import TreeIndex
from panewise.indexes.values import StringCodes, ValueCodes, Values, Width, codes_of, known

EVERY_STORAGE: tuple[type[Storage], ...] = (ListStorage, AggregatedStorage, HashedStorage, GroupedStorage)
"""The list of all ways to store a basic window."""

EVERY_INDEX: tuple[type[SetIndex], ...] = (ListIndex, TreeIndex, HashIndex, GroupIndex)
"""The list of all indexes of values and their counts."""

STORAGES = {each.sheet.name: each for each in EVERY_STORAGE}
INDEXES = {each.sheet.name: each for each in EVERY_INDEX}

PURGES_PER_ROLL_OVER = 5
"""How often the index is purged while the whole window is replaced once, as in the paper's experiments."""


class CountedOptions(TypedDict, total=False):
    """How values are held and counted; `CountedWindows` has the defaults."""

    storage: str
    index: str
    purge: str
    group_width: Width | None
    """With index g_index: the width of the ranges by which values are known, or the bounds between them."""
    storage_buckets: int | None
    """For storage hash."""
    index_buckets: int | None
    """Fixes the number of buckets of h_index, which otherwise grows."""
    purges_per_roll_over: int


class CountedWindows:
    """Windows over streams of one type, and one index that counts the values of all of them."""

    def __init__(
        self,
        basic_windows: Sequence[int],
        type: str,
        *,
        storage: str = "list",
        index: str = "t_index",
        purge: str = "periodic",
        group_width: Width | None = None,
        storage_buckets: int | None = None,
        index_buckets: int | None = None,
        purges_per_roll_over: int = PURGES_PER_ROLL_OVER,
    ) -> None:
        check_names(storage, index, group_width, storage_buckets, index_buckets)
        check_purging(purge, purges_per_roll_over)
        self.codes: ValueCodes = codes_of(type, group_width)
        self.index = build_index(index, len(basic_windows), purge, index_buckets)
        self.storages = [build_storage(storage, n, storage_buckets) for n in basic_windows]
        self._purge_every = [max(1, -(-n // purges_per_roll_over)) for n in basic_windows]
        self._since_purge = 0
        self._has_lost = False
        """Whether a basic window has left since the last purge: only then may a value be in no window."""
        self.purges = 0
        self.purged = 0

    def append(self, side: int, values: Values) -> int:
        """Put values into the basic window of a side that fills; returns how many."""
        codes = self.codes.encode(values)
        self.storages[side].append(codes, self.index)
        return len(codes)

    def attach(self, side: int, count: int = 1) -> None:
        """Make the filling basic window the newest, then `count` - 1 empty ones; as many of the oldest leave.

        Cost: the entries of those that come and go; empty ones cost nothing.
        """
        if count < 0:
            raise IndexingError(f"the number of basic windows to attach must be 0 or more, got {count}")
        if not count:
            return
        storage = self.storages[side]
        new = storage.close(count)
        old = storage.drop()
        if new is not None and count > storage.array.basic_windows:
            # It leaves again at once, behind the others.
            self._change(side, new, None)
            new = None
        while new is not None or old is not None:
            self._has_lost = self._has_lost or old is not None
            self._change(side, new, old)
            new, old = None, storage.drop()
        self._since_purge += count
        if self._since_purge >= self._purge_every[side]:
            self._since_purge = 0
            if self._has_lost:
                self.purge()

    def _change(self, side: int, new: Entries | None, old: Entries | None) -> None:
        new, old = new or NO_ENTRIES, old or NO_ENTRIES
        if self.index.needs_sorted_entries and not self.storages[side].gives_sorted_entries:
            new, old = _sorted(new), _sorted(old)
        self.index.change(side, new, old)

    def purge(self) -> None:
        """Take values out of the index that nothing counts or holds."""
        removed = self.index.purge()
        self.codes.release(removed)
        self._since_purge, self._has_lost = 0, False
        self.purges += 1
        self.purged += len(removed)

    def table(self) -> tuple[Ints, npt.NDArray[np.int64]]:
        """The codes that some window has, in the order of their values, and their counts in each."""
        codes, counts = self.index.scan()
        is_present = counts.any(axis=0)
        if not is_present.all():
            codes, counts = codes[is_present], counts[:, is_present]
        if not (self.index.scans_in_order and self.codes.sorts_by_code):
            order = self.codes.order(codes)
            codes, counts = codes[order], counts[:, order]
        return codes, counts

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.index.nbytes + self.codes.nbytes + sum(storage.nbytes for storage in self.storages)

    def statistics(self, side: int) -> dict[str, int]:
        """Numbers of one window and of the index."""
        array = self.storages[side].array
        _, counts = self.index.scan()
        return {
            "basic_windows": array.held,
            "visited": array.visited,
            "tuples": array.tuples,
            "filling": array.tuples_of(array.filling),
            "entries": array.entries_held,
            "distinct": self.index.present(side),
            "nodes": self.index.nodes_held(),
            "zero_nodes": int(np.count_nonzero(~counts.any(axis=0))),
            "purges": self.purges,
            "purged": self.purged,
        }

    def check_invariants(self) -> None:
        """Counts and pins are what the basic windows hold; strings have a number while they are in the index."""
        self.index.check_invariants()
        for storage in self.storages:
            storage.check_invariants()
        if isinstance(self.index, NodeIndex):
            self._check_counts(self.index)
        else:
            codes, counts = self.index.scan()
            for side, storage in enumerate(self.storages):
                keys, expected = _total([storage.entries_of(place) for place in storage.array.places()])
                assert codes[counts[side] > 0].tolist() == keys.tolist(), "groups are not those of the basic windows"
                assert counts[side][counts[side] > 0].tolist() == expected.tolist(), "groups are miscounted"
        if isinstance(self.codes, StringCodes):
            assert len(self.codes) == self.index.nodes_held(), "strings leak"

    def _check_counts(self, index: NodeIndex) -> None:
        pins = np.zeros(index.capacity, np.int64)
        for side, storage in enumerate(self.storages):
            counts = np.zeros(index.capacity, np.int64)
            for place in storage.array.places():
                entries = storage.entries_of(place)
                np.add.at(counts, entries.keys, entries.weights)
            np.add.at(pins, storage.entries_of(storage.array.filling).keys, 1)
            assert (counts == index.counts[side]).all(), "counts are not those of the basic windows"
        assert (pins == index.pins).all(), "pins are not those of the filling basic windows"


def check_names(
    storage: str, index: str, group_width: Width | None, storage_buckets: int | None, index_buckets: int | None
) -> None:
    """Raise if there is no such storage or index, or if they do not go together."""
    known(storage, STORAGES, "storage")
    known(index, INDEXES, "index")
    sheet = STORAGES[storage].sheet
    if index not in sheet.indexes:
        raise IndexingError(f"storage {storage} does not serve {index}; it serves {', '.join(sheet.indexes)}")
    if index == "g_index" and group_width is None:
        raise IndexingError("g_index holds ranges of values: give their width, group_width=...")
    if index != "g_index" and group_width is not None:
        raise IndexingError(f"{index} holds single values: leave group_width out, or use g_index")
    if storage_buckets is not None and storage != "hash":
        raise IndexingError(f"storage {storage} has no buckets: leave storage_buckets out, or use hash")
    if index_buckets is not None and index != "h_index":
        raise IndexingError(f"{index} has no buckets: leave index_buckets out, or use h_index")


def check_purging(purge: str, purges_per_roll_over: int) -> None:
    """Raise if there is no such way of purging, or if it would never purge."""
    known(purge, PURGES, "way of purging")
    if purges_per_roll_over < 1:
        raise IndexingError(f"purges_per_roll_over must be at least 1, got {purges_per_roll_over}")


def build_index(name: str, sides: int, purge: str, buckets: int | None) -> SetIndex:
    """An index by name; `buckets` fixes the number of buckets in the H-INDEX."""
    if name == "h_index":
        return HashIndex(sides, purge, buckets)
    return INDEXES[name](sides, purge)


def build_storage(name: str, basic_windows: int, buckets: int | None) -> Storage:
    """A storage by name, empty."""
    if name == "hash":
        return HashedStorage(basic_windows, buckets or BUCKETS)
    return STORAGES[name](basic_windows)


def _sorted(entries: Entries) -> Entries:
    order = np.argsort(entries.keys, kind="stable")
    return Entries(entries.keys[order], entries.weights[order])


def _total(basic_windows: list[Entries]) -> tuple[Ints, Ints]:
    """The keys of basic windows in order, and the sum of each key's weights in them."""
    keys, places = np.unique(np.concatenate([NO_ENTRIES.keys, *(e.keys for e in basic_windows)]), return_inverse=True)
    weights = np.zeros(len(keys), np.int64)
    np.add.at(weights, places, np.concatenate([NO_ENTRIES.weights, *(e.weights for e in basic_windows)]))
    return keys, weights
