"""What windowed indexes cost a tuple, as rows: the loads and ways of `panewise bench indexes`.

A window is filled, then the next window's length of tuples is timed, one basic window a call; the L-INDEX gets the
first tenth of them, once. Times are processor time, the least of the runs. Exact ways must give the same answers before
they are timed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.indexes import Load, check, deletion, timed, ways
from experiments.figures import Case, Parameters
from experiments.tables import Row, Table

TIME = "processor time (nanoseconds per tuple)"
LOADS = "basic windows, and below them distinct values"
SLOW_SHARE = 0.1
CHECKED = 20
"""Answers are compared for basic windows of this many tuples."""
SETTING = ("basic_windows", "values", "distribution")


def cases(parameters: Parameters, chosen: Mapping[str, Collection[str]]) -> Iterator[Case]:
    """A case for each load and each thing to measure, given with the names of the ways to do it."""
    for measure, names in chosen.items():
        for basic_windows in parameters["basic_windows"]:
            for values in parameters["values"]:
                for distribution in parameters["distributions"]:
                    load = Load(parameters["tuples"], basic_windows, values, distribution)
                    label = f"{measure}, {basic_windows} basic windows, {values:,} values, {distribution}"
                    yield Case(label, partial(_rows, measure, load, names, parameters))


def _rows(measure: str, load: Load, names: Collection[str], parameters: Parameters) -> Iterator[Row]:
    check(measure, replace(load, tuples=CHECKED * load.basic_windows))
    first, runs = parameters["seed"], parameters["runs"]
    for way in names:
        # Compiles what will be timed.
        _time(measure, replace(load, tuples=200, basic_windows=4), way, first)
        seeds = range(first, first + (1 if _is_slow(way) else runs))
        yield {
            "measure": measure,
            "way": way,
            "tuples": load.tuples,
            "basic_windows": load.basic_windows,
            "values": load.values,
            "distribution": load.distribution,
            "runs": len(seeds),
            "ns_per_tuple": min(_time(measure, load, way, seed) for seed in seeds),
        }


def _time(measure: str, load: Load, way: str, seed: int) -> float:
    if measure == "deletion":
        return deletion(load, way.removeprefix("ring "), seed)
    make = dict(ways(measure, load))[way]
    return timed(load, make, seed, SLOW_SHARE if _is_slow(way) else 1.0)


def _is_slow(way: str) -> bool:
    return way.startswith("l_index")


def slower(table: Table, measure: str, slow: str, fast: str, **where: Any) -> list[float]:
    """How many times as long one way takes as another, load by load."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in table.where(measure=measure, **where).rows:
        found.setdefault(tuple(row[name] for name in SETTING), {})[row["way"]] = row["ns_per_tuple"]
    return [each[slow] / each[fast] for each in found.values() if slow in each and fast in each]


def groups(table: Table) -> list[tuple[str, dict[str, Any]]]:
    """The loads of a table as groups of bars: basic windows, and below them the values."""
    return [
        (f"{windows}\n{values:,}", {"basic_windows": windows, "values": values})
        for values in table.distinct("values")
        for windows in table.distinct("basic_windows")
    ]
