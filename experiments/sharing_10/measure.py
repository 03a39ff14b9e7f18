"""Updates a second of three structures, for larger and larger windows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.figures import Case, Parameters
from experiments.structure_rates import AGGREGATES, updates_per_s
from experiments.tables import Row


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each structure and largest window."""
    for name in AGGREGATES:
        for largest in parameters["largest"]:
            work = partial(_rows, name, largest, parameters["repeat"], parameters["seed"])
            yield Case(f"{name}, largest window {largest:,}", work)


def _rows(name: str, largest: int, repeat: int, seed: int) -> Iterator[Row]:
    rate = updates_per_s(name, largest, repeat, seed)
    yield {"structure": name, "aggregate": AGGREGATES[name], "largest": largest, "updates_per_s": rate}
