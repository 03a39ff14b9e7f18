"""What each query costs: its answers, and its share of the time of the execution trees that answer it.

A batch's progress has room for sums, not for thousands of names. So workers add up costs on a way of their own
(`panewise.spark.cost_accumulator`), and whoever wants them reads them here, without Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple


class QueryCost(NamedTuple):
    """The answers of a query, and the time in nanoseconds that went into them."""

    answers: int = 0
    ns: int = 0

    def plus(self, other: QueryCost) -> QueryCost:
        """Both together."""
        return QueryCost(self.answers + other.answers, self.ns + other.ns)


Costs = dict[tuple[str, str], QueryCost]
"""The cost of each query, by the id of the run and its name."""

LOCK = threading.Lock()
"""Spark's thread adds while others read."""
KNOWN: list[Callable[[], Costs]] = []
"""What gives the costs that came so far: a function for each Spark application of this process."""


def costs_of_run(run: str) -> dict[str, QueryCost]:
    """The cost of each query of a run so far, in the order in which they first had answers."""
    with LOCK:
        return {name: cost for costs in KNOWN for (of_run, name), cost in costs().items() if of_run == run}


def add(known: Costs, more: Costs) -> None:
    """Add costs to those that are known."""
    with LOCK:
        for name, cost in more.items():
            known[name] = known.get(name, QueryCost()).plus(cost)
