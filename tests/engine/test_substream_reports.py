"""Queries over the rows of substreams that come and go: they report what they have seen whole, and nothing twice."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from tests import oracle
from tests.answers import to_answers

import panewise

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g BIGINT, n BIGINT) TIMESTAMP BY t;"
FIRST = "CREATE QUERY first AS SELECT k, SUM(n), COUNT(*) FROM s [PARTITION BY k ROWS 4 SLIDE 3] GROUP BY k;"
LATER = (
    "CREATE QUERY short AS SELECT k, MAX(n) FROM s [PARTITION BY k ROWS 3 SLIDE 1] WHERE n > 2 GROUP BY k;",
    "CREATE QUERY long AS SELECT k, g, COUNT(*) FROM s [PARTITION BY k ROWS 9 SLIDE 2] GROUP BY k, g "
    "HAVING COUNT(*) > 1;",
)
START_US = 1_700_000_000_000_000


def checked(engine: panewise.Engine) -> panewise.Engine:
    for reports in engine._streams["s"].substreams:
        reports.check_invariants()
    return engine


@pytest.mark.parametrize("seed", range(5))
def test_queries_that_come_later(seed: int) -> None:
    dice = random.Random(seed)
    engine = panewise.Engine(STREAM + FIRST)
    rows: list[dict[str, Any]] = []
    found: dict[str, list[oracle.Answer]] = {"first": [], "short": [], "long": []}
    came: dict[str, int] = {}
    waiting = list(LATER)
    for step in range(12):
        some = [
            {"t": START_US + step * 10 + dice.randrange(10), "k": dice.choice("abc"), "g": dice.randrange(2), "n": row}
            for row in range(dice.randrange(12))
        ]
        rows += some
        if some:
            engine.push("s", {name: [row[name] for row in some] for name in ("t", "k", "g", "n")})
        watermark_us = START_US + step * 10 + 4
        answers = engine.advance("s", watermark_us)
        for answer in to_answers(answers, engine.workload):
            found[answer.query].append(answer)
        checked(engine)
        if step in (3, 6):
            statement = waiting.pop()
            engine.add(statement)
            came[statement.split()[2]] = watermark_us
        if step % 4 == 2:
            engine = checked(panewise.Engine.restore(engine.snapshot()))
    for answer in to_answers(engine.advance("s", panewise.END_OF_STREAM), engine.workload):
        found[answer.query].append(answer)
    for name, query in engine.workload.queries.items():
        after_us = came.get(name)
        wanted = oracle.closed_answers(query, "t", rows, None, after_us)
        if after_us is None:
            oracle.assert_same_answers(found[name], wanted)
            continue
        # Windows that begin with rows that were let go before are not reported; others are, once.
        whole = [one for one in wanted if one.window_start >= after_us]
        again = [one for one in found[name] if one.window_start >= after_us]
        oracle.assert_same_answers(again, whole)
        told, true = (Counter(one._replace(scale=0.0) for one in some) for some in (found[name], wanted))
        assert told <= true
    before = engine.statistics()["streams"]["s"]["substreams"]
    assert [one["queries"] for one in before] == [3]
    engine.remove("long")
    engine.remove("short")
    engine.remove("first")
    assert not engine.statistics()["streams"]["s"]["substreams"]


def test_a_query_of_its_own_partition_counts_from_when_it_comes() -> None:
    engine = panewise.Engine(f"{STREAM} CREATE QUERY c AS SELECT COUNT(*) FROM s [RANGE 1 SECOND SLIDE 1 SECOND];")
    event = {"k": ["a"], "g": [1], "n": [5]}
    engine.push("s", {"t": [START_US], **event})
    engine.advance("s", START_US + 10)
    engine.add("CREATE QUERY q AS SELECT g, SUM(n) AS total FROM s [PARTITION BY g ROWS 2 SLIDE 2] GROUP BY g")
    assert engine.exact_from("q") == START_US + 11
    for offset in (20, 30, 40):
        engine.push("s", {"t": [START_US + offset], **event})
    (row,) = engine.advance("s", START_US + 50).tables["q"].to_pylist()
    assert (row["g"], row["total"]) == (1, 10)
    assert "by itself" in engine.next_closing("s").why or engine.next_closing("s").query == "c"
    assert "in no tree" in engine.explain()
