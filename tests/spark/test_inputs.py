"""What Spark's columns may hold, and streams that bring nothing."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from tests.answers import to_answers
from tests.spark.progresses import COUNTS, progress

import panewise
from panewise import spark as panewise_spark
from panewise.spark.progress_listener import ProgressListener
from panewise.spark.silence import QUIET_BATCHES, Silence

MORNING_S = 1_357_016_400  # 2013-01-01 05:00:00 UTC
PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def workload_of(unit: str) -> panewise.Workload:
    return panewise.read(
        f"""CREATE STREAM s (t TIMESTAMP({unit}), seen TIMESTAMP({unit}), x BIGINT) TIMESTAMP BY t;
        CREATE QUERY q AS SELECT COUNT(*), SUM(x), MIN(seen) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE];"""
    )


def events_of(unit: str) -> pa.Table:
    """Integers of a unit, before the epoch too, and booleans for a BIGINT; the last lies beyond every int64."""
    seconds = [MORNING_S, MORNING_S + 59, MORNING_S + 60, MORNING_S + 300, -1, 2**62 // PER_S[unit]]
    times = [second * PER_S[unit] + (unit == "ns") for second in seconds]
    if unit == "ns":
        times[4] = -1
    return pa.table({"t": times[:-1], "seen": times[:-1], "x": [True, False, True, None, True]})


def expected_of(unit: str) -> list[object]:
    workload = workload_of(unit)
    engine = panewise.Engine(workload)
    engine.push("s", events_of(unit))
    return sorted(to_answers(engine.advance("s", panewise.END_OF_STREAM), workload))


@pytest.mark.parametrize("unit", PER_S)
def test_integers_of_a_declared_unit_in_a_batch(spark: SparkSession, unit: str) -> None:
    answers = panewise_spark.answers(spark.createDataFrame(events_of(unit)), workload_of(unit))
    assert sorted(to_answers(answers.toArrow(), workload_of(unit))) == expected_of(unit)


def test_integers_of_a_declared_unit_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of("ms")
    (tmp_path / "events").mkdir()
    # The event before the epoch comes first, and the last one only moves the watermark.
    last = pa.table({"t": [(MORNING_S + 900) * 1000], "seen": [0], "x": [False]})
    for number, part in enumerate([events.slice(4), events.slice(0, 4), last]):
        pq.write_table(part, tmp_path / "events" / f"{number}.parquet")
        os.utime(tmp_path / "events" / f"{number}.parquet", (10**9 + number, 10**9 + number))
    schema = spark.createDataFrame(events).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
    query = (
        panewise_spark.answers(frame, workload_of("ms"))
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "answers"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "answers")).toArrow()
    assert sorted(to_answers(found, workload_of("ms"))) == expected_of("ms")


def test_integers_without_a_declared_unit_are_refused_with_the_cure(spark: SparkSession) -> None:
    workload = panewise.read(
        """CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;
        CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE];"""
    )
    with pytest.raises(panewise.EventsError, match=r"column 't' is bigint .*declare the unit .*TIMESTAMP\(ms\)"):
        panewise_spark.answers(spark.createDataFrame([(1,)], "t bigint"), workload)


def test_integers_that_do_not_fit_have_no_time(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(2**62, 0, 1), (MORNING_S, 0, 1)], "t bigint, seen bigint, x bigint")
    (row, *_) = panewise_spark.answers(frame, workload_of("s")).where("aggregate = 'COUNT(*)'").collect()
    assert row.exact == 1


# Streams that bring nothing


def batch(number: int, rows: int, *, sources: tuple[int, ...] = (), **counts: int) -> dict[str, object]:
    return progress(
        number,
        numInputRows=rows,
        observedMetrics={"panewise": Row(**COUNTS | {"late_events": 0} | counts)},
        sources=[{"description": f"source {place}", "numInputRows": count} for place, count in enumerate(sources)],
    )


def test_events_that_are_all_late_or_untimed_are_told_once_until_others_come() -> None:
    silence = Silence()
    assert silence.see(batch(0, 10, late_events=9)) == []
    (late,) = silence.see(batch(1, 10, late_events=10))
    assert "all 10 events of batch 1 are late or without a time" in late
    assert silence.see(batch(2, 10, late_events=10)) == []
    assert silence.see(batch(3, 10, late_events=1)) == []
    assert len(silence.see(batch(4, 10, late_events=4, untimed_events=6))) == 1
    (untimed,) = silence.see(batch(5, 10, untimed_events=10))
    assert "none of the 10 events of batch 5 has a time" in untimed
    assert silence.see(batch(6, 0)) == []
    (ahead,) = silence.see(batch(7, 10, future_events=9, untimed_events=1))
    assert "all 10 events of batch 7 are too far ahead of the clock" in ahead


def test_a_source_without_events_beside_others_is_told_once() -> None:
    silence = Silence()
    told = [silence.see(batch(number, 5, sources=(5, 0))) for number in range(QUIET_BATCHES + 2)]
    assert [len(messages) for messages in told] == [0] * (QUIET_BATCHES - 1) + [1, 0, 0]
    assert "no event has come from source 1" in told[QUIET_BATCHES - 1][0]
    busy = Silence()
    assert not any(busy.see(batch(number, 5, sources=(4, 1))) for number in range(QUIET_BATCHES + 1))


def test_a_control_stream_without_statements_holds_back_nothing() -> None:
    silence = Silence()
    for number in range(QUIET_BATCHES + 2):
        moved = {"watermark": f"2026-01-05T09:0{number}:00.000Z"}
        assert silence.see(batch(number, 5, sources=(5, 0)) | {"eventTime": moved}) == []


def test_what_is_kept_of_a_stream_does_not_grow_with_its_batches() -> None:
    silence, sizes = Silence(), []
    for number in range(50):
        moved = {"watermark": f"2026-01-05T09:{number:02}:00.000Z"}
        silence.see(batch(10 + number, 5, sources=(5, 1)) | {"eventTime": moved})
        sizes.append(len(pickle.dumps(silence)))
    assert max(sizes) < sizes[1] + 20


def test_a_stream_that_never_had_an_event_is_told_when_it_is_idle() -> None:
    silence = Silence()
    assert len(silence.idle()) == 1
    assert silence.idle() == []
    silence.see(batch(0, 3))
    assert silence.idle() == []


def test_a_listener_warns_of_a_stream_whose_events_have_no_time(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    nothing = pa.table({"t": pa.array([None, None], pa.int64()), "seen": [0, 0], "x": [1, 1]})
    pq.write_table(nothing, tmp_path / "events" / "0.parquet")
    told: list[str] = []
    listener = ProgressListener(on_silence=told.append)
    spark.streams.addListener(listener)
    try:
        frame = spark.readStream.schema("t bigint, seen bigint, x bigint").parquet(str(tmp_path / "events"))
        query = (
            panewise_spark.answers(frame, workload_of("ms"))
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert listener.wait_until_ended(60)
    finally:
        spark.streams.removeListener(listener)
    assert [message.partition(":")[0] for message in told] == ["none of the 2 events of batch 0 has a time"]


def test_without_anybody_to_tell_a_listener_warns() -> None:
    with pytest.warns(panewise.SilentStreamWarning, match="no event has come yet"):
        ProgressListener(run="r").onQueryIdle(type("Idle", (), {"runId": "r"})())
