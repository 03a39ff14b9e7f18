"""Structures: shared by every window over a stream, one algorithm a file, one interface, one list of them all."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from weft.aggregates.types import Type
from weft.aggregates.user import UserAggregate
from weft.errors import WeftError
from weft.structures.aggregated import HistoryError
from weft.structures.base_intervals import BaseIntervals
from weft.structures.column import WindowError
from weft.structures.landmark_intervals import LandmarkIntervals
from weft.structures.materialize_all import MaterializeAll
from weft.structures.recompute import Recompute
from weft.structures.running_intervals import RunningIntervals
from weft.structures.search_tree import SearchTree
from weft.structures.sheet import DataSheet
from weft.structures.sorted_base_intervals import SortedBaseIntervals
from weft.structures.structure import Structure, restore

EVERY_STRUCTURE: tuple[type[Structure], ...] = (
    BaseIntervals,
    LandmarkIntervals,
    RunningIntervals,
    SortedBaseIntervals,
    SearchTree,
    MaterializeAll,
    Recompute,
)
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

    `type` is that of the values; when it is not given, the first values decide.

    >>> maxima = build("base_intervals", aggregate="max", windows=[(4, 0), (3, 1)])
    >>> maxima.update([5, 9, 2, 7])
    >>> maxima.lookup([4, 3, 2], [0, 1, 0]).tolist()
    [9, 9, 7]
    """
    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BY_NAME)}"
        raise WeftError(f"there is no structure {name!r}; {hint}")
    return BY_NAME[name](aggregate, windows, type=type)
