"""Small queries, events and expressions, written by hand for the oracle's own tests."""

from __future__ import annotations

import math
from typing import Any

from tests.oracle import Answer, Event, Value, aggregate, evaluate

from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Attribute, Expression, Literal
from panewise.language.model import Query, SelectItem
from panewise.windows.window import TimeWindow, Window

NAN, INF = math.nan, math.inf
X, Y, K = Attribute("x"), Attribute("y"), Attribute("k")
COUNT = AggregateCall("COUNT_ALL")
TRUE, FALSE, NULL = Literal(True, Type.BOOLEAN), Literal(False, Type.BOOLEAN), Literal(None, None)
RANGE_10_SLIDE_5 = TimeWindow(10, slide_us=5)


def integer(value: int) -> Literal:
    return Literal(value, Type.BIGINT)


def double(value: float) -> Literal:
    return Literal(value, Type.DOUBLE)


def string(value: str) -> Literal:
    return Literal(value, Type.STRING)


def query(window: Window, *calls: AggregateCall, by: tuple[str, ...] = (), **clauses: Any) -> Query:
    """A query named q over the stream s; COUNT(*) if no aggregate is named."""
    items = tuple(SelectItem(call) for call in calls or (COUNT,))
    return Query("q", "s", window, items, group_by=by, **clauses)


def at(*times: int, **columns: list[Value]) -> list[Event]:
    """Events at times t, in order of arrival, with the other attributes given by column."""
    return [{"t": time, **{name: column[i] for name, column in columns.items()}} for i, time in enumerate(times)]


def windows_of(answers: list[Answer]) -> list[tuple[int, int, Value]]:
    return [(answer.window_start, answer.window_end, answer.value) for answer in answers]


def values_by_group(answers: list[Answer]) -> dict[tuple[Value, ...], Value]:
    return {tuple(value for _, value in answer.group): answer.value for answer in answers}


def value_of(function: str, *values: Value, parameter: float | None = None) -> Any:
    return aggregate(AggregateCall(function, X, parameter), [{"x": value} for value in values])[0]


def ask(expression: Expression, **event: Value) -> Any:
    return evaluate(expression, event)
