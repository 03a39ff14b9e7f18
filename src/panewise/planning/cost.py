"""What a plan costs: events into bases, partials into trees, fragments into answers.

A base costs one operation per event. A tree costs some combines for each partial that it is fed, and one combine for
each row that its windows visit as they close; a row is a fragment of a group that had events in it. The engine closes
windows one by one. A window that moves visits what enters and leaves, and each such row costs `MOVED_ROWS`; of the
others that end together, the longest visits what it covers, and the shorter ones are folded on the way. The cheaper
way counts, as in the store itself. Beside its rows a tree costs something at each step of the stream and at each
closing, and so does each window: where groups are few, that is nearly all.

If many instances close at once, as in Spark's batches, two stacks answer all of them in one pass: a fragment costs one
combine for each window at any overlap, and nothing is counted for steps and closings, which follow from the batches.
Source: Guirguis et al., section 3, equations 1 to 3, which have an instance visit all its fragments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import expm1, inf, prod
from numbers import Real

from panewise.aggregates.components import Component
from panewise.errors import ArgumentError
from panewise.planning.calibration import SHIPPED
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.names import WEAVE_SHARE, check_method
from panewise.planning.trees import DEFAULT_RATE, Base, Clock, PlanContent, StreamPlan, Tree
from panewise.windows import RowWindow, Window
from panewise.windows.instances import same_ends
from panewise.windows.slots import lengths_of

ASSUMED_VALUES = 100
"""The assumed number of different values of an unknown attribute."""

DEFAULT_TOLERANCE = 0.2
"""The tolerance of Guirguis et al., section 5.2."""

COMBINE_NS = 25.0
"""A partial whose combine takes so long counts as 1, unless weights were given; others count in proportion."""
MOVED_ROWS = 3.0
"""What a row costs that enters or leaves a moving window, in combines."""
HELD = 0.01
"""What it costs to hold a row for a second, in combines: memory is not free, and a tree with short fragments for a long
window would need much."""
STEPS_PER_S = 10.0
"""How often a second a stream is assumed to move on, at most; nothing closes in between."""


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

    combinations: int = 1
    """How many combinations of WHERE clauses events were seen to satisfy, in one tree: each has partials of its own."""

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

    def events_per_slot(self, part: Tree | Base) -> float:
        """How many events a slot has."""
        return self.rate * part.granularity / 1_000_000 if part.clock is Clock.TIME else float(part.granularity)

    def rows(self, cells: float, part: Tree | Base) -> float:
        """How many rows the fragments of a slot have, by their number: one for each group that has events in it."""
        groups = self.most_rows(part)
        return -groups * cells * expm1(-self.events_per_slot(part) / (cells * groups))

    def most_rows(self, part: Tree | Base) -> float:
        """The rows of a fragment in which all groups have events: one for each combination of predicates."""
        return self.groups_of(part.group_by) * min(float(self.combinations), 2.0 ** min(len(part.predicates), 1000))

    def base(self, base: Base) -> float:
        """Operations per second of a base."""
        return self.weights.event * self.rate

    def tree(self, tree: Tree, base: Base) -> float:
        """Operations per second of a tree."""
        return self.serving(tree, base, tree.windows)

    def serving(self, tree: Tree, base: Base, windows: Iterable[Window]) -> float:
        """Operations per second of a tree that answers some windows; one whose queries all wait closes none."""
        windows = list(windows)
        answering = sum(map(self.closing, windows)) + self.folding(tree, self.visits(windows, tree.components))
        return self.feeding(base) + self.running(tree, tree.cuts.rate if windows else 0.0) + answering

    def feeding(self, base: Base) -> float:
        """Operations per second of putting a base's partials into the fragments of one tree."""
        return self.weights.combine * self.weights.feed * self.rows(1.0, base) * self.slots_per_s(base)

    def running(self, part: Tree | Base, edges_per_slot: float) -> float:
        """Operations per second of a tree with so many edges, whatever it is fed and asked."""
        steps_per_s, slots_per_s = self._steps_per_s, self.slots_per_s(part)
        closings_per_s = min(edges_per_slot * slots_per_s, steps_per_s)
        at_steps = self.weights.tree * min(slots_per_s, steps_per_s)
        return self.weights.combine * (at_steps + self.weights.closing * closings_per_s)

    def inputs(self, base: Base, part: Base, edges_per_slot: float, rows: float) -> tuple[float, float]:
        """What sharing decides with: the cost of a slot for one tree, and of an edge, in visits of a fragment.

        `part` has the tree's groups, and a fragment has so many `rows`.
        """
        steps_per_s, slots_per_s = self._steps_per_s, self.slots_per_s(part)
        fed = self.weights.feed * self.rows(1.0, base) + self.weights.tree * min(1.0, steps_per_s / slots_per_s)
        return fed / rows, self.weights.closing * min(1.0, steps_per_s / (slots_per_s * edges_per_slot)) / rows

    def closing(self, window: Window) -> float:
        """Operations per second of closing a window, whatever it covers."""
        per_s = self.rate if isinstance(window, RowWindow) else 1_000_000
        return self.weights.combine * self.weights.window * min(per_s / lengths_of(window)[1], self._steps_per_s)

    @property
    def _steps_per_s(self) -> float:
        return 0.0 if self.in_bulk else STEPS_PER_S

    def folding(self, tree: Tree, visits: float) -> float:
        """Operations per second of visiting each of a tree's rows so many times."""
        return self.folds(tree.cuts.rate, visits, tree)

    def folds(self, rate: float, visits: float, like: Tree | Base) -> float:
        """The same for another number of fragments per slot, of the same slots and groups."""
        return self.weights.combine * self.rows(rate, like) * self.slots_per_s(like) * visits

    def visits(self, windows: Iterable[Window], components: Sequence[Component]) -> float:
        """What a row of a tree costs in combines: windows visit it as they close, and it is held for the longest."""
        windows = list(windows)
        held_s = 0.0 if self.in_bulk else max(map(self._range_s, windows), default=0.0)
        visits = sum(map(sum, self._visits_together(windows, components).values()))
        return visits * self._combine(components) + HELD * held_s

    def visits_apart(self, windows: Sequence[Window], components: Sequence[Component]) -> list[float]:
        """What a row costs each of some windows if no other holds it. The first of those that end together has it all.

        Methods of sharing add these up, wherever the windows are.
        """
        total: dict[object, float] = {}
        for key, visits in self._visits_together(windows, components).items():
            total[key] = sum(visits) * self._combine(components)
        held: dict[object, float] = defaultdict(float)
        if not self.in_bulk:
            for window in windows:
                held[same_ends(window)] = max(held[same_ends(window)], HELD * self._range_s(window))
        return [total.pop(key, 0.0) + held.pop(key, 0.0) for key in map(same_ends, windows)]

    def _visits_together(self, windows: Sequence[Window], components: Iterable[Component]) -> dict[object, list[float]]:
        """How often a row is visited by the windows that end together, in combines.

        Windows that sometimes end together are counted as if they never did.
        """
        together: dict[object, list[float]] = defaultdict(list)
        for window in windows:
            length, slide = lengths_of(window)
            together[same_ends(window)].append(1.0 if self.in_bulk else length / slide)
        if not self.in_bulk and all(component.kind.has_totals for component in components):
            for key, visits in together.items():
                visits.sort(reverse=True)
                moving = moving_windows(visits)
                together[key] = [2 * MOVED_ROWS] * moving + visits[moving : moving + 1]
        return together

    def _combine(self, components: Iterable[Component]) -> float:
        """What a combine of a row with some components counts."""
        if self.in_bulk or self.weights != UNIT_WEIGHTS:
            return 1.0
        return sum(SHIPPED.costs[component.kind].combine_ns for component in components) / COMBINE_NS

    def _range_s(self, window: Window) -> float:
        length = lengths_of(window)[0]
        return length / self.rate if isinstance(window, RowWindow) else length / 1_000_000

    def slots_per_s(self, tree: Tree | Base) -> float:
        """How many slots pass in a second."""
        return 1_000_000 / tree.granularity if tree.clock is Clock.TIME else self.rate / tree.granularity

    def stream(self, plan: StreamPlan) -> float:
        """Operations per second of all bases and trees of a stream."""
        trees = sum(self.tree(tree, plan.base_of(tree)) for tree in plan.trees)
        return trees + sum(self.base(base) for base in plan.bases)


def moving_windows(visits: Sequence[float]) -> int:
    """How many of some windows that end together move at least cost: the longest of them.

    `visits` tells how often a row is visited by each window that does not move, the longest first.

    >>> moving_windows([720.0, 24.0, 2.0]), moving_windows([5.0, 4.0])
    (2, 0)
    """
    costs = [2 * MOVED_ROWS * moving + rest for moving, rest in enumerate([*visits, 0.0])]
    return costs.index(min(costs))


def overlap(tree: Tree) -> float:
    """How many instances of the tree's different windows an event belongs to: the sum of range over slide."""
    return sum(length / slide for length, slide in map(lengths_of, tree.windows))


def cost_of(plan: PlanContent) -> float:
    """The cost of all bases and trees of a plan together."""
    return sum(prices_at(plan, stream.stream.name).stream(stream) for stream in plan.streams.values())


def prices_at(plan: PlanContent, stream: str) -> Prices:
    """The prices of queries over a stream of a plan."""
    return Prices(plan.rates.get(stream, plan.rate), plan.weights, plan.groups, plan.in_bulk)
