"""A sharing plan: which queries share a tree, what the trees cost, and how certain that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.arrays import Floats, Ints
from panewise.errors import ArgumentError
from panewise.planning.sharing.cost import Weights
from panewise.planning.sharing.instants import Instants
from panewise.planning.sharing.queries import Queries, sums_of
from panewise.planning.sharing.space import Work
from panewise.windows.periodic import PeriodicSet, RateBounds, exact_union_rate, union_bounds

_EXACT_BITS = 1 << 24
_SAMPLE_BITS = 1 << 20
_SAMPLE_SEED = 1
_EXACT_WORK = 200_000
"""How many residues the exact counts of one plan may handle together, if edges have no short period."""


@dataclass(frozen=True, eq=False)
class SharingPlan:
    """Trees by number, in the order of their first queries.

    `tree_of` gives the tree of each query; `edge_rates` the edges per unit of each tree, `is_exact` whether that is
    exact or an estimate from a sample (see `cost_bounds`), `overlaps` the sum of range over slide of its queries, and
    `factors` the sum of their fold factors, which is what a fragment costs.
    """

    method: str
    queries: Queries
    tree_of: Ints
    rate: float
    weights: Weights
    edge_rates: Floats
    is_exact: npt.NDArray[np.bool_]
    overlaps: Floats
    factors: Floats
    work: Work = field(default_factory=Work)

    @classmethod
    def of(
        cls, method: str, queries: Queries, tree_of: Ints, rate: float, weights: Weights, work: Work | None = None
    ) -> SharingPlan:
        """Price the plan that puts query i into tree tree_of[i]."""
        if not rate > 0:
            raise ArgumentError(f"rate must be positive, got {rate}")
        tree_of = by_first_query(tree_of)
        members, starts = _classes_of_trees(queries.classes.class_of, tree_of)
        edge_rates, is_exact = _edge_rates(queries, members, starts)
        overlaps = sums_of(tree_of, queries.overlaps, len(starts) - 1)
        factors = sums_of(tree_of, queries.fold_factors, len(starts) - 1)
        return cls(method, queries, tree_of, rate, weights, edge_rates, is_exact, overlaps, factors, work or Work())

    def __len__(self) -> int:
        return len(self.edge_rates)

    @property
    def tree_costs(self) -> Floats:
        """Operations per unit of each tree."""
        by_edge = self.weights.combine * self.factors + self.weights.edge
        return self.weights.event * self.rate + self.edge_rates * by_edge

    @cached_property
    def cost(self) -> float:
        """Operations per unit of all trees."""
        return float(self.tree_costs.sum())

    @cached_property
    def cost_bounds(self) -> tuple[float, float]:
        """Sure bounds of the true cost; both equal `cost` if every edge rate is exact."""
        lower = upper = self.cost
        for tree in np.flatnonzero(~self.is_exact).tolist():
            bounds = union_bounds(self._edge_sets(tree))
            weight = self.weights.combine * self.factors[tree] + self.weights.edge
            lower -= weight * (self.edge_rates[tree] - float(bounds.lower))
            upper += weight * (float(bounds.upper) - self.edge_rates[tree])
        return float(lower), float(upper)

    @property
    def query_costs(self) -> Floats:
        """Each query's share of the cost: an equal part of its tree's events and edges, and its own combines."""
        sizes = np.bincount(self.tree_of, minlength=len(self))
        in_common = self.weights.event * self.rate + self.weights.edge * self.edge_rates
        combines = self.weights.combine * self.edge_rates[self.tree_of] * self.queries.fold_factors
        return np.asarray((in_common / sizes)[self.tree_of] + combines)

    @cached_property
    def trees(self) -> list[Ints]:
        """The queries of each tree, in order."""
        order = np.argsort(self.tree_of, kind="stable")
        ends = np.cumsum(np.bincount(self.tree_of, minlength=len(self)))
        return np.split(order, ends)[:-1]

    def edge_rate(self, tree: int) -> RateBounds:
        """The edge rate of one tree as exact fractions, or as bounds."""
        sets = self._edge_sets(tree)
        exact = exact_union_rate(sets)
        return union_bounds(sets) if exact is None else RateBounds(exact, exact)

    def summary(self) -> dict[str, Any]:
        """The plan's figures as plain data."""
        return {
            "method": self.method,
            "queries": len(self.queries),
            "edge_sets": len(self.queries.classes),
            "trees": len(self),
            "cost": self.cost,
            "is_exact": bool(self.is_exact.all()),
            "steps": self.work.steps,
            "operations": self.work.operations,
        }

    def _edge_sets(self, tree: int) -> list[PeriodicSet]:
        classes = self.queries.classes
        return [classes.edges(one) for one in np.unique(classes.class_of[self.trees[tree]]).tolist()]


def by_first_query(tree_of: Ints) -> Ints:
    """Number the trees by their first queries."""
    _, first, number = np.unique(tree_of, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number]


def _classes_of_trees(class_of: Ints, tree_of: Ints) -> tuple[Ints, Ints]:
    """The different classes of each tree, and where each tree's begin."""
    width = int(class_of.max(initial=0)) + 1
    pairs = np.unique(tree_of * width + class_of)
    trees, members = pairs // width, pairs % width
    starts = np.searchsorted(trees, np.arange(int(tree_of.max(initial=-1)) + 2))
    return members, starts


def _edge_rates(queries: Queries, members: Ints, starts: Ints) -> tuple[Floats, npt.NDArray[np.bool_]]:
    classes = queries.classes
    sizes = np.diff(starts)
    is_exact = np.ones(len(sizes), np.bool_)
    if not len(sizes):
        return np.zeros(0), is_exact
    rates = classes.rates[members[starts[:-1]]]
    several = np.flatnonzero(sizes > 1)
    if not len(several):
        return rates, is_exact
    chosen = np.concatenate([members[starts[tree] : starts[tree + 1]] for tree in several.tolist()])
    ends = np.concatenate([[0], np.cumsum(sizes[several])])
    instants = Instants.of(classes, exact_bits=_EXACT_BITS, sample_bits=_SAMPLE_BITS, seed=_SAMPLE_SEED)
    rates[several] = instants.union_rates(classes, chosen, ends)
    if instants.is_sample:
        work = _EXACT_WORK // len(several)
        for tree in several.tolist():
            sets = [classes.edges(one) for one in members[starts[tree] : starts[tree + 1]].tolist()]
            exact = exact_union_rate(sets, most_work=work)
            is_exact[tree] = exact is not None
            if exact is not None:
                rates[tree] = float(exact)
    return rates, is_exact
