"""An aggregate that the driver registers is known to Spark's workers: batch, stream, control stream, lookup client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answers
from tests.spark.streaming import public_table, run_stream, write_batches
from tests.spread import spread

import panewise
from panewise import spark as panewise_spark
from panewise.spark.job import Job
from panewise.spark.pipeline import pack_job

pytestmark = pytest.mark.spark

ORIGIN_US = 1_356_998_400_000_000
MINUTE = 60_000_000

TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t WATERMARK 0 SECONDS GRANULARITY 1 MINUTE;
CREATE QUERY whole AS SELECT SPREAD(y), COUNT(*) FROM s [RANGE 20 MINUTES SLIDE 10 MINUTES];
CREATE QUERY grouped AS SELECT k, SPREAD(x), SPREAD(y) FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY k
  HAVING SPREAD(x) > 400;
"""
LOOKED_UP = "CREATE QUERY last AS SELECT k, SPREAD(x) FROM s [RANGE 5 MINUTES] GROUP BY k;"


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with spread():
        yield


def some_events(count: int = 1500) -> list[dict]:
    random = np.random.default_rng(7)
    times = ORIGIN_US + np.sort(random.integers(0, 40 * MINUTE, count))
    return [
        {"t": time, "k": f"key {key}", "x": None if x > 950 else x, "y": y}
        for time, key, x, y in zip(
            times.tolist(),
            random.integers(0, 30, count).tolist(),
            random.integers(0, 1000, count).tolist(),
            random.integers(-99, 99, count).astype(float).tolist(),
        )
    ]


def check(table: object, workload: panewise.Workload, events: list[dict], watermark: int | None) -> None:
    expected = [
        answer
        for query in workload.queries.values()
        if query.window.is_sliding
        for answer in oracle.closed_answers(query, "t", events, watermark)
    ]
    assert len(expected) > 100
    oracle.assert_same_answers(to_answers(table, workload), expected)


def test_batch_and_lookups_from_its_folder(spark: SparkSession, tmp_path: Path) -> None:
    events, workload = some_events(), panewise.read(TEXT + LOOKED_UP)
    (stream,) = workload.streams.values()
    folder = tmp_path / "folder"
    frame = panewise_spark.answers(spark.createDataFrame(public_table(stream, events)), workload, folder=folder)
    check(frame.toArrow(), workload, events, None)
    at = (max(event["t"] for event in events) // MINUTE + 1) * MINUTE
    with panewise.LookupClient(folder) as client:
        found = to_answers(client.lookup("last", at=at), workload, "last")
    # The client answers by whole slots, which are half open.
    covered = [event for event in events if at - 5 * MINUTE <= event["t"] < at]
    assert {answer.group[0][1]: answer.value for answer in found} == {
        key: oracle.ADDED["SPREAD"]([event["x"] for event in covered if event["k"] == key and event["x"] is not None])
        for key in {event["k"] for event in covered}
    }


def test_streaming_with_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    events, workload = some_events(), panewise.read(TEXT)
    (stream,) = workload.streams.values()
    folder = tmp_path / "events"
    write_batches(folder, stream, [events[:600], events[600:1000]])
    run_stream(spark, folder, workload)
    write_batches(folder, stream, [events[1000:]], first=2)
    table, _ = run_stream(spark, folder, workload)
    check(table, workload, events, max(event["t"] for event in events) // 1000 * 1000)


OPENED = """
import pickle, sys
packed = pickle.loads(sys.stdin.buffer.read())
from panewise.aggregates.catalogue import registered
assert not registered()
job = packed.open()
assert [entry.name for entry in registered()] == ["SPREAD"]
assert packed.open() is job
from panewise.language.reader import apply
print(sorted(apply(job.workload, "CREATE QUERY more AS SELECT SPREAD(y) FROM s [RANGE 1 HOUR SLIDE 1 HOUR]").queries))
"""


def test_another_process_knows_it_once_it_opens_the_job() -> None:
    job = Job.of(panewise.read(TEXT), [0, 1])
    packed, combining = pack_job(job, None)
    for one in (packed, combining):
        assert cloudpickle.loads(cloudpickle.dumps(one)) == one, "a worker must know a job that it has opened"
        ran = subprocess.run(
            [sys.executable, "-c", OPENED], input=cloudpickle.dumps(one), capture_output=True, check=False
        )
        assert "more" in ran.stdout.decode(), ran.stderr.decode()
