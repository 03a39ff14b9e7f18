"""Base intervals (B-INT): any window from at most two stored combinations a level.

Invariant: node k of level j is the combination of positions k * 2**j .. (k + 1) * 2**j - 1, for every such block that
lies in what is held. A key's segment has a tree of them, laid out as a heap.
Cost: update 2, lookup 2 log2 W, space 2 Nmax, rounded up to a power of two. When a key moves to a segment twice as
long, its tree is built again: O(1) an element.
Needs: an associative combine. Source: Arasu and Widom, VLDB 2004, section 3.1.1.
"""

from __future__ import annotations

from math import log2
from typing import Any, ClassVar

import numpy as np

from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.kernels.base_intervals import append_trees, find_wrong_tree, fold_trees, move_trees
from panewise.kernels.key_folds import TREE
from panewise.structures.column import Column, Elements, Operation, ValuesColumn
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.sheet import FIXED_SIZE, SKETCHES, Cost, DataSheet, Lookups
from panewise.structures.sketch_intervals import BaseIntervalsOfSketches, SketchesByKey
from panewise.structures.structure import Structure


class TreesColumn(Column):
    """Two places for each place of the pool: a segment's leaves, and before them its inner nodes."""

    fold_way: ClassVar[int | None] = TREE

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._nodes = np.zeros(2 * pool.size, operation.dtype)

    def append(self, batch: Batch, values: Elements) -> None:
        operation, pool, b = self.operation, self.pool, batch
        append_trees(
            operation.code, operation.user, self._nodes, pool.offset, pool.shift,
            b.keys, b.bounds, b.begin, b.after, values,
        )  # fmt: skip

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        operation, pool = self.operation, self.pool
        return fold_trees(
            operation.code, operation.user, operation.identity, self._nodes, pool.offset, pool.shift, keys, low, high
        )

    def relocate(self, moves: Moves) -> None:
        target = self._nodes if moves.size is None else np.zeros(2 * moves.size, self._nodes.dtype)
        m = moves
        move_trees(
            self.operation.code, self.operation.user, self._nodes, target,
            m.old_offset, m.old_shift, m.new_offset, m.new_shift, m.first, m.length,
        )  # fmt: skip
        self._nodes = target

    def arrays(self) -> list[Elements]:
        return [self._nodes]

    def check(self, keys: Ints) -> None:
        operation, pool = self.operation, self.pool
        wrong = find_wrong_tree(
            operation.code, operation.user, self._nodes, pool.offset, pool.shift, keys, pool.first, pool.length
        )
        assert wrong == -1, f"key {wrong}: an inner node is not the combination of its children"


class BaseIntervals(Structure):
    """Any associative aggregate, any window: O(1) an update, O(log W) a lookup."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="base_intervals",
        title="B-INT",
        source="Sharing, 3.1.1",
        kinds=FIXED_SIZE | SKETCHES,
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("2", lambda shape: 2.0),
        lookup=Cost("2 log2 W", lambda shape: 2.0 * max(1.0, log2(shape.width))),
        space=Cost("2 Nmax", lambda shape: 2.0 * shape.largest),
    )

    def _column(self, operation: Operation) -> Column:
        return TreesColumn(operation, self._pool)

    def _sketch_column(self, kind: Kind, dtype: np.dtype[Any]) -> ValuesColumn:
        return SketchesByKey(BaseIntervalsOfSketches, kind, dtype, self._pool, self._windows)
