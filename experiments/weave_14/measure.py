"""The work of Weave Share with none, one, two and all of its optimizations. All must give the same plan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.optimizer import paper_queries, timed
from experiments.figures import Case, Parameters
from experiments.plan_costs import load_once
from experiments.tables import Row

from panewise.errors import PanewiseError
from panewise.planning.sharing.weave_share import WeaveShare

OPTIMIZATIONS = 3
"""A table of costs, a bitmap of edges, and probing with the tree that has fewer edges."""


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each number of optimizations."""
    plans: dict[int, list[int]] = {}
    for queries in parameters["queries"]:
        for count in range(OPTIMIZATIONS + 1):
            label = f"{queries} queries, {count} optimizations"
            yield Case(label, partial(_rows, parameters, queries, count, plans))


def _rows(parameters: Parameters, queries: int, count: int, plans: dict[int, list[int]]) -> Iterator[Row]:
    load_once()
    setting = parameters["overlap"], parameters["skew"]
    table, bitmap, fewer = (place < count for place in range(OPTIMIZATIONS))
    # Moves of single queries after the merging are this project's own, and do not count.
    method = WeaveShare(table, bitmap, fewer, is_polished=False)
    plan, seconds = timed(method, paper_queries(queries, *setting, 1, parameters["seed"]), parameters["rate"])
    tree_of = plan.tree_of.tolist()
    if plans.setdefault(queries, tree_of) != tree_of:
        raise PanewiseError("the optimizations changed the plan")
    yield {**plan.summary(), "optimizations": count, "seconds": seconds}
