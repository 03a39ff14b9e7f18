"""Substreams: which keys pass a threshold over a window, without asking every key; one algorithm a file, one list."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from panewise.errors import SubstreamError
from panewise.substreams.choice import FilterChoice, choose, collective_index
from panewise.substreams.collective_count import CollectiveCount
from panewise.substreams.collective_extremes import CollectiveMax, CollectiveMin
from panewise.substreams.collective_sum import CollectiveSum
from panewise.substreams.filter import Matches, SubstreamFilter
from panewise.substreams.levels import error_of, levels_for
from panewise.substreams.scan import ScanSubstreams
from panewise.substreams.sheet import Cost, FilterShape, FilterSheet

EVERY_FILTER: tuple[type[SubstreamFilter], ...] = (
    CollectiveCount,
    CollectiveSum,
    CollectiveMax,
    CollectiveMin,
    ScanSubstreams,
)
"""The list of all substream filters."""

BY_NAME = {each.sheet.name: each for each in EVERY_FILTER}

__all__ = [
    "EVERY_FILTER",
    "Cost",
    "FilterChoice",
    "FilterShape",
    "FilterSheet",
    "Matches",
    "SubstreamError",
    "SubstreamFilter",
    "build",
    "choose",
    "collective_index",
    "error_of",
    "levels_for",
]


def build(name: str, largest_us: int, **options: Any) -> SubstreamFilter:
    """A substream filter by name, for windows up to `largest_us`.

    Options are `error` or `levels_per_size` for collective_count and collective_sum, `doubles` for collective_max and
    collective_min, `aggregate`, `doubles` and `by_probe` for scan_substreams.

    >>> busy = build("collective_count", largest_us=60, error=0.1)
    >>> busy.update(keys=[0, 1, 0, 2, 0, 1], values=None, times=[10, 20, 30, 40, 50, 60])
    >>> sorted(busy.lookup(now=60, range_us=60, comparison=">=", threshold=2).of(0).tolist())
    [0, 1]
    """
    if name not in BY_NAME:
        near = get_close_matches(name, BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BY_NAME)}"
        raise SubstreamError(f"there is no substream filter {name!r}; {hint}")
    return BY_NAME[name](largest_us, **options)
