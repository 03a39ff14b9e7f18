"""Sorted base intervals (B-INT-QNT): quantiles and distinct values of any window from at most two sorted runs a level.

Invariant: level j of a key's segment holds each block of 2**j positions that lies in what is held, in order.
Cost: update log2 Nmax (each update merges the runs that it completes), lookup log2^2 W log2 log2 W where the order of
arrival says little about the values and log2^3 W at worst, distinct values W, space Nmax log2 Nmax.
Needs: values that can be ordered. Source: Arasu and Widom, VLDB 2004, section 3.3.
"""

from __future__ import annotations

from math import log2
from typing import Any, ClassVar

import numpy as np

from panewise.aggregates.catalogue import Reading
from panewise.aggregates.components import Kind
from panewise.arrays import Bools, Ints
from panewise.kernels.sorted_intervals import (
    append_runs,
    bits_of_keys,
    count_distinct_keys,
    find_wrong_run,
    keys_of_doubles,
    move_runs,
    select_keys,
)
from panewise.structures.column import Column, Elements, Operation, ValuesColumn
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.sheet import Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class SortedRunsColumn(ValuesColumn):
    """For each level an array of as many places as the pool has, and which elements are not NULL.

    Values come back from their keys: -0.0 as 0.0, every NaN as the same one, NULL as any value. A small segment's part
    of a high level is never written, and memory that is never written costs nothing.
    """

    def __init__(self, dtype: np.dtype[Any], pool: Pool) -> None:
        super().__init__(dtype, pool)
        self._levels = self._room()
        self._valid = np.zeros(pool.size, np.bool_)

    def append(self, batch: Batch, values: Elements, valid: Bools) -> None:
        keys = keys_of_doubles(values.view(np.int64)) if self._is_float else values
        pool, b = self.pool, batch
        append_runs(
            self._levels, self._valid, pool.size, pool.offset, pool.shift,
            b.keys, b.bounds, b.begin, b.after, keys, valid,
        )  # fmt: skip

    def select(self, keys: Keys, low: Ints, high: Ints, ranks: Ints) -> Elements:
        pool = self.pool
        return self._values_of(select_keys(self._levels, pool.size, pool.offset, pool.shift, keys, low, high, ranks))

    def distinct(self, keys: Keys, low: Ints, high: Ints) -> Ints:
        pool = self.pool
        return count_distinct_keys(self._levels, self._valid, pool.size, pool.offset, pool.shift, keys, low, high)

    def elements(self, keys: Keys, positions: Ints) -> tuple[Elements, Bools]:
        places = self.pool.places(keys, positions)
        return self._values_of(self._levels[places]), self._valid[places]

    def relocate(self, moves: Moves) -> None:
        m, old_size = moves, len(self._valid)
        self._valid = self._moved_rings(self._valid, moves)
        levels = self._levels
        if moves.size is not None:
            levels = self._room()
        elif len(levels) < self.pool.size * self._height:
            # A longer segment within the same pool has a level more than any before.
            levels = self._room()
            levels[: len(self._levels)] = self._levels
        move_runs(
            self._levels, levels, old_size, self.pool.size,
            m.old_offset, m.old_shift, m.new_offset, m.new_shift, m.first, m.length,
        )  # fmt: skip
        self._levels = levels

    def arrays(self) -> list[Elements]:
        return [self._levels, self._valid]

    @property
    def nbytes(self) -> int:
        """The memory of the runs of all segments, and of the marks of what is not NULL."""
        shifts = self.pool.shift[self.pool.live].astype(np.int64)
        return 8 * int(((shifts + 1) << shifts).sum()) + self._valid.nbytes

    def check(self, keys: Ints) -> None:
        pool = self.pool
        assert len(self._levels) >= pool.size * self._height
        wrong = find_wrong_run(
            self._levels, self._valid, pool.size, pool.offset, pool.shift, keys, pool.first, pool.length
        )
        assert wrong == -1, f"key {wrong}: a run is not its elements in order, or a NULL has not the key of NULL"

    @property
    def _height(self) -> int:
        """How many levels the longest segment has."""
        return int(self.pool.shift.max()) + 1

    def _room(self) -> Ints:
        return np.zeros(self.pool.size * self._height, np.int64)

    @property
    def _is_float(self) -> bool:
        return self.dtype == np.float64

    def _values_of(self, keys: Ints) -> Elements:
        return bits_of_keys(keys).view(np.float64) if self._is_float else keys


class SortedBaseIntervals(Structure):
    """Quantiles with a phi for each lookup, and distinct values, of any window."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="sorted_base_intervals",
        title="B-INT-QNT",
        source="Sharing, 3.3",
        kinds=frozenset({Kind.COUNT, Kind.VALUES}),
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("log2 Nmax", lambda shape: _log2(shape.largest)),
        lookup=Cost("log2^2 W log2 log2 W", lambda shape: _log2(shape.width) ** 2 * _log2(_log2(shape.width))),
        space=Cost("Nmax log2 Nmax", lambda shape: shape.largest * _log2(shape.largest)),
        takes_user_aggregates=False,
        readings={Reading.DISTINCT: Cost("W", lambda shape: float(shape.width))},
    )

    def _column(self, operation: Operation) -> Column:
        raise AssertionError("sorted base intervals fold nothing: their data sheet names no component that is folded")

    def _values_column(self, dtype: np.dtype[Any]) -> ValuesColumn:
        return SortedRunsColumn(dtype, self._pool)


def _log2(number: float) -> float:
    return max(1.0, log2(max(number, 1.0)))
