"""The slot store: the keyed, columnar state of one execution tree, and the answers of the windows that close.

This is the inner part of the engine and of each Spark bucket: partials are appended, windows are closed, old fragments
leave. Each partial goes to the fragment of its slot, which is named by its first slot. Rows are kept sorted by (key,
slot) in packed arrays; a row is the partial of one fragment. Closing folds each window's rows with `kernels.folding`,
so a combine is done a constant number of times whatever the overlap. New partials wait until a window closes, or until
they are as many as the rows: so a row is moved a constant number of times for each window that closes.

A structure that keeps its own state between closings takes the place of `_fold` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.components import Component, Kind
from weft.aggregates.types import Type
from weft.engine.answers import Groups
from weft.engine.closed import ClosedWindows, Fold, View
from weft.engine.combine import partials_schema
from weft.engine.packed_rows import NO_SLOT, PackedRows
from weft.engine.rows import Multisets, Rows
from weft.engine.sketches import from_arrow, to_arrow
from weft.engine.tables import ColumnTable, IntTable, KeyTable
from weft.kernels.instances import closed_instances
from weft.planning.plan import BITS_PER_WORD, PlannedQuery, StreamPlan, Tree
from weft.windows import Window
from weft.windows.slots import instances_closed, lengths_in_slots

Ints = npt.NDArray[np.int64]
Column = npt.NDArray[Any]

FEWEST_NEW = 131_072
"""Partials that may wait before they are merged, whatever the number of rows."""


class SlotStore:
    """The partials of one tree, from the oldest slot that an open window may need.

    `append` costs O(1) a batch and O(log rows) a partial over time; `close` nothing where no window ends, else one
    merge of what is new, then O(rows + answers) per different window and predicate. Space: `PackedRows`, and what is
    new.
    """

    def __init__(self, plan: StreamPlan, tree: Tree) -> None:
        self.plan = plan
        self.tree = tree
        self._schema = partials_schema(plan, tree)
        self._key_types = [plan.stream.attributes[key] for key in tree.group_by]
        self._keys = KeyTable(self._key_types)
        self._shards = KeyTable([Type.BIGINT] * plan.shard_words)
        self._items = {
            component: ColumnTable(Type.STRING)
            for component in tree.components
            if component.kind is Kind.VALUES and plan.inputs[component.input or 0].type is Type.STRING
        }
        self._rows = PackedRows(self._to_rows([]).take(np.arange(0)))
        self._new: list[pa.RecordBatch] = []
        self._new_rows = 0
        self._lowest_new = NO_SLOT
        """The least slot that is new."""
        self._oldest: int | None = None
        """Rows before this slot, and those of the first `_old_batches` that are new, are about to leave."""
        self._old_batches = 0
        self.fed = 0
        """How many partials were taken in."""
        self.folded = 0
        """How many fragments were visited, and answers made of them, as windows closed."""

    @property
    def live_rows(self) -> int:
        """How many partials are held."""
        if self._oldest is not None:
            self._settle()
        return len(self._rows) + self._new_rows

    @property
    def live_keys(self) -> int:
        """How many keys have a number; those of silent keys are given back as slots leave."""
        return len(self._keys)

    @property
    def bytes_held(self) -> int:
        """The memory of all rows, new ones merged, and of the tables of keys and shards."""
        self._settle()
        return self._rows.nbytes + self._keys.nbytes + self._shards.nbytes

    def append(self, partials: pa.RecordBatch) -> None:
        """Take in partials of the tree's base, or of the tree itself, of any slots, in any order."""
        if not partials.num_rows:
            return
        partials = partials.select(self._schema.names)
        lowest = self.tree.cuts.starts(np.asarray(partials.column("slot")).min(keepdims=True))
        self._new.append(partials)
        self._new_rows += partials.num_rows
        self.fed += partials.num_rows
        self._lowest_new = min(self._lowest_new, int(lowest[0]))
        if self._new_rows > max(FEWEST_NEW, len(self._rows)):
            self._settle()

    def close(
        self, queries: Iterable[PlannedQuery], windows: Iterable[Window], after: int | None, until: int | None
    ) -> Iterator[ClosedWindows]:
        """The answers of each query's windows that end in (after, until]; None is the end of time on its side.

        `windows` are the different ones of the queries. Each query's folded windows come as one `ClosedWindows`;
        queries with the same window and predicate share the search for instances and every component that they have in
        common.
        """
        closing: dict[Window, tuple[int, int]] = {}
        for window in windows:
            first, last = instances_closed(window, self.tree.granularity, after, until)
            if first <= last:
                closing[window] = first, last
        if not closing:
            return
        self._settle()
        views: dict[int | None, View] = {}
        folds: dict[tuple[int | None, Window], Fold] = {}
        for planned in queries:
            predicate, window = planned.predicate, planned.query.window
            if window not in closing:
                continue
            if predicate not in views:
                views[predicate] = View(self._rows, self._passing(predicate))
            if (predicate, window) not in folds:
                folds[predicate, window] = self._fold(views[predicate], window, *closing[window])
            fold = folds[predicate, window]
            if len(fold):
                yield ClosedWindows(planned, fold)

    def evict(self, oldest: int) -> None:
        """Forget the fragments before the slot `oldest`, and the keys that have none left."""
        if oldest > min(self._rows.lowest_slot, self._lowest_new):
            self._oldest = oldest if self._oldest is None else max(oldest, self._oldest)
            self._old_batches = len(self._new)

    def partials(self) -> pa.RecordBatch:
        """All that is held, as partials that another store can append: the content of a snapshot."""
        self._settle()
        rows = self._rows.unpacked()
        columns: list[pa.Array] = [pa.array(rows.slots), *self._keys.decode(rows.keys)]
        columns += self._shards.decode(rows.shards)
        for component in self.tree.components:
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
            if component in self._items:
                items = self._items[component].decode(runs.items.astype(np.int64))
            items = items.cast(self._schema.field(names[0]).type.value_type)
            columns += [
                pa.ListArray.from_arrays(offsets, items),
                pa.ListArray.from_arrays(offsets, pa.array(runs.counts)),
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def check_invariants(self) -> None:
        """Rows are sorted by (key, slot, shard), none twice, with a value in every column, and runs lie end to end."""
        rows = self._rows.unpacked()
        places = list(zip(rows.keys.tolist(), rows.slots.tolist(), rows.shards.tolist()))
        assert places == sorted(set(places))
        assert np.array_equal(self.tree.cuts.starts(rows.slots), rows.slots)
        assert all(len(column) == len(rows) for column in rows.columns.values())
        for runs in rows.multisets.values():
            assert len(runs.offsets) == len(rows) + 1
            assert runs.offsets[0] == 0
            assert runs.offsets[-1] == len(runs.items) == len(runs.counts)
            assert np.all(runs.counts > 0)

    def _fold(self, view: View, window: Window, first: int, last: int) -> Fold:
        """The instances first .. last of a window, each with its range of the view's rows."""
        length, slide = lengths_in_slots(window, self.tree.granularity)
        # Enough room in most cases: one instance a key when few close, one a row when many do.
        room = min(len(view.slots), (len(view.segments) - 1) * (last - first + 1))
        found = np.empty((4, room), np.int64)
        count = closed_instances(view.slots, view.segments, length, slide, first, last, found)
        if count > room:
            found = np.empty((4, count), np.int64)
            closed_instances(view.slots, view.segments, length, slide, first, last, found)
        owner, instances, low, high = found[:, :count]
        if count:
            # Ranges of one key overlap: two stacks visit each row once, and each instance once more.
            behind = np.append(low[0], high[:-1])
            self.folded += int((high - np.maximum(low, behind)).sum()) + count
        groups = Groups(self.tree.group_by, self._keys)
        return Fold(view, view.keys[owner], instances, low, high, self.plan, groups)

    def _passing(self, predicate: int | None) -> Ints | None:
        """The rows whose shard satisfies a predicate; None for all rows."""
        if predicate is None:
            return None
        words = self._shards.decode(np.arange(len(self._shards)))
        bits = np.asarray(words[predicate // BITS_PER_WORD])
        holds = ((bits >> (predicate % BITS_PER_WORD)) & 1).astype(np.bool_)
        return np.flatnonzero(holds[self._rows.shards])

    def _settle(self) -> None:
        """Merge what is new into the sorted rows, without what is old."""
        oldest, self._oldest = self._oldest, None
        if not self._new and oldest is None:
            return
        rows = self._rows.unpacked(None if oldest is None else np.flatnonzero(self._rows.slots >= oldest))
        left = self._rows.lowest_slot
        if self._new:
            new = self._to_rows(self._new)
            if oldest is not None:
                # What came after the eviction stays, whatever its slot.
                held = sum(batch.num_rows for batch in self._new[: self._old_batches])
                new = new.take(np.flatnonzero((new.slots >= oldest) | (np.arange(len(new)) >= held)))
            rows = rows.joined(new).merged(self.tree.components)
            self._new, self._new_rows, self._lowest_new = [], 0, NO_SLOT
        self._rows = PackedRows(rows)
        if oldest is not None and oldest > left:
            self._renumber_keys()

    def _to_rows(self, batches: list[pa.RecordBatch]) -> Rows:
        table = pa.Table.from_batches(batches, self._schema)
        batch = table.combine_chunks().to_batches()[0] if table.num_rows else self._schema.empty_table()
        columns: dict[str, Column] = {}
        multisets: dict[Component, Multisets] = {}
        for component in self.tree.components:
            names = component.column_names()
            if component.kind is Kind.VALUES:
                multisets[component] = self._to_multisets(component, _one(batch, names[0]), _one(batch, names[1]))
            elif component.kind.is_sketch:
                columns[names[0]] = from_arrow(_one(batch, names[0]))
            else:
                columns.update({name: np.asarray(_one(batch, name)) for name in names})
        keys = [_one(batch, self.plan.key_column(key)) for key in self.tree.group_by]
        # Predicates that no query of this tree has would only split its partials.
        words = [
            pa.array(np.asarray(_one(batch, f"shard_{word}")) & np.int64(mask))
            for word, mask in enumerate(self.plan.shard_masks(self.tree.predicates))
        ]
        return Rows(
            self._keys.ids(keys, batch.num_rows),
            self.tree.cuts.starts(np.asarray(_one(batch, "slot"))),
            self._shards.ids(words, batch.num_rows),
            columns,
            multisets,
        )

    def _to_multisets(self, component: Component, items: pa.Array, counts: pa.Array) -> Multisets:
        offsets = np.asarray(items.offsets).astype(np.int64)
        flat = items.flatten()
        if component in self._items:
            values: Column = self._items[component].codes(flat)
        else:
            values = np.asarray(flat.cast(pa.int64()) if pa.types.is_boolean(flat.type) else flat)
        return Multisets(values, np.asarray(counts.flatten()), offsets - offsets[0])

    def _renumber_keys(self) -> None:
        """Give the numbers of keys without rows back, once they are the larger part."""
        used = IntTable()
        numbers = used.ids(self._rows.keys)
        if 2 * len(used) >= len(self._keys) or not self.tree.group_by:
            return
        live = self._keys.decode(used.values)
        self._keys = KeyTable(self._key_types)
        # Rows are sorted by key and keys are numbered as they appear, so the order of the rows stays.
        self._rows.keys = self._keys.ids(live, len(used))[numbers]


def _one(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = batch.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
