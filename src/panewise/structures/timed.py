"""Time-based windows over any structure: one index from times to positions.

A structure sees positions only. `TimeIndex` keeps the time of each position that is held, so a window of time is a
range of positions found by two binary searches. `TimedStructure` orders what arrives out of order: elements wait until
the watermark has passed them, then enter in order of time, those of equal time in order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.arrays import Ints
from panewise.errors import HistoryError, StructureError, WindowError
from panewise.kernels.time_index import positions_after
from panewise.structures.arguments import check_times_of_each
from panewise.structures.folded import Answers
from panewise.structures.sheet import Lookups
from panewise.structures.structure import Structure

NEVER = -(2**63)

FEWEST = 64
"""The fewest elements for which a timed structure has room."""


class TimeIndex:
    """The times of the positions that are held, in order, ties in order of arrival."""

    def __init__(self) -> None:
        self._times = np.empty(FEWEST, np.int64)
        self._begin = self._end = 0
        self.first = 0
        """The position of the oldest time that is held."""
        self.forgotten = NEVER
        """The newest time whose positions have left."""

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def times(self) -> Ints:
        """The times that are held, a view."""
        return self._times[self._begin : self._end]

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._times.nbytes

    def append(self, times: Ints) -> None:
        """Add times, none before those already there."""
        if self._end + len(times) > len(self._times):
            held = self.times
            # Half of the array stays free, so that each element moves a constant number of times.
            self._times = np.empty(max(FEWEST, 2 * (len(held) + len(times))), np.int64)
            self._times[: len(held)] = held
            self._begin, self._end = 0, len(held)
        self._times[self._end : self._end + len(times)] = times
        self._end += len(times)

    def forget(self, time: int) -> None:
        """Let go of the positions at or before a time."""
        gone = int(np.searchsorted(self.times, time, side="right"))
        if gone:
            self.forgotten = int(self.times[gone - 1])
            self._begin += gone
            self.first += gone

    def positions(self, times: Ints) -> Ints:
        """For each time, the first position after it."""
        return positions_after(self.times, self.first, times)


class TimedStructure:
    """A structure with windows of time: window (left, right) covers (now - left, now - right], in microseconds.

    `push` takes elements in any order, `advance` says up to which time no more elements will come. Elements behind the
    watermark are counted in `late` and dropped. The number of elements in a window depends on the data; the structure
    holds as many as it needs.
    """

    def __init__(
        self,
        kind: type[Structure],
        aggregate: str | UserAggregate,
        windows: Iterable[tuple[int, int]],
        *,
        type: Type | None = None,
    ) -> None:
        self._windows = [self._checked(*window) for window in windows]
        if not self._windows:
            raise WindowError(
                "a timed structure needs at least one window: (left, right), in microseconds back from now"
            )
        if kind.sheet.lookups is Lookups.REGISTERED:
            raise StructureError(
                f"{kind.sheet.name} answers windows of a fixed number of elements only, and the number of elements "
                f"in a window of time varies; use another structure"
            )
        self.structure = kind(aggregate, type=type)
        self.structure.hold(FEWEST)
        self.index = TimeIndex()
        self.watermark = NEVER
        self.late = 0
        self._waiting_times: list[Ints] = []
        self._waiting_values: list[pa.Array] = []

    @property
    def windows(self) -> list[tuple[int, int]]:
        """The windows of time that it serves."""
        return list(self._windows)

    def push(self, times: npt.ArrayLike, values: npt.ArrayLike | pa.Array) -> None:
        """Take in elements with their times, in any order."""
        when = np.atleast_1d(np.asarray(times, np.int64))
        array = values if isinstance(values, pa.Array) else _to_arrow(values)
        check_times_of_each(when, len(array))
        on_time = when > self.watermark
        if not on_time.all():
            self.late += int(np.count_nonzero(~on_time))
            when, array = when[on_time], array.filter(pa.array(on_time))
        if len(when):
            self._waiting_times.append(when)
            self._waiting_values.append(array)

    def advance(self, watermark: int) -> None:
        """No element at or before this time will come any more: those that wait for it enter, in order of time."""
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        if self._waiting_times:
            times, values = np.concatenate(self._waiting_times), pa.concat_arrays(self._waiting_values)
            ready = times <= watermark
            places = np.flatnonzero(ready)
            order = places[np.argsort(times[places], kind="stable")]
            self._enter(times[order], values.take(pa.array(order)))
            self._waiting_times = [times[~ready]]
            self._waiting_values = [values.filter(pa.array(~ready))]
        self.index.forget(watermark - max(left for left, _ in self._windows))

    def lookup(
        self,
        left: npt.ArrayLike,
        right: npt.ArrayLike = 0,
        at: int | None = None,
        parameter: npt.ArrayLike | None = None,
    ) -> Answers:
        """The answers of windows (at - left, at - right]; without a time, at the watermark."""
        now = self.watermark if at is None else at
        if now > self.watermark:
            raise HistoryError(
                f"a lookup at {now} must wait: the watermark is {self.watermark}, later elements may come"
            )
        lefts, rights = np.broadcast_arrays(np.atleast_1d(left), np.atleast_1d(right))
        ill_formed = np.flatnonzero((lefts < rights) | (rights < 0) | (lefts <= 0))
        if len(ill_formed):
            self._checked(int(lefts[ill_formed[0]]), int(rights[ill_formed[0]]))
        begins, ends = now - lefts.astype(np.int64), now - rights.astype(np.int64)
        if np.any((begins < self.index.forgotten) & (begins < ends)):
            raise HistoryError(
                f"elements up to time {self.index.forgotten} have left, and a window begins at {int(begins.min())}; "
                f"add the window before its elements come"
            )
        return self.structure.lookup_ranges(self.index.positions(begins), self.index.positions(ends), parameter)

    def add_window(self, left: int, right: int = 0) -> None:
        """Serve one more window of time; elements that have left do not come back."""
        self._windows.append(self._checked(left, right))

    def remove_window(self, left: int, right: int = 0) -> None:
        """Serve one window of time less."""
        if (left, right) not in self._windows:
            raise WindowError(f"window ({left}, {right}) was not added")
        if len(self._windows) == 1:
            raise WindowError("the last window of a timed structure cannot be removed")
        self._windows.remove((left, right))
        self.index.forget(self.watermark - max(left for left, _ in self._windows))

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        self.structure.check_invariants()
        assert np.all(np.diff(self.index.times) >= 0)
        assert self.index.first + len(self.index) == self.structure.length
        assert self.structure.held_from <= self.index.first

    def _enter(self, times: Ints, values: pa.Array) -> None:
        self.index.append(times)
        needed = len(self.index)
        if needed > self.structure.largest or 4 * max(needed, FEWEST) < self.structure.largest:
            # Twice as many as needed, so that the structure is rarely arranged again.
            self.structure.hold(max(FEWEST, 2 * needed))
        self.structure.update(values)

    @staticmethod
    def _checked(left: int, right: int) -> tuple[int, int]:
        if not left > right >= 0:
            raise WindowError(f"window ({left}, {right}): needs left > right >= 0, in microseconds back from now")
        return left, right


def _to_arrow(values: npt.ArrayLike) -> pa.Array:
    if np.ma.isMaskedArray(values):
        return pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(np.asanyarray(values)))
    return pa.array(np.atleast_1d(np.asarray(values)))
