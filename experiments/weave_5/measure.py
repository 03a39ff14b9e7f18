"""The cost of every method's plan, for more and more queries."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.plan_costs import cases


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each number of queries."""
    yield from cases(parameters, parameters["methods"])
