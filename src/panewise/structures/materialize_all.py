"""Materialize all: every window's answer, brought up to date at every element (Sharing, section 1.2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.errors import WindowError
from panewise.kernels import rings
from panewise.kernels.sliding import slide_windows
from panewise.structures.column import Column, Elements, Ints, Operation, Windows
from panewise.structures.sheet import FIXED_SIZE, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class AnswersColumn(Column):
    """The elements, and for each window its two stacks and its answer."""

    _length: int
    _middles: Ints

    def __init__(self, operation: Operation, windows: Windows) -> None:
        super().__init__(operation, windows)
        self._lay_out(windows, 0)

    def append(self, start: int, values: Elements) -> None:
        if start != self._length:
            self._middles[:] = start
        operation = self.operation
        slide_windows(
            operation.code, operation.user, operation.identity, self._ring, self._lefts, self._rights, self._fronts,
            self._places, self._middles, self._backs, self._answers, start, values,
        )  # fmt: skip
        rings.write(self._ring, start, values)
        self._length = start + len(values)

    def fold(self, low: Ints, high: Ints) -> Elements:
        # Windows are found by the range that each covers now; their numbers are ordered by it.
        lows = np.maximum(self._length - self._lefts, 0)
        highs = np.maximum(self._length - self._rights, 0)
        numbers = self._number(lows, highs)
        order = np.argsort(numbers, kind="stable")
        wanted = self._number(low, high)
        found = np.minimum(np.searchsorted(numbers[order], wanted), len(order) - 1)
        chosen = order[found] if len(order) else np.zeros(0, np.int64)
        missing = np.flatnonzero(numbers[chosen] != wanted) if len(order) else np.arange(len(low))
        if len(missing):
            left, right = self._length - low[missing[0]], self._length - high[missing[0]]
            raise WindowError(
                f"materialize_all answers its own windows only, but not ({left}, {right}); add the window"
            )
        return self._answers[chosen]

    def elements(self, start: int, end: int) -> Elements:
        return rings.read(self._ring, start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        kept = max(start, end - windows.largest)
        elements = self.elements(kept, end)
        self._lay_out(windows, kept)
        self.append(kept, elements)

    def arrays(self) -> list[Elements]:
        return [self._ring, self._fronts, self._backs, self._answers, self._lefts, self._rights, self._middles]

    def check(self, start: int, end: int) -> None:
        assert end == self._length or end == 0
        assert np.all(self._middles <= np.maximum(self._length, self._middles.max(initial=0)))

    def _number(self, low: Ints, high: Ints) -> Ints:
        return (self._length - low) * (len(self._ring) + 1) + (self._length - high)

    def _lay_out(self, windows: Windows, start: int) -> None:
        dtype, identity = self.operation.dtype, self.operation.identity
        pairs = np.array(windows.pairs, np.int64).reshape(-1, 2)
        self._lefts, self._rights = (np.ascontiguousarray(ends) for ends in pairs.T)
        self._places = np.concatenate([[0], np.cumsum(self._lefts - self._rights)]).astype(np.int64)
        self._ring = np.zeros(windows.largest, dtype)
        self._fronts = np.full(self._places[-1], identity, dtype)
        self._backs = np.full(len(pairs), identity, dtype)
        self._answers = np.full(len(pairs), identity, dtype)
        self._middles = np.full(len(pairs), start, np.int64)
        self._length = start


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
        space=Cost("Nmax + sum of widths", lambda shape: shape.largest * (1.0 + shape.windows)),
    )

    def _column(self, operation: Operation) -> Column:
        return AnswersColumn(operation, self._windows)
