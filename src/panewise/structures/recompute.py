"""Materialize none: keep the newest elements in a ring, fold on request (Sharing, section 1.2). The baseline."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from panewise.kernels import rings
from panewise.kernels.recompute import count_distinct_plainly, fold_plainly, select_plainly
from panewise.structures.column import Bools, Column, Elements, Ints, Operation, ValuesColumn, Windows
from panewise.structures.sheet import EVERY_KIND, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class RingColumn(Column):
    """Elements in a ring."""

    def __init__(self, operation: Operation, windows: Windows) -> None:
        super().__init__(operation, windows)
        self._ring = np.zeros(windows.largest, operation.dtype)
        self._length = 0

    def append(self, start: int, values: Elements) -> None:
        rings.write(self._ring, start, values)
        self._length = start + len(values)

    def fold(self, low: Ints, high: Ints) -> Elements:
        operation, lap = self.operation, rings.lap_of(self._length, len(self._ring))
        return fold_plainly(operation.code, operation.user, operation.identity, self._ring, lap, low, high)

    def elements(self, start: int, end: int) -> Elements:
        return rings.read(self._ring, start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        self._ring = rings.resized(self._ring, windows.largest, start, end)

    def arrays(self) -> list[Elements]:
        return [self._ring]

    def check(self, start: int, end: int) -> None:
        assert end - start <= len(self._ring)
        assert end == self._length or end == 0


class ValuesRing(ValuesColumn):
    """Values in a ring, sorted on request."""

    def __init__(self, dtype: np.dtype[Any], windows: Windows) -> None:
        super().__init__(dtype, windows)
        self._values = np.zeros(windows.largest, dtype)
        self._valid = np.zeros(windows.largest, np.bool_)
        self._length = 0

    def append(self, start: int, values: Elements, valid: Bools) -> None:
        rings.write(self._values, start, values)
        rings.write(self._valid, start, valid)
        self._length = start + len(values)

    def select(self, low: Ints, high: Ints, ranks: Ints) -> Elements:
        return select_plainly(self._values, self._valid, self._lap, low, high, ranks)

    def distinct(self, low: Ints, high: Ints) -> Ints:
        return count_distinct_plainly(self._values, self._valid, self._lap, low, high)

    def elements(self, start: int, end: int) -> tuple[Elements, Bools]:
        return rings.read(self._values, start, end), rings.read(self._valid, start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        self._values = rings.resized(self._values, windows.largest, start, end)
        self._valid = rings.resized(self._valid, windows.largest, start, end)

    def arrays(self) -> list[Elements]:
        return [self._values, self._valid]

    def check(self, start: int, end: int) -> None:
        assert len(self._values) == len(self._valid) >= end - start

    @property
    def _lap(self) -> int:
        return rings.lap_of(self._length, len(self._values))


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
    )

    def _column(self, operation: Operation) -> Column:
        return RingColumn(operation, self._windows)

    def _values_column(self, dtype: np.dtype[Any]) -> ValuesColumn:
        return ValuesRing(dtype, self._windows)
