"""Queues of integers: values come at the end and leave at the beginning.

Invariant: `values` are those appended and not yet dropped, in order.
Cost: `append` and `drop` O(1) a value, amortised: the held values are copied once as many have come or left.
Space: at most four times what is held.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints

FEWEST = 64
"""The least room, in values, that a column takes."""


class IntegerQueue:
    """A column of integers, as a queue."""

    def __init__(self, values: Ints | None = None) -> None:
        self._room = np.empty(0, np.int64) if values is None else values
        self._begin = 0
        self._end = len(self._room)
        self.copied = 0
        """How many values were ever copied to make room."""

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def values(self) -> Ints:
        """The held values; do not write to them."""
        return self._room[self._begin : self._end]

    def append(self, values: Ints) -> None:
        """Add values at the end."""
        if self._end + len(values) > len(self._room):
            self._move(max(FEWEST, 2 * (len(self) + len(values))))
        self._room[self._end : self._end + len(values)] = values
        self._end += len(values)

    def drop(self, count: int) -> None:
        """Drop the oldest values."""
        self._begin += count
        if 4 * len(self) < len(self._room) and len(self._room) > FEWEST:
            self._move(max(FEWEST, 2 * len(self)))

    def _move(self, room: int) -> None:
        held = self.values
        self._room = np.empty(room, np.int64)
        self._room[: len(held)] = held
        self.copied += len(held)
        self._begin, self._end = 0, len(held)
