"""TimeGram (TR1536, section 3): between which values an aggregate lies, from a histogram of the elements over time.

Every element of the largest window is known by its value bucket alone. How many of each bucket lie in a window is found
in O(K), and MAX, MIN, COUNT, SUM and AVG follow as [low, high] that always contain the exact answer. AVG is divided by
the count in the window that is asked for, not by all elements held, as the report has it.

Buckets of equal width follow the data. A value outside of them stretches the outermost bucket at once, in O(1). When a
quarter as many elements as are held have come since the buckets were last looked at, they are laid out anew if one was
stretched or if the data cover less than half of them: a pass over what is held for each quarter of it, so O(1) an
element. For that alone the values are held; with bounds of the user's own, they are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.components import Kind
from weft.aggregates.types import Type
from weft.errors import WeftError
from weft.kernels.rings import window_ranges
from weft.kernels.time_index import positions_after
from weft.kernels.timegram import (
    COUNT,
    MAX,
    MIN,
    SUM,
    fold_buckets,
    fold_refined,
    pair_differences,
    put,
    put_refined,
    recount_blocks,
)
from weft.structures.aggregated import HistoryError
from weft.structures.column import WindowError, Windows
from weft.structures.lifting import lift_values
from weft.structures.sheet import Cost, DataSheet, Lookups
from weft.structures.snapshot import pack, unpack

Ints = npt.NDArray[np.int64]
Elements = npt.NDArray[Any]
Answers = np.ma.MaskedArray[Any, np.dtype[Any]]

MOST_BUCKETS = 65_536
DEFAULT_BUCKETS = 64
PIECE = 4_096
"""A batch is taken in by pieces of at least so many elements."""
SPARE = 8
"""When the data move, the buckets reach an eighth of their span further on that side."""
EXACT_LIMIT = 2**62
"""Sums of integers are integers while the largest possible one stays below; beyond, doubles that are wide enough."""
NEVER = -(2**63)

_ULP = 2.0**-52
_KINDS = {"COUNT": COUNT, "COUNT_ALL": COUNT, "SUM": SUM, "AVG": SUM, "MAX": MAX, "MIN": MIN}


class Intervals(NamedTuple):
    """Between which values each answer lies; masked where a window is empty and the aggregate is not COUNT."""

    low: Answers
    high: Answers


class TimeGram:
    """MAX, MIN, COUNT, SUM and AVG as intervals, over windows of elements and of time: O(1) an update, O(K) a lookup.

    `windows` are (left, right) in elements back from the end, `time_windows` (left, right) in microseconds back from
    the newest time; any other window within what they need is answered, too. `refine` also keeps the sum, minimum and
    maximum of each block of elements, so that buckets matter at the two ends of a window only.

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
            raise WeftError("give the number of buckets or their bounds, not both")
        self._bounds = None if bounds is None else _checked_bounds(bounds)
        self.buckets = len(self._bounds) - 1 if self._bounds is not None else int(buckets or DEFAULT_BUCKETS)
        """K."""
        if not 1 <= self.buckets <= MOST_BUCKETS or buckets == 0:
            given = self.buckets if buckets is None else buckets
            raise WeftError(f"the number of buckets must be from 1 to {MOST_BUCKETS}, not {given}")
        self.is_refined = refine
        self.length = 0
        """m: how many elements there have been."""
        self.held_from = 0
        """The first position that is held."""
        self._windows = Windows(windows)
        self._time_windows = Windows(time_windows)
        self._set_largest()
        self._is_timed = len(self._time_windows) > 0
        self._forgotten_us = NEVER
        self._type: Type | None = None
        self._block = max(16, 1 << (self.buckets - 1).bit_length())
        self._base = self._end = 0
        self._since_look = 0
        self._is_stretched = self._has_buckets = False
        self._low_end: Any = 0
        self._high_end: Any = 0
        if type is not None:
            self._open(type)

    @property
    def name(self) -> str:
        """The name on its data sheet."""
        return self.sheet.name

    @property
    def type(self) -> Type | None:
        """The type of the values; until it is given, or there are some, None."""
        return self._type

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
        """How many of the newest elements are held at least."""
        return self._largest

    @property
    def now_us(self) -> int:
        """The newest time."""
        return int(self._times[self._end - 1]) if self._is_timed and self._end else NEVER

    @property
    def bucket_bounds(self) -> tuple[Elements, Elements]:
        """The least and the greatest value that each bucket may hold, both included."""
        return (self._lows.copy(), self._highs.copy()) if self._has_buckets else (np.empty(0), np.empty(0))

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return 0 if self._type is None else sum(array.nbytes for array in self._arrays().values())

    def update(self, values: npt.ArrayLike | pa.Array, times: npt.ArrayLike | None = None) -> None:
        """Append elements, with their times in microseconds where there are windows of time. O(1) each, amortised."""
        lifted = lift_values(values, self._type, "MAX")
        if lifted.valid is not None:
            raise WeftError("a TimeGram takes no NULLs; leave them out, or give them a value")
        if lifted.type is Type.DOUBLE and not np.all(np.isfinite(lifted.values)):
            raise WeftError("a TimeGram takes finite values only, and there is a NaN or an infinity; leave it out")
        when = self._checked_times(times, len(lifted))
        if self._type is None:
            self._open(lifted.type)
        start = 0
        while start < len(lifted):
            size = max(PIECE, (self.length - self.held_from) // 4)
            self._take(lifted.values[start : start + size], when[start : start + size])
            start += size

    def lookup(
        self, left: npt.ArrayLike, right: npt.ArrayLike = 0, aggregate: str | Sequence[str] = "MAX"
    ) -> Intervals:
        """The intervals of windows [left, right] in elements back from the end; an aggregate, or one for each. O(K)."""
        lefts, rights = _pairs(left, right)
        low, high = np.empty(len(lefts), np.int64), np.empty(len(lefts), np.int64)
        _, bad = window_ranges(lefts, rights, self.length, self.held_from, low, high)
        if bad >= 0:
            Windows([(lefts[bad], rights[bad])])
            raise HistoryError(
                f"window ({lefts[bad]}, {rights[bad]}) begins at position {max(self.length - lefts[bad], 0)} and "
                f"elements are held from position {self.held_from} on; add the window before its elements come"
            )
        return self._answer(low, high, aggregate)

    def lookup_time(
        self,
        left_us: npt.ArrayLike,
        right_us: npt.ArrayLike = 0,
        aggregate: str | Sequence[str] = "MAX",
        at_us: int | None = None,
    ) -> Intervals:
        """The intervals of windows (at - left, at - right] of time; at the newest time if none is given."""
        if not self._is_timed:
            raise WindowError("this TimeGram has no times; build it with time_windows=[(left_us, right_us), ...]")
        now = self.now_us if at_us is None else at_us
        lefts, rights = _pairs(left_us, right_us)
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
        held = self._times[self.held_from - self._base : self._end]
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
        if not self._is_timed:
            raise WindowError("this TimeGram has no times; build it with time_windows=[(left_us, right_us), ...]")
        self._time_windows.add((left_us, right_us))
        self._set_largest()

    def remove_time_window(self, left_us: int, right_us: int = 0) -> None:
        """Serve one window of time less."""
        self._time_windows.remove((left_us, right_us))
        self._set_largest()
        self._let_go()

    def hold(self, elements: int) -> None:
        """Serve any window within so many of the newest elements, besides its own windows."""
        self._windows.at_least = max(1, elements)
        self._set_largest()
        self._let_go()

    def contents(self) -> list[list[int]]:
        """The positions held in each bucket, oldest first. O(held); to look at, not to compute with."""
        if self._type is None:
            return [[] for _ in range(self.buckets)]
        codes = self._codes[self.held_from - self._base : self._end]
        return [(np.flatnonzero(codes == code) + self.held_from).tolist() for code in range(self.buckets)]

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        assert 0 <= self._base <= self.held_from <= self.length == self._base + self._end
        if self._type is None or not self._end:
            return
        codes = self._codes[: self._end].astype(np.int64)
        assert np.array_equal(np.bincount(codes, minlength=self.buckets), self._totals)
        for row in range(self._end // self._block + 1):
            before = np.bincount(codes[: row * self._block], minlength=self.buckets)
            assert np.array_equal(before, self._counts[row])
        assert np.all(self._edges[:-1] <= self._edges[1:])
        assert not self._counts[0].any()
        if self._is_timed:
            assert np.all(np.diff(self._times[: self._end]) >= 0)
        if len(self._values):
            held = self._values[: self._end]
            assert np.all(self._lows[codes] <= held)
            assert np.all(held <= self._highs[codes])
            if self.is_refined:
                for block in range(-(-self._end // self._block)):
                    inside = held[block * self._block : (block + 1) * self._block]
                    assert self._least[block] == inside.min()
                    assert self._greatest[block] == inside.max()

    def snapshot(self) -> bytes:
        """The state as bytes; nothing is pickled."""
        header = {
            "structure": self.name,
            "type": None if self._type is None else self._type.value,
            "bounds": None if self._bounds is None else list(self._bounds),
            "buckets": self.buckets,
            "refine": self.is_refined,
            "windows": self.windows,
            "time_windows": self.time_windows,
            "is_timed": self._is_timed,
            "at_least": self._windows.at_least,
            "places": [self.length, self.held_from, self._base, self._end, self._since_look, self._forgotten_us],
            "flags": [self._is_stretched, self._has_buckets],
            "ends": [self._low_end, self._high_end],
            "scale": 0.0 if self._type is None else self._scale,
        }
        arrays = {} if self._type is None else self._arrays()
        for name in ("codes", "counts", "totals"):
            if name in arrays:
                arrays[name] = arrays[name].ravel().astype(np.int64)
        return pack(header, arrays)

    @classmethod
    def restore(cls, blob: bytes) -> TimeGram:
        """The TimeGram that a snapshot was taken of."""
        header, arrays = unpack(blob)
        if header["structure"] != cls.sheet.name:
            raise WeftError(f"the snapshot is of a structure {header['structure']!r}, not of a TimeGram")
        timegram = cls(
            None if header["bounds"] else header["buckets"],
            bounds=header["bounds"],
            windows=[(left, right) for left, right in header["windows"]],
            time_windows=[(left, right) for left, right in header["time_windows"]],
            refine=header["refine"],
        )
        timegram._windows.at_least, timegram._is_timed = header["at_least"], header["is_timed"]
        timegram._set_largest()
        if header["type"] is None:
            return timegram
        timegram._open(Type(header["type"]))
        timegram.length, timegram.held_from, timegram._base, timegram._end = header["places"][:4]
        timegram._since_look, timegram._forgotten_us = header["places"][4:]
        timegram._is_stretched, timegram._has_buckets = header["flags"]
        timegram._low_end, timegram._high_end = header["ends"]
        timegram._scale = header["scale"]
        arrays["codes"] = arrays["codes"].astype(np.uint16)
        arrays["counts"] = arrays["counts"].astype(np.int32).reshape(-1, timegram.buckets)
        arrays["totals"] = arrays["totals"].astype(np.int32)
        for name, array in arrays.items():
            setattr(timegram, f"_{name}", array)
        return timegram

    def _open(self, type: Type) -> None:
        if type not in (Type.BIGINT, Type.DOUBLE):
            raise WeftError(f"a TimeGram takes BIGINT and DOUBLE values, not {type}")
        if type is Type.BIGINT and any(bound != int(bound) for bound in self._bounds or ()):
            raise WeftError("the bounds of buckets for BIGINT values must be whole; or build with type=Type.DOUBLE")
        self._type = type
        self._number: np.dtype[Any] = np.dtype(np.float64 if type is Type.DOUBLE else np.int64)
        self._edges = np.zeros(self.buckets, self._number)
        self._lows, self._highs = self._edges.copy(), self._edges.copy()
        self._scale = 0.0
        self._codes, self._totals = np.zeros(0, np.uint16), np.zeros(0, np.int32)
        self._lay_out(0)
        if self._bounds is not None:
            exact = [int(bound) for bound in self._bounds] if type is Type.BIGINT else self._bounds
            self._edges = np.array(exact[:-1], self._number)
            self._lows, self._highs = self._edges.copy(), np.array(exact[1:], self._number)
            self._has_buckets = True

    def _lay_out(self, elements: int) -> None:
        """Empty storage with room for twice as many elements; what is there is used again if it fits."""
        self._end = 0
        if elements and 2 * elements <= len(self._codes) <= 8 * elements:
            # Rows and blocks are written before they are read, and those at 0 stay zero.
            self._totals.fill(0)
            return
        blocks = max(4, -(-2 * elements // self._block))
        capacity = blocks * self._block
        if capacity >= 2**31:
            raise WeftError(f"a TimeGram holds fewer than {2**30} elements, and the windows need {elements}")
        sizes = [max(1, blocks >> level) for level in range(blocks.bit_length())] if self.is_refined else [0]
        levels, of_blocks = sum(sizes), blocks if self.is_refined else 0
        sum_type: np.dtype[Any] = np.dtype(np.complex128 if self._type is Type.DOUBLE else np.int64)
        self._codes = np.zeros(capacity, np.uint16)
        self._counts = np.zeros((blocks + 1, self.buckets), np.int32)
        self._totals = np.zeros(self.buckets, np.int32)
        self._values = np.zeros(capacity if self._bounds is None else 0, self._number)
        self._times = np.zeros(capacity if self._is_timed else 0, np.int64)
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._least, self._greatest = np.zeros(levels, self._number), np.zeros(levels, self._number)
        self._sums, self._running = np.zeros(of_blocks, sum_type), np.zeros(of_blocks + 1, sum_type)
        self._magnitudes, self._running_magnitudes = np.zeros(of_blocks), np.zeros(of_blocks + 1)

    def _arrays(self) -> dict[str, Elements]:
        names = (
            "codes counts totals values times offsets least greatest sums running magnitudes running_magnitudes "
            "edges lows highs"
        )
        return {name: getattr(self, f"_{name}") for name in names.split()}

    def _checked_times(self, times: npt.ArrayLike | None, count: int) -> Ints:
        if not self._is_timed:
            if times is not None:
                raise WeftError("this TimeGram has no windows of time; build it with time_windows, or give no times")
            return np.empty(0, np.int64)
        when = np.atleast_1d(np.asarray([] if times is None else times, np.int64))
        if len(when) != count:
            raise WeftError(f"there are {len(when)} times and {count} values; give one time for each value")
        if count and (int(when[0]) < self.now_us or np.any(when[1:] < when[:-1])):
            raise WeftError("times must not run backwards; put the elements in order first, as TimedStructure does")
        return when

    def _take(self, values: Elements, times: Ints) -> None:
        """Append one piece, and let go of what no window needs any more."""
        if self._bounds is None and len(values):
            self._follow(values)
        self._make_room(len(values))
        self._append(values, times)
        self.length += len(values)
        self._since_look += len(values)
        self._let_go()

    def _append(self, values: Elements, times: Ints) -> None:
        end = self._end + len(values)
        if len(self._values):
            self._values[self._end : end] = values
        if self._is_timed:
            self._times[self._end : end] = times
        stretched = put(
            values, self._end, self._codes, self._counts, self._totals, self._edges, self._scale, self._lows,
            self._highs, self._block,
        )  # fmt: skip
        self._is_stretched = self._is_stretched or bool(stretched)
        if self.is_refined:
            put_refined(
                values, values.astype(self._sums.dtype), self._end, self._sums, self._magnitudes, self._running,
                self._running_magnitudes, self._least, self._greatest, self._offsets, self._block,
            )  # fmt: skip
        self._end = end

    def _follow(self, coming: Elements) -> None:
        """Lay the buckets out anew if the values held and coming need others, once enough elements have come."""
        if self._has_buckets and self._since_look < max(1, (self.length - self.held_from) // 4):
            return
        self._since_look = 0
        held = self._values[self.held_from - self._base : self._end]
        low, high = coming.min().item(), coming.max().item()
        if len(held):
            low, high = min(low, held.min().item()), max(high, held.max().item())
        if self._has_buckets:
            covered, span = self._high_end - self._low_end, high - low
            is_outside = low < self._low_end or high > self._high_end
            if not (is_outside or self._is_stretched or 2 * span < covered):
                return
            spare = span / SPARE if self._type is Type.DOUBLE else span // SPARE
            if isfinite(spare):
                limits = (-np.inf, np.inf) if self._type is Type.DOUBLE else (-(2**63), 2**63 - 1)
                reached = low - spare if low < self._low_end else low, high + spare if high > self._high_end else high
                low = reached[0] if limits[0] < reached[0] else low
                high = reached[1] if reached[1] < limits[1] else high
        self._set_buckets(low, high)
        kept, times = held.copy(), self._times[self.held_from - self._base : self._end].copy()
        self._lay_out(len(kept) + len(coming))
        self._base = self.held_from
        self._append(kept, times)
        self._is_stretched = False

    def _set_buckets(self, low: Any, high: Any) -> None:
        """Buckets of equal width from low to high."""
        count = self.buckets
        if self._type is Type.BIGINT:
            edges = [low + (high - low + 1) * i // count for i in range(count)]
            self._edges = np.array(edges, np.int64)
            # Some are empty when there are more buckets than numbers; no value falls into those.
            self._highs = np.array([max(edge - 1, low) for edge in edges[1:]] + [high], np.int64)
        else:
            # Each end divided first, so that no span is too large for a double.
            steps = np.arange(count) / count
            self._edges = np.clip(low * (1.0 - steps) + high * steps, low, high)
            self._edges = np.maximum.accumulate(self._edges)
            self._highs = np.append(self._edges[1:], high)
        self._lows = self._edges.copy()
        span = float(high) - float(low)
        scale = count / span if span > 0.0 else 0.0
        self._scale = scale if isfinite(scale) and isfinite(span) else 0.0
        self._low_end, self._high_end = low, high
        self._has_buckets = True

    def _make_room(self, coming: int) -> None:
        """Drop the blocks that have left when the storage is full."""
        if self._end + coming <= len(self._codes):
            return
        old, end, block = self._arrays(), self._end, self._block
        gone = (self.held_from - self._base) // block
        kept = end - gone * block
        row, totals = old["counts"][gone].copy(), old["totals"].copy()
        self._lay_out(kept + coming)
        rows = kept // block + 1
        for name in ("codes", "values", "times"):
            array = getattr(self, f"_{name}")
            array[: min(kept, len(array))] = old[name][gone * block : end]
        self._counts[:rows] = old["counts"][gone : gone + rows] - row
        self._totals[:] = totals - row
        if self.is_refined:
            blocks = -(-kept // block)
            for name in ("sums", "magnitudes", "least", "greatest"):
                getattr(self, f"_{name}")[:blocks] = old[name][gone : gone + blocks]
            recount_blocks(
                self._sums, self._magnitudes, self._running, self._running_magnitudes, self._least, self._greatest,
                self._offsets, kept // block, blocks,
            )  # fmt: skip
        self._base += gone * block
        self._end = kept

    def _set_largest(self) -> None:
        self._largest, self._largest_us = self._windows.largest, self._time_windows.largest

    def _let_go(self) -> None:
        """Move the beginning of what is held to where the largest windows begin."""
        needed = self.length - self.largest
        if self._is_timed and self._end:
            begin = np.array([self.now_us - self._largest_us])
            held = self._times[self.held_from - self._base : self._end]
            needed = min(needed, int(positions_after(held, self.held_from, begin)[0]))
        if needed > self.held_from:
            if self._is_timed:
                self._forgotten_us = int(self._times[needed - self._base - 1])
            self.held_from = needed

    def _answer(self, low: Ints, high: Ints, aggregate: str | Sequence[str]) -> Intervals:
        names = [aggregate] if isinstance(aggregate, str) else list(aggregate)
        kinds, is_average = _kinds_of(names, len(low))
        widths = np.maximum(high - low, 0)
        if self._type is None or not self.length:
            nothing = np.ma.MaskedArray(np.zeros(len(low), np.int64), kinds != COUNT)
            return Intervals(nothing, nothing.copy())
        lows, highs = self._fold(kinds, low - self._base, high - self._base, widths)
        if is_average.any():
            lows, highs = self._averages(lows, highs, widths, is_average)
        mask = np.ma.nomask if len(widths) and widths.min() > 0 else (widths == 0) & (kinds != COUNT)
        return Intervals(np.ma.MaskedArray(lows, mask), np.ma.MaskedArray(highs, mask))

    def _fold(self, kinds: Ints, low: Ints, high: Ints, widths: Ints) -> tuple[Elements, Elements]:
        """The intervals of slots, with what rounding may have cost of sums added on both sides."""
        ends, sums = (self._lows, self._highs), kinds == SUM
        has_sums = bool(sums.any())
        fits = self._type is Type.DOUBLE or not has_sums or self._fits(int(widths.max()))
        if not fits:
            ends = np.nextafter(ends[0].astype(np.float64), -np.inf), np.nextafter(ends[1].astype(np.float64), np.inf)
        if not self.is_refined or not fits:
            lows, highs, magnitudes = fold_buckets(
                kinds, low, high, self._codes, self._counts, self._totals, self._block, self._end, *ends
            )
            rounding = (self.buckets + 4) * _ULP * magnitudes
        else:
            lows, highs, magnitudes, first, last = fold_refined(
                kinds, low, high, self._codes, self._block, self._end, *ends, self._least, self._greatest, self._offsets
            )
            rounding = (2 * self._block + 4) * _ULP * magnitudes
            if has_sums and self._type is Type.BIGINT:
                whole = self._running[last] - self._running[first]
                lows, highs = lows + whole, highs + whole
            elif has_sums:
                exact = pair_differences(self._running, first, last)
                lows, highs = lows + exact, highs + exact
                rounding += 2 * _ULP * (np.abs(exact) + magnitudes)
                rounding += len(self._codes) * 2.0**-96 * self._running_magnitudes[last]
        if has_sums and lows.dtype == np.float64:
            with np.errstate(invalid="ignore"):
                lows, highs = lows - rounding, highs + rounding
            if not np.isfinite(rounding.max()):
                # A sum too large for a double is somewhere between the infinities.
                lows, highs = np.where(np.isnan(lows), -np.inf, lows), np.where(np.isnan(highs), np.inf, highs)
        return lows, highs

    def _fits(self, width: int) -> bool:
        return max(abs(int(self._lows[0])), abs(int(self._highs[-1])), 1) * max(width, 1) < EXACT_LIMIT

    def _averages(
        self, lows: Elements, highs: Elements, widths: Ints, is_average: npt.NDArray[np.bool_]
    ) -> tuple[Elements, Elements]:
        """Divide the sums of AVG by the counts in their windows, rounding outwards where the quotient is not exact."""
        counts = np.maximum(widths, 1)
        divided: list[Elements] = []
        for sums, outwards in ((lows, -np.inf), (highs, np.inf)):
            quotients = sums / counts
            if sums.dtype == np.int64:
                is_exact = (sums % counts == 0) & (np.abs(sums) < 2**53)
                whole = np.abs(sums) < 2**53
                plain = np.where(whole, sums, np.nextafter(sums.astype(np.float64), outwards))
            else:
                is_exact, plain = np.zeros(len(sums), np.bool_), sums
            quotients = np.where(is_exact, quotients, np.nextafter(np.nextafter(quotients, outwards), outwards))
            divided.append(np.where(is_average, quotients, plain))
        return divided[0], divided[1]


def buckets_for(precision: float, aggregate: str, low: float, high: float, *, magnitude: float | None = None) -> int:
    """How many buckets keep an answer's interval within `precision` times the answer, for values from low to high.

    `magnitude` is how large an answer (for SUM, an answer by element) is at least; without it, that of the largest
    value for MAX, the least for MIN, and the middle for SUM and AVG.

    >>> buckets_for(0.05, "AVG", 50, 150)
    25
    """
    if not precision > 0:
        raise WeftError(f"the precision must be above 0, not {precision}; use an exact structure for exact answers")
    name = aggregate.upper()
    if name not in _KINDS:
        raise WeftError(f"a TimeGram does not answer {aggregate}; it answers COUNT, SUM, AVG, MAX and MIN")
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise WeftError(f"values from {low} to {high}: needs finite low <= high")
    if _KINDS[name] == COUNT or low == high:
        return 1
    if magnitude is None:
        magnitude = abs({MAX: high, MIN: low}.get(_KINDS[name], low / 2 + high / 2))
    if not magnitude > 0:
        raise WeftError(f"{name} may be about 0, and no interval is small beside that; give its magnitude")
    # Buckets may reach an eighth further on either side than the values do.
    wanted = (1 + 2 / SPARE) * (high - low) / (precision * magnitude)
    if wanted > MOST_BUCKETS:
        raise WeftError(
            f"{precision} needs {wanted:.3g} buckets and there may be {MOST_BUCKETS}; use an exact structure"
        )
    return max(1, ceil(wanted))


def _checked_bounds(bounds: Sequence[float]) -> list[float]:
    listed = [bound.item() if isinstance(bound, np.generic) else bound for bound in bounds]
    if len(listed) < 2 or not all(isfinite(bound) for bound in listed):
        raise WeftError("the bounds of buckets are two finite numbers at least")
    if any(a >= b for a, b in pairwise(listed)):
        raise WeftError("the bounds of buckets must rise, each above the one before")
    return listed


def _kinds_of(names: list[str], count: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    upper = [name.upper() for name in names]
    unknown = [name for name in upper if name not in _KINDS]
    if unknown:
        raise WeftError(f"a TimeGram does not answer {unknown[0]}; it answers COUNT, SUM, AVG, MAX and MIN")
    if len(upper) not in (1, count):
        raise WeftError(f"there are {len(upper)} aggregates and {count} windows; give one aggregate, or one for each")
    kinds = np.array([_KINDS[name] for name in upper], np.int64)
    averages = np.array([name == "AVG" for name in upper], np.bool_)
    # Copies, so that the kernels see one kind of array only.
    return np.array(np.broadcast_to(kinds, count)), np.array(np.broadcast_to(averages, count))


def _pairs(left: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Ints, Ints]:
    lefts, rights = np.broadcast_arrays(np.atleast_1d(np.asarray(left)), np.atleast_1d(np.asarray(right)))
    if lefts.ndim != 1:
        raise WindowError(f"left and right must be numbers or arrays of one dimension, not {lefts.ndim}")
    return np.ascontiguousarray(lefts, np.int64), np.ascontiguousarray(rights, np.int64)
