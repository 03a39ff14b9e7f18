"""Columns of WITHIN: the final events that pass one WHERE, with the values of one argument, under a TimeGram.

All queries with that WHERE and that argument share a column, for any windows and widths. Its TimeGram holds the finite
values. The numbers of its events in the log are kept beside it, so a window is a range of positions, and a count is the
difference of two positions. NULLs are left out; for a NaN or an infinity only the number is kept.

Invariant: position p of the TimeGram is the value of the event with the p-th number kept, counting dropped ones.
Cost: update O(1) an event, amortised; `count` O(log events), `bounds` O(buckets + log events).
Source: TR1536, section 3.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import carrier_of
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.columns import arrow_type
from panewise.engine.event_log import EventLog
from panewise.engine.integer_queue import IntegerQueue
from panewise.engine.projection import holds
from panewise.errors import HistoryError, PanewiseError, SlowerLookupsWarning
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression
from panewise.language.model import Query, Stream
from panewise.language.typecheck import type_of
from panewise.planning.within import FEWEST_BUCKETS, WithinPlan, buckets_from_values, folded_for
from panewise.structures.timegram import TimeGram
from panewise.windows import RowWindow, TimeWindow

Number = int | Fraction
"""Exact, so that bounds can be added, divided and compared without rounding."""
Bounds = tuple[Number, Number]


class IntervalNeedsEventsError(Exception):
    """The window's events must be read; the text is the name under which this is counted."""


def exact_number(value: float) -> Number:
    """A finite double, or an integer, as an exact number."""
    return value if isinstance(value, int) else Fraction(value)


@dataclass(frozen=True)
class IntervalColumnKey:
    """What queries must have in common to share a column; the argument of COUNT(*) is None."""

    where: Expression | None
    argument: Expression | None


class RisingNumbers:
    """Rising numbers, appended at the end and dropped at the beginning; places count from the first number ever.

    Cost: `append` O(1) a number, amortised; `place` O(log numbers).
    """

    def __init__(self) -> None:
        self._column = IntegerQueue()
        self._first = 0

    def append(self, numbers: Ints) -> None:
        """Add numbers above all others."""
        self._column.append(numbers)

    def place(self, number: int) -> int:
        """How many numbers below this one there have ever been; all dropped ones count."""
        return self._first + int(self._column.values.searchsorted(number))

    def between(self, first: int, last: int) -> int:
        """How many numbers there are from first to last - 1."""
        return self.place(last) - self.place(first)

    def let_go_below(self, number: int) -> None:
        """Drop the numbers below."""
        gone = self.place(number) - self._first
        self._column.drop(gone)
        self._first += gone


class IntervalColumn:
    """The final events that pass a WHERE and have a value of an argument, for the queries that share them."""

    def __init__(self, stream: Stream, key: IntervalColumnKey) -> None:
        self._stream = stream
        self._key = key
        self._type = None if key.argument is None else type_of(key.argument, stream.attributes)
        self._members: dict[str, tuple[Query, WithinPlan]] = {}
        self._functions: frozenset[str] = frozenset()
        """What its TimeGram must answer: MAX, MIN, SUM; nothing if its queries only count."""
        self._rows = self._time_us = 0
        self._least_buckets = FEWEST_BUCKETS
        self._is_stale = False
        self._clear()

    @property
    def is_unused(self) -> bool:
        """Whether no query needs it."""
        return not self._members

    @property
    def is_whole(self) -> bool:
        """Whether its values are integers."""
        return self._type is Type.BIGINT

    @property
    def buckets(self) -> int:
        """How many buckets it has now; 0 if it only counts, or no event has come."""
        return 0 if self._timegram is None else self._timegram.buckets

    def add(self, query: Query, plan: WithinPlan) -> None:
        """Serve one more query, from the final events that the log will hold at the next call that reads it."""
        self._members[query.name] = query, plan
        self._set_needs()

    def remove(self, name: str) -> None:
        """Serve one query less."""
        del self._members[name]
        self._set_needs()

    def append(self, events: pa.Table, numbers: Ints, log: EventLog) -> None:
        """Take in events that became final and that the log holds, in order, and their numbers in it."""
        if self._is_stale:
            self.catch_up(log)
        else:
            self._take(events, numbers)
        oldest = int(log.numbers[0]) if len(log.numbers) else log.final_count
        self._numbers.let_go_below(oldest)
        self._not_finite.let_go_below(oldest)

    def catch_up(self, log: EventLog) -> None:
        """Start over from the final events that the log holds, if other queries or more buckets ask for it."""
        if self._is_stale:
            self._clear()
            self._is_stale = False
            self._take(*log.final_events())

    def values_of(self, events: pa.Table) -> tuple[Ints, npt.NDArray[Any]]:
        """The places of the events that belong to the column, and their values (none for a column that counts)."""
        if not events.num_rows:
            return np.empty(0, np.int64), np.empty(0)
        raw = {name: _one(events.column(name)) for name in events.column_names}
        counted = np.ones(events.num_rows, np.bool_)
        if self._key.where is not None:
            counted = holds(evaluate(self._key.where, raw, self._stream.attributes))
        if self._key.argument is None:
            return np.flatnonzero(counted), np.empty(0)
        values = evaluate(self._key.argument, raw, self._stream.attributes)
        counted = counted & np.asarray(values.is_valid())
        if not self._functions:
            return np.flatnonzero(counted), np.empty(0)
        assert self._type is not None
        typed = values.cast(arrow_type(self._type)).filter(pa.array(counted))
        return np.flatnonzero(counted), np.asarray(typed)

    def count(self, first: int, last: int) -> int:
        """How many of the events first .. last - 1 of the log belong to it."""
        if self._gave_up:
            raise IntervalNeedsEventsError("within_gave_up")
        return self._numbers.between(first, last) + self._not_finite.between(first, last)

    def bounds(self, first: int, last: int, functions: list[str]) -> dict[str, Bounds]:
        """The bounds of functions over events of the log; empty if no event belongs to the column."""
        if self._not_finite.between(first, last):
            raise IntervalNeedsEventsError("within_not_finite")
        if self._timegram is None or not self._numbers.between(first, last):
            return {}
        low, high = (np.full(len(functions), self._numbers.place(end)) for end in (first, last))
        try:
            lows, highs = self._timegram.lookup_ranges(low, high, functions)
        except HistoryError:
            raise IntervalNeedsEventsError("within_past") from None
        ends = list(zip(lows.tolist(), highs.tolist(), strict=True))
        if not all(isfinite(end) for pair in ends for end in pair):
            raise IntervalNeedsEventsError("within_too_wide")
        return {name: (exact_number(a), exact_number(b)) for name, (a, b) in zip(functions, ends, strict=True)}

    def grow(self) -> bool:
        """Double the buckets, up to what the plans of its queries allow; returns whether that is possible."""
        if self._timegram is None or self._timegram.buckets >= self._most_buckets:
            return False
        self._least_buckets = 2 * self._timegram.buckets
        self._is_stale = True
        return True

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        if self._timegram is not None and not self._gave_up:
            self._timegram.check_invariants()
            assert self._timegram.length == self._numbers.place(2**63 - 1)

    @property
    def _most_buckets(self) -> int:
        return max(plan.most_buckets for _, plan in self._members.values())

    def _clear(self) -> None:
        self._gave_up = False
        self._timegram: TimeGram | None = None
        self._numbers = RisingNumbers()
        self._not_finite = RisingNumbers()

    def _set_needs(self) -> None:
        before = self._functions, self._rows, self._time_us
        queries = [query for query, _ in self._members.values()]
        self._functions = frozenset(carrier_of(name) for query in queries for name in self._folded_of(query))
        windows = [query.window for query in queries]
        self._rows = max((window.left for window in windows if isinstance(window, RowWindow)), default=0)
        self._time_us = max((window.left_us for window in windows if isinstance(window, TimeWindow)), default=0)
        self._is_stale = self._is_stale or (self._functions, self._rows, self._time_us) != before

    def _folded_of(self, query: Query) -> set[str]:
        """The aggregates of a query over this column that need the values."""
        own = (call.function for call in query.aggregates if call.argument == self._key.argument)
        return {function for function in own if folded_for(function) is not None}

    def _take(self, events: pa.Table, numbers: Ints) -> None:
        if self._gave_up or not events.num_rows:
            return
        places, values = self.values_of(events)
        if not self._functions:
            self._numbers.append(numbers[places])
            return
        finite = np.isfinite(values)
        self._not_finite.append(numbers[places[~finite]])
        places, values = places[finite], values[finite]
        self._numbers.append(numbers[places])
        try:
            self._feed(values, np.asarray(events.column(self._stream.timestamp))[places])
        except PanewiseError as error:
            self._gave_up = True
            warnings.warn(
                f"queries with WITHIN are answered exactly from now on: {error}", SlowerLookupsWarning, stacklevel=2
            )

    def _feed(self, values: npt.NDArray[Any], times: Ints) -> None:
        if not len(values):
            return
        if self._timegram is None:
            # Sums and extremes of whole blocks cost little; with them, buckets matter only at a window's ends.
            self._timegram = TimeGram(
                self._first_buckets(float(values.min()), float(values.max())),
                windows=[(self._rows, 0)] if self._rows else [],
                time_windows=[(self._time_us, 0)] if self._time_us else [],
                refine=True,
                type=self._type,
            )
        self._timegram.update(values, times if self._time_us else None)

    def _first_buckets(self, low: float, high: float) -> int:
        """As many buckets as WITHIN needs for values like the first ones; as planned if these do not tell."""
        wanted = self._least_buckets
        for query, plan in self._members.values():
            needed = buckets_from_values(query, self._folded_of(query), low, high)
            wanted = max(wanted, needed or plan.buckets or 0)
        return max(1, min(wanted, self._most_buckets))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) and combined.num_chunks == 1 else combined
