"""Tuple bases: what the row queries of a job need of a stream's events, and how it is split over the buckets.

Where events are read, WHERE and the expressions are computed natively, and each base makes tuples of them. Queries that
need the same tuples share a base, so that these travel once. A bucket then is an engine of its own over its share.

| base | for | a tuple | split by |
|---|---|---|---|
| `ValueBase` | HISTOGRAM, TOP_K, DISTINCT, INTERSECT ... | a slot, a value or range, how often | the value or range |
| `HeadBase` | ORDER BY | an event, and some keys of a slot; with LIMIT k its first k events | time and key |
| `KeyBase` | JOIN | an event with a key | the key |
| `PassBase` | selections | the columns selected | time |
| `OrderBase` | windows over the rows of a whole stream | an event; how many a slot has | the slot |
| `SubstreamBase` | windows over PARTITION BY ... ROWS that slide | an event | what makes the substreams |

A tuple is late if its slot is wholly behind the watermark; slots of joins and selections are a microsecond long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, Self

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.columns import arrow_type, canonical
from panewise.engine.windowed.grouped_values import group_ranks
from panewise.engine.windowed.histogram import COUNT, VALUE
from panewise.engine.windowed.positions import positions
from panewise.engine.windowed.sorted_window import KEY
from panewise.engine.windowed.values import indexed, plain
from panewise.indexes.values import Width, codes_of
from panewise.language.expressions import Attribute, Expression
from panewise.language.model import Stream
from panewise.language.row_queries import SelectionQuery
from panewise.language.typecheck import type_of
from panewise.planning.windowed import index_type
from panewise.spark.buckets import places_of
from panewise.spark.row_order import in_order
from panewise.windows.clock import END_OF_STREAM

KEYS_OF_A_SLOT = 64
"""So many keys at most tell how those of a slot are spread."""

_TOGETHER = -1
"""Instead of a base's number where a bucket is chosen: both sides of a query find each other."""


@dataclass(frozen=True, kw_only=True)
class TupleBase(ABC):
    """The tuples that some queries share. `kept_us` is how long after its slot began some window needs a tuple."""

    stream: Stream
    number: int = -1
    where: Expression | None = None
    slot_us: int = 1
    kept_us: int = 0
    since_us: int | None = None
    """Of a base that came while the job ran, the time from which on it has every event; others are left out."""

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
class EventBase(TupleBase):
    """Events, with some of their attributes."""

    read: tuple[str, ...]
    """The attributes that queries read, in the order of the declaration."""

    @property
    def cells(self) -> tuple[Expression, ...]:
        """The attributes."""
        return tuple(Attribute(name) for name in self.read if name != self.stream.timestamp)

    @property
    def attributes(self) -> Mapping[str, Type]:
        """Those that are read."""
        return {name: self.stream.attributes[name] for name in self.read}

    def joined(self, other: Self) -> Self:
        """One base with the attributes of both."""
        read = {*self.read, *other.read}
        return replace(super().joined(other), read=tuple(name for name in self.stream.attributes if name in read))

    def tuples(self, times: Ints, cells: Sequence[pa.Array]) -> pa.RecordBatch:
        """The events."""
        return self._row(times, cells)


@dataclass(frozen=True, kw_only=True)
class HeadBase(EventBase):
    """Events in an order; with a limit, no more of a slot than some query shows."""

    by: str
    descending: bool
    limit: int | None = None
    group_by: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """The order and what is read. Ties go by what is read, so it must be the same."""
        is_cut = self.limit is not None
        order = (self.group_by, self.by, self.descending)
        return HeadBase, self.stream.name, self.where, order, self.read, is_cut

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

    @property
    def has_sketch(self) -> bool:
        """Whether all rows of a window are put in order, by places that each take a range of the keys."""
        return self.limit is None and not self.group_by

    def counts(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Evenly spaced keys of each slot, and how many events each stands for. NULL has no place among them."""
        tuples = tuples.filter(tuples.column(self.by).is_valid())
        table = pa.Table.from_batches([tuples])
        slots = self.times(tuples) // self.slot_us
        order = in_order(table, self.as_stream, self.by, slots, descending=False)
        slots, places = slots[order], positions(slots[order])
        begins = np.flatnonzero(places == 1)
        lengths = np.diff(np.append(begins, len(slots)))
        steps = -(-lengths // KEYS_OF_A_SLOT)
        # The last key of each step stands for all of the step.
        own, ends = np.repeat(steps, lengths), np.repeat(lengths, lengths)
        chosen = np.flatnonzero((places % own == 0) | (places == ends)) if len(slots) else begins
        counts = np.where(places[chosen] % own[chosen] == 0, own[chosen], places[chosen] % own[chosen])
        keys = tuples.column(self.by).take(pa.array(order[chosen]))
        return pa.record_batch(
            {self.stream.timestamp: pa.array(slots[chosen] * self.slot_us), COUNT: pa.array(counts), KEY: keys}
        )

    def count(self, tuples: pa.RecordBatch) -> int:
        """How many events they are; keys that every bucket gets are none."""
        return 0 if is_counts(tuples) else int(tuples.num_rows)

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
        return places_of_keys([tuples.column(name) for name in self.by], self.kinds, buckets)


@dataclass(frozen=True, kw_only=True)
class SubstreamBase(EventBase):
    """Events by the substream whose rows they are. The last ones of a substream are kept for ever.

    What travels passes no WHERE: a window takes its rows first.
    """

    partition_by: tuple[str, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes the substreams."""
        return SubstreamBase, self.stream.name, self.partition_by

    def places(self, tuples: pa.RecordBatch, buckets: int) -> Ints:
        """By what makes the substreams."""
        keys = [(tuples.column(name), self.attributes[name]) for name in self.partition_by]
        return places_of(self.number, keys, tuples.num_rows, buckets)


@dataclass(frozen=True, kw_only=True)
class OrderBase(EventBase):
    """Events by the slot that they lie in, and for every bucket how many events each slot has."""

    is_paired: bool = False
    """Whether a bucket has the events of a slot of all streams, so that it can tell which come before which."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The stream."""
        return OrderBase, self.stream.name, self.is_paired

    def places(self, tuples: pa.RecordBatch, buckets: int) -> Ints:
        """By slot, so that one bucket can put the events of a slot in order."""
        slots = pa.array(self.times(tuples) // self.slot_us)
        base = _TOGETHER if self.is_paired else self.number
        return places_of(base, [(slots, Type.BIGINT)], tuples.num_rows, buckets)

    def counts(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """How many of some events lie in each slot."""
        slots, counts = np.unique(self.times(tuples) // self.slot_us, return_counts=True)
        return pa.record_batch({self.stream.timestamp: pa.array(slots * self.slot_us), COUNT: pa.array(counts)})

    def count(self, tuples: pa.RecordBatch) -> int:
        """How many events they are; counts that every bucket gets are none."""
        return 0 if is_counts(tuples) else int(tuples.num_rows)


def is_counts(tuples: pa.RecordBatch) -> bool:
    """Whether tuples are the counts of an `OrderBase`, or the keys of a `HeadBase`, which go to every bucket."""
    return COUNT in tuples.schema.names


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


def places_of_keys(columns: Sequence[pa.Array], kinds: Sequence[Type], buckets: int) -> Ints:
    """The place of each key of a join, given its attributes and the types in which they are compared."""
    keys = []
    for column, kind in zip(columns, kinds, strict=True):
        keys.append((column.cast(pa.float64(), safe=False) if kind is Type.DOUBLE else column, kind))
    return places_of(_TOGETHER, keys, len(columns[0]), buckets)


def cell_column(place: int) -> str:
    """The name of the column that has a cell."""
    return f"cell_{place}"


def _codes_of_groups(column: pa.Array, kind: Type) -> Ints:
    """A number for each group among those here; NULL is one."""
    if kind is Type.DOUBLE:
        doubles = canonical(np.asarray(column.fill_null(0.0)))
        column = pa.array(doubles.view(np.int64), mask=np.asarray(column.is_null()))
    return np.asarray(column.dictionary_encode().indices.fill_null(-1)).astype(np.int64)
