"""Exhaustive: the best plan of all, for few different edge sets.

Every subset, and not every partition, is priced once. The best partition of a set follows from the best partitions of
its subsets: 3 ** n steps. Source of the comparison: Guirguis et al., section 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panewise.errors import TooManyQueriesError
from panewise.kernels import tree_search as kernels
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries
from panewise.planning.sharing.space import DEFAULT_CAPS, Caps, Space
from panewise.planning.sharing.weave_share import empty_plan

MOST_EDGE_SETS = 16
"""More different edge sets than this would take minutes."""


@dataclass(frozen=True)
class Exhaustive:
    """The plan with the least cost of all. Cost: 3 ** n steps for n different edge sets."""

    caps: Caps = DEFAULT_CAPS
    name: str = "exhaustive"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        classes = queries.classes
        size = len(classes)
        if size > MOST_EDGE_SETS:
            raise TooManyQueriesError(
                f"exhaustive search takes at most {MOST_EDGE_SETS} different edge sets, and these queries have {size}; "
                "use weave_share"
            )
        if not size:
            return empty_plan(self.name, queries, rate, weights)
        space = Space.of(classes, self.caps)
        options = space.options(rate, weights)
        counts = kernels.count_subsets(space.bitmaps)
        single = 1 << np.arange(size)
        is_member = (np.arange(1 << size)[:, None] & single) != 0
        rates = counts * options.bit_rate
        if options.is_sample:
            # Only what classes share is an estimate.
            rates += is_member @ (space.rates - rates[single])
        costs = options.event_cost + rates * (options.combine * (is_member @ classes.factors) + options.edge)
        tree_of = kernels.best_partition(costs, size)
        return SharingPlan.of(self.name, queries, tree_of[classes.class_of], rate, weights)
