"""A generation: the sliding queries of one stream that were planned together, and the stores of their trees.

The first generation holds the queries that an engine starts with. A query that is added later joins a tree that already
holds all it needs, and so starts with the tree's past. Otherwise it opens a tree that an existing base can feed, or a
generation of its own. When there are too many generations, or they cost too much, a new one for all queries takes over
what they hold (`panewise.engine.taken_over`). Queries whose windows follow events move once it has seen all that their
next windows cover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from panewise.aggregates.components import Component
from panewise.aggregates.types import Type
from panewise.arrays import Ints, Numbers
from panewise.engine.answers import QueryAnswers
from panewise.engine.asked import Asked
from panewise.engine.changes import LastReport, last_instance
from panewise.engine.closed_windows import ClosedWindows
from panewise.engine.combine import Combiner
from panewise.engine.projection import project
from panewise.engine.slot_store import SlotStore
from panewise.language.model import Query, Stream
from panewise.planning.cost import Prices
from panewise.planning.drift import cost_at_work
from panewise.planning.optimize import components_of, fit, grow, plan_stream
from panewise.planning.trees import Clock, PlannedQuery, PlanShape, StreamPlan, Tree, Twin
from panewise.windows import Window, is_unbounded
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.cuts import Cuts
from panewise.windows.instances import oldest_slot_needed, starts_of
from panewise.windows.slots import spans_in_slots, spans_of

_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class Past:
    """What rows of a tree are like up to some instant (or position): those that an older tree held.

    They are cut at that tree's edges, counted in its slots, and have its components. From `held_from` on they miss
    nothing; None is the very beginning.
    """

    cuts: Cuts
    granularity: int
    components: frozenset[Component]
    held_from: int | None
    until: int

    def serves(self, planned: PlannedQuery, inputs: tuple[Type, ...]) -> bool:
        """Whether a query that comes now can be answered from them."""
        window = planned.query.window
        if any(length % self.granularity for span in spans_of(window) for length in span):
            return False
        if not self.cuts.holds(spans_in_slots(window, self.granularity)):
            return False
        return self.components.issuperset(components_of([planned], inputs))

    def components_in(self, plan: StreamPlan, before: StreamPlan) -> frozenset[Component]:
        """Its components, given by the inputs of the plan before, as those of another plan."""
        places = {column: place for place, column in enumerate(plan.inputs)}
        named = ((one.kind, None if one.input is None else before.inputs[one.input]) for one in self.components)
        return frozenset(
            Component(kind, None if column is None else places[column])
            for kind, column in named
            if column is None or column in places
        )


class TreeState:
    """One tree at work: its store, the queries that are active, and where each becomes exact.

    Queries of a generation that takes over from others wait until the tree has seen all that their next windows cover.
    """

    def __init__(self, plan: StreamPlan, tree: Tree, held_from: int | None, *, waits: bool = False) -> None:
        self.tree = tree
        self.plan = plan
        self.store = SlotStore(plan, tree)
        self.late: SlotStore | None = None
        """The partials of late events that have not corrected any answer yet. They are not in the store."""
        self._without_late: SlotStore | None = None
        self.held_from = held_from
        """The first instant (or position) from which nothing is missing; None for the very beginning."""
        given = {planned.query.name: planned for planned in tree.queries}
        self._queries = {} if waits else given
        self._waiting = given if waits else {}
        self._exact_from: dict[str, int | None] = dict.fromkeys(self._queries, held_from)
        self._asked: Asked | None = None
        self._windows = _count_windows(self._queries)
        self.has_lost_window = False
        """Whether no query has some window any more that one had when slots were last dropped."""
        self.twins: dict[int, int | None] = {}
        """By bit, the predicate that a twin is of (None: every event), while some rows tell them apart."""
        self.pasts: dict[int | None, tuple[Past, ...]] = {}
        """What older trees held of the rows with a bit, the newest first."""
        self.past_until: int | None = None
        """Where rows of older trees end; None if there are none."""
        self.lost_from: int | None = None
        """Where the rows begin that have not been dropped, if any have been."""

    @property
    def is_staged(self) -> bool:
        """Whether late events are in the store that may be taken out again."""
        return self._without_late is not None

    @property
    def queries(self) -> Mapping[str, PlannedQuery]:
        """The active queries. Only methods of this class change them, because other things here follow from them."""
        return self._queries

    @property
    def waiting(self) -> Mapping[str, PlannedQuery]:
        """The queries that wait."""
        return self._waiting

    @property
    def exact_from(self) -> Mapping[str, int | None]:
        """The first instant (or position) from which each active query is exact; None for the very beginning."""
        return self._exact_from

    @property
    def is_needed(self) -> bool:
        """Whether some query is active or waits."""
        return bool(self.queries or self.waiting)

    def restore(
        self,
        queries: list[Query],
        waiting: list[str],
        held_from: int | None,
        exact_from: dict[str, int | None],
        bits: Mapping[str, int],
    ) -> None:
        """Take over the queries that were active and those that waited when a snapshot was written.

        `bits` has the bits of those that read a twin of their predicate.
        """
        planned = {query.name: fit(self.plan, self.tree, query) for query in queries}
        known = {name: query for name, query in planned.items() if query is not None}
        known |= {name: replace(known[name], predicate=bit) for name, bit in bits.items() if name in known}
        self.serve(known, exact_from)
        given = {planned.query.name: planned for planned in self.tree.queries}
        self._waiting = {name: given[name] for name in waiting}
        self.held_from = held_from

    def serve(self, queries: Mapping[str, PlannedQuery], exact_from: Mapping[str, int | None]) -> None:
        """Answer these queries and no other from now on."""
        self._asked = None
        self._queries, self._exact_from = dict(queries), dict(exact_from)
        self._windows = _count_windows(self._queries)

    def begin(
        self, queries: Mapping[str, PlannedQuery], exact_from: Mapping[str, int | None], past_until: int | None
    ) -> None:
        """Answer all queries that waited, with the rows of older trees, which end at `past_until`."""
        self._waiting = {}
        self.past_until = past_until
        self.serve(queries, exact_from)

    def settle_past(self) -> None:
        """Rows of older trees have left: read predicates themselves again, and not their twins."""
        if any(planned.predicate in self.twins for planned in self._queries.values()):
            self.serve({name: self.plainly(planned) for name, planned in self._queries.items()}, self._exact_from)
        self.twins, self.pasts, self.past_until = {}, {}, None

    def plainly(self, planned: PlannedQuery) -> PlannedQuery:
        """A query that reads its predicate itself, and no twin of it."""
        if planned.predicate is None or planned.predicate not in self.twins:
            return planned
        return replace(planned, predicate=self.twins[planned.predicate])

    @property
    def asked(self) -> Asked:
        """What the active queries ask when windows close."""
        if self._asked is None:
            self._asked = Asked(self._queries.values())
        return self._asked

    @property
    def windows(self) -> frozenset[Window]:
        """The different windows of active queries: far fewer than queries, and an advance looks only at these."""
        return frozenset(self._windows)

    def add_late(self, partials: pa.RecordBatch) -> None:
        """Let the partials of late events wait, until the answers that they change are corrected."""
        if self.late is None:
            self.late = SlotStore(self.plan, self.tree)
        self.late.append(partials)

    def take_late(self) -> None:
        """Put the late events into the store, for good after `settle_late`."""
        if self.late is not None:
            self._without_late = self.store
            self.store = self.store.fork()
            self.store.append(self.late.partials())

    def settle_late(self) -> None:
        """The answers that late events change have been corrected."""
        self.late = self._without_late = None

    def undo_late(self) -> None:
        """Take the late events out of the store again, so that answers can be corrected another time."""
        if self._without_late is not None:
            self.store, self._without_late = self._without_late, None

    def close(
        self,
        after: int | None,
        until: int | None,
        store: SlotStore | None = None,
        *,
        may_pass: bool = False,
        keys: Ints | None = None,
    ) -> Iterator[ClosedWindows]:
        """The windows of active queries that end in (after, until] and lie within what each query has seen.

        With `may_pass`, queries whose HAVING no group can pass may be left out. With `keys`, only windows of these.
        """
        for closed in (store or self.store).close(self.asked, after, until, may_pass=may_pass, keys=keys):
            exact_from = self.exact_from[closed.planned.query.name]
            window = closed.planned.query.window
            # From the start means: from when the query came.
            if (
                exact_from is None
                or is_unbounded(window)
                or starts_of(window, closed.fold.first_instance) >= exact_from
            ):
                yield closed
                continue
            seen = closed.from_rows(np.flatnonzero(closed.fold.needs_from(window) >= exact_from))
            if len(seen):
                yield seen

    def standing(self, name: str, at_us: int, columns: list[pa.Array] | None) -> ClosedWindows:
        """The sessions, or the windows from one event to another, that a time lies in, of all groups or of some.

        Those that may have begun with events that the query has not seen are left out.
        """
        keys = None if columns is None else self.store.numbers_at(columns)
        found = self.store.standing(self.queries[name], at_us, keys)
        exact_from, window = self.exact_from[name], self.queries[name].query.window
        if exact_from is None:
            return found
        return found.from_rows(np.flatnonzero(found.fold.needs_from(window) >= exact_from))

    @property
    def has_closed(self) -> bool:
        """Whether a window with events has closed that some active query saw whole."""
        start = self.store.last_start
        if start is None:
            return False
        return self.tree.is_unbounded or any(first is None or start >= first for first in self.exact_from.values())

    def evict(self, closed: int) -> None:
        """Drop the slots that no window ending after `closed` covers; what goes back to the start holds them as one."""
        windows = self.windows.union(planned.query.window for planned in self.waiting.values())
        oldest = oldest_slot_needed(windows, self.tree.granularity, closed)
        if self.tree.is_unbounded:
            self.store.gather(oldest)
            self.has_lost_window = False
            return
        self.store.evict(oldest)
        if self.tree.session_gap_us:
            self.store.evict_sessions(closed)
        self.has_lost_window = False
        self.lost_from = oldest * self.tree.granularity
        self.held_from = max(self.lost_from, self.held_from if self.held_from is not None else -(2**63))
        if self.past_until is not None and self.lost_from >= self.past_until:
            self.settle_past()

    def ready(self, closed: int) -> list[str]:
        """The waiting queries whose windows that end after `closed` all begin within what the tree has seen."""
        granularity = self.tree.granularity
        return [
            name
            for name, planned in self.waiting.items()
            if self.held_from is None
            or oldest_slot_needed([planned.query.window], granularity, closed) * granularity >= self.held_from
        ]

    def activate(self, name: str, exact_from: int | None) -> None:
        """Answer a query that waited; the tree that it comes from tells where it becomes exact."""
        self._serve_also(self._waiting.pop(name), exact_from)

    def adopt(self, planned: PlannedQuery) -> None:
        """Answer one more query, from all that the tree holds."""
        exact_from = self.held_from
        for past in self.pasts.get(planned.predicate, ()):
            if not past.serves(planned, self.plan.input_types):
                break
            exact_from = past.held_from
        if self.lost_from is not None and exact_from is not None:
            exact_from = max(self.lost_from, exact_from)
        self._serve_also(planned, exact_from)

    def _serve_also(self, planned: PlannedQuery, exact_from: int | None) -> None:
        self._asked = None
        self._queries[planned.query.name] = planned
        self._exact_from[planned.query.name] = exact_from
        self._windows.update(planned.windows)

    def remove(self, name: str) -> bool:
        """Take a query out; returns whether it was here and active."""
        if self._waiting.pop(name, None) is not None:
            self.has_lost_window = True
        planned = self._queries.pop(name, None)
        if planned is None:
            return False
        self._asked = None
        for window in planned.windows:
            self._windows[window] -= 1
            if not self._windows[window]:
                del self._windows[window]
                self.has_lost_window = True
        del self._exact_from[name]
        return True


def _count_windows(queries: Mapping[str, PlannedQuery]) -> Counter[Window]:
    """How many queries have each window."""
    return Counter(window for planned in queries.values() for window in planned.windows)


class Generation:
    """Trees that share one projection of the events.

    `shape` is how they were planned before, if they were; with `waits`, queries wait until they are ready.
    """

    def __init__(
        self,
        stream: Stream,
        queries: list[Query],
        held_from: dict[Clock, int | None],
        prices: Prices,
        shape: PlanShape | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.queries = list(queries)
        self._known = {query.name for query in queries}
        self.prices = prices
        self.twins: tuple[Twin, ...] = ()
        """The last bits of the plan."""
        self.plan = plan_stream(stream, queries, prices, shape=shape)
        self._open(held_from, waits=waits)

    def _open(self, held_from: Mapping[Clock, int | None], *, waits: bool) -> None:
        self.trees = [TreeState(self.plan, tree, held_from[tree.clock], waits=waits) for tree in self.plan.trees]

    def begin_with(self, twins: Sequence[Twin], held_from: Mapping[Clock, int | None], *, waits: bool) -> None:
        """Begin anew with some twins in the plan, before there are any events."""
        first = len(self.plan.predicates)
        self.twins, self.plan = tuple(twins), self.plan.with_twins(twins)
        self._open(held_from, waits=waits)
        for state in self.trees:
            state.twins = {bit: twin.of for bit, twin in enumerate(twins, first) if twin.tree == state.tree.number}

    @property
    def is_empty(self) -> bool:
        """Whether no query is active or waiting."""
        return not self.trees

    @property
    def waits(self) -> bool:
        """Whether some query still waits."""
        return any(state.waiting for state in self.trees)

    @property
    def active(self) -> dict[str, TreeState]:
        """The tree of each active query."""
        return {name: state for state in self.trees for name in state.queries}

    @property
    def cost(self) -> float:
        """Operations per second of the trees with their active queries, and of the bases that feed them."""
        return self._cost_of(self.trees)

    @property
    def movable_cost(self) -> float:
        """The same of the trees whose queries another generation can take over."""
        return self._cost_of([state for state in self.trees if not state.tree.is_unbounded])

    def _cost_of(self, states: Iterable[TreeState]) -> float:
        bases = {base.number: base for base in self.plan.bases}
        return cost_at_work(self.prices, ((bases[s.tree.base], s.tree, s.windows) for s in states))

    @property
    def is_movable(self) -> bool:
        """Whether another generation can take over some query: no other has what goes back to the start."""
        return any(not state.tree.is_unbounded for state in self.trees)

    def has(self, clock: Clock) -> bool:
        """Whether some tree counts by this clock."""
        return any(state.tree.clock is clock for state in self.trees)

    def append(
        self,
        batch: pa.RecordBatch,
        clock: Clock,
        ticks: Ints,
        *,
        late: bool = False,
    ) -> None:
        """Combine events into the bases of a clock, and feed its trees; `ticks` is each event's time or position.

        Events that are `late` are kept apart until the answers that they change have been corrected.
        """
        combiner = Combiner(self.plan, project(self.plan, batch))
        for base in self.plan.bases:
            fed = [state for state in self.trees if state.tree.base == base.number]
            if fed and base.clock is clock:
                partials = combiner.partials(base, ticks // base.granularity)
                for state in fed:
                    if late:
                        state.add_late(partials)
                    else:
                        state.store.append(partials)

    def adopt(self, query: Query) -> bool:
        """Let a new query join a tree that already holds all it needs, if one exists.

        What goes back to the start begins when the query comes, and so in a tree of its own.
        """
        if is_unbounded(query.window):
            return False
        for state in self.trees:
            planned = fit(self.plan, state.tree, query)
            if planned is not None:
                state.adopt(planned)
                return True
        return False

    def grow(self, queries: list[Query], held_from: dict[Clock, int | None]) -> list[Query]:
        """Open trees for the queries that some base can feed, without a further pass over events; return the others."""
        before = len(self.plan.trees)
        # A name that was used before still means the query that it meant then.
        known = self._known
        self.plan, left = grow(self.plan, [query for query in queries if query.name not in known], self.prices)
        left += [query for query in queries if query.name in known]
        fresh = self.plan.trees[before:]
        self.trees += [TreeState(self.plan, tree, held_from[tree.clock]) for tree in fresh]
        for planned in (planned for tree in fresh for planned in tree.queries):
            self.queries.append(planned.query)
            known.add(planned.query.name)
        return left

    def leave(self, names: Set[str]) -> None:
        """Leave some queries to another generation."""
        for state in self.trees:
            kept = {name: planned for name, planned in state.queries.items() if name not in names}
            if len(kept) < len(state.queries):
                state.serve(kept, {name: state.exact_from[name] for name in kept})
                state.has_lost_window = True
        self.trees = [state for state in self.trees if state.is_needed]

    def remove(self, name: str) -> bool:
        """Take a query out, and its tree if it was the last one there; returns whether it was here and active."""
        removed = [state.remove(name) for state in self.trees]
        self.trees = [state for state in self.trees if state.is_needed]
        return any(removed)


def decided(closed: Iterable[ClosedWindows]) -> Iterator[ClosedWindows]:
    """Closed windows, with HAVING decided first for all queries of a predicate: what they select is folded once."""
    for _, several in groupby(closed, key=lambda one: one.planned.predicate):
        together = list(several)
        for one in together:
            one.decide()
        yield from together


def only_touched(
    closed: Iterable[ClosedWindows],
    asked: Asked,
    seen: Mapping[str, LastReport],
    together: Iterable[Iterable[str]],
    until_us: int,
) -> Iterator[ClosedWindows]:
    """Closed windows, narrowed to the groups whose answers may have changed where that is known.

    `seen` has the last report of each query whose answers are known. Queries that stand `together` in a table are
    narrowed to the same groups, or not at all. A query is left out if HAVING can hold for none of these groups, and no
    other group has an answer.
    """
    found = {one.planned.query.name: one for one in closed}
    with_others: set[str] = set()
    for names in together:
        several = [found[name] for name in names if name in found]
        if len(several) < len(list(names)) or any(_is_unknown(one, seen, until_us) for one in several):
            continue
        folds = {id(one.fold): one.fold for one in several}
        touched = _united(fold.touched for fold in folds.values())
        narrowed = {place: fold.of_keys(touched) for place, fold in folds.items()}
        for one in several:
            name = one.planned.query.name
            found[name] = one.narrowed_to(touched, narrowed[id(one.fold)])
            if seen[name].has_answers:
                with_others.add(name)
    may_pass: dict[int, set[str]] = {}
    for name, one in found.items():
        window = asked.of(one.planned)
        # A query with several windows is not among those that its window knows the limits of.
        if name in with_others or one.planned.has_own_windows or not window.has_alerts:
            yield one
            continue
        if id(one.fold) not in may_pass:
            may_pass[id(one.fold)] = {planned.query.name for planned in window.may_pass(one.fold)}
        if name in may_pass[id(one.fold)]:
            yield one


def _united(several: Iterable[Numbers | None]) -> Ints:
    """The keys of some lists without repeats, rising."""
    lists = [keys for keys in several if keys is not None]
    return (np.sort(lists[0]) if len(lists) == 1 else np.unique(np.concatenate(lists))).astype(np.int64)


def _is_unknown(one: ClosedWindows, seen: Mapping[str, LastReport], until_us: int) -> bool:
    """Whether groups beside those touched may have changed: since another instance, or in later ones without events."""
    query, fold = one.planned.query, one.fold
    if fold.touched is None or query.name not in seen or fold.before != seen[query.name].instance:
        return True
    return fold.last_instance != last_instance(query.window, until_us)


def time_answers(
    state: TreeState,
    after: int | None,
    until_us: int,
    seen: Mapping[str, LastReport] | None = None,
    together: Iterable[Iterable[str]] = (),
) -> Iterator[QueryAnswers]:
    """The answers of a time tree's windows that end in (after, until_us], query after query.

    With `seen`, those of groups that did not change since may be left out: see `only_touched`.
    """
    answers: dict[str, QueryAnswers] = {}
    fold, starts, ends = None, _NOTHING, _NOTHING
    closing = state.close(after, None if until_us == END_OF_STREAM else until_us, may_pass=seen is None)
    for closed in decided(closing if seen is None else only_touched(closing, state.asked, seen, together, until_us)):
        if closed.fold is not fold:
            fold = closed.fold
            starts, ends = fold.bounds(closed.planned.query.window)
        answers[closed.planned.query.name] = closed.answers(starts, ends)
    # Closing goes by predicate; answers go by query.
    if answers:
        yield from (answers[name] for name in state.queries if name in answers)
