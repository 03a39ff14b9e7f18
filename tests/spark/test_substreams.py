"""Windows over rows that slide, of substreams or of a stream: Spark reports them as the oracle does.

Random programs run over `tests.spark.simulated`; at the end is Spark itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answers
from tests.dice import SeededDice, one_in
from tests.spark.row_programs import by_content
from tests.spark.simulated import SimulatedSpark
from tests.spark.streaming import public_table, read_stream, write_batches
from tests.workloads import UNIT_US, draw_query, draw_stream, in_any_order, random_events

import panewise
from panewise import spark as panewise_spark
from panewise.errors import NotOnSparkError
from panewise.language.model import Stream
from panewise.language.workload import Workload
from panewise.spark import processor
from panewise.spark.job import Job

ORIGIN_US = 1_356_998_400_000_000
BATCHES = 12
Event = dict[str, Any]


def random_reports(seed: int) -> Workload:
    """Queries that report substreams, or over the rows of the stream, beside one over time."""
    dice = SeededDice(seed)
    stream = draw_stream(dice, dice.pick((None, UNIT_US)))
    drawn = [draw_query(dice, stream, "slides", ["range slide"])]
    while len(drawn) < 8:
        query = draw_query(dice, stream, f"q{len(drawn)}", ["substreams slide"])
        # Without GROUP BY there are no substreams, and the rows are those of the stream.
        drawn += [replace(query, window=replace(query.window, partition_by=()))] if one_in(dice, 3) else [query]
    return in_any_order(Workload({stream.name: stream}, {query.name: query for query in drawn}))


def wanted_of(job: Job, accepted: dict[str, list[Event]], until_us: int | None) -> list[oracle.Answer]:
    """What all queries that report substreams must have answered; rows of one time are in the order of their values."""
    found = []
    for name, query in job.tuples.reports.items():
        (number,) = job.tuples.reads[name]
        base = job.tuples.bases[number]
        time = base.stream.timestamp
        names = [each for each in base.attributes if each != time]
        rows = sorted(accepted[name], key=lambda event: by_content(event, names))
        found += oracle.closed_answers(query, time, rows, None if until_us is None else base.final_us(until_us))
    return found


def accept(job: Job, stream: Stream, batch: list[Event], watermark_us: int | None, to: dict[str, list[Event]]) -> None:
    """The events of a batch that are on time for each query."""
    for name in job.tuples.reports:
        (number,) = job.tuples.reads[name]
        final_us = None if watermark_us is None else job.tuples.bases[number].final_us(watermark_us)
        on_time = (event for event in batch if final_us is None or event[stream.timestamp] >= final_us)
        to.setdefault(name, []).extend(on_time)


@pytest.mark.parametrize("seed", range(6))
def test_random_streams(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are repeated and lost, buckets move, the job starts again, and the log is shortened early."""
    monkeypatch.setattr(processor, "MOST_KEPT", 3)
    workload = random_reports(seed)
    (stream,) = workload.streams.values()
    dice = SeededDice(seed + 1)
    disorder_us = stream.watermark_us + dice.integer(0, 4) * UNIT_US
    rows = random_events(seed, stream, 12 * BATCHES, span_us=40 * UNIT_US, disorder_us=disorder_us, origin_us=ORIGIN_US)
    spark = SimulatedSpark(workload, tmp_path)
    accepted: dict[str, list[Event]] = {name: [] for name in workload.queries}
    for number in range(BATCHES):
        batch = [] if one_in(dice, 6) else rows[number * 12 : number * 12 + 12]
        accept(spark.packed.open(), stream, batch, spark.watermark_of_spark_us, accepted)
        spark.run_batch({stream.name: batch}, attempts=dice.integer(1, 2), shift=dice.integer(0, 3))
        if one_in(dice, 4):
            spark.start()
    until_us = spark.watermark_of_spark_us
    spark.run_batch({})
    job = spark.packed.open()
    found = [one for one in to_answers(spark.table(), workload) if one.query in job.tuples.reports]
    oracle.assert_same_answers(found, wanted_of(job, accepted, until_us))
    most = max(sum(len(state["log"]) for state in spark.committed.values()), 1)
    assert most <= len(spark.committed) * (3 + 1 + BATCHES), "the log is shortened"


@pytest.mark.parametrize("seed", range(4))
def test_random_batch_jobs(seed: int, tmp_path: Path) -> None:
    workload = random_reports(seed)
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 150, span_us=40 * UNIT_US, disorder_us=UNIT_US, origin_us=ORIGIN_US)
    spark = SimulatedSpark(workload, tmp_path)
    spark.run_as_batch_job({stream.name: rows})
    job = spark.packed.open()
    found = [one for one in to_answers(spark.table(), workload) if one.query in job.tuples.reports]
    oracle.assert_same_answers(found, wanted_of(job, dict.fromkeys(workload.queries, rows), None))


STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;"
LAST = "CREATE QUERY last AS SELECT k, SUM(n) AS total FROM s [PARTITION BY k ROWS 3 SLIDE 1] GROUP BY k;"


def test_the_log_keeps_the_last_rows_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "MOST_KEPT", 4)
    spark = SimulatedSpark(panewise.read(STREAM + LAST), tmp_path, wide_by="query")
    entries, totals = [], {}
    for number in range(60):
        event = {"t": ORIGIN_US + number * UNIT_US, "k": number % 2, "n": number}
        spark.run_batch({"s": [event]})
        entries.append(sum(len(state["log"]) for state in spark.committed.values()))
        for row in spark.brought["last"].to_pylist():
            totals[row["window_end"].timestamp() * 1e6 - ORIGIN_US] = row["total"]
    assert max(entries) <= 12
    assert totals == {
        number * UNIT_US: sum(range(number, max(number - 6, number % 2 - 1), -2)) for number in range(len(totals))
    }
    assert len(totals) >= 57


def test_what_is_refused(tmp_path: Path) -> None:
    workload = panewise.read(STREAM + LAST)
    SimulatedSpark(workload, tmp_path, lookups=True).run_batch({"s": [{"t": ORIGIN_US, "k": 1, "n": 1}]})
    with pytest.raises(NotOnSparkError, match="query last reports as rows come"):
        panewise.LookupClient(tmp_path).lookup("last")
    with pytest.raises(NotOnSparkError, match="reports when there are its next rows"):
        panewise_spark.answers({}, workload, changed_only=True)
    engine = panewise.Engine(workload)
    engine.push("s", {"t": [ORIGIN_US], "k": [1], "n": [1]})
    with pytest.raises(panewise.PanewiseError, match="advance without changed_only"):
        engine.advance("s", ORIGIN_US + 1, changed_only=True)
    assert engine.advance("s", ORIGIN_US + 1).num_rows == 1
    with pytest.raises(panewise.StatementError, match="needs one window for all groups"):
        panewise.read(f"{STREAM} CREATE QUERY q AS SELECT HISTOGRAM(n) FROM s [PARTITION BY k ROWS 3 SLIDE 1];")


@pytest.mark.spark
def test_a_batch_and_a_stream_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The stream is started again in between."""
    workload = random_reports(2)
    (stream,) = workload.streams.values()
    rows = random_events(2, stream, 120, span_us=30 * UNIT_US, origin_us=ORIGIN_US)
    job = Job.of(workload, [0])
    frame = spark.createDataFrame(public_table(stream, rows))
    found = to_answers(panewise_spark.answers(frame, workload).toArrow(), workload)
    every = dict.fromkeys(workload.queries, rows)
    oracle.assert_same_answers([one for one in found if one.query != "slides"], wanted_of(job, every, None))
    columns = panewise_spark.answers(frame, workload).schema
    for first, last in ((0, 2), (2, 4)):
        write_batches(tmp_path / "events", stream, [rows[n * 30 : n * 30 + 30] for n in range(first, last)], first)
        answers = panewise_spark.answers(read_stream(spark, tmp_path / "events", stream), workload)
        writer = answers.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "progress"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    written = spark.read.schema(columns).parquet(str(tmp_path / "out")).toArrow()
    found = [one for one in to_answers(written, workload) if one.query != "slides"]
    until_us = (max(row[stream.timestamp] for row in rows) - stream.watermark_us) // 1000 * 1000
    oracle.assert_same_answers(found, wanted_of(job, every, until_us))


def test_the_rows_of_a_stream_that_has_gone_on_for_long(tmp_path: Path) -> None:
    """Old rows leave the log, and a job that starts again still knows how many there were."""
    text = STREAM + "CREATE QUERY five AS SELECT SUM(n) AS total, COUNT(*) AS rows FROM s [ROWS 5 SLIDE 2];"
    workload = panewise.read(
        text + "CREATE QUERY by_k AS SELECT k, COUNT(*) AS rows FROM s [ROWS 4 SLIDE 4] GROUP BY k;"
    )
    spark = SimulatedSpark(workload, tmp_path, wide_by="query")
    rows = [{"t": ORIGIN_US + number * UNIT_US // 3, "k": number % 2, "n": number} for number in range(200)]
    entries, totals, counts = [], [], []
    for number in range(40):
        spark.run_batch({"s": rows[number * 5 : number * 5 + 5]}, attempts=1 + number % 2, shift=number)
        entries.append(sum(len(state["log"]) for state in spark.committed.values()))
        totals += [(row["total"], row["rows"]) for row in spark.brought["five"].to_pylist()]
        counts += [(row["k"], row["rows"]) for row in spark.brought["by_k"].to_pylist()]
        if number % 7 == 6:
            spark.start()
    assert max(entries) <= 24
    ends = range(1, 200, 2)
    wanted = [(sum(range(max(0, end - 5), end)), min(5, end)) for end in ends]
    assert totals == wanted[: len(totals)]
    assert len(totals) > 90
    assert counts == [(k, 2) for _ in range(len(counts) // 2) for k in (0, 1)]
    assert len(counts) > 90
