"""Answers that are strings or lists: their types, their bounds, and every way to ask for them."""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.engine.test_moving import MOVING, settings_of

import panewise
from panewise.engine.answers import wide
from panewise.engine.kept_multisets import KeptMultisets
from panewise.errors import AnswerOverflowError, NamesClashError, StatementError

MINUTE = 60_000_000
kept_of = KeptMultisets.of
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, w STRING, x DOUBLE, n BIGINT, b BOOLEAN) TIMESTAMP BY t;"
ITEMS = (
    "MIN(w) AS least, MAX(w), FIRST(w), LAST(w), ARG_MIN(w, x), ARG_MAX(w, n), MODE(w), LAST_K(w, 2), LAST_K(x, 3), "
    "LAST_K(t, 1), COLLECT(b, 4), COLLECT(n, 3), CASE WHEN MIN(w) < LAST(w) THEN LAST(w) ELSE MODE(w) END AS both"
)
SLIDING = f"""{STREAM}
CREATE QUERY groups AS SELECT k, {ITEMS} FROM s [RANGE 10 MINUTES SLIDE 2 MINUTES] GROUP BY k;
CREATE QUERY whole AS SELECT {ITEMS}, COUNT(*) FROM s [RANGE 6 MINUTES SLIDE 6 MINUTES]
  HAVING MAX(w) >= 'b' OR LAST(w) = '';
CREATE QUERY filtered AS SELECT k, LAST(w) FILTER (WHERE n > 2), COLLECT(w, 2) FILTER (WHERE b), COUNT_IF(b)
  FROM s [RANGE 10 MINUTES SLIDE 2 MINUTES] GROUP BY k;
CREATE QUERY apart AS SELECT k, LAST(w) OVER [RANGE 2 MINUTES] AS now, MODE(w) OVER [RANGE 6 MINUTES] AS usual,
    LAST_K(w, 2) OVER [RANGE 2 MINUTES] AS two FROM s SLIDE 2 MINUTES GROUP BY k HAVING now <> usual OR now IS NULL;
"""
ASKED = f"""{STREAM}
CREATE QUERY groups AS SELECT k, {ITEMS} FROM s [RANGE 10 MINUTES] GROUP BY k;
CREATE QUERY whole AS SELECT {ITEMS} FROM s [RANGE 10 MINUTES];
CREATE QUERY rows AS SELECT k, MAX(w), LAST_K(w, 3) FROM s [PARTITION BY k ROWS 3] GROUP BY k HAVING MAX(w) > 'a';
"""
WORDS = ["b", "é", None, "", "a\0", "a", "\U0001f600", "a", "Z", "b"]


def some_events(count: int = 63) -> list[dict[str, Any]]:
    return [
        {
            "t": (i - i % 3) * MINUTE // 3,
            "k": "xy"[i % 7 % 2],
            "w": WORDS[i * 7 % 10],
            "x": [1.5, float("nan"), None, -0.5][i % 4],
            "n": i * 5 % 8 or None,
            "b": [True, None, False][i % 3],
        }
        for i in range(count)
    ]


def test_windows_of_every_form_agree_with_the_oracle_and_survive_a_snapshot() -> None:
    events, workload = some_events(), panewise.read(SLIDING)
    stream = workload.streams["s"]
    engine = panewise.Engine(workload)
    for first in range(0, 63, 21):
        engine.push("s", as_table(stream, events[first : first + 21]))
        found = engine.advance("s", panewise.END_OF_STREAM if first == 42 else (first + 21) * MINUTE // 3)
        until = None if first == 42 else (first + 21) * MINUTE // 3
        before = None if first == 0 else first * MINUTE // 3
        wanted = [
            answer
            for query in workload.queries.values()
            for answer in oracle.closed_answers(query, "t", events[: first + 21], until, before)
        ]
        assert wanted
        oracle.assert_same_answers(to_answers(found, workload), wanted)
        for name in workload.queries:
            again = to_answers(wide(found.long(), workload, name), workload, name)
            assert oracle.differences(again, [one for one in wanted if one.query == name]) == []
        if first < 42:
            engine = panewise.Engine.restore(engine.snapshot())


def test_columns_have_the_types_of_their_values() -> None:
    engine = panewise.Engine(SLIDING)
    schema = engine.advance("s", 0).tables["groups"].schema
    assert schema.field("least").type == pa.string() == schema.field("both").type
    assert schema.field("LAST_K(w, 2)").type == pa.list_(pa.string())
    assert schema.field("LAST_K(x, 3)").type == pa.list_(pa.float64())
    assert schema.field("LAST_K(t, 1)").type == pa.list_(pa.timestamp("us", "UTC"))
    assert schema.field("COLLECT(b, 4)").type == pa.list_(pa.bool_())
    long = engine.advance("s", 0).long().schema
    assert long.names[-4:] == ["value", "exact", "text", "items"]
    plain = panewise.Engine(f"{STREAM} CREATE QUERY q AS SELECT MAX(x) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]")
    assert plain.advance("s", 0).long().schema.names[-2:] == ["value", "exact"]


def test_lookups_agree_with_the_oracle() -> None:
    events, workload = some_events(), panewise.read(ASKED)
    engine = panewise.Engine(workload)
    engine.push("s", as_table(workload.streams["s"], events))
    for at in (3 * MINUTE, 7 * MINUTE + 1, 19 * MINUTE, 40 * MINUTE):
        for name, query in workload.queries.items():
            wanted = oracle.lookup(query, "t", events, at)
            oracle.assert_same_answers(to_answers(engine.lookup(name, at), workload, name), wanted)
    table = engine.lookup("groups", keys={"k": ["y", "nobody", "x"]}).to_pylist()
    one = engine.lookup_one("groups", {"k": "x"})
    many = engine.lookup_many("groups", {"k": ["y", "nobody", "x"]})
    assert one is not None
    for label in ("least", "both", "LAST_K(w, 2)", "COLLECT(b, 4)"):
        by_key = {row["k"]: row[label] for row in table}
        assert one[label] == by_key["x"]
        assert many[label].tolist() == [by_key["y"], None, by_key["x"]]


def test_labels_have_strings_and_lists() -> None:
    events, workload = some_events(), panewise.read(SLIDING.replace("COUNT_IF(b)", "MIN(w)"))
    labels = pa.table({"k": ["x", "y", "nobody"] * 4, "at": [place * 2 * MINUTE for place in range(12)]})
    features = panewise.training_set(labels, {"s": as_table(workload.streams["s"], events)}, workload, time="at")
    assert features.schema.field("groups__LAST_K(t, 1)").type == pa.list_(pa.timestamp("us", "UTC"))
    query = workload.queries["groups"]
    some = 0
    for row in features.to_pylist():
        seen = [event for event in events if event["t"] < row["at"]]
        mark = max((event["t"] for event in seen), default=0)
        end = oracle.newest_end(query.window, mark)
        wanted = {
            one.item: one.value
            for one in oracle.closed_answers(query, "t", seen, mark)
            if one.window_end == end and dict(one.group)["k"] == row["k"]
        }
        for item, label in ((1, "least"), (4, "LAST(w)"), (7, "MODE(w)"), (8, "LAST_K(w, 2)"), (11, "COLLECT(b, 4)")):
            assert row[f"groups__{label}"] == wanted.get(item), (row, label)
            some += wanted.get(item) is not None
    assert some > 10


def test_a_list_that_is_longer_than_its_bound_is_null_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    query = "CREATE QUERY q AS SELECT COLLECT(n, 2), LAST_K(n, 2) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]"
    events = [{**event, "t": place} for place, event in enumerate(some_events(4))]
    engine = panewise.Engine(f"{STREAM} {query}")
    engine.push("s", as_table(engine.workload.streams["s"], events))
    with caplog.at_level(logging.WARNING):
        (row,) = engine.advance("s", panewise.END_OF_STREAM).tables["q"].to_pylist()
    assert (row["COLLECT(n, 2)"], row["LAST_K(n, 2)"]) == (None, [2, 7])
    assert engine.statistics()["streams"]["s"]["overflown_answers"] == {"q": 1}
    assert "a list has more values than its bound; give COLLECT a larger one" in caplog.text
    strict = panewise.Engine(f"{STREAM} {query} ON OVERFLOW ERROR")
    strict.push("s", as_table(strict.workload.streams["s"], events))
    with pytest.raises(AnswerOverflowError, match="query q: a list has more values than its bound"):
        strict.advance("s", panewise.END_OF_STREAM)


def test_a_moving_window_keeps_strings_in_order_and_tells_the_least_of_several() -> None:
    """Strings have numbers in the order in which they came, which is not that of their bytes."""
    window = "[RANGE 5 MINUTES SLIDE 1 MINUTE]"
    text = f"{STREAM} CREATE QUERY q AS SELECT k, MODE(w), COUNT(DISTINCT w) FROM s {window} GROUP BY k"
    workload, events = panewise.read(text), some_events()
    with settings_of({**MOVING, "FEWEST_KEPT": 0.0}), patch.object(KeptMultisets, "of", autospec=True) as kept:
        kept.side_effect = kept_of
        engine = panewise.Engine(workload)
        for minute in range(0, 21):
            engine.push("s", as_table(workload.streams["s"], events[3 * minute : 3 * minute + 3]))
            found = engine.advance("s", (minute + 1) * MINUTE)
            some = events[: 3 * minute + 3]
            wanted = oracle.closed_answers(workload.queries["q"], "t", some, (minute + 1) * MINUTE, minute * MINUTE)
            oracle.assert_same_answers(to_answers(found, workload), wanted)
    assert kept.call_count > 10


def test_a_plan_says_what_strings_take() -> None:
    assert np.isfinite(panewise.optimize(panewise.read(SLIDING), rate=100).cost)
    text = f"{STREAM} CREATE QUERY q AS SELECT k, LAST(w) FROM s [RANGE 1 HOUR] GROUP BY k"
    assert "lookups keep no structure of greatest_values" in panewise.optimize(panewise.read(text), rate=100).explain()


MISTAKES = {
    "LAST_K(w)": "LAST_K takes two arguments, got 1",
    "LAST_K(w, 0)": "the second argument of LAST_K must be a whole number from 1 to 10000",
    "COLLECT(w, 10001)": "the second argument of COLLECT must be a whole number from 1 to 10000",
    "COLLECT(w, n)": "the second argument of COLLECT must be a whole number",
    "CONCAT(LAST_K(w, 2), 'a') AS c": "LAST_K gives a list, and nothing is computed from lists",
    "COUNT(*) FROM s [RANGE 1 MINUTE] HAVING COLLECT(n, 2) IS NULL --": "COLLECT gives a list, and nothing is computed",
    "SUM(w)": "SUM needs BIGINT or DOUBLE, w is STRING",
    "MEDIAN(w)": "MEDIAN needs BIGINT or DOUBLE or TIMESTAMP, w is STRING",
    "ARG_MAX(x, w)": "the second argument of ARG_MAX must be BIGINT or DOUBLE or TIMESTAMP, w is STRING",
    "MAX(w) > 'a'": "an answer is a number, a time or a text",
}


@pytest.mark.parametrize("item", MISTAKES)
def test_what_has_no_meaning_is_refused(item: str) -> None:
    with pytest.raises(StatementError) as raised:
        panewise.read(f"{STREAM}\nCREATE QUERY q AS SELECT {item} FROM s [RANGE 1 MINUTE];")
    assert raised.value.message.startswith(MISTAKES[item])
    assert (raised.value.line, bool(raised.value.hint)) == (2, True)


def test_a_group_cannot_have_the_name_of_their_column() -> None:
    stream = STREAM.replace("k STRING", "text STRING")
    query = "CREATE QUERY q AS SELECT text, {} FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY text"
    assert panewise.Engine(stream + query.format("COUNT(*)")).advance("s", 0).long().schema.names[3] == "text"
    with pytest.raises(
        NamesClashError, match="groups by 'text', which is the name of a column of answers where a query"
    ):
        panewise.Engine(stream + query.format("LAST(w)"))
