"""How lookups answer each query of a job: which partials serve it, and which slots it covers at a time.

Queries of one base with the same groups are a family and share one tree. Its fragments lie between the edges of all
their windows, so each query finds its windows whole, and no partial is held twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from panewise.language.model import Query
from panewise.planning.optimize import components_of
from panewise.planning.trees import PlannedQuery, Tree
from panewise.spark.fed_bases import FedBase
from panewise.spark.job import Job
from panewise.windows import TimeWindow, Window, follows_events, is_unbounded
from panewise.windows.cuts import EVERY_SLOT, Cuts
from panewise.windows.instances import ends_of, last_ending, starts_of
from panewise.windows.slots import spans_in_slots
from panewise.windows.window import NO_START_US

FIRST_SLOT = -(2**62)
"""Before every slot."""
MOST_CUT = 64
"""With more different windows than this, edges lie so close that each slot is a fragment."""


@dataclass(frozen=True)
class Covered:
    """The slots [from_slot, to_slot) that a window covers, the instance that this is, and the times to show."""

    from_slot: int
    to_slot: int
    instance: int
    start_us: int
    end_us: int


@dataclass(frozen=True)
class StoreQueries:
    """Queries that one store answers: of one base, with the same groups."""

    fed: FedBase
    tree: Tree


@dataclass(frozen=True)
class Lookup:
    """A query, as the user wrote it and as it is planned, and its family."""

    query: Query
    planned: PlannedQuery
    family: StoreQueries
    exact_from_us: int | None = None
    """From when on it misses no event, if it came while the job ran."""

    @property
    def is_sliding(self) -> bool:
        """Whether it reports its windows. Lookups then give closed windows only."""
        return self.query.window.is_sliding

    def covered(self, at_us: int | None, watermark_us: int | None, seen_us: int | None) -> Covered | None:
        """What a lookup covers, at a time or without one; None while there is no such window.

        A sliding query gives its newest window that ended by then, and not after the watermark. Another one, and one of
        sessions or of windows from one event to another, is answered at the last instant of a slot: the last slot that
        ends by then, or the newest one with events, which ends at `seen_us`.
        """
        slot_us = self.family.fed.base.granularity
        if follows_events(self.query.window):
            ends_us = seen_us if at_us is None else at_us + 1
            if ends_us is None:
                return None
            # What stands at the last instant of a slot began with, or was decided by, events in this reach.
            end = ends_us // slot_us
            instant = end * slot_us - 1
            return Covered((instant - self.query.window.left_us) // slot_us, end, 0, instant, instant)
        if self.is_sliding:
            if watermark_us is None:
                return None
            instance = last_ending(self.query.window, watermark_us if at_us is None else min(at_us, watermark_us))
            start, end = starts_of(self.query.window, instance), ends_of(self.query.window, instance)
            first = FIRST_SLOT if is_unbounded(self.query.window) else start // slot_us
            return Covered(first, end // slot_us, instance, start, end)
        window = self.query.window
        assert isinstance(window, TimeWindow)
        ends_us = seen_us if at_us is None else at_us + 1
        if ends_us is None:
            return None
        end = ends_us // slot_us
        if window.is_unbounded:
            return Covered(FIRST_SLOT, end, 0, NO_START_US, end * slot_us - 1)
        first, instant = end - window.left_us // slot_us, end * slot_us - 1
        return Covered(
            first, end - window.right_us // slot_us, first, instant - window.left_us, instant - window.right_us
        )

    def ending_with(self, window: Window, covered: Covered) -> Covered:
        """What another window of a sliding query covers, which ends with the one that is asked for."""
        slot_us = self.family.fed.base.granularity
        instance = last_ending(window, covered.end_us)
        start, end = starts_of(window, instance), ends_of(window, instance)
        return Covered(start // slot_us, end // slot_us, instance, start, end)


def lookups_of(job: Job) -> dict[str, Lookup]:
    """How lookups answer each query, by name."""
    found: dict[str, Lookup] = {}
    for fed in job.bases.values():
        exact_from_us = {name: time_us for tree in fed.trees for name, time_us in tree.exact_from_us.items()}
        exact_from_us |= {stand_in.query.name: stand_in.exact_from_us for stand_in in fed.stand_ins}
        planned = [planned for tree in fed.trees for planned in tree.queries.values()]
        planned += [stand_in.planned for stand_in in fed.stand_ins]
        by_groups: dict[tuple[str, ...], list[PlannedQuery]] = {}
        for one in planned:
            by_groups.setdefault(tuple(sorted(one.query.group_by)), []).append(one)
        for group_by, members in by_groups.items():
            family = StoreQueries(fed, _tree(fed, group_by, members))
            for one in members:
                query = job.workload.queries[one.query.name]
                found[query.name] = Lookup(query, one, family, exact_from_us.get(query.name))
    return found


def _tree(fed: FedBase, group_by: tuple[str, ...], queries: Iterable[PlannedQuery]) -> Tree:
    """One tree for all queries of a family."""
    base, queries = fed.base, tuple(queries)
    windows = {window for planned in queries for window in planned.windows}
    spans = [span for window in windows for span in spans_in_slots(window, base.granularity)]
    # Sessions are looked up at the end of any slot, which is no edge of their windows.
    cuts = EVERY_SLOT if len(spans) > MOST_CUT or any(map(follows_events, windows)) else Cuts.of(spans)
    return Tree(
        number=base.number,
        base=base.number,
        clock=base.clock,
        granularity=base.granularity,
        group_by=group_by,
        predicates=tuple(sorted({bit for one in queries for bit in one.predicates})),
        components=components_of(queries, fed.plan.input_types),
        queries=queries,
        cuts=cuts,
    )
