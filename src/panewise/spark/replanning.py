"""Planning anew: the trees of a job's bases are woven again once they cost more than the tolerance allows.

A bucket keeps the partials of bases, and feeds new trees from them. So trees may change at any time: each query keeps
the time from which on it is exact, and no window loses its past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from panewise.language.model import Query
from panewise.planning.cost import Prices
from panewise.planning.drift import cost_at_work
from panewise.planning.optimize import weave
from panewise.planning.trees import Tree
from panewise.spark.fed_bases import FedBase, FedTree


def sliding_queries(bases: Iterable[FedBase]) -> list[Query]:
    """The queries that the trees of some bases answer."""
    return [planned.query for live in bases for tree in live.trees for planned in tree.queries.values()]


def cost_of_bases(bases: Iterable[FedBase], prices: Prices) -> float:
    """Operations per second of some bases and of their trees, with the queries that they have now."""
    return cost_at_work(prices, ((live.base, tree.tree, tree.windows) for live in bases for tree in live.trees))


def woven_anew(bases: Mapping[int, FedBase], prices: Prices) -> dict[int, FedBase]:
    """The bases with trees as if all queries of each base had come at once."""
    made: dict[int, FedBase] = {}
    by_generation: dict[int, list[FedBase]] = {}
    for live in bases.values():
        by_generation.setdefault(live.generation, []).append(live)
    for members in by_generation.values():
        made |= _generation_anew(members, prices)
    return {number: made[number] for number in bases}


def _generation_anew(members: list[FedBase], prices: Prices) -> dict[int, FedBase]:
    plan = members[0].plan
    # A number is never used twice: a bucket knows by it which trees are new.
    number = max((tree.number for tree in plan.trees), default=-1) + 1
    trees: dict[int, list[Tree]] = {}
    for live in members:
        queries = [planned for tree in live.trees for planned in tree.queries.values()]
        trees[live.number] = weave(plan, live.base, queries, prices, number)
        number += len(trees[live.number])
    plan = replace(plan, trees=tuple(tree for several in trees.values() for tree in several))
    return {live.number: _with_trees(replace(live, plan=plan), trees[live.number]) for live in members}


def _with_trees(live: FedBase, trees: list[Tree]) -> FedBase:
    """A base whose queries are in other trees; since when each is exact and reported stays."""
    exact_from_us = {name: time_us for tree in live.trees for name, time_us in tree.exact_from_us.items()}
    reports_after_us = {name: time_us for tree in live.trees for name, time_us in tree.reports_after_us.items()}
    fed = []
    for tree in trees:
        queries = {planned.query.name: planned for planned in tree.queries}
        fed.append(
            FedTree(
                tree,
                queries,
                {name: exact_from_us[name] for name in queries},
                {name: reports_after_us[name] for name in queries},
            )
        )
    return replace(live, trees=tuple(fed))
