"""A stream's plan beside the alternatives: no sharing, one tree for all, and other merges.

All are priced alike: events into bases, partials into trees, fragments into answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from panewise.planning.cost import Prices
from panewise.planning.trees import Base, Clock, PlannedQuery, StreamPlan, Tree
from panewise.planning.unions import Unions, unions_of
from panewise.windows import Window
from panewise.windows.cuts import Cuts
from panewise.windows.slots import granularity_of, spans_in_slots

_MOST_COMPARED = 20
"""The most other trees that a tree is compared with to give a reason."""


@dataclass(frozen=True)
class PlanComparison:
    """Operations per second of the two plain ways, and a reason for each tree."""

    no_share: float
    """Each query has a base and a tree of its own, with the longest slots that its window allows."""
    shared: float
    """The plan's bases, and one tree for all queries of a base that have the same groups."""
    reasons: Mapping[int, str]


def compare(plan: StreamPlan, prices: Prices) -> PlanComparison:
    """Compare a stream's plan with No Share and Shared (Guirguis et al., section 4)."""
    no_share = shared = 0.0
    reasons: dict[int, str] = {}
    for base in plan.bases:
        shared += prices.base(base)
        families: dict[tuple[str, ...], list[Tree]] = {}
        for tree in plan.fed_by(base):
            families.setdefault(tree.group_by, []).append(tree)
        for trees in families.values():
            family = _FoldedTrees(base, trees, prices, unions_of(trees))
            shared += prices.feeding(base) + family.together()
            shared += sum(prices.closing(window) for tree in trees for window in tree.windows)
            for place, tree in enumerate(trees):
                alone = {window: family.alone(window) for window in tree.windows}
                for planned in tree.queries:
                    window = planned.query.window
                    own = _own_base(plan, tree, base, planned)
                    edges = Cuts.of(spans_in_slots(window, own.granularity)).rate
                    no_share += prices.base(own) + prices.feeding(own) + prices.running(own, edges)
                    no_share += prices.closing(window) + alone[window]
                reasons[tree.number] = family.reason(place, sum(alone.values()))
    return PlanComparison(no_share, shared, reasons)


def _own_base(plan: StreamPlan, tree: Tree, base: Base, planned: PlannedQuery) -> Base:
    """The base that a query would have if it were the only one."""
    granularity = granularity_of([planned.query.window]) or base.granularity
    if tree.is_punctuated:
        return replace(base, group_by=tree.group_by, predicates=planned.predicates)
    if base.clock is Clock.TIME and plan.stream.granularity_us is not None:
        granularity = gcd(granularity, plan.stream.granularity_us)
    predicates = () if planned.predicate is None else (planned.predicate,)
    return replace(base, granularity=granularity, group_by=tree.group_by, predicates=predicates)


@dataclass(frozen=True)
class _FoldedTrees:
    """The trees of a base that have the same groups, and what their fragments cost a second."""

    base: Base
    trees: Sequence[Tree]
    prices: Prices
    unions: Unions

    def alone(self, window: Window) -> float:
        """The cost of folding one window alone."""
        cuts = Cuts.of(spans_in_slots(window, self.base.granularity))
        return self._folds(cuts.rate, self.prices.visits([window], self.trees[0].components))

    def together(self) -> float:
        """The cost of all trees as one, beside what feeds it."""
        windows = [window for tree in self.trees for window in tree.windows]
        return self._as_one(self.unions.of_all(), self.prices.visits(windows, self.trees[0].components))

    def reason(self, place: int, alone: float) -> str:
        """Why a tree has its windows; `alone` is the sum of what each of them costs alone."""
        tree, feeding = self.trees[place], self.prices.feeding(self.base)
        parts = []
        if len(tree.windows) > 1:
            by_itself = [
                self.prices.running(tree, Cuts.of(spans_in_slots(window, self.base.granularity)).rate)
                + self.prices.closing(window)
                for window in tree.windows
            ]
            apart = alone + len(tree.windows) * feeding + sum(by_itself)
            parts.append(
                f"its {len(tree.windows)} windows take {self.prices.tree(tree, self.base):,.0f} a second together "
                f"and {apart:,.0f} apart"
            )
        if tree.session_gap_us:
            return "; ".join([*parts, "sessions have a tree of their own, which lets go of rows as they close"])
        if tree.is_punctuated:
            return "; ".join([*parts, "windows that events open and close need each event by itself"])
        if tree.is_unbounded:
            return "; ".join([*parts, "what goes back to the start has a tree of its own, of which no row leaves"])
        others = [
            other
            for other, one in enumerate(self.trees)
            if other != place and not (one.session_gap_us or one.is_unbounded or one.is_punctuated)
        ][:_MOST_COMPARED]
        losses = {other: self._loss(place, other) - feeding for other in others}
        if losses:
            nearest = min(losses, key=lambda other: losses[other])
            loss = losses[nearest]
            more = f"{loss:,.0f} more" if loss >= 0 else f"{-loss:,.0f} less"
            parts.append(f"with tree {self.trees[nearest].number} it would take {more} than apart")
        if not parts:
            parts.append("the only window of its groups")
        return "; ".join(parts)

    def _loss(self, one: int, other: int) -> float:
        """How much more two trees cost as one than each, beside what feeds them."""
        trees = self.trees[one], self.trees[other]
        apart = sum(self._as_one(tree.cuts.rate, self.prices.visits(tree.windows, tree.components)) for tree in trees)
        together = self.prices.visits([*trees[0].windows, *trees[1].windows], trees[0].components)
        return self._as_one(self.unions.of_two(one, other), together) - apart

    def _as_one(self, rate: float, visits: float) -> float:
        return self.prices.running(self.base, rate) + self._folds(rate, visits)

    def _folds(self, rate: float, visits: float) -> float:
        return self.prices.folds(rate, visits, self.trees[0])
