"""Inputs a second of CI-COUNT for each p, and of asking every substream, over the stream of `panewise bench
substreams`.

CI-COUNT checks its candidates, so its answers are exact; they are compared with those of the scan, and a difference
stops the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from functools import cache, partial
from typing import Any

from benchmarks.substreams import PARTS, Load, Scale, measure_one, sets_of
from experiments.figures import Case, Parameters
from experiments.tables import Row

from panewise.errors import PanewiseError


def measure(parameters: Parameters) -> Iterator[Case]:
    """The scan first, because the others are compared with it, and once more at the end."""
    scale = Scale(**{field.name: parameters[field.name] for field in fields(Scale)})
    load = cache(lambda: Load(scale, "count", parameters["seed"]))
    expected: list[list[list[int]]] = []
    scan: tuple[str, dict[str, Any]] = ("scan_substreams", {"aggregate": "count"})
    indexes = [("collective_count", {"levels_per_size": p}) for p in parameters["levels_per_size"]]
    for name, options in (scan, *indexes, scan):
        label = f"{name} {' '.join(f'{key} {value}' for key, value in options.items())}"
        yield Case(label, partial(_rows, load, name, options, expected))


def _rows(
    load: Callable[[], Load], name: str, options: dict[str, Any], expected: list[list[list[int]]]
) -> Iterator[Row]:
    measured, answers = measure_one(load(), name, options, "")
    # Parts of the scan are shorter: its first lies within the first of the others.
    found = sets_of(answers[:1], load().scale.scan_pairs // PARTS)
    expected.append(found)
    if found != expected[0]:
        raise PanewiseError(f"{name} with {options} does not give the answers of the scan")
    yield {key: value for key, value in asdict(measured).items() if key not in ("times_scan", "options")}
