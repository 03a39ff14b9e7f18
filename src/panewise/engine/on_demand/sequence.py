"""A sequence: the events that pass one WHERE, by the groups of one GROUP BY, in structures for all queries over them.

Invariant: the final part has every final event of the log that passes WHERE, up to the number fed, and possibly older
ones. The pending part has the log's pending events; it is made again when they change.
Cost: an event is fed to each structure once, and again each time the log has dropped half of its events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.engine.event_log import EventLog
from panewise.engine.on_demand.candidates import CandidateIndex, IndexKey, Needs
from panewise.engine.on_demand.columns import ColumnKey, HeldColumn
from panewise.engine.on_demand.parts import Part
from panewise.engine.projection import holds
from panewise.engine.tables import KeyTable
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression, attributes_of
from panewise.language.model import Stream
from panewise.structures.recompute import Recompute

Ints = npt.NDArray[np.int64]

MOST_BEHIND = 4096
"""While no lookup comes, up to this many events wait so that they are fed together."""


PENDING_STRUCTURE = Recompute.sheet.name
"""What holds pending events: they are few, and made anew with every push."""

MOST_MARKS = 127
"""With more marks than this (the number is then even), each pair becomes one."""


class Sequence:
    """Final and pending events of one WHERE and GROUP BY."""

    table: KeyTable
    known_keys: dict[tuple[object, ...], int]
    """The codes of keys that were looked up one at a time."""
    final: Part
    _pending: Part
    _pending_of: pa.Table | None
    """The log's events when the pending part was made, and where its pending ones began."""
    _pending_from: int
    _fed: int
    """The number that comes next."""
    _marks: list[tuple[int, int]]
    """For each feeding, the number that it reached, and how many of its events passed."""

    def __init__(self, stream: Stream, where: Expression | None, group_by: tuple[str, ...]) -> None:
        self.stream = stream
        self.where = where
        self.group_by = group_by
        self.columns: list[HeldColumn] = []
        self.indexes: dict[IndexKey, CandidateIndex] = {}
        """What finds the groups that may pass HAVING."""
        self.queries: set[str] = set()
        self.rebuilds = 0
        self.was_asked = False
        self._is_stale = True
        self._clear()

    def column(self, key: ColumnKey, structure: str | None) -> HeldColumn | None:
        """The column that holds something, in a given structure if one is named."""
        for column in self.columns:
            if column.key == key and structure in (None, column.structure):
                return column
        return None

    def change(self, columns: Iterable[HeldColumn]) -> None:
        """Change the columns; structures are built from the log when they are next needed."""
        self.columns = list(columns)
        self._is_stale = True

    def drop(self, column: HeldColumn) -> None:
        """Drop one column."""
        self.columns.remove(column)
        self.final.drop(column)
        self._pending.drop(column)

    def add_index(self, key: IndexKey, name: str, needs: Needs) -> None:
        """Let a collective index serve one more query; it is built from the log when it is next needed."""
        index = self.indexes.get(key)
        if index is None:
            index = self.indexes[key] = CandidateIndex(self.stream, key)
        index.queries[name] = needs
        self._is_stale |= not index.serves(needs)

    def drop_index(self, key: IndexKey, name: str) -> None:
        """Serve one query less; the index is dropped with the last query that it served."""
        del self.indexes[key].queries[name]
        if not self.indexes[key].queries:
            del self.indexes[key]

    def rebuild(self) -> None:
        """Rebuild all structures when they are next needed."""
        self._is_stale = True

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
            self._pending = self._new_part(PENDING_STRUCTURE)
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

    def nbytes(self, column: HeldColumn) -> int:
        """The memory of a column's final part."""
        return self.final.nbytes(column)

    @property
    def index_nbytes(self) -> int:
        """The memory of the numbers of final events."""
        return self.final.index_nbytes

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        self.final.check_invariants()
        self._pending.check_invariants()
        if not self._is_stale:
            for index in self.indexes.values():
                index.check_invariants()

    def _clear(self) -> None:
        self.table = KeyTable([self.stream.attributes[name] for name in self.group_by])
        self.known_keys = {}
        self.final = self._new_part()
        for index in self.indexes.values():
            index.clear()
        self._pending = self._new_part(PENDING_STRUCTURE)
        self._pending_of = None
        self._pending_from = 0
        self._fed = 0
        self._marks = []
        self._is_stale = False

    def _new_part(self, structure: str | None = None) -> Part:
        return Part(self.columns, structure)

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
                index.append(raw, codes)

    def _read_after_where(self) -> list[str]:
        """The attributes that keys and columns are made from; there is no need to copy the others."""
        arguments = [column.key.argument for column in self.columns]
        arguments += [key.argument for key in self.indexes if key.argument is not None]
        return self._names([*self.group_by, *(name for argument in arguments for name in attributes_of(argument))])

    def _names(self, names: Iterable[str]) -> list[str]:
        """The different attributes and the time: at least one column always tells the number of events."""
        return list(dict.fromkeys([self.stream.timestamp, *names]))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) and combined.num_chunks == 1 else combined
