"""The plans of Weave Share, and their cost beside that of Shared, for every rate; other methods at a high one."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.plan_costs import RIVALS, cases

HIGH_RATE = 10_000


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each combination, and one more for the rivals."""
    yield from cases(parameters)
    others = [name for name in RIVALS if name not in ("shared", "local_search_from_random")]
    yield from cases({**parameters, "queries": parameters["rivals"], "rates": [HIGH_RATE]}, others)
