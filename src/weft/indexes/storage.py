"""The window as a circular array of basic windows, and what a storage of basic windows can do (Indexing, section 2).

New tuples go to a basic window that fills aside. When it is closed it takes the place of the oldest one, and only then
do answers see it: an answer lags a tuple by up to two basic windows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from weft.indexes.set_index import Entries, SetIndex
from weft.indexes.sheet import StorageSheet
from weft.indexes.values import IndexingError

Ints = npt.NDArray[np.int64]


class CircularArray:
    """The places of n basic windows and of the one that fills, each with so many entries and tuples.

    >>> array = CircularArray(2)
    >>> for size in (3, 5, 4):
    ...     array.fill(size, size)
    ...     _ = array.drop() if array.is_full else None
    ...     _ = array.close()
    >>> array.held, array.tuples
    (2, 9)
    """

    def __init__(self, basic_windows: int) -> None:
        if basic_windows < 1:
            raise IndexingError(f"a window has at least one basic window, got {basic_windows}")
        self.basic_windows = basic_windows
        self.held = 0
        self.tuples = 0
        self._places = basic_windows + 1
        # Lists, as single numbers of an array are slow to read in Python.
        self._entries = [0] * self._places
        self._tuples = [0] * self._places
        self.filling = 0

    @property
    def is_full(self) -> bool:
        """Whether the next basic window takes the place of one."""
        return self.held == self.basic_windows

    def fill(self, entries: int, tuples: int) -> None:
        """So many more entries and tuples in the basic window that fills."""
        self._entries[self.filling] += entries
        self._tuples[self.filling] += tuples

    def close(self) -> int:
        """Make the basic window that fills the newest, and give its place."""
        place = self.filling
        self.held += 1
        self.tuples += self._tuples[place]
        self.filling = (place + 1) % self._places
        self._entries[self.filling] = self._tuples[self.filling] = 0
        return place

    def drop(self) -> int:
        """Let go of the oldest basic window, and give its place."""
        place = (self.filling - self.held) % self._places
        self.held -= 1
        self.tuples -= self._tuples[place]
        return place

    def entries_of(self, place: int) -> int:
        """How many entries a basic window has."""
        return self._entries[place]

    def tuples_of(self, place: int) -> int:
        """How many tuples a basic window has."""
        return self._tuples[place]

    def places(self) -> Iterator[int]:
        """The places of the basic windows of the window, the oldest first."""
        for age in range(self.held, 0, -1):
            yield (self.filling - age) % self._places

    @property
    def entries_held(self) -> int:
        """Entries of all basic windows, the one that fills included."""
        return sum(self.entries_of(place) for place in self.places()) + self.entries_of(self.filling)


class Storage(ABC):
    """Basic windows of one window, whose entries are keys of an index."""

    sheet: ClassVar[StorageSheet]
    gives_sorted_entries: ClassVar[bool] = False

    def __init__(self, basic_windows: int) -> None:
        self.array = CircularArray(basic_windows)

    @abstractmethod
    def append(self, codes: Ints, index: SetIndex) -> None:
        """Put tuples into the basic window that fills, and hold their values in the index."""

    @abstractmethod
    def entries_of(self, place: int) -> Entries:
        """What a basic window holds, the one that fills included."""

    def close(self) -> Entries:
        """Make the basic window that fills the newest of the window, and give its entries."""
        return self.entries_of(self.array.close())

    def drop(self) -> Entries:
        """Let go of the oldest basic window, and give the entries that it had."""
        return self.entries_of(self.array.drop())

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""

    def check_invariants(self) -> None:
        """Raise AssertionError when the storage is not what it should be."""
        array = self.array
        assert 0 <= array.held <= array.basic_windows, "too many basic windows"
        assert array.tuples == sum(array.tuples_of(place) for place in array.places()), "tuples are miscounted"
        for place in (*array.places(), array.filling):
            entries = self.entries_of(place)
            assert len(entries.keys) == len(entries.weights) == array.entries_of(place), "entries are miscounted"
            assert int(entries.weights.sum()) == array.tuples_of(place), "weights are not the tuples"
            assert (entries.weights > 0).all(), "an entry stands for no tuple"
