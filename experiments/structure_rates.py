"""How many updates and lookups a second R-INT, B-INT and B-INT-QNT take, in batches; medians of several.

A batch of updates is no longer than the largest window: with a longer one, a structure would skip the elements that no
lookup can reach. The largest windows begin at 10,000 elements: shorter batches would measure the calls of Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.structures import BATCH, nanoseconds, windows_of_width

from panewise.structures import Structure, build

AGGREGATES = {"running_intervals": "SUM", "base_intervals": "MAX", "sorted_base_intervals": "QUANTILE"}
NAMES = {
    "running_intervals": "R-INT (SUM)",
    "base_intervals": "B-INT (MAX)",
    "sorted_base_intervals": "B-INT-QNT (QUANTILE)",
}


def values(seed: int) -> npt.NDArray[np.int64]:
    """A batch of elements. The rates do not depend on the values, except for the order of those that are sorted."""
    return np.random.default_rng(seed).integers(-1_000_000, 1_000_000, BATCH)


def full_structure(name: str, largest: int, seed: int) -> Structure:
    """A structure that has seen twice as many elements as it holds."""
    structure = build(name, AGGREGATES[name], [(largest, 0)])
    batch = values(seed)
    for _ in range(-(-2 * largest // BATCH)):
        structure.update(batch)
    return structure


def updates_per_s(name: str, largest: int, repeat: int, seed: int) -> float:
    """The rate of updates alone."""
    structure, batch = full_structure(name, largest, seed), values(seed)
    pieces = np.split(batch, range(largest, BATCH, largest))

    def update() -> None:
        for piece in pieces:
            structure.update(piece)

    return 1e9 / nanoseconds(update, BATCH, repeat)


def lookups_per_s(structure: Structure, largest: int, width: int, count: int, repeat: int, seed: int) -> float:
    """The rate of lookups alone: windows of one width at any place, for quantiles of any rank."""
    random = np.random.default_rng(seed)
    left, right = windows_of_width(random, largest, width, count)
    ranks: tuple[Any, ...] = (random.random(count),) if structure.name == "sorted_base_intervals" else ()
    return 1e9 / nanoseconds(lambda: structure.lookup(left, right, *ranks), count, repeat)
