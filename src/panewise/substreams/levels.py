"""Levels: what CI-COUNT and CI-SUM have in common, and what p levels of each size guarantee.

Level j = q p + r begins at distance D(j) = 1 - p + (p + r) 2**q from a key's newest event and has 2**q positions.

At least v: take the last level that ends at or before distance v. When v positions lie in the window, the event of that
level does, so no key is missed. When the event of level j does, at least D(j) positions do. The worst v is the last
before the next level can be used, D(j + 2) - 2, and D(j) / (D(j + 2) - 2) is

    for r < p - 1    more than 1 - 2 / (p + 2)       as two levels of the same size follow
    for r = p - 1    more than 1 - 3 / (2 p + 2)     as the second one is twice as large

or equal to it (p = 2 reaches 1/2). So the error is 3/4 for p = 1 and 2 / (p + 2) from p = 2 on. Up to v = p the answer
is exact: the level is one position, v.

At most v: take the first level that begins after distance v. A key that passes has no event at that level in the
window. A key with such a level has fewer than D(j + 1) - 1 positions in the window, and with v as small as D(j - 1)
this is the same pair of levels as above: at most v / (1 - error).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints
from panewise.errors import SubstreamError
from panewise.kernels import collective_count as kernel
from panewise.kernels import key_events as rings
from panewise.kernels.collective_count import Levels
from panewise.kernels.segments import HEAP_OFFSET, HEAP_SIZE, no_segments
from panewise.substreams.filter import Numbers, Outcome, Steps, SubstreamFilter, integer_bounds, lengthened

MOST_PER_SIZE = 1024
MOST_SIZES = 63


def error_of(levels_per_size: int) -> float:
    """The relative error of p levels of each size."""
    return 0.75 if levels_per_size == 1 else 2 / (levels_per_size + 2)


def levels_for(error: float) -> int:
    """The least p whose relative error is at most the wanted one.

    >>> levels_for(0.75), levels_for(0.5), levels_for(0.1)
    (1, 2, 18)
    """
    if not 0 < error <= 1:
        raise SubstreamError(f"the relative error must be above 0 and at most 1, got {error}")
    if error >= 0.75:
        return 1
    wanted = max(2, math.ceil(2 / error - 2))
    return wanted - 1 if wanted > 2 and error_of(wanted - 1) <= error else wanted


def reached(threshold: int, levels_per_size: int) -> int:
    """What every key has at least that an approximate lookup of `>= threshold` gives: where the level begins.

    >>> reached(4, 4), reached(11, 4), reached(11, 1), reached(11, 11)
    (4, 9, 4, 11)
    """
    best, p, q = 1, levels_per_size, 0
    while True:
        begins = [1 - p + (p + r << q) for r in range(p)]
        able = [begin for begin in begins if begin + (1 << q) - 1 <= threshold]
        if not able:
            return best
        best, q = max(best, *able), q + 1


class LevelFilter(SubstreamFilter):
    """A filter by count or sum with p levels of each size."""

    holds: ClassVar[int]
    """What is kept beside the time of an event: nothing for counts, a running sum for sums."""

    def __init__(
        self,
        largest_us: int,
        *,
        error: float | None = None,
        levels_per_size: int | None = None,
        least_threshold: int = 1,
    ) -> None:
        if error is not None and levels_per_size is not None:
            raise SubstreamError("give the error or the levels per size, not both: one follows from the other")
        per_size = levels_for(error) if error is not None else 4 if levels_per_size is None else levels_per_size
        if not 1 <= per_size <= MOST_PER_SIZE:
            raise SubstreamError(
                f"{self.name} takes 1 to {MOST_PER_SIZE} levels per size, got {per_size}; look up exactly instead"
            )
        if not 1 <= least_threshold < rings.SUM_LIMIT:
            raise SubstreamError(f"the least threshold must be at least 1 and below 2**61, got {least_threshold}")
        super().__init__(largest_us, holds=self.holds)
        self.levels_per_size = per_size
        self.least_threshold = least_threshold
        # Level 0 is the order in which keys are linked; the first that is kept serves the least threshold.
        self._first = max(1, int(kernel.level_of(least_threshold + 1, per_size)) - 1)
        heaps = np.zeros((MOST_SIZES * per_size, 3), np.int64)
        heaps[:, HEAP_OFFSET] = -1
        self._levels = Levels(
            heaps=heaps,
            times=np.zeros(64, np.int64),
            seats=np.zeros(64, np.int32),
            heap_free=no_segments(),
            entries=self._empty_entries(len(self._store.seats)),
            places=np.zeros(64, np.int32),
            place_free=no_segments(),
        )

    @property
    def error(self) -> float:
        """How far off an approximate answer may be: with `>= v`, all its keys reach v times one minus this."""
        return error_of(self.levels_per_size)

    def level_times(self, key: int) -> Ints:
        """TSTAMP of a key: the time of its event at each level, from level 0; 0 at levels that are not kept."""
        if not self.is_live([key])[0]:
            return np.zeros(0, np.int64)
        out = np.zeros(len(self._levels.heaps), np.int64)
        count = kernel.level_times(self._store, self._levels, self._first, int(self._store.seat_of[key]), out)
        return out[:count]

    def _replay(self, steps: Steps, exact: bool, at: int, ends: Ints, found: Ints, used: int) -> Outcome:
        outcome: Outcome = kernel.replay_levels(
            self._store,
            self._levels,
            self._holds,
            self.levels_per_size,
            self._first,
            exact,
            at,
            *steps,
            ends,
            found,
            used,
        )
        return outcome

    def _bounds(self, codes: Ints, thresholds: Numbers) -> tuple[npt.NDArray[np.int8], Numbers, npt.NDArray[np.bool_]]:
        kinds, bounds, is_never = integer_bounds(codes, thresholds)
        return kinds, np.clip(bounds, 0, rings.SUM_LIMIT), is_never

    def _index_arrays(self) -> Sequence[Numbers]:
        return self._levels

    def _seats_grew(self, count: int) -> None:
        entries = self._empty_entries(count)
        entries[: len(self._levels.entries)] = self._levels.entries
        self._levels = self._levels._replace(entries=entries)

    def _grow_index(self, need: int) -> None:
        levels = self._levels
        if need == rings.NEEDS_PLACES:
            self._levels = levels._replace(places=lengthened(levels.places, 2 * len(levels.places), 0))
            return
        count = 2 * len(levels.times)
        self._levels = levels._replace(
            times=lengthened(levels.times, count, 0), seats=lengthened(levels.seats, count, 0)
        )

    def _check_index(self) -> None:
        store, levels = self._store, self._levels
        for level, (offset, _, size) in enumerate(levels.heaps):
            times, seats = levels.times[offset : offset + size], levels.seats[offset : offset + size]
            above = (np.arange(1, size) - 1) >> kernel.CHILDREN_LOG
            assert np.all(times[above] >= times[1:])
            assert np.array_equal(levels.places[levels.entries[seats, kernel.ENTRY_OFFSET] + level], np.arange(size))
        counted = np.zeros(len(levels.heaps), np.int64)
        for seat in np.flatnonzero(store.seats[:, rings.CODE] >= 0):
            reached = int(levels.entries[seat, kernel.ENTRY_COUNT])
            counted[self._first : reached] += 1
            self._check_key(int(seat), self.level_times(int(store.seats[seat, rings.CODE])))
        assert np.array_equal(counted, levels.heaps[:, HEAP_SIZE])

    def _check_key(self, seat: int, stored: Ints) -> None:
        """Assert that each level has the event that the definition gives it, while that event is held."""
        row: dict[int, Any] = dict(enumerate(self._store.seats[seat].tolist()))
        times, values = self._ring(seat)
        totals = np.arange(row[rings.START] + 1, row[rings.END] + 1) if self._holds == rings.COUNTS else values
        before = row[rings.START] if self._holds == rings.COUNTS else row[rings.SUM_BEFORE]
        assert np.all(np.diff(totals, prepend=before) > 0)
        p, total = self.levels_per_size, row[rings.TOTAL]
        for level in (0, *range(self._first, len(self._levels.heaps))):
            q, r = divmod(level, p)
            position = (((total + p) >> q) - p - r) << q
            if position > before:
                assert stored[level] == times[np.searchsorted(totals, position)]
            else:
                # The event is gone: what is stored, if anything, must not pass any lookup.
                assert level >= len(stored) or (position > 0 and stored[level] <= self.held_from)

    def _empty_entries(self, count: int) -> Ints:
        entries = np.full((count, 3), -1, np.int64)
        entries[:, kernel.ENTRY_COUNT] = self._first
        return entries
