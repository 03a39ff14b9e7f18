"""What a plan costs: events into bases, partials into trees, fragments into answers.

A base costs one operation per event. A tree costs `FEED` combines for each partial that it is fed, and one combine for
each fragment and instance that the fragment belongs to (Guirguis et al., section 3, equations 1 to 3), for every group.
If many instances close at once, as in Spark's batches, two stacks answer all of them in one pass, and a fragment costs
one combine for each window at any overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import expm1, inf, prod
from numbers import Real

from panewise.errors import ArgumentError
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.names import WEAVE_SHARE, check_method
from panewise.planning.trees import DEFAULT_RATE, Base, Clock, PlanContent, StreamPlan, Tree
from panewise.windows import Window
from panewise.windows.slots import lengths_of

ASSUMED_VALUES = 100
"""The assumed number of different values of an unknown attribute."""

DEFAULT_TOLERANCE = 0.2
"""The tolerance of Guirguis et al., section 5.2."""

FEED = 8.0
"""What feeding a partial to a tree costs, in combines: it is sorted in and put together with its fragment."""


@dataclass(frozen=True)
class Prices:
    """What planning is told.

    Costs follow from events per second, weights, and how many values attributes have.
    """

    rate: float = DEFAULT_RATE
    weights: Weights = UNIT_WEIGHTS
    groups: Mapping[str, int] = field(default_factory=dict)
    in_bulk: bool = False
    """Whether many windows close at once."""
    method: str = WEAVE_SHARE
    """Which method decides what shares a tree."""
    tolerance: float = DEFAULT_TOLERANCE
    """How much more than a fresh plan a plan may cost, as a share, before it is made anew."""
    seen: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """How many groups some sorted sets of attributes were seen to make; otherwise it is the product of `groups`."""

    def __post_init__(self) -> None:
        if not (isinstance(self.rate, Real) and 0 < self.rate < inf):
            raise ArgumentError(f"rate must be positive, a number of events a second; got {self.rate!r}")
        check_method(self.method)
        is_number = isinstance(self.tolerance, Real) and not isinstance(self.tolerance, bool)
        if not (is_number and self.tolerance >= 0):
            raise ArgumentError(f"tolerance is a share of a plan's cost, at least 0, as in 0.2; got {self.tolerance!r}")
        if not isinstance(self.groups, Mapping):
            raise ArgumentError(
                f"groups is a dict from attribute to about how many values it has, not {type(self.groups).__name__}"
            )
        for name, count in self.groups.items():
            if not (isinstance(count, Real) and 0 < count < inf):
                raise ArgumentError(f"groups[{name!r}] must be positive, a number of values; got {count!r}")

    def groups_of(self, attributes: tuple[str, ...]) -> int:
        """How many groups some attributes make."""
        known = self.seen.get(tuple(sorted(attributes)))
        return prod(self.groups.get(name, ASSUMED_VALUES) for name in attributes) if known is None else known

    def fed_per_slot(self, base: Base) -> float:
        """The cost of feeding a tree, for one group and slot: the chance that the slot has a partial of the group."""
        events = self.rate * base.granularity / 1_000_000 if base.clock is Clock.TIME else float(base.granularity)
        return FEED * -expm1(-events / self.groups_of(base.group_by))

    def base(self, base: Base) -> float:
        """Operations per second of a base."""
        return self.weights.event * self.rate

    def tree(self, tree: Tree, base: Base) -> float:
        """Operations per second of a tree."""
        return self.serving(tree, base, tree.windows)

    def serving(self, tree: Tree, base: Base, windows: Iterable[Window]) -> float:
        """Operations per second of a tree that answers some windows."""
        return self.feeding(base) + self.folding(tree, sum(self.visits_for(*lengths_of(one)) for one in windows))

    def feeding(self, base: Base) -> float:
        """Operations per second of putting a base's partials into the fragments of one tree."""
        fed = self.fed_per_slot(base) * self.groups_of(base.group_by)
        return self.weights.combine * fed * self.slots_per_s(base)

    def folding(self, tree: Tree, visits: float) -> float:
        """Operations per second of combining each of a tree's fragments `visits` times."""
        return self.folds(tree.cuts.rate, visits, tree)

    def folds(self, rate: float, visits: float, like: Tree) -> float:
        """The same for another number of fragments per slot, of the same slots and groups."""
        fragments = rate * self.slots_per_s(like) * self.groups_of(like.group_by)
        return self.weights.combine * fragments * visits

    def visits(self, tree: Tree) -> float:
        """How many combines a fragment of a tree costs."""
        return sum(self.visits_for(*lengths_of(window)) for window in tree.windows)

    def visits_for(self, length: int, slide: int) -> float:
        """How many combines a fragment costs one window."""
        return 1.0 if self.in_bulk else length / slide

    def slots_per_s(self, tree: Tree | Base) -> float:
        """How many slots pass in a second."""
        return 1_000_000 / tree.granularity if tree.clock is Clock.TIME else self.rate / tree.granularity

    def stream(self, plan: StreamPlan) -> float:
        """Operations per second of all bases and trees of a stream."""
        trees = sum(self.tree(tree, plan.base_of(tree)) for tree in plan.trees)
        return trees + sum(self.base(base) for base in plan.bases)


def overlap(tree: Tree) -> float:
    """How many instances of the tree's different windows an event belongs to: the sum of range over slide."""
    return sum(length / slide for length, slide in map(lengths_of, tree.windows))


def cost_of(plan: PlanContent) -> float:
    """The cost of all bases and trees of a plan together."""
    prices = Prices(plan.rate, plan.weights, plan.groups, plan.in_bulk)
    return sum(prices.stream(stream) for stream in plan.streams.values())
