"""Where a stream is cut into basic windows: after a number of tuples, or of microseconds (Indexing, 1.1).

A cut splits a batch into pieces. Each is a slice of the batch to append, and how many basic windows to attach after it:

    for piece in cut.pieces(times):
        window.append(values[piece.begin : piece.end])
        window.attach(piece.attach)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from panewise.errors import IndexingError


class Piece(NamedTuple):
    """A slice of a batch that goes to one basic window, and how many basic windows are complete after it."""

    begin: int
    end: int
    attach: int


class CountCut:
    """Basic windows of a fixed number of tuples.

    >>> list(CountCut(4).pieces(10))
    [Piece(begin=0, end=4, attach=1), Piece(begin=4, end=8, attach=1), Piece(begin=8, end=10, attach=0)]
    """

    def __init__(self, tuples: int) -> None:
        if tuples < 1:
            raise IndexingError(f"a basic window has at least one tuple, got {tuples}")
        self.tuples = tuples
        self.filled = 0
        """Tuples of the basic window that fills."""

    def pieces(self, count: int) -> Iterator[Piece]:
        """The pieces of a batch of `count` tuples. Each counts as filled when the iterator yields it."""
        begin = 0
        while begin < count:
            end = min(count, begin + self.tuples - self.filled)
            self.filled = (self.filled + end - begin) % self.tuples
            yield Piece(begin, end, int(self.filled == 0))
            begin = end


class TimeCut:
    """Basic windows of a fixed width in time, [k w, k w + w) from the epoch; empty ones count as well.

    The first one is that of the first tuple, or of the first time given to `advance`.

    >>> cut = TimeCut(10)
    >>> list(cut.pieces([3, 9, 12, 45]))
    [Piece(begin=0, end=2, attach=1), Piece(begin=2, end=3, attach=3), Piece(begin=3, end=4, attach=0)]
    >>> cut.advance(60)
    2
    """

    def __init__(self, width_us: int) -> None:
        if width_us < 1:
            raise IndexingError(f"a basic window is at least a microsecond wide, got {width_us}")
        self.width_us = width_us
        self.filling: int | None = None
        """The number k of the basic window that fills."""
        self._latest: int | None = None

    def pieces(self, times_us: npt.ArrayLike) -> Iterator[Piece]:
        """The pieces of a batch of tuples with these times, which must ascend; a bad batch changes nothing."""
        times = np.asarray(times_us, np.int64)
        if len(times) == 0:
            return iter(())
        before = np.concatenate([times[:1] if self._latest is None else [self._latest], times[:-1]])
        if (times < before).any():
            at = int(np.argmax(times < before))
            raise IndexingError(f"times must not go back: {times[at]} at place {at} comes after {before[at]}")
        return self._pieces(times)

    def _pieces(self, times: npt.NDArray[np.int64]) -> Iterator[Piece]:
        numbers = times // self.width_us
        begins = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()]
        self._latest = int(times[-1])
        before = self._move(int(numbers[0]))
        if before:
            yield Piece(0, 0, before)
        for begin, end in zip(begins, [*begins[1:], len(times)]):
            yield Piece(begin, end, 0 if end == len(times) else self._move(int(numbers[end])))

    def advance(self, time_us: int) -> int:
        """How many basic windows to attach because no tuple before this time will come any more."""
        self._latest = time_us if self._latest is None else max(time_us, self._latest)
        return self._move(self._latest // self.width_us)

    def _move(self, number: int) -> int:
        """Let another basic window fill; returns how many are complete by that."""
        complete = 0 if self.filling is None else number - self.filling
        self.filling = number
        return complete
