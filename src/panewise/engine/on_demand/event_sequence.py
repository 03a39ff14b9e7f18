"""Sequences of events.

Invariant: the final part has every final event of the log that passes WHERE, up to the number fed, and possibly older
ones. The pending part has the log's pending events; it is made again when they change.
Cost: an event is fed to each structure once, and again each time the log has dropped half of its events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.event_log import EventLog
from panewise.engine.on_demand.candidates import CandidateIndex
from panewise.engine.on_demand.columns import HeldColumn
from panewise.engine.on_demand.parts import Part
from panewise.engine.on_demand.sequence import PENDING_STRUCTURE, Sequence
from panewise.engine.projection import holds
from panewise.language.evaluate import evaluate
from panewise.language.expressions import attributes_of

MOST_BEHIND = 4096
"""While no lookup comes, up to this many events wait so that they are fed together."""
MOST_MARKS = 127
"""With more marks than this (the number is then even), each pair becomes one."""


class EventSequence(Sequence[EventLog]):
    """Final and pending events of one WHERE and GROUP BY."""

    are_partials: ClassVar[bool] = False
    _pending_of: pa.Table | None
    """The log's events when the pending part was made, and where its pending ones began."""
    _pending_from: int
    _fed: int
    """The number that comes next."""
    _marks: list[tuple[int, int]]
    """For each feeding, the number that it reached, and how many of its events passed."""

    def append(self, log: EventLog) -> None:
        """Take in events that became final: at once while lookups come, otherwise when there are many."""
        if self.was_asked or log.final_count - self._fed >= MOST_BEHIND:
            self.was_asked = False
            self.catch_up(log)

    def catch_up(self, log: EventLog) -> None:
        """Take in all final events of the log that are new here."""
        if self._is_stale:
            self.rebuilds += self._fed > 0
            self._clear()
        if self._fed < log.final_count:
            start = int(np.searchsorted(log.numbers, self._fed))
            before = self.final.elements
            self._feed(self.final, log.events.slice(start, log.final_held - start), log.numbers[start:])
            self._fed = log.final_count
            added = self.final.elements - before
            self._marks.append((self._fed, added))
            if len(self._marks) > MOST_MARKS:
                pairs = zip(self._marks[::2], self._marks[1::2])
                self._marks = [(end, one + other) for (_, one), (end, other) in pairs]
            for column in self.columns:
                column.updates += added

    def prepare(self, log: EventLog) -> Part:
        """Bring everything up to date for a lookup; returns the pending events."""
        self.was_asked = True
        if self._is_stale or self._fed < log.final_count:
            self.catch_up(log)
        return self.pending(log)

    def pending(self, log: EventLog) -> Part:
        """The pending events of the log."""
        events = log.events
        if self._pending_of is not events or self._pending_from != log.final_held:
            self._pending = Part(self.columns, PENDING_STRUCTURE)
            rest = events.slice(log.final_held)
            if rest.num_rows:
                self._feed(self._pending, rest, log.final_count + np.arange(rest.num_rows))
            self._pending_of, self._pending_from = events, log.final_held
        return self._pending

    def let_go(self, log: EventLog) -> None:
        """Rebuild the structures if most of what they hold has left the log."""
        oldest = int(log.numbers[0]) if log.final_held else log.final_count
        gone = sum(count for end, count in self._marks if end <= oldest)
        if 2 * gone > self.final.elements or self.final.elements > 2 * log.final_held + MOST_BEHIND:
            self._is_stale = True
            if self.was_asked:
                self.catch_up(log)

    def _clear(self) -> None:
        super()._clear()
        self._pending_of = None
        self._pending_from = 0
        self._fed = 0
        self._marks = []

    def _feed(self, part: Part, events: pa.Table, numbers: Ints) -> None:
        attributes = self.stream.attributes
        raw = {name: _one(events.column(name)) for name in self._read_after_where()}
        if self.where is not None:
            names = self._names(attributes_of(self.where))
            tested = {name: raw[name] if name in raw else _one(events.column(name)) for name in names}
            passing = holds(evaluate(self.where, tested, attributes))
            numbers = numbers[passing]
            mask = pa.array(passing)
            raw = {name: column.filter(mask) for name, column in raw.items()}
        if not len(numbers):
            return
        codes = self.table.ids([raw[name] for name in self.group_by], len(numbers))
        values: dict[HeldColumn, Any] = {column: column.values(self.stream, raw) for column in self.columns}
        part.append(numbers, codes if self.group_by else None, values)
        if part is self.final:
            for index in self.indexes.values():
                index.append(*self._counted_by(index, raw, codes))

    def _counted_by(
        self, index: CandidateIndex, raw: dict[str, pa.Array], codes: Ints
    ) -> tuple[Ints, npt.NDArray[Any] | None, Ints]:
        """The events that the aggregate of an index counts: their groups, values if it is about these, and times."""
        times = np.asarray(raw[self.stream.timestamp])
        if index.key.argument is None:
            return codes, None, times
        values = evaluate(index.key.argument, raw, self.stream.attributes)
        if values.null_count:
            valid = np.asarray(values.is_valid())
            codes, times = codes[valid], times[valid]
        return codes, None if index.only_counts else np.asarray(values.drop_null()), times

    def _read_after_where(self) -> list[str]:
        """The attributes that keys and columns are made from; there is no need to copy the others."""
        arguments = [column.key.argument for column in self.columns] + [key.argument for key in self.indexes]
        known = [argument for argument in arguments if argument is not None]
        return self._names([*self.group_by, *(name for argument in known for name in attributes_of(argument))])

    def _names(self, names: Iterable[str]) -> list[str]:
        """The different attributes and the time: at least one column always tells the number of events."""
        return list(dict.fromkeys([self.stream.timestamp, *names]))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) and combined.num_chunks == 1 else combined
