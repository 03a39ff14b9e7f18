"""No Share: a tree of its own for each query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries


@dataclass(frozen=True)
class NoShare:
    """Every query passes over the events alone. Cost: a sort."""

    name: str = "no_share"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        return SharingPlan.of(self.name, queries, np.arange(len(queries)), rate, weights)
