"""How plans are made: queries to bases, and the queries of each base's groups to execution trees by Weave Share.

Queries over one stream with the same clock and group-by attributes are a family. A base cuts events into slots, whose
length divides all ranges and slides of the stream's windows, so that cutting depends on no tree. Within a family, Weave
Share decides which windows share fragments: a tree is fed the base's partials, and each of its fragments is combined
into every instance that covers it (Guirguis et al., section 3, with partials of slots in place of events).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.components import Component, Kind
from weft.aggregates.types import Type
from weft.language.expressions import AggregateCall, Expression
from weft.language.model import Query, Stream, Workload
from weft.language.typecheck import type_of
from weft.planning.cost import Prices
from weft.planning.having import plan_having
from weft.planning.plan import (
    DEFAULT_RATE,
    Base,
    Clock,
    Input,
    Plan,
    PlannedAggregate,
    PlannedQuery,
    StreamPlan,
    Tree,
)
from weft.planning.sharing.cost import UNIT_WEIGHTS, Weights
from weft.windows import RowWindow, TimeWindow, Window
from weft.windows.cuts import Cuts
from weft.windows.slots import granularity_of, lengths_of

ONE_SLOT = TimeWindow(1, slide_us=1)
"""The window of a lookup once the events that it covers have been picked."""


def optimize(
    workload: Workload,
    *,
    rate: float = DEFAULT_RATE,
    weights: Weights = UNIT_WEIGHTS,
    groups: Mapping[str, int] | None = None,
) -> Plan:
    """Plan a workload for streams that bring `rate` events per second each.

    `weights` says what an operation costs (the paper counts each as 1), and `groups` about how many values attributes
    have, where that is known.
    """
    if not rate > 0:
        raise ValueError(f"rate must be positive, got {rate}")
    prices = Prices(rate, weights, groups or {})
    streams: dict[str, StreamPlan] = {}
    trees = bases = 0
    for stream in workload.streams.values():
        sliding = [query for query in workload.queries_of(stream.name) if query.window.is_sliding]
        if sliding:
            plan = plan_stream(stream, sliding, prices, first_tree=trees, first_base=bases)
            streams[stream.name] = plan
            trees += len(plan.trees)
            bases += len(plan.bases)
    on_demand = tuple(query for query in workload.queries.values() if not query.window.is_sliding)
    plans = {query.name: plan_having(workload.streams[query.stream], query, rate) for query in on_demand}
    having = {name: plan for name, plan in plans.items() if plan is not None}
    return Plan(streams, on_demand, rate, having, weights, prices.groups)


@dataclass
class _Family:
    """Queries with the same clock and groups."""

    clock: Clock
    group_by: tuple[str, ...]
    queries: list[PlannedQuery]

    @property
    def windows(self) -> list[Window]:
        return list(dict.fromkeys(planned.query.window for planned in self.queries))

    @property
    def predicates(self) -> tuple[int, ...]:
        return _predicates(self.queries)


def plan_stream(
    stream: Stream,
    queries: Iterable[Query],
    prices: Prices | None = None,
    *,
    first_tree: int = 0,
    first_base: int = 0,
    shares: Sequence[Sequence[str]] | None = None,
) -> StreamPlan:
    """Plan the sliding queries of one stream. `shares` has the names of each tree's queries, for a plan made before."""
    queries = list(queries)
    prices = prices or Prices()
    columns = _Columns(stream)
    families: dict[tuple[Clock, tuple[str, ...]], _Family] = {}
    for query in queries:
        clock = _clock(query)
        # GROUP BY a, b and GROUP BY b, a have the same groups.
        group_by = tuple(sorted(query.group_by))
        family = families.setdefault((clock, group_by), _Family(clock, group_by, []))
        family.queries.append(columns.plan(query))
    bases: list[Base] = []
    trees: list[Tree] = []
    for family in families.values():
        base = Base(
            number=first_base + len(bases),
            clock=family.clock,
            granularity=_granularity(stream, family.clock, queries),
            group_by=family.group_by,
            together_by=family.group_by,
            predicates=family.predicates,
            components=components_of(family.queries, columns.input_types),
        )
        bases.append(base)
        parts = _shared(family, base, prices) if shares is None else _as_before(family, shares)
        trees += [_tree(part, base, first_tree + len(trees) + place, columns) for place, part in enumerate(parts)]
    keys = tuple(dict.fromkeys(key for base in bases for key in base.group_by))
    return StreamPlan(stream, keys, tuple(columns.predicates), tuple(columns.inputs), tuple(bases), tuple(trees))


def plan_lookup(stream: Stream, query: Query) -> StreamPlan:
    """Plan an on-demand query: the events that its window covers are one slot, and that slot is one window."""
    return plan_stream(stream, [replace(query, window=ONE_SLOT)])


def components_of(queries: Iterable[PlannedQuery], inputs: tuple[Type, ...]) -> tuple[Component, ...]:
    """The components that some queries need between them. ROWS is always there: it tells that a window has events."""
    found = {Component(Kind.ROWS): None}
    for planned in queries:
        for aggregate in planned.aggregates:
            if aggregate.input is not None:
                kinds = CATALOGUE[aggregate.call.function].kinds(inputs[aggregate.input])
                found.update({Component(kind, aggregate.input): None for kind in kinds})
    return tuple(found)


def fit(plan: StreamPlan, tree: Tree, query: Query) -> PlannedQuery | None:
    """A query planned onto an existing tree, or None when the tree's partials do not hold all that it needs."""
    if _clock(query) is not tree.clock or tuple(sorted(query.group_by)) != tree.group_by:
        return None
    length, slide = lengths_of(query.window)
    if length % tree.granularity or slide % tree.granularity:
        return None
    if not tree.cuts.holds(length // tree.granularity, slide // tree.granularity):
        return None
    columns = _Columns(plan.stream)
    columns.predicates = {predicate: bit for bit, predicate in enumerate(plan.predicates)}
    columns.inputs = {column: place for place, column in enumerate(plan.inputs)}
    planned = columns.plan(query)
    if planned.predicate is not None and planned.predicate not in tree.predicates:
        return None
    missing = set(components_of([planned], columns.input_types)) - set(tree.components)
    return None if missing else planned


def _shared(family: _Family, base: Base, prices: Prices) -> list[list[PlannedQuery]]:
    """The queries of each tree, by Weave Share over the family's different windows."""
    # Loaded here and not above: a plan of one window needs no search, and the search is compiled code.
    from weft.planning.sharing import Queries, share

    windows = family.windows
    if len(windows) == 1:
        return [family.queries]
    lengths = [_in_slots(window, base.granularity) for window in windows]
    plan = share("weave_share", Queries.of(lengths), prices.fed_per_slot(base))
    tree_of = dict(zip(windows, plan.tree_of.tolist()))
    parts: list[list[PlannedQuery]] = [[] for _ in range(len(plan))]
    for planned in family.queries:
        parts[tree_of[planned.query.window]].append(planned)
    return parts


def _as_before(family: _Family, shares: Sequence[Sequence[str]]) -> list[list[PlannedQuery]]:
    tree_of = {name: number for number, names in enumerate(shares) for name in names}
    parts: dict[int, list[PlannedQuery]] = {}
    for planned in family.queries:
        parts.setdefault(tree_of[planned.query.name], []).append(planned)
    return [parts[number] for number in sorted(parts)]


def _tree(queries: list[PlannedQuery], base: Base, number: int, columns: _Columns) -> Tree:
    windows = dict.fromkeys(planned.query.window for planned in queries)
    lengths = [_in_slots(window, base.granularity) for window in windows]
    return Tree(
        number=number,
        base=base.number,
        clock=base.clock,
        granularity=base.granularity,
        group_by=tuple(sorted(queries[0].query.group_by)),
        predicates=_predicates(queries),
        components=components_of(queries, columns.input_types),
        queries=tuple(queries),
        cuts=Cuts.of(lengths),
    )


def _in_slots(window: Window, granularity: int) -> tuple[int, int]:
    length, slide = lengths_of(window)
    return length // granularity, slide // granularity


def _predicates(queries: Iterable[PlannedQuery]) -> tuple[int, ...]:
    return tuple(sorted({planned.predicate for planned in queries if planned.predicate is not None}))


def _clock(query: Query) -> Clock:
    return Clock.ROWS if isinstance(query.window, RowWindow) else Clock.TIME


def _granularity(stream: Stream, clock: Clock, queries: list[Query]) -> int:
    """One slot length for all bases of a clock, so that cutting events into slots depends on no tree."""
    kind = TimeWindow if clock is Clock.TIME else RowWindow
    common = granularity_of(query.window for query in queries if isinstance(query.window, kind))
    if clock is Clock.TIME and stream.granularity_us is not None:
        return gcd(common, stream.granularity_us)
    return common


class _Columns:
    """Gathers the predicates and inputs of a stream's queries, each different one once."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.predicates: dict[Expression, int] = {}
        self.inputs: dict[Input, int] = {}

    @property
    def input_types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self.inputs)

    def plan(self, query: Query) -> PlannedQuery:
        predicate = None
        if query.where is not None:
            predicate = self.predicates.setdefault(query.where, len(self.predicates))
        return PlannedQuery(query, predicate, tuple(self._aggregate(call) for call in query.aggregates))

    def _aggregate(self, call: AggregateCall) -> PlannedAggregate:
        if call.argument is None:
            return PlannedAggregate(call, None)
        # An argument of bare NULL has no type; any will do, as no value is ever read.
        kind = type_of(call.argument, self.stream.attributes) or Type.BIGINT
        column = Input(call.argument, kind)
        return PlannedAggregate(call, self.inputs.setdefault(column, len(self.inputs)))
