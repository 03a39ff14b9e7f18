"""Who may ask what of a running job: quotas, a check without sending, and the list of what came."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.spark.simulated import SimulatedSpark
from typer.testing import CliRunner

import panewise
from panewise.cli.main import app
from panewise.spark.query_audit import QueryAudit
from panewise.spark.quotas import Quotas
from panewise.spark.statement_log import StatementLog

ORIGIN_US = 1_356_998_400_000_000
MINUTE = 60_000_000
WORKLOAD = """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
    CREATE QUERY total AS SELECT SUM(x) FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY k;
"""
SHORT = "CREATE QUERY short AS SELECT SUM(x) FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
LONG = "CREATE QUERY long AS SELECT SUM(x) FROM s [RANGE 40 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
ROWS = "CREATE QUERY rows AS SELECT SUM(x) FROM s [PARTITION BY k ROWS 50] GROUP BY k;"
OTHER = "CREATE QUERY other AS SELECT MAX(x) FROM s [RANGE 9 MINUTES SLIDE 1 MINUTE] WHERE x > 3 GROUP BY k;"


def events(minute: int) -> list[dict[str, Any]]:
    return [{"t": ORIGIN_US + minute * MINUTE, "k": key, "x": minute} for key in "abc"]


def judged(folder: Path) -> list[str | None]:
    return [one.error for change in StatementLog(folder).before(99) for one in change.statements]


@pytest.mark.parametrize(
    ("quotas", "refused"),
    [
        (Quotas(), {}),
        (Quotas(queries=2), {1: "the job would have 3 queries, and its quota is 2", 2: "quota", 3: "quota"}),
        (Quotas(range_us=10 * MINUTE), {1: "query long reaches 40 MINUTES back, and the job's quota is 10 MINUTES"}),
        (Quotas(rows=49), {2: "query rows reaches 50 rows back, and the job's quota is 49"}),
        (Quotas(slots=11), {1: "would hold 41 slots for each key, and its quota is 11", 3: "would hold 21 slots"}),
    ],
)
def test_a_statement_beyond_a_quota_is_refused(tmp_path: Path, quotas: Quotas, refused: dict[int, str]) -> None:
    spark = SimulatedSpark(panewise.read(WORKLOAD), tmp_path, live=True, lookups=True, quotas=quotas)
    spark.run_batch({"s": events(0)}, [SHORT, LONG, ROWS, OTHER])
    for place, error in enumerate(judged(tmp_path)):
        assert (error is not None) == (place in refused), error
        assert refused.get(place, "") in (error or "")
    assert spark.counts["rejected_statements"] == len(refused)


@pytest.mark.parametrize("has_lists", [False, True])
def test_queries_with_strings_may_come_and_those_with_lists_if_there_is_a_column(
    tmp_path: Path, has_lists: bool
) -> None:
    listed = "CREATE QUERY listed AS SELECT LAST_K(x, 2) AS two FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE];"
    start = panewise.read(WORKLOAD + (listed.replace("listed", "first") if has_lists else ""))
    spark = SimulatedSpark(start, tmp_path, live=True, lookups=True)
    strings = "CREATE QUERY strings AS SELECT MAX(k) AS top, MODE(k) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE];"
    spark.run_batch({"s": events(0)}, [strings, listed])
    refusals = judged(tmp_path)
    assert refusals[0] is None
    assert (refusals[1] is None) == has_lists
    assert has_lists or "for which the job's answers have no column" in str(refusals[1])
    for minute in range(1, 6):
        spark.run_batch({"s": events(minute)}, [])
    rows = spark.table().to_pylist()
    assert {(row["aggregate"], row["text"]) for row in rows if row["query"] == "strings"} == {
        ("top", "c"),
        ("MODE(k)", "a"),
    }
    lists = [[item["exact"] for item in row["items"]] for row in rows if row["query"] == "listed"]
    assert bool(lists) == has_lists
    assert all(len(one) == 2 and one[0] == one[1] for one in lists)


def test_what_is_dropped_makes_room(tmp_path: Path) -> None:
    spark = SimulatedSpark(panewise.read(WORKLOAD), tmp_path, live=True, lookups=True, quotas=Quotas(queries=1))
    spark.run_batch({"s": events(0)}, [SHORT, "DROP QUERY total;", SHORT])
    assert [error is None for error in judged(tmp_path)] == [False, True, True]


def test_a_repeated_batch_keeps_what_was_judged_by_other_quotas(tmp_path: Path) -> None:
    spark = SimulatedSpark(panewise.read(WORKLOAD), tmp_path, live=True, lookups=True, quotas=Quotas(queries=1))
    spark._attempt({"s": events(0)}, [SHORT], 0)
    spark.quotas = None
    spark.start()
    spark.run_batch({"s": events(0)}, [SHORT])
    assert spark.counts["rejected_statements"] == 1
    spark.run_batch({"s": events(1)}, [SHORT])
    assert [error is None for error in judged(tmp_path)] == [False, True]


def test_queries_are_listed_with_the_statement_that_brought_them(tmp_path: Path) -> None:
    spark = SimulatedSpark(panewise.read(WORKLOAD), tmp_path, live=True, lookups=True, quotas=Quotas(queries=2))
    spark.run_batch({"s": events(0)}, [SHORT, LONG])
    spark.run_batch({"s": events(1)}, ["DROP QUERY total;"])
    run = partial(CliRunner().invoke, app, catch_exceptions=False)
    (live,) = map(json.loads, run(["queries", str(tmp_path), "--json"]).output.splitlines())
    assert (live["query"], live["since"], live["position"]) == ("short", "batch 0", "000")
    assert live["statement"].startswith("CREATE QUERY short AS SELECT SUM(x) FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE]")
    first, second, third = map(
        json.loads, run(["queries", str(tmp_path), "--statements", "--json"]).output.splitlines()
    )
    assert (first["added"], first["refused"]) == (["short"], None)
    assert (second["added"], second["position"]) == ([], "001")
    assert "its quota is 2" in second["refused"]
    assert (third["dropped"], third["since"]) == (["total"], "batch 1")
    listed = run(["queries", str(tmp_path), "--statements"]).output.splitlines()
    assert f"  refused: {second['refused']}" in listed  # not cut to the width of a column
    spark.run_batch({"s": events(2)}, [LONG])
    shown = " ".join(run(["queries", str(tmp_path)]).output.split())
    assert "short" in shown
    assert "operations a second now" in shown
    assert "if planned anew; never planned anew" in shown


def test_statements_are_checked_without_being_sent(tmp_path: Path) -> None:
    spark = SimulatedSpark(panewise.read(WORKLOAD), tmp_path, live=True, lookups=True, quotas=Quotas(queries=2))
    spark.run_batch({"s": events(0)})
    run = partial(CliRunner().invoke, app, catch_exceptions=False)
    file = tmp_path / "statements.sql"
    for text, code, said in [
        (SHORT, 0, "the job would take it"),
        (SHORT + LONG, 2, "would have 3 queries, and its quota is 2"),
        ("DROP QUERY nothing;", 2, "the job would refuse it"),
    ]:
        file.write_text(text)
        result = run(["queries", str(tmp_path), "--check", str(file)])
        assert result.exit_code == code
        assert said in " ".join(result.output.split())
    assert judged(tmp_path) == []
    assert [query.name for query in QueryAudit(tmp_path).live()] == ["total"]
