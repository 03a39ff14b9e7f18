"""The plan: which queries share their partials, and what each partial holds.

Queries over one stream with the same group-by attributes form one execution tree. All trees of a stream are cut
into the same slots; a tree's partials hold the union of the components that its queries need, one partial per
(slot, key, shard). A shard is the set of predicates that an event satisfies, so queries with different WHERE clauses
share one pass over the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import gcd
from typing import Any

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.components import Component, Kind
from weft.aggregates.types import Type
from weft.language.expressions import AggregateCall, Expression
from weft.language.model import Query, Stream, Workload
from weft.language.typecheck import type_of
from weft.planning.having import HavingPlan, plan_having
from weft.windows import RowWindow, TimeWindow, Window
from weft.windows.slots import granularity_of, lengths_of

DEFAULT_RATE = 1000.0
"""Events a second of a stream of which nothing is known."""

BITS_PER_WORD = 63
"""Predicates per BIGINT column; the sign bit stays free."""

ONE_SLOT = TimeWindow(1, slide_us=1)
"""The window of a lookup once the events that it covers have been picked."""


class Clock(Enum):
    """What a tree's slots count."""

    TIME = "time"
    ROWS = "rows"


@dataclass(frozen=True)
class Input:
    """A column that aggregates read: an attribute or an expression over attributes."""

    expression: Expression
    type: Type


@dataclass(frozen=True)
class PlannedAggregate:
    """An aggregate of a query, with its input's place in the stream's list (None for COUNT(*))."""

    call: AggregateCall
    input: int | None


@dataclass(frozen=True)
class PlannedQuery:
    """A query in its tree: the bit of its WHERE clause (None for no WHERE) and its aggregates."""

    query: Query
    predicate: int | None
    aggregates: tuple[PlannedAggregate, ...]


@dataclass(frozen=True)
class Tree:
    """An execution tree: queries that share slots, keys and components."""

    number: int
    clock: Clock
    granularity: int
    group_by: tuple[str, ...]
    predicates: tuple[int, ...]
    components: tuple[Component, ...]
    queries: tuple[PlannedQuery, ...]

    @property
    def windows(self) -> tuple[Window, ...]:
        """The different windows of its queries."""
        return tuple(dict.fromkeys(planned.query.window for planned in self.queries))


@dataclass(frozen=True)
class StreamPlan:
    """All trees over one stream, and the columns that they need between them."""

    stream: Stream
    keys: tuple[str, ...]
    predicates: tuple[Expression, ...]
    inputs: tuple[Input, ...]
    trees: tuple[Tree, ...]

    @property
    def input_types(self) -> tuple[Type, ...]:
        """The type of each input."""
        return tuple(column.type for column in self.inputs)

    def key_column(self, attribute: str) -> str:
        """The name of a key attribute's column inside Weft, which can be no other column's name."""
        return f"key_{self.keys.index(attribute)}"

    @property
    def shard_words(self) -> int:
        """How many BIGINT columns hold the predicate bits."""
        return -(-len(self.predicates) // BITS_PER_WORD)


@dataclass(frozen=True)
class Plan:
    """The plan of a workload. `cost` is in operations per second at `rate` events per second and stream."""

    streams: Mapping[str, StreamPlan]
    on_demand: tuple[Query, ...]
    rate: float
    having: Mapping[str, HavingPlan] = field(default_factory=dict)
    """How on-demand queries with HAVING find their groups, by query."""

    @property
    def trees(self) -> tuple[Tree, ...]:
        """Every execution tree."""
        return tuple(tree for stream in self.streams.values() for tree in stream.trees)

    @property
    def cost(self) -> float:
        """The cost of all trees together."""
        from weft.planning.cost import tree_cost

        return sum(tree_cost(tree, self.rate) for tree in self.trees)

    def explain(self) -> str:
        """The plan as text: trees, what they hold, and which queries are in them."""
        from weft.planning.explain import explain_text

        return explain_text(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, for JSON."""
        from weft.planning.explain import explain_data

        return explain_data(self)


def optimize(workload: Workload, *, rate: float = DEFAULT_RATE) -> Plan:
    """Plan a workload for streams that bring `rate` events per second each."""
    if not rate > 0:
        raise ValueError(f"rate must be positive, got {rate}")
    streams: dict[str, StreamPlan] = {}
    number = 0
    for stream in workload.streams.values():
        sliding = [query for query in workload.queries_of(stream.name) if query.window.is_sliding]
        if sliding:
            streams[stream.name] = plan_stream(stream, sliding, first_tree=number)
            number += len(streams[stream.name].trees)
    on_demand = tuple(query for query in workload.queries.values() if not query.window.is_sliding)
    plans = {query.name: plan_having(workload.streams[query.stream], query, rate) for query in on_demand}
    having = {name: plan for name, plan in plans.items() if plan is not None}
    return Plan(streams, on_demand, rate, having)


def plan_stream(stream: Stream, queries: Iterable[Query], *, first_tree: int = 0) -> StreamPlan:
    """Plan the sliding queries of one stream."""
    queries = list(queries)
    columns = _Columns(stream)
    families: dict[tuple[Clock, tuple[str, ...]], list[PlannedQuery]] = {}
    for query in queries:
        clock = Clock.ROWS if isinstance(query.window, RowWindow) else Clock.TIME
        # GROUP BY a, b and GROUP BY b, a have the same groups.
        family = families.setdefault((clock, tuple(sorted(query.group_by))), [])
        family.append(columns.plan(query))
    trees = tuple(
        Tree(
            number=first_tree + place,
            clock=clock,
            granularity=_granularity(stream, clock, queries),
            group_by=group_by,
            predicates=tuple(sorted({p.predicate for p in planned if p.predicate is not None})),
            components=components_of(planned, columns.input_types),
            queries=tuple(planned),
        )
        for place, ((clock, group_by), planned) in enumerate(families.items())
    )
    keys = tuple(dict.fromkeys(key for tree in trees for key in tree.group_by))
    return StreamPlan(stream, keys, tuple(columns.predicates), tuple(columns.inputs), trees)


def components_of(queries: Iterable[PlannedQuery], inputs: tuple[Type, ...]) -> tuple[Component, ...]:
    """The components that some queries need between them. ROWS is always there: it tells that a window has events."""
    found = {Component(Kind.ROWS): None}
    for planned in queries:
        for aggregate in planned.aggregates:
            if aggregate.input is not None:
                kinds = CATALOGUE[aggregate.call.function].kinds(inputs[aggregate.input])
                found.update({Component(kind, aggregate.input): None for kind in kinds})
    return tuple(found)


def _granularity(stream: Stream, clock: Clock, queries: list[Query]) -> int:
    """One slot length for all trees of a clock, so that cutting events into slots depends on no tree."""
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


def fit(plan: StreamPlan, tree: Tree, query: Query) -> PlannedQuery | None:
    """A query planned onto an existing tree, or None when the tree's partials do not hold all that it needs."""
    clock = Clock.ROWS if isinstance(query.window, RowWindow) else Clock.TIME
    if clock is not tree.clock or tuple(sorted(query.group_by)) != tree.group_by:
        return None
    if any(length % tree.granularity for length in lengths_of(query.window)):
        return None
    columns = _Columns(plan.stream)
    columns.predicates = {predicate: bit for bit, predicate in enumerate(plan.predicates)}
    columns.inputs = {column: place for place, column in enumerate(plan.inputs)}
    planned = columns.plan(query)
    if planned.predicate is not None and planned.predicate not in tree.predicates:
        return None
    missing = set(components_of([planned], columns.input_types)) - set(tree.components)
    return None if missing else planned


def plan_lookup(stream: Stream, query: Query) -> StreamPlan:
    """Plan an on-demand query: the events that its window covers are one slot, and that slot is one window."""
    return plan_stream(stream, [replace(query, window=ONE_SLOT)])
