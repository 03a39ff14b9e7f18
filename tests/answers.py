"""Answers tables as the plain tuples that the oracle speaks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from tests.oracle import Answer
from tests.wide_answers import assert_same_wide, long_value

from panewise.engine.closed_tables import Answers
from panewise.language.expressions import Attribute
from panewise.language.model import Query
from panewise.language.printer import label_of
from panewise.language.workload import Workload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(value: Any) -> Any:
    """A timestamp as microseconds, also in a list; anything else as it is."""
    if isinstance(value, list):
        return [microseconds(one) for one in value]
    if isinstance(value, datetime):
        delta = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return value


def to_answers(answers: Answers | pa.Table, workload: Workload, looked_up: str | None = None) -> list[Answer]:
    """The rows of a long table, or of the table of a query that was looked up.

    An engine's answers are those of its long table; its wide tables must then say the same.
    """
    if looked_up is not None:
        assert isinstance(answers, pa.Table)
        return [to_answer(row, workload) for row in lookup_rows(answers, workload.queries[looked_up])]
    if isinstance(answers, Answers):
        assert_same_wide(answers, workload)
        answers = answers.long()
    return [to_answer(row, workload) for row in answers.to_pylist()]


def to_answer(row: dict[str, Any], workload: Workload) -> Answer:
    query = workload.queries[row["query"]]
    labels = [label_of(item) for item in query.select]
    group = tuple((name, microseconds(row[name])) for name in query.group_by)
    for name in workload.group_by_attributes:
        if name not in query.group_by:
            assert row.get(name) is None
    value = long_value(row)
    item = labels.index(row["aggregate"])
    return Answer(query.name, microseconds(row["window_start"]), microseconds(row["window_end"]), group, item, value)


def items_of(values: list[Any]) -> list[dict[str, Any]]:
    """A list as the long table has it."""
    return [
        {"value": None, "exact": None, "text": value}
        if isinstance(value, str)
        else {"value": float(value), "exact": None if isinstance(value, float) else int(value), "text": None}
        for value in map(microseconds, values)
    ]


def lookup_rows(table: pa.Table, query: Query) -> list[dict[str, Any]]:
    """The table of a lookup as rows of a long one: each with one aggregate, its value and its bounds."""
    names = {item.expression.name: label_of(item) for item in query.select if isinstance(item.expression, Attribute)}
    labels = [label_of(item) for item in query.select if item.is_answer]
    bounds = [f"{label} {side}" for label in labels for side in ("low", "high")]
    groups = [names.get(name, name) for name in query.group_by]
    shown = {"window_start", "window_end", *groups, *names.values(), *labels}
    assert shown <= set(table.column_names) <= shown | set(bounds)
    found = []
    for row in table.to_pylist():
        place = {name: row[name] for name in ("window_start", "window_end")}
        place |= {name: row[label] for name, label in zip(query.group_by, groups, strict=True)}
        for label in labels:
            value, kind = microseconds(row[label]), table.schema.field(label).type
            place |= {"text": value if pa.types.is_string(kind) else None}
            place |= {"items": items_of(value) if pa.types.is_list(kind) and value is not None else None}
            value = None if pa.types.is_string(kind) or pa.types.is_list(kind) else value
            is_exact = kind != pa.float64()
            found.append(
                {
                    "query": query.name,
                    **place,
                    "aggregate": label,
                    "value": None if value is None else float(value),
                    "exact": int(value) if is_exact and value is not None else None,
                    "low": row.get(f"{label} low", value),
                    "high": row.get(f"{label} high", value),
                }
            )
    return found


def of_query(answers: Iterable[Answer], name: str) -> list[Answer]:
    return [answer for answer in answers if answer.query == name]
