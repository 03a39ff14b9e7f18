"""Output: the rows of one row query, which wait to be fetched or are held in the window of INTO.

Columns are typed as users see them: timestamps in UTC, other types as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.answers import TIMESTAMP, public_type
from panewise.language.expressions import QualifiedAttribute
from panewise.language.model import Stream
from panewise.language.printer import label_of
from panewise.language.row_queries import (
    EVERY,
    IntersectionQuery,
    JoinQuery,
    RowColumn,
    RowQuery,
    SelectionQuery,
    SortedQuery,
    ValueQuery,
    columns_of,
)
from panewise.language.typecheck import type_of
from panewise.windows import RowWindow

_COUNTS = frozenset({EVERY, "count", "rank", "position", "left_count", "right_count"})


def value_type(query: RowQuery, streams: Mapping[str, Stream]) -> Type:
    """The type of the values that a histogram, a top k or an intersection counts."""
    match query:
        case ValueQuery():
            found = type_of(query.argument, streams[query.stream].attributes)
        case IntersectionQuery():
            found = type_of(query.left.argument, streams[query.left.stream].attributes)
        case _:
            raise TypeError(f"query {query.name} counts no values")
    assert found is not None  # the binder refuses NULL
    return found


def selected_types(query: RowQuery, streams: Mapping[str, Stream]) -> dict[str, Type]:
    """The columns that a query selects, by their names, and their types."""
    match query:
        case SortedQuery() | SelectionQuery():
            attributes: Mapping[str, Type] = streams[query.stream].attributes
            columns: tuple[RowColumn, ...] = query.columns
        case JoinQuery():
            attributes = join_attributes(query, streams)
            columns = query.columns
        case _:
            return {}
    return {label_of(column): type_of(column.expression, attributes) or Type.BIGINT for column in columns}


def join_attributes(query: JoinQuery, streams: Mapping[str, Stream]) -> dict[str, Type]:
    """The attributes of both sides of a join, by their qualified names."""
    return {
        QualifiedAttribute.of(side.name, attribute).name: kind
        for side in (query.left, query.right)
        for attribute, kind in streams[side.stream].attributes.items()
    }


def schema_of(query: RowQuery, streams: Mapping[str, Stream]) -> pa.Schema:
    """The columns of a query's rows."""
    types: dict[str, pa.DataType] = {}
    groups = query.group_by if isinstance(query, ValueQuery) else ()
    for name in columns_of(query):
        if name in groups:
            types[name] = public_type(streams[query.streams[0]].attributes[name])
        elif name in _COUNTS:
            types[name] = pa.int64()
        elif name in ("value", "low", "high"):
            types[name] = public_type(value_type(query, streams))
        else:
            types[name] = TIMESTAMP
    types |= {name: public_type(kind) for name, kind in selected_types(query, streams).items()}
    return pa.schema(list(types.items()))


def typed(values: Any, wanted: pa.DataType) -> pa.Array:
    """Values as they lie inside Panewise (times and truth values as int64) in the type that users see."""
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type != wanted and pa.types.is_floating(wanted):
        return array.cast(wanted, safe=False)
    return array if array.type == wanted else array.cast(wanted)


class QueryRows:
    """The rows of one query. Cost: O(1) an addition; fetching or looking up is linear in what is held."""

    def __init__(self, query: RowQuery, schema: pa.Schema) -> None:
        self.query = query
        self.schema = schema
        self._tables: list[pa.Table] = []
        self.every = query.evaluation.every
        """Windows whose number is a multiple of it are evaluated now."""
        self.evaluations = 0
        """How many windows were evaluated, of a query that does not evaluate all."""
        self.left_out = 0
        """How many windows were not evaluated because evaluation had become rarer."""

    def add(self, columns: Mapping[str, Any], length: int) -> None:
        """Take in rows, given as columns; a single time counts for all rows."""
        if length:
            arrays = [_column(columns[field.name], length, field.type) for field in self.schema]
            self._tables.append(pa.Table.from_arrays(arrays, schema=self.schema))

    def add_windows(self, bounds_us: Sequence[tuple[int, int]], columns: Mapping[str, Any], length: int) -> None:
        """Take in the rows of windows that all show the same columns, window after window."""
        if not length or not bounds_us:
            return
        starts, ends = np.array(bounds_us, np.int64).T
        shown = {name: typed(values, self.schema.field(name).type) for name, values in columns.items()}
        if len(bounds_us) > 1:
            rows = pa.array(np.tile(np.arange(length), len(bounds_us)))
            shown = {name: values.take(rows) for name, values in shown.items()}
        times = {"window_start": np.repeat(starts, length), "window_end": np.repeat(ends, length)}
        times[EVERY] = np.full(len(starts) * length, self.every)
        self.add({**times, **shown}, length * len(bounds_us))

    def add_table(self, rows: pa.Table) -> None:
        """Take in rows that have their columns already."""
        if rows.num_rows:
            self._tables.append(rows.cast(self.schema))

    @property
    def table(self) -> pa.Table:
        """All rows held, in order; rows of INTO are ordered by time."""
        table = pa.concat_tables([self.schema.empty_table(), *self._tables]).combine_chunks()
        times = self._times(table) if self.query.into is not None else ()
        if np.any(np.diff(times) < 0):
            table = table.take(pa.array(np.argsort(times, kind="stable")))
        self._tables = [table] if table.num_rows else []
        return table

    @table.setter
    def table(self, table: pa.Table) -> None:
        self._tables = [table] if table.num_rows else []

    def fetch(self) -> pa.Table:
        """All rows, which are then dropped."""
        table, self._tables = self.table, []
        return table

    def window(self, now_us: int | None) -> pa.Table:
        """The rows in the window of INTO at a time; older ones are dropped."""
        into, table = self.query.into, self.table
        assert into is not None
        if isinstance(into, RowWindow):
            table = table.slice(max(0, table.num_rows - into.left))
        elif now_us is None:
            return self.schema.empty_table()
        else:
            times = self._times(table)
            table = table.slice(int(np.searchsorted(times, now_us - into.left_us, side="right")))
            self.table = table
            return table.slice(0, int(np.searchsorted(self._times(table), now_us, side="right")))
        self.table = table
        return table

    def _times(self, table: pa.Table) -> Ints:
        name = "time" if "time" in columns_of(self.query) else "window_end"
        return np.asarray(table.column(name).cast(pa.int64()))


def _column(values: Any, length: int, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, int | np.integer):
        values = np.full(length, values, np.int64)
    return typed(values, wanted)
