"""R-INT: running intervals (Sharing, section 3.2). A window is the difference of two combinations from the beginning.

The paper's single running value is exact for integers. For doubles it is not: its rounding errors are those of the
whole stream, and one infinity would stay in it for ever. So doubles are summed as pairs that start again at each lap of
the ring, and the elements are kept beside them: where a difference might be wrong, the window is added up.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.kernels import rings
from panewise.kernels.running_intervals import extend_running, extend_running_pairs, fold_running, fold_running_pairs
from panewise.structures.column import Column, Elements, Ints, Operation, Windows
from panewise.structures.sheet import SUBTRACTABLE, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class RunningColumn(Column):
    """Exact running combinations: of int64, or by a user's function and its inverse."""

    def __init__(self, operation: Operation, windows: Windows) -> None:
        super().__init__(operation, windows)
        self._running = np.full(windows.largest + 1, operation.identity, operation.dtype)
        self._length = 0

    def append(self, start: int, values: Elements) -> None:
        if start != self._length:
            # After a restore: no lookup needs what came before, so the neutral element may stand for it.
            self._running[start % len(self._running)] = self.operation.identity
        extend_running(self.operation.code, self.operation.user, self._running, start, values)
        self._length = start + len(values)

    def fold(self, low: Ints, high: Ints) -> Elements:
        lap = self._length // len(self._running) * len(self._running)
        return fold_running(self.operation.inverse, self._running, lap, low, high)

    def elements(self, start: int, end: int) -> Elements:
        positions = np.arange(start, end, dtype=np.int64)
        return self.fold(positions, positions + 1)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        self._running = rings.resized(self._running, windows.largest + 1, start, end + 1)

    def arrays(self) -> list[Elements]:
        return [self._running]

    def check(self, start: int, end: int) -> None:
        assert end - start < len(self._running)
        assert end == self._length or end == 0


class RunningPairsColumn(Column):
    """Running sums of doubles as pairs, with the elements beside them."""

    _running: Elements
    _elements: Elements
    _special: Ints
    _laps: Elements

    def __init__(self, operation: Operation, windows: Windows) -> None:
        super().__init__(operation, windows)
        self._length = 0
        self._lay_out(windows.largest + 1, 0)

    def append(self, start: int, values: Elements) -> None:
        if start != self._length:
            self._lay_out(len(self._running), start)
        if not len(self._special) and not np.all(np.isfinite(values.real)):
            self._special = np.zeros(len(self._running), np.int64)
        extend_running_pairs(self._running, self._elements, self._special, self._laps, start, values)
        self._length = start + len(values)

    def fold(self, low: Ints, high: Ints) -> Elements:
        lap = self._length // len(self._running) * len(self._running)
        return fold_running_pairs(self._running, self._elements, self._special, self._laps, lap, low, high)

    def elements(self, start: int, end: int) -> Elements:
        return rings.read(self._elements, start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        size = windows.largest + 1
        if size == len(self._running):
            return
        kept = max(start, end - windows.largest)
        elements = self.elements(kept, end)
        self._lay_out(size, kept)
        self.append(kept, elements)

    def arrays(self) -> list[Elements]:
        return [self._running, self._elements, self._special]

    def check(self, start: int, end: int) -> None:
        assert end - start < len(self._running)
        assert end == self._length or end == 0
        assert np.all(np.isfinite(self._laps[2:])) or np.isinf(self._laps[2:]).any()

    def _lay_out(self, size: int, start: int) -> None:
        self._running = np.zeros(size, np.complex128)
        self._elements = np.zeros(size, np.complex128)
        self._special = np.zeros(0, np.int64)
        self._laps = np.zeros(4)
        self._length = start


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
    )

    def _column(self, operation: Operation) -> Column:
        kind = RunningPairsColumn if operation.dtype == np.complex128 else RunningColumn
        return kind(operation, self._windows)
