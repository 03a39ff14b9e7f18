"""Running intervals (R-INT): any window as the difference of two combinations from the beginning.

Invariant: each position holds the combination of its key's elements up to it; for doubles, since the lap of the ring
began, with the elements beside it.
Cost: update 1, lookup 1, space Nmax (2 Nmax for doubles), rounded up to a power of two.
Needs: an inverse of the combine. Source: Arasu and Widom, VLDB 2004, section 3.2.

The paper's single running value is exact for integers. For doubles it is not: its rounding errors are those of the
whole stream, and one infinity would stay in it for ever. So doubles are summed as pairs that start again at each lap of
the ring. Where a difference might be wrong, the window is added up from the elements.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.kernels.key_folds import RUNNING_PAIRS
from panewise.kernels.running_intervals import append_running_pairs, find_wrong_sums, fold_running_pairs, rebuild_pairs
from panewise.structures.column import Column, Elements, Operation, RingColumn
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.running_column import RunningColumn
from panewise.structures.sheet import SUBTRACTABLE, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class RunningPairsColumn(RingColumn):
    """Running sums of doubles as pairs, with the elements beside them."""

    fold_way: ClassVar[int | None] = RUNNING_PAIRS

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._running = np.zeros(pool.size, np.complex128)
        self._special = np.zeros(0, np.int32)
        self._has_special = False
        self._magnitudes = np.zeros(len(pool.length), np.complex128)

    def append(self, batch: Batch, values: Elements) -> None:
        if not self._has_special and not np.all(np.isfinite(values.real)):
            self._special = np.zeros(self.pool.size, np.int32)
            self._has_special = True
        pool, b = self.pool, batch
        append_running_pairs(
            *self._sums, pool.offset, pool.shift, pool.first, b.keys, b.bounds, b.begin, b.after, values
        )

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        pool = self.pool
        return fold_running_pairs(*self._sums, pool.offset, pool.shift, pool.length, keys, low, high)

    def relocate(self, moves: Moves) -> None:
        super().relocate(moves)
        if moves.size is not None:
            self._running = self._moved_rings(self._running, moves)
            self._special = self._moved_rings(self._special, moves) if self._has_special else self._special
        pool = self.pool
        rebuild_pairs(*self._sums, pool.offset, pool.shift, moves.resized, pool.first, pool.length)

    def cover(self, keys: int) -> None:
        self._magnitudes = self._lengthened(self._magnitudes, keys, 0.0)

    def arrays(self) -> list[Elements]:
        return list(self._sums)

    def check(self, keys: Ints) -> None:
        pool = self.pool
        wrong = find_wrong_sums(*self._sums, pool.offset, pool.shift, keys, pool.first, pool.length)
        assert wrong == -1, f"key {wrong}: its sums do not follow from its elements"

    @property
    def _sums(self) -> tuple[Elements, Elements, Elements, Elements]:
        """The arrays, as kernels take them."""
        return self._running, self._elements, self._special, self._magnitudes


class RunningIntervals(Structure):
    """Aggregates that can be subtracted, any window: O(1) an update and a lookup."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="running_intervals",
        title="R-INT",
        source="Sharing, 3.2",
        kinds=SUBTRACTABLE,
        needs_inverse=True,
        lookups=Lookups.ANY,
        update=Cost("1", lambda shape: 1.0),
        lookup=Cost("1", lambda shape: 1.0),
        space=Cost("Nmax (2 Nmax for doubles)", lambda shape: float(shape.largest)),
        held_twice=frozenset({Kind.SUM_FLOAT}),
    )

    def _column(self, operation: Operation) -> Column:
        kind = RunningPairsColumn if operation.dtype == np.complex128 else RunningColumn
        return kind(operation, self._pool)
