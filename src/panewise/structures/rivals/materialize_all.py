"""Materialize all: every window's answer of every key, brought up to date at every element.

Invariant: for each window of each key, the front holds the combinations of its oldest elements up to `middle`, the back
is that of the others, and the answer is both combined.
Cost: update 3 for each window, lookup 1, space Nmax (1 + windows), rounded up to a power of two.
Needs: an associative combine, and windows of a fixed number of elements. Source: Arasu and Widom, VLDB 2004, section
1.2; the two stacks of each window as in Tangwongsan, Hirzel and Schneider, DEBS 2017.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.errors import WindowError
from panewise.kernels.pool import write_rings
from panewise.kernels.sliding import gather_answers, rebuild_windows, slide_windows
from panewise.structures.column import Column, Elements, Operation, RingColumn, Windows
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.sheet import FIXED_SIZE, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class AnswersColumn(RingColumn):
    """The elements, and for each window of each key its two stacks and its answer."""

    _pairs: Ints
    _fronts: Elements
    _middles: Ints
    _backs: Elements
    _answers: Elements

    def __init__(self, operation: Operation, pool: Pool, windows: Windows) -> None:
        super().__init__(operation, pool)
        self._lay_out(windows)

    def append(self, batch: Batch, values: Elements) -> None:
        pool, b = self.pool, batch
        slide_windows(*self._for_kernels(), pool.offset, pool.shift, pool.first, b.keys, b.bounds, b.begin, values)
        write_rings(self._elements, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, values)

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        out = np.empty(len(low), self.operation.dtype)
        length = self.pool.length
        unserved = gather_answers(self.operation.identity, self._pairs, self._answers, length, keys, low, high, out)
        if unserved >= 0:
            key = 0 if keys is None else int(keys[unserved])
            left, right = length[key] - low[unserved], length[key] - high[unserved]
            raise WindowError(
                f"materialize_all answers its own windows only, but not ({left}, {right}); add the window"
            )
        return out

    def relocate(self, moves: Moves) -> None:
        super().relocate(moves)
        if moves.size is not None:
            self._fronts = np.zeros(moves.size * len(self._pairs), self.operation.dtype)
        self._rebuild(moves.keys)

    def cover(self, keys: int) -> None:
        places, identity = keys * len(self._pairs), self.operation.identity
        self._middles = self._lengthened(self._middles, places, 0)
        self._backs = self._lengthened(self._backs, places, identity)
        self._answers = self._lengthened(self._answers, places, identity)

    def fit(self, windows: Windows) -> None:
        if not np.array_equal(_pairs_of(windows), self._pairs):
            self._lay_out(windows)
        # Less may be held than before.
        self._rebuild(self.pool.live)

    def arrays(self) -> list[Elements]:
        return list(self._stacks)

    def check(self, keys: Ints) -> None:
        pool, windows = self.pool, len(self._pairs)
        assert len(self._elements) == pool.size
        assert len(self._fronts) == pool.size * windows
        middles = self._middles.reshape(-1, windows)[keys] if windows else self._middles
        assert np.all(middles <= pool.length[keys, None] if windows else middles == 0)

    def _for_kernels(self) -> tuple[int, Any, Any, Elements, Elements, Ints, Ints, Elements, Elements]:
        operation = self.operation
        return operation.code, operation.user, operation.identity, *self._stacks

    @property
    def _stacks(self) -> tuple[Elements, Elements, Ints, Ints, Elements, Elements]:
        return self._elements, self._fronts, self._pairs, self._middles, self._backs, self._answers

    def _lay_out(self, windows: Windows) -> None:
        dtype, identity, pool = self.operation.dtype, self.operation.identity, self.pool
        self._pairs = _pairs_of(windows)
        places = len(pool.length) * len(self._pairs)
        self._fronts = np.zeros(pool.size * len(self._pairs), dtype)
        self._middles = np.zeros(places, np.int64)
        self._backs = np.full(places, identity, dtype)
        self._answers = np.full(places, identity, dtype)

    def _rebuild(self, keys: Ints) -> None:
        pool = self.pool
        rebuild_windows(*self._for_kernels(), pool.offset, pool.shift, pool.first, pool.length, keys)


class MaterializeAll(Structure):
    """Any associative aggregate, its own windows only: a lookup reads an answer, an update makes all of them."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="materialize_all",
        title="materialize all",
        source="Sharing, 1.2",
        kinds=FIXED_SIZE,
        needs_inverse=False,
        lookups=Lookups.REGISTERED,
        update=Cost("3 windows", lambda shape: 3.0 * shape.windows),
        lookup=Cost("1", lambda shape: 1.0),
        space=Cost("Nmax (1 + windows)", lambda shape: shape.largest * (1.0 + shape.windows)),
        is_rival=True,
    )

    def _column(self, operation: Operation) -> Column:
        return AnswersColumn(operation, self._pool, self._windows)


def _pairs_of(windows: Windows) -> Ints:
    """The different windows in order, a row [left, right] each."""
    return np.array(windows.pairs, np.int64).reshape(-1, 2)
