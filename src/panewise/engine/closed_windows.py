"""Closed windows: the folded partials of the instances that closed, lowered to answers when asked.

`Lowering` turns folded components into answers, each once for all queries that share it. `Folded` is what all ways of
folding share: the closed (key, instance) pairs of one window and predicate. `Fold` is one way: it knows the range of
rows that each pair covers in a `View`, the rows that pass the predicate; if ranges repeat, `RepeatedFold` folds each
once. `panewise.engine.nested` is another. Columns
are picked, and components folded, when a query first needs them. Columns are kept for other queries with the same
predicate, folded components for those that also have the same window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Component, Kind
from panewise.aggregates.lowering import Lowered, objects_of
from panewise.aggregates.sketches import Sketches
from panewise.aggregates.types import Type
from panewise.arrays import Column, Floats, Ints, Numbers
from panewise.engine.answers import Groups, QueryAnswers, overflows_of, rows_that_pass
from panewise.engine.joined import fold_joined
from panewise.engine.kept import ranks_of_strings
from panewise.engine.sketches import fold_sketches, open_in_place
from panewise.engine.thresholds import passing
from panewise.kernels.folding import fold_extreme, fold_squares, fold_sum_int, fold_sum_pairs, prefix_sums
from panewise.kernels.multisets import count_distinct, most_frequent, select_ranks
from panewise.language.expressions import AggregateCall, Expression, aggregates_of
from panewise.planning.trees import PlannedAggregate, PlannedQuery, StreamPlan
from panewise.windows import Window
from panewise.windows.instances import ends_of, starts_of

if TYPE_CHECKING:
    from panewise.engine.packed_rows import PackedRows
    from panewise.engine.picked_rows import PickedRows
    from panewise.engine.rows import Multisets


_NO_ANSWERS = Lowered(np.empty(0), None, np.empty(0, np.bool_))
FEW = 8
"""If a query needs this many times fewer instances than there are, only these are folded."""


class View:
    """The rows that pass one predicate, sorted by (key, slot); several may have the same.

    Columns are picked when they are first needed.
    """

    def __init__(self, rows: PackedRows | PickedRows, chosen: Ints | None) -> None:
        self._rows = rows
        self._chosen = chosen
        self._columns: dict[str, Column] = {}
        self._prefixes: dict[str, Ints] = {}
        self._runs: dict[Component, Multisets] = {}
        self.keys, self.slots = rows.picked(chosen)
        # Lookups of one group are many, and their rows few.
        is_one = len(self.keys) > 0 and self.keys[0] == self.keys[-1]
        starts = np.zeros(1, np.int64) if is_one else np.flatnonzero(np.diff(self.keys, prepend=-1))
        self.segments: Ints = np.append(starts, len(self.keys))
        """Where the rows of each key begin, and the number of rows."""

    def column(self, name: str) -> Column:
        """One column of a component."""
        if name not in self._columns:
            self._columns[name] = self._rows.column(name, self._chosen)
        return self._columns[name]

    @property
    def shards(self) -> Ints:
        """The shard of each row."""
        return self._rows.shards(self._chosen)

    def prefix(self, name: str) -> Ints:
        """The prefix sums of an int64 column."""
        if name not in self._prefixes:
            self._prefixes[name] = prefix_sums(self.column(name))
        return self._prefixes[name]

    def sketches(self, component: Component) -> Sketches:
        """The sketches of a component, opened."""
        (name,) = component.column_names()
        if name not in self._columns:
            open_in_place(component.kind, self._rows.column(name), self._chosen)
        return self.column(name)

    def runs(self, component: Component) -> Multisets:
        """The multisets of a component."""
        if component not in self._runs:
            self._runs[component] = self._rows.multisets(component, self._chosen)
        return self._runs[component]


class Lowering(ABC):
    """Folded components, and the answers made from them: each is made once for all queries."""

    plan: StreamPlan
    _lowered: dict[tuple[str, int | None, float | None], Lowered]
    """All answers, by aggregate, input and parameter."""

    @abstractmethod
    def component(self, component: Component, rows: Ints | None = None) -> tuple[Column, ...]:
        """The folded columns of a component, one value for each answer, of some answers or of all."""

    def runs(self, component: Component, rows: Ints | None = None) -> tuple[Multisets, Ints, Ints]:
        """The multisets of a component, and the range of them that each answer, some or all, is made from."""
        raise AssertionError("trees with multisets are folded over ranges of rows")

    def lowered(self, aggregate: PlannedAggregate, rows: Ints | None = None) -> Lowered:
        """The answers of an aggregate, some or all; all are kept for other queries."""
        call = aggregate.call
        key = call.function, aggregate.input, call.parameter
        if key in self._lowered:
            return self._lowered[key] if rows is None else self._lowered[key].take(rows)
        made = self._lower(aggregate, rows)
        if rows is None:
            self._lowered[key] = made
        return made

    def _lower(self, aggregate: PlannedAggregate, rows: Ints | None) -> Lowered:
        call = aggregate.call
        return CATALOGUE[call.function].lower(_FoldedInput(self, aggregate.input, rows), call.parameter)


class Folded(Lowering):
    """The instances of one window over the rows of one predicate: for each, its key's number, and what it folds to.

    Components are folded when they are first needed, and kept for other queries.
    """

    groups: Groups
    _folded: dict[Component, tuple[Column, ...]]
    """The components of all instances."""
    before: int | None = None
    """The instance before, if it is known which keys' components differ from it."""
    touched: Numbers | None = None
    """These keys, and maybe others, in any order."""
    if TYPE_CHECKING:
        # Some ways have them as attributes, and a moving window finds them when they are first needed.
        @property
        def keys(self) -> Ints:
            """The number of each instance's key."""

        @property
        def instances(self) -> Ints:
            """The number of each instance."""

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def is_empty(self) -> bool:
        """Whether there is no instance."""
        return not len(self)

    @property
    def first_instance(self) -> int:
        """The least number of an instance; there is one."""
        return int(self.instances.min())

    @property
    def last_instance(self) -> int:
        """The greatest number of an instance; there is one."""
        return int(self.instances.max())

    def component(self, component: Component, rows: Ints | None = None) -> tuple[Column, ...]:
        """The folded columns of a component, one value per instance, of some instances or of all."""
        if component not in self._folded:
            some = None if rows is None else self._fold_some(component, rows)
            if some is not None:
                return some
            self._folded[component] = self._fold(component)
        folded = self._folded[component]
        return folded if rows is None else tuple(column[rows] for column in folded)

    def of_keys(self, keys: Ints) -> Folded:
        """The instances of some keys, which rise."""
        is_wanted = np.zeros(len(self.groups.table), np.bool_)
        is_wanted[keys] = True
        return self.chosen(np.flatnonzero(is_wanted[self.keys]))

    def bounds(self, window: Window) -> tuple[Ints, Ints]:
        """Where each instance starts and ends."""
        return starts_of(window, self.instances), ends_of(window, self.instances)

    def needs_from(self, window: Window) -> Ints:
        """From when on events must be known to be sure of each instance."""
        return starts_of(window, self.instances)

    @abstractmethod
    def chosen(self, rows: Ints) -> Folded:
        """Some of the instances; `rows` rise."""

    def expect(self, rows: Ints) -> None:
        """Announce that components of some instances will be needed."""

    @abstractmethod
    def _fold(self, component: Component) -> tuple[Column, ...]:
        """The folded columns of a component, of all instances."""

    @abstractmethod
    def _fold_some(self, component: Component, rows: Ints) -> tuple[Column, ...] | None:
        """Those of some instances; None if it is better to fold all."""


@dataclass
class Fold(Folded):
    """Instances that each cover a range of a view's rows."""

    view: View
    keys: Ints
    instances: Ints
    low: Ints
    high: Ints
    plan: StreamPlan
    groups: Groups
    _folded: dict[Component, tuple[Column, ...]] = field(default_factory=dict)
    _lowered: dict[tuple[str, int | None, float | None], Lowered] = field(default_factory=dict)

    def runs(self, component: Component, rows: Ints | None = None) -> tuple[Multisets, Ints, Ints]:
        """The multisets of a component, and the range of them that each instance covers."""
        runs = self.view.runs(component)
        return (runs, self.low, self.high) if rows is None else (runs, self.low[rows], self.high[rows])

    def chosen(self, rows: Ints) -> Self:
        """Some of the instances."""
        return replace(
            self,
            keys=self.keys[rows],
            instances=self.instances[rows],
            low=self.low[rows],
            high=self.high[rows],
            _folded={},
            _lowered={},
        )

    def _fold(self, component: Component) -> tuple[Column, ...]:
        return self._fold_ranges(component, self.low, self.high)

    def _fold_some(self, component: Component, rows: Ints) -> tuple[Column, ...] | None:
        return self._fold_ranges(component, self.low[rows], self.high[rows]) if FEW * len(rows) < len(self) else None

    def _fold_ranges(self, component: Component, low: Ints, high: Ints) -> tuple[Column, ...]:
        view = self.view
        kind, names = component.kind, component.column_names()
        if kind.is_joined:
            return fold_joined(kind, [view.column(name) for name in names], low, high)
        if kind.is_sketch:
            return (fold_sketches(kind, view.sketches(component), low, high),)
        match kind:
            case Kind.SUM_FLOAT:
                return fold_sum_pairs(view.column(names[0]), view.column(names[1]), low, high)
            case Kind.SQUARES:
                return fold_squares(tuple(view.column(name) for name in names), low, high)
            case Kind.MIN | Kind.MAX:
                return (fold_extreme(view.column(names[0]), low, high, kind is Kind.MAX),)
            case _:
                return tuple(fold_sum_int(view.prefix(name), low, high) for name in names)


@dataclass
class RepeatedFold(Folded):
    """Instances of which several in a row cover the same rows: their answers are made once.

    Where events are rare beside the slide, that is most of them.
    """

    ranges: Fold
    """The different ranges of rows, each as one instance."""
    range_of: Ints
    """The range of each instance; it never falls."""
    keys: Ints
    instances: Ints
    plan: StreamPlan
    groups: Groups
    _folded: dict[Component, tuple[Column, ...]] = field(default_factory=dict)
    _lowered: dict[tuple[str, int | None, float | None], Lowered] = field(default_factory=dict)

    @staticmethod
    def of(fold: Fold) -> Folded:
        """The same instances, with ranges kept apart if they repeat often."""
        is_new = np.ones(len(fold), np.bool_)
        is_new[1:] = (fold.low[1:] != fold.low[:-1]) | (fold.high[1:] != fold.high[:-1])
        first = np.flatnonzero(is_new)
        if 2 * len(first) > len(fold):
            return fold
        return RepeatedFold(
            fold.chosen(first), np.cumsum(is_new) - 1, fold.keys, fold.instances, fold.plan, fold.groups
        )

    def _fold(self, component: Component) -> tuple[Column, ...]:
        return tuple(column[self.range_of] for column in self.ranges.component(component))

    def _fold_some(self, component: Component, rows: Ints) -> tuple[Column, ...]:
        used, places = self._used(rows)
        return tuple(column[places] for column in self.ranges.component(component, used))

    def _lower(self, aggregate: PlannedAggregate, rows: Ints | None) -> Lowered:
        used, places = self._used(rows)
        return self.ranges.lowered(aggregate, used).take(places)

    def _used(self, rows: Ints | None) -> tuple[Ints | None, Ints]:
        """The ranges that some instances need, and the place of each instance among them."""
        if rows is None:
            return None, self.range_of
        ranges = self.range_of[rows]
        is_new = np.ones(len(ranges), np.bool_)
        is_new[1:] = ranges[1:] != ranges[:-1]
        return ranges[is_new], np.cumsum(is_new) - 1

    def chosen(self, rows: Ints) -> RepeatedFold:
        """Some of the instances; `rows` rise."""
        used, places = self._used(rows)
        assert used is not None
        return RepeatedFold(
            self.ranges.chosen(used), places, self.keys[rows], self.instances[rows], self.plan, self.groups
        )


@dataclass(frozen=True)
class _FoldedInput:
    """The folded components of one input, as an aggregate's lowering reads them."""

    fold: Lowering
    input: int | None
    rows: Ints | None
    """The rows whose answers are needed; None for all."""

    @property
    def is_float(self) -> bool:
        return self.input is not None and self.fold.plan.inputs[self.input].type is Type.DOUBLE

    @property
    def is_boolean(self) -> bool:
        return self.input is not None and self.fold.plan.inputs[self.input].type is Type.BOOLEAN

    @property
    def is_string(self) -> bool:
        return self.input is not None and self.fold.plan.inputs[self.input].type is Type.STRING

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        return self.fold.component(Component(kind, self.input), self.rows)

    def floats(self, kind: Kind) -> tuple[Floats, ...]:
        return self.fold.component(Component(kind, self.input), self.rows)

    def sketches(self, kind: Kind) -> Sketches:
        return self.fold.component(Component(kind, self.input), self.rows)[0]

    def select(self, ranks: Ints) -> Column:
        runs, low, high = self.fold.runs(Component(Kind.VALUES, self.input), self.rows)
        return select_ranks(runs.items, runs.counts, runs.offsets, low, high, ranks)

    def distinct(self) -> Ints:
        runs, low, high = self.fold.runs(Component(Kind.VALUES, self.input), self.rows)
        return count_distinct(runs.items, runs.offsets, low, high)

    def mode(self) -> Column:
        runs, low, high = self.fold.runs(Component(Kind.VALUES, self.input), self.rows)
        if runs.strings is None:
            return most_frequent(runs.items, runs.counts, runs.offsets, low, high)
        # Of several, the least by its bytes, which the numbers of strings do not tell.
        codes, places = np.unique(runs.items, return_inverse=True)
        ranks, strings = ranks_of_strings(runs.strings.decode(codes.astype(np.int64)))
        modes = most_frequent(ranks[places], runs.counts, runs.offsets, low, high)
        return objects_of(strings.take(pa.array(modes)).to_pylist() if len(strings) else [None] * len(low), len(low))


@dataclass
class ClosedWindows:
    """One query's closed windows, all groups."""

    planned: PlannedQuery
    fold: Folded
    _passing: Ints | None = None
    """The windows that pass HAVING, once that is decided."""
    _unknown: int = 0
    """How many answers that HAVING reads do not fit in 64 bits."""
    _touched: Ints | None = None
    """The keys that it was narrowed to."""

    def __len__(self) -> int:
        return len(self.fold)

    @property
    def instances(self) -> Ints:
        """The instance number of each."""
        return self.fold.instances

    def from_rows(self, rows: Ints) -> ClosedWindows:
        """Some of these windows; `rows` rise."""
        return ClosedWindows(self.planned, self.fold.chosen(rows))

    def narrowed_to(self, touched: Ints, fold: Folded) -> ClosedWindows:
        """The windows of some keys, which `fold` has; the answers of all others are those of the instance before."""
        return ClosedWindows(self.planned, fold, _touched=touched)

    def decide(self) -> None:
        """Find the windows that pass HAVING.

        If you do this for several queries before you answer them, what they select is folded for all of them at once.
        """
        having = self.planned.query.having
        if having is not None and self._passing is None:
            self._passing = self._passing_rows(having)
            self.fold.expect(self._passing)

    def answers(self, starts_us: Ints, ends_us: Ints) -> QueryAnswers:
        """The answers of these windows that pass HAVING, given where each window starts and ends.

        HAVING decides first: for a group that does not pass, the aggregates that only SELECT reads are not computed,
        and are not counted if they overflow.
        """
        self.decide()
        query, fold, rows = self.planned.query, self.fold, self._passing
        lowered: dict[Expression, Lowered] = {
            aggregate.call: self._lower(aggregate, rows) for aggregate in self.planned.aggregates
        }
        bounds = {call: answer.bounds for call, answer in lowered.items() if answer.bounds is not None}
        overflows = self._unknown + overflows_of(lowered, read_by=query.having)
        keys, instances = fold.keys, fold.instances
        if rows is not None:
            starts_us, ends_us, keys, instances = starts_us[rows], ends_us[rows], keys[rows], instances[rows]
        answers = QueryAnswers(
            query, starts_us, ends_us, keys, fold.groups, lowered, bounds, instances, overflows, self._touched
        )
        return answers.with_computed(fold.plan.stream)

    def _passing_rows(self, having: Expression) -> Ints:
        """The windows that pass HAVING, whether it is made of plain thresholds or of any other form."""
        aggregates = {aggregate.call: aggregate for aggregate in self.planned.aggregates}
        read: dict[AggregateCall, Lowered] = {}

        def lowered(call: AggregateCall) -> Lowered:
            if call not in read:
                read[call] = self._lower(aggregates[call], None)
            return read[call]

        holds = passing(having, lowered)
        if holds is None:
            read = {call: lowered(call) for call in aggregates_of(having)}
        self._unknown = overflows_of(read)
        if holds is not None:
            return np.flatnonzero(holds)
        fold = self.fold
        return rows_that_pass(having, fold.plan.stream, fold.groups, fold.keys, read)

    def _lower(self, aggregate: PlannedAggregate, rows: Ints | None) -> Lowered:
        """The answers of one aggregate, of some windows or of all."""
        if rows is not None and not len(rows):
            return _NO_ANSWERS
        return self.fold.lowered(aggregate, rows)
