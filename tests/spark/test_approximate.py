"""Approximate aggregates on Spark, batch and streaming: within the error, and exact over a few values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answer
from tests.spark.streaming import public_table, run_stream, write_batches

import panewise
from panewise import spark as panewise_spark

pytestmark = pytest.mark.spark

ORIGIN_US = 1_356_998_400_000_000
MINUTE = 60_000_000
RANK_ERROR = 0.0133

WORKLOAD = panewise.read(
    """
    CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE, u STRING) TIMESTAMP BY t WATERMARK 0 SECONDS GRANULARITY 1 MINUTE;
    CREATE QUERY whole AS SELECT APPROX_QUANTILE(x, 0.9), APPROX_COUNT_DISTINCT(u), APPROX_TOP_COUNT(u, 1), COUNT(*)
      FROM s [RANGE 20 MINUTES SLIDE 10 MINUTES];
    CREATE QUERY grouped AS SELECT k, APPROX_QUANTILE(x, 0.5), APPROX_COUNT_DISTINCT(x), APPROX_TOP_K(x, 2) AS top
      FROM s [RANGE 4 MINUTES SLIDE 2 MINUTES] WHERE x > 0 GROUP BY k;
    """
)


def some_events(count: int = 4000) -> list[dict]:
    random = np.random.default_rng(4)
    times = ORIGIN_US + np.sort(random.integers(0, 40 * MINUTE, count))
    return [
        {"t": time, "k": f"key {key}", "x": None if x > 2.5 else round(x, 2), "u": f"user {user}"}
        for time, key, x, user in zip(
            times.tolist(),
            random.integers(0, 8, count).tolist(),
            random.normal(size=count).tolist(),
            random.integers(0, 2500, count).tolist(),
        )
    ]


def check(table: pa.Table, events: list[dict], watermark: int | None) -> None:
    """Every answer within three times the error that its bounds state."""
    rows = {to_answer(row, WORKLOAD)[:5]: row for row in table.to_pylist()}
    expected = [
        answer for query in WORKLOAD.queries.values() for answer in oracle.closed_answers(query, "t", events, watermark)
    ]
    assert rows.keys() == {answer[:5] for answer in expected}
    for answer in expected:
        row = rows[answer[:5]]
        assert row["low"] <= row["value"] <= row["high"]
        if row["low"] == row["high"]:
            assert row["value"] == answer.value
        elif row["aggregate"].startswith("APPROX_TOP_COUNT"):
            assert row["low"] <= answer.value <= row["high"] == row["exact"]
        elif row["aggregate"].startswith("APPROX_COUNT_DISTINCT"):
            assert abs(row["exact"] - answer.value) <= 0.1 * answer.value
        else:
            inside = [event for event in events if answer.window_start <= event["t"] < answer.window_end]
            values = sorted(event["x"] for event in inside if event["x"] is not None)
            rank = max(1, int(0.9 * len(values)))
            assert answer.query == "whole"
            assert abs(np.searchsorted(values, row["value"]) - rank) <= 3 * RANK_ERROR * len(values) + 20
    exact = [row for row in rows.values() if row["query"] == "grouped"]
    assert exact
    assert all(row["low"] == row["high"] for row in exact)
    assert any(row["low"] < row["high"] for row in rows.values())


def test_batch(spark: SparkSession) -> None:
    events = some_events()
    (stream,) = WORKLOAD.streams.values()
    frame = panewise_spark.answers(spark.createDataFrame(public_table(stream, events)), WORKLOAD)
    assert frame.columns[-2:] == ["low", "high"]
    check(frame.toArrow(), events, None)


def test_streaming_with_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    events = some_events()
    (stream,) = WORKLOAD.streams.values()
    folder = tmp_path / "events"
    write_batches(folder, stream, [events[:1500], events[1500:2600]])
    run_stream(spark, folder, WORKLOAD)
    write_batches(folder, stream, [events[2600:]], first=2)
    table, _ = run_stream(spark, folder, WORKLOAD)
    check(table, events, max(event["t"] for event in events) // 1000 * 1000)
