"""Landmark intervals (L-INT): windows of known widths from two or three stored combinations, in the general form.

Invariant: for each partition of the windows, each held position has the combination up to the next landmark (a suffix)
and the one since the landmark before it (a prefix), as far back as the partition's windows reach. Landmarks lie at the
multiples of 2**level, and the windows of a partition are from 2**level to less than twice as wide.
Cost: update 2 for each partition, lookup 2, space Nmax (1 + 2 gamma) in powers of two. One key holds suffix windows in
9 Nmax whatever gamma is; with more, all rings are as long as the segment.
Needs: an associative combine. Source: Arasu and Widom, VLDB 2004, section 3.1.2.

Where the paper extends an interval over the landmarks that follow, this adds the one whole block that can lie between:
three places instead of two, and half of the memory.
"""

from __future__ import annotations

from math import log2
from typing import Any, ClassVar

import numpy as np

from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.errors import WindowError
from panewise.kernels.key_folds import LANDMARKS
from panewise.kernels.landmark_intervals import (
    EVERYTHING,
    LEVELS,
    append_landmarks,
    find_wrong_landmarks,
    fold_landmarks,
    move_landmarks,
    rebuild_landmarks,
)
from panewise.structures.column import Column, Elements, Operation, RingColumn, ValuesColumn, Windows
from panewise.structures.partitions import Partition, every_width, partitions_of
from panewise.structures.pool import Batch, Keys, Moves, Pool, Shifts
from panewise.structures.sheet import FIXED_SIZE, SKETCHES, Cost, DataSheet, Lookups
from panewise.structures.sketch_intervals import LandmarksOfSketches, SketchesByKey
from panewise.structures.structure import Structure

UPDATE_WEIGHT = 8.0
"""How many combines of a lookup one combine of an update counts as. Fitted, not measured: alone, a landmark's combine
takes one and a half to four times as long. But the engine rebuilds structures as keys grow and events leave, and there
eight made the better choice wherever both were run."""


class LandmarksColumn(RingColumn):
    """The elements, and in one array the suffixes and prefixes of each partition."""

    fold_way: ClassVar[int | None] = LANDMARKS
    _store: Elements
    _table: Ints
    """As `kernels.landmark_intervals` reads it."""

    def __init__(self, operation: Operation, pool: Pool, windows: Windows) -> None:
        super().__init__(operation, pool)
        self._partitions: list[Partition] = []
        self._largest = 0
        self._arrange(windows)

    def append(self, batch: Batch, values: Elements) -> None:
        operation, pool, b = self.operation, self.pool, batch
        append_landmarks(
            operation.code, operation.user, self._elements, self._store, self._table, pool.offset, pool.shift,
            b.keys, b.bounds, b.begin, b.after, values,
        )  # fmt: skip

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        operation, pool, out = self.operation, self.pool, np.empty(len(low), self.operation.dtype)
        unserved = fold_landmarks(
            operation.code, operation.user, operation.identity, self._store, self._table,
            pool.offset, pool.shift, pool.length, keys, low, high, out,
        )  # fmt: skip
        if unserved >= 0:
            key, whose = (0, "") if keys is None else (int(keys[unserved]), f" of key {keys[unserved]}")
            left, right = pool.length[key] - low[unserved], pool.length[key] - high[unserved]
            widths = [f"{1 << partition.level} to {(2 << partition.level) - 1}" for partition in self._partitions]
            raise WindowError(
                f"landmark_intervals has no partition for window ({left}, {right}){whose}: it serves widths of "
                f"{', '.join(widths) or 'nothing yet'}, as far back as its windows reach; add the window"
            )
        return out

    def relocate(self, moves: Moves) -> None:
        super().relocate(moves)
        if moves.size is not None:
            store, table, m = self._store, self._table, moves
            self._lay_out()
            move_landmarks(store, table, self._store, self._table, m.old_offset, m.old_shift, m.new_offset, m.new_shift)
        self._rebuild(moves.resized)

    def fit(self, windows: Windows) -> None:
        if self._arrange(windows):
            self._rebuild(self.pool.live)

    def arrays(self) -> list[Elements]:
        return [self._elements, self._store, self._table]

    def check(self, keys: Ints) -> None:
        wrong = find_wrong_landmarks(*self._for_keys(), keys, self.pool.first, self.pool.length)
        assert wrong == -1, f"key {wrong}: its landmark intervals do not follow from its elements"

    def _arrange(self, windows: Windows) -> bool:
        """Lay out the partitions of some windows; False if they are those that it has."""
        partitions = partitions_of(windows.pairs + every_width(windows.at_least))
        if partitions == self._partitions and windows.largest == self._largest:
            return False
        self._partitions, self._largest = partitions, windows.largest
        self._lay_out()
        return True

    def _lay_out(self) -> None:
        """Room for each partition's suffixes and prefixes, and the table of where they are."""
        self._table = np.full(LEVELS, -1, np.int64)
        rows: list[int] = []
        end = 0
        for partition in self._partitions:
            self._table[partition.level] = LEVELS + len(rows)
            rows.append(partition.level)
            # No window of these widths ends further back than the largest window begins, less the spacing.
            is_everywhere = partition.suffixes >= self._largest and partition.prefixes > self._largest
            reaches = partition.suffixes, partition.prefixes - (1 << partition.level)
            for count, reach in zip((partition.suffixes, partition.prefixes), reaches):
                places = EVERYTHING if is_everywhere else 1 << (count - 1).bit_length()
                rows += [end, places - 1, EVERYTHING if is_everywhere else reach]
                # A ring lies where its key's segment does. What is behind it is not needed if there is one key.
                end += min(self.pool.size, places) if self.pool.has_one_segment else self.pool.size
        self._table = np.concatenate([self._table, np.array(rows, np.int64)])
        self._store = np.zeros(end, self.operation.dtype)

    def _rebuild(self, keys: Ints) -> None:
        rebuild_landmarks(*self._for_keys(), keys, self.pool.first, self.pool.length)

    def _for_keys(self) -> tuple[int, Any, Elements, Elements, Ints, Ints, Shifts]:
        """What kernels that go through keys need."""
        code, user, pool = self.operation.code, self.operation.user, self.pool
        return code, user, self._elements, self._store, self._table, pool.offset, pool.shift


class LandmarkIntervals(Structure):
    """Any associative aggregate, windows of known widths: O(1) a lookup, one combine an update for each partition."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="landmark_intervals",
        title="L-INT",
        source="Sharing, 3.1.2",
        kinds=FIXED_SIZE | SKETCHES,
        needs_inverse=False,
        lookups=Lookups.WIDTHS,
        update=Cost("2 gamma", lambda shape: 2.0 * _gamma(shape.largest, shape.windows)),
        lookup=Cost("2", lambda shape: 2.0),
        space=Cost(
            "Nmax (1 + 4 gamma), 9 Nmax for suffix windows",
            lambda shape: shape.largest * (1.0 + 4.0 * _gamma(shape.largest, shape.windows)),
        ),
        update_weight=UPDATE_WEIGHT,
    )

    def _column(self, operation: Operation) -> Column:
        return LandmarksColumn(operation, self._pool, self._windows)

    def _sketch_column(self, kind: Kind, dtype: np.dtype[Any]) -> ValuesColumn:
        return SketchesByKey(LandmarksOfSketches, kind, dtype, self._pool, self._windows)


def _gamma(largest: int, windows: int) -> float:
    """The greatest number of partitions."""
    return min(float(windows), log2(largest) + 1.0)
