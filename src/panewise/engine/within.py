"""Answers of WITHIN: intervals from TimeGrams over the final events, and the exact values of the pending ones.

Invariant: the exact answer lies in [low, high], and the interval is no wider than WITHIN allows. If TimeGrams cannot
promise that, `lookup` gives None and the window's events are read: the interval is too wide (from then on there are
twice as many buckets), a NaN or an infinity lies in the window, or the requested past is not held.
Cost: lookup O(buckets + log events), and the pending events of the window are read.
Source: TR1536, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import fsum, inf, nextafter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE, Making
from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.engine.event_log import EventLog
from panewise.engine.within_column import (
    Bounds,
    IntervalColumn,
    IntervalColumnKey,
    IntervalNeedsEventsError,
    Number,
    exact_number,
)
from panewise.errors import HistoryError
from panewise.language.expressions import AggregateCall
from panewise.language.model import Query, Stream
from panewise.planning.within import WithinPlan, folded_for
from panewise.windows import Window

_BIGINT = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Interval:
    """The doubles between which an answer lies, and the answer itself if it is a known integer."""

    low: float
    high: float
    exact: int | None = None

    @property
    def middle(self) -> float:
        """The value that stands for the interval."""
        if self.exact is not None:
            return float(self.exact)
        return self.low if self.low == self.high else self.low / 2 + self.high / 2

    def is_within(self, width: float) -> bool:
        """Whether it is no wider than `width` times its larger bound."""
        return self.low == self.high or self.high - self.low <= width * max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Looked:
    """What a lookup found: an interval for each aggregate, None for NULL, and the times of the events covered."""

    intervals: dict[AggregateCall, Interval | None]
    times: Ints


class TimeGrams:
    """The columns of one stream, shared by the queries that are planned to use them."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._queries: dict[str, dict[AggregateCall, IntervalColumnKey]] = {}
        self._columns: dict[IntervalColumnKey, IntervalColumn] = {}
        self._counts = dict.fromkeys(
            ("within_intervals", "within_too_wide", "within_not_finite", "within_past", "within_pending_only",
             "within_overflow", "within_gave_up", "within_growths"), 0,
        )  # fmt: skip

    @property
    def statistics(self) -> dict[str, int]:
        """How many lookups were answered as intervals, how many exactly and why, and how often buckets grew."""
        return dict(self._counts)

    def add(self, query: Query, plan: WithinPlan) -> None:
        """Serve one more query, from the events that the log holds."""
        keys = {call: IntervalColumnKey(query.where, call.argument) for call in query.aggregates}
        self._queries[query.name] = keys
        for key in dict.fromkeys(keys.values()):
            if key not in self._columns:
                self._columns[key] = IntervalColumn(self._stream, key)
            self._columns[key].add(query, plan)

    def remove(self, name: str) -> None:
        """Serve one query less; a column is dropped with the last query that used it."""
        for key in dict.fromkeys(self._queries.pop(name, {}).values()):
            self._columns[key].remove(name)
            if self._columns[key].is_unused:
                del self._columns[key]

    def append(self, fresh: pa.Table, first: int, log: EventLog) -> None:
        """Take in events that became final; `first` is the number of the first of them in the log."""
        numbers = np.arange(first, first + fresh.num_rows)
        for column in self._columns.values():
            column.append(fresh, numbers, log)

    def lookup(self, query: Query, log: EventLog, at_us: int, since_us: int | None) -> Looked | None:
        """The intervals of a query; None if its window's events must be read, or its plan is to read them."""
        if query.name not in self._queries:
            return None
        try:
            found = self._look(query, log, at_us, since_us)
        except IntervalNeedsEventsError as why:
            self._counts[str(why)] += 1
            return None
        self._counts["within_intervals"] += 1
        return found

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        for column in self._columns.values():
            column.check_invariants()

    def _look(self, query: Query, log: EventLog, at_us: int, since_us: int | None) -> Looked:
        assert query.within is not None
        low, high = _covered(query.window, log, at_us, since_us)
        last = min(high, log.final_held)
        if low >= last:
            raise IntervalNeedsEventsError("within_pending_only")
        first, end = int(log.numbers[low]), int(log.numbers[last - 1]) + 1
        if end - first != last - low:
            # Events in between were dropped, and only the log knows what it may answer then.
            raise IntervalNeedsEventsError("within_past")
        pending = log.events.slice(last, high - last)
        keys = self._queries[query.name]
        parts: dict[IntervalColumnKey, BoundedPart] = {}
        for key in dict.fromkeys(keys.values()):
            self._columns[key].catch_up(log)
            functions = {call.function for call, other in keys.items() if other == key}
            parts[key] = BoundedPart.of(self._columns[key], first, end, pending, functions)
        intervals = {call: parts[key].interval(call.function) for call, key in keys.items()}
        for call, interval in intervals.items():
            if interval is not None and not interval.is_within(query.within):
                self._counts["within_growths"] += self._columns[keys[call]].grow()
                raise IntervalNeedsEventsError("within_too_wide")
        return Looked(intervals, log.times[low:high])


@dataclass(frozen=True)
class BoundedPart:
    """What one column has in a window: how many values, and the bounds of MAX, MIN and SUM over them."""

    count: int
    bounds: dict[str, Bounds]
    is_whole: bool

    @staticmethod
    def of(column: IntervalColumn, first: int, last: int, pending: pa.Table, aggregates: Iterable[str]) -> BoundedPart:
        """The final events first .. last - 1 of the log, and pending ones."""
        places, values = column.values_of(pending)
        count = column.count(first, last) + len(places)
        functions = sorted({name for name in map(folded_for, aggregates) if name is not None})
        if not functions or not count:
            return BoundedPart(count, {}, column.is_whole)
        bounds = column.bounds(first, last, functions)
        if len(values):
            of_pending = {name: bounds_of(values, name) for name in functions}
            bounds = {name: both(name, bounds[name], of_pending[name]) for name in bounds} or of_pending
        return BoundedPart(count, bounds, column.is_whole)

    def interval(self, aggregate: str) -> Interval | None:
        """The doubles between which an aggregate lies; None for NULL."""
        entry, folded = CATALOGUE[aggregate], folded_for(aggregate)
        if folded is None:
            return Interval(float(self.count), float(self.count), self.count)
        if not self.count:
            return None
        low, high = self.bounds[folded]
        if entry.making is Making.MEAN:
            return _rounded(Fraction(low) / self.count, Fraction(high) / self.count)
        if not self.is_whole:
            return _rounded(low, high)
        if low < _BIGINT[0] or high > _BIGINT[1]:
            # Whether the sum itself fits is known only once it is exact.
            raise IntervalNeedsEventsError("within_overflow")
        return replace(_rounded(low, high), exact=int(low) if low == high else None)


def both(function: str, one: Bounds, other: Bounds) -> Bounds:
    """The bounds over two sets of events together."""
    match CATALOGUE[function].fold():
        case Kind.MAX:
            return max(one[0], other[0]), max(one[1], other[1])
        case Kind.MIN:
            return min(one[0], other[0]), min(one[1], other[1])
        case _:
            return one[0] + other[0], one[1] + other[1]


def bounds_of(values: npt.NDArray[Any], function: str) -> Bounds:
    """The bounds over known values: equal, except for the rounding of a sum of doubles."""
    if not np.all(np.isfinite(values)):
        raise IntervalNeedsEventsError("within_not_finite")
    kind = CATALOGUE[function].fold()
    if kind in (Kind.MAX, Kind.MIN) or len(values) == 1:
        chosen = exact_number((values.max() if kind is Kind.MAX else values.min()).item())
        return chosen, chosen
    if values.dtype.kind == "i":
        # In two halves, neither of which overflows.
        total = (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
        return total, total
    try:
        rounded = fsum(values.tolist())
    except OverflowError:
        raise IntervalNeedsEventsError("within_too_wide") from None
    ends = nextafter(rounded, -inf), nextafter(rounded, inf)
    if not np.all(np.isfinite(ends)):
        raise IntervalNeedsEventsError("within_too_wide")
    return exact_number(ends[0]), exact_number(ends[1])


def _rounded(low: Number, high: Number) -> Interval:
    """The narrowest doubles around two numbers."""
    try:
        below, above = float(low), float(high)
    except OverflowError:
        raise IntervalNeedsEventsError("within_too_wide") from None
    return Interval(
        below if below <= low else nextafter(below, -inf), above if above >= high else nextafter(above, inf)
    )


def _covered(window: Window, log: EventLog, at_us: int, since_us: int | None) -> tuple[int, int]:
    """Where the events that a window covers begin and end in the log; a window over a past not held must be read."""
    if log.trimmed_at_us is not None and at_us < log.trimmed_at_us:
        raise IntervalNeedsEventsError("within_past")
    try:
        return log.covered_range(window, at_us, since_us)
    except HistoryError:
        raise IntervalNeedsEventsError("within_past") from None
