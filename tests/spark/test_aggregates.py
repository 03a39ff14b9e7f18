"""Aggregates of pairs, moments and conditions on Spark: as a batch, as a stream, and against Spark's own functions."""

from __future__ import annotations

import math
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests import oracle
from tests.answers import to_answers
from tests.spark.streaming import public_table, run_stream, write_batches

import panewise
from panewise import spark as panewise_spark

pytestmark = pytest.mark.spark

MINUTE = 60_000_000
ODD = [1.0, 2.5, math.nan, -0.0, math.inf, 1e9, -math.inf, 1e9 + 1, 0.0, None, 3.0]

OWN = {
    "COUNT(*)": "count(*)",
    "COUNT(b)": "count(b)",
    "COUNT(DISTINCT x)": "count(DISTINCT x)",
    "COUNT_IF(b)": "count_if(b)",
    "SUM(x)": "sum(x)",
    "AVG(x)": "avg(x)",
    "MIN(x)": "min(x)",
    "MAX(x)": "max(x)",
    "VAR_POP(x)": "var_pop(x)",
    "VAR_SAMP(x)": "try_divide(var_samp(x), 1)",
    "STDDEV_POP(x)": "stddev_pop(x)",
    "STDDEV_SAMP(x)": "try_divide(stddev_samp(x), 1)",
    "SUM(y) FILTER (WHERE b)": "sum(y) FILTER (WHERE b)",
    "SUM(y) / COUNT(*)": "try_divide(sum(y), count(*))",
    "SKEWNESS(x)": "skewness(x)",
    "KURTOSIS(x)": "kurtosis(x)",
    "COVAR_POP(x, y)": "covar_pop(x, y)",
    "COVAR_SAMP(x, y)": "covar_samp(x, y)",
    "CORR(x, y)": "try_divide(corr(x, y), 1)",
    "REGR_SLOPE(y, x)": "regr_slope(y, x)",
    "REGR_INTERCEPT(y, x)": "regr_intercept(y, x)",
    "BOOL_AND(b)": "bool_and(b)",
    "BOOL_OR(b)": "bool_or(b)",
    "FIRST(x)": "min_by(x, struct(t, x)) FILTER (WHERE x IS NOT NULL)",
    "LAST(b)": "max_by(b, struct(t, b)) FILTER (WHERE b IS NOT NULL)",
    "ARG_MIN(y, x)": "min_by(y, struct(x, y)) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)",
    "ARG_MAX(t, y)": "max_by(t, struct(y, t)) FILTER (WHERE y IS NOT NULL)",
}
"""Ours, and what it is in Spark."""


def rows_of(columns: dict[str, list[Any]], count: int) -> list[dict[str, Any]]:
    endless = {name: list(islice(cycle(values), count)) for name, values in columns.items()}
    return [{name: values[i] for name, values in endless.items()} for i in range(count)]


def test_agrees_with_sparks_own(spark: SparkSession) -> None:
    """Groups of every size from 1 on, with NULL, NaN and infinities."""
    keys = [str(size) for size in range(12) for _ in range(size)]
    events = rows_of({"x": ODD, "y": [*ODD[::-1], 4.0], "b": [True, None, False, True, True]}, len(keys))
    plain = rows_of({"x": [1.0, 2.5, 7.0], "y": [3.0, 4.0], "b": [True, False, None]}, len(keys))
    events = [
        {"t": i * MINUTE, "k": kind + key, **row}
        for kind, rows in (("odd ", events), ("plain ", plain), ("same ", [plain[0]] * len(keys)))
        for i, (key, row) in enumerate(zip(keys, rows))
    ]
    events += [{"t": 0, "k": f"one {i}", "x": x, "y": 1.0, "b": None} for i, x in enumerate(ODD)]
    events += [{"t": 0, "k": "flat", "x": 1.0, "y": y, "b": None} for y in (math.inf, 2.0)]
    events += [{"t": 0, "k": "upright", "x": x, "y": 1.0, "b": None} for x in (math.inf, 2.0)]
    items = ", ".join(f"{ours} AS c{place}" for place, ours in enumerate(OWN))
    workload = panewise.read(
        "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE, y DOUBLE, b BOOLEAN) TIMESTAMP BY t;"
        f"CREATE QUERY q AS SELECT k, {items} FROM s [RANGE 10 DAYS SLIDE 10 DAYS] GROUP BY k;"
    )
    table = public_table(workload.streams["s"], events)
    frame = spark.createDataFrame(table)
    # With ANSI's errors, Spark 4.0 has no corr() of values that are all alike.
    spark.conf.set("spark.sql.ansi.enabled", "false")
    native = frame.groupBy("k").agg(*(F.expr(text).alias(f"c{place}") for place, text in enumerate(OWN.values())))
    wanted = {row["k"]: row for row in native.toArrow().to_pylist()}
    spark.conf.unset("spark.sql.ansi.enabled")
    found = panewise_spark.tables(frame, workload)["s_by_k_every_10_days"].toArrow().to_pylist()
    assert len(found) == len(wanted) > 30
    for row in found:
        for place, ours in enumerate(OWN):
            mine, its = row[f"c{place}"], wanted[row["k"]][f"c{place}"]
            is_near = isinstance(mine, float) and isinstance(its, float) and math.isclose(mine, its, abs_tol=1e-6)
            assert mine == its or is_near or (mine != mine and its != its), (row["k"], ours, mine, its)


def some_events(count: int = 1200) -> list[dict[str, Any]]:
    columns = {"x": [*range(40), None], "y": [0.5, -3.0, None, 1e9, 7.25], "b": [True, True, True, None, False]}
    rows = rows_of({**columns, "k": ["a", "b", "c", "d", "e", "f", "g"]}, count)
    return [{"t": i * 2_000_000 - i % 3, **row} for i, row in enumerate(rows)]


TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE, b BOOLEAN) TIMESTAMP BY t WATERMARK 1 SECOND
  GRANULARITY 1 MINUTE;
CREATE QUERY moments AS SELECT k, SKEWNESS(x), KURTOSIS(y), CORR(x, y), REGR_SLOPE(y, x) FILTER (WHERE b)
  FROM s [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY k HAVING BOOL_OR(b) AND LAST(x) > 3;
CREATE QUERY picked AS SELECT k, FIRST(y), LAST(b), LAST(t), ARG_MAX(x, y), BOOL_AND(b)
  FROM s [RANGE 4 MINUTES SLIDE 1 MINUTE] GROUP BY k;
CREATE QUERY decayed AS SELECT EWM_AVG(y, HALF LIFE 90 SECONDS), EWM_SUM(x, HALF LIFE 1 MINUTE)
  FROM s [RANGE 10 MINUTES SLIDE 5 MINUTES];
"""


def without_times(answer: oracle.Answer) -> oracle.Answer:
    return answer._replace(window_start=0, window_end=0)


def test_batch_lookup_and_stream_with_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    looked_up = "CREATE QUERY last AS SELECT k, LAST(y), CORR(x, y), BOOL_OR(b) FROM s [RANGE 5 MINUTES] GROUP BY k"
    events, workload = some_events(), panewise.read(TEXT)
    stream = workload.streams["s"]

    def check(table: pa.Table, watermark: int | None) -> None:
        queries = workload.queries.values()
        wanted = [answer for query in queries for answer in oracle.closed_answers(query, "t", events, watermark)]
        assert len(wanted) > 200
        oracle.assert_same_answers(to_answers(table, workload), wanted)

    folder = tmp_path / "folder"
    every = panewise.read(TEXT + looked_up)
    frame = spark.createDataFrame(public_table(stream, events))
    check(panewise_spark.answers(frame, every, folder=folder).toArrow(), None)
    at = (max(event["t"] for event in events) // MINUTE + 1) * MINUTE
    with panewise.LookupClient(folder) as client:
        found = to_answers(client.lookup("last", at=at), every, "last")
    # The client answers by whole slots, which are half open.
    shifted = [{**event, "t": event["t"] + 1} for event in events]
    wanted = oracle.lookup(every.queries["last"], "t", shifted, at)
    oracle.assert_same_answers(map(without_times, found), map(without_times, wanted))
    batches = tmp_path / "events"
    write_batches(batches, stream, [events[:500], events[500:900]])
    run_stream(spark, batches, workload)
    write_batches(batches, stream, [events[900:]], first=2)
    table, _ = run_stream(spark, batches, workload)
    check(table, (max(event["t"] for event in events) - stream.watermark_us) // 1000 * 1000)
