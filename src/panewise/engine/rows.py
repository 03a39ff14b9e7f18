"""Rows: partials as arrays, sorted by (key, slot, shard), and combined where these are equal.

Partials of one key, slot and shard come from several batches, and from several slots of one fragment. Combining them
keeps one row for each, for any number of batches and any length of fragments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component, Kind
from panewise.arrays import Column, Ints
from panewise.engine.joined import fold_joined
from panewise.engine.sketches import combine_stretches
from panewise.engine.tables import ColumnTable
from panewise.kernels.folding import fold_extreme, fold_squares, fold_sum_pairs
from panewise.kernels.multisets import gather_runs, merge_runs
from panewise.kernels.ordering import order_words


@dataclass
class Multisets:
    """The multiset of each row: runs of items with their counts, end to end."""

    items: Column
    counts: Ints
    offsets: Ints
    strings: ColumnTable | None = None
    """What the items stand for, if they are strings."""

    def take(self, rows: Ints) -> Multisets:
        """The multisets of some rows."""
        return Multisets(*gather_runs(self.items, self.counts, self.offsets, rows), self.strings)

    def joined(self, other: Multisets) -> Multisets:
        """These, and then those of another."""
        return Multisets(
            np.concatenate([self.items, other.items]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]]),
            self.strings,
        )

    def merged(self, bounds: Ints) -> Multisets:
        """One multiset for the rows between each two bounds."""
        return Multisets(*merge_runs(self.items, self.counts, self.offsets[bounds]), self.strings)


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

    def take(self, rows: Ints) -> Rows:
        """Some rows, in the order given."""
        return Rows(
            self.keys[rows],
            self.slots[rows],
            self.shards[rows],
            {name: column[rows] for name, column in self.columns.items()},
            {component: runs.take(rows) for component, runs in self.multisets.items()},
        )

    def joined(self, *others: Rows) -> Rows:
        """These rows, and then those of others."""
        every = [self, *others]
        return Rows(
            np.concatenate([rows.keys for rows in every]),
            np.concatenate([rows.slots for rows in every]),
            np.concatenate([rows.shards for rows in every]),
            {name: np.concatenate([rows.columns[name] for rows in every]) for name in self.columns},
            {
                component: reduce(Multisets.joined, (rows.multisets[component] for rows in every))
                for component in self.multisets
            },
        )

    def merged(self, components: Iterable[Component]) -> Rows:
        """Sorted by key, then slot, then shard, with rows that agree in these combined into one.

        Cost: O(rows) for each digit that keys, slots and shards have; only equal rows are folded.
        """
        if not len(self):
            return self
        order, is_first = self._order()
        starts = np.flatnonzero(is_first)
        if len(starts) == len(order):
            return self.take(order)
        lengths = np.diff(starts, append=len(order))
        several = np.flatnonzero(lengths > 1)
        equal = order[np.repeat(lengths > 1, lengths)]
        bounds = np.concatenate([[0], np.cumsum(lengths[several])])
        kept = order[starts]
        columns: dict[str, Column] = {}
        multisets: dict[Component, Multisets] = {}
        for component in components:
            if component.kind is Kind.VALUES:
                multisets[component] = self.multisets[component].take(order).merged(np.append(starts, len(order)))
                continue
            names = component.column_names()
            folded = fold_stretches(component.kind, [self.columns[name][equal] for name in names], bounds)
            for name, values in zip(names, folded, strict=True):
                columns[name] = self.columns[name][kept]
                columns[name][several] = values
        return Rows(self.keys[kept], self.slots[kept], self.shards[kept], columns, multisets)

    def _order(self) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """The order of rows, and which ordered rows are the first with their key, slot and shard."""
        lowest = self.slots.min()
        span = int(self.slots.max() - lowest) + 1
        shards = int(self.shards.max()) + 1
        keys = int(self.keys.max()) + 1
        is_first = np.ones(len(self), np.bool_)
        if span < 2**62 // (shards * keys):
            word = (self.keys * span + (self.slots - lowest)) * shards + self.shards
            order = order_words(word, keys * span * shards)
            word = word[order]
            np.not_equal(word[1:], word[:-1], out=is_first[1:])
            return order, is_first
        order = np.lexsort((self.shards, self.slots, self.keys))
        is_first[1:] = False
        for column in (self.keys[order], self.slots[order], self.shards[order]):
            is_first[1:] |= column[1:] != column[:-1]
        return order, is_first


def fold_stretches(kind: Kind, columns: list[Column], bounds: Ints) -> tuple[Column, ...]:
    """One value of a component for each stretch between two bounds."""
    low, high = bounds[:-1], bounds[1:]
    if kind.is_sketch:
        return (combine_stretches(kind, columns[0], bounds),)
    if kind.is_joined:
        return fold_joined(kind, columns, low, high)
    match kind:
        case Kind.SUM_FLOAT:
            return fold_sum_pairs(columns[0], columns[1], low, high)
        case Kind.SQUARES:
            return fold_squares(tuple(columns), low, high)
        case Kind.MIN | Kind.MAX:
            return (fold_extreme(columns[0], low, high, kind is Kind.MAX),)
        case _:
            return tuple(np.add.reduceat(column, low) for column in columns)
