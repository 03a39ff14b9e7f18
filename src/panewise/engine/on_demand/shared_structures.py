"""The structures of one stream, shared by its on-demand queries with any windows.

There is one sequence for each WHERE and GROUP BY. In it there is one column for each input and each thing that
aggregates are made from. A lookup turns the window into a range of event numbers, the range into ranges of positions,
and asks each column once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import numpy as np

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.lowering import Lowered
from panewise.arrays import Ints
from panewise.engine.answers import QueryAnswers, overflows_of, rows_that_pass, with_computed
from panewise.engine.event_log import EventLog
from panewise.engine.on_demand.adaptation import ObservedColumn, better_structure
from panewise.engine.on_demand.candidates import IndexKey, Needs
from panewise.engine.on_demand.columns import ColumnKey, FoldedParts, HeldColumn, Widths
from panewise.engine.on_demand.coverage import same_for_all
from panewise.engine.on_demand.event_sequence import EventSequence
from panewise.engine.on_demand.kernel_answers import FEWEST_TOGETHER, Arrays, KernelAnswers
from panewise.engine.on_demand.parts import NO_KEYS, Part
from panewise.engine.on_demand.sequence import S, Sequence
from panewise.engine.on_demand.served import Keys as Keys
from panewise.engine.on_demand.served import Served, ServedAggregate, ServedFromEvents
from panewise.language.expressions import AggregateCall, Expression
from panewise.language.model import Query, Stream
from panewise.language.printer import print_expression
from panewise.planning.having import HavingPlan, Threshold
from panewise.planning.structure_choice import StructurePlan, input_type
from panewise.structures.folded import MustReadError
from panewise.windows import RowWindow


@dataclass(frozen=True)
class Found:
    """The groups with events in a window: their places among the requested ones, codes, times, and answers."""

    places: Ints
    codes: Ints
    starts_us: Ints
    ends_us: Ints
    lowered: dict[Expression, Lowered]
    overflows: int
    """How many answers do not fit in 64 bits, those that HAVING read and left out included."""

    def pick(self, codes: Ints, groups: int) -> Found:
        """The answers of groups by their codes, -1 for none; `groups` is the number of all groups."""
        # The last place stays free: -1 points to it.
        row_of = np.full(groups + 1, -1, np.int64)
        row_of[self.codes] = np.arange(len(self.codes))
        rows = row_of[codes]
        places = np.arange(len(codes))
        if rows.min(initial=0) < 0:
            places = np.flatnonzero(rows >= 0)
            rows = rows[places]
        lowered = {call: one.take(rows) for call, one in self.lowered.items()}
        return Found(places, self.codes[rows], self.starts_us[rows], self.ends_us[rows], lowered, self.overflows)


class PendingRanges(NamedTuple):
    """Ranges of pending events of the groups at some places among the requested ones; None for all places."""

    places: Ints | None
    low: Ints
    high: Ints

    @staticmethod
    def of(low: Ints, high: Ints) -> PendingRanges | None:
        """The ranges that are not empty; None if all are empty."""
        places = np.flatnonzero(high > low)
        return PendingRanges(places, low[places], high[places]) if len(places) else None

    @property
    def widths(self) -> Ints:
        """How many pending events each has."""
        return self.high - self.low

    def among(self, rows: Ints) -> PendingRanges | None:
        """The ranges of the groups at some rising places, numbered by their order in these; None if all are empty."""
        assert self.places is not None
        places = np.searchsorted(rows, self.places)
        chosen = np.flatnonzero(np.append(rows, -1)[places] == self.places)
        return PendingRanges(places[chosen], self.low[chosen], self.high[chosen]) if len(chosen) else None

    def codes(self, codes: Ints) -> Ints:
        """The codes of the groups, picked from the codes of all requested ones."""
        return codes if self.places is None else codes[self.places]


class Ranges(NamedTuple):
    """What a window covers of some groups: positions of final and of pending events, and how many events that is."""

    codes: Ints
    low: Ints
    high: Ints
    widths: Ints
    of_pending: PendingRanges | None

    def among(self, rows: Ints) -> Ranges:
        """The ranges of the groups at some rising places."""
        of_pending = None if self.of_pending is None else self.of_pending.among(rows)
        return Ranges(self.codes[rows], self.low[rows], self.high[rows], self.widths[rows], of_pending)


class SharedStructures(ABC, Generic[S]):
    """The sequences over one source, and the queries that they answer."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._served: dict[str, Served[S]] = {}
        self._by_kernel: dict[Served[S], KernelAnswers] = {}
        self._sequences: dict[tuple[Expression | None, tuple[str, ...]], Sequence[S]] = {}
        self._observed: dict[HeldColumn, ObservedColumn] = {}
        self._read = 0

    def add(self, query: Query, plan: StructurePlan, having: HavingPlan | None) -> None:
        """Answer one more query, from the elements that the source holds, as its plans say."""
        if plan.reads_log:
            return
        sequence = self._sequence(query, query.where, query.group_by)
        aggregates = []
        for choice in plan.choices:
            assert choice.structure is not None
            aggregates.append(self._aggregate(sequence, query, choice.call, choice.structure, is_forced=plan.is_forced))
        columns = dict.fromkeys(one.column for one in aggregates if one.column is not None)
        threshold = None if having is None else having.threshold
        served = self._new_served(query, sequence, tuple(aggregates), tuple(columns), threshold)
        if threshold is not None:
            sequence.add_index(IndexKey.of(threshold), query.name, Needs(served.index_range, threshold.bound))
        self._served[query.name] = served
        if KernelAnswers.can_answer(served):
            self._by_kernel[served] = KernelAnswers(served)

    def remove(self, name: str) -> None:
        """Stop answering a query, and drop what only it needed."""
        served = self._served.pop(name, None)
        if served is None:
            return
        self._by_kernel.pop(served, None)
        if served.threshold is not None:
            served.sequence.drop_index(IndexKey.of(served.threshold), name)
        for column in served.columns:
            column.functions.pop(name)
            column.forced.discard(name)
            if not column.functions:
                served.sequence.drop(column)
                self._observed.pop(column, None)
        for sequence in served.sequences:
            sequence.queries.discard(name)
            if not sequence.queries:
                self._sequences.pop((sequence.where, sequence.group_by), None)

    def append(self, source: S) -> None:
        """Take in elements that became final; now and then choose structures again."""
        for sequence in self._sequences.values():
            sequence.append(source)
            self._adapt(sequence)

    def let_go(self, source: S) -> None:
        """Follow the source after it has dropped elements."""
        for sequence in self._sequences.values():
            sequence.let_go(source)

    def served(self, name: str) -> Served[S] | None:
        """A query that structures answer; None for the others."""
        return self._served.get(name)

    def by_kernel(self, served: Served[S]) -> KernelAnswers | None:
        """How a call of a kernel answers a query; None if it cannot."""
        return self._by_kernel.get(served)

    def lookup_arrays(
        self, query: Query, source: S, at: int, since_us: int | None, keys: Keys
    ) -> tuple[Arrays, int] | None:
        """The answers of the given groups, an element for each, and how many do not fit in 64 bits.

        None if a kernel cannot give them.
        """
        served = self._served.get(query.name)
        by_kernel = None if served is None else self._by_kernel.get(served)
        if served is None or by_kernel is None:
            return None
        pending = served.prepare(source)
        codes = served.codes(keys)
        return by_kernel.many(pending, codes, served.coverage_of_many(source, at, since_us, codes))

    def lookup(self, query: Query, source: S, at: int, since_us: int | None, keys: Keys | None) -> QueryAnswers | None:
        """The answers of a query for some groups or for all; None if what the window covers must be read."""
        served = self._served.get(query.name)
        if served is None:
            return None
        found = self.find(served, source, at, since_us, keys, is_many=False)
        if found is None:
            return None
        return QueryAnswers(
            query, found.starts_us, found.ends_us, found.codes, served.groups, found.lowered, overflows=found.overflows
        )

    def lookup_many(self, query: Query, source: S, at: int, since_us: int | None, keys: Keys) -> Found | None:
        """The groups that have an answer, at their places among the given ones; None as in `lookup`."""
        served = self._served.get(query.name)
        return None if served is None else self._find_many(served, source, at, since_us, keys)

    def _find_many(self, served: Served[S], source: S, at: int, since_us: int | None, keys: Keys) -> Found | None:
        """The answers for each requested place.

        If most groups are requested, all are answered and the requested ones are picked: groups taken in the order of
        memory need half of the time.
        """
        served.prepare(source)
        table = served.sequence.table
        if len(next(iter(keys.values()))) >= max(FEWEST_TOGETHER, len(table) // 2):
            every = self.find(served, source, at, since_us, None, is_many=False)
            if every is None:
                return None
            if not every.overflows:
                return every.pick(served.codes(keys), len(table))
            # The groups whose answers do not fit may be others than the requested ones, which alone count.
        return self.find(served, source, at, since_us, keys, is_many=True)

    def find(
        self, served: Served[S], source: S, at: int, since_us: int | None, keys: Keys | None, *, is_many: bool
    ) -> Found | None:
        """The answers of the groups that have events in the window and pass HAVING.

        With `is_many` there is one for each requested place. HAVING decides first: for a group that does not pass, the
        aggregates that only SELECT reads are not computed, and are not counted if they overflow.
        """
        pending = served.prepare(source)
        sequence, having = served.sequence, served.query.having
        if not sequence.group_by:
            codes = NO_KEYS
        else:
            codes = served.candidates(at, pending) if keys is None else served.codes(keys)
        places = np.arange(len(codes))
        if keys is not None:
            if codes.min(initial=0) < 0:
                places = np.flatnonzero(codes >= 0)
                codes = codes[places]
            if not is_many:
                codes = np.unique(codes)
                places = np.arange(len(codes))
        coverage = served.coverage(source, at, since_us, codes)
        low, high = sequence.final.positions(codes, coverage.from_number, coverage.to_number)
        widths = high - low
        of_pending = None
        if pending.elements and np.any(coverage.to_number > source.final_count):
            of_pending = PendingRanges.of(*pending.positions(codes, coverage.from_number, coverage.to_number))
        if of_pending is not None:
            widths[of_pending.places] += of_pending.widths
        ranges = Ranges(codes, low, high, widths, of_pending)
        if sequence.group_by and not widths.all():
            present = np.flatnonzero(widths)
            ranges, places, coverage = ranges.among(present), places[present], coverage.take(present)
        unknown = 0
        if having is not None:
            read = self.lower_ranges(served, served.read_by_having, pending, ranges)
            if read is None:
                return None
            unknown = overflows_of(read)
            passing = rows_that_pass(having, self._stream, served.groups, ranges.codes, read)
            ranges, places, coverage = ranges.among(passing), places[passing], coverage.take(passing)
        lowered = self.lower_ranges(served, served.aggregates, pending, ranges)
        if lowered is None:
            return None
        overflows = unknown + overflows_of(lowered, read_by=having)
        answers = with_computed(served.query, self._stream, served.groups, ranges.codes, lowered)
        return Found(places, ranges.codes, *same_for_all(coverage, len(ranges.codes)), answers, overflows)

    def lower_ranges(
        self, served: Served[S], aggregates: Iterable[ServedAggregate], pending: Part, ranges: Ranges
    ) -> dict[AggregateCall, Lowered] | None:
        """Some aggregates over ranges of positions; None if the values of pending events must be read."""
        codes, low, high, widths, of_pending = ranges
        final, asked = served.sequence.final, len(codes)
        covered = int(widths[0]) if asked == 1 else int(widths.sum())
        folded: dict[HeldColumn, FoldedParts] = {}
        for column in {one.column: None for one in aggregates if one.column is not None}:
            own = final.fold(column, codes, low, high)
            if of_pending is None:
                folded[column] = FoldedParts(own, None)
            else:
                others = pending.fold(column, of_pending.codes(codes), of_pending.low, of_pending.high)
                folded[column] = FoldedParts(own, others, of_pending.places)
            column.lookups += asked
            column.covered += covered
        counted = Widths(widths)
        try:
            return {
                one.call: one.entry.lower(counted if one.column is None else folded[one.column], one.call.parameter)
                for one in aggregates
            }
        except MustReadError:
            self._read += 1
            return None

    def statistics(self) -> list[dict[str, Any]]:
        """Every column: what it holds and for which queries, its structure, its memory, and how it is used."""
        sequences = self._sequences.values()
        return [self._describe(sequence, column) for sequence in sequences for column in sequence.columns]

    @property
    def reads(self) -> int:
        """How many lookups had to read the log, because values of pending events were in the window."""
        return self._read

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        for sequence in self._sequences.values():
            sequence.check_invariants()
            assert sequence.queries
            for column in sequence.columns:
                assert column.functions
                assert column.functions.keys() <= sequence.queries
        for served in self._served.values():
            assert all(column in served.sequence.columns for column in served.columns)

    @abstractmethod
    def _new_sequence(self, query: Query, where: Expression | None, group_by: tuple[str, ...]) -> Sequence[S]:
        """A sequence, the first query of which is given."""

    @abstractmethod
    def _new_served(
        self,
        query: Query,
        sequence: Sequence[S],
        aggregates: tuple[ServedAggregate, ...],
        columns: tuple[HeldColumn, ...],
        threshold: Threshold | None,
    ) -> Served[S]:
        """A query, and what answers it."""

    def _sequence(self, query: Query, where: Expression | None, group_by: tuple[str, ...]) -> Sequence[S]:
        group_by = tuple(sorted(group_by))
        if (where, group_by) not in self._sequences:
            self._sequences[where, group_by] = self._new_sequence(query, where, group_by)
        sequence = self._sequences[where, group_by]
        sequence.queries.add(query.name)
        return sequence

    def _aggregate(
        self, sequence: Sequence[S], query: Query, call: AggregateCall, structure: str, *, is_forced: bool
    ) -> ServedAggregate:
        """An aggregate, with the column that answers it. Events are counted without a column."""
        key = ColumnKey.of(call)
        column = None if key is None else self._column(sequence, query, call, key, structure, is_forced=is_forced)
        return ServedAggregate(call, column, CATALOGUE[call.function])

    def _column(
        self,
        sequence: Sequence[S],
        query: Query,
        call: AggregateCall,
        key: ColumnKey,
        structure: str,
        *,
        is_forced: bool,
    ) -> HeldColumn:
        """The column of an aggregate: an existing one, or a new one."""
        column = sequence.column(key, structure if is_forced else None)
        if column is None:
            column = HeldColumn(key, input_type(self._stream, call), structure)
            sequence.change([*sequence.columns, column])
        column.functions.setdefault(query.name, set()).add(call.function)
        if is_forced:
            column.forced.add(query.name)
        return column

    def _adapt(self, sequence: Sequence[S]) -> None:
        for index in sequence.indexes.values():
            if index.adapt():
                sequence.rebuild()
        for column in sequence.columns:
            if column.forced:
                continue
            observed = self._observed.setdefault(column, ObservedColumn())
            query = self._served[next(iter(column.functions))].query
            final = sequence.final
            better = better_structure(self._stream, column, observed, query, final.elements, final.longest)
            if better is not None:
                column.structure = better
                column.switches += 1
                sequence.rebuild()

    def _describe(self, sequence: Sequence[S], column: HeldColumn) -> dict[str, Any]:
        return {
            "where": None if sequence.where is None else print_expression(sequence.where),
            "group_by": list(sequence.group_by),
            "input": None if column.key.argument is None else print_expression(column.key.argument),
            "holds": column.key.carrier,
            "structure": column.structure,
            "is_forced": bool(column.forced),
            "queries": len(column.functions),
            "bytes": sequence.nbytes(column),
            "elements": sequence.final.elements,
            "updates": column.updates,
            "lookups": column.lookups,
            "rebuilds": sequence.rebuilds,
            "switches": column.switches,
        }


class EventStructures(SharedStructures[EventLog]):
    """Structures over the events of a log."""

    def _new_sequence(self, query: Query, where: Expression | None, group_by: tuple[str, ...]) -> EventSequence:
        return EventSequence(self._stream, where, group_by)

    def _new_served(
        self,
        query: Query,
        sequence: Sequence[EventLog],
        aggregates: tuple[ServedAggregate, ...],
        columns: tuple[HeldColumn, ...],
        threshold: Threshold | None,
    ) -> ServedFromEvents:
        rows = None
        if isinstance(query.window, RowWindow) and query.window.partition_by:
            found = self._sequence(query, None, query.window.partition_by)
            assert isinstance(found, EventSequence)
            rows = found
        return ServedFromEvents(query, sequence, aggregates, columns, threshold, rows=rows)
