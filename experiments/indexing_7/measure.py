"""Append and attach, no question asked, for every storage and index."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.index_costs import cases

STORAGES = ("list", "aggr", "hash")
COUNTING = tuple(f"{index} over {storage}" for storage in STORAGES for index in ("l_index", "t_index", "h_index 100"))
GROUPING = ("none over list", "g_index 10 over group", "g_index 50 over group")


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each load."""
    yield from cases(parameters, {"maintenance": (*COUNTING, *GROUPING)})
