"""A stream's plan beside what else could have been done: no sharing, one tree for all, and other merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.planning.cost import Prices
from weft.planning.plan import Base, StreamPlan, Tree
from weft.planning.unions import Unions, unions_of
from weft.windows import Window
from weft.windows.cuts import Cuts
from weft.windows.slots import lengths_in_slots

_MOST_COMPARED = 20
"""With so many other trees is one compared when a reason is given."""


@dataclass(frozen=True)
class Comparison:
    """Operations per second of the two plain ways, from the events and without bases, and a reason for each tree."""

    no_share: float
    shared: float
    reasons: Mapping[int, str]


def compare(plan: StreamPlan, prices: Prices) -> Comparison:
    """Compare a stream's plan with No Share and Shared (Guirguis et al., section 4)."""
    event = prices.weights.event * prices.rate
    no_share = shared = 0.0
    reasons: dict[int, str] = {}
    for base in plan.bases:
        families: dict[tuple[str, ...], list[Tree]] = {}
        for tree in plan.fed_by(base):
            families.setdefault(tree.group_by, []).append(tree)
        for trees in families.values():
            family = _Family(base, trees, prices, unions_of(trees))
            shared += event + family.together()
            for place, tree in enumerate(trees):
                alone = {window: family.alone(window) for window in tree.windows}
                no_share += sum(event + alone[planned.query.window] for planned in tree.queries)
                reasons[tree.number] = family.reason(place, sum(alone.values()))
    return Comparison(no_share, shared, reasons)


@dataclass(frozen=True)
class _Family:
    """The trees of a base that have the same groups, and what folding their fragments takes a second."""

    base: Base
    trees: Sequence[Tree]
    prices: Prices
    unions: Unions

    def alone(self, window: Window) -> float:
        """Of one window by itself."""
        lengths = lengths_in_slots(window, self.base.granularity)
        return self._folds(Cuts.of([lengths]).rate, self.prices.visits_for(*lengths))

    def together(self) -> float:
        """Of all trees as one."""
        return self._folds(self.unions.of_all(), sum(self.prices.visits(tree) for tree in self.trees))

    def reason(self, place: int, alone: float) -> str:
        """Why a tree has the windows that it has; `alone` is what each of them takes by itself, all together."""
        tree, feeding = self.trees[place], self.prices.feeding(self.trees[place], self.base)
        parts = []
        if len(tree.windows) > 1:
            apart = alone + len(tree.windows) * feeding
            parts.append(
                f"its {len(tree.windows)} windows take {self.prices.tree(tree, self.base):,.0f} a second together "
                f"and {apart:,.0f} apart"
            )
        others = [other for other in range(len(self.trees)) if other != place][:_MOST_COMPARED]
        losses = {other: self._loss(place, other) - feeding for other in others}
        if losses:
            nearest = min(losses, key=lambda other: losses[other])
            number = self.trees[nearest].number
            parts.append(f"with tree {number} it would take {losses[nearest]:,.0f} more than apart")
        if not parts:
            parts.append("the only window of its groups")
        return "; ".join(parts)

    def _loss(self, one: int, other: int) -> float:
        """What folding two trees as one takes more than folding each."""
        visits = [self.prices.visits(self.trees[place]) for place in (one, other)]
        apart = sum(self.prices.folding(self.trees[place], combines) for place, combines in zip((one, other), visits))
        return self._folds(self.unions.of_two(one, other), sum(visits)) - apart

    def _folds(self, rate: float, visits: float) -> float:
        return self.prices.folds(rate, visits, self.trees[0])
