"""Basic windows as sorted lists of values and counts, in one bucket or several: what AGGR, HASH and GROUP share.

Invariant: each value of a basic window has an entry, in the bucket that the value hashes to; buckets are sorted.
All basic windows take entries from one pool, and give them back when they leave.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from panewise.arrays import Ints
from panewise.errors import IndexingError
from panewise.indexes.set_index import Entries, SetIndex
from panewise.indexes.storage import Storage
from panewise.kernels.basic_chains import fill_chains, free_chains, read_chains
from panewise.kernels.set_index_hash import bucket_of
from panewise.kernels.set_index_nodes import FREE, HELD, STATE_PLACES

FIRST_ENTRIES = 64


class ChainedStorage(Storage):
    """Counts of values in sorted lists."""

    def __init__(self, basic_windows: int, buckets: int = 1) -> None:
        super().__init__(basic_windows)
        if not 0 < buckets < 1 << 31:
            raise IndexingError(f"HASH needs at least one bucket, got {buckets}")
        self._heads = np.full((1, buckets), -1, np.int64)
        self._state = np.zeros(STATE_PLACES, np.int64)
        self._state[FREE] = -1
        self._values = np.zeros(FIRST_ENTRIES, np.int64)
        self._counts = np.zeros(FIRST_ENTRIES, np.int64)
        self._keys = np.zeros(FIRST_ENTRIES, np.int64)
        self._links = np.full(FIRST_ENTRIES, -1, np.int64)

    def append(self, codes: Ints, index: SetIndex) -> None:
        """Count tuples; searches the index once for each value of the basic window."""
        fresh = np.empty(len(codes), np.int64)
        heads = self._heads[self.array.filling]
        done = known = 0
        while True:
            done, known = fill_chains(
                codes, done, heads, self._state, self._values, self._counts, self._links, fresh, known
            )
            if done == len(codes):
                break
            self._grow()
        entries = fresh[:known]
        keys = index.locate(self._values[entries])
        index.pin(keys)
        self._keys[entries] = keys
        self.array.fill(known, len(codes))

    def _grow(self) -> None:
        more = len(self._values)
        self._values = np.concatenate([self._values, np.zeros(more, np.int64)])
        self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
        self._keys = np.concatenate([self._keys, np.zeros(more, np.int64)])
        self._links = np.concatenate([self._links, np.full(more, -1, np.int64)])

    def entries_of(self, place: int) -> Entries:
        """The keys and counts of a basic window, bucket by bucket."""
        size = self.array.entries_of(place)
        return Entries(*read_chains(self._heads[place], self._counts, self._keys, self._links, size))

    def close(self, count: int) -> Entries | None:
        """Make the basic window that fills the newest; the next one has a place of its own."""
        new = super().close(count)
        if self.array.room > len(self._heads):
            self._heads = np.concatenate([self._heads, np.full_like(self._heads, -1)])
        return new

    def drop(self) -> Entries | None:
        """Let go of the oldest basic window, if it has left the window, and of its entries."""
        place = self.array.drop()
        if place is None:
            return None
        entries = self.entries_of(place)
        free_chains(self._heads[place], self._state, self._links)
        return entries

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self._heads, self._values, self._counts, self._keys, self._links)
        return sum(array.nbytes for array in arrays)

    def check_invariants(self) -> None:
        """Buckets are sorted, and every entry belongs to one basic window or is free."""
        super().check_invariants()
        assert self._state[HELD] == self.array.entries_held, "entries leak"
        for place in (*self.array.places(), self.array.filling):
            for bucket, head in enumerate(self._heads[place].tolist()):
                chain, entry = [], head
                while entry >= 0:
                    chain.append(int(self._values[entry]))
                    entry = int(self._links[entry])
                assert all(a < b for a, b in pairwise(chain)), "a bucket is not sorted"
                assert all(bucket_of(value, self._heads.shape[1]) == bucket for value in chain), "a wrong bucket"
