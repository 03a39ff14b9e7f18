"""Sketches over intervals: the layouts of B-INT and L-INT where a combination is an object, not a number.

Both keep sketches of whole leaves and their unions, and cover a range as their namesakes over numbers do.
Cost: B-INT: update 1/64 unions, lookup 2 log2(W / 64), space 2 Nmax / 64 sketches. L-INT: update 1/32 unions for each
partition, lookup 3, space up to (1 + 4 gamma) Nmax / 64. Needs: sketches, whose unions may come in any order.
Source: Arasu and Widom, VLDB 2004, sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import Sketch, Sketches, union
from panewise.arrays import Bools, Ints
from panewise.errors import WindowError
from panewise.structures.column import Elements, ValuesColumn, Windows
from panewise.structures.partitions import Partition, every_width, partitions_of
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.sketch_column import LEAF, SketchColumn


class BaseIntervalsOfSketches(SketchColumn):
    """B-INT: level j holds the unions of 2**j leaves, in a ring with a place for each held block of that size."""

    _levels: list[list[Sketch]]

    def _lay_out(self, windows: Windows) -> None:
        leaves = windows.largest // LEAF
        self._levels = [[None] * (leaves >> level) for level in range(leaves.bit_length())]

    def _add_leaf(self, leaf: int, sketch: Sketch, oldest: int) -> None:
        block = leaf
        for level, ring in enumerate(self._levels):
            if level:
                if not block & 1 or (block - 1) * (LEAF << (level - 1)) < oldest:
                    return
                below = self._levels[level - 1]
                sketch = union(self.kind, [below[(block - 1) % len(below)], sketch])
                block >>= 1
            ring[block % len(ring)] = sketch

    def _cover(self, low: int, high: int, first: int, last: int) -> Iterator[Sketch]:
        leaf, end = first // LEAF, last // LEAF
        while leaf < end:
            level = 0
            while not leaf & ((2 << level) - 1) and leaf + (2 << level) <= end:
                level += 1
            ring = self._levels[level]
            yield ring[(leaf >> level) % len(ring)]
            leaf += 1 << level

    def _stored(self) -> Iterator[tuple[int, int, Sketch]]:
        for level, ring in enumerate(self._levels):
            span = LEAF << level
            newest = self._length // span
            for block in range(max(-(-self._first // span), newest - len(ring)), newest):
                yield block * span, (block + 1) * span, ring[block % len(ring)]


class LandmarksOfSketches(SketchColumn):
    """L-INT: for each partition, unions of leaves up to the next landmark, and since the last one."""

    _partitions: dict[int, Partition]
    _suffixes: dict[int, dict[int, Sketch]]
    """By level and the position where they begin."""
    _prefixes: dict[int, dict[int, Sketch]]
    """By level and the position where they end."""
    _leaves: dict[int, Sketch]

    def _lay_out(self, windows: Windows) -> None:
        partitions = partitions_of(windows.pairs + every_width(windows.at_least))
        self._partitions = {partition.level: partition for partition in partitions}
        # Windows of lower levels are about as short as a leaf, and read as values.
        held = [level for level in self._partitions if 1 << level >= LEAF]
        self._suffixes = {level: {} for level in held}
        self._prefixes = {level: {} for level in held}
        self._leaves = {}

    def _add_leaf(self, leaf: int, sketch: Sketch, oldest: int) -> None:
        begin, end = leaf * LEAF, (leaf + 1) * LEAF
        self._leaves[begin] = sketch
        for level, prefixes in self._prefixes.items():
            spacing = 1 << level
            landmark = begin // spacing * spacing
            if landmark >= oldest:
                before = prefixes[begin] if begin > landmark else None
                prefixes[end] = union(self.kind, [before, sketch])
            if end % spacing == 0:
                suffix = None
                for at in range(begin, max(landmark, -(-oldest // LEAF) * LEAF) - 1, -LEAF):
                    suffix = union(self.kind, [self._leaves[at], suffix])
                    self._suffixes[level][at] = suffix

    def _cover(self, low: int, high: int, first: int, last: int) -> Iterator[Sketch]:
        level = self._partition_for(low, high).level
        if level not in self._prefixes or first >= last:
            return
        prefixes = self._prefixes[level]
        block, last_block = first >> level, (last - 1) >> level
        if first == block << level:
            ends = [*((between + 1) << level for between in range(block, last_block)), last]
        else:
            yield self._suffixes[level][first]
            ends = [(between + 1) << level for between in range(block + 1, last_block)]
            ends += [last] * (last_block > block)
        for end in ends:
            yield prefixes[end]

    def _partition_for(self, low: int, high: int) -> Partition:
        """The partition that serves a range, as `kernels.landmark_intervals` finds it."""
        found = self._partitions.get((high - low).bit_length() - 1)
        if found is not None and self._reaches(found, low, high):
            return found
        # From the beginning of the stream, where a window is not yet full: a prefix of the first block.
        for partition in self._partitions.values() if low == 0 else ():
            if high <= 1 << partition.level and self._reaches(partition, low, high):
                return partition
        widths = [f"{1 << level} to {(2 << level) - 1}" for level in self._partitions]
        raise WindowError(
            f"landmark_intervals has no partition for window ({self._length - low}, {self._length - high}): it serves "
            f"widths of {', '.join(widths) or 'nothing yet'}, as far back as its windows reach; add the window"
        )

    def _reaches(self, partition: Partition, low: int, high: int) -> bool:
        spacing = 1 << partition.level
        return self._length - low <= partition.suffixes and self._length - high < partition.prefixes - spacing

    def _let_go(self) -> None:
        for level, partition in self._partitions.items():
            if level in self._prefixes:
                _drop(self._suffixes[level], self._length - partition.suffixes)
                _drop(self._prefixes[level], self._length - partition.prefixes)
        longest = max((1 << level for level in self._prefixes), default=0)
        _drop(self._leaves, self._length - longest - LEAF)

    def _stored(self) -> Iterator[tuple[int, int, Sketch]]:
        for level in self._prefixes:
            spacing = 1 << level
            for begin, sketch in self._suffixes[level].items():
                yield begin, (begin // spacing + 1) * spacing, sketch
            for end, sketch in self._prefixes[level].items():
                yield (end - 1) // spacing * spacing, end, sketch
        for begin, sketch in self._leaves.items():
            yield begin, begin + LEAF, sketch


class SketchesByKey(ValuesColumn):
    """The sketches of each key. They are objects, so unlike numbers they lie in a column of their own for each key."""

    def __init__(
        self,
        make: Callable[[Kind, np.dtype[Any], Windows], SketchColumn],
        kind: Kind,
        dtype: np.dtype[Any],
        pool: Pool,
        windows: Windows,
    ) -> None:
        super().__init__(dtype, pool)
        self._make: Callable[[], SketchColumn] = lambda: make(kind, dtype, windows)
        self._of: dict[int, SketchColumn] = {}

    def append(self, batch: Batch, values: Elements, valid: Bools) -> None:
        for key, begin, low, high in zip(batch.keys.tolist(), batch.begin.tolist(), batch.bounds, batch.bounds[1:]):
            if key not in self._of:
                self._of[key] = self._make()
            self._of[key].append(begin, values[low:high], valid[low:high])

    def sketches(self, keys: Keys, low: Ints, high: Ints) -> Sketches:
        codes = [0] * len(low) if keys is None else keys.tolist()
        ranges = zip(codes, low.tolist(), high.tolist())
        found = (self._of[key].of_range(begin, end) if begin < end else None for key, begin, end in ranges)
        return np.fromiter(found, np.object_, len(low))

    def elements(self, keys: Keys, positions: Ints) -> tuple[Elements, Bools]:
        values, valid = np.zeros(len(positions), self.dtype), np.zeros(len(positions), np.bool_)
        codes = np.zeros(len(positions), np.int64) if keys is None else keys
        for key in np.unique(codes).tolist():
            places = np.flatnonzero(codes == key)
            first = int(self.pool.first[key])
            held = self._of[key].elements(first, int(self.pool.length[key]))
            values[places], valid[places] = (part[positions[places] - first] for part in held)
        return values, valid

    def relocate(self, moves: Moves) -> None:
        """Nothing lies in the pool."""

    def forget(self, keys: Ints) -> None:
        for key in keys.tolist():
            del self._of[key]

    def fit(self, windows: Windows) -> None:
        for key, column in self._of.items():
            column.fit(windows, int(self.pool.first[key]), int(self.pool.length[key]))

    def arrays(self) -> list[Elements]:
        return []

    @property
    def nbytes(self) -> int:
        """The memory of the rings, and an estimate for the sketches."""
        return sum(column.nbytes for column in self._of.values())

    def check(self, keys: Ints) -> None:
        assert sorted(self._of) == keys.tolist()
        for key, column in self._of.items():
            column.check(int(self.pool.first[key]), int(self.pool.length[key]))


def _drop(sketches: dict[int, Sketch], oldest: int) -> None:
    """Drop what lies before a position."""
    for position in [position for position in sketches if position < oldest]:
        del sketches[position]
