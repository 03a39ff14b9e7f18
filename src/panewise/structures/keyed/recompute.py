"""Materialize none, for many keys: the newest elements of each lie in its segment and are folded on request."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from panewise.kernels.key_folds import RING
from panewise.kernels.keyed_recompute import count_distinct_in_rings, fold_rings, select_in_rings, write_rings
from panewise.structures.column import Bools, Elements, Ints, Operation
from panewise.structures.keyed.column import KeyedColumn, KeyedValuesColumn
from panewise.structures.keyed.keyed import KeyedStructure
from panewise.structures.keyed.pool import Batch, Moves, Pool
from panewise.structures.recompute import Recompute
from panewise.structures.sheet import DataSheet


class KeyedRingColumn(KeyedColumn):
    """A ring of elements a key."""

    fold_way: ClassVar[int] = RING

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._rings = np.zeros(pool.size, operation.dtype)

    def append(self, batch: Batch, values: Elements) -> None:
        pool, b = self.pool, batch
        write_rings(self._rings, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, values)

    def fold(self, keys: Ints, low: Ints, high: Ints) -> Elements:
        operation, pool = self.operation, self.pool
        return fold_rings(
            operation.code,
            operation.user,
            operation.identity,
            self._rings,
            pool.offset,
            pool.shift,
            keys,
            low,
            high,
        )

    def relocate(self, moves: Moves) -> None:
        self._rings = self._moved_rings(self._rings, moves)

    def arrays(self) -> list[Elements]:
        return [self._rings]


class KeyedValuesRings(KeyedValuesColumn):
    """A ring of values a key, sorted on request."""

    def __init__(self, dtype: np.dtype[Any], pool: Pool) -> None:
        super().__init__(dtype, pool)
        self._values = np.zeros(pool.size, dtype)
        self._valid = np.zeros(pool.size, np.bool_)

    def append(self, batch: Batch, values: Elements, valid: Bools) -> None:
        pool, b = self.pool, batch
        write_rings(self._values, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, values)
        write_rings(self._valid, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, valid)

    def select(self, keys: Ints, low: Ints, high: Ints, ranks: Ints) -> Elements:
        pool = self.pool
        return select_in_rings(self._values, self._valid, pool.offset, pool.shift, keys, low, high, ranks)

    def distinct(self, keys: Ints, low: Ints, high: Ints) -> Ints:
        pool = self.pool
        return count_distinct_in_rings(self._values, self._valid, pool.offset, pool.shift, keys, low, high)

    def elements(self, keys: Ints, positions: Ints) -> tuple[Elements, Bools]:
        places = self.pool.places(keys, positions)
        return self._values[places], self._valid[places]

    def relocate(self, moves: Moves) -> None:
        self._values = self._moved_rings(self._values, moves)
        self._valid = self._moved_rings(self._valid, moves)

    def arrays(self) -> list[Elements]:
        return [self._values, self._valid]


class KeyedRecompute(KeyedStructure):
    """Any aggregate, any window: nothing is computed before it is asked for."""

    sheet: ClassVar[DataSheet] = Recompute.sheet

    def _column(self, operation: Operation) -> KeyedColumn:
        return KeyedRingColumn(operation, self._pool)

    def _values_column(self, dtype: np.dtype[Any]) -> KeyedValuesColumn:
        return KeyedValuesRings(dtype, self._pool)
