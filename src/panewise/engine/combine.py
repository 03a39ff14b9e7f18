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

from panewise.aggregates.components import Component, Kind
from panewise.aggregates.types import Type
from panewise.arrays import Bools, Ints
from panewise.engine.columns import arrow_type, canonical, frozen, numbers_of
from panewise.engine.joined import lift_joined
from panewise.engine.kept import lift_kept
from panewise.engine.rows import fold_stretches
from panewise.engine.sketches import SKETCH_TYPE, lift_distinct, lift_frequent, lift_quantiles
from panewise.engine.tables import ColumnTable, IntTable
from panewise.kernels.hashing import find_small_ints, first_places
from panewise.kernels.lifting import (
    lift_count,
    lift_extreme_float,
    lift_extreme_int,
    lift_squares,
    lift_squares_int,
    lift_sum_float,
    lift_sum_int,
)
from panewise.kernels.ordering import order_words
from panewise.language.evaluate import PAIR
from panewise.language.expressions import Pair
from panewise.planning.trees import Base, StreamPlan, Tree

Column = npt.NDArray[Any]
"""int64 or float64, by the type of what it holds."""

FEWER = 4
"""A base is made from the partials of a finer one if these are this many times fewer than the events."""
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
        self._made: list[tuple[Base, pa.RecordBatch]] = []
        self._codes: dict[str, tuple[Ints, int]] = {}
        self._shards: dict[tuple[int, ...], list[tuple[Ints, int]]] = {}
        self._numbers: dict[int, tuple[Column, Bools]] = {}

    def partials(self, base: Base, slots: Ints) -> pa.RecordBatch:
        """The partials of one base; `slots` is the slot of each event."""
        made = next((made for finer, made in self._made if self._is_finer(finer, base, made)), None)
        partials = self._lifted(base, slots) if made is None else Combiner(self._plan, made).coarser(base)
        self._made.append((base, partials))
        return partials

    def coarser(self, base: Base) -> pa.RecordBatch:
        """The partials of one base, from a batch that holds partials of a finer base instead of events."""
        slots = np.asarray(self._batch.column("slot"))
        index, first = self._group(base, slots)
        order = order_words(index, len(first))
        bounds = np.searchsorted(index[order], np.arange(len(first) + 1))
        columns = self._places(base, slots, first)
        for component in base.components:
            given = [np.asarray(self._batch.column(name))[order] for name in component.column_names()]
            columns += [pa.array(column) for column in fold_stretches(component.kind, given, bounds)]
        return pa.RecordBatch.from_arrays(columns, schema=partials_schema(self._plan, base))

    def _is_finer(self, finer: Base, base: Base, made: pa.RecordBatch) -> bool:
        """Whether the partials of one base can stand for the events of another, and are far fewer."""
        return (
            made.num_rows <= self._length // FEWER
            and (finer.clock, finer.granularity) == (base.clock, base.granularity)
            and set(base.group_by) <= set(finer.group_by)
            and set(base.predicates) <= set(finer.predicates)
            and set(base.components) <= set(finer.components)
            and not any(component.kind is Kind.VALUES or component.kind.is_sketch for component in base.components)
        )

    def _places(self, base: Base, slots: Ints, first: Ints) -> list[pa.Array]:
        """The slots, keys and predicate bits of the partials, each from one of its rows."""
        rows = pa.array(first)
        columns: list[pa.Array] = [pa.array(slots[first])]
        columns += [_decoded(self._batch.column(self._plan.key_column(key)).take(rows)) for key in base.group_by]
        return columns + [pa.array(word[first]) for word in self._shard_words(base)]

    def _lifted(self, base: Base, slots: Ints) -> pa.RecordBatch:
        """The partials of one base, from the events."""
        index, first = self._group(base, slots)
        size = len(first)
        columns = self._places(base, slots, first)
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
            parts += self._shard_codes(base)
        lowest = int(slots.min()) if len(slots) else 0
        group = slots - lowest
        size = int(group.max(initial=0)) + 1
        for codes, cardinality in parts:
            if size * cardinality >= 2**62:
                group, size = _dense(group, size)
            group *= cardinality
            group += codes
            size *= cardinality
        index, count = _dense(group, size)
        first = np.empty(count, np.int64)
        first_places(index, first)
        return index, first

    def _key_codes(self, key: str) -> tuple[Ints, int]:
        if key not in self._codes:
            column = self._batch.column(self._plan.key_column(key))
            self._codes[key] = _codes_of(column, self._plan.stream.attributes[key])
        return self._codes[key]

    def _shard_codes(self, base: Base) -> list[tuple[Ints, int]]:
        """For each word of predicate bits, the bits of each event as dense numbers, and how many numbers there are."""
        masks = tuple(self._plan.shard_masks(base.predicates))
        if masks not in self._shards:
            words = zip(self._shard_words(base), masks, strict=True)
            self._shards[masks] = [_dense(word, mask + 1) for word, mask in words]
        return self._shards[masks]

    def _shard_words(self, base: Base) -> list[Ints]:
        """The predicate bits of each event, with those of other bases cleared so that they do not split partials."""
        return [
            np.asarray(self._batch.column(f"shard_{word}")) & np.int64(mask)
            for word, mask in enumerate(self._plan.shard_masks(base.predicates))
        ]

    def _input(self, place: int) -> tuple[Column, Bools]:
        if place not in self._numbers:
            column = self._batch.column(f"input_{place}")
            valid = np.asarray(column.is_valid()) if column.null_count else _NOTHING_NULL
            if self._plan.inputs[place].type is Type.STRING:
                self._numbers[place] = np.empty(0, np.int64), valid
            elif pa.types.is_struct(column.type):
                self._numbers[place] = numbers_of(column.field(PAIR[0]))[0], valid
            else:
                self._numbers[place] = numbers_of(column)
        return self._numbers[place]

    def _partners(self, place: int) -> Column:
        """What stands beside each value of an input of pairs; the values themselves of any other."""
        column = self._batch.column(f"input_{place}")
        if not pa.types.is_struct(column.type):
            return self._input(place)[0]
        return numbers_of(column.field(PAIR[1]))[0]

    def _lift(self, component: Component, index: Ints, size: int) -> Sequence[Column]:
        if component.input is None:
            rows = np.zeros(size, np.int64)
            lift_count(index, _NOTHING_NULL, rows)
            return (rows,)
        values, valid = self._input(component.input)
        if component.kind.is_joined:
            read = self._plan.inputs[component.input].expression
            half_life = read.half_life_us if isinstance(read, Pair) else 0.0
            partners = self._partners(component.input)
            return lift_joined(component.kind, values, partners, half_life, valid, index, size)
        match component.kind:
            case Kind.COUNT:
                count = np.zeros(size, np.int64)
                lift_count(index, valid, count)
                return (count,)
            case Kind.SUM_INT:
                high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
                lift_sum_int(index, values, valid, high, low)
                return high, low
            case Kind.SUM_FLOAT:
                total, error = np.zeros(size), np.zeros(size)
                lift_sum_float(index, frozen(values), valid, total, error)
                return total, error
            case Kind.SQUARES:
                squares = tuple(np.zeros(size) for _ in range(4))
                lift_squares(index, frozen(values), valid, squares)
                return squares
            case Kind.SQUARES_INT:
                words = tuple(np.zeros(size, np.int64) for _ in range(4))
                lift_squares_int(index, values, valid, words)
                return words
            case Kind.MIN | Kind.MAX:
                return (_lift_extreme(index, values, valid, size, component.kind is Kind.MAX),)
            case _:
                raise AssertionError(component)

    def _sketches(self, component: Component, index: Ints, size: int) -> pa.Array:
        """The sketch of each partial."""
        if component.kind.is_kept:
            return self._kept(component, index, size)
        if component.kind is Kind.DISTINCT:
            # A repeated value counts once, and removing repeats first costs less than adding them again.
            return lift_distinct(self._multiset(component, index, size)[0])
        if component.kind is Kind.FREQUENT:
            return lift_frequent(*self._multiset(component, index, size))
        assert component.input is not None
        return lift_quantiles(*self._input(component.input), index, size)

    def _kept(self, component: Component, index: Ints, size: int) -> pa.Array:
        """The kept values of each partial."""
        assert component.input is not None
        column = self._batch.column(f"input_{component.input}")
        read = self._plan.inputs[component.input].expression
        if not isinstance(read, Pair):
            valid = np.asarray(column.is_valid()) if column.null_count else _NOTHING_NULL
            return lift_kept(component.kind, column, None, 1, valid, index, size)
        valid = np.asarray(column.is_valid()) if column.null_count else _NOTHING_NULL
        values, orders = column.field(PAIR[0]), numbers_of(column.field(PAIR[1]))[0]
        return lift_kept(component.kind, values, orders, read.most, valid, index, size)

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
        order = order_words(owner, size)
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


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _codes_of(column: pa.Array, kind: Type) -> tuple[Ints, int]:
    """Numbers for the values of a column, equal for equal values, and a number above all of them."""
    if not column.null_count:
        if pa.types.is_dictionary(column.type):
            # Encoding has already found the different values.
            return np.asarray(column.indices).astype(np.int64), len(column.dictionary)
        if kind in (Type.BIGINT, Type.TIMESTAMP) and len(column):
            values = np.asarray(column)
            lowest, highest = int(values.min()), int(values.max())
            if highest - lowest <= 4 * len(column):
                return values - lowest, highest - lowest + 1
    codes = ColumnTable(kind).codes(column)
    return codes, int(codes.max(initial=0)) + 1


def _dense(values: Ints, size: int) -> tuple[Ints, int]:
    """Dense ids for values in order of first appearance, and the number of ids; `size` is above all values."""
    if size <= 4 * len(values) + 1024:
        ids = np.empty(len(values), np.int64)
        return ids, find_small_ints(values, np.full(size, -1), ids)
    table = IntTable(expected=len(values) // 4)
    return table.ids(values), len(table)
