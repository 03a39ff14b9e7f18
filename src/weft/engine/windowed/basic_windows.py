"""Operators over sliding windows that are cut into basic windows (Indexing, sections 1.1 and 2).

A side's tuples wait in a queue until a basic window of it is complete: the watermark is past its end, or all its rows
are final. Then it is attached, the oldest leaves, and where an instance of the window ends the operator is evaluated:
every `every` basic windows, the paper's k.

Both sides of an intersection move in one step. A step is a place on a common clock; a side's own end lies `offset`
ahead of it, so that instance k of one window meets instance k of the other.

Invariant: after a step, the attached basic windows of a side hold its tuples from `end - length` up to `end`.
Cost: a step costs its tuples and what the index takes to attach them; empty stretches are jumped over.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.engine.windowed.feed import Events, Feed
from weft.engine.windowed.operator import Feeds, Keep, Operator
from weft.engine.windowed.output import Output
from weft.indexes import Pace
from weft.language.row_queries import BasicWindows, RowQuery
from weft.windows import RowWindow, Window
from weft.windows.slots import lengths_of

Ints = npt.NDArray[np.int64]

TICK = "\0tick"
"""The column of a tuple's place on its side's clock: its time, or its position. No attribute can be called so."""


@dataclass
class Side:
    """One window of an operator: what waits, what is attached, and where its rows' times are."""

    feed: Feed
    window: Window
    basic: BasicWindows
    offset: int
    starts: int | None
    """Tuples before this place do not count; None when every tuple does."""
    queue: pa.Table | None = None
    held: deque[pa.Table] = field(default_factory=deque)
    """The tuples of each basic window that is attached."""
    held_count: int = 0
    row_times: dict[int, tuple[int, int]] = field(default_factory=dict)
    """For windows over rows: the times of the first and the last row of each basic window that may be covered."""

    @property
    def counts_rows(self) -> bool:
        """Whether its clock counts rows."""
        return isinstance(self.window, RowWindow)

    @property
    def complete(self) -> int:
        """Up to where its tuples are final: a time, or a number of rows."""
        if self.counts_rows:
            return self.feed.final_count
        return -(2**63) if self.feed.watermark_us is None else self.feed.watermark_us

    def enqueue(self, tuples: pa.Table) -> None:
        """Let tuples wait; they have a column TICK."""
        if self.starts is not None:
            tuples = tuples.filter(pa.array(np.asarray(tuples.column(TICK)) >= self.starts))
        if tuples.num_rows:
            self.queue = tuples if self.queue is None else pa.concat_tables([self.queue, tuples]).combine_chunks()

    def note_times(self, events: Events) -> None:
        """Remember the times of rows that windows may begin or end with."""
        if not self.counts_rows or not len(events):
            return
        length, positions, times = self.basic.length, events.positions, events.times_us
        number = positions // length
        first = np.flatnonzero(np.diff(number, prepend=-1))
        last = np.append(first[1:], len(number)) - 1
        for begin, end in zip(first.tolist(), last.tolist()):
            place = int(number[begin])
            known = self.row_times.get(place)
            self.row_times[place] = (int(times[begin]) if known is None else known[0], int(times[end]))

    def bounds_us(self, end: int) -> tuple[int, int] | None:
        """Where the window that ends at a place starts and ends in time; None when it covers no row."""
        if not self.counts_rows:
            return end - lengths_of(self.window)[0], end
        numbers = range(end // self.basic.length - self.basic.count, end // self.basic.length)
        first = next((self.row_times[number] for number in numbers if number in self.row_times), None)
        return None if first is None else (first[0], self.row_times[numbers[-1]][1])

    def take_until(self, end: int) -> pa.Table | None:
        """The waiting tuples before a place."""
        if self.queue is None:
            return None
        count = int(np.searchsorted(np.asarray(self.queue.column(TICK)), end, side="left"))
        taken = self.queue.slice(0, count)
        self.queue = self.queue.slice(count) if count < self.queue.num_rows else None
        return taken

    def hold(self, tuples: pa.Table | None) -> None:
        """Hold the tuples of a basic window that is attached, and let go of those of the oldest."""
        count = 0 if tuples is None else tuples.num_rows
        if not self.held and not count:
            return
        self.held.append(self.held[-1].slice(0, 0) if tuples is None else tuples)
        self.held_count += count
        if len(self.held) > self.basic.count:
            self.held_count -= self.held.popleft().num_rows
        if not self.held_count:
            self.held.clear()

    def forget(self, end: int) -> None:
        """Let go of times before the basic windows that end at a place."""
        if self.row_times:
            oldest = end // self.basic.length - self.basic.count
            self.row_times = {number: times for number, times in self.row_times.items() if number >= oldest}


class BasicWindowOperator(Operator):
    """Steps from basic window to basic window; what is done in a step is for the operators to say."""

    def __init__(self, pairs: list[tuple[str, Window]], feeds: Feeds) -> None:
        super().__init__()
        basics = [BasicWindows.of(window) for _, window in pairs]
        self.step = int(np.gcd.reduce([basic.length for basic in basics]))
        self.slide = lengths_of(pairs[0][1])[1]
        by_rows = isinstance(pairs[0][1], RowWindow)
        # Rows of two streams have clocks of their own: instance k of both ends at k * slide plus its own length.
        is_paired = by_rows and len(pairs) > 1
        self.phase = 0 if is_paired else lengths_of(pairs[0][1])[0]
        self.sides = []
        for name, window in pairs:
            length = lengths_of(window)[0]
            basic = BasicWindows(self.step, length // self.step, self.slide // self.step)
            starts = _starts(feeds[name], by_rows, self.step)
            self.sides.append(Side(feeds[name], window, basic, length if is_paired else 0, starts))
        self.at: int | None = None
        self.attached = 0
        self.pace = Pace(self.slide // self.step)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of its sides."""
        return tuple(dict.fromkeys(side.feed.stream.name for side in self.sides))

    @property
    def exact_from(self) -> int | None:
        """Where it began to see tuples: a time, or a position; of two sides the later."""
        return max((side.starts for side in self.sides if side.starts is not None), default=None)

    def take(self, stream: str, events: Events) -> None:
        """Queue the tuples of final events on every side that reads their stream."""
        for place, side in enumerate(self.sides):
            if side.feed.stream.name == stream:
                side.note_times(events)
                side.enqueue(self.tuples_of(place, events))

    def advance(self) -> None:
        """Step as far as every side is complete."""
        while (at := self._next()) is not None:
            self._step(at)

    def ends(self) -> list[int]:
        """Where the attached basic windows of each side end."""
        assert self.at is not None
        return [self.at + side.offset for side in self.sides]

    def bounds_us(self) -> tuple[int, int] | None:
        """Where the attached windows start and end in time: the earliest start, the latest end."""
        found = [bounds for side, end in zip(self.sides, self.ends()) if (bounds := side.bounds_us(end)) is not None]
        return (min(start for start, _ in found), max(end for _, end in found)) if found else None

    def lookup(self, query: RowQuery) -> pa.Table:
        """The rows of one query over the basic windows that are attached now."""
        output = Output(query, self.outputs[query.name].schema)
        if self.at is not None and any(side.held for side in self.sides) and (bounds := self.bounds_us()) is not None:
            columns, length = self.shown(query)
            output.add({"window_start": bounds[0], "window_end": bounds[1], **columns}, length)
        return output.table

    def _next(self) -> int | None:
        """The next step, or None when it is not complete yet."""
        complete = min(side.complete - side.offset for side in self.sides)
        if self.at is None or not any(side.held for side in self.sides):
            # Nothing is attached: the next step that matters is that of the first tuple that waits.
            firsts = [
                (int(side.queue.column(TICK)[0].as_py()) // self.step + 1) * self.step - side.offset
                for side in self.sides
                if side.queue is not None
            ]
            if firsts and min(firsts) <= complete:
                return min(firsts)
            for side in self.sides:
                side.forget(complete + side.offset)
            return None
        return self.at + self.step if self.at + self.step <= complete else None

    def _step(self, at: int) -> None:
        self.at = at
        for place, (side, end) in enumerate(zip(self.sides, self.ends())):
            tuples = side.take_until(end)
            side.hold(None if tuples is None else self.condensed(place, tuples))
            self.attach(place, tuples)
            side.forget(end)
        self.attached += 1
        self.pace.attached()
        if (at - self.phase) % self.slide == 0:
            self.pace.evaluated()
            if any(side.held for side in self.sides) and self._is_whole() and (bounds := self.bounds_us()) is not None:
                self.evaluate(*bounds)
        if self.attached == max(side.basic.count for side in self.sides):
            self.reconsider()

    def _is_whole(self) -> bool:
        """Whether the operator has seen every tuple of the windows that end here."""
        return all(
            side.starts is None or end - lengths_of(side.window)[0] >= side.starts
            for side, end in zip(self.sides, self.ends())
        )

    @abstractmethod
    def tuples_of(self, side: int, events: Events) -> pa.Table:
        """What is kept of events on a side, with their ticks."""

    def condensed(self, side: int, tuples: pa.Table) -> pa.Table:
        """What must be held of an attached basic window to build the index anew."""
        return tuples

    @abstractmethod
    def attach(self, side: int, tuples: pa.Table | None) -> None:
        """Put the tuples of a basic window into the index and attach it."""

    def evaluate(self, start_us: int, end_us: int) -> None:
        """Answer every query over the attached basic windows."""
        for output in self.outputs.values():
            columns, length = self.shown(output.query)
            output.add({"window_start": start_us, "window_end": end_us, **columns}, length)

    @abstractmethod
    def shown(self, query: RowQuery) -> tuple[dict[str, Any], int]:
        """The columns that a query shows of the attached basic windows, and their length."""

    @abstractmethod
    def reconsider(self) -> None:
        """Choose storage and index again, now that numbers were observed."""

    def ticks(self, side: int, events: Events) -> pa.Array:
        """The place of each event on a side's clock."""
        return pa.array(events.positions if self.sides[side].counts_rows else events.times_us)

    def statistics(self) -> dict[str, Any]:
        """Basic windows attached, evaluations, and the most basic windows between two of them."""
        return {
            "basic_windows_attached": self.attached,
            "evaluations": self.pace.evaluations,
            "most_basic_windows_between_evaluations": self.pace.longest_wait,
        }

    def describe(self, keep: Keep) -> dict[str, Any]:
        """Counters, and the tuples that wait and are held."""
        return {
            "at": self.at,
            "attached": self.attached,
            "pace": asdict(self.pace),
            "sides": [
                {
                    "starts": side.starts,
                    "queue": None if side.queue is None else keep(side.queue),
                    "held": keep(pa.concat_tables(side.held).combine_chunks()) if side.held else None,
                    "held_counts": [table.num_rows for table in side.held],
                    "row_times": [[number, *times] for number, times in side.row_times.items()],
                }
                for side in self.sides
            ],
        }

    def restore(self, description: Mapping[str, Any], tables: list[pa.Table]) -> None:
        """Take over counters and tuples, and build the index from the tuples."""
        self.at, self.attached = description["at"], description["attached"]
        self.pace = Pace(**description["pace"])
        for side, part in zip(self.sides, description["sides"], strict=True):
            side.starts = part["starts"]
            side.queue = None if part["queue"] is None else tables[part["queue"]].combine_chunks()
            side.row_times = {number: (first, last) for number, first, last in part["row_times"]}
            begin = 0
            for count in part["held_counts"]:
                side.held.append(tables[part["held"]].slice(begin, count))
                begin += count
            side.held_count = begin
        self.replay()
        if self.attached >= max(side.basic.count for side in self.sides):
            self.reconsider()

    @abstractmethod
    def replay(self) -> None:
        """Build the index anew from the tuples held."""


def _starts(feed: Feed, by_rows: bool, step: int) -> int | None:
    """The first basic window that an operator which begins now sees whole; None when it has missed nothing."""
    if by_rows:
        return -(-feed.final_count // step) * step if feed.final_count or feed.log.starts_us is not None else None
    seen = [time for time in (feed.watermark_us, feed.log.starts_us) if time is not None]
    return -(-max(seen) // step) * step if seen else None
