"""Spark, batch and streaming, agrees with the oracle on random workloads."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answers
from tests.spark.streaming import public_table, run_stream, watermarks, write_batches
from tests.thoroughness import examples
from tests.workloads import FORMS, SESSIONS, TIME_SLIDING, events, random_events, random_workload, workloads

from panewise import spark as panewise_spark
from panewise.language.workload import Workload
from panewise.planning.optimize import optimize

pytestmark = pytest.mark.spark

ORIGIN_US = 1_356_998_400_000_000
"""2013-01-01: streams start after the epoch, where Spark's watermark begins."""

few = settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def cases(draw, origin_us: int):
    workload = draw(workloads(windows=(*TIME_SLIDING, *FORMS, *SESSIONS)))
    (stream,) = workload.streams.values()
    return workload, draw(events(stream, min_size=10, max_size=120, origin_us=origin_us))


def expected_answers(workload: Workload, accepted: list, watermark: int | None) -> list[oracle.Answer]:
    (stream,) = workload.streams.values()
    return [
        answer
        for query in workload.queries.values()
        for answer in oracle.closed_answers(query, stream.timestamp, accepted, watermark)
    ]


@few
@given(cases(origin_us=0))
def test_batch_agrees_with_the_oracle(spark: SparkSession, case) -> None:
    workload, rows = case
    (stream,) = workload.streams.values()
    frame = spark.createDataFrame(public_table(stream, rows))
    table = panewise_spark.answers(frame, workload).toArrow()
    oracle.assert_same_answers(to_answers(table, workload), expected_answers(workload, rows, None))


def check_stream(spark: SparkSession, workload: Workload, batches: list[list]) -> None:
    """Run batches through a stream and compare with the oracle, late events included."""
    (stream,) = workload.streams.values()
    granularity = optimize(workload).trees[0].granularity
    *before, last = watermarks(stream, batches)
    accepted, late = [], 0
    for batch, watermark in zip(batches, before, strict=True):
        for event in batch:
            slot_end = (event[stream.timestamp] // granularity + 1) * granularity
            if watermark is not None and slot_end <= watermark:
                late += 1
            else:
                accepted.append(event)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "events"
        write_batches(folder, stream, batches)
        table, metrics = run_stream(spark, folder, workload)
    # Sessions close with the slot in which they end, as late events of a slot are taken until then.
    closed = None if last is None else last // granularity * granularity
    oracle.assert_same_answers(to_answers(table, workload), expected_answers(workload, accepted, closed))
    assert sum(metric.late_events for metric in metrics) == late
    assert sum(metric.answers for metric in metrics) == table.num_rows


@few
@given(cases(origin_us=ORIGIN_US))
def test_streaming_agrees_with_the_oracle(spark: SparkSession, case) -> None:
    workload, rows = case
    third = -(-len(rows) // 3)
    check_stream(spark, workload, [rows[at : at + third] for at in range(0, len(rows), third)])


@pytest.mark.parametrize("seed", range(2))
def test_larger_random_streams(spark: SparkSession, seed: int) -> None:
    workload = random_workload(seed, queries=12)
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 400, origin_us=ORIGIN_US)
    check_stream(spark, workload, [rows[at : at + 80] for at in range(0, len(rows), 80)])
