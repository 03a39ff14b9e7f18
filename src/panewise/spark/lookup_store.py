"""The lookup store: the partials of queries with the same groups, in few runs, so that some keys are found quickly.

Cost: a batch is sorted in O(its rows log runs) amortised; a lookup of some keys takes O(log rows) a key and run to find
the rows, and then folds these alone. A lookup of all keys takes O(rows).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from secrets import token_hex

import numpy as np
import pyarrow as pa

from panewise.aggregates.components import Component
from panewise.arrays import Ints
from panewise.engine.closed_windows import ClosedWindows, Fold
from panewise.engine.packed_rows import PackedRows
from panewise.engine.partial_store import PartialStore
from panewise.engine.rows import Rows
from panewise.engine.runs import RATIO, Runs
from panewise.engine.tables import KeyTable
from panewise.planning.optimize import components_of
from panewise.planning.trees import PlannedQuery, StreamPlan, Tree

Components = tuple[Component, ...]


class LookupStore(PartialStore):
    """The partials of one tree, for lookups of some keys or of all."""

    def __init__(self, plan: StreamPlan, tree: Tree) -> None:
        super().__init__(plan, tree, Runs(tree.components, are_few=True))
        self._components: dict[str, Components] = {}
        self.forgotten = -(2**62)
        """Slots before this one are forgotten."""
        self.version = 0
        """A new number whenever partials have come."""
        self.numbering = token_hex(8)
        """Another text once keys have other numbers."""

    @property
    def key_table(self) -> KeyTable:
        """Keys by number; a new table once numbers have been given back."""
        return self.tables.keys

    def settle(self, oldest: int, *, gathers: bool = False) -> None:
        """Make a run of what is new, and longer runs of short ones; forget slots before `oldest` gradually.

        If it `gathers`, they become one slot instead.
        """
        if self.version == self.fed:
            return
        self._settle()
        self.version = self.fed
        if len(self._runs) == 1:
            self.forgotten = max(self.forgotten, oldest)
            if gathers:
                self.gather(oldest, at_once=True)
                return
            self._runs.forget(oldest)
            self._runs.compact(self.tables.no_rows)
            before = self.key_table
            self._free_keys()
            if self.key_table is not before:
                self.numbering = token_hex(8)

    def replace_runs(self, replaced: Callable[[PackedRows], PackedRows]) -> None:
        """Hold other runs with the same rows, such as runs whose arrays are shared with other processes."""
        self._runs.replace(replaced)

    def find(self, keys: list[pa.Array], length: int) -> Ints:
        """The numbers of keys; -1 for an unknown key."""
        return self.key_table.find(keys, length)

    def fold(
        self, planned: PlannedQuery, wanted: Ints | None, from_slot: int, to_slot: int, instance: int
    ) -> ClosedWindows:
        """One window, from one slot up to another, of the keys with these rising numbers, or of all keys.

        Keys without rows drop out. Call `settle` before, if there is anything new.
        """
        components = self._components_of(planned)
        from_slot = max(from_slot, self._runs.lowest_slot)
        view = self.rows_of(planned.predicate).of_keys(wanted, from_slot, to_slot, components, self.tables.no_rows)
        starts, ends = view.segments[:-1], view.segments[1:]
        instances = np.full(len(starts), instance)
        fold = Fold(view, view.keys[starts], instances, starts, ends, self.plan, self.tables.groups)
        return ClosedWindows(planned, fold)

    def rows_from(self, predicate: int | None, components: Components, from_slot: int) -> Rows:
        """The rows of all keys from a slot on that a predicate lets through, in no order."""
        picked = self.rows_of(predicate).rows_of_keys(None, from_slot, 2**62)
        return picked.as_rows(components) if len(picked) else self.tables.no_rows

    def check_invariants(self) -> None:
        """Runs are in order, and each is much longer than the next."""
        super().check_invariants()
        assert all(longer >= RATIO * shorter for longer, shorter in pairwise(map(len, self._runs)))

    def _components_of(self, planned: PlannedQuery) -> Components:
        components = self._components.get(planned.query.name)
        if components is None:
            components = components_of([planned], self.plan.input_types)
            self._components[planned.query.name] = components
        return components
