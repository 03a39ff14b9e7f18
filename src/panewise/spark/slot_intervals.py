"""WITHIN over slots: intervals from TimeGrams over the partials of final slots, and exact values of the others.

Invariant: the exact answer lies in [low, high], and the interval is no wider than WITHIN allows. If TimeGrams cannot
promise that, `lookup` gives None and the answer is exact: the interval is too wide (from then on there are twice as
many buckets), a NaN or an infinity lies in a slot, or the window begins before what the TimeGrams hold.
Cost: lookup O(buckets + log slots), and the slots of the window that are not final are read.
Source: TR1536, section 3, with what an aggregate answers over one slot in the place of a value.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Component, Kind
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.on_demand.parts import Part
from panewise.engine.rows import Rows
from panewise.engine.within import BoundedPart, Interval, Looked, both, bounds_of
from panewise.engine.within_column import Bounds, IntervalNeedsEventsError, exact_number
from panewise.errors import HistoryError, PanewiseError, SlowerLookupsWarning
from panewise.planning.optimize import components_of
from panewise.planning.trees import PlannedAggregate
from panewise.planning.within import WithinPlan, buckets_from_values, folded_for
from panewise.spark.lookup_plan import Lookup
from panewise.spark.slot_structures import SlotMoment, SlotSequence
from panewise.structures.timegram import TimeGram
from panewise.windows import TimeWindow

Numbers = npt.NDArray[Any]

MOST_WORD = 1 << 29
"""A sum of integers whose upper half stays below this fits a TimeGram, with many others."""


@dataclass
class _Fold:
    """MAX, MIN or SUM of one input over each final slot that has a value, under a TimeGram."""

    aggregate: PlannedAggregate
    function: str
    slots: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    timegram: TimeGram | None = None
    rest: float = 0.0
    """The greatest part of a sum of doubles that did not fit into one double."""


class SlotIntervals(SlotSequence):
    """One query's intervals. It reads what a sequence of structures reads."""

    _late: Rows
    """The slots that may still change."""
    _slots: Ints
    _counts: dict[int | None, Ints]
    """How many values of each input there are up to each final slot."""
    _not_finite: Ints
    """The final slots with an infinity or a NaN."""
    _folds: dict[tuple[int | None, str], _Fold]

    def __init__(self, lookup: Lookup, plan: WithinPlan) -> None:
        self._lookup, self._plan, self._least_buckets = lookup, plan, plan.buckets or 0
        self._types = lookup.family.fed.plan.input_types
        self._gave_up = False
        super().__init__(lookup.family.fed.plan.stream, lookup.query.where, ())
        self.predicate = lookup.planned.predicate

    @property
    def components(self) -> tuple[Component, ...]:
        """What is read of partials."""
        return components_of([self._lookup.planned], self._types)

    def lookup(self, moment: SlotMoment) -> Looked | None:
        """The intervals of the window; None if the answer must be exact."""
        if self._gave_up:
            return None
        try:
            self.prepare(moment)
            found = {one.call: self._interval(one, moment) for one in self._lookup.planned.aggregates}
        except (IntervalNeedsEventsError, HistoryError):
            return None
        within = self._lookup.query.within
        assert within is not None
        if all(interval is None or interval.is_within(within) for interval in found.values()):
            return Looked(found, np.empty(0, np.int64))
        if self._least_buckets < self._plan.most_buckets:
            self._least_buckets = min(2 * max(1, self._least_buckets), self._plan.most_buckets)
            self.rebuild()
        return None

    def _interval(self, aggregate: PlannedAggregate, moment: SlotMoment) -> Interval | None:
        first, end = moment.covered.from_slot, moment.covered.to_slot
        late = self._late.take(np.flatnonzero((self._late.slots >= first) & (self._late.slots < end)))
        low, high = np.searchsorted(self._slots, [first, end])
        counts = self._counts[aggregate.input]
        count = int(counts[high] - counts[low]) + int(_counted(aggregate, late).sum())
        folded, kind = folded_for(aggregate.call.function), self._type_of(aggregate)
        bounds: dict[str, Bounds] = {}
        if folded is not None and count:
            if len(np.flatnonzero((self._not_finite >= first) & (self._not_finite < end))):
                raise IntervalNeedsEventsError("within_not_finite")
            fold = self._folds[aggregate.input, folded]
            parts = [self._final(fold, first, end), self._read(fold, late)]
            known = [part for part in parts if part is not None]
            bounds[folded] = known[0] if len(known) == 1 else both(folded, known[0], known[1])
        return BoundedPart(count, bounds, kind is Type.BIGINT).interval(aggregate.call.function)

    def _final(self, fold: _Fold, first: int, end: int) -> Bounds | None:
        """The bounds over final slots; None if none has a value."""
        low, high = np.searchsorted(fold.slots, [first, end])
        if low == high or fold.timegram is None:
            return None
        lows, highs = fold.timegram.lookup_ranges(np.array([low]), np.array([high]), [fold.function])
        ends = float(lows[0]), float(highs[0])
        if not np.all(np.isfinite(ends)):
            raise IntervalNeedsEventsError("within_too_wide")
        rest = Fraction(fold.rest) * int(high - low)
        return exact_number(lows.tolist()[0]) - rest, exact_number(highs.tolist()[0]) + rest

    def _read(self, fold: _Fold, late: Rows) -> Bounds | None:
        """The bounds over slots that may still change, from their partials; None if none has a value."""
        values, rests, counted = self._values(fold, late)
        if not counted.any():
            return None
        parts = [values[counted], rests[counted]] if rests.any() else [values[counted]]
        return bounds_of(np.concatenate(parts), fold.function)

    def _feed(self, part: Part, rows: Rows) -> None:
        if part is not self.final:
            self._late = rows
            return
        self._slots = np.concatenate([self._slots, rows.slots])
        for one in {one.input: one for one in self._lookup.planned.aggregates}.values():
            before = self._counts[one.input]
            self._counts[one.input] = np.concatenate([before, before[-1] + np.cumsum(_counted(one, rows))])
        for fold in self._folds.values():
            values, rests, counted = self._values(fold, rows)
            finite = counted & np.isfinite(values)
            self._not_finite = np.concatenate([self._not_finite, rows.slots[counted & ~finite]])
            fold.slots = np.concatenate([fold.slots, rows.slots[finite]])
            fold.rest = max(fold.rest, float(np.abs(rests[finite]).max(initial=0.0)))
            try:
                self._take(fold, values[finite])
            except PanewiseError as error:
                self._give_up(str(error))

    def _take(self, fold: _Fold, values: Numbers) -> None:
        if not len(values):
            return
        if fold.timegram is None:
            window, slot_us = self._lookup.query.window, self._lookup.family.fed.base.granularity
            assert isinstance(window, TimeWindow)
            needed = buckets_from_values(self._lookup.query, {fold.function}, float(values.min()), float(values.max()))
            buckets = max(1, self._least_buckets, min(needed, self._plan.most_buckets))
            windows, kind = [(window.left_us // slot_us, 0)], self._type_of(fold.aggregate)
            fold.timegram = TimeGram(buckets, windows=windows, refine=True, type=kind)
        fold.timegram.update(values)

    def _values(self, fold: _Fold, rows: Rows) -> tuple[Numbers, Numbers, Any]:
        """What an aggregate answers over each slot, what rounding left of it, and which slots have a value."""
        aggregate = fold.aggregate
        kind = CATALOGUE[fold.function].component(self._type_of(aggregate))
        assert kind is not None
        columns = [rows.columns[name] for name in Component(kind, aggregate.input).column_names()]
        counted = _counted(aggregate, rows) > 0
        if kind is Kind.SUM_FLOAT:
            return columns[0], columns[1], counted
        values = columns[0]
        if kind is Kind.SUM_INT:
            if np.any(np.abs(columns[0]) >= MOST_WORD):
                self._give_up("the sum of a slot reaches 2**61; use larger units")
            values = (columns[0] << 32) + columns[1]
        return values, np.zeros_like(values), counted

    def _give_up(self, why: str) -> NoReturn:
        """Answer exactly from now on."""
        self._gave_up = True
        message = f"query {self._lookup.query.name} with WITHIN is answered exactly from now on: {why}"
        warnings.warn(message, SlowerLookupsWarning, stacklevel=2)
        raise IntervalNeedsEventsError("within_gave_up")

    def _type_of(self, aggregate: PlannedAggregate) -> Type | None:
        return None if aggregate.input is None else self._types[aggregate.input]

    def _clear(self) -> None:
        super()._clear()
        aggregates = self._lookup.planned.aggregates
        self._slots = self._not_finite = np.empty(0, np.int64)
        self._counts = {one.input: np.zeros(1, np.int64) for one in aggregates}
        folds = ((one, folded_for(one.call.function)) for one in aggregates)
        self._folds = {(one.input, folded): _Fold(one, folded) for one, folded in folds if folded is not None}


def _counted(aggregate: PlannedAggregate, rows: Rows) -> Ints:
    """How many values, or events, each slot has."""
    kind = Kind.ROWS if aggregate.input is None else Kind.COUNT
    counts: Ints = rows.columns[Component(kind, aggregate.input).column_names()[0]]
    return counts
