"""Picked rows: some rows of a store's runs, by slots or by keys, and those of them that pass one predicate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component, Kind
from panewise.arrays import Bools, Column, Ints, Numbers
from panewise.engine.closed_windows import View
from panewise.engine.packed_rows import PackedRows, Places
from panewise.engine.rows import Multisets, Rows
from panewise.engine.sketches import open_in_place
from panewise.kernels.key_ranges import key_ranges, rows_of_ranges
from panewise.kernels.ordering import order_words


class PredicateRows:
    """The rows that pass one predicate, over all runs of a store. What several windows read is picked once."""

    def __init__(self, runs: Iterable[PackedRows], holds: Bools | None) -> None:
        self._runs = list(runs)
        self._holds = holds
        self._newest: dict[tuple[int, int], PickedRows] = {}

    def between(self, first: int, end: int) -> PickedRows:
        """The rows with slots from `first` up to `end`."""
        found = ((run, run.rows_between(first, end, self._holds)) for run in self._runs)
        return PickedRows([(run, rows) for run, rows in found if len(rows)])

    def count(self, first: int, end: int) -> int:
        """How many rows have slots from `first` up to `end`, with any predicate."""
        counts = [run.count_from(np.array([first, end])) for run in self._runs]
        return int(sum(from_first - from_end for from_first, from_end in counts))

    def of_keys(self, keys: Ints | None, first: int, end: int, components: Iterable[Component], empty: Rows) -> View:
        """The rows of some keys, which rise, or of all, with slots from `first` up to `end`; `empty` has no row.

        Cost: O(log rows) a key and run, and the rows found; O(rows) for all keys.
        """
        picked = self.rows_of_keys(keys, first, end)
        if not len(picked):
            return View(PackedRows(empty), None)
        for component in filter(lambda one: one.kind.is_sketch, components):
            picked.open(component)
        if picked.is_of_one_run:
            return View(picked, None)
        numbers = picked.keys if keys is None else np.searchsorted(keys, picked.keys)
        lowest, count = int(picked.slots.min()), int(numbers.max()) + 1
        span = int(picked.slots.max()) - lowest + 1
        if span >= 2**62 // count:
            return View(picked, np.lexsort((picked.slots, numbers)))
        words = numbers.astype(np.int64) * span + (picked.slots - lowest)
        return View(picked, order_words(words, count * span))

    def rows_of_keys(self, keys: Ints | None, first: int, end: int) -> PickedRows:
        """The same rows, those of one run after those of another."""
        parts = []
        for run in self._runs:
            from_place, to_place = run.places_between(first, end)
            passes = None if self._holds is None else self._holds[run.place_shards]
            if from_place == to_place or not (passes is None or passes[from_place:to_place].any()):
                continue
            if keys is None:
                rows = np.flatnonzero((run.places >= from_place) & (run.places < to_place))
            else:
                low, high = np.empty((2, len(keys)), np.int64)
                # The rows of a key lie in the order of their places.
                total = key_ranges(run.numbers, run.places, keys, from_place, to_place, low, high)
                rows = np.arange(low[0], high[0]) if len(keys) == 1 else rows_of_ranges(low, high, total)
            if passes is not None:
                rows = rows[passes[run.places[rows]]]
            if len(rows):
                parts.append((run, rows))
        return PickedRows(parts)

    def entering(self, first: int, end: int) -> PickedRows:
        """The same, kept for the other windows that go on from there."""
        if (first, end) not in self._newest:
            self._newest[first, end] = self.between(first, end)
        return self._newest[first, end]


class PickedRows:
    """Some rows of several runs."""

    def __init__(self, parts: Sequence[tuple[PackedRows, Places | Ints]]) -> None:
        self._parts = parts
        self.keys: Numbers = _joined([run.numbers[rows] for run, rows in parts], np.uint32)
        self._columns: dict[Component, tuple[Column, ...]] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def is_of_one_run(self) -> bool:
        """Whether the rows are sorted, as those of one run are."""
        return len(self._parts) == 1

    def open(self, component: Component) -> None:
        """Open the sketches of a component where they are held, so that they stay open for the next time."""
        for run, rows in self._parts:
            open_in_place(component.kind, run.column(component.column_names()[0]), rows.astype(np.int64))

    @cached_property
    def slots(self) -> Ints:
        """The slot of each row."""
        return _joined([run.place_slots[run.places[rows]] for run, rows in self._parts], np.int64)

    def columns(self, component: Component) -> tuple[Column, ...]:
        """The columns of a component."""
        if component not in self._columns:
            self._columns[component] = tuple(self.column(name) for name in component.column_names())
        return self._columns[component]

    def is_same(self, component: Component, other: Component) -> bool:
        """Whether two components, each of one column, have the same values in all rows."""
        (name,), (others_name,) = component.column_names(), other.column_names()
        if all(run.is_same(name, others_name) for run, _ in self._parts):
            return True
        (values,), (others,) = self.columns(component), self.columns(other)
        return np.array_equal(values, others)

    def column(self, name: str, rows: Ints | None = None) -> Column:
        """One column of a component, of some of the rows or of all."""
        values = _joined([run.column(name, picked) for run, picked in self._parts], np.int64)
        return values if rows is None else values[rows]

    def multisets(self, component: Component, rows: Ints | None = None) -> Multisets:
        """The multisets of a component, of some of the rows or of all."""
        values = reduce(
            Multisets.joined, (run.multisets(component, picked.astype(np.int64)) for run, picked in self._parts)
        )
        return values if rows is None else values.take(rows)

    def as_rows(self, components: Iterable[Component]) -> Rows:
        """The rows with some of their components, whatever predicates they pass; there is at least one."""
        plain = Rows(self.keys.astype(np.int64), self.slots, np.zeros(len(self), np.int64))
        for component in components:
            if component.kind is Kind.VALUES:
                plain.multisets[component] = self.multisets(component)
            else:
                plain.columns.update(zip(component.column_names(), self.columns(component), strict=True))
        return plain

    def picked(self, rows: Ints | None) -> tuple[Ints, Ints]:
        """The keys and slots of some of the rows, or of all."""
        keys = self.keys.astype(np.int64)
        return (keys, self.slots) if rows is None else (keys[rows], self.slots[rows])

    def shards(self, rows: Ints | None) -> Ints:
        """The shard of some of the rows, or of all."""
        shards = _joined([run.shards(picked.astype(np.int64)) for run, picked in self._parts], np.int64)
        return shards if rows is None else shards[rows]


def _joined(columns: list[Column], dtype: npt.DTypeLike) -> Column:
    if len(columns) == 1:
        return columns[0]
    return np.concatenate(columns) if columns else np.empty(0, dtype)
