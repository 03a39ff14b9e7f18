"""The plan that an engine is at work with, and what its trees were predicted to do beside what they did.

Predictions are those of the cost model for the events and groups that were seen: partials fed to a tree, and fragments
combined into instances. What was done can be less: two stacks combine a fragment once for all instances that close
together, and a tree that joined later has seen a part of the stream only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import expm1

from weft.engine.generation import Generation, TreeState
from weft.engine.stream_state import StreamState
from weft.language.model import Workload
from weft.planning.cost import Prices
from weft.planning.optimize import optimize
from weft.planning.plan import Clock, Plan, StreamPlan


@dataclass(frozen=True)
class TreeWork:
    """Operations of one tree: partials fed to it, and fragments visited and answers made as windows closed."""

    fed: float
    folded: float


def explain_engine(workload: Workload, streams: Mapping[str, StreamState], *, analyze: bool) -> str:
    """The plan as text, a section for queries of a stream that came later."""
    asked = replace(workload, queries={q.name: q for q in workload.queries.values() if not q.window.is_sliding})
    plans: dict[str, StreamPlan] = {}
    lines: list[str] = []
    trees = bases = 0
    for name, state in streams.items():
        for place, generation in enumerate(state.generations):
            plan = _at_work(generation, trees, bases)
            plans[f"{name} {place}"] = plan
            if analyze:
                for number, at_work in zip((tree.number for tree in plan.trees), generation.trees):
                    lines += _analysis(number, at_work, state)
            trees += len(generation.plan.trees)
            bases += len(generation.plan.bases)
    prices = next((state.prices for state in streams.values()), Prices())
    whole: Plan = replace(optimize(asked, rate=prices.rate, groups=prices.groups), streams=plans)
    return "\n".join([whole.explain(), *lines])


def predicted(at_work: TreeState, state: StreamState) -> TreeWork:
    """What the cost model says of a tree, for the events and groups that were seen."""
    tree = at_work.tree
    if tree.clock is Clock.ROWS:
        ticks = state.log.final_count if state.log is not None else 0
    else:
        ticks = 0 if state.oldest_us is None or state.newest_us is None else state.newest_us - state.oldest_us + 1
    slots = -(-ticks // tree.granularity)
    cells = slots * max(1, at_work.store.live_keys)
    if not cells:
        return TreeWork(0.0, 0.0)
    fragments = cells * tree.cuts.rate
    return TreeWork(_occupied(cells, state.accepted), _occupied(fragments, state.accepted) * state.prices.visits(tree))


def _occupied(cells: float, events: int) -> float:
    """How many of some cells get at least one of so many events, if each falls anywhere."""
    return -cells * expm1(-events / cells)


def _at_work(generation: Generation, first_tree: int, first_base: int) -> StreamPlan:
    """A generation's plan with the queries that are active now, numbered on from other generations."""
    plan = generation.plan
    trees = tuple(
        replace(
            state.tree,
            number=first_tree + place,
            base=first_base + state.tree.base,
            queries=(*state.queries.values(), *state.waiting.values()),
        )
        for place, state in enumerate(generation.trees)
    )
    bases = tuple(replace(base, number=first_base + base.number) for base in plan.bases)
    return replace(plan, trees=trees, bases=bases)


def _analysis(number: int, at_work: TreeState, state: StreamState) -> list[str]:
    model, store = predicted(at_work, state), at_work.store
    return [
        "",
        f"tree {number} after {state.accepted:,} events:",
        f"  fed         {model.fed:,.0f} partials predicted, {store.fed:,} counted",
        f"  folded      {model.folded:,.0f} combines predicted, {store.folded:,} counted",
        f"  held        {store.live_rows:,} fragments of {store.live_keys:,} groups, {store.bytes_held:,} bytes",
    ]
