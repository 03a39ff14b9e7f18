"""The G-INDEX: counts of ranges of values, merged with what a basic window changes (Indexing, section 4.3).

Invariant: groups ascending, each with a count above zero in some window.
Cost: g to look up a group in a basic window, g per basic window to merge; nothing to purge. Needs: numbers.
Space: g groups and their counts.

As the paper assumes, there is no domain storage: basic windows hold the groups themselves.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.set_index import Counts, Entries, SetIndex
from panewise.indexes.sheet import Cost, SetIndexSheet
from panewise.kernels.set_index_group import delta_file, merge_groups


class GroupIndex(SetIndex):
    """Ranges of values and their counts."""

    sheet: ClassVar[SetIndexSheet] = SetIndexSheet(
        name="g_index",
        title="G-INDEX",
        source="4.3",
        locate=Cost("1", lambda s: 1.0),
        histogram=Cost("g", lambda s: s.groups),
        space=Cost("2 g", lambda s: 2.0 * s.groups),
        is_exact=False,
        takes_strings=False,
    )
    needs_sorted_entries: ClassVar[bool] = True

    def __init__(self, sides: int = 1, purge: str = "periodic") -> None:
        super().__init__(sides, purge)
        self._groups = np.empty(0, np.int64)
        self._counts: Counts = np.zeros((sides, 0), np.int64)

    def locate(self, codes: Ints) -> Ints:
        """A group is its own key."""
        return codes

    def pin(self, keys: Ints) -> None:
        """Does nothing: nothing points to the index, so it need not hold anything."""

    def change(self, side: int, new: Entries, old: Entries) -> None:
        """Merge the difference of two basic windows into the index."""
        groups, changes = delta_file(new.keys, new.weights, old.keys, old.weights)
        self._groups, self._counts = merge_groups(self._groups, self._counts, side, groups, changes)
        self._present[side] = int(np.count_nonzero(self._counts[side]))

    def purge(self) -> Ints:
        """Does nothing: a group leaves as soon as nothing counts it."""
        return np.empty(0, np.int64)

    def scan(self) -> tuple[Ints, Counts]:
        """Every group and its counts."""
        return self._groups.copy(), self._counts.copy()

    def nodes_held(self) -> int:
        """How many groups are in the index."""
        return len(self._groups)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._groups.nbytes + self._counts.nbytes

    def check_invariants(self) -> None:
        """Groups are sorted and counted."""
        assert (self._groups[:-1] < self._groups[1:]).all(), "the groups are not in order"
        assert (self._counts >= 0).all(), "a count is negative"
        assert self._counts.any(axis=0).all(), "a group that nothing counts is held"
        for side in range(self.sides):
            assert self._present[side] == np.count_nonzero(self._counts[side]), "groups present are miscounted"
