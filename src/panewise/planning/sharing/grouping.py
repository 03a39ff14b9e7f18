"""Different group-by attributes over one stream: a tree for each set, or one tree over a union that is rolled up.

A tree over GROUP BY a, b holds enough to answer GROUP BY a: its partials are rolled up, which joins those that agree on
a. That saves a pass over the events for each set, and costs the partials of the finer tree once for each set rolled up.

Model, per unit of the ranges and slides, for a set of attributes with g groups and a tree with edge rate e:

- g is the product of the attributes' distinct values, and no more than the events of the longest window;
- a tree makes min(rate, g * e) partials, as each event adds to one;
- folding the answers costs g * e * fold factors, with the edges of the set's own queries, as rolling up also joins the
  fragments between them; a set that has all attributes of the union can also fold the union's fragments as they are;
- rolling up costs the partials of the union's tree, which has the edges of all its queries.

Sets are merged greedily, the pair that saves most first, while any pair saves.
Invariant: never costlier than a tree for each set. Cost: pairs of sets for every merge, each with one count of a union.
Source: Guirguis et al., section 5, for the union of attributes; Zhang et al., SIGMOD 2005, for the idea.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from panewise.errors import ArgumentError, UnknownNameError
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.queries import Queries
from panewise.windows.periodic import paired, union_rate

Attributes = tuple[str, ...]
DEFAULT_DISTINCT = 100.0
"""The assumed number of distinct values of an unknown attribute."""


@dataclass(frozen=True)
class UnionTree:
    """A tree over the union of some sets' attributes; it answers each of these sets."""

    attributes: Attributes
    members: tuple[Attributes, ...]
    groups: float
    edge_rate: float
    partials: float
    cost: float


@dataclass(frozen=True)
class GroupingPlan:
    """Which sets of attributes share a tree. `separate_cost` is the cost of a tree for each set."""

    trees: tuple[UnionTree, ...]
    cost: float
    separate_cost: float
    reasons: tuple[str, ...]

    def tree_of(self, attributes: Iterable[str]) -> UnionTree:
        """The tree that answers a set of attributes."""
        wanted = tuple(sorted(set(attributes)))
        for tree in self.trees:
            if wanted in tree.members:
                return tree
        raise UnknownNameError(f"no query groups by {_named(wanted)}; the sets are {_listed(self.trees)}")


def plan_grouping(
    sets: Mapping[Attributes, Queries],
    rate: float,
    weights: Weights = UNIT_WEIGHTS,
    distinct: Mapping[str, float] | None = None,
    *,
    in_common: bool = False,
) -> GroupingPlan:
    """Decide which sets of group-by attributes share a tree over the union of their attributes.

    `distinct` has estimates of the attributes' distinct values; the default is 100 each. With `in_common`, sets share a
    tree only if they share an attribute, so that groups can be spread over several places by it.

    >>> hourly = Queries.of([(3600, 3600)])
    >>> few = plan_grouping({("carrier",): hourly, ("carrier", "origin"): hourly}, 50.0, distinct={"carrier": 16})
    >>> [tree.attributes for tree in few.trees], few.cost < few.separate_cost
    ([('carrier', 'origin')], True)
    """
    costs = _Costs(sets, rate, weights, distinct or {})
    units = [frozenset([place]) for place in range(len(costs.sets))]
    trees = {unit: costs.tree(unit) for unit in units}
    separate = sum(tree.cost for tree in trees.values())
    reasons = []
    while len(units) > 1:
        tried = [
            (trees[one].cost + trees[other].cost - costs.tree(one | other).cost, place, one, other)
            for place, (one, other) in enumerate(combinations(units, 2))
            if not in_common or costs.common(one | other)
        ]
        if not tried:
            break
        saved, _, one, other = max(tried, key=lambda trial: (trial[0], -trial[1]))
        first, second = trees[one], trees[other]
        if saved <= 1e-9 * separate:
            reasons.append(
                f"no further merge saves: the best, of {_named(first.attributes)} with {_named(second.attributes)}, "
                f"would cost {-saved:.6g} more"
            )
            break
        merged = trees[one | other] = costs.tree(one | other)
        units = [unit for unit in units if unit not in (one, other)] + [one | other]
        reasons.append(
            f"{_named(first.attributes)} and {_named(second.attributes)} share a tree over "
            f"{_named(merged.attributes)}: {merged.cost:.6g} instead of {first.cost + second.cost:.6g}, as its "
            f"{merged.partials:.6g} partials are fewer than a pass over {rate:.6g} events is worth"
        )
    units.sort(key=min)
    chosen = tuple(trees[unit] for unit in units)
    return GroupingPlan(chosen, sum(tree.cost for tree in chosen), separate, tuple(reasons))


class _Costs:
    """Prices of trees over unions of sets, each computed once."""

    def __init__(
        self, sets: Mapping[Attributes, Queries], rate: float, weights: Weights, distinct: Mapping[str, float]
    ) -> None:
        if not rate > 0:
            raise ArgumentError(f"rate must be positive, got {rate}")
        for name, number in distinct.items():
            if not number >= 1:
                raise ArgumentError(f"attribute {name} must have at least one distinct value, got {number}")
        joined: dict[Attributes, list[Queries]] = {}
        for attributes, queries in sets.items():
            if not len(queries):
                raise ArgumentError(f"no query groups by {_named(attributes)}; leave the set out")
            # GROUP BY a, b and GROUP BY b, a have the same groups.
            joined.setdefault(tuple(sorted(set(attributes))), []).append(queries)
        self.sets = list(joined)
        self.rate = rate
        self.weights = weights
        self.distinct = distinct
        self._queries = [_together(parts) for parts in joined.values()]
        self._edge_rates: dict[frozenset[int], float] = {}
        self._trees: dict[frozenset[int], UnionTree] = {}

    def tree(self, unit: frozenset[int]) -> UnionTree:
        """The tree that answers some sets."""
        if unit not in self._trees:
            self._trees[unit] = self._tree(unit)
        return self._trees[unit]

    def common(self, unit: frozenset[int]) -> set[str]:
        """The attributes that all sets of a unit have."""
        return set.intersection(*(set(self.sets[place]) for place in unit))

    def _tree(self, unit: frozenset[int]) -> UnionTree:
        places = sorted(unit)
        attributes = tuple(sorted({name for place in places for name in self.sets[place]}))
        longest = max(int(self._queries[place].ranges.max()) for place in places)
        groups = self._groups(attributes, longest)
        edge_rate = self._edge_rate(unit)
        partials = min(self.rate, groups * edge_rate)
        cost = self.weights.event * self.rate
        for place in places:
            queries = self._queries[place]
            factor = float(queries.fold_factors.sum())
            own = self._groups(self.sets[place], int(queries.ranges.max()))
            rolled_up = partials + own * self._edge_rate(frozenset([place])) * factor
            as_they_are = own * edge_rate * factor
            is_whole = self.sets[place] == attributes
            cost += self.weights.combine * (min(rolled_up, as_they_are) if is_whole else rolled_up)
        return UnionTree(attributes, tuple(self.sets[place] for place in places), groups, edge_rate, partials, cost)

    def _groups(self, attributes: Attributes, longest: int) -> float:
        return min(prod(self.distinct.get(name, DEFAULT_DISTINCT) for name in attributes), self.rate * longest)

    def _edge_rate(self, unit: frozenset[int]) -> float:
        if unit not in self._edge_rates:
            parts = [self._queries[place] for place in sorted(unit)]
            windows = {window for part in parts for window in zip(part.ranges, part.slides, part.offsets)}
            bounds = union_rate([paired(*map(int, window)) for window in windows])
            self._edge_rates[unit] = float(bounds.lower + bounds.upper) / 2
        return self._edge_rates[unit]


def _together(parts: list[Queries]) -> Queries:
    return Queries(
        np.concatenate([part.ranges for part in parts]),
        np.concatenate([part.slides for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.fold_factors for part in parts]),
    )


def _named(attributes: Attributes) -> str:
    return f"({', '.join(attributes)})"


def _listed(trees: tuple[UnionTree, ...]) -> str:
    return ", ".join(_named(member) for tree in trees for member in tree.members)
