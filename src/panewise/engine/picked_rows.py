"""Picked rows: some rows of a store's runs, by slots or by keys, and those of them that pass one predicate."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component
from panewise.engine.closed_windows import View
from panewise.engine.packed_rows import PackedRows, Places
from panewise.engine.rows import Rows
from panewise.engine.sketches import open_in_place
from panewise.kernels.key_ranges import rows_of_ranges

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
Numbers = npt.NDArray[np.unsignedinteger[Any]]


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

    def of_keys(self, keys: Ints, first: int, end: int, components: Iterable[Component], empty: Rows) -> View:
        """The rows of some keys, which rise, with slots from `first` up to `end`; `empty` has no row.

        Cost: O(log rows) a key and run, and the rows of these keys.
        """
        found = empty
        for run in self._runs:
            passes = (run.place_slots >= max(first, run.oldest)) & (run.place_slots < end)
            if self._holds is not None:
                passes &= self._holds[run.place_shards]
            if not passes.any():
                continue
            bounds = np.searchsorted(run.numbers, np.append(keys, keys + 1).astype(np.uint32))
            low, high = bounds[: len(keys)], bounds[len(keys) :]
            rows = rows_of_ranges(low, high, int((high - low).sum()))
            rows = rows[passes[run.places[rows]]]
            for component in components:
                if component.kind.is_sketch:
                    # Opened here, they stay open for the next time.
                    open_in_place(component.kind, run.column(component.column_names()[0]), rows)
            found = found.joined(run.unpacked(rows))
        return View(PackedRows(found.merged(components)), None)

    def entering(self, first: int, end: int) -> PickedRows:
        """The same, kept for the other windows that go on from there."""
        if (first, end) not in self._newest:
            self._newest[first, end] = self.between(first, end)
        return self._newest[first, end]


class PickedRows:
    """Some rows of several runs."""

    def __init__(self, parts: list[tuple[PackedRows, Places]]) -> None:
        self._parts = parts
        self.keys: Numbers = _joined([run.numbers[rows] for run, rows in parts], np.uint32)
        self._columns: dict[Component, tuple[Column, ...]] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def slots(self) -> Ints:
        """The slot of each row."""
        return _joined([run.place_slots[run.places[rows]] for run, rows in self._parts], np.int64)

    def columns(self, component: Component) -> tuple[Column, ...]:
        """The columns of a component."""
        if component not in self._columns:
            self._columns[component] = tuple(
                _joined([run.column(name, rows) for run, rows in self._parts], np.int64)
                for name in component.column_names()
            )
        return self._columns[component]


def _joined(columns: list[Column], dtype: npt.DTypeLike) -> Column:
    if len(columns) == 1:
        return columns[0]
    return np.concatenate(columns) if columns else np.empty(0, dtype)
