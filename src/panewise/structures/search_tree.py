"""PSoup's search tree with aggregates (Sharing, section 3.1.3), with eight children a node, each level in a ring."""

from __future__ import annotations

from math import log
from typing import ClassVar

import numpy as np

from panewise.kernels import rings
from panewise.kernels.search_tree import FAN_OUT, FAN_OUT_BITS, extend_tree, fold_tree
from panewise.structures.column import Column, Elements, Ints, Operation, Windows
from panewise.structures.sheet import FIXED_SIZE, Cost, DataSheet, Lookups
from panewise.structures.structure import Structure


class TreeColumn(Column):
    """All levels end to end in one array."""

    def __init__(self, operation: Operation, windows: Windows) -> None:
        super().__init__(operation, windows)
        self._length = 0
        self._lay_out(windows.largest)

    def append(self, start: int, values: Elements) -> None:
        # A batch longer than the ring would only overwrite itself.
        skipped = max(0, len(values) - int(self._offsets[1]))
        extend_tree(
            self.operation.code, self.operation.user, self._nodes, self._offsets, start + skipped, values[skipped:]
        )
        self._length = start + len(values)

    def fold(self, low: Ints, high: Ints) -> Elements:
        operation = self.operation
        sizes = np.diff(self._offsets)
        newest = max(self._length - 1, 0) >> (FAN_OUT_BITS * np.arange(len(sizes)))
        laps = newest // sizes * sizes
        return fold_tree(
            operation.code, operation.user, operation.identity, self._nodes, self._offsets, laps, low, high
        )

    def elements(self, start: int, end: int) -> Elements:
        return rings.read(self._nodes[: self._offsets[1]], start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        if windows.largest == self._offsets[1]:
            return
        kept = max(start, end - windows.largest)
        elements = self.elements(kept, end)
        self._lay_out(windows.largest)
        self.append(kept, elements)

    def arrays(self) -> list[Elements]:
        return [self._nodes, self._offsets]

    def check(self, start: int, end: int) -> None:
        assert end == self._length or end == 0
        operation = self.operation
        for level in range(1, len(self._offsets) - 1):
            span = FAN_OUT**level
            size = int(self._offsets[level + 1] - self._offsets[level])
            for number in range(-(-start // span), end // span):
                low = np.array([number * span], np.int64)
                stored = self._nodes[self._offsets[level] + number % size]
                leaves = fold_tree(
                    operation.code, operation.user, operation.identity,
                    self._nodes[: self._offsets[1]], self._offsets[:2],
                    np.array([rings.lap_of(end, int(self._offsets[1]))]), low, low + span,
                )  # fmt: skip
                assert np.allclose(stored, leaves[0], equal_nan=True)

    def _lay_out(self, largest: int) -> None:
        sizes = [largest]
        while sizes[-1] > FAN_OUT:
            # One more than whole nodes: the newest node has begun.
            sizes.append(largest // FAN_OUT ** len(sizes) + 2)
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._nodes = np.zeros(self._offsets[-1], self.operation.dtype)


class SearchTree(Structure):
    """Any associative aggregate, any window: every update and every lookup walks the height of a tree."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="search_tree",
        title="PSoup",
        source="Sharing, 3.1.3",
        kinds=FIXED_SIZE,
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("log8 Nmax", lambda shape: max(1.0, log(shape.largest, FAN_OUT))),
        lookup=Cost("7 log8 W", lambda shape: 7.0 * max(1.0, log(shape.width, FAN_OUT))),
        space=Cost("8/7 Nmax", lambda shape: 8.0 / 7.0 * shape.largest),
    )

    def _column(self, operation: Operation) -> Column:
        return TreeColumn(operation, self._windows)
