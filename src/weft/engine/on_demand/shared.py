"""The structures of one stream, shared by its on-demand queries, whatever their windows.

There is one sequence for each WHERE and GROUP BY, and in it one column for each input and what its aggregates are made
of. A lookup turns the window into a range of event numbers, that into ranges of positions, and asks each column once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.lowering import AnswerOverflowError, Lowered
from weft.engine.answers import Groups, QueryAnswers
from weft.engine.event_log import EventLog
from weft.engine.on_demand.adaptation import Observed, better_structure
from weft.engine.on_demand.columns import (
    ColumnKey,
    FoldedParts,
    HeldColumn,
    MustReadError,
    Widths,
    lower_sum_of_parts,
)
from weft.engine.on_demand.coverage import Coverage, covered_by, covered_in_partitions, same_for_all
from weft.engine.on_demand.parts import NO_KEYS
from weft.engine.on_demand.scalars import PLAIN, Answer, as_scalars, plain_answer
from weft.engine.on_demand.sequence import Events, Sequence
from weft.language.expressions import AggregateCall, Expression
from weft.language.model import Query, Stream
from weft.language.printer import print_expression
from weft.planning.structure_choice import StructurePlan, input_type
from weft.structures.aggregated import FoldedColumns
from weft.windows import RowWindow

Ints = npt.NDArray[np.int64]
Keys = Mapping[str, pa.Array]
"""Groups to look up: a column for each attribute of GROUP BY, all of one length."""
Lowering = Callable[[Any, float | None], Lowered]


@dataclass(frozen=True)
class _Aggregate:
    call: AggregateCall
    column: HeldColumn | None
    lower: Lowering


@dataclass(eq=False)
class Served:
    """A query, the sequence that answers it, and for PARTITION BY the sequence of all events by partition."""

    query: Query
    sequence: Sequence
    rows: Sequence | None
    aggregates: tuple[_Aggregate, ...]
    columns: tuple[HeldColumn, ...]
    """The columns that it asks."""
    _partition_of: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _partition_tables: tuple[object, object] | None = None
    _covered_at: tuple[int, int | None, int] | None = None
    _covered_of: object = None
    _covered: Coverage | None = None
    """What the window covered when it was last asked, and for which time, log and watermark that was."""

    def prepare(self, log: EventLog) -> None:
        """Bring all that a lookup reads up to date."""
        for sequence in (self.sequence, self.rows):
            if sequence is not None:
                sequence.was_asked = True
                sequence.catch_up(log)
                sequence.pending(log)

    def codes(self, keys: Keys | None) -> Ints:
        """The codes of groups, -1 of those that there are not; without keys all groups."""
        table = self.sequence.table
        if keys is None:
            return np.arange(len(table))
        columns = [keys[name] for name in self.sequence.group_by]
        return table.find(columns, len(columns[0]))

    def coverage(self, log: EventLog, at_us: int, since_us: int | None, codes: Ints) -> Coverage:
        """What the window covers, of groups that there are."""
        window = self.query.window
        if self.rows is None:
            asked = at_us, since_us, log.final_held
            if self._covered is None or asked != self._covered_at or self._covered_of is not log.events:
                self._covered = covered_by(window, log, at_us, since_us)
                self._covered_at, self._covered_of = asked, log.events
            return self._covered
        assert isinstance(window, RowWindow)
        return covered_in_partitions(window, log, at_us, since_us, self.rows, self._partitions(codes))

    def _partitions(self, codes: Ints) -> Ints:
        """The partition of each group, remembered for as long as the codes stay the same."""
        assert self.rows is not None
        tables = self.sequence.table, self.rows.table
        if self._partition_tables is None or any(a is not b for a, b in zip(self._partition_tables, tables)):
            self._partition_of, self._partition_tables = np.empty(0, np.int64), tables
        known, count = len(self._partition_of), len(tables[0])
        if known < count:
            groups = dict(zip(self.sequence.group_by, tables[0].decode(np.arange(known, count)), strict=True))
            found = tables[1].find([groups[name] for name in self.rows.group_by], count - known)
            self._partition_of = np.concatenate([self._partition_of, found])
        return self._partition_of[codes]


@dataclass(frozen=True)
class Found:
    """The groups that a window covers events of: their places among those asked for, codes, times, and answers."""

    places: Ints
    codes: Ints
    starts_us: Ints
    ends_us: Ints
    lowered: dict[AggregateCall, Lowered]


class PendingRanges(NamedTuple):
    """Ranges of pending events, of the groups at some places among those asked for; None for all of them."""

    places: Ints | None
    low: Ints
    high: Ints

    @staticmethod
    def of(low: Ints, high: Ints) -> PendingRanges | None:
        """The ranges that are not empty; None where all are."""
        places = np.flatnonzero(high > low)
        return PendingRanges(places, low[places], high[places]) if len(places) else None

    @property
    def widths(self) -> Ints:
        """How many pending events each has."""
        return self.high - self.low

    def among(self, present: Ints) -> PendingRanges:
        """The same ranges, at their places among some groups that have all those with pending events."""
        assert self.places is not None
        return self._replace(places=np.searchsorted(present, self.places))

    def codes(self, codes: Ints) -> Ints:
        """The codes of the groups, among those of all asked for."""
        return codes if self.places is None else codes[self.places]


class FoundOne(NamedTuple):
    """The answers of one group in the order of the query's aggregates; None where the window covers no event of it."""

    start_us: int
    end_us: int
    answers: list[Answer] | None


class SharedStructures:
    """The sequences of one stream, and the queries that they answer."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._served: dict[str, Served] = {}
        self._sequences: dict[tuple[Expression | None, tuple[str, ...]], Sequence] = {}
        self._observed: dict[HeldColumn, Observed] = {}
        self._read = 0

    def add(self, query: Query, plan: StructurePlan) -> None:
        """Answer one more query, from the events that the log holds, as its plan says."""
        if plan.reads_log:
            return
        sequence = self._sequence(query.where, tuple(sorted(query.group_by)), query.name)
        rows = None
        if isinstance(query.window, RowWindow) and query.window.partition_by:
            rows = self._sequence(None, tuple(sorted(query.window.partition_by)), query.name)
        aggregates = []
        for choice in plan.choices:
            assert choice.structure is not None
            column = self._column(sequence, query, choice.call, choice.structure, is_forced=plan.is_forced)
            function = choice.call.function
            lower = lower_sum_of_parts if function == "SUM" else CATALOGUE[function].lower
            aggregates.append(_Aggregate(choice.call, column, lower))
        columns = dict.fromkeys(one.column for one in aggregates if one.column is not None)
        self._served[query.name] = Served(query, sequence, rows, tuple(aggregates), tuple(columns))

    def remove(self, name: str) -> None:
        """Answer one query less; what only it needed goes with it."""
        served = self._served.pop(name, None)
        if served is None:
            return
        for column in served.columns:
            column.functions.pop(name)
            column.forced.discard(name)
            if not column.functions:
                served.sequence.drop(column)
                self._observed.pop(column, None)
        for sequence in (served.sequence, served.rows):
            if sequence is not None:
                sequence.queries.discard(name)
                if not sequence.queries:
                    self._sequences.pop((sequence.where, sequence.group_by), None)

    def append(self, log: EventLog) -> None:
        """Take in events that became final; now and then choose structures anew."""
        for sequence in self._sequences.values():
            sequence.append(log)
            self._adapt(sequence)

    def let_go(self, log: EventLog) -> None:
        """Follow the log, which has let go of events."""
        for sequence in self._sequences.values():
            sequence.let_go(log)

    def served(self, name: str) -> Served | None:
        """A query that structures answer; None for the others."""
        return self._served.get(name)

    def lookup(
        self, query: Query, log: EventLog, at_us: int, since_us: int | None, keys: Keys | None
    ) -> QueryAnswers | None:
        """The answers of a query, of some groups or of all; None when the window's events must be read."""
        served = self._served.get(query.name)
        if served is None:
            return None
        found = self.find(served, log, at_us, since_us, keys, is_many=False)
        if found is None:
            return None
        groups = Groups(served.sequence.group_by, served.sequence.table)
        answers = QueryAnswers(query, found.starts_us, found.ends_us, found.codes, groups, found.lowered)
        return answers.having(self._stream)

    def lookup_many(
        self, query: Query, log: EventLog, at_us: int, since_us: int | None, keys: Keys
    ) -> tuple[Ints, dict[AggregateCall, Lowered]] | None:
        """The places of the given groups that have an answer, and their answers; None as in `lookup`."""
        served = self._served.get(query.name)
        if served is None:
            return None
        found = self.find(served, log, at_us, since_us, keys, is_many=True)
        if found is None or query.having is None:
            return None if found is None else (found.places, found.lowered)
        # Places stand where times do, and so tell which groups pass.
        groups = Groups(served.sequence.group_by, served.sequence.table)
        answers = QueryAnswers(query, found.places, found.places, found.codes, groups, found.lowered)
        passing = answers.having(self._stream)
        return passing.starts_us, dict(passing.lowered)

    def find(
        self, served: Served, log: EventLog, at_us: int, since_us: int | None, keys: Keys | None, *, is_many: bool
    ) -> Found | None:
        """The answers of the groups that have events in the window; with `is_many` one for each place asked for."""
        served.prepare(log)
        sequence = served.sequence
        codes = served.codes(keys) if sequence.group_by else NO_KEYS
        places = np.arange(len(codes))
        if keys is not None:
            if codes.min(initial=0) < 0:
                places = np.flatnonzero(codes >= 0)
                codes = codes[places]
            codes = codes if is_many else np.unique(codes)
        coverage = served.coverage(log, at_us, since_us, codes)
        final, pending = sequence.final, sequence.pending(log)
        low, high = final.positions(codes, coverage.from_number, coverage.to_number)
        widths = high - low
        of_pending = None
        if pending.elements and np.any(coverage.to_number > log.final_count):
            ranges = pending.positions(codes, coverage.from_number, coverage.to_number)
            of_pending = PendingRanges.of(*ranges)
        if of_pending is not None:
            widths[of_pending.places] += of_pending.widths
        if sequence.group_by and not widths.all():
            present = np.flatnonzero(widths)
            codes, low, high, widths = codes[present], low[present], high[present], widths[present]
            places = places[present] if is_many else places
            coverage = coverage.take(present)
            if of_pending is not None:
                of_pending = of_pending.among(present)
        lowered = self._lowered(served, pending, codes, low, high, widths, of_pending)
        if lowered is None:
            return None
        return Found(places, codes, *same_for_all(coverage, len(codes)), lowered)

    def find_one(
        self, served: Served, log: EventLog, at_us: int, since_us: int | None, code: int, codes: Ints
    ) -> FoundOne | None:
        """The answers of one group that there is, for which all is prepared; `codes` has its code alone."""
        sequence = served.sequence
        coverage = served.coverage(log, at_us, since_us, codes)
        low, high = sequence.final.positions(codes, coverage.from_number, coverage.to_number)
        width, pending = int(high[0] - low[0]), sequence.pending(log)
        start_us, end_us = int(coverage.starts_us[0]), int(coverage.ends_us[0])
        if coverage.to_number[0] > log.final_count and pending.has(code):
            ranges = PendingRanges(None, *pending.positions(codes, coverage.from_number, coverage.to_number))
            widths = high - low + ranges.widths
            if not widths[0]:
                return FoundOne(start_us, end_us, None)
            lowered = self._lowered(served, pending, codes, low, high, widths, ranges)
            return None if lowered is None else FoundOne(start_us, end_us, [as_scalars(x) for x in lowered.values()])
        if not width:
            return FoundOne(start_us, end_us, None)
        return FoundOne(start_us, end_us, self._plain_answers(served, codes, low, high, width))

    def _plain_answers(self, served: Served, codes: Ints, low: Ints, high: Ints, width: int) -> list[Answer]:
        """The answers over one range of final events."""
        final = served.sequence.final
        folded: dict[HeldColumn, FoldedParts] = {}
        for column in served.columns:
            folded[column] = FoldedParts(final.fold(column, codes, low, high), None)
            column.lookups += 1
            column.covered += width
        answers: list[Answer] = []
        for one in served.aggregates:
            if one.column is None:
                answers.append((float(width), width))
                continue
            own = folded[one.column]
            plain = plain_answer(one.call.function, own.final) if one.call.function in PLAIN else None
            answers.append(plain if plain is not None else as_scalars(self._lower(served, one, own)))
        return answers

    def _lower(self, served: Served, aggregate: _Aggregate, folded: FoldedColumns) -> Lowered:
        try:
            return aggregate.lower(folded, aggregate.call.parameter)
        except AnswerOverflowError as error:
            raise AnswerOverflowError(f"query {served.query.name}: {error}") from None

    def _lowered(
        self,
        served: Served,
        pending: Events,
        codes: Ints,
        low: Ints,
        high: Ints,
        widths: Ints,
        of_pending: PendingRanges | None,
    ) -> dict[AggregateCall, Lowered] | None:
        """The answers over ranges of positions; None when the values of pending events must be read."""
        final, asked = served.sequence.final, len(codes)
        covered = int(widths[0]) if asked == 1 else int(widths.sum())
        folded: dict[HeldColumn, FoldedParts] = {}
        for column in served.columns:
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
                one.call: self._lower(served, one, counted if one.column is None else folded[one.column])
                for one in served.aggregates
            }
        except MustReadError:
            self._read += 1
            return None

    def statistics(self) -> list[dict[str, Any]]:
        """Every column: what it holds and for whom, its structure, its memory, and how it is used."""
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

    def _sequence(self, where: Expression | None, group_by: tuple[str, ...], name: str) -> Sequence:
        key = where, group_by
        if key not in self._sequences:
            self._sequences[key] = Sequence(self._stream, where, group_by)
        self._sequences[key].queries.add(name)
        return self._sequences[key]

    def _column(
        self, sequence: Sequence, query: Query, call: AggregateCall, structure: str, *, is_forced: bool
    ) -> HeldColumn | None:
        """The column of an aggregate: one that is there, or a new one."""
        key = ColumnKey.of(call)
        if key is None:
            return None
        column = sequence.column(key, structure if is_forced else None)
        if column is None:
            column = HeldColumn(key, input_type(self._stream, call), structure)
            sequence.change([*sequence.columns, column])
        column.functions.setdefault(query.name, set()).add(call.function)
        if is_forced:
            column.forced.add(query.name)
        return column

    def _adapt(self, sequence: Sequence) -> None:
        for column in sequence.columns:
            if column.forced:
                continue
            observed = self._observed.setdefault(column, Observed())
            query = self._served[next(iter(column.functions))].query
            final = sequence.final
            better = better_structure(self._stream, column, observed, query, final.elements, final.longest)
            if better is not None:
                column.structure = better
                column.switches += 1
                sequence.rebuild()

    def _describe(self, sequence: Sequence, column: HeldColumn) -> dict[str, Any]:
        return {
            "where": None if sequence.where is None else print_expression(sequence.where),
            "group_by": list(sequence.group_by),
            "input": print_expression(column.key.argument),
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
