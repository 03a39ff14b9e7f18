"""Several windows of one query: what its aggregates fold to over windows of their own, which end together.

All of them are folded for the predicate of the query. The longest covers the others, so its groups are those of the
query. A group without an event in a shorter window has no row there: its counts are 0 and its other answers NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Component
from panewise.aggregates.lowering import Lowered
from panewise.arrays import Column, Ints
from panewise.engine.closed_windows import Folded
from panewise.language.expressions import AggregateCall
from panewise.planning.trees import PlannedAggregate, PlannedQuery
from panewise.windows import Window
from panewise.windows.instances import end_numbers


@dataclass
class SeveralWindows(Folded):
    """The instances of the longest window, and for each shorter window its fold and the row of each instance there."""

    planned: PlannedQuery
    longest: Folded
    shorter: Mapping[Window, tuple[Folded, Ints]]
    """A row is -1 where the group has no event in that window; a window in which no group has any is left out."""
    nothing: Folded
    """No instance: it tells of what kind the answers are that no group has."""

    def __post_init__(self) -> None:
        self.plan, self.groups = self.longest.plan, self.longest.groups
        self._folded, self._lowered = {}, {}

    @staticmethod
    def of(planned: PlannedQuery, folds: Mapping[Window, Folded], nothing: Folded) -> SeveralWindows | None:
        """The windows of a query among folds of its predicate; None if the longest has no event.

        `nothing` is a fold without any instance.
        """
        window = planned.query.window
        if window not in folds:
            return None
        longest = folds[window]
        numbers = end_numbers(window, longest.instances)
        shorter = {
            other: (folds[other], _rows_at(folds[other], other, longest.keys, numbers))
            for other in planned.windows
            if other != window and other in folds
        }
        return SeveralWindows(planned, longest, shorter, nothing)

    @property
    def keys(self) -> Ints:
        """The number of each instance's key."""
        return self.longest.keys

    @property
    def instances(self) -> Ints:
        """The number of each instance of the longest window."""
        return self.longest.instances

    def lowered(self, aggregate: PlannedAggregate, rows: Ints | None = None) -> Lowered:
        """The answers of an aggregate over its own window, some or all."""
        window = self.planned.query.window_of(aggregate.call)
        if window == self.planned.query.window:
            return self.longest.lowered(aggregate, rows)
        fold, places = self.shorter.get(window, (self.nothing, np.full(len(self), -1)))
        return at_rows(fold.lowered(aggregate), places if rows is None else places[rows], aggregate.call)

    def chosen(self, rows: Ints) -> SeveralWindows:
        """Some of the instances; `rows` rise."""
        shorter = {window: (fold, places[rows]) for window, (fold, places) in self.shorter.items()}
        return SeveralWindows(self.planned, self.longest.chosen(rows), shorter, self.nothing)

    def _fold(self, component: Component) -> tuple[Column, ...]:
        raise NotImplementedError("each aggregate is lowered from the fold of its own window")

    def _fold_some(self, component: Component, rows: Ints) -> tuple[Column, ...] | None:
        return self._fold(component)


def _rows_at(fold: Folded, window: Window, keys: Ints, numbers: Ints) -> Ints:
    """The row of a fold for each key and number of an end, -1 where it has none."""
    mine = end_numbers(window, fold.instances)
    first = min(int(mine.min()), int(numbers.min()))
    ends = max(int(mine.max()), int(numbers.max())) - first + 1
    held = fold.keys.astype(np.int64) * ends + (mine - first)
    wanted = keys.astype(np.int64) * ends + (numbers - first)
    order = np.argsort(held)
    places = np.minimum(np.searchsorted(held, wanted, sorter=order), len(held) - 1)
    return np.where(held[order[places]] == wanted, order[places], -1)


def at_rows(answers: Lowered, rows: Ints, call: AggregateCall) -> Lowered:
    """The answers at some rows; where a row is -1, what the aggregate answers over no event."""
    is_there = rows >= 0
    taken = (answers if len(answers.values) else answers.blank()).take(np.maximum(rows, 0))
    if is_there.all():
        return taken
    counts = CATALOGUE[call.function].fewest == 0
    bounds = taken.bounds
    return replace(
        taken,
        values=np.where(is_there, taken.values, 0.0),
        exact=None if taken.exact is None else np.where(is_there, taken.exact, 0),
        valid=np.where(is_there, taken.valid, counts),
        bounds=None if bounds is None else (np.where(is_there, bounds[0], 0.0), np.where(is_there, bounds[1], 0.0)),
        overflown=None if taken.overflown is None else taken.overflown & is_there,
    )
