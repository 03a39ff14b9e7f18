"""Structures: shared by every window over a stream, one algorithm a file, one interface, one list of them all."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import HistoryError, UnknownNameError, WindowError
from panewise.structures.base_intervals import BaseIntervals
from panewise.structures.landmark_intervals import LandmarkIntervals
from panewise.structures.materialize_all import MaterializeAll
from panewise.structures.recompute import Recompute
from panewise.structures.running_intervals import RunningIntervals
from panewise.structures.search_tree import SearchTree
from panewise.structures.sheet import DataSheet
from panewise.structures.sorted_base_intervals import SortedBaseIntervals
from panewise.structures.structure import Structure, restore

EVERY_STRUCTURE: tuple[type[Structure], ...] = (
    BaseIntervals,
    LandmarkIntervals,
    RunningIntervals,
    SortedBaseIntervals,
    SearchTree,
    MaterializeAll,
    Recompute,
)
"""The list of all structures: the planner, the data sheets, the tests and the benchmarks read it."""

BY_NAME = {structure.sheet.name: structure for structure in EVERY_STRUCTURE}

__all__ = [
    "EVERY_STRUCTURE",
    "DataSheet",
    "HistoryError",
    "Structure",
    "UserAggregate",
    "WindowError",
    "build",
    "restore",
]


def build(
    name: str,
    aggregate: str | UserAggregate,
    windows: Iterable[tuple[int, int]] = (),
    *,
    type: Type | None = None,
) -> Structure:
    """A structure by name, for an aggregate and windows [left, right] counted back from the end.

    `type` is the type of the values; if it is not given, the first values decide.

    >>> maxima = build("base_intervals", aggregate="max", windows=[(4, 0), (3, 1)])
    >>> maxima.update([5, 9, 2, 7])
    >>> maxima.lookup([4, 3, 2], [0, 1, 0]).tolist()
    [9, 9, 7]
    """
    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BY_NAME)}"
        raise UnknownNameError(f"there is no structure {name!r}; {hint}")
    return BY_NAME[name](aggregate, windows, type=type)
