"""B-INT of many keys: a small tree over each key's segment, laid out as a heap.

Cost: as in the single-stream form. A tree is built again when its key moves to a larger segment. As segments double,
this too is O(1) an element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from panewise.kernels.key_folds import TREE
from panewise.kernels.keyed_base_intervals import append_trees, find_wrong_tree, fold_trees, move_trees
from panewise.structures.base_intervals import BaseIntervals
from panewise.structures.column import Elements, Ints, Operation
from panewise.structures.keyed.column import KeyedColumn
from panewise.structures.keyed.keyed import KeyedStructure
from panewise.structures.keyed.pool import Batch, Moves, Pool
from panewise.structures.sheet import FIXED_SIZE, DataSheet


class KeyedTreesColumn(KeyedColumn):
    """Two places for each place of the pool: a segment's leaves, and before them its inner nodes."""

    fold_way: ClassVar[int] = TREE

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._nodes = np.zeros(2 * pool.size, operation.dtype)

    def append(self, batch: Batch, values: Elements) -> None:
        append_trees(
            self.operation.code,
            self.operation.user,
            self._nodes,
            self.pool.offset,
            self.pool.shift,
            batch.keys,
            batch.bounds,
            batch.begin,
            batch.after,
            values,
        )

    def fold(self, keys: Ints, low: Ints, high: Ints) -> Elements:
        operation, pool = self.operation, self.pool
        return fold_trees(
            operation.code,
            operation.user,
            operation.identity,
            self._nodes,
            pool.offset,
            pool.shift,
            keys,
            low,
            high,
        )

    def relocate(self, moves: Moves) -> None:
        target = self._nodes if moves.size is None else np.zeros(2 * moves.size, self._nodes.dtype)
        move_trees(
            self.operation.code,
            self.operation.user,
            self._nodes,
            target,
            moves.old_offset,
            moves.old_shift,
            moves.new_offset,
            moves.new_shift,
            moves.first,
            moves.length,
        )
        self._nodes = target

    def arrays(self) -> list[Elements]:
        return [self._nodes]

    def check(self, keys: Ints) -> None:
        operation, pool = self.operation, self.pool
        wrong = find_wrong_tree(
            operation.code, operation.user, self._nodes, pool.offset, pool.shift, keys, pool.first, pool.length
        )
        assert wrong == -1, f"key {wrong}: an inner node is not the combination of its children"


class KeyedBaseIntervals(KeyedStructure):
    """Any associative aggregate, any window: O(1) an update, O(log W) a lookup."""

    sheet: ClassVar[DataSheet] = replace(BaseIntervals.sheet, kinds=FIXED_SIZE)

    def _column(self, operation: Operation) -> KeyedColumn:
        return KeyedTreesColumn(operation, self._pool)
