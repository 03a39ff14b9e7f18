"""TimeGram (TR1536, section 3): bounds of an aggregate, from a histogram of the elements over time.

Invariant: the bucket of each held element is known, and for each block of elements how many of each bucket lie before.
Cost: update 1 amortised, lookup K (the number of buckets), space Nmax.
Needs: finite numbers, and MAX, MIN, COUNT, SUM or AVG. Source: TR1536, section 3.

Of an element only its bucket is known. From how many elements of each bucket a window has, MAX, MIN, COUNT, SUM and AVG
follow as [low, high] that always contain the exact answer. AVG divides by the count in the window looked up; the report
divides by all elements held. The buckets follow the data (`panewise.structures.timegram_elements`), or the user chooses
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import Making
from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.errors import HistoryError, StructureError, WindowError
from panewise.kernels.pool import window_ranges
from panewise.kernels.time_index import positions_after
from panewise.kernels.timegram import COUNT
from panewise.structures.arguments import times_of
from panewise.structures.column import Windows
from panewise.structures.lifting import lift_values
from panewise.structures.sheet import Cost, DataSheet, Lookups
from panewise.structures.snapshot import pack, unpack_one
from panewise.structures.timegram_buckets import DEFAULT_BUCKETS, MOST_BUCKETS, buckets_for, checked_bounds
from panewise.structures.timegram_elements import BucketedElements
from panewise.structures.timegram_intervals import Intervals, averages, kinds_of, pairs

__all__ = ["Intervals", "TimeGram", "buckets_for"]

Elements = npt.NDArray[Any]

PIECE = 4_096
"""A batch is taken in by pieces of at least this many elements."""
NEVER = -(2**63)


class TimeGram:
    """MAX, MIN, COUNT, SUM and AVG as intervals, over windows of elements and of time: O(1) an update, O(K) a lookup.

    `windows` are (left, right) in elements back from the end, `time_windows` (left, right) in microseconds back from
    the newest time; any other window within what they need is answered, too. `refine` also keeps the sum, minimum and
    maximum of each block of elements, so that buckets matter only at the two ends of a window.

    >>> timegram = TimeGram(bounds=[-10, -6, -2, 4, 6, 10], windows=[(4, 0)])
    >>> timegram.update([3, -10, -9, 5, 2, 7, -3])
    >>> low, high = timegram.lookup([3, 4, 2], aggregate=["MAX", "SUM", "AVG"])
    >>> low.tolist(), high.tolist()
    ([6.0, 2.0, 0.0], [10.0, 18.0, 4.0])
    """

    sheet: ClassVar[DataSheet] = DataSheet(
        name="timegram",
        title="TimeGram",
        source="TR1536, 3",
        kinds=frozenset({Kind.ROWS, Kind.COUNT, Kind.SUM_INT, Kind.SUM_FLOAT, Kind.MIN, Kind.MAX}),
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("1", lambda shape: 1.0),
        lookup=Cost("K", lambda shape: float(DEFAULT_BUCKETS)),
        space=Cost("Nmax", lambda shape: float(shape.largest)),
        takes_user_aggregates=False,
        is_exact=False,
        makings=frozenset({Making.FOLD, Making.MEAN}),
    )

    def __init__(
        self,
        buckets: int | None = None,
        *,
        bounds: Sequence[float] | None = None,
        windows: Iterable[tuple[int, int]] = (),
        time_windows: Iterable[tuple[int, int]] = (),
        refine: bool = False,
        type: Type | None = None,
    ) -> None:
        if buckets is not None and bounds is not None:
            raise StructureError("give the number of buckets or their bounds, not both")
        own = None if bounds is None else checked_bounds(bounds)
        count = len(own) - 1 if own is not None else int(buckets or DEFAULT_BUCKETS)
        if not 1 <= count <= MOST_BUCKETS or buckets == 0:
            given = count if buckets is None else buckets
            raise StructureError(f"the number of buckets must be from 1 to {MOST_BUCKETS}, not {given}")
        self._windows = Windows(windows)
        self._time_windows = Windows(time_windows)
        self._set_largest()
        self._forgotten_us = NEVER
        self._held = BucketedElements(count, own, is_refined=refine, is_timed=len(self._time_windows) > 0)
        if type is not None:
            self._held.open(type)

    @property
    def name(self) -> str:
        """The name on its data sheet."""
        return self.sheet.name

    @property
    def buckets(self) -> int:
        """K."""
        return self._held.buckets

    @property
    def is_refined(self) -> bool:
        """Whether it keeps the sum, minimum and maximum of each block of elements."""
        return self._held.is_refined

    @property
    def length(self) -> int:
        """m: how many elements have come."""
        return self._held.length

    @property
    def held_from(self) -> int:
        """The first position that is held."""
        return self._held.held_from

    @property
    def type(self) -> Type | None:
        """The type of the values; None until it is given or the first values come."""
        return self._held.type

    @property
    def windows(self) -> list[tuple[int, int]]:
        """The windows of elements that it serves."""
        return self._windows.every

    @property
    def time_windows(self) -> list[tuple[int, int]]:
        """The windows of time that it serves."""
        return self._time_windows.every

    @property
    def largest(self) -> int:
        """At least this many of the newest elements are held."""
        return self._largest

    @property
    def now_us(self) -> int:
        """The newest time."""
        return int(self._held.times[self._held.end - 1]) if self._held.is_timed and self._held.end else NEVER

    @property
    def bucket_bounds(self) -> tuple[Elements, Elements]:
        """The least and the greatest value that each bucket may hold, both included."""
        return (
            (self._held.lows.copy(), self._held.highs.copy()) if self._held.has_buckets else (np.empty(0), np.empty(0))
        )

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return 0 if self._held.type is None else sum(array.nbytes for array in self._held.arrays().values())

    def update(self, values: npt.ArrayLike | pa.Array, times: npt.ArrayLike | None = None) -> None:
        """Append elements, with their times in microseconds where there are windows of time. O(1) each, amortised."""
        lifted = lift_values(values, self._held.type)
        if lifted.valid is not None:
            raise StructureError("a TimeGram takes no NULLs; leave them out, or give them a value")
        if lifted.type is Type.DOUBLE and not np.all(np.isfinite(lifted.values)):
            raise StructureError("a TimeGram takes finite values only, and one is a NaN or an infinity; leave it out")
        when = self._checked_times(times, len(lifted))
        if self._held.type is None:
            self._held.open(lifted.type)
        start = 0
        while start < len(lifted):
            size = max(PIECE, (self.length - self.held_from) // 4)
            self._held.take(lifted.values[start : start + size], when[start : start + size])
            self._let_go()
            start += size

    def lookup(
        self, left: npt.ArrayLike, right: npt.ArrayLike = 0, aggregate: str | Sequence[str] = "MAX"
    ) -> Intervals:
        """The intervals of windows [left, right] in elements back from the end; an aggregate, or one for each. O(K)."""
        lefts, rights = pairs(left, right)
        low, high = np.empty(len(lefts), np.int64), np.empty(len(lefts), np.int64)
        bounds = np.array([self.length]), np.array([self.held_from])
        _, bad = window_ranges(None, lefts, rights, *bounds, low, high)
        if bad >= 0:
            Windows([(lefts[bad], rights[bad])])
            raise HistoryError(
                f"window ({lefts[bad]}, {rights[bad]}) begins at position {max(self.length - lefts[bad], 0)} and "
                f"elements are held from position {self.held_from} on; add the window before its elements come"
            )
        # An empty window has no place of its own.
        low, high = np.maximum(low, self.held_from), np.maximum(high, self.held_from)
        return self._answer(low, high, aggregate)

    def lookup_time(
        self,
        left_us: npt.ArrayLike,
        right_us: npt.ArrayLike = 0,
        aggregate: str | Sequence[str] = "MAX",
        at_us: int | None = None,
    ) -> Intervals:
        """The intervals of windows (at - left, at - right] of time; at the newest time if none is given."""
        if not self._held.is_timed:
            raise WindowError("this TimeGram has no times; build it with time_windows=[(left_us, right_us), ...]")
        now = self.now_us if at_us is None else at_us
        lefts, rights = pairs(left_us, right_us)
        for bad in np.flatnonzero((lefts < rights) | (rights < 0) | (lefts <= 0))[:1]:
            Windows([(int(lefts[bad]), int(rights[bad]))])
        if self.length == 0:
            return self._answer(np.zeros(len(lefts), np.int64), np.zeros(len(lefts), np.int64), aggregate)
        begins, ends = now - lefts, now - rights
        if np.any((begins < self._forgotten_us) & (begins < ends)):
            raise HistoryError(
                f"elements up to time {self._forgotten_us} have left, and a window begins at {int(begins.min())}; "
                f"add the window before its elements come"
            )
        held = self._held.times_held
        return self._answer(
            positions_after(held, self.held_from, begins), positions_after(held, self.held_from, ends), aggregate
        )

    def lookup_ranges(self, low: Ints, high: Ints, aggregate: str | Sequence[str] = "MAX") -> Intervals:
        """The intervals over positions low .. high - 1 counted from the stream's beginning; none where low = high."""
        if np.any((low < high) & ((low < self.held_from) | (high > self.length))):
            raise HistoryError(f"positions {self.held_from} to {self.length - 1} are held, and a range lies outside")
        return self._answer(low, high, aggregate)

    def add_window(self, left: int, right: int = 0) -> None:
        """Serve one more window of elements; those that have left do not come back."""
        self._windows.add((left, right))
        self._set_largest()

    def remove_window(self, left: int, right: int = 0) -> None:
        """Serve one window of elements less."""
        self._windows.remove((left, right))
        self._set_largest()
        self._let_go()

    def add_time_window(self, left_us: int, right_us: int = 0) -> None:
        """Serve one more window of time."""
        if not self._held.is_timed:
            raise WindowError("this TimeGram has no times; build it with time_windows=[(left_us, right_us), ...]")
        self._time_windows.add((left_us, right_us))
        self._set_largest()

    def remove_time_window(self, left_us: int, right_us: int = 0) -> None:
        """Serve one window of time less."""
        self._time_windows.remove((left_us, right_us))
        self._set_largest()
        self._let_go()

    def hold(self, elements: int) -> None:
        """Serve any window within this many of the newest elements, besides its own windows."""
        self._windows.at_least = max(1, elements)
        self._set_largest()
        self._let_go()

    def contents(self) -> list[list[int]]:
        """The positions held in each bucket, oldest first. O(held); to look at, not to compute with."""
        if self._held.type is None:
            return [[] for _ in range(self.buckets)]
        codes = self._held.codes_held
        return [(np.flatnonzero(codes == code) + self.held_from).tolist() for code in range(self.buckets)]

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        self._held.check_invariants()

    def snapshot(self) -> bytes:
        """The state as bytes; nothing is pickled."""
        held = self._held
        header = {
            "structure": self.name,
            "type": None if held.type is None else held.type.value,
            "bounds": None if held.bounds is None else list(held.bounds),
            "buckets": self.buckets,
            "refine": self.is_refined,
            "windows": self.windows,
            "time_windows": self.time_windows,
            "is_timed": held.is_timed,
            "at_least": self._windows.at_least,
            "places": [self.length, self.held_from, held.base, held.end, held.since_look, self._forgotten_us],
            "flags": [held.is_stretched, held.has_buckets],
            "ends": [held.low_end, held.high_end],
            "scale": 0.0 if held.type is None else held.scale,
        }
        arrays = {} if held.type is None else held.arrays()
        for name in ("codes", "counts", "totals"):
            if name in arrays:
                arrays[name] = arrays[name].ravel().astype(np.int64)
        return pack(header, arrays)

    @classmethod
    def restore(cls, blob: bytes) -> TimeGram:
        """The TimeGram that a snapshot was taken of."""
        header, arrays = unpack_one(blob, cls.sheet.name)
        timegram = cls(
            None if header["bounds"] else header["buckets"],
            bounds=header["bounds"],
            windows=[(left, right) for left, right in header["windows"]],
            time_windows=[(left, right) for left, right in header["time_windows"]],
            refine=header["refine"],
        )
        timegram._windows.at_least, timegram._held.is_timed = header["at_least"], header["is_timed"]
        timegram._set_largest()
        if header["type"] is None:
            return timegram
        held = timegram._held
        held.open(Type(header["type"]))
        held.length, held.held_from, held.base, held.end, held.since_look, timegram._forgotten_us = header["places"]
        held.is_stretched, held.has_buckets = header["flags"]
        held.low_end, held.high_end = header["ends"]
        held.scale = header["scale"]
        arrays["codes"] = arrays["codes"].astype(np.uint16)
        arrays["counts"] = arrays["counts"].astype(np.int32).reshape(-1, timegram.buckets)
        arrays["totals"] = arrays["totals"].astype(np.int32)
        for name, array in arrays.items():
            setattr(held, name, array)
        return timegram

    def _checked_times(self, times: npt.ArrayLike | None, count: int) -> Ints:
        if not self._held.is_timed:
            if times is not None:
                raise StructureError(
                    "this TimeGram has no windows of time; build it with time_windows, or give no times"
                )
            return np.empty(0, np.int64)
        return times_of(times, count, self.now_us)

    def _set_largest(self) -> None:
        self._largest, self._largest_us = self._windows.largest, self._time_windows.largest

    def _let_go(self) -> None:
        """Move the beginning of what is held to where the largest windows begin."""
        needed = self.length - self.largest
        if self._held.is_timed and self._held.end:
            begin = np.array([self.now_us - self._largest_us])
            needed = min(needed, int(positions_after(self._held.times_held, self.held_from, begin)[0]))
        if needed > self.held_from:
            if self._held.is_timed:
                self._forgotten_us = int(self._held.times[needed - self._held.base - 1])
            self._held.held_from = needed

    def _answer(self, low: Ints, high: Ints, aggregate: str | Sequence[str]) -> Intervals:
        names = [aggregate] if isinstance(aggregate, str) else list(aggregate)
        kinds, is_average = kinds_of(names, len(low))
        widths = np.maximum(high - low, 0)
        if self._held.type is None or not self.length:
            nothing = np.ma.MaskedArray(np.zeros(len(low), np.int64), kinds != COUNT)
            return Intervals(nothing, nothing.copy())
        lows, highs = self._held.fold(kinds, low - self._held.base, high - self._held.base, widths)
        if is_average.any():
            lows, highs = averages(lows, highs, widths, is_average)
        mask = np.ma.nomask if len(widths) and widths.min() > 0 else (widths == 0) & (kinds != COUNT)
        return Intervals(np.ma.MaskedArray(lows, mask), np.ma.MaskedArray(highs, mask))
