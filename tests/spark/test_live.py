"""Queries that come and go while a stream is read, answers that are corrected, and changes: against the oracle.

Most of it runs over `tests.spark.simulated`; at the end is Spark itself.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answer, to_answers
from tests.dice import SeededDice, one_in
from tests.engine.test_changes import at, by_place, shown
from tests.spark.simulated import SimulatedSpark
from tests.spark.streaming import read_stream, write_batches
from tests.workloads import UNIT_US, draw_query, in_any_order, random_events, random_workload

import panewise
from panewise import spark as panewise_spark
from panewise.engine.answers import is_list
from panewise.language.model import Query
from panewise.language.printer import print_query
from panewise.language.workload import Workload
from panewise.planning import drift
from panewise.planning.cost import DEFAULT_TOLERANCE
from panewise.spark.slot_log import write_job
from panewise.spark.statement_log import StatementLog
from panewise.windows.slots import lengths_of

ORIGIN_US = 1_356_998_400_000_000
BATCHES = 8


@dataclass
class Expected:
    """What a query that came in some batch and maybe went in another must have answered."""

    query: Query
    after_us: int | None = None
    until_us: int | None = None
    exact_from_us: int | None = None

    def answers(self, timestamp: str, accepted: list[dict[str, Any]], watermark_us: int) -> list[oracle.Answer]:
        until_us = watermark_us if self.until_us is None else self.until_us
        found = oracle.closed_answers(self.query, timestamp, accepted, until_us, self.after_us)
        return [one for one in found if self.exact_from_us is None or one.window_start >= self.exact_from_us]


def gives_lists(query: Query) -> bool:
    return any(is_list(item.expression) for item in query.answers)


@dataclass
class Program:
    """A random program over a simulated Spark, and what the oracle needs to know of it."""

    seed: int
    folder: Path
    changed_only: bool = False
    correct_us: int = 0
    accepted: list[dict[str, Any]] = field(default_factory=list)
    expected: dict[str, Expected] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dice = SeededDice(self.seed)
        self.workload = random_workload(self.seed, queries=3)
        (self.stream,) = self.workload.streams.values()
        self.every = dict(self.workload.queries)
        self.expected = {name: Expected(query) for name, query in self.every.items()}
        # Every second program plans anew as often as it can.
        tolerance = 0.0 if self.seed % 2 else DEFAULT_TOLERANCE
        self.spark = SimulatedSpark(
            self.workload, self.folder, live=True, changed_only=self.changed_only, tolerance=tolerance
        )

    def run(self) -> None:
        delay_us = self.stream.watermark_us + self.dice.integer(0, 8) * UNIT_US
        rows = random_events(self.seed, self.stream, 40 * BATCHES, disorder_us=delay_us, origin_us=ORIGIN_US)
        for number in range(BATCHES):
            batch = rows[number * 40 : number * 40 + 40]
            if one_in(self.dice, 5):
                batch = []
            self._accept(batch)
            statements = self._statements()
            watermark_us = self.spark.watermark_ms * 1000 or None
            self.spark.run_batch(
                {self.stream.name: batch},
                [text for text, _, _ in statements],
                attempts=self.dice.integer(1, 2),
                shift=self.dice.integer(0, 3),
                is_skipped=one_in(self.dice, 5),
            )
            self._note(statements, watermark_us)
            if one_in(self.dice, 4):
                self.spark.start()
        # Twice: after a batch that Spark skipped its timers are a batch late.
        self.spark.run_batch({})
        self.spark.run_batch({})

    def check(self) -> None:
        watermark_us = self.spark.watermark_ms * 1000
        workload = Workload(self.workload.streams, self.every)
        rows = self.spark.table().to_pylist()
        actual = [
            to_answer(row, Workload(workload.streams, {row["query"]: workload.queries[row["query"]]})) for row in rows
        ]
        expected = [
            answer
            for one in self.expected.values()
            for answer in one.answers(self.stream.timestamp, self.accepted, watermark_us)
        ]
        oracle.assert_same_answers(actual, expected, f"seed {self.seed}")

    def _accept(self, batch: list[dict[str, Any]]) -> None:
        watermark_us = self.spark.watermark_ms * 1000
        for event in batch:
            if not watermark_us or (event[self.stream.timestamp] // UNIT_US + 1) * UNIT_US > watermark_us:
                self.accepted.append(event)

    def _statements(self) -> list[tuple[str, str, Query | None]]:
        """Texts, each with the name of its query, and the query where one is created."""
        made: list[tuple[str, str, Query | None]] = []
        if one_in(self.dice, 2):
            for _ in range(self.dice.integer(1, 3)):
                name = f"n{len(self.every)}"
                query = draw_query(self.dice, self.stream, name, ["range slide"])
                while gives_lists(query) and not any(map(gives_lists, self.workload.queries.values())):
                    # Such a job has no column for lists, and refuses it: see test_control.py.
                    query = draw_query(self.dice, self.stream, name, ["range slide"])
                if one_in(self.dice, 2):
                    # A query like one that is there, over another window: it finds its partials waiting.
                    query = replace(self.dice.pick(list(self.every.values())), name=name, window=query.window)
                self.every[name] = query
                made.append((print_query(query) + ";", name, query))
        alive = [name for name, one in self.expected.items() if one.until_us is None]
        if alive and one_in(self.dice, 3):
            name = self.dice.pick(alive)
            made.append((f"DROP QUERY {name};", name, None))
        return made

    def _note(self, statements: list[tuple[str, str, Query | None]], watermark_us: int | None) -> None:
        job = self.spark.packed.at(self.spark.batch)
        exact = {
            name: time_us
            for base in job.bases.values()
            for tree in base.trees
            for name, time_us in tree.exact_from_us.items()
        }
        for _, name, query in statements:
            if query is None:
                self.expected[name].until_us = -(2**62) if watermark_us is None else watermark_us
            else:
                self.expected[name] = Expected(query, watermark_us, None, exact[name])


@pytest.mark.parametrize("seed", range(12))
def test_random_queries_come_and_go(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "FIRST_LOOK", 100)
    program = Program(seed, tmp_path)
    program.run()
    program.check()


def test_programs_do_what_they_are_for(tmp_path: Path) -> None:
    """Queries join trees, open trees and bases, start warm, and buckets are found in each possible state."""
    counts: dict[str, int] = defaultdict(int)
    for seed in range(4):
        program = Program(seed, tmp_path / str(seed))
        program.run()
        for name, count in program.spark.counts.items():
            counts[name] += count
        job = program.spark.packed.at(program.spark.batch)
        counts["generations"] += len({base.generation for base in job.bases.values()}) - 1
        for one in program.expected.values():
            if one.after_us is not None and one.exact_from_us is not None:
                counts["warm" if one.exact_from_us < one.after_us else "cold"] += 1
    for name in ("cache_hits", "rebuilds", "late_events", "generations", "warm", "cold"):
        assert counts[name] > 0, name


STREAM = """CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT)
  TIMESTAMP BY t WATERMARK 1 MINUTE GRANULARITY 1 MINUTE{};\n"""
MINUTE = 60_000_000


def event(minute: float, k: str | None = "a", x: int | None = 1) -> dict[str, Any]:
    return {"t": ORIGIN_US + int(minute * MINUTE), "k": k, "x": x}


def test_a_query_starts_with_the_past_that_the_longest_window_holds(tmp_path: Path) -> None:
    workload = panewise.read(
        STREAM.format("") + "CREATE QUERY long AS SELECT SUM(x) FROM s [RANGE 60 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    )
    spark = SimulatedSpark(workload, tmp_path, live=True)
    for minute in range(0, 90, 10):
        spark.run_batch({"s": [event(minute + n) for n in range(10)]})
    added = "CREATE QUERY short AS SELECT SUM(x) FROM s [RANGE 40 MINUTES SLIDE 20 MINUTES] GROUP BY k;"
    spark.run_batch({"s": [event(90)]}, [added])
    spark.run_batch({"s": [event(102)]})
    spark.run_batch({})
    rows = [row for row in spark.table().to_pylist() if row["query"] == "short"]
    # The watermark goes from 88 to 101: one window, whose first events came 30 minutes before the query did.
    assert [row["exact"] for row in rows] == [31]


def test_statements_that_cannot_be_run_are_kept_with_the_reason(tmp_path: Path) -> None:
    workload = panewise.read(
        STREAM.format("") + "CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE];"
    )
    spark = SimulatedSpark(workload, tmp_path, live=True)
    wrong = [
        "CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE];",
        "DROP QUERY unknown;",
        "CREATE QUERY r AS SELECT SUM(nothing) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE];",
        "CREATE QUERY r AS SELECT SUM(x) FROM s [RANGE 90 SECONDS SLIDE 1 MINUTE];",
        "CREATE QUERY r AS SELECT SUM(x) FROM s [ROWS 10 SLIDE 1];",
        "CREATE STREAM more (t TIMESTAMP) TIMESTAMP BY t;",
        "SELECT HISTOGRAM(x) FROM s",
        "",
    ]
    spark.run_batch(
        {"s": [event(0)]}, [*wrong, "CREATE QUERY r AS SELECT MAX(x) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE];"]
    )
    assert spark.counts["rejected_statements"] == len(wrong)
    (change,) = StatementLog(tmp_path).before(99)
    assert [statement.error is None for statement in change.statements] == [False] * len(wrong) + [True]
    assert all(statement.error for statement in change.statements[:-1])
    spark.run_batch({"s": [event(5)]})
    spark.run_batch({"s": [event(9)]})
    assert set(spark.table().column("query").to_pylist()) == {"q"}
    spark.run_batch({"s": [event(20)]})
    spark.run_batch({})
    assert set(spark.table().column("query").to_pylist()) == {"q", "r"}


def test_a_dropped_query_takes_its_partials_along(tmp_path: Path) -> None:
    """What a bucket holds after DROP QUERY of the longest window is what one holds that was rebuilt from the log."""
    text = (
        STREAM.format("") + "CREATE QUERY short AS SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k;"
    )
    longest = "CREATE QUERY longest AS SELECT COUNT(*) FROM s [RANGE 1000 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    spark = SimulatedSpark(panewise.read(text + longest), tmp_path, live=True, buckets=1, workers=1)

    def held() -> int:
        return sum(cached.bucket.live_rows for worker in spark._workers for cached in worker.cache.values())

    spark.run_batch({"s": [event(minute) for minute in range(990)]})
    spark.run_batch({"s": [event(995)]})
    assert held() > 900
    spark.run_batch({}, ["DROP QUERY longest;"])
    spark.run_batch({"s": [event(996)]})
    warm = held()
    spark.run_batch({"s": [event(997)]})
    assert warm < 20
    assert held() < 20
    spark.start()
    spark.run_batch({})
    rebuilt = held()
    assert spark.counts["rebuilds"] == 2
    assert warm <= rebuilt + 1


def test_a_folder_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    workload = panewise.read(
        STREAM.format("") + "CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE];"
    )
    first = SimulatedSpark(workload, tmp_path, live=True)
    first.run_batch({"s": [event(0)]}, ["DROP QUERY q;"])
    second = SimulatedSpark(workload, tmp_path, live=True)
    with pytest.raises(panewise.PanewiseError, match="belongs to another checkpoint"):
        second.run_batch({"s": [event(3)]}, ["DROP QUERY q;"])


def test_queries_that_came_are_looked_up(tmp_path: Path) -> None:
    workload = panewise.read(
        STREAM.format("") + "CREATE QUERY long AS SELECT SUM(x) FROM s [RANGE 60 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    )
    spark = SimulatedSpark(workload, tmp_path, live=True, lookups=True)
    write_job(tmp_path, spark.packed.open())
    for minute in range(0, 90, 10):
        spark.run_batch({"s": [event(minute + n, "ab"[n % 2]) for n in range(10)]})
    client = panewise.LookupClient(tmp_path, refresh_every_s=0)
    assert _sums(client.lookup("long", keys={"k": "a"})) == [30]
    statements = [
        "CREATE QUERY short AS SELECT SUM(x) FROM s [RANGE 40 MINUTES SLIDE 20 MINUTES] GROUP BY k;",
        "CREATE QUERY latest AS SELECT SUM(x) FROM s [RANGE 30 MINUTES] GROUP BY k;",
        "CREATE QUERY other AS SELECT MAX(x) FROM s [RANGE 30 MINUTES];",
        "DROP QUERY long;",
    ]
    spark.run_batch({"s": [event(90)]}, statements)
    spark.run_batch({"s": [event(102, x=7)]})
    spark.run_batch({"s": [event(103)]})
    with pytest.raises(panewise.PanewiseError, match="no query named 'long'"):
        client.lookup("long")
    # Windows that had closed before the query came, from 40 to 80, and since: from 60 to 100.
    assert _sums(client.lookup("short", keys={"k": "a"})) == [16]
    assert _sums(client.lookup("latest", keys={"k": "a"})) == [8 + 1 + 7 + 1]
    with pytest.raises(panewise.PanewiseError, match="look up a later time"):
        client.lookup("other")
    for minute in range(104, 140):
        spark.run_batch({"s": [event(minute)]})
    assert client.lookup("other").column("MAX(x)").to_pylist() == [1]
    again = panewise.LookupClient(tmp_path)
    assert again.lookup("other").equals(client.lookup("other"))
    again.check_invariants()


def _sums(table: Any) -> list[int | None]:
    return table.column("SUM(x)").to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("shift", [0, 1])
def test_late_events_correct_answers_where_the_stream_asks_for_it(shift: int, tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT SUM(x), COUNT(*) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    workload = panewise.read(STREAM.format(" ON LATE CORRECT 5 MINUTES") + query)
    batches = [
        [event(0.5), event(1.5)],
        [event(9)],
        [event(4.5, x=10), event(1.2, x=100), event(8.5)],
        [event(5.5, x=1000), event(20)],
        [],
    ]
    spark = SimulatedSpark(workload, tmp_path)
    for number, batch in enumerate(batches):
        spark.run_batch({"s": batch}, shift=shift * number)
    assert (spark.counts["corrected_events"], spark.counts["late_events"]) == (2, 1)
    reported = to_answers(spark.table(), workload)
    last = {(one.window_start, one.group, one.item): one for one in reported}
    accepted = [row for batch in batches for row in batch if row["x"] != 100]
    expected = oracle.closed_answers(workload.queries["q"], "t", accepted, spark.watermark_ms * 1000)
    oracle.assert_same_answers(last.values(), expected)
    # The first late event comes with the batch that closes its windows. The second corrects one that was reported, with
    # two aggregates, and its other window had no event before.
    assert len(reported) == len(expected) + 2


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("seed", range(1, 4))
def test_changed_answers_only(seed: int, shift: int, tmp_path: Path) -> None:
    workload = in_any_order(random_workload(seed, queries=9))
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 240, origin_us=ORIGIN_US)
    spark = SimulatedSpark(workload, tmp_path, changed_only=True)
    engine = panewise.Engine(workload)
    expected = []
    for number, batch in enumerate([*(rows[first : first + 40] for first in range(0, 240, 40)), []]):
        watermark_us = spark.watermark_ms * 1000
        if watermark_us:
            answers = engine.advance(stream.name, watermark_us, changed_only=True).long()
            expected += to_answers(answers, workload)
        engine.push(stream.name, _table(workload, batch))
        spark.run_batch({stream.name: batch}, shift=shift * number)
    actual = to_answers(spark.table(), workload)
    assert len(actual) > 20
    assert (spark.counts["catch_ups"] > 0) == bool(shift)
    oracle.assert_same_answers(actual, expected)


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_job_reports_changes_as_the_end_of_a_stream_does(seed: int, tmp_path: Path) -> None:
    workload = in_any_order(random_workload(seed, queries=9))
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 120, origin_us=ORIGIN_US)
    spark = SimulatedSpark(workload, tmp_path, changed_only=True)
    spark.run_as_batch_job({stream.name: rows})
    engine = panewise.Engine(workload)
    engine.push(stream.name, _table(workload, rows))
    expected = to_answers(engine.advance(stream.name, panewise.END_OF_STREAM, changed_only=True).long(), workload)
    assert any(answer.value is None for answer in expected)
    oracle.assert_same_answers(to_answers(spark.table(), workload), expected)


FOLLOWED = """
CREATE QUERY a AS SELECT COUNT(*), MAX(x) FROM s [RANGE 6 MINUTES SLIDE 2 MINUTES] GROUP BY k;
CREATE QUERY b AS SELECT MAX(x) FROM s [RANGE 3 MINUTES SLIDE 1 MINUTE] GROUP BY k HAVING COUNT(*) > 1;
CREATE QUERY c AS SELECT SUM(x) FROM s [RANGE 4 MINUTES SLIDE 5 MINUTES];
"""


@pytest.mark.parametrize("seed", range(8))
def test_following_changes_and_corrections_gives_every_answer(seed: int, tmp_path: Path) -> None:
    """As in the engine: the last report of a group up to a window's end is the group's answer in this window."""
    workload = panewise.read(STREAM.format(" ON LATE CORRECT 5 MINUTES") + FOLLOWED)
    spark = SimulatedSpark(workload, tmp_path, changed_only=True)
    chance = random.Random(seed)
    accepted: list[dict[str, Any]] = []
    reports: dict[Any, dict[int, Any]] = {}
    for number in range(16):
        watermark_us = spark.watermark_ms * 1000
        batch = [
            event(2 * number + chance.randint(-9, 2), k=chance.choice("ab"), x=chance.randint(0, 3))
            for _ in range(chance.randint(0, 5))
        ]
        accepted += [row for row in batch if row["t"] >= watermark_us - 5 * MINUTE]
        told = by_place(to_answers(spark.run_batch({"s": batch}, shift=chance.randint(0, 1)), workload))
        for (query, end), report in told.items():
            for group, items in report.items():
                reports.setdefault((query, group), {})[end] = items
        expected = by_place(
            answer
            for query in workload.queries.values()
            for answer in oracle.closed_answers(query, "t", accepted, watermark_us)
        )
        for (query, group), known in reports.items():
            length, slide = lengths_of(workload.queries[query].window)
            for end in range((ORIGIN_US - length) // slide * slide + length, watermark_us + 1, slide):
                assert at(known, end) == expected.get((query, end), {}).get(group, {}), (query, group, end)
        assert all((query, group) in reports for (query, _), groups in expected.items() for group in shown(groups))
        if chance.random() < 0.2:
            spark.start()
    assert spark.counts["corrected_events"] > 0


def _table(workload: Workload, rows: list[dict[str, Any]]) -> Any:
    from tests.spark.streaming import public_table

    (stream,) = workload.streams.values()
    return public_table(stream, rows)


@pytest.mark.spark
def test_queries_come_and_go_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The statements of a folder, over starts and stops, with the same answers as the simulation."""
    workload = panewise.read(
        STREAM.format("") + "CREATE QUERY long AS SELECT SUM(x) FROM s [RANGE 9 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    )
    batches = [[event(m + n / 5, k="abc"[n % 3], x=n) for n in range(20)] for m in range(0, 24, 4)]
    statements = {
        1: "CREATE QUERY joins AS SELECT SUM(x) FROM s [RANGE 6 MINUTES SLIDE 2 MINUTES] GROUP BY k;",
        2: "CREATE QUERY opens AS SELECT MAX(x), COUNT(*) FROM s [RANGE 4 MINUTES SLIDE 2 MINUTES] WHERE x > 3;",
        3: "DROP QUERY long; CREATE QUERY wrong AS SELECT",
        4: "DROP QUERY long;",
    }
    simulated = SimulatedSpark(workload, tmp_path / "simulated", live=True, buckets=4)
    (stream,) = workload.streams.values()
    control = tmp_path / "control"
    control.mkdir()
    for first in (0, 2, 4):
        numbers = range(first, first + 2)
        write_batches(tmp_path / "events", stream, [batches[number] for number in numbers], first)
        for number in numbers:
            # Every batch has a file of statements, if an empty one, so that the two sources stay in step.
            path = control / f"{number:03}.sql"
            path.write_text(statements.get(number, ""))
            os.utime(path, (1_000_000_000 + number,) * 2)
            simulated.run_batch({"s": batches[number]}, [statements[number]] if number in statements else [])
        run_live(spark, tmp_path, workload)
        # Spark ends a run with a batch without data.
        simulated.run_batch({})
    rows = spark.read.parquet(str(tmp_path / "answers")).toArrow().to_pylist()
    assert sorted(map(str, rows)) == sorted(map(str, simulated.table().to_pylist()))
    assert {row["query"] for row in rows} == {"long", "joins", "opens"}
    (refused,) = [s for change in StatementLog(tmp_path / "shared").before(99) for s in change.statements if s.error]
    assert "line 1, column" in (refused.error or "")


def run_live(spark: SparkSession, folder: Path, workload: Workload) -> None:
    (stream,) = workload.streams.values()
    control = spark.readStream.option("maxFilesPerTrigger", 1).option("wholetext", True).text(str(folder / "control"))
    frame = panewise_spark.answers(
        read_stream(spark, folder / "events", stream),
        workload,
        control=control.where("value <> ''"),
        folder=folder / "shared",
    )
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "answers"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
