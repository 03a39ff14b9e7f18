"""Labels see the answers of queries as they were at their times, as far as windows had ended."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests import chain_oracle, oracle
from tests.training.test_sessions import standing
from tests.training.test_training_set import newest_closed as newest

import panewise
from panewise.language.expressions import Attribute

MINUTE = 60_000_000
TEXT = """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 2 MINUTES FUTURE BOUND NONE;
    CREATE QUERY minutes AS SELECT k, SUM(x) AS total FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k;
    CREATE QUERY fives AS SELECT k, MAX(total) AS best FROM minutes [RANGE 5 MINUTES SLIDE 5 MINUTES] GROUP BY k;
    CREATE QUERY recent AS SELECT k, SUM(total), COUNT(*) FROM minutes [RANGE 7 MINUTES] GROUP BY k;
    CREATE QUERY worst AS SELECT MAX(best) FROM fives [RANGE 20 MINUTES];
    CREATE QUERY tens AS SELECT k, AVG(best), COUNT(*) FROM fives [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY k;
    CREATE QUERY every_two AS SELECT SUM(total) FROM minutes [ROWS 5 SLIDE 2];
    CREATE QUERY visits AS SELECT k, COUNT(*) AS n FROM s [SESSION GAP 1 MINUTE MAX 6 MINUTES] GROUP BY k;
    CREATE QUERY longest AS SELECT k, MAX(n) FROM visits [RANGE 10 MINUTES SLIDE 10 MINUTES] GROUP BY k;
    CREATE QUERY busy AS SELECT k, COUNT(*), SUM(total) FROM minutes [SESSION GAP 2 MINUTES MAX 1 HOUR] GROUP BY k;
"""
SLIDING = {
    "fives": ["fives__best"],
    "tens": ["tens__AVG(best)", "tens__COUNT(*)"],
    "every_two": ["every_two__SUM(total)"],
    "longest": ["longest__MAX(n)"],
}


@pytest.mark.parametrize("edge", ["before", "at"])
def test_a_label_sees_the_answers_of_windows_that_had_ended(edge: str) -> None:
    dice = random.Random(edge)
    workload = panewise.read(TEXT)
    rows = [
        {"t": dice.randrange(60 * MINUTE), "k": dice.choice("ab"), "x": dice.choice([None, 1, 5])} for _ in range(300)
    ]
    labels = [{"t": dice.randrange(70) * MINUTE + dice.choice([-1, 0, 1]), "k": dice.choice("abc")} for _ in range(60)]
    found = panewise.training_set(
        pa.Table.from_pylist(labels), pa.Table.from_pylist(rows), workload, edge=edge, queries=["recent", "worst"]
    ).to_pylist()
    for name, columns in (("recent", ["recent__SUM(total)", "recent__COUNT(*)"]), ("worst", ["worst__MAX(best)"])):
        query = workload.queries[name]
        events = chain_oracle.events_of(workload, query.stream, {"s": rows})
        items = [place for place, item in enumerate(query.select) if not isinstance(item.expression, Attribute)]
        for label, row in zip(labels, found, strict=True):
            at = label["t"] - (1 if edge == "before" else 0)
            answers = oracle.lookup(query, "window_time", events, at)
            mine = {one.item: one.value for one in answers if one.group in ((), (("k", label["k"]),))}
            assert [row[column] for column in columns] == [mine.get(item) for item in items], (label, row)


@pytest.mark.parametrize("edge", ["before", "at"])
def test_a_label_sees_the_newest_window_that_the_chain_had_closed(edge: str) -> None:
    dice = random.Random(edge)
    workload = panewise.read(TEXT)
    rows = [
        {"t": dice.randrange(60 * MINUTE), "k": dice.choice("ab"), "x": dice.choice([None, 1, 5])} for _ in range(200)
    ]
    labels = [{"t": dice.randrange(80) * MINUTE + dice.choice([-1, 0, 1]), "k": dice.choice("abc")} for _ in range(60)]
    found = panewise.training_set(
        pa.Table.from_pylist(labels), pa.Table.from_pylist(rows), workload, edge=edge, queries=[*SLIDING, "busy"]
    ).to_pylist()
    for name, columns in SLIDING.items():
        query = workload.queries[name]
        events = chain_oracle.events_of(workload, query.stream, {"s": rows})
        items = [place for place, item in enumerate(query.select) if not isinstance(item.expression, Attribute)]
        for label, row in zip(labels, found, strict=True):
            seen = [one["t"] for one in rows if one["t"] < label["t"] + (edge == "at")]
            mark = chain_oracle.behind(workload, query.stream, max(seen) - 2 * MINUTE) if seen else None
            answers = [] if mark is None else newest(query, workload.streams[query.stream], events, mark, label)
            mine = {one.item: one.value for one in answers if one.group in ((), (("k", label["k"]),))}
            assert [row[column] for column in columns] == [mine.get(item) for item in items], (name, label, row)
    query, events = workload.queries["busy"], chain_oracle.events_of(workload, "minutes", {"s": rows})
    for label, row in zip(labels, found, strict=True):
        mine = standing(query, "window_time", events, label["t"] - (edge == "before"), (("k", label["k"]),))
        assert [row["busy__COUNT(*)"], row["busy__SUM(total)"]] == [mine.get(1), mine.get(2)], (label, row)


def test_what_no_label_can_see_is_refused() -> None:
    labels, events = pa.table({"t": [0], "k": ["a"]}), pa.table({"t": [0], "k": ["a"], "x": [1]})
    with pytest.raises(panewise.ArgumentError, match="leave out memory_limit"):
        panewise.training_set(labels, events, TEXT, queries=["recent"], memory_limit=10_000_000)
