"""Tuple bases: what the row queries of a job need of a stream's events, and how it is split over the buckets.

Where events are read, WHERE and the expressions are computed natively, and each base makes tuples of them. Queries that
need the same tuples share a base, so that these travel once. A bucket then is an engine of its own over its share.

| base | for | a tuple | split by |
|---|---|---|---|
| `ValueBase` | HISTOGRAM, TOP_K, DISTINCT, INTERSECT ... | a slot, a value or range, how often | the value or range |
| `HeadBase` | ORDER BY | an event; with LIMIT k only the first k of a slot | time and key |
| `KeyBase` | JOIN | an event with a key | the key |
| `PassBase` | selections | the columns selected | time |

A tuple is late if its slot is wholly behind the watermark; slots of joins and selections are a microsecond long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.engine.columns import arrow_type, canonical
from panewise.engine.windowed.grouped_values import group_ranks
from panewise.engine.windowed.histogram import COUNT, VALUE
from panewise.engine.windowed.output import selected_types
from panewise.engine.windowed.positions import positions
from panewise.engine.windowed.values import indexed, plain
from panewise.errors import NotOnSparkError
from panewise.indexes.values import Width, codes_of
from panewise.language.expressions import Attribute, Expression, QualifiedAttribute, attributes_of, bare_attributes
from panewise.language.model import Stream
from panewise.language.printer import print_window
from panewise.language.row_queries import (
    HistogramQuery,
    IntersectionQuery,
    JoinQuery,
    JoinSide,
    RowColumn,
    RowQuery,
    SelectionQuery,
    SortedQuery,
    ValueQuery,
)
from panewise.language.typecheck import type_of
from panewise.planning.windowed import index_type, join_key_types
from panewise.spark.buckets import places_of
from panewise.spark.row_order import in_order
from panewise.windows import TimeWindow, Window
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.slots import lengths_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_TOGETHER = -1
"""Instead of a base's number where a bucket is chosen: both sides of a query find each other."""


@dataclass(frozen=True, kw_only=True)
class TupleBase(ABC):
    """The tuples that some row queries share. `kept_us` is how long after its slot began some window needs a tuple."""

    stream: Stream
    number: int = -1
    where: Expression | None = None
    slot_us: int = 1
    kept_us: int = 0

    @property
    def name(self) -> str:
        """The name of its tuples as a stream."""
        return f"tuples {self.number}"

    @property
    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What queries must have in common to share the base."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What the tuples in the log depend on."""
        return self.number, type(self).__name__, self.slot_us, *self.key[1:], tuple(self.attributes.items())

    @property
    @abstractmethod
    def cells(self) -> tuple[Expression, ...]:
        """What is computed of each event, besides its time and WHERE."""

    @property
    @abstractmethod
    def attributes(self) -> Mapping[str, Type]:
        """The attributes of the tuples as events, with their time."""

    @property
    def as_stream(self) -> Stream:
        """The stream of its tuples."""
        return replace(self.stream, name=self.name, attributes=self.attributes, units={}, future_bound_us=None)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its tuples as events."""
        return pa.schema([(name, arrow_type(kind)) for name, kind in self.attributes.items()])

    def joined(self, other: Self) -> Self:
        """One base for the queries of two."""
        slot_us = gcd(self.slot_us, other.slot_us)
        return replace(self, slot_us=slot_us, kept_us=max(self.kept_us, other.kept_us))

    @abstractmethod
    def tuples(self, times: Ints, cells: Sequence[pa.Array]) -> pa.RecordBatch:
        """The tuples of events that pass WHERE."""

    @abstractmethod
    def places(self, tuples: pa.RecordBatch, buckets: int) -> Ints:
        """The place in the list of buckets of each tuple."""

    def events(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Tuples as events."""
        return tuples

    def count(self, tuples: pa.RecordBatch) -> int:
        """How many events some tuples stand for."""
        return int(tuples.num_rows)

    def times(self, tuples: pa.RecordBatch) -> Ints:
        """The time of each tuple."""
        return np.asarray(tuples.column(self.stream.timestamp))

    def final_us(self, watermark_us: int) -> int:
        """The time before which no tuple can come any more, at a watermark."""
        return watermark_us if watermark_us == END_OF_STREAM else watermark_us // self.slot_us * self.slot_us

    def _row(self, times: Ints, cells: Sequence[pa.Array]) -> pa.RecordBatch:
        """The cells as columns, with the time."""
        names = [name for name in self.attributes if name != self.stream.timestamp]
        columns = {self.stream.timestamp: pa.array(times), **dict(zip(names, cells, strict=True))}
        return pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in self.schema], schema=self.schema
        )


@dataclass(frozen=True, kw_only=True)
class ValueBase(TupleBase):
    """Values, or ranges of values, and how often each occurs in a slot."""

    argument: Expression
    group_by: tuple[str, ...] = ()
    width: Width | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The values that are counted."""
        return ValueBase, self.stream.name, self.where, self.argument, self.group_by, self.width

    @property
    def cells(self) -> tuple[Expression, ...]:
        """The groups and the value."""
        return (*(Attribute(name) for name in self.group_by), self.argument)

    @property
    def attributes(self) -> Mapping[str, Type]:
        """Time, groups and value."""
        groups = {name: self.stream.attributes[name] for name in self.group_by}
        return {self.stream.timestamp: Type.TIMESTAMP, **groups, VALUE: self._kind}

    def tuples(self, times: Ints, cells: Sequence[pa.Array]) -> pa.RecordBatch:
        """Each value or range once a slot; of a range, one of its values. NULL is not a value."""
        rows = self._row(times // self.slot_us * self.slot_us, cells)
        rows = rows.filter(rows.column(VALUE).is_valid())
        codes = [_codes_of_groups(rows.column(name), self.attributes[name]) for name in self.group_by]
        codes += [np.asarray(rows.column(self.stream.timestamp)), self._codes(rows.column(VALUE))]
        named = {f"{place}": column for place, column in enumerate(codes)}
        table = pa.table({**named, "place": np.arange(rows.num_rows)})
        found = table.group_by(list(named), use_threads=False).aggregate([("place", "min"), ("place", "count")])
        chosen = rows.take(found.column("place_min").combine_chunks())
        counts = found.column("place_count").combine_chunks()
        return pa.RecordBatch.from_arrays([*chosen.columns, counts], schema=self._packed)

    def places(self, tuples: pa.RecordBatch, buckets: int) -> Ints:
        """By value, or by range."""
        values, kind = tuples.column(VALUE), self._kind
        if self.width is not None:
            values, kind = pa.array(self._codes(values)), Type.BIGINT
        groups = [(tuples.column(name), self.attributes[name]) for name in self.group_by]
        return places_of(_TOGETHER, [*groups, (values, kind)], tuples.num_rows, buckets)

    def events(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Each value as often as it occurs."""
        places = np.repeat(np.arange(tuples.num_rows), np.asarray(tuples.column(COUNT)))
        return tuples.drop_columns([COUNT]).take(pa.array(places))

    def count(self, tuples: pa.RecordBatch) -> int:
        """How many events have the values."""
        return int(np.asarray(tuples.column(COUNT)).sum())

    @property
    def _kind(self) -> Type:
        found = type_of(self.argument, self.stream.attributes)
        assert found is not None  # the binder refuses NULL
        return found

    @property
    def _packed(self) -> pa.Schema:
        return self.schema.append(pa.field(COUNT, pa.int64()))

    def _codes(self, values: pa.Array) -> Ints:
        """A number for each value or range; those of strings say nothing beyond these values."""
        if pa.types.is_string(values.type):
            return np.asarray(values.dictionary_encode().indices)
        return codes_of(index_type(self._kind), self.width).encode(plain(pa.chunked_array([indexed(values)])))


@dataclass(frozen=True, kw_only=True)
class HeadBase(TupleBase):
    """Events in an order; with a limit, no more of a slot than some query shows."""

    by: str
    descending: bool
    read: tuple[str, ...]
    """The attributes that are read, in the order of the declaration."""
    limit: int | None = None
    group_by: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """The order and what is read. Ties go by what is read, so it must be the same."""
        is_cut = self.limit is not None
        order = (self.group_by, self.by, self.descending)
        return HeadBase, self.stream.name, self.where, order, self.read, is_cut

    @property
    def cells(self) -> tuple[Expression, ...]:
        """The attributes."""
        return tuple(Attribute(name) for name in self.read if name != self.stream.timestamp)

    @property
    def attributes(self) -> Mapping[str, Type]:
        """Those that are read."""
        return {name: self.stream.attributes[name] for name in self.read}

    def joined(self, other: Self) -> Self:
        """One base, which shows as much as either needs."""
        limits = [limit for limit in (self.limit, other.limit) if limit is not None]
        return replace(super().joined(other), limit=max(limits, default=None))

    def tuples(self, times: Ints, cells: Sequence[pa.Array]) -> pa.RecordBatch:
        """The events, or the first of each slot."""
        rows = self._row(times, cells)
        if self.limit is None:
            return rows
        table = pa.Table.from_batches([rows])
        groups = self.groups(table, times // self.slot_us)
        order = in_order(table, self.as_stream, self.by, groups, descending=self.descending)
        return rows.take(pa.array(order[positions(groups[order]) <= self.limit]))

    def groups(self, rows: pa.Table, within: Ints) -> Ints:
        """A number for each row, in the order of the slots or windows that `within` has, and of the groups in them."""
        if not self.group_by:
            return within
        ranks = group_ranks([rows.column(name).combine_chunks() for name in self.group_by])
        places: Ints = np.unique(within, return_inverse=True)[1]
        return places * (int(ranks.max(initial=0)) + 1) + ranks

    def places(self, tuples: pa.RecordBatch, buckets: int) -> Ints:
        """By time and key, so that neither alone fills a bucket."""
        keys = [(tuples.column(name), self.attributes[name]) for name in (self.stream.timestamp, self.by)]
        return places_of(self.number, keys, tuples.num_rows, buckets)


@dataclass(frozen=True, kw_only=True)
class KeyBase(TupleBase):
    """Events by the key of a join. Events without a key join nothing."""

    by: tuple[str, ...]
    kinds: tuple[Type, ...]
    """The types in which keys are compared."""
    read: frozenset[str]

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the join."""
        return KeyBase, self.stream.name, self.by, self.kinds

    @property
    def cells(self) -> tuple[Expression, ...]:
        """The attributes."""
        return tuple(Attribute(name) for name in self.attributes if name != self.stream.timestamp)

    @property
    def attributes(self) -> Mapping[str, Type]:
        """Those that some join reads."""
        read = {*self.read, *self.by, self.stream.timestamp}
        return {name: kind for name, kind in self.stream.attributes.items() if name in read}

    def joined(self, other: Self) -> Self:
        """One base with the attributes of both."""
        return replace(super().joined(other), read=self.read | other.read)

    def tuples(self, times: Ints, cells: Sequence[pa.Array]) -> pa.RecordBatch:
        """The events that have a key."""
        rows = self._row(times, cells)
        for name in self.by:
            rows = rows.filter(rows.column(name).is_valid())
        return rows

    def places(self, tuples: pa.RecordBatch, buckets: int) -> Ints:
        """By key."""
        keys = []
        for name, kind in zip(self.by, self.kinds, strict=True):
            column = tuples.column(name)
            keys.append((column.cast(pa.float64(), safe=False) if kind is Type.DOUBLE else column, kind))
        return places_of(_TOGETHER, keys, tuples.num_rows, buckets)


@dataclass(frozen=True, kw_only=True)
class PassBase(TupleBase):
    """The rows of a selection. A bucket only drops those that are late."""

    query: SelectionQuery
    columns: Mapping[str, Type]

    @property
    def key(self) -> tuple[Any, ...]:
        """The query: nothing is shared."""
        return PassBase, self.query.name

    @property
    def cells(self) -> tuple[Expression, ...]:
        """The columns selected."""
        return tuple(column.expression for column in self.query.columns)

    @property
    def attributes(self) -> Mapping[str, Type]:
        """The columns of the rows."""
        return {"time": Type.TIMESTAMP, **self.columns}

    def tuples(self, times: Ints, cells: Sequence[pa.Array]) -> pa.RecordBatch:
        """The rows."""
        arrays = [pa.array(times), *cells]
        return pa.RecordBatch.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, self.schema, strict=True)], schema=self.schema
        )

    def times(self, tuples: pa.RecordBatch) -> Ints:
        """The column `time`."""
        return np.asarray(tuples.column("time"))

    def places(self, tuples: pa.RecordBatch, buckets: int) -> Ints:
        """By time."""
        return places_of(self.number, [(tuples.column("time"), Type.TIMESTAMP)], tuples.num_rows, buckets)


@dataclass(frozen=True)
class TuplePlan:
    """The tuple bases of a job by number, and its row queries over them. `over_tuples` has each query as a bucket
    answers it: over the streams of its bases. A selection has none."""

    bases: Mapping[int, TupleBase] = field(default_factory=dict)
    queries: Mapping[str, RowQuery] = field(default_factory=dict)
    over_tuples: Mapping[str, RowQuery] = field(default_factory=dict)

    @staticmethod
    def of(queries: Mapping[str, RowQuery], streams: Mapping[str, Stream], first: int) -> TuplePlan:
        """The plan of some queries, with bases numbered from `first` on."""
        found: dict[tuple[Any, ...], TupleBase] = {}
        needed = {name: _bases_of(query, streams) for name, query in queries.items()}
        for base in (base for some in needed.values() for base in some):
            known = found.get(base.key)
            found[base.key] = replace(base, number=first + len(found)) if known is None else known.joined(base)
        over = {name: _over(query, [found[base.key] for base in needed[name]]) for name, query in queries.items()}
        return TuplePlan(
            {base.number: base for base in found.values()},
            dict(queries),
            {name: query for name, query in over.items() if query is not None},
        )

    def bases_of(self, stream: str) -> list[TupleBase]:
        """The bases of a stream."""
        return [base for base in self.bases.values() if base.stream.name == stream]

    def cells_of(self, stream: str) -> list[Expression]:
        """What is computed of each event of a stream, each expression once."""
        bases = self.bases_of(stream)
        wheres = [base.where for base in bases if base.where is not None]
        return list(dict.fromkeys([*(cell for base in bases for cell in base.cells), *wheres]))


def cell_column(place: int) -> str:
    """The name of the column that has a cell."""
    return f"cell_{place}"


def check_row_query(query: RowQuery) -> None:
    """Raise if Spark cannot answer a row query."""
    if query.into is not None:
        raise NotOnSparkError(
            f"query {query.name}: INTO holds rows for lookups, and on Spark rows go to a table; leave out INTO, or "
            f"look it up with panewise.Engine"
        )
    for window in windows_of(query):
        if not isinstance(window, TimeWindow):
            raise NotOnSparkError(
                f"query {query.name}: {print_window(window)} needs the stream's total order, which Spark does not "
                f"keep; use a RANGE window, or panewise.Engine"
            )


def windows_of(query: RowQuery) -> list[Window]:
    """The windows that a query reads."""
    match query:
        case ValueQuery() | SortedQuery():
            return [query.window]
        case IntersectionQuery() | JoinQuery():
            return [query.left.window, query.right.window]
        case _:
            return []


def _slot_us(query: RowQuery, streams: Mapping[str, Stream]) -> int:
    """The longest slot that every window of a query begins and ends with."""
    lengths = [length for window in windows_of(query) for length in lengths_of(window)]
    declared = (streams[name].granularity_us for name in query.streams)
    return gcd(*lengths, *(length for length in declared if length is not None))


def _bases_of(query: RowQuery, streams: Mapping[str, Stream]) -> list[TupleBase]:
    """The bases that a query needs, one for each of its inputs; not numbered yet."""
    match query:
        case ValueQuery():
            return [_grouped_base(query, streams)]
        case IntersectionQuery(left=left, right=right, width=width):
            return [
                _value_base(query, streams, side.stream, side.window, side.argument, side.where, width)
                for side in (left, right)
            ]
        case SortedQuery():
            return [_head_base(query, streams)]
        case JoinQuery():
            return [_key_base(query, side, streams) for side in (query.left, query.right)]
        case SelectionQuery():
            columns = selected_types(query, streams)
            return [PassBase(stream=streams[query.stream], where=query.where, query=query, columns=columns)]
        case _:
            raise TypeError(f"unknown kind of row query: {query!r}")


def _grouped_base(query: ValueQuery, streams: Mapping[str, Stream]) -> ValueBase:
    width = query.width if isinstance(query, HistogramQuery) else None
    if streams[query.stream].timestamp in query.group_by:
        raise NotOnSparkError(
            f"query {query.name}: on Spark rows are not grouped by the time of an event; declare another attribute "
            f"that has it, or use panewise.Engine"
        )
    base = _value_base(query, streams, query.stream, query.window, query.argument, query.where, width)
    return replace(base, group_by=query.group_by)


def _codes_of_groups(column: pa.Array, kind: Type) -> Ints:
    """A number for each group among those here; NULL is one."""
    if kind is Type.DOUBLE:
        doubles = canonical(np.asarray(column.fill_null(0.0)))
        column = pa.array(doubles.view(np.int64), mask=np.asarray(column.is_null()))
    return np.asarray(column.dictionary_encode().indices.fill_null(-1)).astype(np.int64)


def _value_base(
    query: RowQuery,
    streams: Mapping[str, Stream],
    stream: str,
    window: Window,
    argument: Expression,
    where: Expression | None,
    width: Width | None,
) -> ValueBase:
    return ValueBase(
        stream=streams[stream],
        where=where,
        slot_us=_slot_us(query, streams),
        kept_us=lengths_of(window)[0],
        argument=argument,
        width=width,
    )


def _head_base(query: SortedQuery, streams: Mapping[str, Stream]) -> HeadBase:
    stream = streams[query.stream]
    shown = {name for column in query.columns for name in attributes_of(column.expression)}
    needed = shown | {query.by, stream.timestamp, *query.group_by}
    return HeadBase(
        stream=stream,
        where=query.where,
        slot_us=_slot_us(query, streams),
        kept_us=lengths_of(query.window)[0],
        by=query.by,
        descending=query.descending,
        read=tuple(name for name in stream.attributes if name in needed),
        limit=query.limit,
        group_by=query.group_by,
    )


def _key_base(query: JoinQuery, side: JoinSide, streams: Mapping[str, Stream]) -> KeyBase:
    assert isinstance(side.window, TimeWindow)
    keys = {query.left.name: query.left_keys, query.right.name: query.right_keys}
    read = [column.expression for column in query.columns] + ([] if query.where is None else [query.where])
    names = {
        attribute.attribute
        for expression in read
        for attribute in bare_attributes(expression)
        if isinstance(attribute, QualifiedAttribute) and attribute.side == side.name
    }
    return KeyBase(
        stream=streams[side.stream],
        kept_us=side.window.left_us,
        by=tuple(key.attribute for key in keys[side.name]),
        kinds=join_key_types(query, streams),
        read=frozenset(names),
    )


def _over(query: RowQuery, bases: Sequence[TupleBase]) -> RowQuery | None:
    """A query over the streams of its bases."""
    names = [base.name for base in bases]
    value = Attribute(VALUE)
    match query:
        case ValueQuery():
            return replace(query, stream=names[0], where=None, argument=value)
        case IntersectionQuery(left=left, right=right):
            sides = [replace(side, stream=name, where=None, argument=value) for side, name in zip((left, right), names)]
            return replace(query, left=sides[0], right=sides[1])
        case SortedQuery():
            # What is shown of a row is computed when the rows of all buckets are in order.
            columns = tuple(RowColumn(Attribute(name), str(place)) for place, name in enumerate(bases[0].attributes))
            return replace(query, stream=names[0], where=None, columns=columns)
        case JoinQuery(left=left, right=right):
            return replace(query, left=replace(left, stream=names[0]), right=replace(right, stream=names[1]))
        case _:
            return None
