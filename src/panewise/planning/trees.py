"""What a plan says: what is computed from the events once, and which queries share it.

Events are combined into the partials of *bases*, one partial per (slot, key, shard). Each execution tree is fed from a
base: it joins slots into fragments, the intervals between neighbouring edges of its own windows, and answers its
queries from those. A shard is the set of predicates that an event satisfies, so queries with different WHERE clauses
share one pass over the events. `panewise.planning.optimize` makes plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from panewise.aggregates.components import Component
from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Expression, Literal
from panewise.language.model import Query, Stream
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.windows import PunctuationWindow, SessionWindow, Window, is_unbounded
from panewise.windows.cuts import Cuts

if TYPE_CHECKING:  # structures and indexes are loaded only for workloads that need them
    from panewise.planning.having import HavingPlan
    from panewise.planning.structure_choice import StructurePlan
    from panewise.planning.windowed import RowPlan
    from panewise.planning.within import WithinPlan

DEFAULT_RATE = 1000.0
"""The assumed rate of a stream, in events a second."""

BITS_PER_WORD = 63
"""Predicates per BIGINT column; the sign bit stays free."""

_EVERY_EVENT = Literal(True, Type.BOOLEAN)


class Clock(Enum):
    """What slots count."""

    TIME = "time"
    ROWS = "rows"


@dataclass(frozen=True)
class Input:
    """A column that aggregates read: an attribute or an expression over attributes."""

    expression: Expression
    type: Type


@dataclass(frozen=True)
class PlannedAggregate:
    """An aggregate of a query, with its input's place in the stream's list (None for COUNT(*))."""

    call: AggregateCall
    input: int | None


@dataclass(frozen=True)
class PlannedQuery:
    """A query in its tree: the bit of its WHERE clause (None for no WHERE) and its aggregates.

    If it is of sessions, `times` is the place of the event times in the stream's list of inputs.
    """

    query: Query
    predicate: int | None
    aggregates: tuple[PlannedAggregate, ...]
    times: int | None = None
    opens: int | None = None
    """Of windows from one event to another, the bit of the predicate that opens them, and of the one that closes."""
    closes: int | None = None

    @property
    def predicates(self) -> tuple[int, ...]:
        """The bits of all its predicates."""
        return tuple(bit for bit in (self.predicate, self.opens, self.closes) if bit is not None)

    @property
    def windows(self) -> tuple[Window, ...]:
        """The different windows of its aggregates, all of which end with the window of the query."""
        return tuple(dict.fromkeys(self.query.window_of(one.call) for one in self.aggregates))

    @property
    def has_own_windows(self) -> bool:
        """Whether its aggregates have windows of their own."""
        return any(one.call.over is not None for one in self.aggregates)

    def over(self, window: Window) -> PlannedQuery:
        """The same with the aggregates over one window alone."""
        return replace(self, aggregates=tuple(a for a in self.aggregates if self.query.window_of(a.call) == window))


@dataclass(frozen=True)
class Base:
    """Partials per (slot, key, shard), made from the events once for all trees that are fed from it.

    `group_by` has the attributes of all those trees, `together_by` those that all of them share: if keys are spread
    over several places, keys that agree in these must stay together.
    """

    number: int
    clock: Clock
    granularity: int
    group_by: tuple[str, ...]
    together_by: tuple[str, ...]
    predicates: tuple[int, ...]
    components: tuple[Component, ...]


@dataclass(frozen=True)
class Tree:
    """An execution tree: queries that share fragments, keys and components. `cuts` are counted in slots."""

    number: int
    base: int
    clock: Clock
    granularity: int
    group_by: tuple[str, ...]
    predicates: tuple[int, ...]
    components: tuple[Component, ...]
    queries: tuple[PlannedQuery, ...]
    cuts: Cuts

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The different windows of its queries."""
        return tuple(dict.fromkeys(window for planned in self.queries for window in planned.windows))

    @cached_property
    def session_gap_us(self) -> int:
        """The largest gap of its sessions; 0 for a tree of other windows."""
        return max((window.gap_us for window in self.windows if isinstance(window, SessionWindow)), default=0)

    @cached_property
    def is_punctuated(self) -> bool:
        """Whether its windows go from one event to another; then all of them do."""
        return any(isinstance(window, PunctuationWindow) for window in self.windows)

    @cached_property
    def is_unbounded(self) -> bool:
        """Whether its windows go back to the start; then all of them do."""
        return any(map(is_unbounded, self.windows))


@dataclass(frozen=True)
class PlanShape:
    """What was decided when a stream's plan was made, so that the same plan can be made again.

    `bases` has the clock of each base and the groupings of its trees, `trees` the names of each tree's queries.
    """

    bases: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    trees: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Twin:
    """A second bit for a predicate in one tree: set wherever the predicate holds, but not on all rows of the past.

    It is of the predicate with a bit, or of what all events pass (None). See `panewise.engine.taken_over`.
    """

    tree: int
    of: int | None


@dataclass(frozen=True)
class StreamPlan:
    """All trees over one stream, the bases that feed them, and the columns that they need together."""

    stream: Stream
    keys: tuple[str, ...]
    predicates: tuple[Expression, ...]
    inputs: tuple[Input, ...]
    bases: tuple[Base, ...]
    trees: tuple[Tree, ...]

    @property
    def input_types(self) -> tuple[Type, ...]:
        """The type of each input."""
        return tuple(column.type for column in self.inputs)

    def key_column(self, attribute: str) -> str:
        """The name of a key attribute's column inside Panewise; no other column can have it."""
        return f"key_{self.keys.index(attribute)}"

    @property
    def shard_words(self) -> int:
        """How many BIGINT columns hold the predicate bits."""
        return -(-len(self.predicates) // BITS_PER_WORD)

    def shard_masks(self, predicates: tuple[int, ...]) -> list[int]:
        """For each word of predicate bits, the bits of some predicates."""
        masks = [0] * self.shard_words
        for bit in predicates:
            masks[bit // BITS_PER_WORD] |= 1 << (bit % BITS_PER_WORD)
        return masks

    @property
    def shape(self) -> PlanShape:
        """What was decided."""
        return PlanShape(
            tuple(
                (base.clock.value, tuple(dict.fromkeys(tree.group_by for tree in self.fed_by(base))))
                for base in self.bases
            ),
            tuple(tuple(planned.query.name for planned in tree.queries) for tree in self.trees),
        )

    def with_twins(self, twins: Sequence[Twin]) -> StreamPlan:
        """The plan with some twins, whose bits follow those that it has."""
        first, trees = len(self.predicates), []
        for tree in self.trees:
            bits = tuple(bit for bit, twin in enumerate(twins, first) if twin.tree == tree.number)
            trees.append(replace(tree, predicates=(*tree.predicates, *bits)))
        bases = [
            replace(
                base, predicates=tuple(sorted({bit for t in trees if t.base == base.number for bit in t.predicates}))
            )
            for base in self.bases
        ]
        more = tuple(_EVERY_EVENT if twin.of is None else self.predicates[twin.of] for twin in twins)
        return replace(self, predicates=(*self.predicates, *more), bases=tuple(bases), trees=tuple(trees))

    def base_of(self, tree: Tree) -> Base:
        """The base that feeds a tree."""
        return next(base for base in self.bases if base.number == tree.base)

    def fed_by(self, base: Base) -> tuple[Tree, ...]:
        """The trees that a base feeds."""
        return tuple(tree for tree in self.trees if tree.base == base.number)


@dataclass(frozen=True, repr=False)
class PlanContent:
    """What a plan of a workload says, for `rate` events a second and stream."""

    streams: Mapping[str, StreamPlan]
    on_demand: tuple[Query, ...]
    rate: float
    having: Mapping[str, HavingPlan] = field(default_factory=dict)
    """How on-demand queries with HAVING find their groups, by query."""
    weights: Weights = UNIT_WEIGHTS
    """The weights of adding an event to a partial and of combining two partials."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """How many values attributes have, as the user said."""
    within: Mapping[str, WithinPlan] = field(default_factory=dict)
    """How queries with WITHIN are answered, by query."""
    structures: Mapping[str, StructurePlan] = field(default_factory=dict)
    """What answers each aggregate of on-demand queries, by query."""
    declared: Mapping[str, Stream] = field(default_factory=dict)
    """The streams of the workload."""
    row_queries: tuple[RowPlan, ...] = ()
    """The plans of the queries that answer with rows."""
    in_bulk: bool = False
    """Whether it was made for many windows that close at once."""
    method: str = WEAVE_SHARE
    """Which method decided what shares a tree."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """How many answers a second streams of answers have, by name; other streams have the rate of the plan."""
    rate_is_assumed: bool = False
    """Whether nobody gave the rate, so that costs are for an example and bytes are unknown."""
    by_substream: tuple[Query, ...] = ()
    """The queries that report each substream by itself, and are in no tree."""

    @property
    def trees(self) -> tuple[Tree, ...]:
        """Every execution tree."""
        return tuple(tree for stream in self.streams.values() for tree in stream.trees)
