"""How plans are made: queries get bases, and Weave Share puts the queries of each base's groups into execution trees.

Queries over one stream with the same clock and group-by attributes are a family. A base cuts events into slots, whose
length divides all ranges and slides of the stream's windows, so that cutting depends on no tree. Families may have one
base over the union of their attributes, which each tree rolls up; on Spark, where groups are spread over buckets, only
if they share an attribute. That needs a known number of groups, and must cost less than a pass over the events for each
family. Within a family, Weave Share decides which windows share fragments: a tree is fed the base's partials, and each
of its fragments is combined into every instance that covers it (Guirguis et al., section 3, with partials of slots in
place of events).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import gcd
from typing import TYPE_CHECKING, cast

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Component, Kind
from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Attribute, Expression
from panewise.language.model import Query, SelectItem, Stream
from panewise.language.typecheck import type_of
from panewise.language.workload import Workload
from panewise.planning.chains import prices_over
from panewise.planning.cost import Prices
from panewise.planning.plan import Plan
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.few_windows import share_few
from panewise.planning.sharing.names import EXHAUSTIVE, WEAVE_SHARE
from panewise.planning.trees import (
    DEFAULT_RATE,
    Base,
    Clock,
    Input,
    PlannedAggregate,
    PlannedQuery,
    PlanShape,
    StreamPlan,
    Tree,
)
from panewise.windows import (
    PunctuationWindow,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
    is_unbounded,
    reports_by_substream,
)
from panewise.windows.cuts import Cuts
from panewise.windows.slots import granularity_of, spans_in_slots, spans_of

if TYPE_CHECKING:
    from panewise.planning.having import HavingPlan
    from panewise.planning.structure_choice import StructurePlan
    from panewise.planning.windowed import RowPlan
    from panewise.planning.within import WithinPlan

ALIKE_ROWS = 0.9
"""If the shortest fragments have at least this share of all groups, all fragments have about as many rows."""
MOST_WOVEN_TWICE = 500
"""With more windows than this, the first plan of Weave Share is taken."""
ONE_SLOT = TimeWindow(1, slide_us=1)
"""The window of a lookup after the events that it covers have been picked."""


def optimize(
    workload: Workload,
    *,
    rate: float | None = None,
    weights: Weights = UNIT_WEIGHTS,
    groups: Mapping[str, int] | None = None,
    in_bulk: bool = False,
    method: str = WEAVE_SHARE,
) -> Plan:
    """Plan a workload: which queries share which partial results, and which structure answers each lookup.

    Args:
        workload: The streams and queries.
        rate: Events a second of each stream. If you do not say, 1,000 are assumed, the plan says so, and it does not
            tell how much it holds.
        weights: What an operation costs; the paper counts each as 1.
        groups: About how many values attributes have, by name, where that is known.
        in_bulk: Plan for windows that close many at once, as they do in Spark's batches.
        method: Which method decides what windows share a tree: `weave_share` or one of its rivals, such as `no_share`
            and `shared`. Queries with the same window share a tree by any method.

    Raises:
        ArgumentError: The rate is not positive.
        UnknownNameError: There is no such method.
        TooManyQueriesError: There are too many different windows for `exhaustive`.

    Cost: O(queries), and Weave Share over the different windows of each stream (docs/optimizer.md has figures).
    """
    is_assumed = rate is None
    rate = DEFAULT_RATE if rate is None else rate
    prices = Prices(rate, weights, {} if groups is None else groups, in_bulk, method)
    streams: dict[str, StreamPlan] = {}
    trees = bases = 0
    over = {name: prices_over(workload, stream, prices) for name, stream in workload.streams.items()}
    for stream in workload.streams.values():
        sliding = [query for query in workload.queries_of(stream.name) if query.window.is_sliding]
        sliding = [query for query in sliding if not reports_by_substream(query.window)]
        if sliding:
            plan = plan_stream(stream, sliding, over[stream.name], first_tree=trees, first_base=bases)
            streams[stream.name] = plan
            trees += len(plan.trees)
            bases += len(plan.bases)
    on_demand = tuple(query for query in workload.queries.values() if not query.window.is_sliding)
    structures = _structure_plans(workload, on_demand, over)
    return Plan(
        streams,
        on_demand,
        rate,
        _having_plans(workload, structures, rate),
        weights,
        prices.groups,
        _within_plans(workload, rate),
        structures,
        declared=workload.streams,
        rates={name: over[name].rate for name in over if workload.streams[name].is_of_answers},
        row_queries=_row_plans(workload, rate),
        in_bulk=in_bulk,
        method=method,
        rate_is_assumed=is_assumed,
        by_substream=tuple(query for query in workload.queries.values() if reports_by_substream(query.window)),
    )


@dataclass
class _AlikeQueries:
    """Queries with the same clock and groups."""

    clock: Clock
    group_by: tuple[str, ...]
    queries: list[PlannedQuery]

    @property
    def windows(self) -> list[Window]:
        return list(dict.fromkeys(planned.query.window for planned in self.queries))


# These four import only for queries that need it: structures, indexes and filters are compiled code, and Spark's
# workers do not use them.


def _having_plans(workload: Workload, structures: Mapping[str, StructurePlan], rate: float) -> dict[str, HavingPlan]:
    if not structures:
        return {}
    from panewise.planning.having import plan_having

    plans = {}
    for name, chosen in structures.items():
        query = workload.queries[name]
        plan = plan_having(workload.streams[query.stream], query, rate, chosen.reads_log)
        if plan is not None:
            plans[name] = plan
    return plans


def _within_plans(workload: Workload, rate: float) -> dict[str, WithinPlan]:
    asking = [query for query in workload.queries.values() if query.within is not None]
    if not asking:
        return {}
    from panewise.planning.structure_choice import within_plan

    plans = {query.name: within_plan(workload.streams[query.stream], query, rate) for query in asking}
    return {name: plan for name, plan in plans.items() if plan is not None}


def _structure_plans(
    workload: Workload, on_demand: tuple[Query, ...], over: Mapping[str, Prices]
) -> dict[str, StructurePlan]:
    if not on_demand:
        return {}
    from panewise.planning.structure_choice import Rates, choose_structure

    plans = {}
    for query in on_demand:
        prices = over[query.stream]
        rates = Rates.assumed(prices.rate, prices.groups_of(query.group_by))
        plans[query.name] = choose_structure(workload.streams[query.stream], query, rates)
    return plans


def _row_plans(workload: Workload, rate: float) -> tuple[RowPlan, ...]:
    if not workload.row_queries:
        return ()
    from panewise.planning.windowed import plan_row_queries

    return plan_row_queries(workload.row_queries, workload.streams, rate)


def plan_stream(
    stream: Stream,
    queries: Iterable[Query],
    prices: Prices | None = None,
    *,
    first_tree: int = 0,
    first_base: int = 0,
    shape: PlanShape | None = None,
) -> StreamPlan:
    """Plan the sliding queries of one stream; with `shape`, as it was decided before."""
    queries = list(queries)
    prices = prices or Prices()
    columns = _Columns(stream)
    families: dict[tuple[Clock, tuple[str, ...]], _AlikeQueries] = {}
    punctuated: dict[tuple[str, ...], _AlikeQueries] = {}
    for query in queries:
        clock = _clock(query)
        # GROUP BY a, b and GROUP BY b, a have the same groups.
        group_by = tuple(sorted(query.group_by))
        if _is_punctuated(query.window):
            family = punctuated.setdefault(group_by, _AlikeQueries(clock, group_by, []))
        else:
            family = families.setdefault((clock, group_by), _AlikeQueries(clock, group_by, []))
        family.queries.append(columns.plan(query))
    if shape is None:
        united = _united(families, prices, columns.input_types, {c: _granularity(stream, c, queries) for c in Clock})
    else:
        shared = shape.bases[: len(shape.bases) - len(punctuated)]
        united = [[families[Clock(clock), group_by] for group_by in groupings] for clock, groupings in shared]
    # Bases of single events come last, one for each grouping.
    united += [[family] for family in punctuated.values()]
    bases: list[Base] = []
    trees: list[Tree] = []
    for members in united:
        together = [planned for family in members for planned in family.queries]
        clock = members[0].clock
        base = Base(
            number=first_base + len(bases),
            clock=clock,
            # Between two events that open and close there may be any time.
            granularity=1 if _is_punctuated(together[0].query.window) else _granularity(stream, clock, queries),
            group_by=tuple(sorted({name for family in members for name in family.group_by})),
            together_by=tuple(sorted(set.intersection(*(set(family.group_by) for family in members)))),
            predicates=_predicates(together),
            components=components_of(together, columns.input_types),
        )
        bases.append(base)
        for family in members:
            if shape is None:
                parts = dict(enumerate(_shared(family, base, prices, columns.input_types), first_tree + len(trees)))
            else:
                parts = _as_before(family, shape)
            trees += [_tree(part, base, number, columns.input_types) for number, part in parts.items()]
    trees.sort(key=lambda tree: tree.number)
    keys = tuple(dict.fromkeys(key for base in bases for key in base.group_by))
    return StreamPlan(stream, keys, tuple(columns.predicates), tuple(columns.inputs), tuple(bases), tuple(trees))


def check_plannable(workload: Workload, streams: Iterable[str], prices: Prices) -> None:
    """Raise if the method cannot plan the sliding queries of some streams, before anything changes.

    Only exhaustive search has a limit; it is found by planning, which takes little for so few queries.
    """
    if prices.method != EXHAUSTIVE:
        return
    for name in streams:
        sliding = [query for query in workload.queries_of(name) if query.window.is_sliding]
        plan_stream(workload.streams[name], [q for q in sliding if not reports_by_substream(q.window)], prices)


def plan_lookup(stream: Stream, query: Query) -> StreamPlan:
    """Plan an on-demand query: the events that its window covers are one slot, and that slot is one window."""
    return plan_stream(stream, [replace(query, window=ONE_SLOT)])


def components_of(queries: Collection[PlannedQuery], inputs: tuple[Type, ...]) -> tuple[Component, ...]:
    """The components that some queries need together. ROWS is always among them: it tells that a window has events.

    Sessions need the times of the first and the last event of each partial.
    """
    found = {Component(Kind.ROWS): None}
    # Many queries have their aggregates in common, as one object.
    different = {id(planned.aggregates): planned.aggregates for planned in queries}
    for aggregates in different.values():
        for aggregate in aggregates:
            if aggregate.input is not None:
                kinds = CATALOGUE[aggregate.call.function].kinds(inputs[aggregate.input])
                found.update({Component(kind, aggregate.input): None for kind in kinds})
    for times in {planned.times for planned in queries if planned.times is not None}:
        found.update({Component(Kind.MIN, times): None, Component(Kind.MAX, times): None})
    return tuple(found)


def fit(plan: StreamPlan, tree: Tree, query: Query) -> PlannedQuery | None:
    """A query planned onto an existing tree, or None when the tree's partials do not hold all that it needs."""
    # What is quickly found out comes first: most trees do not fit.
    if tuple(sorted(query.group_by)) != tree.group_by or _clock(query) is not tree.clock:
        return None
    if any(length % tree.granularity for span in spans_of(query.window) for length in span):
        return None
    if not tree.cuts.holds(spans_in_slots(query.window, tree.granularity)):
        return None
    if not _keeps_for(tree, query.window):
        return None
    return _held(plan, tree, query)


def grow(plan: StreamPlan, queries: Iterable[Query], prices: Prices | None = None) -> tuple[StreamPlan, list[Query]]:
    """The plan with further trees, for the queries whose needs some base holds; and the queries that are left."""
    families: dict[tuple[int, tuple[str, ...]], _AlikeQueries] = {}
    left = []
    for query in queries:
        group_by = tuple(sorted(query.group_by))
        for base in plan.bases:
            # A base of single events feeds nothing else, and nothing else feeds what needs single events.
            kinds = {tree.is_punctuated for tree in plan.fed_by(base) if tree.group_by == group_by}
            planned = _held(plan, base, query) if _is_punctuated(query.window) in kinds else None
            if planned is not None:
                family = families.setdefault((base.number, group_by), _AlikeQueries(base.clock, group_by, []))
                family.queries.append(planned)
                break
        else:
            left.append(query)
    trees = list(plan.trees)
    numbers = count(max((tree.number for tree in trees), default=-1) + 1)
    for (number, _), family in families.items():
        base = next(one for one in plan.bases if one.number == number)
        parts = _shared(family, base, prices or Prices(), plan.input_types)
        trees += [_tree(part, base, next(numbers), plan.input_types) for part in parts]
    return replace(plan, trees=tuple(trees)), left


def weave(plan: StreamPlan, base: Base, queries: Iterable[PlannedQuery], prices: Prices, first_tree: int) -> list[Tree]:
    """Trees for queries that a base can feed, as if all of them had come at once."""
    families: dict[tuple[str, ...], _AlikeQueries] = {}
    for planned in queries:
        group_by = tuple(sorted(planned.query.group_by))
        families.setdefault(group_by, _AlikeQueries(base.clock, group_by, [])).queries.append(planned)
    parts = [part for family in families.values() for part in _shared(family, base, prices, plan.input_types)]
    return [_tree(part, base, number, plan.input_types) for number, part in enumerate(parts, first_tree)]


def _held(plan: StreamPlan, part: Base | Tree, query: Query) -> PlannedQuery | None:
    """A query planned with a plan's columns, or None when a base or a tree lacks something that it needs."""
    if _clock(query) is not part.clock or not set(query.group_by) <= set(part.group_by):
        return None
    if any(length % part.granularity for span in spans_of(query.window) for length in span):
        return None
    columns = _Columns(plan.stream)
    # A twin comes after what it is of, and no predicate that is new gets its bit.
    columns.predicates = {predicate: bit for bit, predicate in reversed(list(enumerate(plan.predicates)))}
    columns.known_bits = len(plan.predicates)
    columns.inputs = {column: place for place, column in enumerate(plan.inputs)}
    planned = columns.plan(query)
    if not set(planned.predicates) <= set(part.predicates):
        return None
    missing = set(components_of([planned], columns.input_types)) - set(part.components)
    return None if missing else planned


def _united(
    families: Mapping[tuple[Clock, tuple[str, ...]], _AlikeQueries],
    prices: Prices,
    inputs: tuple[Type, ...],
    granularity: Mapping[Clock, int],
) -> list[list[_AlikeQueries]]:
    """The families that are fed from one base, if that costs less than a pass over the events for each."""
    apart: list[list[_AlikeQueries]] = []
    for clock in Clock:
        some = [family for family in families.values() if family.clock is clock]
        alone = [family for family in some if not _may_unite(family, prices, inputs)]
        apart += [[family] for family in alone]
        rest = {family.group_by: family for family in some if family not in alone}
        if not rest:
            continue
        from panewise.planning.sharing import Queries
        from panewise.planning.sharing.grouping import plan_grouping

        # What is fed to a tree counts as an event there, so factors are in parts of what feeding a partial costs.
        feed = prices.weights.feed
        sets = {}
        for group_by, family in rest.items():
            spans = [spans_in_slots(window, granularity[clock])[0] for window in family.windows]
            visits = prices.visits_apart(family.windows, components_of(family.queries, inputs))
            sets[group_by] = Queries.of(spans, [combines / feed for combines in visits])
        rate = prices.rate * granularity[clock] / 1e6 if clock is Clock.TIME else float(granularity[clock])
        weights = Weights(prices.weights.event, prices.weights.combine * feed)
        plan = plan_grouping(sets, rate, weights, prices.groups, in_common=prices.in_bulk)
        apart += [[rest[group_by] for group_by in tree.members] for tree in plan.trees]
    order = {id(family): place for place, family in enumerate(families.values())}
    return sorted(apart, key=lambda members: min(order[id(family)] for family in members))


def _may_unite(family: _AlikeQueries, prices: Prices, inputs: tuple[Type, ...]) -> bool:
    """Whether the number of a family's groups is known, and its partials are worth rolling up.

    A guess at the number of groups may be far off, and the decision with it. Partials with all their values are
    nearly as large as the events, and a union of two sketches costs more than adding many events to one.
    """
    kinds = {component.kind for component in components_of(family.queries, inputs)}
    is_dear = any(kind is Kind.VALUES or kind.is_sketch for kind in kinds)
    return not is_dear and all(name in prices.groups for name in family.group_by)


def _shared(family: _AlikeQueries, base: Base, prices: Prices, inputs: tuple[Type, ...]) -> list[list[PlannedQuery]]:
    """The queries of each tree, by a method of sharing over the family's different windows.

    Sessions have a tree of their own: its rows leave as soon as the sessions of the largest gap have closed. So have
    windows from the start, of which rows never leave.
    """
    for is_apart in (_is_of_sessions, is_unbounded, _is_punctuated):
        apart = [planned for planned in family.queries if is_apart(planned.query.window)]
        if apart:
            others = [planned for planned in family.queries if not is_apart(planned.query.window)]
            rest = replace(family, queries=others)
            return [apart, *(_shared(rest, base, prices, inputs) if others else [])]
    choice = _TreeChoice(family.windows, components_of(family.queries, inputs), base, family.group_by, prices)
    tree_of = dict(zip(family.windows, choice.trees()))
    parts: list[list[PlannedQuery]] = [[] for _ in range(max(tree_of.values()) + 1)]
    for planned in family.queries:
        parts[tree_of[planned.query.window]].append(planned)
    return parts


class _TreeChoice:
    """Which of a family's windows share a tree.

    Methods of sharing take it that every fragment has as many rows. If there are many groups and few events, a short
    fragment has fewer than a long one: unless there are very many windows, Weave Share then begins from either, and the
    cheapest plan is taken.
    """

    def __init__(
        self,
        windows: list[Window],
        components: tuple[Component, ...],
        base: Base,
        group_by: tuple[str, ...],
        prices: Prices,
    ) -> None:
        # In a time zone the other offsets have as many edges, so the first one is enough to decide.
        self._spans = [spans_in_slots(window, base.granularity)[0] for window in windows]
        self._windows = windows
        self._components = components
        self._visits = prices.visits_apart(windows, components)
        self._base = base
        self._part = replace(base, group_by=group_by)
        self._prices = prices
        self._edges_per_slot = Cuts.of(self._spans).rate

    def trees(self) -> list[int]:
        """The number of each window's tree."""
        prices, everywhere = self._prices, self._edges_per_slot
        fewest_rows = prices.rows(everywhere, self._part) / everywhere
        chosen = self._by_method(fewest_rows)
        if prices.method != WEAVE_SHARE or not 1 < len(chosen) <= MOST_WOVEN_TWICE:
            return chosen
        rivals = [chosen]
        if any(chosen):
            rivals.append([0] * len(chosen))
        most_rows = prices.most_rows(self._part)
        if fewest_rows < ALIKE_ROWS * most_rows:
            rivals.append(self._by_method(most_rows))
        return chosen if len(rivals) == 1 else min(rivals, key=self._cost)

    def _by_method(self, rows: float) -> list[int]:
        """The tree of each window if every fragment has so many rows."""
        prices = self._prices
        fed, edge = prices.inputs(self._base, self._part, self._edges_per_slot, rows)
        trees = share_few(self._spans, fed, self._visits, edge) if prices.method == WEAVE_SHARE else None
        if trees is None:
            from panewise.planning.sharing import Queries, share

            queries = Queries.of(self._spans, self._visits)
            trees = share(prices.method, queries, fed, Weights(edge=edge)).tree_of.tolist()
        return trees

    def _cost(self, tree_of: list[int]) -> float:
        prices, cost = self._prices, 0.0
        places: dict[int, list[int]] = {}
        for place, tree in enumerate(tree_of):
            places.setdefault(tree, []).append(place)
        for some in places.values():
            rate = Cuts.of([self._spans[place] for place in some]).rate
            visits = prices.visits([self._windows[place] for place in some], self._components)
            cost += prices.feeding(self._base) + prices.running(self._part, rate)
            cost += prices.folds(rate, visits, self._part)
        return cost


def _as_before(family: _AlikeQueries, shape: PlanShape) -> dict[int, list[PlannedQuery]]:
    tree_of = {name: number for number, names in enumerate(shape.trees) for name in names}
    parts: dict[int, list[PlannedQuery]] = {}
    for planned in family.queries:
        parts.setdefault(tree_of[planned.query.name], []).append(planned)
    return parts


def _tree(queries: list[PlannedQuery], base: Base, number: int, inputs: tuple[Type, ...]) -> Tree:
    windows = dict.fromkeys(planned.query.window for planned in queries)
    spans = [span for window in windows for span in spans_in_slots(window, base.granularity)]
    return Tree(
        number=number,
        base=base.number,
        clock=base.clock,
        granularity=base.granularity,
        group_by=tuple(sorted(queries[0].query.group_by)),
        predicates=_predicates(queries),
        components=components_of(queries, inputs),
        queries=tuple(queries),
        cuts=Cuts.of(spans),
    )


def _predicates(queries: Iterable[PlannedQuery]) -> tuple[int, ...]:
    return tuple(sorted({bit for planned in queries for bit in planned.predicates}))


def _clock(query: Query) -> Clock:
    return Clock.ROWS if isinstance(query.window, RowWindow) else Clock.TIME


def _is_of_sessions(window: Window) -> bool:
    return isinstance(window, SessionWindow)


def _is_punctuated(window: Window) -> bool:
    return isinstance(window, PunctuationWindow)


def _keeps_for(tree: Tree, window: Window) -> bool:
    """Whether a tree keeps what a window needs: one of sessions keeps what may be near enough to later events."""
    if not isinstance(window, SessionWindow):
        kinds = tree.is_unbounded, tree.is_punctuated
        return not tree.session_gap_us and kinds == (is_unbounded(window), _is_punctuated(window))
    return 0 < window.gap_us <= tree.session_gap_us


def _granularity(stream: Stream, clock: Clock, queries: list[Query]) -> int:
    """One slot length for all bases of a clock, so that cutting events into slots depends on no tree."""
    common = granularity_of(query.window for query in queries if _clock(query) is clock)
    if clock is Clock.TIME and stream.granularity_us is not None:
        return gcd(common, stream.granularity_us)
    return common


class _Columns:
    """Gathers the predicates and inputs of a stream's queries, each different one once."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.predicates: dict[Expression, int] = {}
        self.known_bits = 0
        """So many bits are taken, also by predicates that stand twice."""
        self.inputs: dict[Input, int] = {}
        self._selected: dict[int, tuple[tuple[SelectItem, ...], tuple[PlannedAggregate, ...]]] = {}
        """The aggregates of each SELECT so far, by the identity of the object that many queries share."""

    @property
    def input_types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self.inputs)

    def plan(self, query: Query) -> PlannedQuery:
        predicate = None
        if query.where is not None:
            predicate = self._bit(query.where)
        times = None
        if isinstance(query.window, SessionWindow):
            times = self._place(Input(Attribute(self.stream.timestamp), Type.TIMESTAMP))
        if isinstance(query.window, PunctuationWindow):
            opens, closes = (self._bit(cast("Expression", one)) for one in (query.window.opens, query.window.closes))
            return PlannedQuery(query, predicate, self._aggregates(query), None, opens, closes)
        return PlannedQuery(query, predicate, self._aggregates(query), times)

    def _bit(self, predicate: Expression) -> int:
        return self.predicates.setdefault(predicate, max(self.known_bits, len(self.predicates)))

    def _aggregates(self, query: Query) -> tuple[PlannedAggregate, ...]:
        if query.having is not None:
            return tuple(self._aggregate(call) for call in query.aggregates)
        known = self._selected.get(id(query.select))
        if known is None:
            # With the items, so that no other object gets their identity.
            known = query.select, tuple(self._aggregate(call) for call in query.aggregates)
            self._selected[id(query.select)] = known
        return known[1]

    def _aggregate(self, call: AggregateCall) -> PlannedAggregate:
        if call.argument is None:
            return PlannedAggregate(call, None)
        # An argument that is just NULL has no type; any will do, as no value is ever read.
        kind = type_of(call.argument, self.stream.attributes) or Type.BIGINT
        return PlannedAggregate(call, self._place(Input(call.argument, kind)))

    def _place(self, column: Input) -> int:
        return self.inputs.setdefault(column, len(self.inputs))
