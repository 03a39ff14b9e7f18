"""The lookup store: the partials of queries with the same groups, found by key.

Invariant: rows lie in runs, each sorted by (key, slot); a run has at least `RATIO` times as many rows as the next.
Cost: a batch is sorted in O(its rows log runs) amortised; a lookup of some keys takes O(log rows) a key and run to find
the rows, and then folds these alone. A lookup of all keys takes O(rows). Space: three words and the component columns
a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from secrets import token_hex
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Component
from panewise.aggregates.sketches import Sketches
from panewise.engine.answers import Groups
from panewise.engine.closed_windows import ClosedWindows, Fold, View
from panewise.engine.rows import Multisets, Rows
from panewise.engine.sketches import open_in_place
from panewise.engine.slot_store import SlotStore
from panewise.engine.tables import IntTable, KeyTable
from panewise.kernels.folding import prefix_sums
from panewise.kernels.key_ranges import key_ranges, rows_of_ranges
from panewise.planning.optimize import components_of
from panewise.planning.trees import BITS_PER_WORD, PlannedQuery, StreamPlan, Tree

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
Components = tuple[Component, ...]

RATIO = 4
"""How much longer a run is than the next one. A row is copied about four times for each fourfold growth, and millions
of rows lie in fewer than ten runs."""


class LookupStore:
    """The partials of one tree, for lookups of some keys or of all."""

    def __init__(self, plan: StreamPlan, tree: Tree) -> None:
        self.plan = plan
        self.tree = tree
        self._numbering = _Numbering(plan, tree)
        self._runs: list[Rows] = []
        self._new: list[pa.RecordBatch] = []
        self._components: dict[str, Components] = {}
        self.forgotten = -(2**62)
        """Slots before this one are forgotten."""
        self.version = 0
        """A new number whenever partials have come."""
        self.numbering = token_hex(8)
        """Another text once keys have other numbers."""

    @property
    def live_rows(self) -> int:
        """How many partials are held."""
        return sum(map(len, self._runs)) + sum(int(batch.num_rows) for batch in self._new)

    @property
    def bytes_held(self) -> int:
        """The memory of the rows."""
        return sum(run.nbytes for run in self._runs)

    @property
    def key_table(self) -> KeyTable:
        """Keys by number; a new table once numbers have been given back."""
        return self._numbering.keys

    def append(self, partials: pa.RecordBatch) -> None:
        """Take in partials of the tree's base, of any slots, in any order."""
        if partials.num_rows:
            self._new.append(partials)

    def settle(self, oldest: int, *, gathers: bool = False) -> None:
        """Make a run of what is new, and longer runs of short ones; forget slots before `oldest` gradually.

        If it `gathers`, they become one slot instead.
        """
        if not self._new:
            return
        components = self.tree.components
        run = self._numbering.rows_of(self._new).merged(components)
        self._new = []
        self.version += 1
        while self._runs and len(self._runs[-1]) < RATIO * len(run):
            run = self._runs.pop().joined(run).merged(components)
        self._runs.append(run)
        if len(self._runs) == 1:
            self.forgotten = max(self.forgotten, oldest)
            before = self.key_table
            if gathers:
                earlier = int(self.tree.cuts.starts(np.array([oldest - 1]))[0])
                self._runs[0] = replace(run, slots=np.where(run.slots < oldest, earlier, run.slots)).merged(components)
                return
            self._runs[0] = self._numbering.renumbered(run.take(np.flatnonzero(run.slots >= oldest)))
            if self.key_table is not before:
                self.numbering = token_hex(8)

    def replace_runs(self, replaced: Callable[[Rows], Rows]) -> None:
        """Hold other runs with the same rows, such as runs whose arrays are shared with other processes."""
        self._runs = [replaced(run) for run in self._runs]

    def find(self, keys: list[pa.Array], length: int) -> Ints:
        """The numbers of keys; -1 for an unknown key."""
        return self.key_table.find(keys, length)

    def fold(
        self, planned: PlannedQuery, wanted: Ints | None, from_slot: int, to_slot: int, instance: int
    ) -> ClosedWindows:
        """One window, from one slot up to another, of the keys with these rising numbers, or of all keys.

        Keys without rows drop out. Call `settle` before, if there is anything new.
        """
        found = self.rows(planned.predicate, self._components_of(planned), wanted, from_slot, to_slot)
        rows = self.joined(found)
        if len(found) > 1 and (wanted is None or len(wanted) > 1):
            rows = rows.take(np.argsort(rows.keys, kind="stable"))
        view = PlainView(rows, is_one_key=wanted is not None and len(wanted) == 1)
        starts, ends = view.segments[:-1], view.segments[1:]
        groups = Groups(self.tree.group_by, self.key_table)
        instances = np.full(len(starts), instance)
        return ClosedWindows(planned, Fold(view, view.keys[starts], instances, starts, ends, self.plan, groups))

    def rows(
        self, predicate: int | None, components: Components, wanted: Ints | None, from_slot: int, to_slot: int
    ) -> list[Rows]:
        """The rows of some keys, or of all, that a window covers and a predicate lets through, run by run."""
        found = ((run, self._places(run, predicate, wanted, from_slot, to_slot)) for run in self._runs)
        return [self._picked(run, components, places) for run, places in found if len(places)]

    def joined(self, found: list[Rows]) -> Rows:
        """Rows of several runs, one after the other."""
        if not found:
            return self._numbering.rows_of([])
        return reduce(Rows.joined, found)

    def check_invariants(self) -> None:
        """Runs are sorted by (key, slot, shard), none twice, and each is much longer than the next."""
        for run in self._runs:
            places = list(zip(run.keys.tolist(), run.slots.tolist(), run.shards.tolist()))
            assert places == sorted(set(places))
            assert np.array_equal(self.tree.cuts.starts(run.slots), run.slots)
            assert np.all(run.keys < len(self.key_table))
            assert all(len(column) == len(run) for column in run.columns.values())
        assert all(longer >= RATIO * shorter for longer, shorter in pairwise(map(len, self._runs)))

    def _places(self, run: Rows, predicate: int | None, wanted: Ints | None, from_slot: int, to_slot: int) -> Ints:
        """Where the rows of a run are that a window of some keys covers."""
        if wanted is None:
            rows = np.flatnonzero((run.slots >= from_slot) & (run.slots < to_slot))
        else:
            low, high = np.empty((2, len(wanted)), np.int64)
            total = key_ranges(run.keys, run.slots, wanted, from_slot, to_slot, low, high)
            rows = np.arange(low[0], high[0]) if len(wanted) == 1 else rows_of_ranges(low, high, total)
        if predicate is not None and len(rows):
            rows = rows[self._numbering.holds(predicate)[run.shards[rows]]]
        return rows

    def _components_of(self, planned: PlannedQuery) -> Components:
        components = self._components.get(planned.query.name)
        if components is None:
            components = components_of([planned], self.plan.input_types)
            self._components[planned.query.name] = components
        return components

    def _picked(self, run: Rows, components: Components, rows: Ints) -> Rows:
        columns: dict[str, Column] = {}
        multisets: dict[Component, Multisets] = {}
        for component in components:
            if component in run.multisets:
                multisets[component] = run.multisets[component]
                continue
            names = component.column_names()
            columns.update({name: run.columns[name] for name in names})
            if component.kind.is_sketch:
                open_in_place(component.kind, run.columns[names[0]], rows)
        return replace(run, columns=columns, multisets=multisets).take(rows)


class PlainView(View):
    """A view of few rows, as they are."""

    def __init__(self, rows: Rows, *, is_one_key: bool) -> None:
        self._plain = rows
        self.keys, self.slots = rows.keys, rows.slots
        if is_one_key and len(rows):
            self.segments = np.array([0, len(rows)])
        else:
            self.segments = np.append(np.flatnonzero(np.diff(self.keys, prepend=-1)), len(self.keys))

    def column(self, name: str) -> Column:
        """One column of a component."""
        return self._plain.columns[name]

    def prefix(self, name: str) -> Ints:
        """The prefix sums of an int64 column."""
        return prefix_sums(self._plain.columns[name])

    def sketches(self, component: Component) -> Sketches:
        """The sketches of a component, already open."""
        return self._plain.columns[component.column_names()[0]]

    def runs(self, component: Component) -> Multisets:
        """The multisets of a component."""
        return self._plain.multisets[component]


class _Numbering(SlotStore):
    """The part of a slot store that makes rows of partials: keys, shards and strings get numbers."""

    @property
    def keys(self) -> KeyTable:
        return self._keys

    def rows_of(self, partials: list[pa.RecordBatch]) -> Rows:
        """Partials as rows, in the order given."""
        return self._to_rows([batch.select(self._schema.names) for batch in partials])

    def holds(self, predicate: int) -> Bools:
        """Which shards satisfy a predicate."""
        bits = np.asarray(self._shards.decode(np.arange(len(self._shards)))[predicate // BITS_PER_WORD])
        holds: Bools = (bits >> (predicate % BITS_PER_WORD)) & 1 == 1
        return holds

    def renumbered(self, rows: Rows) -> Rows:
        """All rows. Once most keys are silent, their numbers are given back."""
        used = IntTable()
        numbers = used.ids(rows.keys)
        if 2 * len(used) >= len(self._keys) or not self.tree.group_by:
            return rows
        live = self._keys.decode(used.values)
        self._keys = KeyTable(self._key_types)
        # Rows are sorted by key and keys get numbers as they appear, so the order of the rows stays.
        return replace(rows, keys=self._keys.ids(live, len(used))[numbers])
