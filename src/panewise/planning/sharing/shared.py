"""Shared: one tree for all queries, as Shared Time Slices does (Krishnamurthy, Wu and Franklin, SIGMOD 2006)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries


@dataclass(frozen=True)
class Shared:
    """One pass over the events, and every query combines every fragment. Cost: a sort and one count of a union."""

    name: str = "shared"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        return SharingPlan.of(self.name, queries, np.zeros(len(queries), np.int64), rate, weights)
