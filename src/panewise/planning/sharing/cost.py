"""What trees cost: one operation per event, and for each fragment the fold factors of the tree's queries.

The paper folds a fragment once into each instance that it belongs to, so a query's factor is its range over its slide.
A structure that needs fewer combines has a smaller factor: two stacks fold a fragment about once at any overlap.

All costs are per unit: `rate` is the number of events per unit of the ranges and slides. With ranges in seconds and
events per second, costs are operations per second; with ranges in rows the rate is 1 and costs are per event.
Source: Guirguis et al., equations 1 to 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from panewise.errors import ArgumentError


@dataclass(frozen=True)
class Weights:
    """What an operation costs: adding one event to a partial, and combining one partial into an instance.

    The paper counts both as 1. Measured weights depend on the aggregate and on the machine, so the caller gives them
    (see `panewise.planning.calibration`); `source` says where they come from. Beyond the paper, `edge` is what each
    edge of a tree costs by itself, whatever its queries: where windows close one by one, that is to close them. The
    last four are in combines, and say what trees of the engine cost beside theirs (see `panewise.planning.cost`);
    methods of sharing know them as a part of `edge` and of what a tree is fed.
    """

    event: float = 1.0
    combine: float = 1.0
    edge: float = 0.0
    source: str = field(default="", compare=False)
    feed: float = 8.0
    """What feeding a partial to a tree costs: it is sorted in and put together with its fragment."""
    tree: float = 1_500.0
    """What a tree costs by itself at each step of the stream, a push and an advance."""
    closing: float = 15_000.0
    """What it costs by itself to close windows of a tree, at each edge."""
    window: float = 2_000.0
    """What each window costs by itself when it closes."""

    def __post_init__(self) -> None:
        if not (self.event > 0 and self.combine > 0):
            raise ArgumentError(f"weights must be positive, got {self.event} and {self.combine}")
        if min(self.edge, self.feed, self.tree, self.closing, self.window) < 0:
            raise ArgumentError(f"weights must not be negative, got {self}")


UNIT_WEIGHTS = Weights()
"""The weights of the paper."""


def tree_cost(rate: float, edge_rate: float, factor: float, weights: Weights = UNIT_WEIGHTS) -> float:
    """Operations per unit of one tree whose queries' fold factors add up to `factor` (equation 1).

    >>> round(tree_cost(1.2, 1 / 4, 16 / 4 + 8 / 4), 2)
    2.7
    """
    return weights.event * rate + edge_rate * (weights.combine * factor + weights.edge)


def merge_benefit(
    rate: float,
    first: tuple[float, float],
    second: tuple[float, float],
    common_rate: float,
    weights: Weights = UNIT_WEIGHTS,
) -> float:
    """What merging two trees saves, each given as (edge rate, fold factor) (equation 5).

    >>> round(merge_benefit(1.2, (1 / 4, 4.0), (1 / 4, 2.0), 1 / 4), 2)
    1.2
    """
    both = tree_cost(rate, first[0] + second[0] - common_rate, first[1] + second[1], weights)
    return tree_cost(rate, *first, weights) + tree_cost(rate, *second, weights) - both
