"""A served query: the sequence that answers it, how its aggregates come from columns, and what its window covers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic

import numpy as np
import pyarrow as pa

from panewise.aggregates.catalogue import Aggregate
from panewise.arrays import Ints
from panewise.engine.answers import Groups
from panewise.engine.event_log import EventLog
from panewise.engine.on_demand.candidates import IndexKey
from panewise.engine.on_demand.columns import HeldColumn
from panewise.engine.on_demand.coverage import Coverage, covered_by, covered_in_partitions
from panewise.engine.on_demand.event_sequence import EventSequence
from panewise.engine.on_demand.parts import NO_KEYS, Part
from panewise.engine.on_demand.sequence import S, Sequence
from panewise.language.expressions import AggregateCall, Expression, aggregates_of
from panewise.language.model import Query
from panewise.language.printer import label_of
from panewise.planning.having import Threshold
from panewise.windows import RowWindow, TimeWindow

Keys = Mapping[str, pa.Array]
"""Groups to look up: a column for each attribute of GROUP BY, all of one length."""


@dataclass(frozen=True)
class ServedAggregate:
    """An aggregate of a query, the column that it is made from (None for COUNT(*)), and its entry."""

    call: AggregateCall
    column: HeldColumn | None
    entry: Aggregate


@dataclass(eq=False)
class Served(ABC, Generic[S]):
    """A query, and the sequence that answers it."""

    query: Query
    sequence: Sequence[S]
    aggregates: tuple[ServedAggregate, ...]
    columns: tuple[HeldColumn, ...]
    """The columns that it reads."""
    threshold: Threshold | None = None
    """What a collective index of the sequence finds the groups by that may pass HAVING; None without an index."""
    _last_one: Coverage | None = None
    _last_bounds: tuple[int, int, int, int] = (0, 0, 0, 0)
    """The coverage that `coverage_of_one` last turned into plain numbers, and these numbers."""

    @property
    def groups(self) -> Groups:
        """The groups that its answers belong to."""
        return Groups(self.sequence.group_by, self.sequence.table)

    @cached_property
    def read_by_having(self) -> tuple[ServedAggregate, ...]:
        """The aggregates that HAVING reads."""
        calls = aggregates_of(self.query.having)
        return tuple(one for one in self.aggregates if one.call in calls)

    @property
    def sequences(self) -> list[Sequence[S]]:
        """All sequences that it reads."""
        return [self.sequence]

    def prepare(self, source: S) -> Part:
        """Bring everything that a lookup reads up to date; returns the pending elements."""
        return self.sequence.prepare(source)

    def codes(self, keys: Keys) -> Ints:
        """The codes of groups, -1 for a group that does not exist."""
        columns = [keys[name] for name in self.sequence.group_by]
        return self.sequence.table.find(columns, len(columns[0]))

    def candidates(self, at: int, pending: Part) -> Ints:
        """The codes of all groups that may have an answer, once everything is prepared; rising.

        An index knows final elements only, so that groups with pending ones are always among them.
        """
        if self.threshold is not None:
            index = self.sequence.indexes[IndexKey.of(self.threshold)]
            found = index.find(self.threshold, self.index_range, at)
            if found is not None:
                every = np.unique(np.concatenate([found, pending.keys]) if pending.elements else found)
                index.candidates += len(every)
                return every
        return np.arange(len(self.sequence.table))

    @property
    @abstractmethod
    def index_range(self) -> int:
        """The length of its window as an index knows it."""

    @abstractmethod
    def coverage(self, source: S, at: int, since_us: int | None, codes: Ints) -> Coverage:
        """What the window covers of existing groups."""

    def coverage_of_many(self, source: S, at: int, since_us: int | None, codes: Ints) -> Coverage:
        """The same for groups that may not exist (code -1): of these the window covers nothing."""
        return self.coverage(source, at, since_us, codes)

    def coverage_of_one(
        self, source: S, at: int, since_us: int | None, code: int
    ) -> tuple[Coverage, tuple[int, int, int, int]]:
        """The same for one group, also as numbers: the first, the one behind the last, the start and the end."""
        covered = self.coverage(source, at, since_us, self._asked(code))
        if covered is not self._last_one:
            self._last_one = covered
            self._last_bounds = (
                int(covered.from_number[0]),
                int(covered.to_number[0]),
                int(covered.starts_us[0]),
                int(covered.ends_us[0]),
            )
        return covered, self._last_bounds

    def _asked(self, code: int) -> Ints:
        """The group that `coverage` is asked for; any will do where a window covers the same of all."""
        return NO_KEYS


@dataclass(eq=False)
class ServedFromEvents(Served[EventLog]):
    """A query over events, and for PARTITION BY the sequence of all events by partition."""

    rows: EventSequence | None = None
    _partition_of: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _partition_tables: tuple[object, object] | None = None
    _covered_at: tuple[int, int | None, int] | None = None
    _covered_of: object = None
    _covered: Coverage | None = None
    """What the window covered at the last lookup, with that lookup's time, log and watermark."""

    @property
    def sequences(self) -> list[Sequence[EventLog]]:
        """All sequences that it reads."""
        return [self.sequence] if self.rows is None else [self.sequence, self.rows]

    @property
    def index_range(self) -> int:
        """The length of its window in microseconds."""
        assert isinstance(self.query.window, TimeWindow)
        return self.query.window.left_us

    def prepare(self, source: EventLog) -> Part:
        """Bring everything that a lookup reads up to date; returns the pending events."""
        if self.rows is not None:
            self.rows.prepare(source)
        return self.sequence.prepare(source)

    def coverage(self, source: EventLog, at: int, since_us: int | None, codes: Ints) -> Coverage:
        """What the window covers of existing groups."""
        window = self.query.window
        if self.rows is None:
            asked = at, since_us, source.final_held
            if self._covered is None or asked != self._covered_at or self._covered_of is not source.events:
                self._covered = covered_by(window, source, at, since_us)
                self._covered_at, self._covered_of = asked, source.events
            return self._covered
        assert isinstance(window, RowWindow)
        return covered_in_partitions(window, source, at, since_us, self.rows, self._partitions(codes))

    def coverage_of_many(self, source: EventLog, at: int, since_us: int | None, codes: Ints) -> Coverage:
        """The same for groups that may not exist (code -1): of these the window covers nothing."""
        if self.rows is None or codes.min(initial=0) >= 0:
            return self.coverage(source, at, since_us, codes)
        known = np.flatnonzero(codes >= 0)
        return self.coverage(source, at, since_us, codes[known]).spread(known, len(codes))

    def _asked(self, code: int) -> Ints:
        return NO_KEYS if self.rows is None else np.array([code])

    def _partitions(self, codes: Ints) -> Ints:
        """The partition of each group, remembered while the codes stay the same."""
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


def labelled_aggregates(query: Query) -> list[tuple[str, Expression]]:
    """The aggregates of SELECT, and what it computes from aggregates, with their names."""
    return [(label_of(item), item.expression) for item in query.answers]
