"""A generation: the sliding queries of one stream that were planned together, and the stores of their trees.

The first generation holds the queries that an engine starts with. A query that is added later joins a tree that
already holds all it needs and so starts with the past that the tree has; otherwise it opens a generation of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from weft.engine.answers import QueryAnswers
from weft.engine.closed import ClosedWindows
from weft.engine.combine import Combiner
from weft.engine.projection import project
from weft.engine.slot_store import SlotStore
from weft.language.model import Query, Stream
from weft.planning.optimize import fit, plan_stream
from weft.planning.plan import Clock, StreamPlan, Tree
from weft.windows.clock import END_OF_STREAM
from weft.windows.slots import lengths_of, oldest_slot_needed


class TreeState:
    """One tree at work: its store, the queries that are active, and from where on each is exact."""

    def __init__(self, plan: StreamPlan, tree: Tree, held_from: int | None) -> None:
        self.tree = tree
        self.plan = plan
        self.store = SlotStore(plan, tree)
        self.held_from = held_from
        """The first instant (or position) from which nothing is missing; None for the very beginning."""
        self.queries = {planned.query.name: planned for planned in tree.queries}
        self.exact_from: dict[str, int | None] = dict.fromkeys(self.queries, held_from)

    def restore(self, queries: list[Query], held_from: int | None, exact_from: dict[str, int | None]) -> None:
        """Take over the queries that were active when a snapshot was written."""
        planned = {query.name: fit(self.plan, self.tree, query) for query in queries}
        self.queries = {name: query for name, query in planned.items() if query is not None}
        self.held_from = held_from
        self.exact_from = exact_from

    def close(self, after: int | None, until: int | None) -> Iterator[ClosedWindows]:
        """The windows of active queries that end in (after, until] and lie within what each query has seen."""
        for closed in self.store.close(self.queries.values(), after, until):
            exact_from = self.exact_from[closed.planned.query.name]
            if exact_from is None:
                yield closed
                continue
            slide = lengths_of(closed.planned.query.window)[1]
            seen = closed.from_rows(np.flatnonzero(closed.instances * slide >= exact_from))
            if len(seen):
                yield seen

    def evict(self, closed: int) -> None:
        """Let go of the slots that no active window ending after `closed` covers."""
        windows = [planned.query.window for planned in self.queries.values()]
        oldest = oldest_slot_needed(windows, self.tree.granularity, closed)
        self.store.evict(oldest)
        self.held_from = max(oldest * self.tree.granularity, self.held_from if self.held_from is not None else -(2**63))


class Generation:
    """Trees that share one projection of the events. `shares` has the names of each tree's queries, if given."""

    def __init__(
        self,
        stream: Stream,
        queries: list[Query],
        held_from: dict[Clock, int | None],
        shares: list[list[str]] | None = None,
    ) -> None:
        self.queries = tuple(queries)
        self.plan = plan_stream(stream, queries, shares=shares)
        self.trees = [TreeState(self.plan, tree, held_from[tree.clock]) for tree in self.plan.trees]

    @property
    def is_empty(self) -> bool:
        """Whether no query is active any more."""
        return not self.trees

    def has(self, clock: Clock) -> bool:
        """Whether some tree counts by this clock."""
        return any(state.tree.clock is clock for state in self.trees)

    def append(self, batch: pa.RecordBatch, clock: Clock, ticks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Combine events into the bases of a clock, and feed its trees; `ticks` is each event's time or position."""
        combiner = Combiner(self.plan, project(self.plan, batch))
        for base in self.plan.bases:
            fed = [state for state in self.trees if state.tree.base == base.number]
            if fed and base.clock is clock:
                partials = combiner.partials(base, ticks // base.granularity)
                for state in fed:
                    state.store.append(partials)

    def adopt(self, query: Query) -> bool:
        """Let a new query join a tree that already holds all it needs, if there is one."""
        for state in self.trees:
            planned = fit(self.plan, state.tree, query)
            if planned is not None:
                state.queries[query.name] = planned
                state.exact_from[query.name] = state.held_from
                return True
        return False

    def remove(self, name: str) -> bool:
        """Take a query out, with the tree when it was the last one; whether it was here."""
        for state in self.trees:
            if state.queries.pop(name, None) is not None:
                del state.exact_from[name]
                self.trees = [other for other in self.trees if other.queries]
                return True
        return False


def time_answers(state: TreeState, after: int | None, until_us: int) -> Iterator[QueryAnswers]:
    """The answers of a time tree's windows that end in (after, until_us]."""
    for closed in state.close(after, None if until_us == END_OF_STREAM else until_us):
        length, slide = lengths_of(closed.planned.query.window)
        starts = closed.instances * slide
        yield closed.answers(starts, starts + length)
