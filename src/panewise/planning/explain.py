"""A plan in words and as data: bases, trees, what their partials hold, and why each query is where it is."""

from __future__ import annotations

from typing import Any

from panewise.language.literals import print_duration
from panewise.language.model import Query
from panewise.language.printer import label_of, print_expression, print_window
from panewise.planning.compare import PlanComparison, compare
from panewise.planning.cost import ASSUMED_VALUES, Prices, cost_of, overlap, prices_at
from panewise.planning.memory import consumers, show_bytes
from panewise.planning.phrases import RATE_UNKNOWN, component_text, rate_text
from panewise.planning.sharing.cost import UNIT_WEIGHTS
from panewise.planning.trees import Base, Clock, PlanContent, PlannedQuery, StreamPlan, Tree
from panewise.windows import is_unbounded

_NAMES_SHOWN = 8


_BY_SUBSTREAM = "reported from the last rows of each substream, as it gets its next rows; in no tree"


def explain_data(plan: PlanContent) -> dict[str, Any]:
    """The plan as plain data."""
    comparisons = {name: compare(stream, prices_at(plan, stream.stream.name)) for name, stream in plan.streams.items()}
    return {
        "rate_per_s": plan.rate,
        "rate_is_assumed": plan.rate_is_assumed,
        "assumed_values": {name: ASSUMED_VALUES for name in _grouped(plan) if name not in plan.groups},
        "unit": "operations" if plan.weights == UNIT_WEIGHTS else "nanoseconds",
        "cost_per_s": cost_of(plan),
        "no_share_per_s": sum(one.no_share for one in comparisons.values()),
        "shared_per_s": sum(one.shared for one in comparisons.values()),
        "memory": [{"consumer": consumer.name, "bytes": consumer.bytes} for consumer in consumers(plan)],
        "bases": [_base_data(plan, stream, base) for stream in plan.streams.values() for base in stream.bases],
        "trees": [
            _tree_data(stream, tree, prices_at(plan, stream.stream.name), comparisons[name])
            for name, stream in plan.streams.items()
            for tree in stream.trees
        ],
        "on_demand": [
            {
                "query": query.name,
                "window": print_window(query.window),
                "reason": f"evaluated by lookups, {_answered_from(plan, query)}",
                "structures": _structures_data(plan, query.name),
                "having": plan.having[query.name].reason if query.name in plan.having else None,
                "within": plan.within[query.name].reason if query.name in plan.within else None,
            }
            for query in plan.on_demand
        ],
        "by_substream": [
            {"query": query.name, "window": print_window(query.window), "reason": _BY_SUBSTREAM}
            for query in plan.by_substream
        ],
        "within": {name: within.reason for name, within in plan.within.items()},
        "row_queries": [row_plan.to_dict() for row_plan in plan.row_queries],
    }


def explain_text(plan: PlanContent) -> str:
    """The plan as text."""
    data = explain_data(plan)
    lines = heading_lines(data)
    for base in data["bases"]:
        lines += [
            "",
            base["title"],
            *([] if base["reads"] is None else [f"  reads       {base['reads']}"]),
            f"  partials    {', '.join(base['components'])}",
            f"  cost        {base['cost_per_s']:,.0f} {data['unit']} a second",
        ]
        lines += [
            line for tree in data["trees"] if tree["base"] == base["base"] for line in _tree_lines(tree, data["unit"])
        ]
    return "\n".join([*lines, *other_lines(data)])


def heading_lines(data: dict[str, Any]) -> list[str]:
    """What the whole plan is and costs."""
    queries = sum(len(tree["queries"]) for tree in data["trees"])
    rate = rate_text(data["rate_per_s"], is_assumed=data["rate_is_assumed"])
    lines = [
        f"{queries} sliding queries in {len(data['trees'])} execution trees, {len(data['on_demand'])} on demand; "
        f"{data['cost_per_s']:,.0f} {data['unit']} a second at {rate}"
    ]
    if data["trees"]:
        lines += [
            f"each query alone would take {data['no_share_per_s']:,.0f}, "
            f"one tree for all of the same groups {data['shared_per_s']:,.0f}"
        ]
    if data["rate_is_assumed"]:
        lines += [RATE_UNKNOWN]
    elif data["memory"]:
        largest = data["memory"][0]
        total = sum(consumer["bytes"] for consumer in data["memory"])
        lines += [f"about {show_bytes(total)} held, most of it by {largest['consumer']}{_assumed_values(data)}"]
    return lines


def _assumed_values(data: dict[str, Any]) -> str:
    """How many values attributes are assumed to have."""
    assumed = data["assumed_values"]
    if not assumed:
        return ""
    first = next(iter(assumed))
    return f"; assumes {assumed[first]:,} values of {_listed(list(assumed))} (--groups {first}=N, or groups=)"


def _grouped(plan: PlanContent) -> list[str]:
    """Every attribute that some query groups by."""
    grouped = [tree.group_by for stream in plan.streams.values() for tree in stream.trees]
    grouped += [query.group_by for query in (*plan.on_demand, *plan.by_substream)]
    return list(dict.fromkeys(name for attributes in grouped for name in attributes))


def other_lines(data: dict[str, Any]) -> list[str]:
    """The queries that are in no tree."""
    lines = []
    for query in data["by_substream"]:
        lines += ["", f"{query['query']} {query['window']}: {query['reason']}"]
    for query in data["on_demand"]:
        lines += ["", f"{query['query']} {query['window']}: {query['reason']}"]
        lines += [f"  {one['aggregate']:<11} {one['reason']}" for one in query["structures"]]
        if query["having"] is not None:
            lines += [f"  having      {query['having']}"]
        if query["within"] is not None:
            lines += [f"  within      {query['within']}"]
    looked_up = {query["query"] for query in data["on_demand"]}
    lines += [f"\n{name} WITHIN: {reason}" for name, reason in data["within"].items() if name not in looked_up]
    return [*lines, *(line for query in data["row_queries"] for line in _row_lines(query))]


def _answered_from(plan: PlanContent, query: Query) -> str:
    if is_unbounded(query.window):
        return "from running totals"
    return "from the events that the window covers" if _reads_log(plan, query.name) else "by structures"


def _row_lines(query: dict[str, Any]) -> list[str]:
    """A query that answers with rows: its windows, their index, and why."""
    if query["index"] is None:
        using = "no index"
    elif query["ring"] is None:
        using = f"{query['index']} over {query['storage']}, purged by {query['purge']}"
    else:
        using = f"{query['ring']} over {query['index']}, purged by {query['purge']}"
    lines = ["", f"{query['query']}: {query['operator']}"]
    lines += [f"  window      {text}" for text in query["inputs"]]
    lines += [f"  index       {using}" + (f", shared with {query['shares_with']}" if query["shares_with"] else "")]
    lines += [f"  reason      {reason}" for reason in query["reasons"]]
    return lines if query["into"] is None else [*lines, f"  into        {query['into']}"]


def _reads_log(plan: PlanContent, query: str) -> bool:
    return query not in plan.structures or plan.structures[query].reads_log


def _structures_data(plan: PlanContent, query: str) -> list[dict[str, Any]]:
    """What answers each aggregate of an on-demand query."""
    if query not in plan.structures:
        return []
    return [
        {"aggregate": print_expression(choice.call), "structure": choice.structure, "reason": choice.reason}
        for choice in plan.structures[query].choices
    ]


def _tree_lines(tree: dict[str, Any], unit: str) -> list[str]:
    return [
        "",
        tree["title"],
        f"  fragments   {tree['fragments']}",
        f"  partials    {', '.join(tree['components'])}",
        f"  predicates  {_listed(tree['predicates']) or 'none'}",
        f"  windows     {_listed(tree['windows'])}",
        f"  cost        {tree['cost_per_s']:,.0f} {unit} a second, overlap {tree['overlap']:,.1f}",
        f"  reason      {tree['reason']}",
        f"  queries     {_listed([query['query'] for query in tree['queries']])}",
    ]


def _base_data(plan: PlanContent, stream: StreamPlan, base: Base) -> dict[str, Any]:
    return {
        "base": base.number,
        "title": f"base {base.number}: {stream.stream.name} by {_keys(base)}, cut into slots of "
        f"{_length(base.clock, base.granularity)}",
        "stream": stream.stream.name,
        "reads": None if stream.stream.answers_over is None else _reads(plan, stream),
        "group_by": list(base.group_by),
        "slot": _length(base.clock, base.granularity),
        "components": [component_text(stream, component) for component in base.components],
        "cost_per_s": prices_at(plan, stream.stream.name).base(base),
    }


def _reads(plan: PlanContent, stream: StreamPlan) -> str:
    """What a stream of answers comes from."""
    name = stream.stream.name
    rate = f", about {plan.rates[name]:,.3g} a second" if name in plan.rates else ""
    return f"the answers of query {name} over {stream.stream.answers_over}{rate}"


def _tree_data(stream: StreamPlan, tree: Tree, prices: Prices, comparison: PlanComparison) -> dict[str, Any]:
    base = stream.base_of(tree)
    return {
        "tree": tree.number,
        "title": f"tree {tree.number}: {_counted(len(tree.queries))} over {stream.stream.name}, "
        f"grouped by {_keys(tree)}",
        "base": tree.base,
        "stream": stream.stream.name,
        "group_by": list(tree.group_by),
        "slot": _length(tree.clock, tree.granularity),
        "fragments": _fragments(tree),
        "fragments_per_s": tree.cuts.rate * prices.slots_per_s(tree),
        "edges": [
            {"every": _length(tree.clock, period * tree.granularity), "offset": residue * tree.granularity}
            for period, residue in tree.cuts.edges
        ],
        "components": [component_text(stream, component) for component in tree.components],
        "predicates": [print_expression(stream.predicates[bit]) for bit in tree.predicates],
        "windows": [print_window(window) for window in tree.windows],
        "overlap": overlap(tree),
        "cost_per_s": prices.tree(tree, base),
        "reason": comparison.reasons[tree.number],
        "queries": _queries_data(stream, tree, base, prices),
    }


def _fragments(tree: Tree) -> str:
    """How the tree's edges cut the stream, in words."""
    if len(tree.cuts.edges) == 1:
        return f"every {_length(tree.clock, tree.cuts.edges[0][0] * tree.granularity)}"
    mean = _length(tree.clock, max(1, round(tree.granularity / tree.cuts.rate)), rounded=True)
    edges = len(tree.cuts.edges)
    return f"between {edges} edges that repeat with their windows' slides, {mean} on average"


def _length(clock: Clock, ticks: int, *, rounded: bool = False) -> str:
    if clock is Clock.ROWS:
        return f"{ticks} rows"
    if rounded and ticks >= 10_000_000:
        ticks = round(ticks, -6)
    return print_duration(ticks)


def _queries_data(stream: StreamPlan, tree: Tree, base: Base, prices: Prices) -> list[dict[str, Any]]:
    """A tree's queries, each with an equal part of its base and of its tree by itself, and its part of the closings.

    What windows that end together share is divided in proportion to what each would cost alone.
    """
    all_of_base = sum(len(fed.queries) for fed in stream.fed_by(base))
    by_itself = prices.feeding(base) + prices.running(tree, tree.cuts.rate)
    in_common = prices.base(base) / all_of_base + by_itself / len(tree.queries)
    closing = prices.tree(tree, base) - by_itself
    alone = {
        window: prices.closing(window) + prices.folding(tree, prices.visits([window], tree.components))
        for window in tree.windows
    }
    of_queries = [sum(alone[window] for window in planned.windows) for planned in tree.queries]
    per_alone = closing / sum(of_queries)
    return [_query_data(stream, planned, in_common + per_alone * one) for planned, one in zip(tree.queries, of_queries)]


def _query_data(stream: StreamPlan, planned: PlannedQuery, cost_per_s: float) -> dict[str, Any]:
    where = None if planned.predicate is None else print_expression(stream.predicates[planned.predicate])
    return {
        "query": planned.query.name,
        "window": print_window(planned.query.window),
        "where": where,
        "select": [label_of(item) for item in planned.query.select],
        "cost_per_s": cost_per_s,
    }


def _counted(queries: int) -> str:
    return "1 query" if queries == 1 else f"{queries} queries"


def _keys(part: Base | Tree) -> str:
    return ", ".join(part.group_by) or "nothing (one group)"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
