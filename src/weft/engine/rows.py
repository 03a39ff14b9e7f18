"""Rows: partials as arrays, sorted by (key, slot, shard), and combined where these are equal.

Partials of one key, slot and shard come from several batches, and from several slots of one fragment. Combining them
keeps one row for each, whatever the number of batches and the length of fragments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates.components import Component, Kind
from weft.engine.sketches import bytes_of_column, combine_stretches
from weft.kernels.folding import fold_extreme, fold_sum_pairs
from weft.kernels.multisets import gather_runs, merge_runs

Ints = npt.NDArray[np.int64]
Column = npt.NDArray[Any]


@dataclass
class Multisets:
    """The multiset of each row: runs of items with their counts, end to end."""

    items: Column
    counts: Ints
    offsets: Ints

    def take(self, rows: Ints) -> Multisets:
        """The multisets of some rows."""
        return Multisets(*gather_runs(self.items, self.counts, self.offsets, rows))

    def joined(self, other: Multisets) -> Multisets:
        """These, and then those of another."""
        return Multisets(
            np.concatenate([self.items, other.items]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]]),
        )

    def merged(self, bounds: Ints) -> Multisets:
        """One multiset for the rows between each two bounds."""
        return Multisets(*merge_runs(self.items, self.counts, self.offsets[bounds]))


@dataclass
class Rows:
    """Partials as arrays; `keys` and `shards` are numbers in the tables of the store."""

    keys: Ints
    slots: Ints
    shards: Ints
    columns: dict[str, Column] = field(default_factory=dict)
    multisets: dict[Component, Multisets] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def nbytes(self) -> int:
        """The memory of all columns."""
        arrays = [self.keys, self.slots, self.shards, *self.columns.values()]
        for runs in self.multisets.values():
            arrays += [runs.items, runs.counts, runs.offsets]
        sketches = (column for column in self.columns.values() if column.dtype == np.object_)
        return sum(array.nbytes for array in arrays) + sum(bytes_of_column(column) for column in sketches)

    def take(self, rows: Ints) -> Rows:
        """Some rows, in the order given."""
        return Rows(
            self.keys[rows],
            self.slots[rows],
            self.shards[rows],
            {name: column[rows] for name, column in self.columns.items()},
            {component: runs.take(rows) for component, runs in self.multisets.items()},
        )

    def joined(self, other: Rows) -> Rows:
        """These rows, and then those of another."""
        return Rows(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.slots, other.slots]),
            np.concatenate([self.shards, other.shards]),
            {name: np.concatenate([column, other.columns[name]]) for name, column in self.columns.items()},
            {component: runs.joined(other.multisets[component]) for component, runs in self.multisets.items()},
        )

    def sorted(self) -> Rows:
        """By key, then slot, then shard. Cost: the old rows are one sorted run, which a stable sort merges."""
        if not len(self):
            return self
        lowest = self.slots.min()
        span = int(self.slots.max() - lowest) + 1
        shards = int(self.shards.max()) + 1
        if span < 2**62 // (shards * (int(self.keys.max()) + 1)):
            word = (self.keys * span + (self.slots - lowest)) * shards + self.shards
            return self.take(np.argsort(word, kind="stable"))
        return self.take(np.lexsort((self.shards, self.slots, self.keys)))

    def combined(self, components: Iterable[Component]) -> Rows:
        """One row for all sorted rows with the same key, slot and shard."""
        is_first = np.ones(len(self), np.bool_)
        for column in (self.keys, self.slots, self.shards):
            is_first[1:] &= column[1:] == column[:-1]
        is_first[1:] = ~is_first[1:]
        starts = np.flatnonzero(is_first)
        if len(starts) == len(self):
            return self
        bounds = np.append(starts, len(self))
        columns: dict[str, Column] = {}
        multisets: dict[Component, Multisets] = {}
        for component in components:
            if component.kind is Kind.VALUES:
                multisets[component] = self.multisets[component].merged(bounds)
            elif component.kind.is_sketch:
                (name,) = component.column_names()
                columns[name] = combine_stretches(component.kind, self.columns[name], bounds)
            else:
                names = component.column_names()
                given = [self.columns[name] for name in names]
                columns.update(zip(names, _folded(component.kind, given, bounds), strict=True))
        return Rows(self.keys[starts], self.slots[starts], self.shards[starts], columns, multisets)


def _folded(kind: Kind, columns: list[Column], bounds: Ints) -> tuple[Column, ...]:
    """One value per stretch between two bounds."""
    low, high = bounds[:-1], bounds[1:]
    match kind:
        case Kind.SUM_FLOAT | Kind.SQUARES:
            return fold_sum_pairs(columns[0], columns[1], low, high)
        case Kind.MIN | Kind.MAX:
            return (fold_extreme(columns[0], low, high, kind is Kind.MAX),)
        case _:
            return tuple(np.add.reduceat(column, low) for column in columns)
