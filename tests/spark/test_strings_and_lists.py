"""Strings and lists on Spark: as a batch, as a stream, from a folder, in training sets, and against Spark's own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests import oracle
from tests.answers import to_answers
from tests.spark.streaming import public_table, run_stream, write_batches
from tests.training.test_training_set import check

import panewise
from panewise import spark as panewise_spark

pytestmark = pytest.mark.spark

MINUTE = 60_000_000
WORDS = ["b", "é", None, "", "a", "a b", "\U0001f600", "a", "Z", "b", "it's", "\uffff"]
ODD = [1.0, 2.5, math.nan, -0.0, math.inf, None, 3.0]

OWN = {
    "MIN(w)": "min(w)",
    "MAX(w)": "max(w)",
    "FIRST(w)": "min_by(w, struct(t, w)) FILTER (WHERE w IS NOT NULL)",
    "LAST(w)": "max_by(w, struct(t, w)) FILTER (WHERE w IS NOT NULL)",
    "ARG_MIN(w, x)": "min_by(w, struct(x, w)) FILTER (WHERE x IS NOT NULL AND w IS NOT NULL)",
    "ARG_MAX(w, x)": "max_by(w, struct(x, w)) FILTER (WHERE x IS NOT NULL AND w IS NOT NULL)",
    "COUNT_IF(x > 1)": "count_if(x > 1)",
    "COLLECT(w, 1000)": "transform(array_sort(collect_list(struct(t, w)) FILTER (WHERE w IS NOT NULL)), s -> s.w)",
    "COLLECT(x, 1000)": "transform(array_sort(collect_list(struct(t, x)) FILTER (WHERE x IS NOT NULL)), s -> s.x)",
    "LAST_K(w, 3)": "transform(reverse(slice(reverse(array_sort(collect_list(struct(t, w)) "
    "FILTER (WHERE w IS NOT NULL))), 1, 3)), s -> s.w)",
}
"""Ours, and what it is in Spark."""


def some_events(count: int = 600) -> list[dict[str, Any]]:
    return [
        {
            "t": i * 3_000_000 - i % 3,
            "k": "abcdefg"[i * 5 % 7],
            "w": WORDS[i * 7 % 12],
            "x": ODD[i * 3 % 7],
            "n": i * 5 % 8 or None,
            "b": [True, None, False][i % 3],
        }
        for i in range(count)
    ]


STREAM = """CREATE STREAM s (t TIMESTAMP, k STRING, w STRING, x DOUBLE, n BIGINT, b BOOLEAN) TIMESTAMP BY t
  WATERMARK 1 SECOND GRANULARITY 1 MINUTE;"""
TEXT = f"""{STREAM}
CREATE QUERY best AS SELECT k, MIN(w), MAX(w), MODE(w), FIRST(w) FILTER (WHERE b), ARG_MAX(w, n)
  FROM s [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY k HAVING MAX(w) > 'a' OR LAST(w) = '';
CREATE QUERY lists AS SELECT k, LAST_K(w, 3), COLLECT(x, 9), LAST_K(t, 2), COLLECT(b, 100)
  FROM s [RANGE 4 MINUTES SLIDE 1 MINUTE] GROUP BY k;
CREATE QUERY whole AS SELECT LAST(w), COLLECT(n, 2), COUNT(*) FROM s [RANGE 2 MINUTES SLIDE 2 MINUTES];
"""
LOOKED_UP = """
CREATE QUERY newest AS SELECT k, MAX(w), LAST(w), MODE(w), LAST_K(w, 3), COLLECT(x, 50) FROM s [RANGE 5 MINUTES]
  GROUP BY k HAVING LAST(w) >= '';
CREATE QUERY newest_whole AS SELECT LAST(w), LAST_K(n, 2) FROM s [RANGE 5 MINUTES];
CREATE QUERY newest_rows AS SELECT k, MIN(w), LAST_K(n, 3) FROM s [PARTITION BY k ROWS 4] GROUP BY k;
"""


def test_agrees_with_sparks_own(spark: SparkSession) -> None:
    events = some_events()
    events += [{"t": i, "k": f"one {i}", "w": w, "x": 1.0, "n": 1, "b": None} for i, w in enumerate(WORDS)]
    items = ", ".join(f"{ours} AS c{place}" for place, ours in enumerate(OWN))
    workload = panewise.read(
        f"{STREAM} CREATE QUERY q AS SELECT k, {items} FROM s [RANGE 10 DAYS SLIDE 10 DAYS] GROUP BY k"
    )
    frame = spark.createDataFrame(public_table(workload.streams["s"], events))
    native = frame.groupBy("k").agg(*(F.expr(text).alias(f"c{place}") for place, text in enumerate(OWN.values())))
    wanted = {row["k"]: row for row in native.toArrow().to_pylist()}
    found = panewise_spark.tables(frame, workload)["s_by_k_every_10_days"].toArrow().to_pylist()
    assert len(found) == len(wanted) == 7 + len(WORDS)
    for row in found:
        for place, ours in enumerate(OWN):
            mine, its = row[f"c{place}"], wanted[row["k"]][f"c{place}"]
            # Nothing is NULL here, and an empty list there.
            assert mine == its or repr(mine) == repr(its) or (mine is None and not its), (row["k"], ours, mine, its)


def without_times(answer: oracle.Answer) -> oracle.Answer:
    return answer._replace(window_start=0, window_end=0)


def test_batch_lookups_and_a_stream_with_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    events, workload = some_events(), panewise.read(TEXT)
    stream = workload.streams["s"]

    def check_answers(table: pa.Table, watermark: int | None) -> None:
        queries = workload.queries.values()
        wanted = [answer for query in queries for answer in oracle.closed_answers(query, "t", events, watermark)]
        assert len(wanted) > 200
        oracle.assert_same_answers(to_answers(table, workload), wanted)

    folder = tmp_path / "folder"
    every = panewise.read(TEXT + LOOKED_UP)
    frame = spark.createDataFrame(public_table(stream, events))
    check_answers(panewise_spark.answers(frame, every, folder=folder).toArrow(), None)
    at = (max(event["t"] for event in events) // MINUTE + 1) * MINUTE
    # The client answers by whole slots, which are half open.
    shifted = [{**event, "t": event["t"] + 1} for event in events]
    with panewise.LookupClient(folder) as client:
        newest = oracle.lookup(every.queries["newest"], "t", shifted, at)
        found = to_answers(client.lookup("newest", at=at), every, "newest")
        oracle.assert_same_answers(map(without_times, found), map(without_times, newest))
        by_rows = oracle.lookup(every.queries["newest_rows"], "t", events, at)
        found = to_answers(client.lookup("newest_rows", at=at), every, "newest_rows")
        oracle.assert_same_answers(map(without_times, found), map(without_times, by_rows))
        many = client.lookup_many("newest", {"k": ["g", "nobody", "a"]}, at=at)
        by_key = {dict(one.group)["k"]: one.value for one in newest if one.item == 4}
        assert many["LAST_K(w, 3)"].tolist() == [by_key["g"], None, by_key["a"]]
        twice = client.lookup_at("newest", {"k": ["a", "nobody"]}, [at, at])
        assert twice["LAST_K(w, 3)"].tolist() == [by_key["a"], None]
        listed = client.lookup_at("newest_whole", None, [at, at])
        wanted = [one.value for one in oracle.lookup(every.queries["newest_whole"], "t", shifted, at)]
        assert [listed["LAST(w)"].tolist(), listed["LAST_K(n, 2)"].tolist()] == [[one] * 2 for one in wanted]
    batches = tmp_path / "events"
    write_batches(batches, stream, [events[:300], events[300:450]])
    run_stream(spark, batches, workload)
    write_batches(batches, stream, [events[450:]], first=2)
    table, _ = run_stream(spark, batches, workload)
    check_answers(table, (max(event["t"] for event in events) - stream.watermark_us) // 1000 * 1000)


def test_training_sets_agree_with_the_oracle(spark: SparkSession) -> None:
    events, workload = some_events(120), panewise.read(TEXT + LOOKED_UP)
    labels = pa.table({"k": ["a", "b", "nobody"] * 4, "label time": [place * 31_000_000 for place in range(12)]})
    frame = panewise_spark.training_set(
        spark.createDataFrame(labels.to_pandas()).withColumn("label time", F.timestamp_micros("label time")),
        spark.createDataFrame(public_table(workload.streams["s"], events)),
        workload,
        time="label time",
    )
    found = frame.toArrow()
    times = found.column("label time").cast(pa.int64())
    found = found.set_column(found.column_names.index("label time"), "label time", times)
    check(workload, events, found.select(["k", "label time"]), found, "before")
