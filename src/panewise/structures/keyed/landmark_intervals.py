"""L-INT of many keys: suffixes and prefixes beside the elements of each key's segment.

The partitions are those of the single-stream form and the same for all keys. As a segment has the same size in all
columns, a partition keeps its landmarks as far back as the largest window reaches: Nmax (1 + 2 gamma) elements a key,
for suffix windows too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from panewise.errors import WindowError
from panewise.kernels.key_folds import LANDMARKS
from panewise.kernels.keyed_landmark_intervals import (
    append_landmarks,
    find_wrong_landmarks,
    fold_landmarks_of_keys,
    move_landmarks,
    rebuild_landmarks,
)
from panewise.structures.column import Elements, Ints, Operation, Windows
from panewise.structures.keyed.column import KeyedColumn
from panewise.structures.keyed.keyed import KeyedStructure
from panewise.structures.keyed.pool import Batch, Moves, Pool
from panewise.structures.landmark_intervals import LandmarkIntervals, every_width, partitions_of
from panewise.structures.sheet import FIXED_SIZE, DataSheet


class KeyedLandmarksColumn(KeyedColumn):
    """The elements, and for each partition as many suffixes and prefixes."""

    fold_way: ClassVar[int] = LANDMARKS
    _suffixes: Elements
    _prefixes: Elements

    def __init__(self, operation: Operation, pool: Pool, windows: Windows) -> None:
        super().__init__(operation, pool)
        self._levels = _levels_of(windows)
        self._elements = np.zeros(pool.size, operation.dtype)
        self._lay_out()

    def append(self, batch: Batch, values: Elements) -> None:
        append_landmarks(
            self.operation.code,
            self.operation.user,
            self._elements,
            self._suffixes,
            self._prefixes,
            self._levels,
            self.pool.offset,
            self.pool.shift,
            batch.keys,
            batch.bounds,
            batch.begin,
            batch.after,
            values,
        )

    def fold(self, keys: Ints, low: Ints, high: Ints) -> Elements:
        out = np.empty(len(keys), self.operation.dtype)
        unserved = fold_landmarks_of_keys(
            self.operation.code,
            self.operation.user,
            self.operation.identity,
            self._suffixes,
            self._prefixes,
            len(self._elements),
            self._levels,
            self.pool.offset,
            self.pool.shift,
            keys,
            low,
            high,
            out,
        )
        if unserved >= 0:
            raise self._unserved(int(keys[unserved]), int(low[unserved]), int(high[unserved]))
        return out

    def elements(self, keys: Ints, positions: Ints) -> Elements:
        return self._elements[self.pool.places(keys, positions)]

    def relocate(self, moves: Moves) -> None:
        if moves.size is not None:
            self._suffixes = self._moved(self._suffixes, moves)
            self._prefixes = self._moved(self._prefixes, moves)
        self._elements = self._moved_rings(self._elements, moves)
        self._rebuild(moves.resized)

    def fit(self, windows: Windows) -> None:
        levels = _levels_of(windows)
        if np.array_equal(levels, self._levels):
            return
        self._levels = levels
        self._lay_out()
        self._rebuild(self.pool.live)

    def arrays(self) -> list[Elements]:
        return [self._elements, self._suffixes, self._prefixes, self._levels]

    def check(self, keys: Ints) -> None:
        pool = self.pool
        assert len(self._suffixes) == len(self._prefixes) == pool.size * len(self._levels)
        wrong = find_wrong_landmarks(
            self.operation.code,
            self.operation.user,
            self._elements,
            self._suffixes,
            self._prefixes,
            self._levels,
            pool.offset,
            pool.shift,
            keys,
            pool.first,
            pool.length,
        )
        assert wrong == -1, f"key {wrong}: its landmark intervals do not follow from its elements"

    def _unserved(self, key: int, low: int, high: int) -> WindowError:
        left, right = self.pool.length[key] - low, self.pool.length[key] - high
        widths = [f"{1 << level} to {(2 << level) - 1}" for level in self._levels.tolist()]
        return WindowError(
            f"landmark_intervals has no partition for window ({left}, {right}) of key {key}: it serves widths of "
            f"{', '.join(widths) or 'nothing yet'}; add the window"
        )

    def _lay_out(self) -> None:
        count = len(self._elements) * len(self._levels)
        self._suffixes = np.zeros(count, self.operation.dtype)
        self._prefixes = np.zeros(count, self.operation.dtype)

    def _moved(self, rings: Elements, moves: Moves) -> Elements:
        """The suffixes or prefixes of all partitions, in a new pool."""
        assert moves.size is not None
        partitions, m = len(self._levels), moves
        target = np.empty(moves.size * partitions, rings.dtype)
        move_landmarks(rings, target, partitions, m.old_offset, m.old_shift, m.new_offset, m.new_shift)
        return target

    def _rebuild(self, keys: Ints) -> None:
        pool = self.pool
        rebuild_landmarks(
            self.operation.code,
            self.operation.user,
            self._elements,
            self._suffixes,
            self._prefixes,
            self._levels,
            pool.offset,
            pool.shift,
            keys,
            pool.first,
            pool.length,
        )


class KeyedLandmarkIntervals(KeyedStructure):
    """Any associative aggregate, windows of known widths: O(1) a lookup, one combine an update for each partition."""

    sheet: ClassVar[DataSheet] = replace(LandmarkIntervals.sheet, kinds=FIXED_SIZE)

    def _column(self, operation: Operation) -> KeyedColumn:
        return KeyedLandmarksColumn(operation, self._pool, self._windows)


def _levels_of(windows: Windows) -> Ints:
    partitions = partitions_of(windows.pairs + every_width(windows.at_least))
    return np.array([partition.level for partition in partitions], np.int64)
