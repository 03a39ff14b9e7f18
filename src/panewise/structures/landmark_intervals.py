"""L-INT: landmark intervals (Sharing, section 3.1.2), in the general form.

Windows are divided into partitions by width: those from 2**level to less than twice as wide share landmarks at the
multiples of 2**level. A level without windows has no partition. Each partition keeps its landmarks only as far back as
its windows reach: for suffix windows that is less than two spacings, so all partitions together hold O(Nmax).

Where the paper extends an interval over the landmarks that follow, this adds the one whole block that can lie between:
three places instead of two, and half of the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Any, ClassVar

import numpy as np

from panewise.aggregates.components import Kind
from panewise.errors import WindowError
from panewise.kernels import rings
from panewise.kernels.landmark_intervals import extend_landmarks, fold_landmarks
from panewise.structures.column import Column, Elements, Ints, Operation, ValuesColumn, Windows
from panewise.structures.sheet import FIXED_SIZE, SKETCHES, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


@dataclass(frozen=True)
class Partition:
    """Windows from 2**level to less than twice as wide, which begin up to `left` and end up to `right` back."""

    level: int
    left: int
    right: int

    @property
    def suffixes(self) -> int:
        """How many suffixes it holds: whole blocks, from the first position of any window."""
        return -(-self.left >> self.level) << self.level

    @property
    def prefixes(self) -> int:
        """How many prefixes it holds: from the end of any window, and a block more."""
        return (-(-(self.right + 1) >> self.level) + 1) << self.level


def partitions_of(windows: list[tuple[int, int]]) -> list[Partition]:
    """The partitions of some windows, the narrowest first.

    >>> partitions_of([(2000, 0), (1500, 500), (90, 0)])
    [Partition(level=6, left=90, right=0), Partition(level=9, left=1500, right=500), \
Partition(level=10, left=2000, right=0)]
    """
    partitions: dict[int, Partition] = {}
    for left, right in windows:
        level = (left - right).bit_length() - 1
        known = partitions.get(level, Partition(level, 0, 0))
        partitions[level] = Partition(level, max(known.left, left), max(known.right, right))
    return [partitions[level] for level in sorted(partitions)]


class LandmarksColumn(Column):
    """The elements, and for each partition a ring of suffixes and one of prefixes."""

    _places: Ints
    """By level, as `fold_landmarks` reads them."""
    _first: int
    _length: int

    def __init__(self, operation: Operation, windows: Windows) -> None:
        super().__init__(operation, windows)
        self._lay_out(windows, 0)

    def append(self, start: int, values: Elements) -> None:
        if start != self._length:
            self._first = start
        operation = self.operation
        for level, (suffixes, suffix_size, _, prefixes, prefix_size, _) in enumerate(self._places.tolist()):
            if suffix_size:
                extend_landmarks(
                    operation.code,
                    operation.user,
                    self._ring,
                    self._store[suffixes : suffixes + suffix_size],
                    self._store[prefixes : prefixes + prefix_size],
                    level,
                    self._first,
                    start,
                    values,
                )
        rings.write(self._ring, start, values)
        self._length = start + len(values)
        for size in (1, 4):
            sizes = np.maximum(self._places[:, size], 1)
            self._places[:, size + 1] = max(self._length - 1, 0) // sizes * sizes

    def fold(self, low: Ints, high: Ints) -> Elements:
        operation, out = self.operation, np.empty(len(low), self.operation.dtype)
        unserved = fold_landmarks(
            operation.code, operation.user, self._store, self._places, self._length, low, high, out
        )
        if unserved >= 0:
            left, right = self._length - low[unserved], self._length - high[unserved]
            widths = [f"{1 << level} to {(2 << level) - 1}" for level in np.flatnonzero(self._places[:, 1])]
            raise WindowError(
                f"landmark_intervals has no partition for window ({left}, {right}): it serves widths of "
                f"{', '.join(widths) or 'nothing yet'}, as far back as its windows reach; add the window"
            )
        return out

    def elements(self, start: int, end: int) -> Elements:
        return rings.read(self._ring, start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        kept = max(start, end - windows.largest)
        elements = self.elements(kept, end)
        self._lay_out(windows, kept)
        self.append(kept, elements)

    def arrays(self) -> list[Elements]:
        return [self._ring, self._store]

    def check(self, start: int, end: int) -> None:
        assert end == self._length or end == 0
        for level, (_, suffixes, _, _, prefixes, _) in enumerate(self._places.tolist()):
            assert suffixes % (1 << level) == prefixes % (1 << level) == 0

    def _lay_out(self, windows: Windows, start: int) -> None:
        partitions = partitions_of(windows.pairs + every_width(windows.at_least))
        self._places = np.zeros((1 + max((p.level for p in partitions), default=0), 6), np.int64)
        end = 0
        for partition in partitions:
            self._places[partition.level] = [
                end, partition.suffixes, 0, end + partition.suffixes, partition.prefixes, 0,
            ]  # fmt: skip
            end += partition.suffixes + partition.prefixes
        self._store = np.zeros(end, self.operation.dtype)
        self._ring = np.zeros(windows.largest, self.operation.dtype)
        self._first = start
        self._length = start


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
    )

    def _column(self, operation: Operation) -> Column:
        return LandmarksColumn(operation, self._windows)

    def _sketch_column(self, kind: Kind, dtype: np.dtype[Any]) -> ValuesColumn:
        from panewise.structures.sketch_intervals import LandmarksOfSketches

        return LandmarksOfSketches(kind, dtype, self._windows)


def every_width(elements: int) -> list[tuple[int, int]]:
    """Windows whose partitions serve every width up to this many elements."""
    if elements <= 1:
        return []
    return [(elements, elements - (1 << bit)) for bit in range(elements.bit_length())]


def _gamma(largest: int, windows: int) -> float:
    """The greatest number of partitions."""
    return min(float(windows), log2(largest) + 1.0)
