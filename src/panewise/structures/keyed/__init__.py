"""Keyed structures: one aggregate over many substreams, 1 to millions of keys, with no object for any of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import UnknownNameError
from panewise.structures.keyed.base_intervals import KeyedBaseIntervals
from panewise.structures.keyed.keyed import KeyedStructure, restore_keyed
from panewise.structures.keyed.landmark_intervals import KeyedLandmarkIntervals
from panewise.structures.keyed.pool import Pool
from panewise.structures.keyed.recompute import KeyedRecompute
from panewise.structures.keyed.running_intervals import KeyedRunningIntervals

EVERY_KEYED_STRUCTURE: tuple[type[KeyedStructure], ...] = (
    KeyedBaseIntervals,
    KeyedLandmarkIntervals,
    KeyedRunningIntervals,
    KeyedRecompute,
)
KEYED_BY_NAME = {structure.sheet.name: structure for structure in EVERY_KEYED_STRUCTURE}

__all__ = ["EVERY_KEYED_STRUCTURE", "KeyedStructure", "build_keyed", "restore_keyed"]


def build_keyed(
    name: str,
    aggregate: str | UserAggregate,
    windows: Iterable[tuple[int, int]] = (),
    *,
    type: Type | None = None,
    pool: Pool | None = None,
) -> KeyedStructure:
    """A keyed structure by name, for an aggregate and windows [left, right] back from the end of each key's substream.

    `type` is the type of the values; if it is not given, the first values decide. A `pool` is shared with others.

    >>> sums = build_keyed("running_intervals", aggregate="sum", windows=[(2, 0)])
    >>> sums.update([0, 1, 0, 0], [5, 9, 2, 7])
    >>> sums.lookup([0, 1, 2], 2).tolist()
    [9, 9, None]
    """
    if name not in KEYED_BY_NAME:
        near = get_close_matches(name, KEYED_BY_NAME, 1)
        raise UnknownNameError(
            f"there is no keyed structure {name!r}; "
            + (f"did you mean {near[0]!r}? " if near else "")
            + f"there are {', '.join(KEYED_BY_NAME)}"
        )
    return KEYED_BY_NAME[name](aggregate, windows, type=type, pool=pool)
