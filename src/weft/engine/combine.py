"""Combine: events into the partials of each base. Stateless: it knows a plan and one batch of events.

The batch has been projected: `key_0`, ... (the attributes that some query groups by), `shard_0`, ... (predicate bits)
and `input_0`, ... (what the aggregates read). A base's partials are a record batch with `slot`, the `key_` columns of
its attributes, `shard_0`, ... and the columns of its components; multisets are lists, and sketches are bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.components import Component, Kind
from weft.aggregates.types import Type
from weft.engine.columns import arrow_type, canonical, frozen, numbers_of
from weft.engine.sketches import SKETCH_TYPE, lift_distinct, lift_quantiles
from weft.engine.tables import ColumnTable, IntTable
from weft.kernels.hashing import find_small_ints, first_places
from weft.kernels.lifting import (
    lift_count,
    lift_extreme_float,
    lift_extreme_int,
    lift_sum_float,
    lift_sum_int,
)
from weft.planning.plan import Base, StreamPlan, Tree

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
"""int64 or float64, by the type of what it holds."""

_NOTHING_NULL = np.empty(0, np.bool_)


def partials_schema(plan: StreamPlan, tree: Base | Tree) -> pa.Schema:
    """The columns of the partials of a base or a tree."""
    fields = [pa.field("slot", pa.int64())]
    fields += [pa.field(plan.key_column(key), arrow_type(plan.stream.attributes[key])) for key in tree.group_by]
    fields += [pa.field(f"shard_{word}", pa.int64()) for word in range(plan.shard_words)]
    for component in tree.components:
        names = component.column_names()
        if component.kind is Kind.VALUES:
            item = arrow_type(_input_type(plan, component))
            fields += [pa.field(names[0], pa.list_(item)), pa.field(names[1], pa.list_(pa.int64()))]
        elif component.kind.is_sketch:
            fields.append(pa.field(names[0], SKETCH_TYPE))
        else:
            kind = pa.float64() if component.is_float(plan.input_types) else pa.int64()
            fields += [pa.field(name, kind) for name in names]
    return pa.schema(fields)


class Combiner:
    """Combines one batch for any number of bases, sharing what they have in common: codes of keys, shards, inputs."""

    def __init__(self, plan: StreamPlan, batch: pa.RecordBatch) -> None:
        self._plan = plan
        self._batch = batch
        self._length = batch.num_rows
        self._codes: dict[str, tuple[Ints, int]] = {}
        self._numbers: dict[int, tuple[Column, Bools]] = {}

    def partials(self, base: Base, slots: Ints) -> pa.RecordBatch:
        """The partials of one base; `slots` is the slot of each event."""
        index, first = self._group(base, slots)
        size = len(first)
        columns: list[pa.Array] = [pa.array(slots[first])]
        rows = pa.array(first)
        columns += [self._batch.column(self._plan.key_column(key)).take(rows) for key in base.group_by]
        columns += [pa.array(word[first]) for word in self._shard_words(base)]
        for component in base.components:
            if component.kind is Kind.VALUES:
                columns += self._multiset(component, index, size)
            elif component.kind.is_sketch:
                columns.append(self._sketches(component, index, size))
            else:
                columns += [pa.array(column) for column in self._lift(component, index, size)]
        return pa.RecordBatch.from_arrays(columns, schema=partials_schema(self._plan, base))

    def _group(self, base: Base, slots: Ints) -> tuple[Ints, Ints]:
        """The partial of each event, and an event of each partial."""
        parts = [self._key_codes(key) for key in base.group_by]
        if base.predicates:
            parts += [_dense(word) for word in self._shard_words(base)]
        lowest = int(slots.min()) if len(slots) else 0
        group = slots - lowest
        size = int(group.max(initial=0)) + 1
        for codes, cardinality in parts:
            if size * cardinality >= 2**62:
                group, size = _dense(group, size)
            group = group * cardinality + codes
            size *= cardinality
        index, count = _dense(group, size)
        first = np.empty(count, np.int64)
        first_places(index, first)
        return index, first

    def _key_codes(self, key: str) -> tuple[Ints, int]:
        if key not in self._codes:
            table = ColumnTable(self._plan.stream.attributes[key])
            codes = table.codes(self._batch.column(self._plan.key_column(key)))
            self._codes[key] = codes, int(codes.max(initial=0)) + 1
        return self._codes[key]

    def _shard_words(self, base: Base) -> list[Ints]:
        """The predicate bits of each event, those of other bases cleared so that they do not split partials."""
        return [
            np.asarray(self._batch.column(f"shard_{word}")) & np.int64(mask)
            for word, mask in enumerate(self._plan.shard_masks(base.predicates))
        ]

    def _input(self, place: int) -> tuple[Column, Bools]:
        if place not in self._numbers:
            column = self._batch.column(f"input_{place}")
            if self._plan.inputs[place].type is Type.STRING:
                valid = np.asarray(column.is_valid()) if column.null_count else _NOTHING_NULL
                self._numbers[place] = np.empty(0, np.int64), valid
            else:
                self._numbers[place] = numbers_of(column)
        return self._numbers[place]

    def _lift(self, component: Component, index: Ints, size: int) -> Sequence[Column]:
        if component.input is None:
            rows = np.zeros(size, np.int64)
            lift_count(index, _NOTHING_NULL, rows)
            return (rows,)
        values, valid = self._input(component.input)
        match component.kind:
            case Kind.COUNT:
                count = np.zeros(size, np.int64)
                lift_count(index, valid, count)
                return (count,)
            case Kind.SUM_INT:
                high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
                lift_sum_int(index, values, valid, high, low)
                return high, low
            case Kind.SUM_FLOAT | Kind.SQUARES:
                total, error = np.zeros(size), np.zeros(size)
                doubles = frozen(values.astype(np.float64, copy=False))
                lift_sum_float(index, doubles, valid, total, error, component.kind is Kind.SQUARES)
                return total, error
            case Kind.MIN | Kind.MAX:
                return (_lift_extreme(index, values, valid, size, component.kind is Kind.MAX),)
            case _:
                raise AssertionError(component)

    def _sketches(self, component: Component, index: Ints, size: int) -> pa.Array:
        """The sketch of each partial."""
        if component.kind is Kind.DISTINCT:
            # A value counts once however often it comes, and finding that out costs less than adding it again.
            return lift_distinct(self._multiset(component, index, size)[0])
        assert component.input is not None
        return lift_quantiles(*self._input(component.input), index, size)

    def _multiset(self, component: Component, index: Ints, size: int) -> list[pa.Array]:
        """Each partial's different values with their counts, as two lists with common offsets."""
        assert component.input is not None
        kind = _input_type(self._plan, component)
        column = self._batch.column(f"input_{component.input}")
        present = index
        if column.null_count:
            valid = np.asarray(column.is_valid())
            present, column = index[valid], column.drop_null()
        codes = ColumnTable(kind).codes(column)
        pairs = IntTable()
        pair = pairs.ids(present * (int(codes.max(initial=0)) + 1) + codes)
        counts = np.zeros(len(pairs), np.int64)
        lift_count(pair, _NOTHING_NULL, counts)
        event = np.empty(len(pairs), np.int64)
        event[pair] = np.arange(len(pair))
        owner = present[event]
        order = np.argsort(owner, kind="stable")
        offsets = pa.array(np.searchsorted(owner[order], np.arange(size + 1)).astype(np.int32))
        items = column.take(pa.array(event[order]))
        if kind is Type.DOUBLE:
            items = pa.array(canonical(np.asarray(items)))
        return [
            pa.ListArray.from_arrays(offsets, items),
            pa.ListArray.from_arrays(offsets, pa.array(counts[order])),
        ]


def _lift_extreme(index: Ints, values: Column, valid: Bools, size: int, greatest: bool) -> Column:
    """MIN or MAX, from a start that any value replaces."""
    if values.dtype == np.float64:
        doubles = np.full(size, -np.inf if greatest else np.nan)
        lift_extreme_float(index, values, valid, doubles, greatest)
        return doubles
    limits = np.iinfo(np.int64)
    integers = np.full(size, limits.min if greatest else limits.max)
    lift_extreme_int(index, values, valid, integers, greatest)
    return integers


def _input_type(plan: StreamPlan, component: Component) -> Type:
    assert component.input is not None
    return plan.inputs[component.input].type


def _dense(values: Ints, size: int | None = None) -> tuple[Ints, int]:
    """Dense ids for values in order of first appearance, and how many there are; `size` is above all values."""
    if size is not None and size <= 4 * len(values) + 1024:
        ids = np.empty(len(values), np.int64)
        return ids, find_small_ints(values, np.full(size, -1), ids)
    table = IntTable()
    return table.ids(values), len(table)
