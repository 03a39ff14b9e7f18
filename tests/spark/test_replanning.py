"""On Spark, a plan stays near the cost of a fresh one while queries come and go, and no window loses its past."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests import oracle
from tests.answers import to_answers
from tests.spark.simulated import SimulatedSpark

import panewise
from panewise.errors import CheckpointError, PanewiseError
from panewise.planning import drift
from panewise.planning.sharing import exhaustive
from panewise.planning.sharing.names import METHODS
from panewise.spark.job import Change, Job, Statement
from panewise.spark.lookup_folder import FolderJobs
from panewise.spark.query_audit import QueryAudit
from panewise.spark.statement_log import StatementLog

US = 1_000_000
ORIGIN_US = 1_356_998_400_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;"


LENGTHS = [40, 30, 24, 20, 15, 12, 10, 8, 6, 5, 4, 3, 2]
"""From long to short: no tree has the edges of the next query."""


def tumbling(seconds: int, name: str = "") -> str:
    window = f"[RANGE {seconds} SECONDS SLIDE {seconds} SECONDS]"
    return f"CREATE QUERY {name or f'q{seconds}'} AS SELECT k, SUM(x), MAX(x) FROM s {window} GROUP BY k;"


def events(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"t": ORIGIN_US + second * US, "k": key, "x": sign * second}
        for second in range(first, last)
        for key, sign in (("a", 1), ("b", -1))
    ]


def trees_of(job: Job) -> list[tuple[int, set[str]]]:
    return [(tree.tree.number, set(tree.queries)) for live in job.bases.values() for tree in live.trees]


@pytest.mark.parametrize("changed_only", [False, True])
def test_trees_are_woven_anew_and_no_window_loses_its_past(tmp_path: Path, changed_only: bool) -> None:
    workload = panewise.read(STREAM + tumbling(60))
    spark = SimulatedSpark(workload, tmp_path, live=True, lookups=True, changed_only=changed_only)
    for place, seconds in enumerate(LENGTHS):
        spark.run_batch({"s": events(7 * place, 7 * place + 7)}, [tumbling(seconds)])
    drops = [f"DROP QUERY q{seconds};" for seconds in LENGTHS if seconds % 4]
    spark.run_batch({"s": events(91, 147)}, drops)
    spark.run_batch({"s": events(147, 330)})
    spark.run_batch({"s": events(330, 331)})
    job = spark.packed.at(spark.batch)
    cost, fresh_cost = job.costs("s")
    assert job.replans > 1
    assert cost <= 1.2 * fresh_cost

    # A replay, here by one who reads the folder, decides alike.
    replayed = FolderJobs(tmp_path).current()
    assert trees_of(replayed) == trees_of(job)
    assert (replayed.replans, replayed.replanned_batch) == (job.replans, job.replanned_batch)

    every = panewise.read(STREAM + "".join(map(tumbling, [60, *LENGTHS])))
    found = to_answers(spark.table(), every)
    accepted, watermark_us = events(0, 330), ORIGIN_US + 329 * US
    for live in job.bases.values():
        for tree in live.trees:
            for name, planned in tree.queries.items():
                after_us, exact_us = tree.reports_after_us[name], tree.exact_from_us[name]
                expected = [
                    one
                    for one in oracle.closed_answers(planned.query, "t", accepted, watermark_us, after_us)
                    if exact_us is None or one.window_start >= exact_us
                ]
                mine = [one for one in found if one.query == name]
                # Sums differ from window to window here, so changes are all answers.
                assert sorted(map(repr, mine)) == sorted(map(repr, expected))
                assert len(mine) > 10


def test_a_thousand_changes_in_one_batch(tmp_path: Path) -> None:
    spark = SimulatedSpark(panewise.read(STREAM + tumbling(60)), tmp_path, live=True)
    spark.run_batch({"s": events(0, 5)})
    statements = [tumbling(LENGTHS[n % 13], f"q{n}") for n in range(600)] + [f"DROP QUERY q{n};" for n in range(400)]
    spark.run_batch({"s": events(5, 10)}, statements)
    spark.run_batch({"s": events(10, 15)})
    job = spark.packed.at(spark.batch)
    # q60 was there before, so its statement was refused; its DROP took the old one away.
    assert spark.counts["rejected_statements"] == 1
    assert set(job.workload.queries) == {f"q{n}" for n in range(400, 600)}
    cost, fresh_cost = job.costs("s")
    assert cost <= 1.2 * fresh_cost


@pytest.mark.parametrize("method", METHODS)
def test_a_job_runs_the_trees_of_each_method(method: str) -> None:
    workload = panewise.read(STREAM + "".join(map(tumbling, LENGTHS[-6:])))
    planned = panewise.optimize(workload, method=method, in_bulk=True)
    expected = [{one.query.name for one in tree.queries} for tree in planned.trees]
    assert [names for _, names in trees_of(Job.of(workload, [0], method=method))] == expected


def test_bad_input_is_refused_and_an_infinite_tolerance_plans_nothing_anew(tmp_path: Path) -> None:
    workload = panewise.read(STREAM + tumbling(60))
    with pytest.raises(PanewiseError, match="unknown method of sharing 'weave'"):
        Job.of(workload, [0], method="weave")
    with pytest.raises(PanewiseError, match="tolerance is a share of a plan's cost, at least 0"):
        Job.of(workload, [0], tolerance=-1)
    spark = SimulatedSpark(workload, tmp_path, live=True, tolerance=math.inf)
    spark.run_batch({"s": events(0, 5)}, ["DROP QUERY nothing;", *map(tumbling, LENGTHS)])
    spark.run_batch({"s": events(5, 9)})
    job = spark.packed.at(spark.batch)
    assert (spark.counts["rejected_statements"], job.replans, job.replanned_batch) == (1, 0, None)


def test_a_statement_that_the_method_cannot_plan_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "MOST_EDGE_SETS", 6)
    job = Job.of(panewise.read(STREAM + tumbling(60)), [0], method="exhaustive", is_live=True)
    statements = tuple(Statement(tumbling(seconds)) for seconds in range(2, 10))
    judged = job.judge(Change(0, statements, {"s": US}, US, {}))
    refused = [one.error for one in judged.statements if one.error is not None]
    assert len(refused) == 3
    assert "exhaustive search takes at most 6 different edge sets" in refused[0]
    assert len(job.after(judged).workload.queries) == 6


def of_own_base(number: int, seconds: int) -> str:
    """A query whose predicate no base has yet."""
    window = f"[RANGE {2 * seconds} SECONDS SLIDE {seconds} SECONDS]"
    return f"CREATE QUERY p{number} AS SELECT k, SUM(x), COUNT(*) FROM s {window} WHERE x > {number - 3} GROUP BY k;"


@pytest.mark.parametrize("changed_only", [False, True])
def test_generations_end_when_bases_are_made_anew(tmp_path: Path, changed_only: bool) -> None:
    asked = "CREATE QUERY now AS SELECT k, SUM(x) FROM s [RANGE 8 SECONDS] GROUP BY k;"
    workload = panewise.read(STREAM + tumbling(6) + asked)
    spark = SimulatedSpark(workload, tmp_path, live=True, lookups=True, changed_only=changed_only)
    most, moved = 0, False
    for number in range(7):
        statements = [of_own_base(number, 2 + number % 3)] + (["DROP QUERY p1;"] if number == 5 else [])
        spark.run_batch({"s": events(7 * number, 7 * number + 7)}, statements, attempts=2, shift=number)
        most = max(most, len({live.generation for live in spark.packed.at(spark.batch).bases.values()}))
    for place in range(14):
        if place == 5:
            spark.start()
        spark.run_batch({"s": events(49 + 5 * place, 54 + 5 * place)}, shift=place)
        # A second reader of the folder opens and hands over when the job does.
        replayed, job = FolderJobs(tmp_path).current(), spark.packed.at(spark.batch)
        assert trees_of(replayed) == trees_of(job)
        moved |= QueryAudit(tmp_path).costs()[0].is_moving
    assert moved
    assert not QueryAudit(tmp_path).costs()[0].is_moving
    assert most > 2
    assert len(job.bases) == 1
    assert job.bases.keys() == replayed.bases.keys()
    (live,) = job.bases.values()
    assert [one.query.name for one in live.stand_ins] == ["now"]
    cost, fresh_cost = job.costs("s")
    assert cost <= 1.2 * fresh_cost
    # A batch wrote that the new base took over, without any statement.
    assert any(not change.statements for change, _ in FolderJobs(tmp_path).changes())
    client = panewise.LookupClient(tmp_path)
    (one, other) = client.lookup("now").to_pylist()
    assert {one["k"], other["k"]} == {"a", "b"}
    assert abs(one["SUM(x)"]) == abs(other["SUM(x)"]) == sum(range(111, 119))

    every = panewise.read(STREAM + tumbling(6) + "".join(of_own_base(n, 2 + n % 3) for n in range(7)))
    found = to_answers(spark.table(), every)
    accepted, watermark_us = events(0, 114), ORIGIN_US + 113 * US
    for tree in live.trees:
        for name, planned in tree.queries.items():
            after_us, exact_us = tree.reports_after_us[name], tree.exact_from_us[name]
            expected = [
                one
                for one in oracle.closed_answers(planned.query, "t", accepted, watermark_us, after_us)
                if exact_us is None or one.window_start >= exact_us
            ]
            mine = [one for one in found if one.query == name]
            assert sorted(map(repr, mine)) == sorted(map(repr, expected))
            assert len(mine) > 10


def test_a_job_plans_by_what_it_saw_and_a_replay_decides_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody said `groups`: few values of both attributes make one pass over the events cheaper than two.
    monkeypatch.setattr(drift, "FIRST_LOOK", 400)
    text = """
        CREATE STREAM s (t TIMESTAMP, k STRING, j BIGINT, x BIGINT) TIMESTAMP BY t GRANULARITY 10 SECONDS;
        CREATE QUERY by_k AS SELECT k, SUM(x) FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k;
        CREATE QUERY by_both AS SELECT k, j, SUM(x) FROM s [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY k, j;
    """
    workload = panewise.read(text)
    rows = [
        {"t": ORIGIN_US + place * US // 20, "k": f"k{place % 4}", "j": place // 4 % 2, "x": place}
        for place in range(3000)
    ]
    spark = SimulatedSpark(workload, tmp_path, live=True)
    for first in range(0, 3000, 150):
        spark.run_batch({"s": rows[first : first + 150]}, attempts=1 + (first % 400 == 0))
    spark.run_batch({"s": [rows[-1]]})
    job = spark.packed.at(spark.batch)
    # By the clock of the events, 20 a second; and by hash, about as many groups as there are.
    prices = job.prices_of("s")
    assert prices.rate == pytest.approx(20, rel=0.1)
    assert prices.groups["j"] == 2
    assert 1 <= prices.groups["k"] <= 12
    assert [live.base.group_by for live in job.bases.values()] == [("j", "k")]
    assert not any(change.statements for change in StatementLog(tmp_path).before(spark.batch))

    replayed = spark.packed.open()
    for change in StatementLog(tmp_path).before(spark.batch):
        replayed = replayed.after(change)
    assert trees_of(replayed) == trees_of(job)
    assert (
        (replayed.replans, replayed.replanned_batch) == (job.replans, job.replanned_batch) == (1, job.replanned_batch)
    )

    watermark_us = max(row["t"] for row in rows)
    found = to_answers(spark.table(), workload)
    for query in workload.queries.values():
        expected = oracle.closed_answers(query, "t", rows, watermark_us)
        assert sorted(repr(one) for one in found if one.query == query.name) == sorted(map(repr, expected))

    # A planner that decides otherwise than the one that made the state would read its partials as something else.
    spark._tolerance = math.inf
    spark.start()
    with pytest.raises(CheckpointError, match="lead to another plan than when the checkpoint was written"):
        spark.run_batch({"s": [rows[-1]]})
