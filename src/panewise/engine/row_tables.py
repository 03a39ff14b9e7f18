"""The tables of a store: what rows have numbers for. They make rows of partials, and partials of rows.

A row has the number of its key, of the set of predicates that its events satisfy, and of each string in a multiset.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np
import pyarrow as pa

from panewise.aggregates.components import Component, Kind
from panewise.aggregates.types import Type
from panewise.arrays import Bools, Column, Ints
from panewise.engine.answers import Groups
from panewise.engine.combine import partials_schema
from panewise.engine.rows import Multisets, Rows
from panewise.engine.sketches import from_arrow, to_arrow
from panewise.engine.tables import ColumnTable, KeyTable
from panewise.planning.trees import BITS_PER_WORD, StreamPlan, Tree


class RowTables:
    """The keys, the sets of predicates and the strings of one tree's rows, by number."""

    def __init__(self, plan: StreamPlan, tree: Tree) -> None:
        self._plan = plan
        self._tree = tree
        self.schema = partials_schema(plan, tree)
        self.keys = self._no_keys()
        self.shards = KeyTable([Type.BIGINT] * plan.shard_words)
        self._holds: dict[int, Bools] = {}
        """Which sets of predicates have one, of those that there were when it was last asked."""
        self._strings = {
            component: ColumnTable(Type.STRING)
            for component in tree.components
            if component.kind is Kind.VALUES and plan.inputs[component.input or 0].type is Type.STRING
        }

    @property
    def nbytes(self) -> int:
        """The memory of the tables of keys and sets of predicates."""
        return self.keys.nbytes + self.shards.nbytes

    @property
    def groups(self) -> Groups:
        """The keys, as answers need them."""
        return Groups(self._tree.group_by, self.keys)

    @cached_property
    def no_rows(self) -> Rows:
        """Rows of the tree, none of them."""
        return self.rows_of([])

    def rows_of(self, batches: list[pa.RecordBatch]) -> Rows:
        """Partials as rows, in the order given."""
        batch = batches[0] if len(batches) == 1 else _united(batches, self.schema)
        given = dict(zip(batch.schema.names, map(_one, batch.columns), strict=True))
        columns: dict[str, Column] = {}
        multisets: dict[Component, Multisets] = {}
        for component in self._tree.components:
            names = component.column_names()
            if component.kind is Kind.VALUES:
                multisets[component] = self._multisets_of(component, given[names[0]], given[names[1]])
            elif component.kind.is_sketch:
                columns[names[0]] = from_arrow(given[names[0]])
            else:
                columns.update({name: np.asarray(given[name]) for name in names})
        keys = [given[self._plan.key_column(key)] for key in self._tree.group_by]
        # Predicates that no query of this tree has would only split its partials.
        words = [
            pa.array(np.asarray(given[f"shard_{word}"]) & np.int64(mask))
            for word, mask in enumerate(self._plan.shard_masks(self._tree.predicates))
        ]
        return Rows(
            self.keys.ids(keys, batch.num_rows),
            self._tree.cuts.starts(np.asarray(given["slot"])),
            self.shards.ids(words, batch.num_rows),
            columns,
            multisets,
        )

    def partials_of(self, rows: Rows) -> pa.RecordBatch:
        """The inverse of `rows_of`."""
        columns: list[pa.Array] = [pa.array(rows.slots), *self.keys.decode(rows.keys), *self.shards.decode(rows.shards)]
        for component in self._tree.components:
            names = component.column_names()
            if component.kind.is_sketch:
                columns.append(to_arrow(component.kind, rows.columns[names[0]]))
                continue
            if component.kind is not Kind.VALUES:
                columns += [pa.array(rows.columns[name]) for name in names]
                continue
            runs = rows.multisets[component]
            offsets = pa.array(runs.offsets.astype(np.int32))
            items = pa.array(runs.items)
            if component in self._strings:
                items = self._strings[component].decode(runs.items.astype(np.int64))
            items = items.cast(self.schema.field(names[0]).type.value_type)
            columns += [
                pa.ListArray.from_arrays(offsets, items),
                pa.ListArray.from_arrays(offsets, pa.array(runs.counts)),
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def holds(self, predicate: int | None) -> Bools | None:
        """Which sets of predicates have one; None if there is none to pass."""
        if predicate is None:
            return None
        known = self._holds.get(predicate)
        if known is None or len(known) < len(self.shards):
            words = self.shards.decode(np.arange(len(self.shards)))
            bits = np.asarray(words[predicate // BITS_PER_WORD])
            known = self._holds[predicate] = ((bits >> (predicate % BITS_PER_WORD)) & 1).astype(np.bool_)
        return known

    def of_keys(self, used: Ints) -> tuple[RowTables, Column]:
        """Tables with some of the keys alone, and their new numbers by their old ones, in the same order."""
        tables = copy(self)
        tables.keys = self._no_keys()
        numbers = np.zeros(len(self.keys), np.uint32)
        # Keys are numbered as they appear; here that is from the least number to the greatest.
        numbers[used] = tables.keys.ids(self.keys.decode(used), len(used))
        return tables, numbers

    def _no_keys(self) -> KeyTable:
        return KeyTable([self._plan.stream.attributes[key] for key in self._tree.group_by])

    def _multisets_of(self, component: Component, items: pa.Array, counts: pa.Array) -> Multisets:
        offsets = np.asarray(items.offsets).astype(np.int64)
        flat = items.flatten()
        if component in self._strings:
            values: Column = self._strings[component].codes(flat)
        else:
            values = np.asarray(flat.cast(pa.int64()) if pa.types.is_boolean(flat.type) else flat)
        numbers = np.asarray(counts.flatten())
        return Multisets(values, numbers, offsets - offsets[0], self._strings.get(component))


def _united(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch | pa.Table:
    table = pa.Table.from_batches(batches, schema)
    return table.combine_chunks().to_batches()[0] if table.num_rows else schema.empty_table()


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
