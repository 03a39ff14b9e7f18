"""Operators over sliding windows that are cut into basic windows (Indexing, sections 1.1 and 2).

A side's tuples wait in a queue until a basic window of it is complete: the watermark is past its end, or all its rows
are final. Then it is attached and the oldest leaves. Where an instance of the window ends, the operator is evaluated:
every `every` basic windows, the paper's k.

Both sides of an intersection move in one step. A step is a place on a common clock; a side's own end lies `offset`
ahead of it, so that instance k of one window meets instance k of the other.

Invariant: after a step, the attached basic windows of a side hold its tuples from `end - length` up to `end`.
Between the steps at which tuples come or leave, every window shows the same: these windows are answered together.
Cost: a step costs its tuples and what the index takes to attach them; empty stretches are skipped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.engine.windowed.feed import Events, Feed, queued
from panewise.engine.windowed.operator import Feeds, Keep, Operator, differs, names_of
from panewise.engine.windowed.output import QueryRows
from panewise.indexes import IndexChoice, Pace, RingWindow, SetWindow, TwoSetWindow
from panewise.language.row_queries import BasicWindows, RowQuery
from panewise.windows import RowWindow, Window
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.slots import lengths_of

TICK = "\0tick"
"""The column of a tuple's place on its side's clock: its time, or its position. No attribute can have this name."""


@dataclass
class Side:
    """One window of an operator: the tuples that wait, those that are attached, and the times of its rows."""

    feed: Feed
    window: Window
    basic: BasicWindows
    offset: int
    starts: int | None
    """Tuples before this place do not count; None when every tuple does."""
    queue: pa.Table | None = None
    held: deque[tuple[int, pa.Table]] = field(default_factory=deque)
    """Where each attached basic window ends that is not empty, and its tuples."""
    row_times: OrderedDict[int, tuple[int, int]] = field(default_factory=OrderedDict)
    """For windows over rows: the times of the first and the last row of each basic window that may be covered."""

    @property
    def counts_rows(self) -> bool:
        """Whether its clock counts rows."""
        return isinstance(self.window, RowWindow)

    @property
    def tables(self) -> list[pa.Table]:
        """The tuples of each attached basic window that is not empty."""
        return [table for _, table in self.held]

    @property
    def complete(self) -> int:
        """How far its tuples are final: a time, or a number of rows."""
        if self.counts_rows:
            return self.feed.final_count
        return -(2**63) if self.feed.watermark_us is None else self.feed.watermark_us

    def enqueue(self, tuples: pa.Table) -> None:
        """Queue tuples; they have a column TICK."""
        self.queue = queued(self.queue, tuples, TICK, self.starts)

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
        """Where the window that ends at a place starts and ends in time; None if it covers no row."""
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

    def hold(self, end: int, tuples: pa.Table | None) -> None:
        """Hold the tuples of the basic window that ends at a place, and drop those of one that leaves there."""
        if tuples is not None and tuples.num_rows:
            self.held.append((end, tuples))
        if self.held and self.held[0][0] <= end - self.basic.length * self.basic.count:
            self.held.popleft()

    def next_change(self) -> int | None:
        """The next end at which tuples come or leave; None if nothing waits or is held."""
        ends = []
        if self.queue is not None:
            first = int(self.queue.column(TICK)[0].as_py())
            ends.append((first // self.basic.length + 1) * self.basic.length)
        if self.held:
            ends.append(self.held[0][0] + self.basic.length * self.basic.count)
        return min(ends, default=None)

    def forget(self, end: int) -> None:
        """Drop times before the basic windows that end at a place."""
        oldest = end // self.basic.length - self.basic.count
        while self.row_times and next(iter(self.row_times)) < oldest:
            self.row_times.popitem(last=False)


class BasicWindowOperator(Operator):
    """Steps from basic window to basic window; the operators define what a step does."""

    index: SetWindow | TwoSetWindow | RingWindow
    _choice: IndexChoice

    def __init__(self, pairs: list[tuple[str, Window]], feeds: Feeds, basic_windows: int | None = None) -> None:
        super().__init__()
        basics = [BasicWindows.of(window) for _, window in pairs]
        if basic_windows is not None:
            basics.append(BasicWindows.of(pairs[0][1], basic_windows))
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
        self.moves = 0
        """How often the index has moved. Empty basic windows between two others are one move."""
        self.pace = Pace(self.slide // self.step)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of its sides."""
        return tuple(dict.fromkeys(side.feed.stream.name for side in self.sides))

    @property
    def exact_from(self) -> int | None:
        """Where it began to see tuples: a time, or a position; the later one of two sides."""
        return max((side.starts for side in self.sides if side.starts is not None), default=None)

    def take(self, stream: str, events: Events) -> None:
        """Queue the tuples of final events on every side that reads their stream."""
        for place, side in enumerate(self.sides):
            if side.feed.stream.name == stream:
                side.note_times(events)
                side.enqueue(self.tuples_of(place, events))

    @property
    def complete(self) -> int | None:
        """How far every side is complete."""
        return min(side.complete - side.offset for side in self.sides)

    def foresee(self, before: int | None, after: int | None) -> None:
        """Decide how often windows are evaluated that end after one place and up to another.

        The more of them, the rarer, as far as a query allows it. At first, and at the end of a stream, nobody waits.
        """
        is_end = after == END_OF_STREAM or (self._counts_rows and self._is_at_end)
        for output in self.outputs.values():
            evaluation = output.query.evaluation
            if before is None or before <= self._before_the_first or after is None or is_end:
                output.every = evaluation.every
                continue
            first, last = self._number(before), self._number(after)
            due = last // evaluation.every - first // evaluation.every
            output.every = evaluation.under(due)
            output.left_out += max(0, due - (last // output.every - first // output.every))

    @property
    def _counts_rows(self) -> bool:
        return self.sides[0].counts_rows

    @property
    def _before_the_first(self) -> int:
        """How far every side is complete before there is a watermark, or a row that is final."""
        return min(-side.offset for side in self.sides) if self._counts_rows else -(2**63)

    @property
    def _is_at_end(self) -> bool:
        return all(side.feed.watermark_us == END_OF_STREAM for side in self.sides)

    def advance(self) -> None:
        """Step forward while every side is complete."""
        complete = min(side.complete - side.offset for side in self.sides)
        complete -= complete % self.step
        while True:
            changes = [end - side.offset for side in self.sides if (end := side.next_change()) is not None]
            change = min(changes, default=None)
            if self._holds_something:
                assert change is not None
                self._slide_to(min(change - self.step, complete))
            if change is None or change > complete:
                break
            self._step(change)
        if not self._holds_something:
            for side in self.sides:
                side.forget(complete + side.offset)

    @property
    def _holds_something(self) -> bool:
        return any(side.held for side in self.sides)

    def ends(self, at: int) -> list[int]:
        """Where the basic windows end that are attached at a step, by side."""
        return [at + side.offset for side in self.sides]

    def bounds_us(self, at: int) -> tuple[int, int] | None:
        """Where the windows of a step start and end in time: the earliest start, the latest end."""
        found = [bounds for side, end in zip(self.sides, self.ends(at)) if (bounds := side.bounds_us(end)) is not None]
        return (min(start for start, _ in found), max(end for _, end in found)) if found else None

    def lookup(self, query: RowQuery) -> pa.Table:
        """The rows of one query over the basic windows that are attached now."""
        output = QueryRows(query, self.outputs[query.name].schema)
        if self.at is not None and self._holds_something and (bounds := self.bounds_us(self.at)) is not None:
            output.add_windows([bounds], *self.shown(query))
        return output.table

    def _step(self, at: int) -> None:
        """Attach the basic windows that end at a step, at which tuples come or leave."""
        self.at = at
        for place, (side, end) in enumerate(zip(self.sides, self.ends(at))):
            tuples = side.take_until(end)
            side.hold(end, None if tuples is None else self.condensed(place, tuples))
            self.attach(place, tuples)
        self._attached(1)

    def _slide_to(self, at: int) -> None:
        """Attach empty basic windows up to a step; nothing leaves before it."""
        assert self.at is not None
        count = (at - self.at) // self.step
        if count > 0:
            self.at = at
            for place in range(len(self.sides)):
                self.attach(place, None, count)
            self._attached(count)

    def _attached(self, count: int) -> None:
        """Evaluate the windows that end with the last `count` steps, which all show the same."""
        assert self.at is not None
        self.moves += 1
        before = self.at - count * self.step
        first = before + self.slide - (before - self.phase) % self.slide
        due = range(first, self.at + 1, self.slide)
        for ats in (due[:1], due[1:]):
            if ats:
                # After the first of them, each comes a slide after the one before.
                self.pace.attached((ats[0] - before) // self.step)
                self.pace.evaluated(len(ats))
                before = ats[-1]
        self.pace.attached((self.at - before) // self.step)
        if due and self._holds_something:
            self.evaluate(due)
        for side, end in zip(self.sides, self.ends(self.at)):
            side.forget(end)
        full = max(side.basic.count for side in self.sides)
        self.attached += count
        if self.attached - count < full <= self.attached:
            self.reconsider()

    def _bounds_of(self, due: range) -> list[tuple[int, int]]:
        """Where the windows that end at some steps start and end in time, if the operator has seen all their tuples."""
        lengths = [lengths_of(side.window)[0] for side in self.sides]
        whole_from = max(
            (
                side.starts + length - side.offset
                for side, length in zip(self.sides, lengths)
                if side.starts is not None
            ),
            default=None,
        )
        whole = due if whole_from is None else [at for at in due if at >= whole_from]
        if self.sides[0].counts_rows:
            return [bounds for at in whole if (bounds := self.bounds_us(at)) is not None]
        # Windows over time end together, so the longest begins first.
        longest = max(lengths)
        return [(at - longest, at) for at in whole]

    @abstractmethod
    def tuples_of(self, side: int, events: Events) -> pa.Table:
        """The columns of events that a side keeps, with their ticks."""

    def condensed(self, side: int, tuples: pa.Table) -> pa.Table:
        """What must be held of an attached basic window to rebuild the index."""
        return tuples

    @abstractmethod
    def attach(self, side: int, tuples: pa.Table | None, count: int = 1) -> None:
        """Put the tuples of a basic window into the index, attach it, and then `count` - 1 empty ones."""

    def evaluate(self, due: range) -> None:
        """Answer every query over the windows that end at some steps, which all hold what is attached now."""
        for output in self.outputs.values():
            # The numbers of these windows follow each other.
            first = -self._number(due[0]) % output.every
            bounds_us = self._bounds_of(due[first :: output.every])
            output.evaluations += len(bounds_us)
            if bounds_us:
                output.add_windows(bounds_us, *self.shown(output.query))

    def _number(self, place: int) -> int:
        """The number of the last window that ends up to a place."""
        return (place - self.phase % self.slide) // self.slide

    @abstractmethod
    def shown(self, query: RowQuery) -> tuple[dict[str, Any], int]:
        """The columns that a query shows of the attached basic windows, and their length."""

    @abstractmethod
    def choose(self) -> IndexChoice:
        """The choice of storage, index and ring that the numbers observed in full windows make."""

    def reconsider(self) -> None:
        """Choose again, and rebuild if another choice is better."""
        choice = self.choose()
        if differs(self._choice, choice):
            self._choice = choice
            self.replay()

    def check_invariants(self) -> None:
        """Raise AssertionError if the index is wrong."""
        self.index.check_invariants()

    def ticks(self, side: int, events: Events) -> pa.Array:
        """The place of each event on a side's clock."""
        return pa.array(events.positions if self.sides[side].counts_rows else events.times_us)

    def statistics(self) -> dict[str, Any]:
        """Basic windows attached, evaluations and the most basic windows between two of them, and the index."""
        tuples = sum(table.nbytes for side in self.sides for table in side.tables)
        return {
            "basic_windows_attached": self.attached,
            "moves": self.moves,
            "evaluations": self.pace.evaluations,
            "most_basic_windows_between_evaluations": self.pace.longest_wait,
            **names_of(self._choice),
            "nodes": self.index.statistics()["nodes"],
            "bytes": self.index.nbytes + tuples,
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
                    "held": keep(pa.concat_tables(side.tables).combine_chunks()) if side.held else None,
                    "held_ends": [[end, table.num_rows] for end, table in side.held],
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
            side.row_times = OrderedDict((number, (first, last)) for number, first, last in part["row_times"])
            begin = 0
            for end, count in part["held_ends"]:
                side.held.append((end, tables[part["held"]].slice(begin, count)))
                begin += count
        self.replay()
        if self.attached >= max(side.basic.count for side in self.sides):
            self.reconsider()

    @abstractmethod
    def replay(self) -> None:
        """Rebuild the index from the tuples held."""

    def attachments(self, side: int) -> Iterator[tuple[pa.Table, int]]:
        """The tuples held of a side, each with how many basic windows to attach: its own, and empty ones behind it."""
        held = self.sides[side].held
        if held:
            assert self.at is not None
            ends = [end for end, _ in held] + [self.ends(self.at)[side] + self.step]
            for (begin, table), end in zip(held, ends[1:]):
                yield table, (end - begin) // self.step


def _starts(feed: Feed, by_rows: bool, step: int) -> int | None:
    """The first basic window that a new operator sees whole; None if it has missed nothing."""
    if by_rows:
        return -(-feed.final_count // step) * step if feed.final_count or feed.log.starts_us is not None else None
    seen = [time for time in (feed.watermark_us, feed.log.starts_us) if time is not None]
    return -(-max(seen) // step) * step if seen else None
