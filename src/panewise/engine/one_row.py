"""Tables of one row: the answers of one group, with the least work around them.

What never changes for a query (its columns and their types) is made once. What belongs to a key (the columns of its
group) is made once by whoever asks, and handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from struct import Struct
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from panewise.engine.answers import TIMESTAMP, array_of_objects
from panewise.engine.on_demand.scalars import Answer
from panewise.engine.wide_columns import GroupColumn, query_columns, query_schema
from panewise.language.expressions import Expression
from panewise.language.model import Query, Stream
from panewise.windows.window import NO_START_US

_PACKED = {pa.float64(): Struct("d"), pa.int64(): Struct("q"), TIMESTAMP: Struct("q"), pa.bool_(): Struct("?")}
"""How a number is written as bytes, for each type that aggregates have."""
_NULL_BITS = pa.py_buffer(b"\0")
_NO_BYTES = pa.py_buffer(bytes(8))
_WHICH = {"values": 0, "exact": 1}
_SIDES = {"low": 0, "high": 1}

PlainRow = dict[str, Any]
"""The answers of one group by column; the times of the window are microseconds."""
Bounds = Mapping[Expression, tuple[float, float]]
NO_BOUNDS: Bounds = MappingProxyType({})


class OneRow:
    """Makes one query's tables of one row each."""

    def __init__(self, stream: Stream, query: Query) -> None:
        self.schema = query_schema(stream, query)
        self.nothing = self.schema.empty_table()
        self._names = self.schema.names
        columns = list(enumerate(query_columns(stream, query), 2))
        calls = [*query.aggregates, *query.computed]
        self._calls = calls
        self._groups = [(place, column) for place, column in columns if isinstance(column, GroupColumn)]
        self._answers = [
            (place, column.kind, calls.index(column.call), _WHICH[column.content])
            for place, column in columns
            if not isinstance(column, GroupColumn) and column.content in _WHICH
        ]
        """The place of a column, its type, which aggregate of the query it shows, and which part of the answer."""
        self._bounds = [
            (place, column.call, calls.index(column.call), _SIDES[column.content])
            for place, column in columns
            if not isinstance(column, GroupColumn) and column.content in _SIDES
        ]
        self._times_us: tuple[int, int] | None = None
        self._times: tuple[pa.Array, pa.Array] = pa.nulls(0), pa.nulls(0)

    def place_of(self, call: Expression) -> int:
        """The place of an aggregate, or of what is computed from aggregates, among the answers."""
        return self._calls.index(call)

    @property
    def has_bounds(self) -> bool:
        """Whether some answers may be intervals."""
        return bool(self._bounds)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all answers are plain numbers, so that `plain` has all that a table has."""
        return not self._bounds and all(kind in (pa.float64(), pa.int64()) for _, kind, _, _ in self._answers)

    def plain(self, group: Mapping[str, Any], start_us: int, end_us: int, answers: Sequence[Answer]) -> PlainRow:
        """The answers of a group, given by its attributes, as plain values."""
        names = self._names
        row: PlainRow = dict.fromkeys(names)
        row[names[0]], row[names[1]] = start_us, end_us
        for place, column in self._groups:
            row[names[place]] = group[column.attribute]
        for place, _, which, part in self._answers:
            row[names[place]] = answers[which][part]
        return row

    def of_group(self, values: Mapping[str, pa.Array]) -> list[pa.Array]:
        """The columns of a group, from arrays of one value each; the others are put in later."""
        columns: list[pa.Array] = [None] * len(self.schema)
        for place, column in self._groups:
            array = values[column.attribute]
            columns[place] = array if array.type == column.kind else array.cast(column.kind)
        return columns

    def shown_group(self, of_group: Sequence[pa.Array]) -> dict[str, Any]:
        """The attributes of a group as tables show them, from the columns of the group."""
        return {column.attribute: of_group[place][0].as_py() for place, column in self._groups}

    def table(
        self,
        of_group: Sequence[pa.Array],
        start_us: int,
        end_us: int,
        answers: Sequence[Answer],
        bounds: Bounds = NO_BOUNDS,
    ) -> pa.Table:
        """A row of answers, in the order of the query's aggregates and then of what is computed from these.

        Answers without bounds are their own.
        """
        columns = list(of_group)
        if (start_us, end_us) != self._times_us:
            # Lookups in a row often share one time.
            self._times_us = start_us, end_us
            # What goes back to the start begins nowhere.
            shown_us = None if start_us <= NO_START_US else start_us
            self._times = _array(TIMESTAMP, shown_us), _array(TIMESTAMP, end_us)
        columns[0], columns[1] = self._times
        for place, kind, asked, which in self._answers:
            columns[place] = _array(kind, answers[asked][which])
        for place, call, asked, side in self._bounds:
            value = answers[asked][0]
            columns[place] = _array(pa.float64(), value if value is None else bounds.get(call, (value, value))[side])
        return pa.Table.from_arrays(columns, schema=self.schema)


def _array(kind: pa.DataType, value: Any) -> pa.Array:
    """An array of one value; a number from its bytes, which takes a third of the time."""
    if kind not in _PACKED:
        return array_of_objects([value], kind)
    if value is None:
        return pa.Array.from_buffers(kind, 1, [_NULL_BITS, _NO_BYTES])
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(_PACKED[kind].pack(value))])
