"""B-INT-QNT: sorted base intervals (Sharing, section 3.3).

Level j holds runs of 2**j neighbours in order; a window is the union of at most two runs a level, and a lookup selects
a quantile among them by narrowing every run. Each update merges the runs that it completes.
"""

from __future__ import annotations

from math import log2
from typing import Any, ClassVar

import numpy as np

from panewise.aggregates.components import Kind
from panewise.kernels import rings
from panewise.kernels.sorted_intervals import (
    NULL_KEY,
    append_runs,
    bits_of_keys,
    count_distinct_keys,
    keys_of_doubles,
    offsets_of,
    select_keys,
)
from panewise.structures.column import Bools, Column, Elements, Ints, Operation, ValuesColumn, Windows
from panewise.structures.sheet import Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class SortedIntervalsColumn(ValuesColumn):
    """All levels end to end in one array of keys, and which elements are not NULL.

    Values come back from their keys: -0.0 as 0.0, every NaN as the same one, NULL as any value.
    """

    def __init__(self, dtype: np.dtype[Any], windows: Windows) -> None:
        super().__init__(dtype, windows)
        self._length = 0
        self._first = 0
        self._lay_out(windows.largest)

    def append(self, start: int, values: Elements, valid: Bools) -> None:
        """Take in values, merging the runs that they complete: amortised O(log Nmax) a value."""
        if self._length == 0:
            # After a restore, elements from before are unknown: runs that begin there are never built.
            self._first = start
        keys = keys_of_doubles(values.view(np.int64)) if self._is_float else values
        append_runs(self._levels, self._offsets, self._laps, self._valid, start, keys, valid, self._first)
        self._length = start + len(values)

    def select(self, low: Ints, high: Ints, ranks: Ints) -> Elements:
        """The value at each range's rank.

        O(log^2 W log log W) a range where the order of arrival says little about the values, and O(log^3 W) at worst.
        """
        return self._values_of(select_keys(self._levels, self._offsets, self._laps, low, high, ranks))

    def distinct(self, low: Ints, high: Ints) -> Ints:
        """The number of different values of each range, by merging its runs: O(W) a range."""
        return count_distinct_keys(self._levels, self._offsets, self._laps, self._valid, low, high)

    def elements(self, start: int, end: int) -> tuple[Elements, Bools]:
        """The values at positions start .. end - 1, and which are valid."""
        keys = rings.read(self._levels[: self._offsets[1]], start, end)
        return self._values_of(keys), rings.read(self._valid, start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        """Build the runs again when the largest window changed: O(Nmax log Nmax)."""
        largest = windows.largest
        if largest == len(self._valid):
            return
        kept = max(start, end - largest)
        values, valid = self.elements(kept, end)
        self._lay_out(largest)
        self._length = 0
        self.append(kept, values, valid)

    def arrays(self) -> list[Elements]:
        """The runs, the marks of what is not NULL, and where the levels are."""
        return [self._levels, self._valid, self._offsets, self._laps]

    def check(self, start: int, end: int) -> None:
        """Assert that every whole run has its elements in order, and that NULLs have their key."""
        assert end == self._length
        assert end - start <= len(self._valid)
        keys = rings.read(self._levels[: self._offsets[1]], start, end)
        assert np.all(keys[~rings.read(self._valid, start, end)] == NULL_KEY)
        for level in range(1, len(self._laps)):
            span = 1 << level
            ring = self._levels[self._offsets[level] : self._offsets[level + 1]].reshape(-1, span)
            for number in range(-(-start // span), end // span):
                run = keys[number * span - start : (number + 1) * span - start]
                assert np.array_equal(ring[number % len(ring)], np.sort(run)), (level, number)

    @property
    def _is_float(self) -> bool:
        return self.dtype == np.float64

    def _values_of(self, keys: Ints) -> Elements:
        return bits_of_keys(keys).view(np.float64) if self._is_float else keys

    def _lay_out(self, largest: int) -> None:
        self._offsets = offsets_of(largest)
        self._levels = np.zeros(self._offsets[-1], np.int64)
        self._laps = np.zeros(len(self._offsets) - 1, np.int64)
        self._valid = np.zeros(largest, np.bool_)


def _log2(number: float) -> float:
    return max(1.0, log2(max(number, 1.0)))


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
    )

    def _column(self, operation: Operation) -> Column:
        raise AssertionError("sorted base intervals fold nothing: their data sheet names no component that is folded")

    def _values_column(self, dtype: np.dtype[Any]) -> ValuesColumn:
        return SortedIntervalsColumn(dtype, self._windows)
