"""The window as a circular array of basic windows, and what a storage of basic windows can do (Indexing, section 2).

New tuples go to a separate basic window that fills. When it is closed, it takes the place of the oldest one. Answers
see it only then: an answer lags a tuple by up to two basic windows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import ClassVar

from panewise.arrays import Ints
from panewise.errors import IndexingError
from panewise.indexes.set_index import Entries, SetIndex
from panewise.indexes.sheet import StorageSheet


class CircularArray:
    """The basic windows of a window that are not empty, and the one that fills, each with its entries and tuples.

    A basic window without a tuple takes no place and no time: it is only counted.

    >>> array = CircularArray(2)
    >>> for size in (3, 5, 4):
    ...     array.fill(size, size)
    ...     _ = array.close()
    ...     _ = array.drop()
    >>> array.held, array.tuples
    (2, 9)
    """

    def __init__(self, basic_windows: int) -> None:
        if basic_windows < 1:
            raise IndexingError(f"a window has at least one basic window, got {basic_windows}")
        self.basic_windows = basic_windows
        self.tuples = 0
        self.filling = 0
        """The place of the basic window that fills."""
        self.visited = 0
        """How many basic windows have taken a place so far."""
        self._closed = 0
        # Lists, because single numbers of an array are slow to read in Python.
        self._entries = [0]
        self._tuples = [0]
        self._numbers = [0]
        self._free: list[int] = []
        self._held: deque[int] = deque()

    @property
    def held(self) -> int:
        """How many basic windows the window has, empty ones included."""
        return min(self._closed, self.basic_windows)

    @property
    def room(self) -> int:
        """How many places there are."""
        return len(self._entries)

    def fill(self, entries: int, tuples: int) -> None:
        """Count more entries and tuples in the basic window that fills."""
        self._entries[self.filling] += entries
        self._tuples[self.filling] += tuples

    def close(self, count: int = 1) -> int | None:
        """Make the filling basic window the newest, then `count` - 1 empty ones; returns its place, None if empty."""
        place = None
        if self._tuples[self.filling]:
            place = self.filling
            self._numbers[place] = self._closed
            self._held.append(place)
            self.tuples += self._tuples[place]
            self.visited += 1
            self.filling = self._new_place()
        self._closed += count
        return place

    def drop(self) -> int | None:
        """Let go of the oldest basic window if it has left the window; returns its place, valid until `fill`."""
        if not self._held or self._numbers[self._held[0]] >= self._closed - self.basic_windows:
            return None
        place = self._held.popleft()
        self._free.append(place)
        self.tuples -= self._tuples[place]
        return place

    def _new_place(self) -> int:
        if not self._free:
            for places in (self._entries, self._tuples, self._numbers):
                places.append(0)
            return len(self._entries) - 1
        place = self._free.pop()
        self._entries[place] = self._tuples[place] = 0
        return place

    def entries_of(self, place: int) -> int:
        """How many entries a basic window has."""
        return self._entries[place]

    def tuples_of(self, place: int) -> int:
        """How many tuples a basic window has."""
        return self._tuples[place]

    def places(self) -> Iterator[int]:
        """The places of the basic windows that are not empty, the oldest first."""
        return iter(self._held)

    @property
    def entries_held(self) -> int:
        """Entries of all basic windows, including the one that fills."""
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
        """What a basic window holds; it may be the one that fills."""

    def close(self, count: int) -> Entries | None:
        """Make the filling basic window the newest, then `count` - 1 empty ones; returns its entries, None if empty."""
        place = self.array.close(count)
        return None if place is None else self.entries_of(place)

    def drop(self) -> Entries | None:
        """Let go of the oldest basic window if it has left the window; returns the entries that it had."""
        place = self.array.drop()
        return None if place is None else self.entries_of(place)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""

    def check_invariants(self) -> None:
        """Raise AssertionError if the storage is not what it should be."""
        array = self.array
        assert 0 <= array.held <= array.basic_windows, "too many basic windows"
        assert array.tuples == sum(array.tuples_of(place) for place in array.places()), "tuples are miscounted"
        for place in (*array.places(), array.filling):
            entries = self.entries_of(place)
            assert len(entries.keys) == len(entries.weights) == array.entries_of(place), "entries are miscounted"
            assert int(entries.weights.sum()) == array.tuples_of(place), "weights are not the tuples"
            assert (entries.weights > 0).all(), "an entry stands for no tuple"
