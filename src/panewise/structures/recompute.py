"""Materialize none: the newest elements of each key, folded on request. The baseline.

Invariant: a key's segment is a ring of its newest elements.
Cost: update 1, lookup W, space Nmax, rounded up to a power of two.
Needs: an associative combine, or values that can be ordered. Source: Arasu and Widom, VLDB 2004, section 1.2.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from panewise.aggregates.catalogue import Reading
from panewise.arrays import Bools, Ints
from panewise.kernels.key_folds import RING
from panewise.kernels.pool import write_rings
from panewise.kernels.recompute import count_distinct_in_rings, fold_rings, select_in_rings
from panewise.structures.column import Column, Elements, Operation, RingColumn, ValuesColumn
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.sheet import EVERY_KIND, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class FoldedColumn(RingColumn):
    """Elements that are folded on request."""

    fold_way: ClassVar[int | None] = RING

    def append(self, batch: Batch, values: Elements) -> None:
        pool, b = self.pool, batch
        write_rings(self._elements, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, values)

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        operation, pool = self.operation, self.pool
        return fold_rings(
            operation.code, operation.user, operation.identity, self._elements, pool.offset, pool.shift, keys, low, high
        )

    def arrays(self) -> list[Elements]:
        return [self._elements]


class ValuesRings(ValuesColumn):
    """A ring of values a key, sorted on request."""

    def __init__(self, dtype: np.dtype[Any], pool: Pool) -> None:
        super().__init__(dtype, pool)
        self._values = np.zeros(pool.size, dtype)
        self._valid = np.zeros(pool.size, np.bool_)

    def append(self, batch: Batch, values: Elements, valid: Bools) -> None:
        pool, b = self.pool, batch
        for rings, new in ((self._values, values), (self._valid, valid)):
            write_rings(rings, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, new)

    def select(self, keys: Keys, low: Ints, high: Ints, ranks: Ints) -> Elements:
        pool = self.pool
        return select_in_rings(self._values, self._valid, pool.offset, pool.shift, keys, low, high, ranks)

    def distinct(self, keys: Keys, low: Ints, high: Ints) -> Ints:
        pool = self.pool
        return count_distinct_in_rings(self._values, self._valid, pool.offset, pool.shift, keys, low, high)

    def elements(self, keys: Keys, positions: Ints) -> tuple[Elements, Bools]:
        places = self.pool.places(keys, positions)
        return self._values[places], self._valid[places]

    def relocate(self, moves: Moves) -> None:
        self._values = self._moved_rings(self._values, moves)
        self._valid = self._moved_rings(self._valid, moves)

    def arrays(self) -> list[Elements]:
        return [self._values, self._valid]


class Recompute(Structure):
    """Any aggregate, any window: nothing is computed before it is asked for."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="recompute",
        title="materialize none",
        source="Sharing, 1.2",
        kinds=EVERY_KIND,
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("1", lambda shape: 1.0),
        lookup=Cost("W", lambda shape: float(shape.width)),
        space=Cost("Nmax", lambda shape: float(shape.largest)),
        readings={Reading.RANK: Cost("8 W", lambda shape: 8.0 * shape.width)},
    )

    def _column(self, operation: Operation) -> Column:
        return FoldedColumn(operation, self._pool)

    def _values_column(self, dtype: np.dtype[Any]) -> ValuesColumn:
        return ValuesRings(dtype, self._pool)
