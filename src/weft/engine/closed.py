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
from weft.engine.answers import Groups, QueryAnswers, rows_that_pass
from weft.engine.sketches import fold_sketches, open_in_place
from weft.engine.thresholds import passing
from weft.kernels.folding import fold_extreme, fold_sum_int, fold_sum_pairs, prefix_sums
from weft.kernels.multisets import count_distinct, most_frequent, select_ranks
from weft.language.expressions import Expression, aggregates_of
from weft.planning.plan import PlannedAggregate, PlannedQuery, StreamPlan

if TYPE_CHECKING:
    from weft.engine.packed_rows import PackedRows
    from weft.engine.rows import Multisets

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Column = npt.NDArray[Any]

_NO_ANSWERS = Lowered(np.empty(0), None, np.empty(0, np.bool_))
FEW = 8
"""A component of so many times fewer instances than there are is folded for these alone."""


class View:
    """The rows that pass one predicate, sorted by (key, slot). Columns are picked when they are first needed."""

    def __init__(self, rows: PackedRows, chosen: Ints | None) -> None:
        self._rows = rows
        self._chosen = chosen
        self._columns: dict[str, Column] = {}
        self._prefixes: dict[str, Ints] = {}
        self._runs: dict[Component, Multisets] = {}
        self.keys, self.slots = rows.picked(chosen)
        starts = np.flatnonzero(np.diff(self.keys, prepend=-1))
        self.segments: Ints = np.append(starts, len(self.keys))
        """Where the rows of each key begin, and the number of rows."""

    def column(self, name: str) -> Column:
        """One column of a component."""
        if name not in self._columns:
            self._columns[name] = self._rows.column(name, self._chosen)
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
            open_in_place(component.kind, self._rows.column(name), self._chosen)
        return self.column(name)

    def runs(self, component: Component) -> Multisets:
        """The multisets of a component."""
        if component not in self._runs:
            runs = self._rows.multisets[component]
            self._runs[component] = runs if self._chosen is None else runs.take(self._chosen)
        return self._runs[component]


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
    _lowered: dict[tuple[str, int | None, float | None], Lowered] = field(default_factory=dict)
    """The answers of all instances, by aggregate, input and parameter."""

    def __len__(self) -> int:
        return len(self.instances)

    def lowered(self, aggregate: PlannedAggregate, rows: Ints | None = None) -> Lowered:
        """The answers of an aggregate, of some instances or of all; those of all are kept for other queries."""
        call = aggregate.call
        key = call.function, aggregate.input, call.parameter
        if key in self._lowered:
            return self._lowered[key] if rows is None else _picked(self._lowered[key], rows)
        made = CATALOGUE[call.function].lower(_FoldedInput(self, aggregate.input, rows), call.parameter)
        if rows is None:
            self._lowered[key] = made
        return made

    def component(self, component: Component, rows: Ints | None = None) -> tuple[Column, ...]:
        """The folded columns of a component, one value per instance, of some instances or of all.

        All are folded and kept for other queries, unless very few are asked for.
        """
        if component in self._folded:
            folded = self._folded[component]
        elif rows is not None and FEW * len(rows) < len(self):
            return self._fold(component, self.low[rows], self.high[rows])
        else:
            folded = self._folded[component] = self._fold(component, self.low, self.high)
        return folded if rows is None else tuple(column[rows] for column in folded)

    def _fold(self, component: Component, low: Ints, high: Ints) -> tuple[Column, ...]:
        view = self.view
        kind, names = component.kind, component.column_names()
        match kind:
            case Kind.QUANTILES | Kind.DISTINCT | Kind.FREQUENT:
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
    rows: Ints | None
    """The instances that are asked for; None for all."""

    @property
    def is_float(self) -> bool:
        return self.input is not None and self.fold.plan.inputs[self.input].type is Type.DOUBLE

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        return self.fold.component(Component(kind, self.input), self.rows)

    def floats(self, kind: Kind) -> tuple[Floats, ...]:
        return self.fold.component(Component(kind, self.input), self.rows)

    def sketches(self, kind: Kind) -> Sketches:
        return self.fold.component(Component(kind, self.input), self.rows)[0]

    def select(self, ranks: Ints) -> Column:
        runs = self.fold.view.runs(Component(Kind.VALUES, self.input))
        return select_ranks(runs.items, runs.counts, runs.offsets, *self._ranges, ranks)

    def distinct(self) -> Ints:
        runs = self.fold.view.runs(Component(Kind.VALUES, self.input))
        return count_distinct(runs.items, runs.offsets, *self._ranges)

    def mode(self) -> Column:
        runs = self.fold.view.runs(Component(Kind.VALUES, self.input))
        return most_frequent(runs.items, runs.counts, runs.offsets, *self._ranges)

    @property
    def _ranges(self) -> tuple[Ints, Ints]:
        if self.rows is None:
            return self.fold.low, self.fold.high
        return self.fold.low[self.rows], self.fold.high[self.rows]


def _picked(lowered: Lowered, rows: Ints) -> Lowered:
    exact = None if lowered.exact is None else lowered.exact[rows]
    bounds = None if lowered.bounds is None else (lowered.bounds[0][rows], lowered.bounds[1][rows])
    return Lowered(lowered.values[rows], exact, lowered.valid[rows], bounds)


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
            _lowered={},
        )
        return ClosedWindows(self.planned, chosen)

    def answers(self, starts_us: Ints, ends_us: Ints) -> QueryAnswers:
        """The answers of these windows that pass HAVING, given where each window starts and ends.

        HAVING decides first: of a group that does not pass, what only SELECT reads is not made, and cannot overflow.
        """
        query, fold = self.planned.query, self.fold
        rows = None if query.having is None else self._passing_rows(query.having)
        lowered = {aggregate.call: self._lower(aggregate, rows) for aggregate in self.planned.aggregates}
        bounds = {call: answer.bounds for call, answer in lowered.items() if answer.bounds is not None}
        if rows is None:
            return QueryAnswers(query, starts_us, ends_us, fold.keys, fold.groups, lowered, bounds, fold.instances)
        return QueryAnswers(
            query, starts_us[rows], ends_us[rows], fold.keys[rows], fold.groups, lowered, bounds, fold.instances[rows]
        )

    def _passing_rows(self, having: Expression) -> Ints:
        """The windows that pass HAVING: of plain thresholds, or of any form."""
        aggregates = {aggregate.call: aggregate for aggregate in self.planned.aggregates}
        holds = passing(having, lambda call: self._lower(aggregates[call], None))
        if holds is not None:
            return np.flatnonzero(holds)
        fold = self.fold
        read = {call: self._lower(aggregates[call], None) for call in aggregates_of(having)}
        return rows_that_pass(having, fold.plan.stream, fold.groups, fold.keys, read)

    def _lower(self, aggregate: PlannedAggregate, rows: Ints | None) -> Lowered:
        """The answers of one aggregate, of some windows or of all."""
        if rows is not None and not len(rows):
            return _NO_ANSWERS
        try:
            return self.fold.lowered(aggregate, rows)
        except AnswerOverflowError as error:
            raise AnswerOverflowError(f"query {self.planned.query.name}: {error}") from None
