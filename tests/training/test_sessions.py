"""Labels see the session, or the window from one event to another, that they come in, as far as it had come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.standing import FROM_EVENT_TO_EVENT
from tests.thoroughness import examples

import panewise
from panewise.engine.columns import arrow_type
from panewise.language.model import Query

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, e STRING, x BIGINT) TIMESTAMP BY t WATERMARK 9 MICROSECONDS;"
QUERIES = (
    """
    CREATE QUERY visits AS SELECT k, COUNT(*), SUM(x), LAST(e), MEDIAN(x) FROM s
      [SESSION GAP 10 MICROSECONDS MAX 45 MICROSECONDS] GROUP BY k;
    CREATE QUERY steady AS SELECT k, COUNT(*), COUNT(DISTINCT x) FROM s
      [SESSION GAP 7 MICROSECONDS MAX 7 MICROSECONDS] WHERE x > 0 GROUP BY k HAVING COUNT(*) > 1;
    CREATE QUERY together AS SELECT COUNT(*), MAX(x) FROM s [SESSION GAP 4 MICROSECONDS MAX 1 DAY];
"""
    + FROM_EVENT_TO_EVENT
)
event = st.fixed_dictionaries(
    {
        "t": st.integers(0, 150),
        "k": st.sampled_from("ab"),
        "e": st.sampled_from(["on", "off", "", None, "on", ""]),
        "x": st.none() | st.integers(-1, 5),
    }
)
label = st.fixed_dictionaries({"t": st.integers(-5, 220), "k": st.sampled_from("abc")})


def standing(query: Query, time: str, rows: list[dict[str, Any]], at: int, group: Any) -> dict[int, Any]:
    """The answers of a group's window that a time lies in by the place in SELECT, if no event comes after that time."""
    answers = oracle.standing_answers(query, time, rows, at)
    return {one.item: one.value for one in answers if one.group in ((), group)}


def tables(labels: list[dict[str, Any]], rows: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    stream = panewise.read(STREAM).streams["s"]
    kinds = [(name, arrow_type(kind)) for name, kind in stream.attributes.items()]
    return pa.Table.from_pylist(labels, pa.schema([kinds[0], kinds[1]])), pa.Table.from_pylist(rows, pa.schema(kinds))


def check(workload: Any, labels: list[dict[str, Any]], rows: list[dict[str, Any]], found: pa.Table, edge: str) -> None:
    shown = found.to_pylist()
    for query in workload.queries.values():
        names = [name for name in found.column_names if name.startswith(f"{query.name}__")]
        items = [place for place, item in enumerate(query.select) if item.is_answer]
        for asked, row in zip(labels, shown, strict=True):
            mine = standing(query, "t", rows, asked["t"] - (edge == "before"), (("k", asked["k"]),))
            assert [row[name] for name in names] == [mine.get(item) for item in items], (query.name, asked)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(event, max_size=60), st.lists(label, max_size=15), st.sampled_from(["before", "at"]))
@example([{"t": t, "k": "a", "e": "on", "x": 1} for t in (0, 10, 20, 30, 40)], [{"t": 41, "k": "a"}], "at")
def test_labels_agree_with_the_oracle(rows: list[dict[str, Any]], labels: list[dict[str, Any]], edge: str) -> None:
    workload = panewise.read(STREAM + QUERIES)
    given_labels, given_rows = tables(labels, rows)
    found = panewise.training_set(given_labels, given_rows, workload, edge=edge, threads=1)
    check(workload, labels, rows, found, edge)
    # Cut by time into pieces that hold few events.
    spilled = panewise.training_set(given_labels, given_rows, workload, edge=edge, threads=1, memory_limit=2000)
    assert spilled.equals(found)


def test_a_label_joins_the_session_that_it_would_prolong() -> None:
    workload = panewise.read(STREAM + QUERIES)
    labels, rows = [{"t": t, "k": "a"} for t in (10, 20, 21)], [{"t": 10, "k": "a", "e": "on", "x": 3}]
    found = panewise.training_set(*tables(labels, rows), workload, queries=["visits"])
    assert found["visits__COUNT(*)"].to_pylist() == [None, 1, None]


def test_a_label_without_the_group_is_refused() -> None:
    with pytest.raises(panewise.LabelsError, match="query visits groups by 'k', which the labels do not have"):
        panewise.training_set(pa.table({"t": [1]}), tables([], [])[1], STREAM + QUERIES)
