"""What the queries of a tree ask when windows close: by predicate and window, with the thresholds of HAVING in order.

Thousands of alerts differ in a threshold alone. Those with the same window, predicate, aggregate and comparison are
decided together: one look at the greatest (or least) answer tells which of them any group can pass, and the others cost
nothing. Cost: O(different comparisons) a window, and O(queries that may have an answer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component
from panewise.aggregates.lowering import Lowered
from panewise.aggregates.types import Type
from panewise.engine.closed_windows import Folded
from panewise.language.expressions import AggregateCall, Comparison, aggregates_of, conjuncts
from panewise.language.expressions import Literal as Constant
from panewise.planning.optimize import components_of
from panewise.planning.trees import PlannedAggregate, PlannedQuery
from panewise.windows import Window

Limits = npt.NDArray[Any]
Side = Literal["left", "right"]

_ABOVE: dict[str, Side] = {">": "left", ">=": "right"}
"""The greatest answer passes the limits before its place in their order, on this side of equal ones."""
_BELOW: dict[str, Side] = {"<": "right", "<=": "left"}
"""The least answer passes the limits from its place on."""


@dataclass(frozen=True)
class Alerts:
    """Queries that compare one aggregate with limits, in the order of the limits."""

    aggregate: PlannedAggregate
    operator: str
    is_whole: bool
    """Whether the limits are integers."""
    limits: Limits
    queries: list[PlannedQuery]

    def may_pass(self, fold: Folded) -> list[PlannedQuery]:
        """The queries for which some group may pass HAVING: the others have no answer."""
        lowered = fold.lowered(self.aggregate)
        answers = _comparable(lowered, self.is_whole)
        if answers is None:
            return self.queries
        answers = answers[lowered.valid]
        if not len(answers):
            return []
        if self.operator in _ABOVE:
            return self.queries[: int(np.searchsorted(self.limits, answers.max(), side=_ABOVE[self.operator]))]
        return self.queries[int(np.searchsorted(self.limits, answers.min(), side=_BELOW[self.operator])) :]


def _comparable(lowered: Lowered, is_whole: bool) -> Limits | None:
    """The answers as they are compared with limits; None if each query must look at them for itself.

    That is where an answer does not fit, which counts for each query, and where one is NaN.
    """
    if lowered.overflown is not None:
        return None
    if lowered.exact is not None and is_whole:
        return lowered.exact
    return None if bool(np.isnan(lowered.values).any()) else lowered.values


_Comparing = tuple[PlannedAggregate, str, bool]
"""What is compared, how, and whether with integers."""


class AskedWindow:
    """The queries with one predicate and one window; and of `joined` queries the aggregates with this window."""

    def __init__(self, queries: list[PlannedQuery], joined: list[PlannedQuery]) -> None:
        self.queries = queries
        self._joined = joined
        self._others: list[PlannedQuery] = []
        self._components: tuple[Component, ...] | None = None
        self._in_totals: tuple[Component, ...] | None = None
        found: dict[_Comparing, list[tuple[int | float, PlannedQuery]]] = {}
        for planned in queries:
            compared = _threshold(planned)
            if compared is None:
                self._others.append(planned)
            else:
                found.setdefault(compared[0], []).append((compared[1], planned))
        self._alerts = [Alerts(*key, *_in_order(several, is_whole=key[2])) for key, several in found.items()]

    @property
    def aggregates(self) -> set[PlannedAggregate]:
        """The different aggregates of the queries."""
        return {aggregate for planned in [*self.queries, *self._joined] for aggregate in planned.aggregates}

    def components(self, inputs: tuple[Type, ...]) -> tuple[Component, ...]:
        """What the queries need together, given the types of the stream's inputs."""
        if self._components is None:
            self._components = components_of([*self.queries, *self._joined], inputs)
        return self._components

    def in_totals(self, inputs: tuple[Type, ...]) -> tuple[Component, ...]:
        """Those that are combined into a few words in any order."""
        if self._in_totals is None:
            self._in_totals = tuple(one for one in self.components(inputs) if one.kind.has_totals)
        return self._in_totals

    @property
    def has_alerts(self) -> bool:
        """Whether some queries compare an aggregate with a limit."""
        return bool(self._alerts)

    def may_pass(self, fold: Folded) -> Iterator[PlannedQuery]:
        """The queries that may have an answer."""
        yield from self._others
        for alerts in self._alerts:
            yield from alerts.may_pass(fold)


def _in_order(several: list[tuple[int | float, PlannedQuery]], *, is_whole: bool) -> tuple[Limits, list[PlannedQuery]]:
    limits = np.array([limit for limit, _ in several], np.int64 if is_whole else np.float64)
    order = np.argsort(limits, kind="stable")
    return limits[order], [several[place][1] for place in order.tolist()]


def _threshold(planned: PlannedQuery) -> tuple[_Comparing, int | float] | None:
    """A comparison with a number that must hold for HAVING to hold, if HAVING reads no other aggregate."""
    having = planned.query.having
    if having is None or len(set(aggregates_of(having))) != 1:
        return None
    for condition in conjuncts(having):
        match condition:
            case Comparison(
                operator=operator, left=AggregateCall() as call, right=Constant(value=limit, type=kind)
            ) if (operator in _ABOVE or operator in _BELOW) and kind in (Type.BIGINT, Type.DOUBLE):
                assert isinstance(limit, int | float)
                aggregate = next(one for one in planned.aggregates if one.call == call)
                return None if limit != limit else ((aggregate, operator, kind is Type.BIGINT), limit)
    return None


class Asked:
    """All that the queries of a tree ask."""

    def __init__(self, queries: Iterable[PlannedQuery]) -> None:
        found: dict[int | None, dict[Window, list[PlannedQuery]]] = {}
        joined: dict[int | None, dict[Window, list[PlannedQuery]]] = {}
        self.joined: dict[int | None, list[PlannedQuery]] = {}
        """By predicate, the queries whose aggregates have windows of their own."""
        for planned in queries:
            by_window = found.setdefault(planned.predicate, {})
            if not planned.has_own_windows:
                by_window.setdefault(planned.query.window, []).append(planned)
                continue
            self.joined.setdefault(planned.predicate, []).append(planned)
            for window in planned.windows:
                by_window.setdefault(window, [])
                parts = joined.setdefault(planned.predicate, {}).setdefault(window, [])
                parts.append(planned.over(window))
        self.by_predicate: Mapping[int | None, Mapping[Window, AskedWindow]] = {
            predicate: {
                window: AskedWindow(several, joined.get(predicate, {}).get(window, []))
                for window, several in by_window.items()
            }
            for predicate, by_window in found.items()
        }
        self.windows = frozenset(window for by_window in found.values() for window in by_window)
        """The different windows: far fewer than queries."""

    def of(self, planned: PlannedQuery) -> AskedWindow:
        """The queries with the predicate and the window of one."""
        return self.by_predicate[planned.predicate][planned.query.window]
