"""Reports of windows over the rows of substreams: `PARTITION BY k ROWS n SLIDE m`.

Each substream counts its own rows. After its row p, for every p that is n plus or minus a multiple of m, its last n
rows are answered. So there is no common instant at which windows close, and no tree: the rows of the substreams that
got some are put side by side, and the windows are folded as ranges of them.

Invariant: of each substream, the last rows are held that a window to come may cover, with their positions.
Cost: for a batch, a pass over the rows held, and of the substreams that got rows a sort of these and a fold for each
window. Space: n - 1 rows for each substream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.lowering import Lowered
from panewise.arrays import Ints
from panewise.engine.answers import Groups, QueryAnswers, overflows_of, rows_that_pass
from panewise.engine.as_of.answers import input_values
from panewise.engine.as_of.events import OrderedEvents
from panewise.engine.as_of.folds import Folds
from panewise.engine.as_of.substreams import KeyGroup
from panewise.engine.tables import KeyTable
from panewise.engine.windowed.operator import Keep
from panewise.engine.windowed.positions import positions
from panewise.kernels.label_ranges import places_behind
from panewise.kernels.ordering import order_words
from panewise.language.expressions import Expression, aggregates_of
from panewise.language.model import Query, Stream
from panewise.language.printer import print_query
from panewise.windows import RowWindow
from panewise.windows.slots import lengths_of

NUMBER = "\0position"
"""The column of a row's position in its substream, among rows that are held. No attribute can have this name."""


def partition_of(query: Query) -> tuple[str, ...]:
    """The attributes that make the substreams of a query."""
    assert isinstance(query.window, RowWindow)
    return tuple(sorted(set(query.window.partition_by)))


@dataclass(frozen=True)
class _Reporting:
    """A query, and of each substream that there was when it came, how many rows it has not seen."""

    query: Query
    missed: Ints
    since_us: int | None
    """From when on it sees every row; None: from the beginning."""

    @property
    def lengths(self) -> tuple[int, int]:
        """How many rows its windows have, and by how many they slide."""
        return lengths_of(self.query.window)


class SubstreamReports:
    """The queries over the substreams that some attributes make, and the rows that these need.

    It sees the rows from `since_us` on; None is the beginning of the stream.
    """

    def __init__(self, stream: Stream, partition_by: tuple[str, ...], since_us: int | None = None) -> None:
        self.stream = stream
        self.partition_by = partition_by
        self.since_us = since_us
        self._reporting: dict[str, _Reporting] = {}
        self._table = KeyTable([stream.attributes[name] for name in partition_by])
        self._counts = np.empty(0, np.int64)
        """How many rows of each substream were taken."""
        self._reported = np.empty(0, np.int64)
        """How many of them are reported."""
        self._rows: pa.Table | None = None
        """The rows held, in order."""
        self._of = np.empty(0, np.int64)
        """The substream of each."""
        self._positions = np.empty(0, np.int64)
        """Its place there, from 1 on."""

    @property
    def queries(self) -> dict[str, Query]:
        """The queries that are answered."""
        return {name: one.query for name, one in self._reporting.items()}

    @property
    def rows_held(self) -> int:
        """How many rows are held."""
        return len(self._of)

    @property
    def nbytes(self) -> int:
        """The memory of the rows held."""
        return 0 if self._rows is None else int(self._rows.nbytes)

    def add(self, query: Query, now_us: int | None = None) -> None:
        """Answer one more query. It reports the windows whose rows are all held, or come after the watermark."""
        missed = self._reported.copy()
        np.minimum.at(missed, self._of, self._positions - 1)
        lacks = (missed > np.maximum(self._reported - lengths_of(query.window)[0] + 1, 0)).any()
        self._reporting[query.name] = _Reporting(query, missed, now_us if lacks else self.since_us)

    def exact_from_us(self, name: str) -> int | None:
        """From when on a query sees every row; None: from the beginning."""
        return self._reporting[name].since_us

    def remove(self, name: str) -> None:
        """Stop answering a query."""
        del self._reporting[name]

    def take(self, rows: pa.Table) -> None:
        """Take in rows that are final, in order."""
        if self.since_us is not None:
            rows = rows.filter(pa.array(np.asarray(rows.column(self.stream.timestamp)) >= self.since_us))
        if rows.num_rows:
            keys = self._numbers(rows)
            order = order_words(keys, len(self._table) - 1)
            places = np.empty(len(keys), np.int64)
            places[order] = positions(keys[order])
            self._hold(rows, keys, self._counts[keys] + places)
            self._counts += np.bincount(keys, minlength=len(self._counts))

    def answers(self) -> list[QueryAnswers]:
        """The answers of the windows that are complete and not reported, those of one query together."""
        chosen = np.flatnonzero((self._counts > self._reported)[self._of])
        if not len(chosen) or self._rows is None:
            return []
        taken = self._rows.take(pa.array(chosen)).combine_chunks().to_batches()[0]
        times = np.asarray(taken.column(self.stream.timestamp))
        events = OrderedEvents(self.stream, taken, times)
        fresh = _FreshRows(events, self._of[chosen], self._positions[chosen], self._counts, self._reported)
        found: list[QueryAnswers] = []
        alike: dict[object, list[_Reporting]] = {}
        for one in self._reporting.values():
            alike.setdefault((one.query.group_by, one.query.where), []).append(one)
        for several in alike.values():
            found += fresh.answers(several)
        return found

    def settle(self) -> None:
        """The answers so far are reported."""
        self._reported = self._counts.copy()
        keep = self._positions > (self._reported - self._kept)[self._of]
        if self._rows is not None and 2 * int(np.count_nonzero(keep)) <= len(keep):
            self._rows = self._rows.filter(pa.array(keep)).combine_chunks()
            self._of, self._positions = self._of[keep], self._positions[keep]

    def held(self) -> pa.Table | None:
        """The rows held that windows to come may cover, with their positions; None before the first row.

        Of each substream the last row is among them, so that nothing else tells how many rows it had.
        """
        if self._rows is None:
            return None
        keep = pa.array(self._positions > (self._reported - self._kept)[self._of])
        return self._rows.append_column(NUMBER, pa.array(self._positions)).filter(keep).combine_chunks()

    def restore(self, held: pa.Table) -> None:
        """Go on from rows that were held. All of them were reported."""
        numbers = np.asarray(held.column(NUMBER))
        rows = held.drop_columns([NUMBER])
        keys = self._numbers(rows)
        self._hold(rows, keys, numbers)
        np.maximum.at(self._counts, keys, numbers)
        self._reported = self._counts.copy()

    def describe(self, keep: Keep) -> dict[str, Any]:
        """Everything, for a snapshot. Substreams are in the order of their first rows."""
        held = self.held()
        found: dict[str, Any] = {"partition_by": list(self.partition_by), "since_us": self.since_us, "held": None}
        in_order = np.empty(0, np.int64)
        if held is not None:
            of = self._table.find([held.column(name).combine_chunks() for name in self.partition_by], held.num_rows)
            in_order = of[np.sort(np.unique(of, return_index=True)[1])]
            found["held"] = keep(held)
        found["reported"] = self._reported[in_order].tolist()
        found["queries"] = [
            {
                "query": print_query(one.query),
                "missed": _padded(one.missed, len(self._counts))[in_order].tolist(),
                "since_us": one.since_us,
            }
            for one in self._reporting.values()
        ]
        return found

    @staticmethod
    def described(
        stream: Stream, description: Mapping[str, Any], queries: Sequence[Query], tables: Sequence[pa.Table]
    ) -> SubstreamReports:
        """What was described; `queries` are those of the description, in its order."""
        reports = SubstreamReports(stream, tuple(description["partition_by"]), description["since_us"])
        if description["held"] is not None:
            reports.restore(tables[description["held"]])
            reports._reported = np.array(description["reported"], np.int64)
        for query, part in zip(queries, description["queries"], strict=True):
            missed = np.array(part["missed"], np.int64)
            reports._reporting[query.name] = _Reporting(query, missed, part["since_us"])
        return reports

    def check_invariants(self) -> None:
        """Raise AssertionError if the rows held are not the last ones of their substreams."""
        for substream in range(len(self._counts)):
            held = self._positions[self._of == substream]
            assert len(held), "a substream without its last row"
            assert held[-1] == self._counts[substream], "the last row is not held"
            assert (np.diff(held) == 1).all(), "rows are missing"
            for one in self._reporting.values():
                missed = int(_padded(one.missed, len(self._counts))[substream])
                covered = int(self._reported[substream]) - one.lengths[0] + 2
                assert held[0] <= max(1, covered, missed + 1), f"query {one.query.name} lacks an old row"

    @property
    def _kept(self) -> int:
        """How many of the reported rows of a substream are held: those that windows to come cover, and at least one."""
        return max([1, *(one.lengths[0] - 1 for one in self._reporting.values())])

    def _numbers(self, rows: pa.Table) -> Ints:
        """The substream of each row."""
        columns = [rows.column(name).combine_chunks() for name in self.partition_by]
        keys = self._table.ids(columns, rows.num_rows)
        self._counts = _padded(self._counts, len(self._table))
        self._reported = _padded(self._reported, len(self._table))
        return keys

    def _hold(self, rows: pa.Table, keys: Ints, numbers: Ints) -> None:
        self._rows = rows if self._rows is None else pa.concat_tables([self._rows, rows])
        self._of = np.concatenate([self._of, keys])
        self._positions = np.concatenate([self._positions, numbers])


def answers_over_stream(
    events: OrderedEvents,
    places: Ints,
    queries: Sequence[Query],
    reported: int,
    final: int,
    edges: tuple[Ints, Ints],
) -> list[QueryAnswers]:
    """The answers of windows over the rows of a whole stream that end after `reported` rows and up to `final` rows.

    `places` are the positions of the rows, which rise. Rows of other groups may be missing, so `edges` has the
    positions of the first and the last rows of all windows, and their times. The queries have one GROUP BY.
    """
    nothing = np.zeros(1, np.int64)
    of = np.zeros(len(places), np.int64)
    fresh = _FreshRows(events, of, places, np.array([final]), np.array([reported]), edges)
    alike: dict[Expression | None, list[_Reporting]] = {}
    for query in queries:
        alike.setdefault(query.where, []).append(_Reporting(query, nothing, None))
    return [answers for several in alike.values() for answers in fresh.answers(several)]


@dataclass(frozen=True)
class _FreshRows:
    """The rows of the substreams that got some, and what is known of each substream."""

    events: OrderedEvents
    of: Ints
    positions: Ints
    counts: Ints
    reported: Ints
    edges: tuple[Ints, Ints] | None = None
    """Positions and their times, where rows may be missing."""

    def answers(self, several: Sequence[_Reporting]) -> Iterator[QueryAnswers]:
        """The answers of queries with the same GROUP BY and WHERE."""
        first = several[0].query
        part = self._part(first.group_by, first.where)
        if not len(part.rows):
            return
        values = input_values(part, [one.query for one in several], map)
        folded: dict[RowWindow, tuple[Ints, Ints, Folds]] = {}
        for one in several:
            window = one.query.window
            assert isinstance(window, RowWindow)
            if window not in folded:
                keys, ends = self._windows(part, *one.lengths)
                places = self.positions[part.rows]
                low = places_behind(places, part.segments, keys, ends - window.left)
                high = places_behind(places, part.segments, keys, ends)
                folded[window] = keys, ends, Folds(values, keys, low, high)
            if len(folded[window][0]):
                yield self._answered(one, part, *folded[window])

    def _part(self, group_by: tuple[str, ...], where: Expression | None) -> KeyGroup:
        """The rows that pass WHERE, by group."""
        events = self.events
        table = KeyTable([events.stream.attributes[name] for name in group_by])
        keys = table.ids([events.batch.column(name) for name in group_by], len(events))
        rows = order_words(keys, len(table) - 1)
        if where is not None:
            rows = rows[events.holds(where)[rows]]
        bounds = np.searchsorted(keys[rows], np.arange(len(table) + 1))
        nothing = np.empty(0, np.int64)
        return KeyGroup(events, Groups(group_by, table), 0, rows, bounds, slice(0, 0), nothing, nothing)

    def _windows(self, part: KeyGroup, length: int, slide: int) -> tuple[Ints, Ints]:
        """Each group and window in which the group has a row: the group, and the position at which the window ends."""
        places, of = self.positions[part.rows], self.of[part.rows]
        keys = np.repeat(np.arange(len(part.segments) - 1), np.diff(part.segments))
        # Window j ends at length + j * slide. Row q is in those that end at q or later and begin at q or earlier.
        first = np.maximum(-((length - places) // slide), (self.reported[of] - length) // slide + 1)
        last = np.minimum((places - 1) // slide, (self.counts[of] - length) // slide)
        # The group's rows before have been in the windows up to `last` of the one before.
        known = np.full(len(last), -(2**62))
        known[1:] = np.where(keys[1:] == keys[:-1], last[:-1] + 1, known[1:])
        first = np.maximum(first, known)
        counts = np.maximum(last - first + 1, 0)
        begins = np.repeat(first - np.cumsum(counts) + counts, counts)
        return np.repeat(keys, counts), length + slide * (begins + np.arange(len(begins)))

    def _answered(self, one: _Reporting, part: KeyGroup, keys: Ints, ends: Ints, folds: Folds) -> QueryAnswers:
        query, stream = one.query, self.events.stream
        length, slide = one.lengths
        of = self.of[part.rows[part.segments[keys]]]
        begins = np.maximum(ends - length, 0)
        rows = np.flatnonzero(begins >= _padded(one.missed, len(self.counts))[of])
        overflows = 0
        if query.having is not None:
            read = {call: folds.lowered(call) for call in aggregates_of(query.having)}
            read = {call: answers.take(rows) for call, answers in read.items()}
            overflows = overflows_of(read)
            rows = rows[rows_that_pass(query.having, stream, part.groups, keys[rows], read)]
        found = folds.lowered_of(query.aggregates)
        lowered: dict[Expression, Lowered] = {call: answers.take(rows) for call, answers in found.items()}
        overflows += overflows_of(lowered, read_by=query.having)
        answers = QueryAnswers(
            query,
            self._times(of[rows], begins[rows] + 1),
            self._times(of[rows], ends[rows]),
            keys[rows],
            part.groups,
            lowered,
            instances=(ends[rows] - length) // slide,
            overflows=overflows,
        )
        return answers.with_computed(stream)

    def _times(self, of: Ints, places: Ints) -> Ints:
        """The times of rows, given their substreams and their positions there."""
        if self.edges is not None:
            numbers, times = self.edges
            order = np.argsort(numbers)
            found: Ints = times[order[np.searchsorted(numbers[order], places)]]
            return found
        order, starts = self._by_substream
        rows: Ints = order[starts[of] + places - self.positions[order[starts[of]]]]
        return self.events.times[rows]

    @cached_property
    def _by_substream(self) -> tuple[Ints, Ints]:
        """The rows in the order of their substreams, and where each of these begins."""
        order = order_words(self.of, len(self.counts) - 1)
        starts = np.minimum(np.searchsorted(self.of[order], np.arange(len(self.counts))), len(order) - 1)
        return order, starts


def _padded(values: Ints, size: int) -> Ints:
    """The values, with zeros behind them up to a size."""
    more = size - len(values)
    return values if more <= 0 else np.concatenate([values, np.zeros(more, np.int64)])
