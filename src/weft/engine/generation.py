"""A generation: the sliding queries of one stream that were planned together, and the stores of their trees.

The first generation holds the queries that an engine starts with. A query that is added later joins a tree that
already holds all it needs and so starts with the past that the tree has; otherwise it opens a tree that an existing
base can feed, or a generation of its own. When generations have become many, one that holds all queries is opened
beside them, and takes each query over once it has seen all that the query's next windows cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa

from weft.engine.answers import QueryAnswers
from weft.engine.closed import ClosedWindows
from weft.engine.combine import Combiner
from weft.engine.projection import project
from weft.engine.slot_store import SlotStore
from weft.language.model import Query, Stream
from weft.planning.cost import Prices
from weft.planning.optimize import fit, grow, plan_stream
from weft.planning.plan import Clock, PlannedQuery, Shape, StreamPlan, Tree
from weft.windows import Window
from weft.windows.clock import END_OF_STREAM
from weft.windows.slots import lengths_of, oldest_slot_needed

_NOTHING = np.empty(0, np.int64)


class TreeState:
    """One tree at work: its store, the queries that are active, and from where on each is exact.

    Queries of a generation that takes over from others wait until the tree has seen all that their next windows cover.
    """

    def __init__(self, plan: StreamPlan, tree: Tree, held_from: int | None, *, waits: bool = False) -> None:
        self.tree = tree
        self.plan = plan
        self.store = SlotStore(plan, tree)
        self.late: SlotStore | None = None
        """The partials of late events that have not corrected any answer yet."""
        self.held_from = held_from
        """The first instant (or position) from which nothing is missing; None for the very beginning."""
        given = {planned.query.name: planned for planned in tree.queries}
        self.queries = {} if waits else given
        self.waiting = given if waits else {}
        self.exact_from: dict[str, int | None] = dict.fromkeys(self.queries, held_from)
        self._windows: dict[str, frozenset[Window]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether some query is active or waits."""
        return bool(self.queries or self.waiting)

    def restore(
        self, queries: list[Query], waiting: list[str], held_from: int | None, exact_from: dict[str, int | None]
    ) -> None:
        """Take over the queries that were active and those that waited when a snapshot was written."""
        planned = {query.name: fit(self.plan, self.tree, query) for query in queries}
        self.queries = {name: query for name, query in planned.items() if query is not None}
        given = {planned.query.name: planned for planned in self.tree.queries}
        self.waiting = {name: given[name] for name in waiting}
        self.held_from = held_from
        self.exact_from = exact_from
        self._windows = {}

    @property
    def windows(self) -> frozenset[Window]:
        """The different windows of active queries: far fewer than queries, and all that an advance has to look at."""
        return self._different("active", self.queries)

    def _different(self, which: str, queries: dict[str, PlannedQuery]) -> frozenset[Window]:
        if which not in self._windows:
            self._windows[which] = frozenset(planned.query.window for planned in queries.values())
        return self._windows[which]

    def close(self, after: int | None, until: int | None) -> Iterator[ClosedWindows]:
        """The windows of active queries that end in (after, until] and lie within what each query has seen."""
        for closed in self.store.close(self.queries.values(), self.windows, after, until):
            exact_from = self.exact_from[closed.planned.query.name]
            if exact_from is None:
                yield closed
                continue
            slide = lengths_of(closed.planned.query.window)[1]
            seen = closed.from_rows(np.flatnonzero(closed.instances * slide >= exact_from))
            if len(seen):
                yield seen

    def evict(self, closed: int) -> None:
        """Let go of the slots that no window ending after `closed` covers."""
        windows = self.windows | self._different("waiting", self.waiting)
        oldest = oldest_slot_needed(windows, self.tree.granularity, closed)
        self.store.evict(oldest)
        self.held_from = max(oldest * self.tree.granularity, self.held_from if self.held_from is not None else -(2**63))

    def ready(self, closed: int) -> list[str]:
        """The waiting queries of which every window that ends after `closed` begins within what the tree has seen."""
        granularity = self.tree.granularity
        return [
            name
            for name, planned in self.waiting.items()
            if self.held_from is None
            or oldest_slot_needed([planned.query.window], granularity, closed) * granularity >= self.held_from
        ]

    def activate(self, name: str, exact_from: int | None) -> None:
        """Answer a query that waited; from where on it is exact is known from the tree that it comes from."""
        self._windows = {}
        self.queries[name] = self.waiting.pop(name)
        self.exact_from[name] = exact_from

    def adopt(self, planned: PlannedQuery) -> None:
        """Answer one query more, from all that the tree holds."""
        self._windows = {}
        self.queries[planned.query.name] = planned
        self.exact_from[planned.query.name] = self.held_from

    def remove(self, name: str) -> bool:
        """Take a query out; whether it was here and active."""
        self._windows = {}
        self.waiting.pop(name, None)
        if self.queries.pop(name, None) is None:
            return False
        del self.exact_from[name]
        return True


class Generation:
    """Trees that share one projection of the events.

    `shape` tells how they were planned before, if they were; with `waits`, queries wait until they are ready.
    """

    def __init__(
        self,
        stream: Stream,
        queries: list[Query],
        held_from: dict[Clock, int | None],
        prices: Prices,
        shape: Shape | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.queries = tuple(queries)
        self.prices = prices
        self.plan = plan_stream(stream, queries, prices, shape=shape)
        self.trees = [TreeState(self.plan, tree, held_from[tree.clock], waits=waits) for tree in self.plan.trees]

    @property
    def is_empty(self) -> bool:
        """Whether no query is active or waits any more."""
        return not self.trees

    @property
    def waits(self) -> bool:
        """Whether some query still waits."""
        return any(state.waiting for state in self.trees)

    @property
    def active(self) -> dict[str, TreeState]:
        """The tree of each active query."""
        return {name: state for state in self.trees for name in state.queries}

    def has(self, clock: Clock) -> bool:
        """Whether some tree counts by this clock."""
        return any(state.tree.clock is clock for state in self.trees)

    def append(
        self,
        batch: pa.RecordBatch,
        clock: Clock,
        ticks: np.ndarray[tuple[int], np.dtype[np.int64]],
        *,
        late: bool = False,
    ) -> None:
        """Combine events into the bases of a clock, and feed its trees; `ticks` is each event's time or position.

        Events that are `late` are also kept by themselves, until the answers that they change have been corrected.
        """
        combiner = Combiner(self.plan, project(self.plan, batch))
        for base in self.plan.bases:
            fed = [state for state in self.trees if state.tree.base == base.number]
            if fed and base.clock is clock:
                partials = combiner.partials(base, ticks // base.granularity)
                for state in fed:
                    state.store.append(partials)
                    if late:
                        state.late = state.late or SlotStore(self.plan, state.tree)
                        state.late.append(partials)

    def adopt(self, query: Query) -> bool:
        """Let a new query join a tree that already holds all it needs, if there is one."""
        for state in self.trees:
            planned = fit(self.plan, state.tree, query)
            if planned is not None:
                state.adopt(planned)
                return True
        return False

    def grow(self, queries: list[Query], held_from: dict[Clock, int | None]) -> list[Query]:
        """Open trees for the queries that some base can feed, without a further pass over events; return the others."""
        before = len(self.plan.trees)
        # A name that was here once stands for the query that it meant then.
        known = {query.name for query in self.queries}
        self.plan, left = grow(self.plan, [query for query in queries if query.name not in known], self.prices)
        left += [query for query in queries if query.name in known]
        fresh = self.plan.trees[before:]
        self.trees += [TreeState(self.plan, tree, held_from[tree.clock]) for tree in fresh]
        self.queries += tuple(planned.query for tree in fresh for planned in tree.queries)
        return left

    def remove(self, name: str) -> bool:
        """Take a query out, with the tree when it was the last one; whether it was here and active."""
        removed = [state.remove(name) for state in self.trees]
        self.trees = [state for state in self.trees if state.is_needed]
        return any(removed)


def decided(closed: Iterable[ClosedWindows]) -> Iterator[ClosedWindows]:
    """Closed windows, HAVING decided for all of a predicate first, so that what these select is folded once for all."""
    for _, several in groupby(closed, key=lambda one: one.planned.predicate):
        together = list(several)
        for one in together:
            one.decide()
        yield from together


def time_answers(state: TreeState, after: int | None, until_us: int) -> Iterator[QueryAnswers]:
    """The answers of a time tree's windows that end in (after, until_us], query after query."""
    answers: dict[str, QueryAnswers] = {}
    fold, starts, ends = None, _NOTHING, _NOTHING
    for closed in decided(state.close(after, None if until_us == END_OF_STREAM else until_us)):
        if closed.fold is not fold:
            fold = closed.fold
            length, slide = lengths_of(closed.planned.query.window)
            starts = closed.instances * slide
            ends = starts + length
        answers[closed.planned.query.name] = closed.answers(starts, ends)
    # Closing goes by predicate; answers go by query.
    if answers:
        yield from (answers[name] for name in state.queries if name in answers)
