"""The plans of Weave Share, and their cost beside that of Shared, for every combination of the parameters."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.plan_costs import cases


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each combination."""
    yield from cases(parameters)
