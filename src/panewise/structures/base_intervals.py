"""B-INT: base intervals (Sharing, section 3.1.1).

Level j holds the combinations of 2**j neighbours; a window is the union of at most two intervals a level. It uses
arrays and bit operations, as section 5 describes: a level is a ring of Nmax / 2**j intervals.
"""

from __future__ import annotations

from math import log2
from typing import Any, ClassVar

import numpy as np

from panewise.aggregates.components import Kind
from panewise.kernels import rings
from panewise.kernels.base_intervals import extend_levels, fold_levels
from panewise.structures.column import Column, Elements, Ints, Operation, ValuesColumn, Windows
from panewise.structures.sheet import FIXED_SIZE, SKETCHES, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class BaseIntervalsColumn(Column):
    """All levels end to end in one array."""

    _first: int
    """The first position that ever came: an interval that begins before it is never complete."""

    def __init__(self, operation: Operation, windows: Windows) -> None:
        super().__init__(operation, windows)
        self._lay_out(windows.largest)
        self._length = 0

    def append(self, start: int, values: Elements) -> None:
        largest = int(self._offsets[1])
        end = start + len(values)
        if start != self._length:
            self._first = start
        rings.write(self._levels[:largest], start, values)
        oldest = max(end - largest, self._first)
        extend_levels(self.operation.code, self.operation.user, self._levels, self._offsets, start, end, oldest)
        self._length = end
        self._set_laps()

    def fold(self, low: Ints, high: Ints) -> Elements:
        operation = self.operation
        return fold_levels(
            operation.code, operation.user, operation.identity, self._levels, self._offsets, self._laps, low, high
        )

    def elements(self, start: int, end: int) -> Elements:
        return rings.read(self._levels[: self._offsets[1]], start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        largest = windows.largest
        if largest == self._offsets[1]:
            return
        kept = max(start, end - largest)
        elements = self.elements(kept, end)
        self._lay_out(largest)
        self._length = self._first = kept
        self.append(kept, elements)

    def arrays(self) -> list[Elements]:
        return [self._levels, self._offsets, self._laps]

    def check(self, start: int, end: int) -> None:
        assert end == self._length or end == 0
        for level in range(1, len(self._offsets) - 1):
            span = 1 << level
            for number in range(-(-start // span), end // span):
                low, high = np.array([number * span]), np.array([(number + 1) * span])
                size = self._offsets[level + 1] - self._offsets[level]
                stored = self._levels[self._offsets[level] + number % size]
                assert np.array_equal([stored], self._fold_plainly(low, high), equal_nan=True)

    def _lay_out(self, largest: int) -> None:
        levels = max(1, largest.bit_length())
        sizes = [max(1, largest >> level) for level in range(levels)]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._levels = np.zeros(self._offsets[-1], self.operation.dtype)
        self._laps = np.zeros(levels, np.int64)
        self._first = 0

    def _set_laps(self) -> None:
        sizes = np.diff(self._offsets)
        newest = np.maximum((self._length >> np.arange(len(sizes))) - 1, 0)
        self._laps = newest // sizes * sizes

    def _fold_plainly(self, low: Ints, high: Ints) -> Elements:
        from panewise.kernels.recompute import fold_plainly

        ring, operation = self._levels[: self._offsets[1]], self.operation
        # Halves first, as the levels combine: doubles are not quite associative.
        if high[0] - low[0] > 2:
            middle = (low + high) // 2
            halves = np.concatenate([self._fold_plainly(low, middle), self._fold_plainly(middle, high)])
        else:
            halves = rings.read(ring, int(low[0]), int(high[0]))
        return fold_plainly(
            operation.code, operation.user, operation.identity, halves, 0, np.array([0]), np.array([len(halves)])
        )


class BaseIntervals(Structure):
    """Any associative aggregate, any window: O(1) an update, O(log W) a lookup."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="base_intervals",
        title="B-INT",
        source="Sharing, 3.1.1",
        kinds=FIXED_SIZE | SKETCHES,
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("2", lambda shape: 2.0),
        lookup=Cost("2 log2 W", lambda shape: 2.0 * max(1.0, log2(shape.width))),
        space=Cost("2 Nmax", lambda shape: 2.0 * shape.largest),
    )

    def _column(self, operation: Operation) -> Column:
        return BaseIntervalsColumn(operation, self._windows)

    def _sketch_column(self, kind: Kind, dtype: np.dtype[Any]) -> ValuesColumn:
        from panewise.structures.sketch_intervals import BaseIntervalsOfSketches

        return BaseIntervalsOfSketches(kind, dtype, self._windows)
