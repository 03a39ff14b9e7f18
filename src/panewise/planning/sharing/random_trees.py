"""Random: a random number of trees, and each query in a random one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panewise.arrays import Ints
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries


@dataclass(frozen=True)
class RandomTrees:
    """Each number of trees from one to the number of queries is equally likely; the same seed gives the same plan."""

    seed: int = 0
    name: str = "random"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        return SharingPlan.of(self.name, queries, random_trees(len(queries), self.seed), rate, weights)


def random_trees(size: int, seed: int) -> Ints:
    """A random tree for each of some queries."""
    random = np.random.default_rng(seed)
    return random.integers(0, random.integers(1, max(size, 1) + 1), size)
