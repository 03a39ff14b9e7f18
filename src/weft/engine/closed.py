"""Closed windows: the folded partials of the instances that closed, lowered to answers when asked.

A `Fold` knows, for each closed (key, instance), the range of rows it covers; components are folded the first time
that some query needs them and kept for the other queries with the same window and predicate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.components import Component, Kind
from weft.aggregates.lowering import AnswerOverflowError, Lowered
from weft.aggregates.types import Type
from weft.engine.answers import Groups, QueryAnswers
from weft.kernels.folding import fold_extreme, fold_sum_int, fold_sum_pairs
from weft.kernels.multisets import count_distinct, select_ranks
from weft.language.expressions import AggregateCall
from weft.planning.plan import PlannedAggregate, PlannedQuery, StreamPlan

if TYPE_CHECKING:
    from weft.engine.slot_store import Multisets, Rows

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Column = npt.NDArray[Any]


@dataclass
class Fold:
    """The instances of one window over the rows that pass one predicate."""

    keys: Ints
    instances: Ints
    low: Ints
    high: Ints
    rows: Rows
    passing: Ints | None
    plan: StreamPlan
    groups: Groups
    _folded: dict[Component, tuple[Column, ...]] = field(default_factory=dict)
    _runs: dict[Component, Multisets] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.instances)

    def component(self, component: Component) -> tuple[Column, ...]:
        """The folded columns of a component, one value per instance."""
        if component not in self._folded:
            columns = [self._passing(self.rows.columns[name]) for name in component.column_names()]
            self._folded[component] = self._fold(component.kind, columns)
        return self._folded[component]

    def runs(self, component: Component) -> Multisets:
        """The multisets of the rows that pass."""
        if component not in self._runs:
            runs = self.rows.multisets[component]
            self._runs[component] = runs if self.passing is None else runs.take(self.passing)
        return self._runs[component]

    def _passing(self, column: Column) -> Column:
        return column if self.passing is None else column[self.passing]

    def _fold(self, kind: Kind, columns: list[Column]) -> tuple[Column, ...]:
        match kind:
            case Kind.SUM_FLOAT | Kind.SQUARES:
                return fold_sum_pairs(columns[0], columns[1], self.low, self.high)
            case Kind.MIN | Kind.MAX:
                return (fold_extreme(columns[0], self.low, self.high, kind is Kind.MAX),)
            case _:
                return tuple(fold_sum_int(column, self.low, self.high) for column in columns)


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

    def select(self, ranks: Ints) -> Column:
        runs = self.fold.runs(Component(Kind.VALUES, self.input))
        return select_ranks(runs.items, runs.counts, runs.offsets, self.fold.low, self.fold.high, ranks)

    def distinct(self) -> Ints:
        runs = self.fold.runs(Component(Kind.VALUES, self.input))
        return count_distinct(runs.items, runs.offsets, self.fold.low, self.fold.high)


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
        fold = self.fold
        answers = QueryAnswers(self.planned.query, starts_us, ends_us, fold.keys, fold.groups, self._lowered())
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
