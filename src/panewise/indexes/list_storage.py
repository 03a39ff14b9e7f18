"""LIST: a basic window is its tuples, in the order of arrival (Indexing, section 2.2).

Invariant: one log of keys; a basic window is a stretch of it, the oldest first, the filling one last.
Cost: O(1) to insert. Space: b keys a basic window. Needs: nothing.

The paper links tuples because basic windows of time differ in size. All of them leave in the order they came, so one
log is enough: tuples that have left at the front make room when the end is reached.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.indexes.set_index import Entries, SetIndex
from panewise.indexes.sheet import Cost, StorageSheet
from panewise.indexes.storage import Storage

FIRST_TUPLES = 64


class ListStorage(Storage):
    """Tuples one by one."""

    sheet: ClassVar[StorageSheet] = StorageSheet(
        name="list",
        title="LIST",
        source="2.2",
        insert=Cost("1", lambda s: 1.0),
        entries=Cost("1", lambda s: 1.0),
        space=Cost("b", lambda s: s.basic_tuples),
        indexes=("l_index", "t_index", "h_index", "g_index"),
        holds_tuples=True,
    )

    def __init__(self, basic_windows: int) -> None:
        super().__init__(basic_windows)
        self._log = np.zeros(FIRST_TUPLES, np.int64)
        self._ones = np.ones(FIRST_TUPLES, np.int64)
        self._starts = [0]
        self._end = 0

    def append(self, codes: Ints, index: SetIndex) -> None:
        """Add the key of each tuple to the log."""
        keys = index.locate(codes)
        index.pin(keys)
        if self._end + len(keys) > len(self._log):
            self._make_room(len(keys))
        self._log[self._end : self._end + len(keys)] = keys
        self._end += len(keys)
        self.array.fill(len(keys), len(keys))

    def _make_room(self, more: int) -> None:
        """Move what is held to the front, or to a longer log if it takes more than half of this one."""
        oldest = next(self.array.places(), self.array.filling)
        first = self._starts[oldest]
        held = self._log[first : self._end]
        size = len(self._log)
        while 2 * (len(held) + more) > size:
            size *= 2
        log = np.zeros(size, np.int64)
        log[: len(held)] = held
        self._log, self._end = log, len(held)
        self._starts = [start - first for start in self._starts]

    def entries_of(self, place: int) -> Entries:
        """The keys of a basic window, one for each tuple."""
        start, count = self._starts[place], self.array.entries_of(place)
        if count > len(self._ones):
            self._ones = np.ones(2 * count, np.int64)
        return Entries(self._log[start : start + count], self._ones[:count])

    def close(self, count: int) -> Entries | None:
        """Make the basic window that fills the newest; the next one starts behind it."""
        new = super().close(count)
        self._starts += [0] * (self.array.room - len(self._starts))
        self._starts[self.array.filling] = self._end
        return new

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._log.nbytes + self._ones.nbytes
