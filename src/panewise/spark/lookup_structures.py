"""The structures of a lookup client: which queries they answer, and what they hold of what was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from panewise.engine.on_demand.candidates import CandidateIndex
from panewise.engine.on_demand.single import SingleLookups
from panewise.planning.structure_choice import within_plan
from panewise.spark.lookup_plan import Covered, Lookup
from panewise.spark.lookup_state import LookupState
from panewise.spark.lookup_store import LookupStore
from panewise.spark.slot_intervals import SlotIntervals
from panewise.spark.slot_structures import END, FOLD_ROWS, NEVER, ServedFromSlots, SlotMoment, SlotStructures
from panewise.spark.stand_ins import slot_rates


@dataclass(frozen=True)
class AskedStructures:
    """What answers a query by structures, at a moment."""

    structures: SlotStructures
    served: ServedFromSlots
    moment: SlotMoment

    @property
    def at(self) -> int:
        """The last slot that is covered."""
        return self.moment.covered.to_slot - 1


class LookupStructures:
    """The structures of a lookup client, by store. A query comes to them once its lookups have cost what they take."""

    def __init__(self, state: LookupState) -> None:
        self.lookups = state.lookups
        self._prices = state.job.prices
        self._by_store: dict[tuple[int, tuple[str, ...]], SlotStructures] = {}
        self._singles: dict[str, SingleLookups[SlotMoment]] = {}
        self._taken: dict[str, ServedFromSlots | None] = {}
        """The queries that came to structures; None for one that no structure answers."""
        self._intervals: dict[str, SlotIntervals | None] = {}
        self._paid: Counter[tuple[int, tuple[str, ...], int | None]] = Counter()
        """What lookups without structures have taken since the last query came to them, by store and WHERE."""

    def single(self, lookup: Lookup) -> SingleLookups[SlotMoment]:
        """What prepares lookups of one group of a query."""
        single = self._singles.get(lookup.query.name)
        if single is None:
            single = SingleLookups(lookup.family.fed.plan.stream, lookup.query, self._of_store(lookup))
            self._singles[lookup.query.name] = single
        return single

    def intervals(self, lookup: Lookup) -> SlotIntervals | None:
        """What answers a query with WITHIN; None for one that is answered exactly."""
        query = lookup.query
        if query.within is None:
            return None
        if query.name not in self._intervals:
            rates = slot_rates(query, lookup.family.fed.base.granularity, self._prices)
            plan = within_plan(lookup.family.fed.plan.stream, query, rates.updates_per_s)
            can = plan is not None and plan.buckets is not None
            self._intervals[query.name] = SlotIntervals(lookup, plan) if plan is not None and can else None
        return self._intervals[query.name]

    def asked(self, state: LookupState, lookup: Lookup, covered: Covered, groups: int | None) -> AskedStructures | None:
        """What answers a lookup of some groups or of all; None if the partials are read."""
        name, store = lookup.query.name, state.store(lookup.family)
        if name not in self._taken and not self._is_worth(lookup, store, groups):
            return None
        found = self._served(lookup)
        if found is None:
            return None
        return AskedStructures(self._of_store(lookup), found, moment_of(state, lookup, covered))

    def _served(self, lookup: Lookup) -> ServedFromSlots | None:
        """What answers a query by structures, made if there is none yet."""
        name = lookup.query.name
        if name not in self._taken:
            structures = self._of_store(lookup)
            structures.serve(lookup, self._prices)
            served = structures.served(name)
            assert served is None or isinstance(served, ServedFromSlots)
            self._taken[name] = served
        return self._taken[name]

    def take_after(self, others: LookupStructures) -> None:
        """Answer what others answer, and follow what they were asked for."""
        # Lookups may add to what the others hold.
        for name, other in others._taken.copy().items():
            served = self._served(self.lookups[name])
            if served is not None and other is not None:
                served.sequence.was_asked |= other.sequence.was_asked

    def follow(self, state: LookupState) -> None:
        """Take in what is new, for what is looked up, and now and then choose structures again."""
        nothing = Covered(0, 0, 0, 0, 0)
        of_stores = {self._store_of(self.lookups[name]): self.lookups[name] for name, one in self._taken.items() if one}
        for key, lookup in of_stores.items():
            self._by_store[key].append(moment_of(state, lookup, nothing))

    @property
    def nbytes(self) -> int:
        """The memory of all structures and indexes."""
        return sum(structures.nbytes for structures in self._by_store.values())

    @property
    def indexes(self) -> Iterator[CandidateIndex]:
        """All indexes of HAVING."""
        for structures in self._by_store.values():
            yield from structures.indexes

    def statistics(self) -> list[dict[str, Any]]:
        """Every column, as the statistics of an engine describe it."""
        return [one for structures in self._by_store.values() for one in structures.statistics()]

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        for structures in self._by_store.values():
            structures.check_invariants()

    def _store_of(self, lookup: Lookup) -> tuple[int, tuple[str, ...]]:
        return lookup.family.fed.number, lookup.family.tree.group_by

    def _of_store(self, lookup: Lookup) -> SlotStructures:
        key = self._store_of(lookup)
        if key not in self._by_store:
            self._by_store[key] = SlotStructures(lookup)
        return self._by_store[key]

    def _is_worth(self, lookup: Lookup, store: LookupStore, groups: int | None) -> bool:
        """Whether lookups have cost so much that structures would have been cheaper.

        A query whose columns are there costs nothing, and what USING names is worth it.
        """
        if lookup.query.using is not None or self._of_store(lookup).has_columns(lookup.query):
            return True
        key, rows = (*self._store_of(lookup), lookup.planned.predicate), store.live_rows
        self._paid[key] += rows if groups is None else groups * FOLD_ROWS
        if self._paid[key] <= rows:
            return False
        del self._paid[key]
        return True


def moment_of(state: LookupState, lookup: Lookup, covered: Covered) -> SlotMoment:
    """What a lookup covers of what has been read."""
    return SlotMoment(state.store(lookup.family), _final_to(state, lookup), covered)


def _final_to(state: LookupState, lookup: Lookup) -> int:
    """The first slot that may still get partials."""
    if state.job.is_batch:
        return END
    if state.watermark_us is None:
        return NEVER
    fed = lookup.family.fed
    return (state.watermark_us - fed.plan.stream.correct_us) // fed.base.granularity
