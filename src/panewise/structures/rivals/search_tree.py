"""PSoup's search tree with aggregates: any window from the nodes of a tree with eight children each.

Invariant: node k of level j is the combination of those of positions k * 8**j .. (k + 1) * 8**j - 1 that have come and
are held; the newest node of each level grows with every element.
Cost: update log8 Nmax, lookup 7 log8 W, space 8/7 Nmax, rounded up to a power of two.
Needs: an associative combine. Source: Arasu and Widom, VLDB 2004, section 3.1.3, after PSoup.
"""

from __future__ import annotations

from math import log
from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.kernels.key_folds import SEARCH_TREE
from panewise.kernels.search_tree import FAN_OUT, FAN_OUT_BITS, extend_trees, find_wrong_node, fold_search_trees
from panewise.structures.column import Column, Elements, Operation
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.sheet import FIXED_SIZE, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class SearchTreesColumn(Column):
    """The nodes of all levels, a level after the other."""

    fold_way: ClassVar[int | None] = SEARCH_TREE
    _nodes: Elements
    _starts: Ints
    """Where each level begins, and where the last one ends."""

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._lay_out()

    def append(self, batch: Batch, values: Elements) -> None:
        operation, pool, b = self.operation, self.pool, batch
        extend_trees(
            operation.code, operation.user, self._nodes, self._starts, pool.offset, pool.shift,
            b.keys, b.bounds, b.begin, b.after, values,
        )  # fmt: skip

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        operation, pool = self.operation, self.pool
        return fold_search_trees(
            operation.code, operation.user, operation.identity, self._nodes, self._starts,
            pool.offset, pool.shift, keys, low, high,
        )  # fmt: skip

    def elements(self, keys: Keys, positions: Ints) -> Elements:
        return self._nodes[self.pool.places(keys, positions)]

    def relocate(self, moves: Moves) -> None:
        batch, leaves = moves.elements(self._nodes)
        if moves.size is not None:
            self._lay_out()
        self.append(batch, leaves)

    def arrays(self) -> list[Elements]:
        return [self._nodes, self._starts]

    def check(self, keys: Ints) -> None:
        pool = self.pool
        wrong = find_wrong_node(
            self.operation.code, self.operation.user, self._nodes, self._starts,
            pool.offset, pool.shift, keys, pool.first, pool.length,
        )  # fmt: skip
        assert wrong == -1, f"key {wrong}: a node is not the combination of its leaves"

    def _lay_out(self) -> None:
        bits = range(0, self.pool.size.bit_length(), FAN_OUT_BITS)
        self._starts = np.cumsum([0, *((self.pool.size >> bit) + 1 for bit in bits)])
        self._nodes = np.zeros(self._starts[-1], self.operation.dtype)


class SearchTree(Structure):
    """Any associative aggregate, any window: every update and every lookup walks the height of a tree."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="search_tree",
        title="PSoup",
        source="Sharing, 3.1.3",
        kinds=FIXED_SIZE,
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("log8 Nmax", lambda shape: max(1.0, log(shape.largest, FAN_OUT))),
        lookup=Cost("7 log8 W", lambda shape: 7.0 * max(1.0, log(shape.width, FAN_OUT))),
        space=Cost("8/7 Nmax", lambda shape: 8.0 / 7.0 * shape.largest),
        is_rival=True,
    )

    def _column(self, operation: Operation) -> Column:
        return SearchTreesColumn(operation, self._pool)
