"""JOIN: pairs of events with equal keys, each within the other's window when it came.

The events of both sides have one order: by time, the left side before the right, ties by arrival. An event that arrives
probes the ring of the other side. The ring holds whole basic windows, so its old end reaches beyond the window, and the
basic window being filled may hold later events: this module makes the exact check, by position and time. Arrivals
between two ends of basic windows are probed together.

Cost: the ring's maintenance for each tuple, a search for each arrival, and its matches.
Source: Golab, Garg and Özsu, sections 2.1, 3.1 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.projection import holds
from panewise.engine.windowed.bulk_join import BulkJoin
from panewise.engine.windowed.feed import Events
from panewise.engine.windowed.operator import Feeds, Keep, Operator, choice_for, differs, names_of
from panewise.engine.windowed.output import join_attributes
from panewise.engine.windowed.ring_side import KEY, POSITION, TIME, Arrivals, RingSide
from panewise.engine.windowed.values import indexed, key_texts, plain
from panewise.indexes import RingWindow
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Attribute, QualifiedAttribute, bare_attributes
from panewise.language.model import Stream
from panewise.language.printer import label_of
from panewise.language.row_queries import BasicWindows, JoinQuery
from panewise.planning.windowed import choose_ring, index_type, join_basic_windows, join_key_types

MOST_TURNS = 64
"""Where arrivals turn the rings more often, they are joined in bulk: building the rings anew takes as many steps."""


class _Pairs(NamedTuple):
    """Pairs: the place of the arrival in the common order, its time, and the rows of both sides."""

    ranks: Ints
    times_us: Ints
    left: Ints
    right: Ints


class Numbered(NamedTuple):
    """Events of one side with keys and positions, and how many events of the other side came before each.

    Those at the beginning came earlier, and join only what arrives: nobody tells what came before them, but -1.
    """

    events: Events
    before: Ints


class JoinOperator(Operator):
    """Two rings, one for each side."""

    def __init__(self, query: JoinQuery, streams: Mapping[str, Stream], feeds: Feeds) -> None:
        super().__init__()
        self._query = query
        self._types = join_attributes(query, streams)
        self._keys = (query.left_keys, query.right_keys)
        self._key_types = join_key_types(query, streams)
        self._key_type = self._key_types[0] if len(self._key_types) == 1 else Type.STRING
        self._choice = choice_for(query, streams)
        self._arrivals = 0
        self._is_settled = False
        self._is_skipping = False
        """Whether the rings were passed over, and must be built anew."""
        self.sides: list[RingSide] = []
        for bound in (query.left, query.right):
            basic = join_basic_windows(bound.window, query.basic_windows)
            self.sides.append(RingSide(bound, feeds[bound.stream], basic, self._build(basic)))

    def _build(self, basic: BasicWindows) -> RingWindow:
        choice = self._choice
        assert choice.ring is not None
        kind = index_type(self._key_type)
        return RingWindow(basic.count, kind, ring=choice.ring, index=choice.index, purge=choice.purge)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of both sides."""
        return self._query.streams

    @property
    def exact_from(self) -> int | None:
        """Where it begins to see the events of both sides."""
        return max((side.starts_us for side in self.sides if side.starts_us is not None), default=None)

    def take(self, stream: str, events: Events) -> None:
        """Queue final events on every side that reads their stream."""
        for side, keys in zip(self.sides, self._keys):
            if side.bound.stream == stream:
                side.enqueue(self._tuples(side, keys, events))

    def join_numbered(self, given: Sequence[Numbered]) -> None:
        """Answer with the pairs of events of both sides that know their places."""
        arrivals = []
        for side, keys, numbered in zip(self.sides, self._keys, given):
            tuples = self._tuples(side, keys, numbered.events)
            side.rows = tuples.append_column(POSITION, pa.array(numbered.events.positions))
            known = int(np.count_nonzero(numbered.before < 0))
            fresh, times_us = side.rows.slice(known), numbered.events.times_us[known:]
            arrivals.append(Arrivals(times_us, known, np.arange(len(times_us)), plain(fresh.column(KEY)), known))
        joined = BulkJoin(self.sides, index_type(self._key_type))
        found = []
        for place, (arrived, numbered) in enumerate(zip(arrivals, given)):
            arrival, own, rows = joined.pairs(place, arrived, numbered.before[arrived.first_row :])
            times_us = arrived.times_us[arrival]
            found.append(_Pairs(times_us, times_us, *((own, rows) if place == 0 else (rows, own))))
        self._answer(found)

    def _tuples(self, side: RingSide, keys: Sequence[QualifiedAttribute], events: Events) -> pa.Table:
        """What a side keeps of events."""
        columns = {TIME: pa.array(events.times_us), KEY: self._key_values(events, keys)}
        columns |= {a.name: events.values(Attribute(a.attribute)) for a in self._needed(side)}
        return pa.table(columns)

    def _key_values(self, events: Events, keys: Sequence[QualifiedAttribute]) -> pa.Array:
        """The key of each event; of several attributes, a text that is equal where all of them are."""
        columns = [events.values(Attribute(key.attribute)) for key in keys]
        if len(columns) > 1:
            return key_texts(columns, self._key_types)
        values = indexed(columns[0])
        # A BIGINT and a DOUBLE are compared as doubles.
        return values.cast(pa.float64(), safe=False) if self._key_type is Type.DOUBLE else values

    def _needed(self, side: RingSide) -> list[QualifiedAttribute]:
        """The attributes of a side that columns and WHERE read."""
        query = self._query
        read = [column.expression for column in query.columns] + ([] if query.where is None else [query.where])
        found = dict.fromkeys(attribute for expression in read for attribute in bare_attributes(expression))
        return [a for a in found if isinstance(a, QualifiedAttribute) and a.side == side.bound.name]

    def advance(self) -> None:
        """Let the events that both watermarks have passed arrive, and answer with their pairs."""
        marks = [side.feed.watermark_us for side in self.sides]
        until_us = min((mark for mark in marks if mark is not None), default=None)
        if until_us is None or None in marks:
            return
        arrivals = [side.arrive(until_us) for side in self.sides]
        if not any(len(arrived) for arrived in arrivals):
            return
        self._arrivals += sum(len(arrived) for arrived in arrivals)
        self._answer(list(self._pairs(*arrivals)))
        if self._is_skipping:
            self._is_skipping = False
            for side in self.sides:
                side.forget()
            self.replay()
        for side in self.sides:
            side.trim()
        self._settle()

    def _pairs(self, left: Arrivals, right: Arrivals) -> Iterator[_Pairs]:
        """All pairs, from one end of a basic window to the next."""
        times = np.concatenate([left.times_us, right.times_us])
        of_right = np.repeat([False, True], [len(left), len(right)])
        # A stable sort keeps the left before the right, and each in its own order.
        order = np.argsort(times, kind="stable")
        times, of_right = times[order], of_right[order]
        ranks = [np.flatnonzero(~of_right), np.flatnonzero(of_right)]
        # How many events of the other side came before each arrival: at equal times, the left came first.
        before = [
            right.first + np.searchsorted(right.times_us, left.times_us, side="left"),
            left.first + np.searchsorted(left.times_us, right.times_us, side="right"),
        ]
        numbers = [
            side.numbers(times, of_right == place, arrived.first)
            for place, (side, arrived) in enumerate(zip(self.sides, (left, right)))
        ]
        ends = np.flatnonzero((np.diff(numbers[0]) != 0) | (np.diff(numbers[1]) != 0)) + 1
        if len(ends) > MOST_TURNS:
            yield from self._pairs_in_bulk((left, right), ranks, before, numbers)
            return
        for begin, end in zip([0, *ends.tolist()], [*ends.tolist(), len(times)]):
            parts = []
            for place, (side, arrived) in enumerate(zip(self.sides, (left, right))):
                side.slide_to(int(numbers[place][begin]))
                own = np.searchsorted(ranks[place], [begin, end])
                part = slice(*np.searchsorted(arrived.with_key, own).tolist())
                if part.start < part.stop:
                    side.ring.append(arrived.keys[part])
                parts.append(part)
            for place, arrived in enumerate((left, right)):
                if parts[place].start < parts[place].stop:
                    yield self._probe(place, arrived, parts[place], ranks[place], before[place])

    def _pairs_in_bulk(
        self, arrivals: tuple[Arrivals, Arrivals], ranks: list[Ints], before: list[Ints], numbers: list[Ints]
    ) -> Iterator[_Pairs]:
        """The same pairs from both sides sorted by key; then the rings are built from what they must hold."""
        joined = BulkJoin(self.sides, index_type(self._key_type))
        for place, arrived in enumerate(arrivals):
            arrival, own, rows = joined.pairs(place, arrived, before[place])
            arrival = arrived.with_key[arrival]
            pair = (own, rows) if place == 0 else (rows, own)
            yield _Pairs(ranks[place][arrival], arrived.times_us[arrival], *pair)
        for place, side in enumerate(self.sides):
            side.skip_to(int(numbers[place][0]), int(numbers[place][-1]))
        self._is_skipping = True

    def _probe(self, place: int, arrived: Arrivals, part: slice, ranks: Ints, before: Ints) -> _Pairs:
        """The pairs of some arrivals of one side, each with the events that came before it on the other."""
        other = self.sides[1 - place]
        places, rows = other.ring.probe(arrived.keys[part], including_filling=True)
        arrival = arrived.with_key[part][places]
        rows = rows - other.rows_from
        own = arrived.first_row + part.start + places
        if len(rows):
            joins = other.reaches(arrived.times_us[arrival], before[arrival], rows)
            arrival, rows, own = arrival[joins], rows[joins], own[joins]
        pair = (own, rows) if place == 0 else (rows, own)
        return _Pairs(ranks[arrival], arrived.times_us[arrival], *pair)

    def _answer(self, found: list[_Pairs]) -> None:
        """The rows of the pairs that pass WHERE, in the order in which the pairs formed."""
        if not any(len(pairs.ranks) for pairs in found):
            return
        joined = _Pairs(*(np.concatenate(parts) for parts in zip(*found)))
        order = np.argsort(joined.ranks, kind="stable")
        columns: dict[str, pa.Array] = {}
        for side, rows in zip(self.sides, (joined.left, joined.right)):
            assert side.rows is not None
            taken = pa.array(rows[order])
            columns |= {a.name: side.rows.column(a.name).take(taken).combine_chunks() for a in self._needed(side)}
        times = joined.times_us[order]
        if self._query.where is not None:
            passing = holds(evaluate(self._query.where, columns, self._types, length=len(times)))
            columns = {name: values.filter(pa.array(passing)) for name, values in columns.items()}
            times = times[passing]
        shown = {
            label_of(column): evaluate(column.expression, columns, self._types, length=len(times))
            for column in self._query.columns
        }
        for output in self.outputs.values():
            output.add({"time": times, **shown}, len(times))

    def _settle(self) -> None:
        """Choose ring and index again once a window was full, and rebuild if they differ."""
        side = max(self.sides, key=lambda side: 0 if side.rows is None else side.rows.num_rows)
        if self._is_settled or side.attached < side.basic.count:
            return
        self._is_settled = True
        choice = choose_ring("join", side.basic, side.observed(), index_type(self._key_type), self._query.using)
        if differs(self._choice, choice):
            self._choice = choice
            self.replay()

    def replay(self) -> None:
        """Rebuild the rings from the tuples held."""
        for side in self.sides:
            side.replay(self._build(side.basic))

    def check_invariants(self) -> None:
        """Raise AssertionError if rings or tuples are wrong."""
        for side in self.sides:
            side.ring.check_invariants()
            held = 0 if side.rows is None else side.rows.num_rows
            assert side.rows_from == side.ring.first_row, "tuples are not those of the ring"
            assert side.ring.next_row - side.rows_from == held, "tuples are not those of the ring"

    def statistics(self) -> dict[str, Any]:
        """The state of the rings. A join is evaluated at every arrival."""
        rows = [side.rows for side in self.sides if side.rows is not None]
        return {
            "basic_windows_attached": sum(side.attached for side in self.sides),
            "evaluations": self._arrivals,
            "most_basic_windows_between_evaluations": 0,
            **names_of(self._choice),
            "nodes": sum(side.ring.statistics()["nodes"] for side in self.sides),
            "bytes": sum(side.ring.nbytes for side in self.sides) + sum(table.nbytes for table in rows),
        }

    def describe(self, keep: Keep) -> dict[str, Any]:
        """Counters, and the tuples that wait and are held."""
        return {
            "arrivals": self._arrivals,
            "is_settled": self._is_settled,
            "sides": [
                {
                    "starts_us": side.starts_us,
                    "count": side.count,
                    "filling": side.filling,
                    "attached": side.attached,
                    "queue": None if side.queue is None else keep(side.queue),
                    "rows": None if side.rows is None else keep(side.rows),
                }
                for side in self.sides
            ],
        }

    def restore(self, description: Mapping[str, Any], tables: list[pa.Table]) -> None:
        """Take over counters and tuples, and build the rings from the tuples."""
        self._arrivals, self._is_settled = description["arrivals"], description["is_settled"]
        for side, part in zip(self.sides, description["sides"], strict=True):
            for name in ("starts_us", "count", "filling", "attached"):
                setattr(side, name, part[name])
            side.queue = None if part["queue"] is None else tables[part["queue"]].combine_chunks()
            side.rows = None if part["rows"] is None else tables[part["rows"]].combine_chunks()
        self.replay()
        if self._is_settled:
            self._is_settled = False
            self._settle()
