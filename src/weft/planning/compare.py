"""A stream's plan beside what else could have been done: no sharing, one tree for all, and other merges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.planning.cost import Prices, overlap
from weft.planning.plan import Base, StreamPlan, Tree
from weft.windows.cuts import Cuts
from weft.windows.slots import lengths_of

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
        trees = plan.fed_by(base)
        for tree in trees:
            alone = [_alone(tree, window_lengths, prices) for window_lengths in _lengths(tree)]
            places = {window: place for place, window in enumerate(tree.windows)}
            no_share += sum(event + alone[places[planned.query.window]] for planned in tree.queries)
            reasons[tree.number] = _reason(tree, trees, base, sum(alone), prices)
        for group_by in dict.fromkeys(tree.group_by for tree in trees):
            together = [tree for tree in trees if tree.group_by == group_by]
            shared += event + _fold_together(together, prices)
    return Comparison(no_share, shared, reasons)


def _reason(tree: Tree, trees: tuple[Tree, ...], base: Base, alone: float, prices: Prices) -> str:
    feeding = prices.feeding(tree, base)
    parts = []
    if len(tree.windows) > 1:
        apart = alone + len(tree.windows) * feeding
        parts.append(
            f"its {len(tree.windows)} windows take {prices.tree(tree, base):,.0f} a second together "
            f"and {apart:,.0f} apart"
        )
    losses = {
        other.number: _fold_together([tree, other], prices)
        - prices.folding(tree, overlap(tree))
        - prices.folding(other, overlap(other))
        - feeding
        for other in [one for one in trees if one is not tree and one.group_by == tree.group_by][:_MOST_COMPARED]
    }
    if losses:
        nearest = min(losses, key=lambda number: losses[number])
        parts.append(f"with tree {nearest} it would take {losses[nearest]:,.0f} more than apart")
    if not parts:
        parts.append("the only window of its groups")
    return "; ".join(parts)


def _alone(tree: Tree, lengths: tuple[int, int], prices: Prices) -> float:
    return prices.folds(Cuts.of([lengths]), lengths[0] / lengths[1], tree)


def _fold_together(trees: list[Tree], prices: Prices) -> float:
    cuts = Cuts.of(lengths for tree in trees for lengths in _lengths(tree))
    return prices.folds(cuts, sum(overlap(tree) for tree in trees), trees[0])


def _lengths(tree: Tree) -> list[tuple[int, int]]:
    """The range and slide of each window, in slots."""
    lengths = (lengths_of(window) for window in tree.windows)
    return [(length // tree.granularity, slide // tree.granularity) for length, slide in lengths]
