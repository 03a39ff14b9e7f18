"""The event log: raw events in event-time order, for windows that need single events rather than slots.

Events at or after the watermark are pending: a later arrival may still come before them. Behind it they are final and
have a position. Only the columns that some query reads are kept, and final events only while some window may
still cover them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.columns import arrow_type
from panewise.engine.integer_queue import IntegerQueue
from panewise.engine.tables import KeyTable
from panewise.errors import HistoryError
from panewise.language.model import Stream
from panewise.windows import RowWindow, TimeWindow, Window
from panewise.windows.clock import show_time
from panewise.windows.window import UNBOUNDED_US

MOST_CHUNKS = 64
"""Final events lie in at most this many pieces before they are put together."""


_DESCRIBED = ("final_count", "final_held", "complete_from_us", "trimmed_at_us", "starts_us")


@dataclass(frozen=True)
class Retention:
    """What lookups need of the past: a length of time, a number of rows, and rows of each substream."""

    time_us: int = 0
    rows: int = 0
    partitions: tuple[tuple[tuple[str, ...], int], ...] = ()

    @staticmethod
    def of(windows: list[Window]) -> Retention:
        """What a set of windows needs."""
        partitions: dict[tuple[str, ...], int] = {}
        time_us = rows = 0
        for window in windows:
            match window:
                case TimeWindow(left_us=left) if left == UNBOUNDED_US:
                    # Final events are held as running totals.
                    pass
                case TimeWindow():
                    time_us = max(time_us, window.left_us)
                case RowWindow(partition_by=()):
                    rows = max(rows, window.left)
                case RowWindow():
                    partitions[window.partition_by] = max(partitions.get(window.partition_by, 0), window.left)
        return Retention(time_us, rows, tuple(partitions.items()))


@dataclass(frozen=True)
class _Look:
    """The last search for the events that windows of substreams still cover; a search is a pass over all events."""

    retention: Retention
    old: int
    """How many events no other window covered."""
    final_count: int

    def is_soon_after(self, last: _Look, held: int) -> bool:
        """Whether too few events came or grew old since the last search to make another worth its pass."""
        changed = max(self.old - last.old, self.final_count - last.final_count)
        return self.retention == last.retention and 4 * changed < held


@dataclass
class EventLog:
    """Events of one stream in the order of their times, ties in the order of arrival.

    Cost: `append` O(1) a batch; the first read after it sorts the pending events; `advance` and `trim` O(log events)
    amortised for each event that becomes final or is dropped.
    """

    stream: Stream
    final_count: int = 0
    complete_from_us: int | None = None
    """Every event from this time on is held; None if no event was ever dropped."""
    trimmed_at_us: int | None = None
    starts_us: int | None = None
    """Set for a log that was opened while its stream was running: only events from here on are in it."""
    _events: pa.Table | None = None
    _new: list[pa.RecordBatch] = field(default_factory=list)
    final_held: int = 0
    _numbers: IntegerQueue | None = None
    """The number of each final event held, counted from the beginning of the log."""
    _looked: _Look | None = None
    _times: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _times_of: pa.Table | None = None
    """The events that `_times` has the times of."""
    _times_room: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def describe(self, keep: Callable[[pa.Table], int]) -> dict[str, Any]:
        """Its state for a snapshot; `keep` puts a table there and returns its number."""
        return {**{name: getattr(self, name) for name in _DESCRIBED}, "events": keep(self.events)}

    @staticmethod
    def described(stream: Stream, description: Mapping[str, Any], tables: Sequence[pa.Table]) -> EventLog:
        """The inverse of `describe`."""
        state = {name: description[name] for name in _DESCRIBED}
        return EventLog(stream, **state, _events=tables[description["events"]])

    def append(self, batch: pa.RecordBatch) -> None:
        """Take in events at or after the watermark; those before the log's start do not count."""
        if self.starts_us is not None:
            batch = batch.filter(pa.array(np.asarray(batch.column(self.stream.timestamp)) >= self.starts_us))
        self._new.append(batch)

    @property
    def events(self) -> pa.Table:
        """All events held, in order, pending ones included."""
        if self._events is None:
            self._events = self.schema.empty_table()
        if self._new:
            final, pending = self._events.slice(0, self.final_held), self._events.slice(self.final_held)
            table = pa.concat_tables([pending, pa.Table.from_batches(self._new, self.schema)]).combine_chunks()
            self._new = []
            # A stable sort keeps ties in order of arrival; final events are all before the new ones and stay in place.
            order = np.argsort(np.asarray(table.column(self.stream.timestamp)), kind="stable")
            self._events = pa.concat_tables([final, table.take(pa.array(order))])
            if self._events.column(0).num_chunks > MOST_CHUNKS:
                self._events = _in_fewer_chunks(self._events)
        return self._events

    @property
    def schema(self) -> pa.Schema:
        """The columns of the events."""
        return pa.schema([(name, arrow_type(kind)) for name, kind in self.stream.attributes.items()])

    @property
    def times(self) -> Ints:
        """The times of the events held, in order."""
        events = self.events
        if self._times_of is not events:
            # Final events stay in place, so that only the times of pending ones are written again.
            start, count = min(self.final_held, len(self._times)), events.num_rows
            if count > len(self._times_room):
                room = np.empty(2 * count, np.int64)
                room[:start] = self._times[:start]
                self._times_room = room
            self._times_room[start:count] = np.asarray(events.slice(start).column(self.stream.timestamp))
            self._times, self._times_of = self._times_room[:count], events
        return self._times

    def advance(self, watermark_us: int) -> pa.Table:
        """Make the events behind the watermark final, and return those that became final now."""
        until = int(np.searchsorted(self.times, watermark_us, side="left"))
        fresh = self.events.slice(self.final_held, until - self.final_held)
        self._numbered().append(np.arange(self.final_count, self.final_count + fresh.num_rows))
        self.final_count += fresh.num_rows
        self.final_held = until
        return fresh

    @property
    def numbers(self) -> Ints:
        """The number of each final event held; numbers rise, with gaps where events were dropped."""
        return self._numbered().values

    def _numbered(self) -> IntegerQueue:
        if self._numbers is None:
            self._numbers = IntegerQueue(np.arange(self.final_count - self.final_held, self.final_count))
        return self._numbers

    def final_events(self) -> tuple[pa.Table, Ints]:
        """The final events held, and their numbers."""
        return self.events.slice(0, self.final_held), self.numbers

    def trim(self, retention: Retention, watermark_us: int) -> None:
        """Drop final events that no lookup from the watermark on can cover, once they are half of those held."""
        final, times = self.final_held, self.times
        # Windows of time and of rows cover the newest events; only windows of substreams may cover single older ones.
        old = min(int(times[:final].searchsorted(watermark_us - retention.time_us, side="right")), final)
        old = min(old, max(0, final - retention.rows))
        if not old or 2 * old < len(times):
            return
        keep = np.zeros(old, np.bool_)
        if retention.partitions:
            look = _Look(retention, old, self.final_count)
            if self._looked is not None and look.is_soon_after(self._looked, len(times)):
                return
            self._looked = look
            for attributes, rows in retention.partitions:
                keep |= self.rank_from_end(attributes, final)[:old] < rows
            if 2 * int(np.count_nonzero(~keep)) < len(times):
                return
        gone = int(times[np.flatnonzero(~keep)[-1]])
        self.complete_from_us = max(self.complete_from_us or gone + 1, gone + 1)
        self.trimmed_at_us = watermark_us
        kept = np.flatnonzero(keep)
        self._numbers = IntegerQueue(np.concatenate([self.numbers[kept], self.numbers[old:]]))
        events = self.events
        self._events = pa.concat_tables([events.take(pa.array(kept)), events.slice(old)]).combine_chunks()
        self._times = self._times[:0]
        self.final_held = final - old + len(kept)
        self._looked = None

    def rank_from_end(self, attributes: tuple[str, ...], count: int) -> Ints:
        """For each of the first `count` events, how many later ones among them have the same key."""
        events = self.events.slice(0, count).combine_chunks()
        columns = [events.column(name).combine_chunks() for name in attributes]
        keys = KeyTable([self.stream.attributes[name] for name in attributes]).ids(columns, count)
        order = np.argsort(keys, kind="stable")
        ends = np.searchsorted(keys[order], keys[order], side="right")
        rank = np.empty(count, np.int64)
        rank[order] = ends - 1 - np.arange(count)
        return rank

    def covered(self, window: Window, at_us: int, since_us: int | None = None) -> Ints:
        """The rows of `events` that an on-demand window covers at a time; the query sees events from `since_us` on."""
        if not isinstance(window, RowWindow) or not window.partition_by:
            return np.arange(*self.covered_range(window, at_us, since_us))
        begin, count = self.seen_range(at_us, since_us)
        rank = self.rank_from_end(window.partition_by, count)
        rows = np.flatnonzero((rank >= window.right) & (rank < window.left))
        return rows[rows >= begin]

    def covered_range(self, window: Window, at_us: int, since_us: int | None = None) -> tuple[int, int]:
        """Where the rows that a window without PARTITION BY covers begin and end."""
        if isinstance(window, RowWindow):
            begin, count = self.seen_range(at_us, since_us)
            return max(begin, count - window.left), max(begin, count - window.right)
        assert isinstance(window, TimeWindow)
        self._need(at_us, at_us - window.left_us + 1, since_us)
        times = self.times
        first = int(times.searchsorted(at_us - window.left_us, side="right"))
        last = int(times.searchsorted(at_us - window.right_us, side="right"))
        return first, last

    def seen_range(self, at_us: int, since_us: int | None = None) -> tuple[int, int]:
        """Where the rows that a query over rows sees up to a time begin and end."""
        self._need(at_us)
        times = self.times
        begin = 0 if since_us is None else int(times.searchsorted(since_us, side="left"))
        return begin, max(begin, int(times.searchsorted(at_us, side="right")))

    def number_of(self, row: int) -> int:
        """The number of a row, or of the next to come; pending rows are numbered after final ones."""
        if row < self.final_held:
            return int(self.numbers[row])
        return self.final_count + row - self.final_held

    def times_of(self, numbers: Ints, known: npt.NDArray[np.bool_]) -> Ints:
        """The times of events by number, where they are known; 0 elsewhere."""
        out = np.zeros(len(numbers), np.int64)
        wanted = numbers[known]
        pending = self.final_held + wanted - self.final_count
        rows = np.where(wanted < self.final_count, np.searchsorted(self.numbers, wanted), pending)
        out[known] = self.times[rows]
        return out

    def _need(self, at_us: int, from_us: int | None = None, since_us: int | None = None) -> None:
        """Raise if events that a lookup needs are not held. At or after the last trim, registered windows miss none."""
        missing = False
        exact_from = self.trimmed_at_us
        if self.trimmed_at_us is not None and at_us < self.trimmed_at_us:
            missing = from_us is None or self.complete_from_us is None or from_us < self.complete_from_us
        if from_us is not None and since_us is not None and from_us < since_us:
            missing, exact_from = True, at_us + since_us - from_us
        if missing:
            raise HistoryError(
                f"stream {self.stream.name}: a lookup at {show_time(at_us)} needs events that are not held; "
                f"it is exact from {show_time(exact_from or 0)} on"
            )


def one_batch(events: pa.Table) -> pa.RecordBatch:
    """Some events as one batch."""
    batches = events.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], events.schema)


def _in_fewer_chunks(events: pa.Table) -> pa.Table:
    """The same events, with the newest chunks put together so that each is at most half as long as the one before.

    An event is copied once for each doubling of the chunk that it is in, and few chunks are left.
    """
    lengths = [len(chunk) for chunk in events.column(0).chunks]
    whole = len(lengths) - 1
    newest = lengths[whole]
    while whole and lengths[whole - 1] < 2 * newest:
        whole -= 1
        newest += lengths[whole]
    old = sum(lengths[:whole])
    return pa.concat_tables([events.slice(0, old), events.slice(old).combine_chunks()])
