"""A plan in words and as data: trees, what their partials hold, and why each query is where it is."""

from __future__ import annotations

from typing import Any

from weft.language.literals import print_duration
from weft.language.printer import label_of, print_expression, print_window
from weft.planning.cost import overlap, tree_cost
from weft.planning.plan import Clock, Plan, PlannedQuery, StreamPlan, Tree

_NAMES_SHOWN = 8


def explain_data(plan: Plan) -> dict[str, Any]:
    """The plan as plain data."""
    return {
        "rate_per_s": plan.rate,
        "cost_per_s": plan.cost,
        "trees": [_tree_data(stream, tree, plan.rate) for stream in plan.streams.values() for tree in stream.trees],
        "on_demand": [
            {
                "query": query.name,
                "window": print_window(query.window),
                "reason": "evaluated by lookups, from the events that the window covers",
                "having": plan.having[query.name].reason if query.name in plan.having else None,
            }
            for query in plan.on_demand
        ],
    }


def explain_text(plan: Plan) -> str:
    """The plan as text."""
    data = explain_data(plan)
    queries = sum(len(tree["queries"]) for tree in data["trees"])
    lines = [
        f"{queries} sliding queries in {len(data['trees'])} execution trees, {len(data['on_demand'])} on demand; "
        f"{data['cost_per_s']:,.0f} operations a second at {plan.rate:,.0f} events a second"
    ]
    for tree in data["trees"]:
        keys = ", ".join(tree["group_by"]) or "nothing (one group)"
        lines += [
            "",
            f"tree {tree['tree']}: {len(tree['queries'])} queries over {tree['stream']}, grouped by {keys}",
            f"  slots       {tree['slot']}",
            f"  partials    {', '.join(tree['components'])}",
            f"  predicates  {_listed(tree['predicates']) or 'none'}",
            f"  windows     {_listed(tree['windows'])}",
            f"  cost        {tree['cost_per_s']:,.0f} operations a second, overlap {tree['overlap']:,.1f}",
            f"  reason      {tree['reason']}",
            f"  queries     {_listed([query['query'] for query in tree['queries']])}",
        ]
    for query in data["on_demand"]:
        lines += ["", f"{query['query']} {query['window']}: {query['reason']}"]
        if query["having"] is not None:
            lines += [f"  having      {query['having']}"]
    return "\n".join(lines)


def _tree_data(stream: StreamPlan, tree: Tree, rate: float) -> dict[str, Any]:
    slot = print_duration(tree.granularity) if tree.clock is Clock.TIME else f"{tree.granularity} rows"
    return {
        "tree": tree.number,
        "stream": stream.stream.name,
        "group_by": list(tree.group_by),
        "slot": slot,
        "components": [_component_text(stream, component.kind.value, component.input) for component in tree.components],
        "predicates": [print_expression(stream.predicates[bit]) for bit in tree.predicates],
        "windows": [print_window(window) for window in tree.windows],
        "overlap": overlap(tree),
        "cost_per_s": tree_cost(tree, rate),
        "reason": "these queries have the same groups, so one pass over the events serves them all",
        "queries": [_query_data(stream, planned) for planned in tree.queries],
    }


def _component_text(stream: StreamPlan, kind: str, place: int | None) -> str:
    return kind if place is None else f"{kind}({print_expression(stream.inputs[place].expression)})"


def _query_data(stream: StreamPlan, planned: PlannedQuery) -> dict[str, Any]:
    where = None if planned.predicate is None else print_expression(stream.predicates[planned.predicate])
    return {
        "query": planned.query.name,
        "window": print_window(planned.query.window),
        "where": where,
        "select": [label_of(item) for item in planned.query.select],
    }


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
