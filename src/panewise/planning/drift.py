"""Drift: how far a plan may move away from a fresh one as queries come and go (Guirguis et al., section 5.2).

The engine and Spark ask here, so both decide alike. Nothing depends on clocks or on who asks: the same changes give the
same decisions, also in a replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from panewise.planning.cost import Prices
from panewise.planning.trees import Base, Tree
from panewise.windows import Window

FEW_QUERIES = 64
"""With up to this many queries, a plan is compared with a fresh one after every change."""
CHECKED_SHARE = 0.05
"""With more, it is compared once so many of those above have changed: planning takes longer than a change."""
MOST_GENERATIONS = 4
"""With more generations of queries than this, all queries are planned together again."""
FIRST_LOOK = 100_000
"""After so many events, plans follow the rate and the groups that were seen."""


def is_worth_a_look(events: int, looked_at: int) -> bool:
    """Whether to look at what was seen, after so many events, if that was last done after `looked_at` of them.

    Each time that they have doubled, from `FIRST_LOOK` on: guesses are good enough for fewer.
    """
    return events >= max(FIRST_LOOK, 2 * looked_at)


def is_due(prices: Prices, changes: int, queries: int, cost: float, known_cost: float | None) -> bool:
    """Whether to compare the plan of some queries with a fresh one, after so many changes since this was last done.

    `cost` is what the plan costs now, and `known_cost` what a fresh one did then: a plan of many queries is also
    compared once it costs so much more that it may be beyond the tolerance.
    """
    if not changes or queries < 2 or prices.tolerance == inf:
        return False
    has_jumped = known_cost is not None and is_beyond(prices, cost, known_cost)
    return has_jumped or changes > (queries - FEW_QUERIES) * CHECKED_SHARE


def is_beyond(prices: Prices, cost: float, fresh_cost: float) -> bool:
    """Whether a plan costs more than the tolerance allows."""
    return cost > fresh_cost * (1 + prices.tolerance)


def cost_at_work(prices: Prices, trees: Iterable[tuple[Base, Tree, Iterable[Window]]]) -> float:
    """Operations per second of trees, each with its base and the windows of its queries, and of those bases."""
    cost, bases = 0.0, {}
    for base, tree, windows in trees:
        bases[base.number] = base
        cost += prices.serving(tree, base, windows)
    return cost + sum(map(prices.base, bases.values()))
