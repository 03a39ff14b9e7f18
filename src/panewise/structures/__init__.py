"""Structures: shared by every window over a stream, one algorithm a file, one interface, one list of them all."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import HistoryError, SnapshotError, UnknownNameError, WindowError
from panewise.structures.base_intervals import BaseIntervals
from panewise.structures.landmark_intervals import LandmarkIntervals
from panewise.structures.pool import Pool
from panewise.structures.recompute import Recompute
from panewise.structures.rivals.materialize_all import MaterializeAll
from panewise.structures.rivals.search_tree import SearchTree
from panewise.structures.running_intervals import RunningIntervals
from panewise.structures.sheet import DataSheet
from panewise.structures.snapshot import unpack
from panewise.structures.sorted_base_intervals import SortedBaseIntervals
from panewise.structures.structure import Structure

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
    pool: Pool | None = None,
) -> Structure:
    """A structure by name, for an aggregate and windows [left, right] counted back from the end.

    `type` is the type of the values; if it is not given, the first values decide. A `pool` is shared with others.

    >>> maxima = build("base_intervals", aggregate="max", windows=[(4, 0), (3, 1)])
    >>> maxima.update([5, 9, 2, 7])
    >>> maxima.lookup([4, 3, 2], [0, 1, 0]).tolist()
    [9, 9, 7]

    With keys, windows are counted back from the end of each key's substream.

    >>> sums = build("running_intervals", aggregate="sum", windows=[(2, 0)])
    >>> sums.update([5, 9, 2, 7], keys=[0, 1, 0, 0])
    >>> sums.lookup(2, keys=[0, 1, 2]).tolist()
    [9, 9, None]
    """
    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BY_NAME)}"
        raise UnknownNameError(f"there is no structure {name!r}; {hint}")
    return BY_NAME[name](aggregate, windows, type=type, pool=pool)


def restore(blob: bytes, *, aggregate: UserAggregate | None = None) -> Structure:
    """The structure that `snapshot` was taken of; a user-defined aggregate must be given again."""
    packed = unpack(blob)
    name = packed[0].get("structure")
    if name not in BY_NAME:
        raise SnapshotError(f"the snapshot is of a structure {name!r} that this version does not have")
    return BY_NAME[name].from_snapshot(packed, aggregate)
