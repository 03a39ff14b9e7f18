"""The cost of every method's plan, for more and more queries."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.plan_costs import cases, small_sets


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each number of queries; sets that Exhaustive can plan, if there are any."""
    yield from cases(parameters, parameters["methods"])
    yield from small_sets(parameters)
