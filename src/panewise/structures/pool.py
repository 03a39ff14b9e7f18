"""The pool: where the elements of each key lie. All columns of a structure share this layout.

A key has a segment, a power of two long, and in it a ring of its newest elements. It begins with a small segment and
moves to one twice as long when that is full, until it holds the largest window. Segments left behind are handed out
again before the pool grows. When the pool must grow, all segments move together and leave no gaps between them. A
stream without groups has key 0 alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.arrays import Bools, Ints
from panewise.errors import StructureError
from panewise.kernels.pool import find_overlap, group_by_key

Keys = Ints | None
"""The keys of lookups; None for key 0 alone."""
Shifts = npt.NDArray[np.int8]

FIRST_SHIFT = 2
"""A new key gets 2**2 places."""
MOST_KEYS = 1 << 28
_SHIFTS = 48
_HEADROOM = 1.25
_KEY_0 = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Batch:
    """Elements of several keys, each key's together: those of keys[j] are bounds[j] .. bounds[j + 1] - 1."""

    keys: Ints
    bounds: Ints
    begin: Ints
    """The position of each key's first new element."""
    after: Ints
    """The first position that each key holds when the batch is taken in."""

    @cached_property
    def counts(self) -> Ints:
        """How many elements each key has in it."""
        return np.diff(self.bounds)


@dataclass(frozen=True)
class Moves:
    """Segments that change their place; `size` is that of a new pool, or None when they move within the old one."""

    keys: Ints
    old_offset: Ints
    old_shift: Shifts
    new_offset: Ints
    new_shift: Shifts
    first: Ints
    length: Ints
    size: int | None

    @cached_property
    def resized(self) -> Ints:
        """The keys whose segment changes its size, so that positions change their places in it."""
        is_resized: Bools = self.old_shift != self.new_shift
        return self.keys[is_resized]

    def elements(self, rings: npt.NDArray[Any]) -> tuple[Batch, npt.NDArray[Any]]:
        """What lies in the segments before they move, as a batch to append after it."""
        counts = self.length - self.first
        bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        positions = np.arange(bounds[-1]) + np.repeat(self.first - bounds[:-1], counts)
        masks = (1 << self.old_shift.astype(np.int64)) - 1
        places = np.repeat(self.old_offset, counts) + (positions & np.repeat(masks, counts))
        return Batch(self.keys, bounds, self.first, self.first), rings[places]


class FreeSegments:
    """The starts of free segments of one size, as a stack."""

    def __init__(self) -> None:
        self._starts = np.empty(0, np.int64)
        self.count = 0

    def give(self, starts: Ints) -> None:
        """Take segments back."""
        if self.count + len(starts) > len(self._starts):
            longer = np.empty(2 * (self.count + len(starts)), np.int64)
            longer[: self.count] = self.starts
            self._starts = longer
        self._starts[self.count : self.count + len(starts)] = starts
        self.count += len(starts)

    def take(self, most: int) -> Ints:
        """Take up to `most` segments."""
        taken = self._starts[max(self.count - most, 0) : self.count].copy()
        self.count -= len(taken)
        return taken

    @property
    def starts(self) -> Ints:
        """Where the free segments begin."""
        return self._starts[: self.count]

    @property
    def nbytes(self) -> int:
        """The memory of the stack."""
        return self._starts.nbytes


class Pool:
    """The segments of all keys. A key is a small number: its place in the arrays."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        """The most elements of a key that are held."""
        self.offset = np.full(1, -1, np.int64)
        self.shift = np.full(1, -1, np.int8)
        """The logarithm of the segment's size; -1 if the key has no segment."""
        self.length = np.zeros(1, np.int64)
        self.first = np.zeros(1, np.int64)
        self._counts = np.zeros(1, np.int64)
        self._free = [FreeSegments() for _ in range(_SHIFTS)]
        self._top = 0
        self.size = 0
        """How many places each column must have."""
        self.has_one_segment = False
        """Whether there is room for the segment of one key alone, which begins at 0."""

    @property
    def nbytes(self) -> int:
        """The memory of the facts about each key, and of the lists of free segments."""
        arrays = (self.offset, self.shift, self.length, self.first, self._counts)
        return sum(array.nbytes for array in arrays) + sum(free.nbytes for free in self._free)

    @property
    def live(self) -> Ints:
        """The keys that have elements, in order."""
        return np.flatnonzero(self.length).astype(np.int64, copy=False)

    def cover(self, codes: Ints) -> None:
        """Make the arrays long enough for some keys."""
        most = int(codes.max(initial=-1)) + 1
        if most > MOST_KEYS:
            raise StructureError(
                f"key {most - 1}: keys are places in arrays and must be below {MOST_KEYS}; number them from 0 on"
            )
        known = len(self.length)
        if most <= known:
            return
        more = max(most, known + known // 4) - known
        self.offset = np.concatenate([self.offset, np.full(more, -1, np.int64)])
        self.shift = np.concatenate([self.shift, np.full(more, -1, np.int8)])
        self.length, self.first, self._counts = (
            np.concatenate([array, np.zeros(more, np.int64)]) for array in (self.length, self.first, self._counts)
        )

    def group(self, codes: Keys, count: int) -> tuple[Batch, Ints | None]:
        """Group new elements by key; also gives the order into which to put them, None for that in which they are."""
        if codes is None:
            begin = int(self.length[0])
            after = max(int(self.first[0]), begin + count - self.largest)
            return Batch(_KEY_0, np.array([0, count]), np.array([begin]), np.array([after])), None
        keys, bounds, order = group_by_key(codes, self._counts)
        return self.batch(keys, bounds, self.length[keys]), order if len(keys) > 1 else None

    def batch(self, keys: Ints, bounds: Ints, begin: Ints) -> Batch:
        """Elements that begin at some position of each key."""
        return Batch(keys, bounds, begin, np.maximum(self.first[keys], begin + np.diff(bounds) - self.largest))

    def held(self) -> Batch:
        """Everything that is held, as one batch."""
        keys = self.live
        first = self.first[keys]
        bounds = np.concatenate([[0], np.cumsum(self.length[keys] - first)]).astype(np.int64)
        return Batch(keys, bounds, first, first)

    def places(self, keys: Keys, positions: Ints) -> Ints:
        """Where elements that are held lie."""
        if keys is None:
            places: Ints = self.offset[0] + (positions & ((1 << max(int(self.shift[0]), 0)) - 1))
            return places
        return self.offset[keys] + (positions & ((1 << self.shift[keys].astype(np.int64)) - 1))

    def make_room(self, batch: Batch) -> Moves | None:
        """Give each key of a batch a large enough segment; returns what must move for that, or None for nothing."""
        if batch.keys is _KEY_0 and self.shift[0] >= 0:
            needed = min(int(batch.begin[0] + batch.bounds[1] - self.first[0]), self.largest)
            if needed <= 1 << int(self.shift[0]):
                return None
        shifts = self._fitting(np.minimum(batch.begin + batch.counts - self.first[batch.keys], self.largest))
        growing = shifts > self.shift[batch.keys]
        if not growing.any():
            return None
        keys, shifts = batch.keys[growing], shifts[growing]
        wanted = np.bincount(shifts, minlength=_SHIFTS)
        fresh = sum(
            max(0, int(count) - free.count) << shift for shift, (count, free) in enumerate(zip(wanted, self._free))
        )
        if self._top + fresh > self.size:
            every = self.shift.copy()
            every[keys] = shifts
            return self._lay_out(every)
        offsets = np.empty(len(keys), np.int64)
        for shift in np.flatnonzero(wanted).tolist():
            offsets[shifts == shift] = self._take(shift, int(wanted[shift]))
        is_moved = self.shift[keys] >= 0
        moves = self._moves(keys[is_moved], offsets[is_moved], shifts[is_moved], None)
        self._give(moves.old_offset, moves.old_shift)
        self.offset[keys], self.shift[keys] = offsets, shifts
        return moves

    def advance(self, batch: Batch) -> None:
        """Count a batch as taken in."""
        if batch.keys is _KEY_0:
            self.length[0], self.first[0] = batch.begin[0] + batch.bounds[1], batch.after[0]
            return
        self.length[batch.keys] = batch.begin + batch.counts
        self.first[batch.keys] = batch.after

    def forget(self, keys: Ints) -> None:
        """Drop the elements of some keys, all different, that have elements; their segments become free."""
        self._give(self.offset[keys], self.shift[keys])
        self.offset[keys] = self.shift[keys] = -1
        self.length[keys] = self.first[keys] = 0

    def fit(self, largest: int) -> Moves | None:
        """Hold at most `largest` elements of a key; `first` must say so already."""
        self.largest = largest
        keys = self.live
        shifts = self._fitting(self.length[keys] - self.first[keys])
        if not np.any(shifts < self.shift[keys]) or self.shift.max(initial=-1) <= self._most_shift:
            return None
        every = np.full(len(self.shift), -1, np.int8)
        every[keys] = shifts
        return self._lay_out(every)

    def check(self) -> None:
        """Assert what must hold for the arrays."""
        keys = self.live
        held = self.length - self.first
        assert np.all(self.first >= 0)
        assert np.all(held[keys] >= 1)
        assert np.all(held <= self.largest)
        assert np.all(held[keys] <= 1 << self.shift[keys].astype(np.int64))
        assert np.array_equal(np.flatnonzero(self.shift >= 0), keys)
        assert np.array_equal(np.flatnonzero(self.offset >= 0), keys)
        assert not self._counts.any()
        assert self._top <= self.size
        starts = np.concatenate([self.offset[keys], *(free.starts for free in self._free)])
        counts = [len(free.starts) for free in self._free]
        shifts = np.concatenate([self.shift[keys].astype(np.int64), np.repeat(np.arange(_SHIFTS), counts)])
        order = np.argsort(starts)
        assert find_overlap(starts[order], 1 << shifts[order], self._top) == -1

    @property
    def _most_shift(self) -> int:
        return (self.largest - 1).bit_length()

    def _fitting(self, elements: Ints) -> Shifts:
        """The logarithms of the segments that hold these numbers of elements."""
        exact = np.frexp((np.maximum(elements, 1) - 1).astype(np.float64))[1]
        return np.maximum(exact, min(FIRST_SHIFT, self._most_shift)).astype(np.int8)

    def _take(self, shift: int, count: int) -> Ints:
        recycled = self._free[shift].take(count)
        fresh = count - len(recycled)
        starts = self._top + (np.arange(fresh, dtype=np.int64) << shift)
        self._top += fresh << shift
        return np.concatenate([recycled, starts])

    def _give(self, offsets: Ints, shifts: Shifts) -> None:
        for shift in np.unique(shifts).tolist():
            self._free[shift].give(offsets[shifts == shift])

    def _lay_out(self, shifts: Shifts) -> Moves:
        """Lay out all segments again, end to end, with room to spare behind them."""
        keys = np.flatnonzero(shifts >= 0).astype(np.int64, copy=False)
        sizes = 1 << shifts[keys].astype(np.int64)
        ends = np.cumsum(sizes)
        self._free = [FreeSegments() for _ in range(_SHIFTS)]
        self._top = int(ends[-1]) if len(ends) else 0
        self.has_one_segment = len(keys) == 1
        self.size = self._top if self.has_one_segment else int(self._top * _HEADROOM)
        offsets = ends - sizes
        is_moved = self.shift[keys] >= 0
        moves = self._moves(keys[is_moved], offsets[is_moved], shifts[keys[is_moved]], self.size)
        self.shift = shifts
        self.offset = np.full(len(shifts), -1, np.int64)
        self.offset[keys] = offsets
        return moves

    def _moves(self, keys: Ints, offsets: Ints, shifts: Shifts, size: int | None) -> Moves:
        return Moves(
            keys, self.offset[keys], self.shift[keys], offsets, shifts, self.first[keys], self.length[keys], size
        )
