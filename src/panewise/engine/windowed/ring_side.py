"""One side of a join: the tuples that wait for the other side's watermark, and a ring of those that arrived.

Invariant: row number `rows_from + i` of the ring is row i of `rows`; the ring has every tuple with a key that an
arrival from now on may join.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.arrays import Bools, Ints
from panewise.engine.windowed.feed import Feed, queued
from panewise.engine.windowed.values import observed, plain
from panewise.indexes import RingWindow
from panewise.language.row_queries import BasicWindows, JoinSide
from panewise.planning.windowed import ObservedWindow
from panewise.windows import RowWindow

# No attribute can have these names: in a join, attributes have a dot in their names.
TIME, POSITION, KEY = "time", "position", "key"


@dataclass(frozen=True)
class Arrivals:
    """Tuples of one side that arrive together, in order; tuples without a key are only counted."""

    times_us: Ints
    first: int
    """The position of the first of them, or of the next to come."""
    with_key: Ints
    """Which of them have a key."""
    keys: Any
    """The keys of those."""
    first_row: int
    """Where the first of those is in the side's `rows`."""

    def __len__(self) -> int:
        return len(self.times_us)


class RingSide:
    """The events of one stream as one side of a join sees them."""

    def __init__(self, bound: JoinSide, feed: Feed, basic: BasicWindows, ring: RingWindow) -> None:
        self.bound = bound
        self.feed = feed
        self.basic = basic
        self.ring = ring
        seen = [time for time in (feed.watermark_us, feed.log.starts_us) if time is not None]
        self.starts_us: int | None = max(seen, default=None)
        """Events before this time do not count; None when every event does."""
        self.queue: pa.Table | None = None
        self.rows: pa.Table | None = None
        self.rows_from = 0
        self.count = 0
        """How many events have arrived."""
        self.filling: int | None = None
        """The number of the basic window that fills."""
        self.attached = 0

    @property
    def counts_rows(self) -> bool:
        """Whether its window counts rows."""
        return isinstance(self.bound.window, RowWindow)

    def enqueue(self, tuples: pa.Table) -> None:
        """Queue tuples."""
        self.queue = queued(self.queue, tuples, TIME, self.starts_us)

    def arrive(self, until_us: int) -> Arrivals:
        """Take the tuples before a time out of the queue. Those with a key are in `rows`, and not yet in the ring."""
        first = self.count
        waiting = np.empty(0, np.int64) if self.queue is None else np.asarray(self.queue.column(TIME))
        count = int(np.searchsorted(waiting, until_us, side="left"))
        if self.queue is None or not count:
            return Arrivals(waiting[:0], first, waiting[:0], None, 0)
        positions = pa.array(first + np.arange(count))
        arrived = self.queue.slice(0, count).append_column(POSITION, positions)
        self.queue = self.queue.slice(count) if count < self.queue.num_rows else None
        self.count += count
        with_key = np.flatnonzero(np.asarray(arrived.column(KEY).is_valid()))
        fresh = arrived.take(pa.array(with_key))
        first_row = 0 if self.rows is None else self.rows.num_rows
        self.rows = fresh if self.rows is None else pa.concat_tables([self.rows, fresh]).combine_chunks()
        return Arrivals(waiting[:count], first, with_key, plain(fresh.column(KEY)), first_row)

    def numbers(self, times_us: Ints, is_own: Bools, first: int) -> Ints:
        """For each arrival of both sides, in their common order, the basic window that is being filled."""
        if self.counts_rows:
            positions: Ints = np.maximum(first + np.cumsum(is_own) - 1, 0)
            return positions // self.basic.length
        return times_us // self.basic.length

    def slide_to(self, number: int) -> None:
        """Attach basic windows until the one with a given number is being filled."""
        if self.filling is not None and number > self.filling:
            self.ring.attach(number - self.filling)
            self.attached += number - self.filling
        self.filling = number if self.filling is None else max(number, self.filling)

    def skip_to(self, first: int, number: int) -> None:
        """Let a basic window fill without turning the ring; `first` is the one that fills if none does yet."""
        filling = first if self.filling is None else self.filling
        self.attached += max(0, number - filling)
        self.filling = max(number, filling)

    def forget(self) -> None:
        """Drop tuples of basic windows that the ring does not hold any more."""
        if self.rows is not None and self.filling is not None:
            tick = np.asarray(self.rows.column(POSITION if self.counts_rows else TIME))
            oldest = (self.filling - self.basic.count) * self.basic.length
            self.rows = self.rows.slice(int(np.searchsorted(tick, oldest))).combine_chunks()

    def reaches(self, arrival_us: Ints, before: Ints, rows: Ints) -> Bools:
        """Which rows came before an arrival and lie in the window looked back from it.

        `before` is how many events of this side came before the arrival.
        """
        assert self.rows is not None
        positions = np.asarray(self.rows.column(POSITION))[rows]
        window = self.bound.window
        if isinstance(window, RowWindow):
            return (positions < before) & (positions >= before - window.left)
        times = np.asarray(self.rows.column(TIME))[rows]
        return (positions < before) & (times > arrival_us - window.left_us)

    def trim(self) -> None:
        """Drop tuples that have left the ring."""
        if self.rows is not None:
            gone = self.ring.first_row - self.rows_from
            self.rows = self.rows.slice(gone)
            self.rows_from += gone

    @property
    def basic_windows_held(self) -> list[pa.Table]:
        """The tuples with a key, by basic window."""
        if self.rows is None:
            return []
        tick = self.rows.column(POSITION if self.counts_rows else TIME)
        starts = np.flatnonzero(np.diff(np.asarray(tick) // self.basic.length, prepend=-(2**62)))
        ends = np.append(starts[1:], self.rows.num_rows)
        return [self.rows.slice(begin, end - begin) for begin, end in zip(starts.tolist(), ends.tolist())]

    def observed(self) -> ObservedWindow:
        """The numbers observed in the window."""
        held = self.basic_windows_held
        return observed(held, max(1, len(held)), KEY, "", self.ring.statistics()["distinct"])

    def replay(self, ring: RingWindow) -> None:
        """Put the tuples held into a new ring."""
        filling, self.ring, self.filling, self.rows_from = self.filling, ring, None, 0
        attached = self.attached
        for table in self.basic_windows_held:
            tick = table.column(POSITION if self.counts_rows else TIME)[0].as_py()
            self.slide_to(tick // self.basic.length)
            self.ring.append(plain(table.column(KEY)))
        if filling is not None:
            self.slide_to(filling)
        self.attached = attached
        self.trim()
