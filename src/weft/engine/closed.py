"""Closed windows: the folded partials of the instances that closed, lowered to answers when asked.

A `View` is the rows that pass one predicate. A `Fold` knows, for each closed (key, instance) of one window over a view,
the range of rows it covers. Columns are picked and components folded the first time that some query needs them, and
kept for the other queries with the same predicate, and with the same window.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.components import Component, Kind
from weft.aggregates.lowering import AnswerOverflowError, Lowered
from weft.aggregates.sketches import Sketches
from weft.aggregates.types import Type
from weft.engine.answers import Groups, QueryAnswers
from weft.engine.sketches import fold_sketches, open_in_place
from weft.kernels.folding import fold_extreme, fold_sum_int, fold_sum_pairs, prefix_sums
from weft.kernels.multisets import count_distinct, most_frequent, select_ranks
from weft.language.expressions import AggregateCall
from weft.planning.plan import PlannedAggregate, PlannedQuery, StreamPlan

if TYPE_CHECKING:
    from weft.engine.rows import Multisets, Rows

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Column = npt.NDArray[Any]


class View:
    """The rows that pass one predicate, sorted by (key, slot). Columns are picked when they are first needed."""

    def __init__(self, rows: Rows, passing: Ints | None) -> None:
        self._rows = rows
        self._passing = passing
        self._columns: dict[str, Column] = {}
        self._prefixes: dict[str, Ints] = {}
        self._runs: dict[Component, Multisets] = {}
        self.keys: Ints = self._picked(rows.keys)
        self.slots: Ints = self._picked(rows.slots)
        starts = np.flatnonzero(np.diff(self.keys, prepend=-1))
        self.segments: Ints = np.append(starts, len(self.keys))
        """Where the rows of each key begin, and the number of rows."""

    def column(self, name: str) -> Column:
        """One column of a component."""
        if name not in self._columns:
            self._columns[name] = self._picked(self._rows.columns[name])
        return self._columns[name]

    def prefix(self, name: str) -> Ints:
        """The prefix sums of an int64 column."""
        if name not in self._prefixes:
            self._prefixes[name] = prefix_sums(self.column(name))
        return self._prefixes[name]

    def sketches(self, component: Component) -> Sketches:
        """The sketches of a component, opened."""
        (name,) = component.column_names()
        if name not in self._columns:
            open_in_place(component.kind, self._rows.columns[name], self._passing)
        return self.column(name)

    def runs(self, component: Component) -> Multisets:
        """The multisets of a component."""
        if component not in self._runs:
            runs = self._rows.multisets[component]
            self._runs[component] = runs if self._passing is None else runs.take(self._passing)
        return self._runs[component]

    def _picked(self, column: Column) -> Column:
        return column if self._passing is None else column[self._passing]


@dataclass
class Fold:
    """The instances of one window over one view: for each, its key's number, and the range of rows that it covers."""

    view: View
    keys: Ints
    instances: Ints
    low: Ints
    high: Ints
    plan: StreamPlan
    groups: Groups
    _folded: dict[Component, tuple[Column, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.instances)

    def component(self, component: Component) -> tuple[Column, ...]:
        """The folded columns of a component, one value per instance."""
        if component not in self._folded:
            self._folded[component] = self._fold(component)
        return self._folded[component]

    def _fold(self, component: Component) -> tuple[Column, ...]:
        view, low, high = self.view, self.low, self.high
        kind, names = component.kind, component.column_names()
        match kind:
            case Kind.QUANTILES | Kind.DISTINCT:
                return (fold_sketches(kind, view.sketches(component), low, high),)
            case Kind.SUM_FLOAT | Kind.SQUARES:
                return fold_sum_pairs(view.column(names[0]), view.column(names[1]), low, high)
            case Kind.MIN | Kind.MAX:
                return (fold_extreme(view.column(names[0]), low, high, kind is Kind.MAX),)
            case _:
                return tuple(fold_sum_int(view.prefix(name), low, high) for name in names)


@dataclass(frozen=True)
class _FoldedInput:
    """The folded components of one input, as an aggregate's lowering reads them."""

    fold: Fold
    input: int | None

    @property
    def is_float(self) -> bool:
        return self.input is not None and self.fold.plan.inputs[self.input].type is Type.DOUBLE

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        return self.fold.component(Component(kind, self.input))

    def floats(self, kind: Kind) -> tuple[Floats, ...]:
        return self.fold.component(Component(kind, self.input))

    def sketches(self, kind: Kind) -> Sketches:
        return self.fold.component(Component(kind, self.input))[0]

    def select(self, ranks: Ints) -> Column:
        runs = self.fold.view.runs(Component(Kind.VALUES, self.input))
        return select_ranks(runs.items, runs.counts, runs.offsets, self.fold.low, self.fold.high, ranks)

    def distinct(self) -> Ints:
        runs = self.fold.view.runs(Component(Kind.VALUES, self.input))
        return count_distinct(runs.items, runs.offsets, self.fold.low, self.fold.high)

    def mode(self) -> Column:
        runs = self.fold.view.runs(Component(Kind.VALUES, self.input))
        return most_frequent(runs.items, runs.counts, runs.offsets, self.fold.low, self.fold.high)


@dataclass(frozen=True)
class ClosedWindows:
    """One query's closed windows, all groups."""

    planned: PlannedQuery
    fold: Fold

    def __len__(self) -> int:
        return len(self.fold)

    @property
    def instances(self) -> Ints:
        """The instance number of each."""
        return self.fold.instances

    def from_rows(self, rows: Ints) -> ClosedWindows:
        """Some of these windows."""
        fold = self.fold
        chosen = replace(
            fold,
            keys=fold.keys[rows],
            instances=fold.instances[rows],
            low=fold.low[rows],
            high=fold.high[rows],
            _folded={},
        )
        return ClosedWindows(self.planned, chosen)

    def answers(self, starts_us: Ints, ends_us: Ints) -> QueryAnswers:
        """The answers of these windows that pass HAVING, given where each window starts and ends."""
        fold, lowered = self.fold, self._lowered()
        bounds = {call: answer.bounds for call, answer in lowered.items() if answer.bounds is not None}
        answers = QueryAnswers(
            self.planned.query, starts_us, ends_us, fold.keys, fold.groups, lowered, bounds, instances=fold.instances
        )
        return answers.having(fold.plan.stream)

    def _lowered(self) -> dict[AggregateCall, Lowered]:
        """The answers of each aggregate of the query."""
        return {aggregate.call: self._lower(aggregate) for aggregate in self.planned.aggregates}

    def _lower(self, aggregate: PlannedAggregate) -> Lowered:
        lower = CATALOGUE[aggregate.call.function].lower
        try:
            return lower(_FoldedInput(self.fold, aggregate.input), aggregate.call.parameter)
        except AnswerOverflowError as error:
            raise AnswerOverflowError(f"query {self.planned.query.name}: {error}") from None
