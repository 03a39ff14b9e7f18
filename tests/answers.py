"""Answers tables as the plain tuples that the oracle speaks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from tests.oracle import Answer
from tests.wide_answers import assert_same_wide

from panewise.engine.closed_tables import Answers
from panewise.language.model import Workload
from panewise.language.printer import label_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(value: Any) -> Any:
    """A timestamp as microseconds; anything else as it is."""
    if isinstance(value, datetime):
        delta = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return value


def to_answers(answers: Answers | pa.Table, workload: Workload) -> list[Answer]:
    """The rows of a long table; of an engine's answers, whose wide tables must then say the same."""
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
            assert row[name] is None
    value = row["value"] if row["exact"] is None else row["exact"]
    item = labels.index(row["aggregate"])
    return Answer(query.name, microseconds(row["window_start"]), microseconds(row["window_end"]), group, item, value)


def of_query(answers: Iterable[Answer], name: str) -> list[Answer]:
    return [answer for answer in answers if answer.query == name]
