"""What it costs a ring to let the oldest basic window leave, and the rows by value after each basic window."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.index_costs import cases

RINGS = ("ring forward", "ring auxiliary", "ring backward", "ring dirty_bits")


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each thing to measure and load."""
    yield from cases(parameters, {"deletion": RINGS, "maintenance": RINGS, "sorted_scan": ("none over list", *RINGS)})
