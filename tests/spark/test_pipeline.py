"""The pipeline's contract: restarts, quiet buckets, late and untimed events, what is refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.answers import to_answers
from tests.spark.streaming import public_table, read_stream, run_stream, write_batches

import panewise
from panewise import spark as panewise_spark
from panewise.spark.buckets import bucket_ids, spark_partition

pytestmark = pytest.mark.spark

MINUTE = 60_000_000
START = 1_356_998_400_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 1 MINUTE;\n"
WORKLOAD = panewise.read(
    STREAM
    + """
    CREATE QUERY by_key AS
      SELECT COUNT(*), SUM(x), COUNT(DISTINCT x) FROM s [RANGE 3 MINUTES SLIDE 1 MINUTE] GROUP BY k;
    CREATE QUERY total AS SELECT SUM(x) FROM s [RANGE 5 MINUTES SLIDE 2 MINUTES] WHERE k <> 'b';
    """
)


def event(minute: float, k: str | None = "a", x: int | None = 1) -> dict:
    return {"t": START + int(minute * MINUTE), "k": k, "x": x}


def engine_answers(workload: panewise.Workload, batches: list[list[dict]], watermark: int) -> list:
    (stream,) = workload.streams.values()
    engine = panewise.Engine(workload)
    for batch in batches:
        engine.push(stream.name, public_table(stream, batch))
    return sorted(to_answers(engine.advance(stream.name, watermark).long(), workload))


def test_a_stream_that_stops_and_starts_again_misses_nothing_and_repeats_nothing(spark: SparkSession, tmp_path: Path):
    batches = [[event(m + n / 10, k="abc"[(m + n) % 3], x=m) for n in range(10)] for m in range(0, 12, 2)]
    (stream,) = WORKLOAD.streams.values()
    folder = tmp_path / "events"
    for first in (0, 2, 4):
        # Each start is a new query with a new processor: nothing but the checkpoint carries over.
        write_batches(folder, stream, batches[first : first + 2], first)
        table, _ = run_stream(spark, folder, WORKLOAD)
    watermark = max(row["t"] for row in batches[-1]) - MINUTE
    assert sorted(to_answers(table, WORKLOAD)) == engine_answers(WORKLOAD, batches, watermark)


def test_groups_that_are_rolled_up_from_one_base_and_windows_of_several_trees(spark: SparkSession, tmp_path: Path):
    workload = panewise.read(
        STREAM
        + """
        CREATE QUERY by_key AS SELECT SUM(x) FROM s [RANGE 3 MINUTES SLIDE 1 MINUTE] GROUP BY k;
        CREATE QUERY by_both AS SELECT MAX(x), COUNT(*) FROM s [RANGE 1 HOUR SLIDE 20 MINUTES] GROUP BY k, x;
        CREATE QUERY rarely AS SELECT AVG(x) FROM s [RANGE 200 HOURS SLIDE 1 HOUR] WHERE x <> 2 GROUP BY k;
        """
    )
    groups = {"k": 3, "x": 5}
    (plan,) = panewise.optimize(workload, groups=groups).streams.values()
    assert [(base.group_by, base.together_by) for base in plan.bases] == [(("k", "x"), ("k",))]
    assert len(plan.trees) == 3
    batches = [[event(m + n, k="abc"[n % 3], x=n % 5) for n in range(40)] for m in range(0, 300, 60)]
    (stream,) = workload.streams.values()
    write_batches(tmp_path / "events", stream, batches)
    table, _ = run_stream(spark, tmp_path / "events", workload, groups=groups)
    watermark = max(row["t"] for row in batches[-1]) - MINUTE
    assert sorted(to_answers(table, workload)) == engine_answers(workload, batches, watermark)
    rows = [row for batch in batches for row in batch]
    frame = panewise_spark.answers(spark.createDataFrame(public_table(stream, rows)), workload, groups=groups)
    expected = engine_answers(workload, batches, panewise.END_OF_STREAM)
    assert sorted(to_answers(frame.toArrow(), workload)) == expected
    engine = panewise.Engine(workload, groups=groups)
    engine.push("s", public_table(stream, rows))
    assert sorted(to_answers(engine.advance("s", panewise.END_OF_STREAM).long(), workload)) == expected


def test_buckets_that_get_no_more_events_are_answered_when_the_watermark_moves(spark: SparkSession, tmp_path: Path):
    keys = [f"key {number}" for number in range(20)]
    batches = [[event(0, k) for k in keys], [event(30, "only")], [event(60, "only")]]
    (stream,) = WORKLOAD.streams.values()
    write_batches(tmp_path / "events", stream, batches)
    table, _ = run_stream(spark, tmp_path / "events", WORKLOAD)
    assert sorted(to_answers(table, WORKLOAD)) == engine_answers(WORKLOAD, batches, START + 59 * MINUTE)


def test_late_and_untimed_events_are_counted_and_shown(spark: SparkSession, tmp_path: Path):
    batches = [
        # The last of them lies far beyond year 9999, and must not move the watermark there.
        [event(10), {"t": None, "k": "a", "x": 1}, {"t": 2**62, "k": "a", "x": 1}],
        [event(20), event(1), event(8.5), event(9.2)],
        [{"t": None, "k": "a", "x": 1}],
    ]
    (stream,) = WORKLOAD.streams.values()
    write_batches(tmp_path / "events", stream, batches)
    table, metrics = run_stream(spark, tmp_path / "events", WORKLOAD)
    assert sum(metric.late_events for metric in metrics) == 2
    assert sum(metric.untimed_events for metric in metrics) == 3
    # Five events with a time, each put into a partial of each base; what is late is not fed to a tree.
    assert sum(metric.lifted for metric in metrics) == 5 * 2
    assert all(sum(counted) > 0 for counted in zip(*((metric.fed, metric.folded) for metric in metrics)))
    accepted = [[event(10)], [event(20), event(9.2)]]
    assert sorted(to_answers(table, WORKLOAD)) == engine_answers(WORKLOAD, accepted, START + 19 * MINUTE)


def test_a_checkpoint_of_another_workload_is_refused(spark: SparkSession, tmp_path: Path):
    (stream,) = WORKLOAD.streams.values()
    write_batches(tmp_path / "events", stream, [[event(0)]])
    run_stream(spark, tmp_path / "events", WORKLOAD)
    changed = panewise.read(STREAM + "CREATE QUERY other AS SELECT MAX(x) FROM s [RANGE 3 MINUTES SLIDE 1 MINUTE];")
    write_batches(tmp_path / "events", stream, [[event(1)]], 1)
    with pytest.raises(StreamingQueryException, match="queries or streams were changed since"):
        run_stream(spark, tmp_path / "events", changed, tmp_path / "other")


def test_a_checkpoint_with_other_buckets_is_refused(spark: SparkSession, tmp_path: Path):
    (stream,) = WORKLOAD.streams.values()
    write_batches(tmp_path / "events", stream, [[event(0)]])
    run_stream(spark, tmp_path / "events", WORKLOAD)
    write_batches(tmp_path / "events", stream, [[event(1)]], 1)
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    try:
        spark.conf.set(name, "3")
        with pytest.raises(StreamingQueryException, match=r"it has 4 buckets, and the job has 6"):
            run_stream(spark, tmp_path / "events", WORKLOAD)
    finally:
        spark.conf.set(name, before)


def test_attributes_may_have_the_names_of_inner_columns(spark: SparkSession):
    workload = panewise.read(
        "CREATE STREAM s (t TIMESTAMP, time STRING, panewise_time STRING, slot BIGINT) TIMESTAMP BY t;"
        "CREATE QUERY q AS SELECT SUM(slot) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY time, panewise_time, slot;"
    )
    frame = spark.createDataFrame(
        public_table(workload.streams["s"], [{"t": START, "time": "a", "panewise_time": "b", "slot": 3}])
    )
    (row,) = panewise_spark.answers(frame, workload).collect()
    assert (row.time, row.panewise_time, row.slot, row.exact) == ("a", "b", 3, 3)


def test_several_streams(spark: SparkSession):
    workload = panewise.read(
        STREAM
        + "CREATE STREAM z (t TIMESTAMP, who STRING) TIMESTAMP BY t;"
        + "CREATE QUERY a AS SELECT SUM(x) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k;"
        + "CREATE QUERY b AS SELECT COUNT(*) FROM z [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY who;"
    )
    frames = {
        "s": spark.createDataFrame(public_table(workload.streams["s"], [event(0), event(1, x=5)])),
        "z": spark.createDataFrame(public_table(workload.streams["z"], [{"t": START, "who": "me"}])),
    }
    found = panewise_spark.answers(frames, workload).groupBy("query").agg(F.sum("exact").alias("n")).collect()
    assert {row["query"]: row.n for row in found} == {"a": 6, "b": 2}
    with pytest.raises(panewise.PanewiseError, match="the queries read 2 streams"):
        panewise_spark.answers(frames["s"], workload)
    with pytest.raises(panewise.PanewiseError, match="no DataFrame for stream 'z'"):
        panewise_spark.answers({"s": frames["s"]}, workload)


def test_times_without_zone_are_utc_whatever_the_session_says(spark: SparkSession):
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        frame = spark.createDataFrame([(datetime(2013, 1, 1, 0, 0, 30), "a", 1)], "t timestamp_ntz, k string, x int")
        rows = (
            panewise_spark.answers(frame, WORKLOAD)
            .where("query = 'by_key'")
            .selectExpr("unix_micros(window_end) AS end")
        )
        assert min(row.end for row in rows.collect()) == START + MINUTE
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("t timestamp, k string", "the DataFrame has no column 'x'"),
        ("t timestamp, k string, x double", "column 'x' is double and the stream declares BIGINT"),
        ("t string, k string, x bigint", "column 't' is string and the stream declares TIMESTAMP"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_anything_runs(spark: SparkSession, columns: str, message: str):
    with pytest.raises(panewise.PanewiseError, match=message):
        panewise_spark.answers(spark.createDataFrame([], columns), WORKLOAD)


def test_windows_that_spark_cannot_answer_are_refused(spark: SparkSession):
    workload = panewise.read(f"{STREAM} CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 5 MINUTES];")
    with pytest.raises(panewise.PanewiseError, match="query q: its window is evaluated on demand"):
        panewise_spark.answers(spark.createDataFrame([], "t timestamp, k string, x bigint"), workload)


def test_a_session_without_rocksdb_is_told_what_to_set(spark: SparkSession, tmp_path: Path):
    (stream,) = WORKLOAD.streams.values()
    write_batches(tmp_path / "events", stream, [[event(0)]])
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    try:
        spark.conf.unset(name)
        with pytest.raises(panewise.PanewiseError, match=r"config\(map=panewise.spark.SETTINGS\)"):
            panewise_spark.answers(read_stream(spark, tmp_path / "events", stream), WORKLOAD)
    finally:
        spark.conf.set(name, before)


def test_bucket_ids_spread_evenly_over_sparks_own_partitions(spark: SparkSession):
    shown = spark.range(300).select(F.expr("pmod(hash(cast(id AS int)), 7)").alias("p")).collect()
    assert [row.p for row in shown] == [spark_partition(value, 7) for value in range(300)]
    ids = bucket_ids(7, 21)
    assert sorted(spark_partition(value, 7) for value in ids) == sorted(list(range(7)) * 3)
