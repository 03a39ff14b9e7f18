"""A substream filter: which keys pass a threshold over a window that ends now, without asking every key.

Checks, thresholds, growing arrays and the store of keys are the same for all filters and live here. An algorithm adds
its arrays, its kernel and a data sheet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints
from panewise.errors import SubstreamError
from panewise.kernels import key_events as rings
from panewise.kernels.key_events import KeyEvents
from panewise.kernels.segments import TOP, no_segments
from panewise.substreams.sheet import FilterSheet

Numbers = npt.NDArray[Any]

COMPARISONS = (">", ">=", "<", "<=")
TIME_LIMIT = 1 << 61
"""Times and windows must lie within this many microseconds: 73,000 years."""
FAR_FUTURE = 1 << 62
MOST_CODES = 1 << 31

_UP = np.array([True, True, False, False])
_STRICT = np.array([True, False, True, False])
_KINDS = np.array([rings.ABOVE, rings.AT_LEAST, rings.BELOW, rings.AT_MOST], np.int8)
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Matches(NamedTuple):
    """The keys of each lookup: those of lookup i are `keys[offsets[i] : offsets[i + 1]]`, in any order."""

    offsets: Ints
    keys: Ints

    def of(self, lookup: int) -> Ints:
        """The keys of one lookup."""
        return self.keys[self.offsets[lookup] : self.offsets[lookup + 1]]


class Steps(NamedTuple):
    """Updates and lookups in the form that kernels take."""

    kinds: npt.NDArray[np.int8]
    keys: Ints
    values: Numbers
    """The value of an update, the bound of a lookup."""
    times: Ints
    starts: Ints


Outcome = tuple[int, int, Ints, int]
"""Where a replay stopped, why, the keys found and how many."""


class SubstreamFilter(ABC):
    """The keys whose aggregate over a window that ends now passes a threshold.

    Keys are codes 0, 1, 2, ... that the caller gives out, as dictionary encoding does: each code ever used takes four
    bytes for good, and the rest of the memory follows the keys with an event in the largest window. The code of a key
    that is not live (see `is_live`) may be given to another key.

    Events come in order of time. A window of `range_us` at time `now` covers (now - range_us, now]; an answer never has
    a key without an event in it, whatever the comparison.
    """

    sheet: ClassVar[FilterSheet]

    def __init__(self, largest_us: int, *, holds: int, dtype: npt.DTypeLike = np.int64) -> None:
        if not 0 < largest_us < TIME_LIMIT:
            raise SubstreamError(f"the largest window must be above 0 and below 2**61 microseconds, got {largest_us}")
        self._holds = holds
        self._dtype = np.dtype(dtype)
        state = np.zeros(rings.STATE_PLACES, np.int64)
        state[rings.CLOCK] = rings.FAR_PAST
        state[[rings.NEWEST, rings.OLDEST, rings.FREE_SEAT]] = -1
        state[rings.LARGEST] = largest_us
        has_values = holds in (rings.SUMS, rings.STAIRCASE)
        events = 0 if holds == rings.NOTHING else 64
        self._store = KeyEvents(
            state=state,
            seat_of=np.full(16, -1, np.int32),
            seats=_empty_seats(16),
            links=np.full((16, 2), -1, np.int32),
            times=np.zeros(events, np.int64),
            values=np.zeros(events if has_values else 0, self._dtype),
            free=no_segments(),
        )
        self._first_time: int | None = None
        self._held_from = rings.FAR_PAST

    @property
    def name(self) -> str:
        """The name under which `build` finds it."""
        return self.sheet.name

    @property
    def largest_us(self) -> int:
        """The largest window that lookups may have."""
        return int(self._store.state[rings.LARGEST])

    @property
    def live_keys(self) -> int:
        """How many keys have an event in the largest window, as of the newest time known."""
        return int(self._store.state[rings.LIVE])

    @property
    def nbytes(self) -> int:
        """The memory of everything."""
        return self.event_nbytes + self.index_nbytes

    @property
    def event_nbytes(self) -> int:
        """The memory of the keys and their events, from which exact answers come."""
        return sum(array.nbytes for array in self._store)

    @property
    def index_nbytes(self) -> int:
        """The memory of the arrays that make lookups cheap."""
        return sum(array.nbytes for array in self._index_arrays())

    def update(self, keys: npt.ArrayLike, values: npt.ArrayLike | None, times: npt.ArrayLike) -> None:
        """Add events in order of time: the codes of their keys, their values (None for a count), their times."""
        codes, moments = _integers(keys, "keys"), _integers(times, "times")
        numbers = self._checked_values(values, len(codes))
        _same_length(keys=codes, values=numbers, times=moments)
        if not len(codes):
            return
        self._admit(codes, moments)
        none = np.zeros(len(codes), np.int64)
        self._run(Steps(np.zeros(len(codes), np.int8), codes, numbers, moments, none), True)

    def lookup(
        self,
        now: npt.ArrayLike,
        range_us: npt.ArrayLike,
        comparison: str | Sequence[str],
        threshold: npt.ArrayLike,
        *,
        exact: bool = True,
    ) -> Matches:
        """The keys of each lookup, in the order of the arrays; one value stands for all.

        `now` must not be before the newest event. With `exact=False` the answer has all keys that pass and may have
        others that are close: see `error`.
        """
        asked = np.broadcast_arrays(
            _integers(now, "now"), _integers(range_us, "range_us"), _comparisons(comparison), _thresholds(threshold)
        )
        nows, ranges, codes, limits = (np.ascontiguousarray(column) for column in asked)
        if len(nows) and nows.min() < self._store.state[rings.CLOCK]:
            raise SubstreamError(
                f"a lookup at {nows.min()} is before the newest event at {self._store.state[rings.CLOCK]}; "
                "only windows that end now can be looked up"
            )
        kinds, bounds, starts = self._prepared(nows, ranges, codes, limits)
        return self._run(Steps(kinds, np.zeros(len(nows), np.int64), bounds, nows, starts), exact)

    def replay(
        self,
        is_lookup: npt.ArrayLike,
        keys: npt.ArrayLike,
        values: npt.ArrayLike | None,
        times: npt.ArrayLike,
        range_us: npt.ArrayLike,
        comparison: str | Sequence[str],
        threshold: npt.ArrayLike,
        *,
        exact: bool = True,
    ) -> Matches:
        """Updates and lookups in one call and in their order; each lookup sees the updates before it.

        Where `is_lookup` is true, the time is that of the lookup, and key and value mean nothing; elsewhere the last
        three mean nothing. Returns the keys of each lookup.
        """
        asks = np.atleast_1d(np.asarray(is_lookup, np.bool_))
        moments = _integers(times, "times")
        asked = np.broadcast_arrays(
            asks, _integers(range_us, "range_us"), _comparisons(comparison), _thresholds(threshold)
        )
        codes = np.where(asks, 0, _integers(keys, "keys"))
        _same_length(is_lookup=asks, keys=codes, times=moments)
        kinds = np.zeros(len(asks), np.int8)
        starts = np.zeros(len(asks), np.int64)
        numbers = np.ones(len(asks), self._dtype)
        given = None if values is None else np.atleast_1d(np.asarray(values))[~asks]
        numbers[~asks] = self._checked_values(given, int((~asks).sum()))
        kinds[asks], numbers[asks], starts[asks] = self._prepared(
            moments[asks], *(column[asks] for column in asked[1:])
        )
        self._admit(codes, moments, has_events=not asks.all())
        return self._run(Steps(kinds, codes, numbers, moments, starts), exact)

    def advance(self, now: int) -> None:
        """Say that no event before `now` will come: keys that fall silent leave."""
        moments = np.array([now], np.int64)
        self._admit(np.zeros(0, np.int64), moments, has_events=False)
        none = np.zeros(1, np.int64)
        kinds = np.array([rings.ADVANCE], np.int8)
        self._run(Steps(kinds, none, none.astype(self._dtype), moments, none), True)

    def hold(self, largest_us: int) -> None:
        """Let windows be larger from now on. Events that have left do not come back: see `held_from`."""
        if not self.largest_us <= largest_us < TIME_LIMIT:
            raise SubstreamError(f"the largest window is {self.largest_us} and may only grow, got {largest_us}")
        self._held_from = self.held_from
        self._store.state[rings.LARGEST] = largest_us

    @property
    def held_from(self) -> int:
        """All events after this time are held, so windows that start at it or later can be looked up."""
        horizon = int(self._store.state[rings.CLOCK]) - self.largest_us
        is_lossy = self._first_time is not None and self._first_time <= horizon
        return max(self._held_from, horizon) if is_lossy else self._held_from

    def is_live(self, keys: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether keys have an event in the largest window."""
        codes = _integers(keys, "keys")
        known = (codes >= 0) & (codes < len(self._store.seat_of))
        live = np.zeros(len(codes), np.bool_)
        live[known] = self._store.seat_of[codes[known]] >= 0
        return live

    @property
    def error(self) -> float:
        """How far off an approximate answer may be: with `>= v`, all its keys reach v times one minus this.

        With `<= v` they stay within v divided by one minus this.
        """
        return 0.0

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        store = self._store
        order, seat = [], int(store.state[rings.NEWEST])
        while seat >= 0:
            order.append(seat)
            seat = int(store.links[seat, 0])
        live = np.flatnonzero(store.seats[: store.state[rings.USED], rings.CODE] >= 0)
        assert sorted(order) == live.tolist()
        assert len(order) == store.state[rings.LIVE]
        last = store.seats[order, rings.LAST]
        assert np.all(last[:-1] >= last[1:])
        assert not len(last) or last[-1] > store.state[rings.CLOCK] - self.largest_us
        codes = store.seats[order, rings.CODE]
        assert np.array_equal(store.seat_of[codes], order)
        assert np.count_nonzero(store.seat_of >= 0) == len(order)
        assert self._holds == rings.NOTHING or self._check_rings(order) <= store.free[TOP]
        self._check_index()

    def _check_rings(self, order: list[int]) -> int:
        """Assert that rings are in order and do not overlap; returns the places that they take."""
        segments = sorted((int(s[rings.OFFSET]), 1 << int(s[rings.LOG_SIZE])) for s in self._store.seats[order])
        assert all(a + size <= b for (a, size), (b, _) in pairwise(segments))
        for seat in order:
            row = self._store.seats[seat]
            times, values = self._ring(seat)
            assert len(times) <= 1 << row[rings.LOG_SIZE]
            assert len(times)
            assert times[-1] == row[rings.LAST]
            assert np.all(times[:-1] <= times[1:])
            if self._holds == rings.STAIRCASE:
                assert np.all(values[:-1] > values[1:])
            if self._holds == rings.SUMS:
                assert values[-1] == row[rings.TOTAL]
        return sum(size for _, size in segments)

    def _ring(self, seat: int) -> tuple[Ints, Numbers]:
        """The times of a key's events, and what lies beside them."""
        row = self._store.seats[seat]
        places = np.arange(row[rings.START], row[rings.END]) & ((1 << row[rings.LOG_SIZE]) - 1)
        places += row[rings.OFFSET]
        return self._store.times[places], self._store.values[places] if len(self._store.values) else places

    @abstractmethod
    def _checked_values(self, values: npt.ArrayLike | None, count: int) -> Numbers:
        """Values as the kernel takes them, or an error."""

    @abstractmethod
    def _replay(self, steps: Steps, exact: bool, at: int, ends: Ints, found: Ints, used: int) -> Outcome:
        """Call the kernel."""

    def _bounds(self, codes: Ints, thresholds: Numbers) -> tuple[npt.NDArray[np.int8], Numbers, npt.NDArray[np.bool_]]:
        """Comparisons and thresholds as kinds and bounds of the kernel, and which lookups no key can pass."""
        return integer_bounds(codes, thresholds)

    def _index_arrays(self) -> Sequence[Numbers]:
        """The arrays of the index."""
        return ()

    @abstractmethod
    def _check_index(self) -> None:
        """Assert what must hold for the index."""

    @abstractmethod
    def _seats_grew(self, count: int) -> None:
        """Make room in the index for `count` seats."""

    def _grow_index(self, need: int) -> None:
        """Make room for what the kernel needs, after it stopped."""
        raise AssertionError(f"{self.name} does not know what to grow for {need}")

    def _prepared(
        self, nows: Ints, ranges: Ints, codes: Ints, limits: Numbers
    ) -> tuple[npt.NDArray[np.int8], Numbers, Ints]:
        if len(ranges) and not 0 < ranges.min() <= ranges.max() <= self.largest_us:
            wrong = ranges[(ranges <= 0) | (ranges > self.largest_us)][0]
            raise SubstreamError(
                f"a window of {wrong} microseconds is not between 1 and the largest, {self.largest_us}; "
                "call hold() first for larger ones"
            )
        if len(nows) and (nows.max() >= TIME_LIMIT or nows.min() <= -TIME_LIMIT):
            raise SubstreamError("times must lie within 2**61 microseconds of 1970")
        starts = nows - ranges
        if len(starts) and starts.min() < self.held_from:
            raise SubstreamError(
                f"a window from {starts.min()} needs events that are no longer held; all after {self.held_from} are, "
                "so look up again when the window starts there"
            )
        if limits.dtype.kind == "f" and np.isnan(limits).any():
            raise SubstreamError("a threshold is NaN; give a number")
        kinds, bounds, is_never = self._bounds(codes, limits)
        starts[is_never] = FAR_FUTURE
        return kinds, bounds, starts

    def _admit(self, codes: Ints, moments: Ints, *, has_events: bool = True) -> None:
        """Check the order of time, and make room for codes."""
        if len(codes) and codes.min() < 0:
            raise SubstreamError(f"the code {codes.min()} of a key is negative; codes are 0, 1, 2, ...")
        if len(codes) and codes.max() >= MOST_CODES - 1:
            raise SubstreamError(
                f"the code {codes.max()} is too large; give codes 0, 1, 2, ... as dictionary encoding does"
            )
        before = np.concatenate([self._store.state[[rings.CLOCK]], moments[:-1]])
        if np.any(moments < before):
            late = int(np.flatnonzero(moments < before)[0])
            raise SubstreamError(
                f"row {late} is at {moments[late]}, after one at {before[late]}; sort events by time first"
            )
        if len(moments) and (moments[-1] >= TIME_LIMIT or moments[0] <= -TIME_LIMIT):
            raise SubstreamError("times must lie within 2**61 microseconds of 1970")
        if has_events and self._first_time is None and len(moments):
            self._first_time = int(moments[0])
        known = len(self._store.seat_of)
        if len(codes) and codes.max() >= known:
            more = max(2 * known, int(codes.max()) + 1)
            self._store = self._store._replace(seat_of=lengthened(self._store.seat_of, more, -1))

    def _run(self, steps: Steps, exact: bool) -> Matches:
        """Replay all steps, growing arrays whenever the kernel asks for it."""
        ends = np.zeros(len(steps.kinds), np.int64)
        found, used, at = np.empty(64, np.int64), 0, 0
        while True:
            at, need, found, used = self._replay(steps, exact, at, ends, found, used)
            if need == rings.DONE:
                break
            if need == rings.SUM_TOO_LARGE:
                raise SubstreamError(
                    f"row {at}: the sum of key {steps.keys[at]} over the largest window reaches 2**61; "
                    "use larger units. The rows before it were taken"
                )
            self._grow(need)
        asked = (steps.kinds != rings.UPDATE) & (steps.kinds != rings.ADVANCE)
        return Matches(np.concatenate([np.zeros(1, np.int64), ends[asked]]), found[:used].copy())

    def _grow(self, need: int) -> None:
        store = self._store
        if need == rings.NEEDS_SEATS:
            count = 2 * len(store.seats)
            seats = _empty_seats(count)
            seats[: len(store.seats)] = store.seats
            self._store = store._replace(seats=seats, links=lengthened(store.links, count, -1))
            self._seats_grew(count)
        elif need == rings.NEEDS_EVENTS:
            count = 2 * len(store.times)
            values = lengthened(store.values, count, 0) if len(store.values) else store.values
            self._store = store._replace(times=lengthened(store.times, count, 0), values=values)
        else:
            self._grow_index(need)


def lengthened(array: Numbers, count: int, fill: int) -> Numbers:
    """A copy with more rows."""
    if len(array) >= MOST_CODES:
        raise SubstreamError("an index of substreams has more than 2**31 places; split the keys over several filters")
    larger = np.full((count, *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def integer_bounds(codes: Ints, thresholds: Numbers) -> tuple[npt.NDArray[np.int8], Ints, npt.NDArray[np.bool_]]:
    """Comparisons with any number as "at least" or "at most" an integer; also says which lookups no key can pass."""
    is_up, is_strict = _UP[codes], _STRICT[codes]
    too_high = np.zeros(len(codes), np.bool_)
    too_low = too_high.copy()
    if thresholds.dtype.kind == "f":
        rounded = np.where(is_up == is_strict, np.floor(thresholds), np.ceil(thresholds))
        too_high, too_low = rounded >= 2.0**63, rounded < -(2.0**63)
        whole = np.where(too_high | too_low, 0, rounded).astype(np.int64)
    else:
        whole = thresholds.astype(np.int64)
    too_high |= is_up & is_strict & (whole == _GREATEST)
    too_low |= ~is_up & is_strict & (whole == _LEAST)
    whole = np.where(too_high, _GREATEST, np.where(too_low, _LEAST, whole))
    whole = whole + (is_up & is_strict & ~too_high & ~too_low) - (~is_up & is_strict & ~too_high & ~too_low)
    kinds = np.where(is_up, rings.AT_LEAST, rings.AT_MOST).astype(np.int8)
    return kinds, whole, np.where(is_up, too_high, too_low)


def double_bounds(codes: Ints, thresholds: Numbers) -> tuple[npt.NDArray[np.int8], Numbers, npt.NDArray[np.bool_]]:
    """Comparisons of doubles, as they are."""
    return _KINDS[codes], thresholds.astype(np.float64), np.zeros(len(codes), np.bool_)


def whole_values(values: npt.ArrayLike, name: str) -> Ints:
    """Values as integers, or an error."""
    array = np.atleast_1d(np.asarray(values))
    if not len(array):
        return np.zeros(0, np.int64)
    if array.dtype.kind in "iub" and (array.dtype != np.uint64 or array.max() <= _GREATEST):
        return array.astype(np.int64)
    raise SubstreamError(f"{name} takes integers, got {array.dtype}; count in a smaller unit, such as cents")


def _empty_seats(count: int) -> Ints:
    seats = np.zeros((count, rings.SEAT_COLUMNS), np.int64)
    seats[:, [rings.OFFSET, rings.CODE]] = -1
    seats[:, rings.LAST] = rings.FAR_PAST
    return seats


def _integers(values: npt.ArrayLike, name: str) -> Ints:
    array = np.atleast_1d(np.asarray(values))
    if len(array) and array.dtype.kind not in "iu":
        raise SubstreamError(f"{name} must be integers, got {array.dtype}")
    return array.astype(np.int64)


def _thresholds(values: npt.ArrayLike) -> Numbers:
    array = np.atleast_1d(np.asarray(values))
    if len(array) and array.dtype.kind not in "iuf":
        raise SubstreamError(f"thresholds must be numbers, got {array.dtype}")
    is_wide = array.dtype == np.uint64 and len(array) and array.max() > _GREATEST
    return array.astype(np.float64 if array.dtype.kind == "f" or is_wide else np.int64)


def _comparisons(given: str | Sequence[str]) -> Ints:
    signs = [given] if isinstance(given, str) else list(given)
    for sign in signs:
        if sign not in COMPARISONS:
            raise SubstreamError(f"a comparison is one of {' '.join(COMPARISONS)}, got {sign!r}")
    return np.array([COMPARISONS.index(sign) for sign in signs], np.int64)


def _same_length(**columns: Numbers) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise SubstreamError(f"arrays must be equally long, got {lengths}")
