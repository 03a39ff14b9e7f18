"""Stand-ins: on Spark, lookups answer queries without SLIDE at the ends of slots.

At the last instant before a slot ends, t = k * g - 1 for slots of length g, the window (t - l, t - r] has exactly the
events of the slots from k * g - l up to k * g - r: partials of slots answer it without a single event. So such a query
is planned as the sliding query with SLIDE g that covers the same slots. That query reports no windows; it only makes
sure that the bases hold what a lookup needs. Sliding queries are planned as if it did not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from panewise.errors import NotOnSparkError
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.planning.cost import Prices
from panewise.planning.optimize import optimize, plan_stream
from panewise.planning.plan import Plan
from panewise.planning.structure_choice import Rates, choose_structure
from panewise.planning.trees import PlannedQuery, PlanShape, StreamPlan
from panewise.windows import TimeWindow
from panewise.windows.slots import granularity_of


@dataclass(frozen=True)
class StandIn:
    """A query without SLIDE, and what is planned in its place."""

    query: Query
    planned: PlannedQuery
    exact_from_us: int | None = None
    """From when on it misses no event, if it came while the job ran."""

    @property
    def window(self) -> TimeWindow:
        """The window that the user wrote."""
        assert isinstance(self.query.window, TimeWindow)
        return self.query.window


def plan_with_stand_ins(workload: Workload, prices: Prices) -> tuple[Plan, dict[int, tuple[StandIn, ...]]]:
    """A plan whose trees answer the sliding queries and whose bases serve all queries; and each base's stand-ins."""
    sliding = {name: query for name, query in workload.queries.items() if query.window.is_sliding}
    plan = optimize(
        Workload(workload.streams, sliding), rate=prices.rate, groups=prices.groups, in_bulk=True, method=prices.method
    )
    if len(sliding) == len(workload.queries):
        return plan, {}
    streams: dict[str, StreamPlan] = {}
    stand_ins: dict[int, list[StandIn]] = {}
    trees = bases = 0
    for stream in workload.streams.values():
        queries = workload.queries_of(stream.name)
        if not queries:
            continue
        made = _plan_stream(stream, queries, plan.streams.get(stream.name), prices, trees, bases, stand_ins)
        streams[stream.name] = made
        trees += len(made.trees)
        bases += len(made.bases)
    return replace(plan, streams=streams), {base: tuple(some) for base, some in stand_ins.items()}


def plan_beside(
    stream: Stream, sliding: list[Query], asked: list[Query], prices: Prices, first_base: int
) -> tuple[StreamPlan, dict[int, list[StandIn]]]:
    """A plan of one stream whose trees answer its sliding queries, and whose bases also serve others that are asked."""
    made = plan_stream(stream, sliding, prices, first_base=first_base) if sliding else None
    if not asked:
        assert made is not None, "without a query nothing is planned anew"
        return made, {}
    stand_ins: dict[int, list[StandIn]] = {}
    return _plan_stream(stream, [*sliding, *asked], made, prices, 0, first_base, stand_ins), stand_ins


def slot_length(stream: Stream, queries: list[Query]) -> int:
    """The length of a stream's slots, which queries without SLIDE do not influence."""
    common = granularity_of(query.window for query in queries if query.window.is_sliding)
    length = common if stream.granularity_us is None else gcd(common, stream.granularity_us)
    if not length:
        raise NotOnSparkError(
            f"stream {stream.name}: lookups are answered at the ends of slots, and without a sliding query nothing "
            f"says how long its slots are; add GRANULARITY to CREATE STREAM, for instance GRANULARITY 1 SECOND"
        )
    return length


def _plan_stream(
    stream: Stream,
    queries: list[Query],
    sliding: StreamPlan | None,
    prices: Prices,
    first_tree: int,
    first_base: int,
    stand_ins: dict[int, list[StandIn]],
) -> StreamPlan:
    """One stream's plan: the trees of its sliding queries as planned, and bases that also serve its other queries."""
    slot_us = slot_length(stream, queries)
    asked = {query.name: query for query in queries if not query.window.is_sliding}
    for query in asked.values():
        check_lookups(query, stream, slot_us, prices)
    every = [in_place_of(query, stream, slot_us) if query.name in asked else query for query in queries]
    bases = plan_stream(stream, every, prices).shape.bases
    trees = () if sliding is None else sliding.shape.trees
    shape = PlanShape(bases, (*trees, *((name,) for name in asked)))
    made = plan_stream(stream, every, prices, first_base=first_base, shape=shape)
    for tree in made.trees[len(trees) :]:
        for planned in tree.queries:
            stand_ins.setdefault(tree.base, []).append(StandIn(asked[planned.query.name], planned))
    numbered = (replace(tree, number=first_tree + place) for place, tree in enumerate(made.trees[: len(trees)]))
    return replace(made, trees=tuple(numbered))


def slot_rates(query: Query, slot_us: int, prices: Prices) -> Rates:
    """How often partials of slots come, and how often somebody looks them up."""
    groups = prices.groups_of(query.group_by)
    return Rates.assumed(min(prices.rate, groups * 1e6 / slot_us), groups)


def check_lookups(query: Query, stream: Stream, slot_us: int, prices: Prices) -> None:
    """Raise if lookups of a query cannot be answered from slots as it asks, before anything runs."""
    in_place_of(query, stream, slot_us)
    if query.using is not None:
        choose_structure(stream, query, slot_rates(query, slot_us, prices), over_slots=True)


def in_place_of(query: Query, stream: Stream, slot_us: int) -> Query:
    """The sliding query over the same slots."""
    window = query.window
    if not isinstance(window, TimeWindow):
        raise no_total_order(query)
    if window.is_unbounded:
        return replace(query, window=TimeWindow(window.left_us, slide_us=slot_us, grows=True))
    if window.left_us % slot_us or window.right_us % slot_us:
        raise NotOnSparkError(
            f"query {query.name}: its RANGE is not a multiple of the slots of stream {stream.name}, which are "
            f"{_duration(slot_us)} long, and on Spark lookups are answered from slots; change the RANGE, or add a "
            f"GRANULARITY that divides it to CREATE STREAM"
        )
    return replace(query, window=TimeWindow(window.range_us, slide_us=slot_us))


def no_total_order(query: Query) -> NotOnSparkError:
    """The error for a query over the rows of a whole stream on Spark."""
    return NotOnSparkError(
        f"query {query.name}: a window over ROWS needs the stream's total order, which Spark does not keep; "
        f"write [PARTITION BY a ROWS n SLIDE m] with a in GROUP BY, leave out SLIDE and look it up, use a RANGE "
        f"window, or panewise.Engine"
    )


def _duration(length_us: int) -> str:
    return f"{length_us / 1e6:g} s" if length_us >= 1000 else f"{length_us} us"
