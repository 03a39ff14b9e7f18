"""Events that must not end or empty a job: sums that do not fit, and times too far ahead or without use."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests import oracle
from tests.answers import to_answers
from tests.spark.streaming import public_table, read_stream, run_stream, write_batches

import panewise
from panewise import spark as panewise_spark
from panewise.spark.batch_metrics import BatchMetrics
from panewise.spark.counts import OTHERS, overflown_of, overflown_text
from panewise.spark.prometheus import BatchCollector

pytestmark = pytest.mark.spark

MINUTE = 60_000_000
HOUR = 60 * MINUTE
START = 1_356_998_400_000_000
HUGE = 9_000_000_000_000_000_000
YEAR_9999 = 253_402_300_000_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 1 MINUTE"
QUERIES = """;
CREATE QUERY total AS SELECT SUM(x), COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k;
CREATE QUERY largest AS SELECT MAX(x) FROM s [RANGE 3 MINUTES SLIDE 1 MINUTE] GROUP BY k;
CREATE QUERY rich AS SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k HAVING SUM(x) > 5;
"""
WORKLOAD = panewise.read(STREAM + QUERIES)


def event(minute: float, k: str | None = "a", x: int | None = 1) -> dict:
    return {"t": START + int(minute * MINUTE), "k": k, "x": x}


POISONED = [
    [event(0, x=HUGE), event(0.5, x=HUGE), event(0, k="b", x=7)],
    [event(1), event(1.5, k="b"), event(3)],
    [event(4, x=-HUGE), event(4.2, x=-HUGE), event(4.4, k="b", x=9)],
    [event(8), event(9)],
]


def expected(batches: list[list[dict]], until_minute: float) -> list[oracle.Answer]:
    events = [one for batch in batches for one in batch]
    watermark = START + int(until_minute * MINUTE)
    return [a for q in WORKLOAD.queries.values() for a in oracle.closed_answers(q, "t", events, watermark)]


def test_a_sum_that_does_not_fit_is_null_and_the_job_goes_on_after_a_restart_too(spark: SparkSession, tmp_path: Path):
    (stream,) = WORKLOAD.streams.values()
    folder = tmp_path / "events"
    write_batches(folder, stream, POISONED[:2])
    table, metrics = run_stream(spark, folder, WORKLOAD)
    oracle.assert_same_answers(to_answers(table, WORKLOAD), expected(POISONED[:2], 2))
    assert sum(one.overflown_answers for one in metrics) == 2
    write_batches(folder, stream, POISONED[2:], 2)
    table, metrics = run_stream(spark, folder, WORKLOAD)
    answers = to_answers(table, WORKLOAD)
    oracle.assert_same_answers(answers, expected(POISONED, 8))
    assert [a.value for a in answers if a.query == "total" and a.value is None] == [None, None]
    # Of this run only: `total` and `rich` of the window that begins at minute 4.
    found = [overflown_of(one.overflown) for one in metrics]
    assert [one for one in found if one] == [{"total": 1, "rich": 1}]


OF_JOB, OF_QUERY = "panewise_overflown_answers_total", "panewise_query_overflown_answers_total"


def test_metrics_name_the_queries(spark: SparkSession, tmp_path: Path):
    (stream,) = WORKLOAD.streams.values()
    write_batches(tmp_path / "events", stream, POISONED)
    frame = panewise_spark.answers(read_stream(spark, tmp_path / "events", stream), WORKLOAD)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.queryName("job").trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [BatchMetrics.of(progress) for progress in query.recentProgress]
    collector = BatchCollector()
    for batch in batches:
        collector.put(batch)
    samples = [sample for metric in collector.collect() for sample in metric.samples]
    counted = {sample.labels["job_name"]: sample.value for sample in samples if sample.name == OF_JOB}
    assert counted == {"job": 4}
    by_query = {sample.labels["query"]: sample.value for sample in samples if sample.name == OF_QUERY}
    assert by_query == {"total": 2, "rich": 2}
    assert {name for batch in batches for name in batch.as_dict()["overflown"]} == {"total", "rich"}


def test_many_queries_with_such_answers_are_not_all_named():
    counts = {f"q{number}": 1 + number for number in range(250)}
    found = overflown_of(f"{overflown_text(counts)}\n{overflown_text({'q0': 5})}")
    assert sum(found.values()) == sum(counts.values()) + 5
    assert found["q249"] == 250
    assert found[OTHERS] == sum(range(1, 151))
    assert overflown_text({}) is None
    assert overflown_of(overflown_text({"two\nlines": 1})) == {"two\nlines": 1}
    assert overflown_of(None) == overflown_of("") == {}


def test_a_batch_answers_the_same(spark: SparkSession):
    (stream,) = WORKLOAD.streams.values()
    events = [one for batch in POISONED for one in batch]
    frame = spark.createDataFrame(public_table(stream, events))
    answers = to_answers(panewise_spark.answers(frame, WORKLOAD).toArrow(), WORKLOAD)
    wanted = [a for q in WORKLOAD.queries.values() for a in oracle.closed_answers(q, "t", events, None)]
    oracle.assert_same_answers(answers, wanted)


def test_an_error_where_it_is_asked_for_and_its_end_without_a_new_checkpoint(spark: SparkSession, tmp_path: Path):
    asked = panewise.read(STREAM + QUERIES.replace("> 5;", "> 5 ON OVERFLOW ERROR;"))
    (stream,) = asked.streams.values()
    write_batches(tmp_path / "events", stream, POISONED)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=r"query rich: the sum .* leave out ON OVERFLOW ERROR"):
            run_stream(spark, tmp_path / "events", asked)
    # What the clause changes is no part of the state, so the job goes on without it.
    table, _ = run_stream(spark, tmp_path / "events", WORKLOAD)
    oracle.assert_same_answers(to_answers(table, WORKLOAD), expected(POISONED, 8))


def test_lookups_of_sums_that_do_not_fit(spark: SparkSession, tmp_path: Path):
    workload = panewise.read(
        STREAM
        + QUERIES
        + "CREATE QUERY now AS SELECT SUM(x) FROM s [RANGE 1 HOUR] GROUP BY k;"
        + "CREATE QUERY strict AS SELECT SUM(x) FROM s [RANGE 1 HOUR] GROUP BY k ON OVERFLOW ERROR;"
        + "CREATE QUERY many AS SELECT COUNT(*) FROM s [RANGE 1 HOUR] GROUP BY k HAVING SUM(x) > 0;"
        + "CREATE QUERY last AS SELECT SUM(x) FROM s [PARTITION BY k ROWS 2] GROUP BY k;"
    )
    (stream,) = workload.streams.values()
    frame = spark.createDataFrame(public_table(stream, POISONED[0]))
    panewise_spark.answers(frame, workload, folder=tmp_path / "lookups").collect()
    with panewise.LookupClient(tmp_path / "lookups") as client:
        for query in ("now", "last"):
            table = client.lookup(query)
            assert dict(zip(table["k"].to_pylist(), table["SUM(x)"].to_pylist())) == {"a": None, "b": 7}
            assert client.lookup(query, keys={"k": "a"})["SUM(x)"].to_pylist() == [None]
            assert client.lookup_many(query, ["a", "b"])["SUM(x)"].tolist() == [None, 7]
        assert client.statistics()["overflown_answers"] == {"now": 3, "last": 3}
        for _ in range(40):
            assert client.lookup("many")["k"].to_pylist() == ["b"]
        assert client.lookup("strict", keys={"k": "b"})["SUM(x)"].to_pylist() == [7]
        with pytest.raises(panewise.PanewiseError, match=r"query strict: .* ON OVERFLOW ERROR"):
            client.lookup("strict")


@pytest.mark.parametrize("bound", ["", " FUTURE BOUND 2 HOURS"])
def test_an_event_of_the_year_9999_closes_nothing(spark: SparkSession, tmp_path: Path, bound: str):
    workload = panewise.read(STREAM + bound + QUERIES)
    (stream,) = workload.streams.values()
    now = int(time.time()) * 1_000_000
    # By default an hour is allowed: one event is well within that and one well beyond, for any clock of this machine.
    near, beyond = (HOUR + HOUR // 2, 3 * HOUR) if bound else (HOUR // 2, 2 * HOUR)
    batches = [
        [event(0), {**event(0), "t": YEAR_9999}, {**event(0), "t": now + beyond}],
        [event(1), event(3)],
        [event(9)],
    ]
    write_batches(tmp_path / "events", stream, batches)
    table, metrics = run_stream(spark, tmp_path / "events", workload)
    kept = [[event(0)], *batches[1:]]
    oracle.assert_same_answers(to_answers(table, workload), expected(kept, 8))
    assert sum(one.future_events for one in metrics) == 2
    assert sum(one.untimed_events + one.late_events for one in metrics) == 0
    write_batches(tmp_path / "events", stream, [[{**event(0), "t": now + near}]], 3)
    _, metrics = run_stream(spark, tmp_path / "events", workload)
    assert sum(one.future_events for one in metrics) == 0


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "batch"])
def test_without_a_bound_such_an_event_counts(spark: SparkSession, tmp_path: Path, is_stream: bool):
    workload = panewise.read(STREAM + (" FUTURE BOUND NONE" if is_stream else "") + QUERIES)
    (stream,) = workload.streams.values()
    batches = [[event(0), {**event(0), "t": YEAR_9999}], [event(0.1)]]
    if is_stream:
        write_batches(tmp_path / "events", stream, batches)
        table, metrics = run_stream(spark, tmp_path / "events", workload)
        assert sum(one.future_events for one in metrics) == 0
        assert sum(one.late_events for one in metrics) == 1
    else:
        frame = spark.createDataFrame(public_table(stream, batches[0]))
        table = panewise_spark.answers(frame, workload).toArrow()
        assert {end.year for end in table["window_end"].to_pylist()} == {2013, 9999}


def test_the_clock_of_a_batch_is_the_same_when_the_batch_is_repeated(spark: SparkSession, tmp_path: Path):
    """What FUTURE BOUND relies on: Spark keeps `current_timestamp()` of a batch with its offsets."""
    (stream,) = WORKLOAD.streams.values()
    write_batches(tmp_path / "events", stream, [[event(0)]])
    checkpoint = tmp_path / "checkpoint"

    def run(out: Path) -> list:
        frame = read_stream(spark, tmp_path / "events", stream).select(
            F.unix_micros(F.current_timestamp()).alias("now")
        )
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.option("path", str(out)).trigger(availableNow=True).start()
        query.awaitTermination()
        return [row.now for row in spark.read.parquet(str(out)).collect()]

    first = run(tmp_path / "first")
    # As after a crash: the batch has begun, and is not known to have ended.
    shutil.rmtree(checkpoint / "commits")
    time.sleep(0.01)
    assert run(tmp_path / "second") == first
    written = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])
    assert first == [written["batchTimestampMs"] * 1000]


def test_events_that_are_set_aside_as_rows(spark: SparkSession, tmp_path: Path):
    (stream,) = WORKLOAD.streams.values()
    batches = [[event(0), {**event(0, k="far"), "t": YEAR_9999}], [{"t": None, "k": "none", "x": 3}, event(1)]]
    write_batches(tmp_path / "events", stream, batches)
    rows = panewise_spark.set_aside(read_stream(spark, tmp_path / "events", stream), WORKLOAD)
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.option("path", str(tmp_path / "aside")).trigger(availableNow=True).start()
    query.awaitTermination()
    found = sorted(spark.read.parquet(str(tmp_path / "aside")).collect(), key=lambda row: row.reason)
    assert [(row.reason, row.stream, row.time is None) for row in found] == [
        ("future", "s", False),
        ("untimed", "s", True),
    ]
    events = [json.loads(row.event) for row in found]
    assert events[0]["k"] == "far"
    assert events[0]["t"].startswith("9999-12-31T")
    assert events[1] == {"t": None, "k": "none", "x": 3}
    # A batch has no bound of its own.
    frame = spark.createDataFrame(public_table(stream, batches[0]))
    assert panewise_spark.set_aside(frame, WORKLOAD).collect() == []
    declared = panewise.read(STREAM + " FUTURE BOUND 1 HOUR" + QUERIES)
    assert [row.reason for row in panewise_spark.set_aside(frame, declared).collect()] == ["future"]
    assert len(panewise_spark.answers(frame, declared).collect()) == len(
        panewise_spark.answers(frame.limit(1), WORKLOAD).collect()
    )
