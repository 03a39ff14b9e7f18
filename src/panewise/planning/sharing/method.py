"""What every method of sharing offers."""

from __future__ import annotations

from typing import Protocol

from panewise.planning.sharing.cost import Weights
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries


class Method(Protocol):
    """A way to decide which queries share a tree."""

    @property
    def name(self) -> str:
        """What the method is called."""

    def share(self, queries: Queries, rate: float, weights: Weights) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
