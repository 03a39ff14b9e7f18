"""Lookups a second of three structures, for wider and wider windows anywhere in what is held."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.figures import Case, Parameters
from experiments.structure_rates import AGGREGATES, full_structure, lookups_per_s
from experiments.tables import Row


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each structure."""
    for name in AGGREGATES:
        yield Case(name, partial(_rows, parameters, name))


def _rows(parameters: Parameters, name: str) -> Iterator[Row]:
    largest, seed = parameters["largest"], parameters["seed"]
    structure = full_structure(name, largest, seed)
    for width in parameters["widths"]:
        rate = lookups_per_s(structure, largest, width, parameters["lookups"], parameters["repeat"], seed)
        yield {
            "structure": name,
            "aggregate": AGGREGATES[name],
            "largest": largest,
            "width": width,
            "lookups_per_s": rate,
        }
