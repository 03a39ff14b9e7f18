"""The histogram after each basic window; the intersection of two windows after each pair of them."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.index_costs import cases

INDEXES = ("l_index", "t_index", "h_index 100")
HISTOGRAM = tuple(f"{index} over {storage}" for storage in ("list", "aggr") for index in ("none", *INDEXES))
INTERSECTION = (
    "none over list",
    "t_index over list",
    "h_index 100 over list",
    "g_index 10 over group",
    "g_index 50 over group",
)


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each question and load."""
    yield from cases(parameters, {"histogram": HISTOGRAM, "intersection": INTERSECTION})
