"""Local Search: move one class of queries at a time to the tree where it saves most.

It begins with No Share or with Random; the moves are bounded by a multiple of what Weave Share needs to merge all.
Source: Guirguis et al., section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.plan import SharingPlan, by_first_query
from panewise.planning.sharing.queries import Queries
from panewise.planning.sharing.random_trees import random_trees
from panewise.planning.sharing.space import DEFAULT_CAPS, Caps, Space, Work
from panewise.planning.sharing.weave_share import empty_plan

Begin = Literal["no_share", "random"]


@dataclass(frozen=True)
class LocalSearch:
    """At most `moves_per_class` moves for each different edge set. Cost: classes times trees for each round."""

    begin: Begin = "no_share"
    moves_per_class: int = 10
    seed: int = 0
    caps: Caps = DEFAULT_CAPS

    @property
    def name(self) -> str:
        """What the method is called."""
        return f"local_search_from_{self.begin}"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        if not len(queries):
            return empty_plan(self.name, queries, rate, weights)
        classes = queries.classes
        space = Space.of(classes, self.caps)
        size = len(classes)
        tree_of = np.arange(size) if self.begin == "no_share" else by_first_query(random_trees(size, self.seed))
        tree_of, moves = space.move(tree_of, space.options(rate, weights), self.moves_per_class * size)
        return SharingPlan.of(self.name, queries, tree_of[classes.class_of], rate, weights, Work(moves))
