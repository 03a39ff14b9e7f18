"""Insert-then-Weave: insert queries one at a time into the best tree for each, then merge trees.

The paper leaves the order open; here queries with equal edges come together, sorted by slide. "Best" is the greatest
saving, and a query that saves in no tree begins one. Source: Guirguis et al., section 6.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries
from panewise.planning.sharing.space import DEFAULT_CAPS, Caps, Space, Work, tree_of_classes
from panewise.planning.sharing.weave_share import empty_plan


@dataclass(frozen=True)
class InsertThenWeave:
    """A simpler greedy search than Weave Share. Cost: one comparison per class and tree, then Weave Share."""

    caps: Caps = DEFAULT_CAPS
    name: str = "insert_then_weave"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        if not len(queries):
            return empty_plan(self.name, queries, rate, weights)
        space = Space.of(queries.classes, self.caps)
        trees = space.trees()
        work: Work = space.weave(trees, space.options(rate, weights), insert_first=True)
        tree_of = tree_of_classes(trees)[queries.classes.class_of]
        return SharingPlan.of(self.name, queries, tree_of, rate, weights, work)
