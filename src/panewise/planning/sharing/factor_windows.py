"""Factor windows: fragments that no query needs itself, from which the fragments of several trees are built.

A base cuts the events once, into fragments whose edges include the edges of every tree that it feeds. Such a tree
combines the base's partials instead of passing over the events: three levels, where the paper has two.

Model, per unit: a base costs event * rate; a tree that it feeds costs combine * edge rate of the base for its input
instead of event * rate, and nothing if it has the same edges as the base, as it then uses the fragments as they are.
Candidates are the grid and the union of the edges of groups of trees: of all trees and of single ones (only the grids
if there are very many trees), of pairs if there are few trees, and of every group if there are very few. Bases are
taken greedily while the total cost falls, and dropped again if a later one makes them useless. As trees are cheap once
there is a base, the queries are also grouped again at that price, and the cheaper result is taken.
Invariant: never costlier than the plan given.
Cost: candidates times trees, and a run of Weave Share for each regrouping.
Source: the idea of phantoms (Zhang et al., SIGMOD 2005), there for group-by attributes, here for windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import gcd

import numpy as np
import numpy.typing as npt

from panewise.arrays import Floats, Ints
from panewise.errors import TooManyEdgesError
from panewise.planning.sharing.cost import Weights
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import EdgeClasses
from panewise.planning.sharing.weave_share import WeaveShare
from panewise.windows.periodic import PeriodicSet, union

MOST_EDGES = 1 << 14
"""The most edges of a base in a period: they are written out, here and in the engine."""
MOST_PERIOD = 1 << 22
"""The longest period of a base, in steps of the grid, unless its edges are a uniform grid."""
MOST_GROUPED = 6
"""Up to this many trees are considered in every possible group."""
MOST_PAIRED = 24
"""Up to this many trees are considered in pairs."""
MOST_UNIONS = 64
"""With up to this many trees, each may be a base for others."""
MOST_ROUNDS = 3
"""How often the queries are grouped again, each time at the price of the last base."""


@dataclass(frozen=True)
class FeedingTree:
    """A tree that feeds others. Its edges are a period with residues; one residue is a uniform grid."""

    edges: PeriodicSet

    @property
    def is_uniform(self) -> bool:
        """Whether all its fragments have the same length, which is the period."""
        return len(self.edges.residues) == 1

    @property
    def edge_rate(self) -> float:
        """Fragments per unit."""
        return float(self.edges.rate)

    def __str__(self) -> str:
        if self.is_uniform:
            return f"every {self.edges.period}"
        return f"{len(self.edges.residues)} edges in every {self.edges.period}"


@dataclass(frozen=True, eq=False)
class FactorPlan:
    """Trees, and where each takes its input from: None for the events, or the number of a base.

    `plan` has the trees: the given plan's, unless grouping the queries again was cheaper.
    """

    plan: SharingPlan
    bases: tuple[FeedingTree, ...]
    sources: tuple[int | None, ...]
    cost: float
    reasons: tuple[str, ...]

    @property
    def saving(self) -> float:
        """What the bases save, compared with the same trees over the events."""
        return self.plan.cost - self.cost


def factor_windows(
    plan: SharingPlan, rate: float | None = None, weights: Weights | None = None, *, may_regroup: bool = True
) -> FactorPlan:
    """Insert bases under the trees of a plan where this saves work.

    `rate` and `weights` default to the plan's.

    >>> from panewise.planning.sharing import Queries, share
    >>> plan = share("weave_share", Queries.of([(3600, 60), (3600, 70)]), 1.0)
    >>> better = factor_windows(plan)
    >>> [str(base) for base in better.bases], better.sources, round(plan.cost, 2), round(better.cost, 2)
    (['17 edges in every 420'], (0, 0), 4.47, 3.55)
    """
    if rate is not None or weights is not None:
        chosen = (plan.rate if rate is None else rate, plan.weights if weights is None else weights)
        plan = SharingPlan.of(plan.method, plan.queries, plan.tree_of, *chosen, plan.work)
    best = _with_bases(plan)
    if not may_regroup or not len(plan):
        return best
    note = "grouping the queries again over a base saves nothing"
    for _ in range(MOST_ROUNDS):
        again = [_with_bases(other) for other in _regrouped(best)]
        if not again:
            break
        cheapest = min(again, key=lambda one: one.cost)
        if cheapest.cost >= best.cost * (1 - 1e-9):
            break
        note = f"over a base {len(cheapest.plan)} trees cost less than the {len(plan)} given, so the queries regroup"
        best = cheapest
    return FactorPlan(best.plan, best.bases, best.sources, best.cost, (*best.reasons, note))


def _with_bases(plan: SharingPlan) -> FactorPlan:
    """The best bases for the trees of a plan, which stay as they are."""
    trees = [_classes_of(plan, tree) for tree in range(len(plan))]
    event_cost = plan.weights.event * plan.rate
    # Reading a base with more fragments than that costs a tree no less than reading the events.
    bases = [base for base in _candidates(trees) if plan.weights.combine * base.edge_rate < event_cost]
    inputs = _input_costs(plan, trees, bases)
    chosen = _greedy(inputs, event_cost)
    least = inputs[:, chosen].min(axis=1, initial=np.inf)
    place = inputs[:, chosen].argmin(axis=1) if chosen else np.zeros(len(trees), np.int64)
    sources = tuple(int(number) if cost < event_cost else None for number, cost in zip(place.tolist(), least.tolist()))
    saved = sum(event_cost - least[tree] for tree, source in enumerate(sources) if source is not None)
    cost = plan.cost - float(saved) + event_cost * len(chosen)
    kept = tuple(bases[number] for number in chosen)
    return FactorPlan(plan, kept, sources, cost, _reasons(plan, inputs[:, chosen], kept, sources))


def _regrouped(best: FactorPlan) -> Iterable[SharingPlan]:
    """The queries grouped again as if all read one base: each base chosen so far, and the two that could feed all."""
    plan = best.plan
    fine = _candidates([plan.queries.classes])
    for base in dict.fromkeys((*best.bases, *fine)):
        combine = plan.weights.combine
        grouped = WeaveShare().share(plan.queries, base.edge_rate, Weights(combine, combine, plan.weights.edge))
        if grouped.tree_of.tolist() != plan.tree_of.tolist():
            yield SharingPlan.of(plan.method, plan.queries, grouped.tree_of, plan.rate, plan.weights, grouped.work)


def _classes_of(plan: SharingPlan, tree: int) -> EdgeClasses:
    classes = plan.queries.classes
    return classes.chosen(np.unique(classes.class_of[plan.trees[tree]]))


def _candidates(trees: list[EdgeClasses]) -> list[FeedingTree]:
    groups = [trees, *([tree] for tree in trees)] if trees else []
    largest = len(trees) if len(trees) <= MOST_GROUPED else 2 if len(trees) <= MOST_PAIRED else 1
    for size in range(2, largest + 1):
        groups += [list(group) for group in combinations(trees, size)]
    found: dict[PeriodicSet, None] = {}
    for group in groups:
        grid = _grid(group)
        found[grid] = None
        if len(group) == 1 and len(trees) > MOST_UNIONS:
            continue
        joined = _union(group, grid.period)
        if joined is not None:
            found[joined] = None
    return [FeedingTree(edges) for edges in found]


def _grid(group: list[EdgeClasses]) -> PeriodicSet:
    """The coarsest uniform grid that has all edges of some trees."""
    origin = int(group[0].firsts[0])
    step = 0
    for tree in group:
        step = gcd(step, tree.grid, int(tree.firsts[0]) - origin)
    return PeriodicSet(step, (origin % step,))


def _union(group: list[EdgeClasses], grid: int) -> PeriodicSet | None:
    """The edges of some trees written out, or None if there are too many."""
    sets = {tree.edges(place) for tree in group for place in range(len(tree))}
    try:
        joined = union(sets, most_edges=MOST_EDGES)
    except TooManyEdgesError:
        return None
    return joined if joined.period // grid <= MOST_PERIOD else None


def _input_costs(plan: SharingPlan, trees: list[EdgeClasses], bases: list[FeedingTree]) -> Floats:
    """What each tree's input costs from each base; infinite if the base lacks an edge."""
    costs = np.full((len(trees), len(bases)), np.inf)
    for number, base in enumerate(bases):
        residues = np.array(base.edges.residues, np.int64)
        for tree, classes in enumerate(trees):
            lacks_edges = base.edge_rate < plan.edge_rates[tree] * (1 - 1e-9)
            if lacks_edges or not _contains(base.edges.period, residues, classes):
                continue
            is_same = bool(plan.is_exact[tree]) and np.isclose(plan.edge_rates[tree], base.edge_rate, rtol=1e-12)
            costs[tree, number] = 0.0 if is_same else plan.weights.combine * base.edge_rate
    return costs


def _contains(period: int, residues: Ints, classes: EdgeClasses) -> bool:
    """Whether a base has every edge of some classes."""
    shared = np.gcd(classes.periods, period)
    for step in np.unique(shared).tolist():
        # An edge r of a class with such a period visits all instants that are r modulo `step`.
        visited = period // step
        counts = _counts(residues, step)
        mine = shared == step
        for edges in (classes.firsts[mine], classes.seconds[mine]):
            if any(counts.get(edge, 0) < visited for edge in np.unique(edges % step).tolist()):
                return False
    return True


def _counts(residues: Ints, step: int) -> dict[int, int]:
    values, counts = np.unique(residues % step, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist()))


def _greedy(inputs: Floats, event_cost: float) -> list[int]:
    """Take the base that saves most while one saves, then drop those that no longer save."""
    chosen: list[int] = []
    current = np.full(len(inputs), event_cost)
    while inputs.size:
        gains = np.maximum(current[:, None] - inputs, 0.0).sum(axis=0) - event_cost
        best = int(gains.argmax())
        if gains[best] <= 1e-9 * event_cost:
            break
        chosen.append(best)
        current = np.minimum(current, inputs[:, best])
    for base in list(chosen):
        others = [other for other in chosen if other != base]
        without = np.minimum(inputs[:, others].min(axis=1, initial=np.inf), event_cost)
        if without.sum() <= current.sum() + event_cost:
            chosen, current = others, without
    return chosen


def _reasons(
    plan: SharingPlan, inputs: npt.NDArray[np.float64], bases: tuple[FeedingTree, ...], sources: tuple[int | None, ...]
) -> tuple[str, ...]:
    event_cost = plan.weights.event * plan.rate
    found = []
    for number, base in enumerate(bases):
        fed = [tree for tree, source in enumerate(sources) if source == number]
        reading = float(sum(inputs[tree, number] for tree in fed))
        found.append(
            f"base {number}, edges {base}, feeds {len(fed)} trees: cutting the events once costs {event_cost:.6g} and "
            f"reading the fragments {reading:.6g}, instead of {event_cost * len(fed):.6g} for a pass by each"
        )
    for tree, source in enumerate(sources):
        if source is None and bases:
            fits = np.isfinite(inputs[tree]).any()
            why = "reading a base would cost no less" if fits else "no base has all of its edges"
            found.append(f"tree {tree} reads the events: {why}")
    if not bases:
        found.append("every tree reads the events: no base saves more than the pass over the events that it costs")
    return tuple(found)
