"""R-INT of many keys: running combinations in each key's segment.

As in the single-stream form, integers are exact, and doubles are summed as pairs that start again at each lap of the
segment. The elements lie beside them: where a difference might be wrong, the window is added up.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.kernels.key_folds import RUNNING, RUNNING_PAIRS
from panewise.kernels.keyed_running_intervals import (
    advance_base,
    append_running,
    append_running_pairs,
    find_wrong_sums,
    fold_running_of_keys,
    fold_running_pairs_of_keys,
    rebuild_pairs,
)
from panewise.structures.column import Elements, Ints, Operation
from panewise.structures.keyed.column import KeyedColumn
from panewise.structures.keyed.keyed import KeyedStructure
from panewise.structures.keyed.pool import Batch, Moves, Pool
from panewise.structures.running_intervals import RunningIntervals
from panewise.structures.sheet import DataSheet


class KeyedRunningColumn(KeyedColumn):
    """Exact running combinations, and for each key the combination of all before its first held position."""

    fold_way: ClassVar[int] = RUNNING

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._running = np.full(pool.size, operation.identity, operation.dtype)
        self._base = np.full(len(pool.length), operation.identity, operation.dtype)

    def append(self, batch: Batch, values: Elements) -> None:
        append_running(
            self.operation.code,
            self.operation.user,
            self.operation.identity,
            self._running,
            self._base,
            self.pool.offset,
            self.pool.shift,
            self.pool.first,
            batch.keys,
            batch.bounds,
            batch.begin,
            batch.after,
            values,
        )

    def fold(self, keys: Ints, low: Ints, high: Ints) -> Elements:
        return fold_running_of_keys(
            self.operation.inverse,
            self.operation.identity,
            self._running,
            self._base,
            self.pool.offset,
            self.pool.shift,
            self.pool.first,
            keys,
            low,
            high,
        )

    def relocate(self, moves: Moves) -> None:
        self._running = self._moved_rings(self._running, moves)

    def cover(self, keys: int) -> None:
        if keys > len(self._base):
            more = np.full(keys - len(self._base), self.operation.identity, self._base.dtype)
            self._base = np.concatenate([self._base, more])

    def let_go(self, keys: Ints, after: Ints) -> None:
        pool = self.pool
        advance_base(self._running, self._base, pool.offset, pool.shift, pool.first, keys, after)

    def arrays(self) -> list[Elements]:
        return [self._running, self._base]

    def check(self, keys: Ints) -> None:
        assert len(self._running) == self.pool.size
        assert len(self._base) == len(self.pool.length)


class KeyedRunningPairsColumn(KeyedColumn):
    """Running sums of doubles as pairs, with the elements beside them."""

    fold_way: ClassVar[int] = RUNNING_PAIRS

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._running = np.zeros(pool.size, np.complex128)
        self._elements = np.zeros(pool.size, np.complex128)
        self._special = np.zeros(0, np.int32)
        self._has_special = False
        self._magnitudes = np.zeros(len(pool.length), np.complex128)

    def append(self, batch: Batch, values: Elements) -> None:
        if not self._has_special and not np.all(np.isfinite(values.real)):
            self._special = np.zeros(self.pool.size, np.int32)
            self._has_special = True
        append_running_pairs(
            self._running,
            self._elements,
            self._special,
            self._magnitudes,
            self.pool.offset,
            self.pool.shift,
            self.pool.first,
            batch.keys,
            batch.bounds,
            batch.begin,
            batch.after,
            values,
        )

    def fold(self, keys: Ints, low: Ints, high: Ints) -> Elements:
        return fold_running_pairs_of_keys(
            self._running,
            self._elements,
            self._special,
            self._magnitudes,
            self.pool.offset,
            self.pool.shift,
            self.pool.length,
            keys,
            low,
            high,
        )

    def relocate(self, moves: Moves) -> None:
        self._elements = self._moved_rings(self._elements, moves)
        if moves.size is not None:
            self._running = self._moved_rings(self._running, moves)
            self._special = self._moved_rings(self._special, moves) if self._has_special else self._special
        pool = self.pool
        rebuild_pairs(
            self._running,
            self._elements,
            self._special,
            self._magnitudes,
            pool.offset,
            pool.shift,
            moves.resized,
            pool.first,
            pool.length,
        )

    def cover(self, keys: int) -> None:
        if keys > len(self._magnitudes):
            more = np.zeros(keys - len(self._magnitudes), np.complex128)
            self._magnitudes = np.concatenate([self._magnitudes, more])

    def arrays(self) -> list[Elements]:
        return [self._running, self._elements, self._special, self._magnitudes]

    def check(self, keys: Ints) -> None:
        pool = self.pool
        wrong = find_wrong_sums(
            self._running,
            self._elements,
            self._special,
            self._magnitudes,
            pool.offset,
            pool.shift,
            keys,
            pool.first,
            pool.length,
        )
        assert wrong == -1, f"key {wrong}: its sums do not follow from its elements"


class KeyedRunningIntervals(KeyedStructure):
    """Aggregates that can be subtracted, any window: O(1) an update and a lookup."""

    sheet: ClassVar[DataSheet] = RunningIntervals.sheet

    def _column(self, operation: Operation) -> KeyedColumn:
        kind = KeyedRunningPairsColumn if operation.dtype == np.complex128 else KeyedRunningColumn
        return kind(operation, self._pool)
