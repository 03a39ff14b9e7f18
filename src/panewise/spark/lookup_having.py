"""Groups that pass HAVING, found by collective indexes over the partials of slots instead of by folding every group.

One index serves all queries without SLIDE of one store with the same WHERE and aggregate, whatever their ranges and
thresholds. Its elements are single partials: an element's time is the number of its slot, its value what the aggregate
answers over that partial alone. Counts add up as sums do, so an index of sums follows both.

Invariant: an index has the partials of the slots before `_final_to`, which get no more, as far back as its longest
range. Those of later slots are kept aside, and are folded by group when looked up. The groups that are given are a
superset of those that pass: HAVING itself decides over their folded windows.
Cost: a partial costs what `panewise.substreams` says, and each batch one look at all rows of the store; a lookup costs
the groups that it gives, and those with partials that may still change.
Needs: a fragment for each slot, as every tree with a query without SLIDE has.
Source: the collective indexes of Sharing, section 4, with partials in the place of events.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.engine.answers import Groups
from panewise.engine.closed_windows import Fold
from panewise.errors import SlowerLookupsWarning, SubstreamError
from panewise.planning.having import Threshold, plan_having
from panewise.planning.optimize import components_of
from panewise.planning.trees import PlannedQuery
from panewise.spark.lookup_plan import Covered, Lookup
from panewise.spark.lookup_store import LookupStore, PlainView
from panewise.substreams import SubstreamFilter, build, collective_index
from panewise.windows import TimeWindow

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

FOLDED_FIRST = 32
"""Lookups that fold every group before an index is built, which takes about as long as so many of them: whoever asks
once or twice does not wait for an index, and whoever asks on does not wait for more than twice of what was needed."""
LEVELS_PER_SIZE = 4
"""Of an index of sums: more levels would look at fewer groups that nearly pass, and each costs at every partial."""
SUM_LIMIT = 1 << 61
"""What the sum of a group must stay below: indexes of sums hold no more."""
MOST_FOLDED = 64
"""Stretches of slots that are not final of which the groups are kept, from one batch to the next."""

NEVER = -(2**62)
END = 2**62

_COMPARE: dict[str, Callable[..., Bools]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_EXTREMES: dict[Kind | None, np.ufunc] = {Kind.MAX: np.maximum, Kind.MIN: np.minimum}


@dataclass(frozen=True)
class StoreIndexKey:
    """What queries must have in common to share an index; the first two name their store."""

    base: int
    group_by: tuple[str, ...]
    predicate: int | None
    function: str
    input: int | None

    @staticmethod
    def of(lookup: Lookup, planned: PlannedQuery) -> StoreIndexKey:
        """The index of a query, planned with the aggregate alone that it is about."""
        family = lookup.family
        (aggregate,) = planned.aggregates
        return StoreIndexKey(
            family.fed.number, family.tree.group_by, planned.predicate, aggregate.call.function, aggregate.input
        )


@dataclass(frozen=True)
class IndexNeeds:
    """What the queries of an index ask of it: the aggregate, their longest range in slots, their least threshold."""

    planned: PlannedQuery
    largest: int = 0
    least: int | float = math.inf


@dataclass(frozen=True)
class Elements:
    """Partials as an index takes them: the number of the key, the slot, and the value of the aggregate."""

    keys: Ints
    slots: Ints
    values: Numbers

    def take(self, chosen: Ints | Bools) -> Elements:
        """Some of these."""
        return Elements(self.keys[chosen], self.slots[chosen], self.values[chosen])


class LookupIndex:
    """One collective index over the final partials of a store, and the partials that are not final."""

    def __init__(self, store: LookupStore, asked: IndexNeeds) -> None:
        self._store = store
        self._keys = store.key_table
        """Whose numbers the elements have; a store that gives numbers back has another table then."""
        self._planned = asked.planned
        (self._aggregate,) = asked.planned.aggregates
        self._kind = CATALOGUE[self._aggregate.call.function].fold()
        self._largest = asked.largest
        self._filter = _filter_of(store, asked)
        self._newest = NEVER
        """The newest slot with an element."""
        self._final_to = NEVER
        self._seen = -1, NEVER
        """The version of the store, and the end of its final slots, that were looked at last."""
        none = np.empty(0, np.int64)
        self._later = Elements(none, none, none)
        """What is kept aside, of slots that are not final."""
        self._folded: dict[tuple[int, int], tuple[Ints, Numbers]] = {}
        """The same by group, from one slot up to another."""

    @property
    def nbytes(self) -> int:
        """The memory of all that is held."""
        later = self._later
        aside = [later.keys, later.slots, later.values, *(array for pair in self._folded.values() for array in pair)]
        return self._filter.nbytes + sum(array.nbytes for array in aside)

    @property
    def is_current(self) -> bool:
        """Whether its keys still have the numbers that they had."""
        return self._store.key_table is self._keys

    def candidates(self, threshold: Threshold, covered: Covered, final_to: int) -> Ints | None:
        """The rising numbers of the groups that may pass; None: any may, at a time that the index has passed."""
        if self._seen != (self._store.version, final_to):
            self._catch_up(final_to)
        return None if covered.to_slot <= self._newest else self._passing(threshold, covered)

    def check_invariants(self) -> None:
        """The index has only what is final, and nothing of that is kept aside."""
        self._filter.check_invariants()
        assert self._newest < self._final_to
        assert np.all(self._later.slots >= self._final_to)

    def _catch_up(self, final_to: int) -> None:
        """Take in the partials that have become final, and keep aside what came after them."""
        fresh = self._elements()
        is_final = fresh.slots < final_to
        self._feed(fresh.take(is_final))
        self._later, self._folded = fresh.take(~is_final), {}
        self._final_to, self._seen = final_to, (self._store.version, final_to)

    def _elements(self) -> Elements:
        """The partials of the slots that are not in the index; those whose aggregate is NULL or counts 0 drop out."""
        store = self._store
        components = components_of([self._planned], store.plan.input_types)
        found = store.rows(self._planned.predicate, components, None, self._final_to, END)
        if not found:
            return self._later.take(np.empty(0, np.int64))
        rows = found[0]
        for more in found[1:]:
            rows = rows.joined(more)
        places = np.arange(len(rows))
        view, groups = PlainView(rows, is_one_key=False), Groups(store.tree.group_by, store.key_table)
        # A window of its own for each partial.
        fold = Fold(view, rows.keys, rows.slots, places, places + 1, store.plan, groups)
        lowered = fold.lowered(self._aggregate)
        if lowered.overflows:
            raise SubstreamError("the sum of a partial does not fit in a BIGINT; use larger units")
        valid, values = lowered.valid, lowered.values if lowered.exact is None else lowered.exact
        if CATALOGUE[self._aggregate.call.function].only_counts:
            valid = valid & (values > 0)
        if lowered.exact is None:
            # NaN is above all numbers: as infinity it makes its group a candidate, and HAVING decides.
            values = np.where(np.isnan(values), np.inf, values)
        return Elements(rows.keys, rows.slots, values).take(valid)

    def _feed(self, final: Elements) -> None:
        """Give the filter elements in the order of time; those that no window can cover any more are left out."""
        if not len(final.slots):
            return
        newest = int(final.slots.max())
        final = final.take(final.slots > newest - self._largest)
        final = final.take(np.argsort(final.slots, kind="stable"))
        self._filter.update(final.keys, final.values, final.slots)
        self._newest = newest

    def _passing(self, threshold: Threshold, covered: Covered) -> Ints:
        """The groups that pass by what is final, by what is not, or by both together."""
        comparison, bound = threshold.comparison, threshold.bound
        keys, values = self._later_groups(covered)
        found = [self._final_groups(covered, comparison, bound), keys[_COMPARE[comparison](values, bound)]]
        adds_up = self._kind not in _EXTREMES
        if adds_up and comparison.startswith(">") and len(keys) and abs(bound) < 2 * SUM_LIMIT:
            # What is not final yet lifts its groups by so much at most. No sum reaches a bound beyond the limits.
            nearly = self._final_groups(covered, comparison, math.floor(bound) - int(values.max()))
            places = np.minimum(keys.searchsorted(nearly), len(keys) - 1)
            found.append(nearly[keys[places] == nearly])
        return np.unique(np.concatenate(found))

    def _final_groups(self, covered: Covered, comparison: str, bound: int | float) -> Ints:
        """The groups that pass by the final part of the window, up to the newest slot in the index."""
        length = self._newest + 1 - covered.from_slot
        if length <= 0:
            return np.empty(0, np.int64)
        return self._filter.lookup(self._newest, length, comparison, bound).keys

    def _later_groups(self, covered: Covered) -> tuple[Ints, Numbers]:
        """The groups with partials of the window that are not final, and the aggregate over these."""
        wanted = max(covered.from_slot, self._final_to), covered.to_slot
        if wanted not in self._folded:
            if len(self._folded) >= MOST_FOLDED:
                self._folded.clear()
            chosen = self._later.take((self._later.slots >= wanted[0]) & (self._later.slots < wanted[1]))
            self._folded[wanted] = self._by_group(chosen)
        return self._folded[wanted]

    def _by_group(self, later: Elements) -> tuple[Ints, Numbers]:
        if not len(later.keys):
            return later.keys, later.values
        later = later.take(np.argsort(later.keys, kind="stable"))
        starts = np.flatnonzero(np.diff(later.keys, prepend=-1))
        if self._kind in _EXTREMES:
            return later.keys[starts], _EXTREMES[self._kind].reduceat(later.values, starts)
        if later.values.sum(dtype=np.float64) >= SUM_LIMIT:
            raise SubstreamError("the sums of partials that are not final reach 2**61; use larger units")
        return later.keys[starts], np.add.reduceat(later.values, starts)


class SharedIndex:
    """An index that queries share, from when it is worth building."""

    def __init__(self, planned: PlannedQuery) -> None:
        self._asked = IndexNeeds(planned)
        self._lookups = 0
        """How many lookups have folded every group for want of an index."""
        self.index: LookupIndex | None = None
        self.gave_up: str | None = None
        """Why there will be no index any more: sums beyond what it can hold."""

    def add(self, range_slots: int, bound: int | float) -> None:
        """Serve one more query."""
        asked = self._asked
        self._asked = IndexNeeds(asked.planned, max(asked.largest, range_slots), min(asked.least, bound))

    def candidates(self, store: LookupStore, threshold: Threshold, covered: Covered, final_to: int) -> Ints | None:
        """The rising numbers of the groups that may pass; None: any may."""
        if self.gave_up is not None or not self._is_ready(store):
            return None
        assert self.index is not None
        try:
            return self.index.candidates(threshold, covered, final_to)
        except SubstreamError as error:
            self.index, self.gave_up = None, str(error)
            warnings.warn(
                f"every group of a HAVING is checked from now on: {error}", SlowerLookupsWarning, stacklevel=2
            )
            return None

    def _is_ready(self, store: LookupStore) -> bool:
        """Whether there is an index, now that it is worth one."""
        if self.index is not None and self.index.is_current:
            return True
        if self.index is not None:
            self.index, self._lookups = None, 0
        self._lookups += 1
        if self._lookups > FOLDED_FIRST:
            self.index = LookupIndex(store, self._asked)
        return self.index is not None


class LookupIndexes:
    """The indexes of a lookup client, shared by the queries that are planned to use them."""

    def __init__(self, lookups: Iterable[Lookup], rate: float) -> None:
        self.lookups = 0
        """How many lookups were answered through an index."""
        self.groups = 0
        """How many groups these had folded."""
        self.asked: set[str] = set()
        """The queries with an index whose groups were looked up, all of them."""
        self._served: dict[str, tuple[SharedIndex, Threshold]] = {}
        self._shared: dict[StoreIndexKey, SharedIndex] = {}
        for lookup in lookups:
            threshold = _threshold_of(lookup, rate)
            if threshold is None:
                continue
            window, fed = lookup.query.window, lookup.family.fed
            assert isinstance(window, TimeWindow)
            of_threshold = (one for one in lookup.planned.aggregates if one.call == threshold.call)
            planned = replace(lookup.planned, aggregates=tuple(of_threshold))
            key = StoreIndexKey.of(lookup, planned)
            shared = self._shared.setdefault(key, SharedIndex(planned))
            shared.add(window.left_us // fed.base.granularity, threshold.bound)
            self._served[lookup.query.name] = shared, threshold

    @property
    def nbytes(self) -> int:
        """The memory of all indexes."""
        return sum(one.index.nbytes for one in self._shared.values() if one.index is not None)

    def candidates(self, lookup: Lookup, covered: Covered, store: LookupStore, watermark_us: int | None) -> Ints | None:
        """The rising numbers of the groups that a lookup of all groups must fold; None: every group.

        Slots that ended by the watermark get no more partials, but for events that may still correct them.
        """
        served = self._served.get(lookup.query.name)
        if served is None or watermark_us is None:
            return None
        self.asked.add(lookup.query.name)
        shared, threshold = served
        fed = lookup.family.fed
        final_to = (watermark_us - fed.plan.stream.correct_us) // fed.base.granularity
        found = shared.candidates(store, threshold, covered, final_to)
        if found is not None:
            self.lookups += 1
            self.groups += len(found)
        return found

    def check_invariants(self) -> None:
        """Every index is in order."""
        for one in self._shared.values():
            if one.index is not None:
                one.index.check_invariants()


def _filter_of(store: LookupStore, asked: IndexNeeds) -> SubstreamFilter:
    """An empty filter."""
    (aggregate,) = asked.planned.aggregates
    sheet = collective_index(aggregate.call.function)
    if sheet is not None and not _EXTREMES.keys().isdisjoint(sheet.kinds):
        assert aggregate.input is not None
        return build(sheet.name, asked.largest, doubles=store.plan.input_types[aggregate.input] is Type.DOUBLE)
    # Half of it, as what is not final yet is taken from a threshold.
    least = int(max(1, min(asked.least / 2, SUM_LIMIT / 2)))
    return build("collective_sum", asked.largest, levels_per_size=LEVELS_PER_SIZE, least_threshold=least)


def _threshold_of(lookup: Lookup, rate: float) -> Threshold | None:
    """What an index finds the groups of a query by; None where every group is folded."""
    if lookup.is_sliding or not lookup.family.tree.cuts.is_every_slot:
        return None
    plan = plan_having(lookup.family.fed.plan.stream, lookup.query, rate)
    if plan is None or plan.filter is None or plan.threshold is None:
        return None
    # The other way round an index looks at every group that has events, and folding partials is as quick.
    few_pass = "<" if CATALOGUE[plan.threshold.call.function].fold() is Kind.MIN else ">"
    return plan.threshold if plan.threshold.comparison.startswith(few_pass) else None
