"""The windows of an engine that closed lately, kept so that sliding queries can be looked up.

Invariant: an entry holds what one `advance` closed: all windows that end after `from_us`, up to `to_us`. Entries follow
each other in time. A stream that corrects answers may bring a window again in a later entry, which then counts.
Cost: taking an entry O(1), as tables are made when somebody asks; a lookup O(log entries), and O(rows of the window).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.engine.closed_tables import Answers
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.wide_columns import group_columns, query_schema
from panewise.errors import HistoryError, KeysError
from panewise.language.model import Query, Stream
from panewise.serve.source import Arrays, arrays_of
from panewise.windows import RowWindow
from panewise.windows.clock import END_OF_STREAM, show_time
from panewise.windows.instances import ends_of, last_ending

MOST_BYTES = 256 << 20
"""Of older windows, so much is kept."""
MOST_ENTRIES = 10_000
START_US = -(2**63)

ENDED = "ended"


@dataclass(frozen=True)
class _Entry:
    from_us: int
    to_us: int
    answers: Answers
    queries: Mapping[str, Query]
    """Those of then: another query may have the name of one now."""

    def table_of(self, query: Query) -> pa.Table | None:
        """What closed of a query; None if it was not there yet, or does not slide."""
        is_there = self.queries.get(query.name) is query and query.name in self.answers.tables
        return self.answers.tables[query.name] if is_there else None


class KeptWindows:
    """What closed lately of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._entries: list[_Entry] = []
        self._bytes = 0
        self._is_whole = True
        self._watermark_us: int | None = None

    @property
    def stream(self) -> Stream:
        """The stream."""
        return self._stream

    def take(self, answers: Answers, watermark_us: int | None, queries: Mapping[str, Query]) -> None:
        """Keep what an advance to a watermark closed of these queries."""
        if watermark_us is None:
            return
        from_us = START_US if self._watermark_us is None else self._watermark_us
        self._watermark_us = watermark_us
        if not answers.num_rows:
            return
        self._entries.append(_Entry(from_us, watermark_us, answers, queries))
        self._bytes += answers.nbytes
        drop = 0
        while len(self._entries) - drop > 1 and (self._bytes > MOST_BYTES or len(self._entries) - drop > MOST_ENTRIES):
            self._bytes -= self._entries[drop].answers.nbytes
            drop += 1
        if drop:
            self._is_whole = False
            del self._entries[:drop]

    def lookup(self, query: Query, keys: object, at_us: int | None) -> pa.Table:
        """The newest window of a query that closed, or had closed at a time."""
        end_us = self._end_us(query, at_us)
        empty = query_schema(self._stream, query).empty_table()
        if end_us is None:
            return empty
        held_from_us = self._entries[0].from_us if self._entries else START_US
        if not self._is_whole and end_us <= held_from_us:
            raise HistoryError(
                f"query {query.name}: windows are kept that end after {show_time(held_from_us)}; look up a later time"
            )
        first = bisect_left(self._entries, end_us, key=lambda entry: entry.to_us)
        last = len(self._entries) if self._stream.correct_us else first + 1
        parts = [self._rows(entry, query, end_us) for entry in self._entries[first:last]]
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return empty
        found = self._corrected(query, parts)
        return found if keys is None else _of_keys(self._stream, query, found, keys)

    def lookup_at(self, query: Query, keys: object, times_us: Sequence[int | None]) -> Arrays:
        """The newest window that had closed at each time, of each group; None is now."""
        columns = {} if keys is None and not query.group_by else key_columns(self._stream, query, keys)
        for name, column in columns.items():
            if len(column) != len(times_us):
                raise KeysError(
                    f"query {query.name}: `times` has {len(times_us)} times for {len(column)} keys of {name!r}"
                )
        groups = _groups(self._stream, query, columns) if columns else [()] * len(times_us)
        by_end: dict[int | None, list[int]] = {}
        for place, time_us in enumerate(times_us):
            by_end.setdefault(self._end_us(query, time_us), []).append(place)
        found: Arrays = {}
        for places in by_end.values():
            table = self.lookup(query, None, times_us[places[0]])
            rows = _row_of_group(self._stream, query, table)
            arrays = arrays_of(table, query, [rows.get(groups[place]) for place in places])
            for label, array in arrays.items():
                if label not in found:
                    found[label] = np.ma.MaskedArray(np.zeros(len(times_us), array.dtype), True)
                found[label][places] = array
        return found or arrays_of(query_schema(self._stream, query).empty_table(), query, ())

    def _end_us(self, query: Query, at_us: int | None) -> int | None:
        """Where the window ends that a lookup shows."""
        if self._watermark_us is None:
            return None
        until_us = self._watermark_us if at_us is None else min(at_us, self._watermark_us)
        if isinstance(query.window, RowWindow) or until_us == END_OF_STREAM:
            ends = (_last_end(entry, query, until_us) for entry in reversed(self._entries))
            return next((end_us for end_us in ends if end_us is not None), None)
        return ends_of(query.window, last_ending(query.window, until_us))

    def _rows(self, entry: _Entry, query: Query, end_us: int) -> pa.Table:
        table = entry.table_of(query)
        if table is None:
            return query_schema(self._stream, query).empty_table()
        ends = table.column("window_end")
        return table.filter(pc.equal(ends, pa.scalar(end_us, pa.int64()).cast(ends.type)))

    def _corrected(self, query: Query, parts: list[pa.Table]) -> pa.Table:
        """The last row of each group, without groups that ended."""
        table = pa.concat_tables(parts)
        if ENDED not in table.column_names:
            return table
        last = _row_of_group(self._stream, query, table)
        kept = table.take(pa.array(sorted(last.values()), pa.int64()))
        return kept.filter(pc.invert(pc.fill_null(kept.column(ENDED), False))).drop_columns([ENDED])


def _last_end(entry: _Entry, query: Query, until_us: int) -> int | None:
    table = entry.table_of(query)
    if table is None:
        return None
    ends = table.column("window_end").cast(pa.int64())
    found: int | None = pc.max(ends.filter(pc.less_equal(ends, until_us))).as_py()
    return found


Group = tuple[Any, ...]


def _groups(stream: Stream, query: Query, columns: Mapping[str, pa.Array]) -> list[Group]:
    """The groups of columns of keys, as a table of answers shows them."""
    schema, names = query_schema(stream, query), group_columns(stream, query)
    given = (pa.array(columns[name]).cast(schema.field(shown).type).to_pylist() for name, shown in names.items())
    return list(zip(*given))


def _row_of_group(stream: Stream, query: Query, table: pa.Table) -> dict[Group, int]:
    names = list(group_columns(stream, query).values())
    groups = zip(*(table.column(name).to_pylist() for name in names)) if names else [()] * table.num_rows
    return {group: place for place, group in enumerate(groups)}


def _of_keys(stream: Stream, query: Query, table: pa.Table, keys: object) -> pa.Table:
    """The rows of some groups."""
    columns = key_columns(stream, query, keys)
    names = group_columns(stream, query)
    length = len(next(iter(columns.values())))
    if len(columns) == 1 or length == 1:
        for attribute, wanted in columns.items():
            shown = table.column(names[attribute])
            table = table.filter(pc.is_in(shown, value_set=pa.array(wanted).cast(shown.type)))
        return table
    wanted_groups = set(_groups(stream, query, columns))
    groups = zip(*(table.column(shown).to_pylist() for shown in names.values()))
    return table.filter(pa.array([group in wanted_groups for group in groups], pa.bool_()))
