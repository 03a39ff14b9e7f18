"""The running column: the combination of all of a key's elements up to each position.

Invariant: place t of a segment holds the combination of what the key has had up to and with position t, and `base` that
of all before its first held position. Cost: update 1, lookup 1, space Nmax. Needs: an inverse.
R-INT holds integers in it and users' functions, and every structure its count of NULLs.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.kernels.key_folds import RUNNING
from panewise.kernels.running_intervals import advance_base, append_running, fold_running
from panewise.structures.column import Column, Elements, Operation
from panewise.structures.pool import Batch, Keys, Moves, Pool


class RunningColumn(Column):
    """Exact running combinations, and for each key the combination of all before its first held position."""

    fold_way: ClassVar[int | None] = RUNNING

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._running = np.full(pool.size, operation.identity, operation.dtype)
        self._base = np.full(len(pool.length), operation.identity, operation.dtype)

    def append(self, batch: Batch, values: Elements) -> None:
        operation, pool, b = self.operation, self.pool, batch
        append_running(
            operation.code, operation.user, operation.identity, self._running, self._base,
            pool.offset, pool.shift, pool.first, b.keys, b.bounds, b.begin, b.after, values,
        )  # fmt: skip

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        operation, pool = self.operation, self.pool
        return fold_running(
            operation.inverse, operation.identity, self._running, self._base,
            pool.offset, pool.shift, pool.first, keys, low, high,
        )  # fmt: skip

    def relocate(self, moves: Moves) -> None:
        self._running = self._moved_rings(self._running, moves)

    def cover(self, keys: int) -> None:
        self._base = self._lengthened(self._base, keys, self.operation.identity)

    def let_go(self, keys: Ints, after: Ints) -> None:
        pool = self.pool
        advance_base(self._running, self._base, pool.offset, pool.shift, pool.first, keys, after)

    def arrays(self) -> list[Elements]:
        return [self._running, self._base]

    def check(self, keys: Ints) -> None:
        assert len(self._running) == self.pool.size
        assert len(self._base) == len(self.pool.length)
