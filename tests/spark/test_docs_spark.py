"""The examples of the documents that need Spark, and figures of docs/spark.md that no machine changes.

How examples are written is said in tests/test_docs.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.test_docs import PAGES, blocks_of, run_blocks

import panewise
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.spark.bucket import Bucket
from panewise.spark.buckets import bucket_ids
from panewise.spark.combine import combine_partitions
from panewise.spark.job import Job as SparkJob
from panewise.spark.packing import PackedPart, pack_parts
from panewise.spark.pipeline import pack_job

WITH_SPARK = [page for page in PAGES if any(block.needs_spark for block in blocks_of(page, "python"))]


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.name)
def test_spark_examples(spark: SparkSession, page: Path) -> None:
    run_blocks(page, blocks_of(page, "python"))


# Skew and state growth, by the combine step and the buckets alone.

WORKLOAD = panewise.read(
    "CREATE STREAM s (t TIMESTAMP, k BIGINT, x DOUBLE) TIMESTAMP BY t WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;"
    "CREATE QUERY q AS SELECT COUNT(*), SUM(x), MIN(x), MAX(x), VARIANCE(x) "
    "FROM s [RANGE 1 HOUR SLIDE 5 MINUTES] GROUP BY k;"
)
MINUTE = 60_000_000
START = 1_704_067_200_000_000
TASKS = 2
EVENTS_PER_BATCH = 200_000
KEYS = 1_000
MINUTES_PER_BATCH = 5


class Job:
    """The workload with some buckets, and what its combine step makes of a batch."""

    def __init__(self, buckets: int) -> None:
        self.ids = bucket_ids(2, buckets)
        self.live = SparkJob.of(WORKLOAD, self.ids)
        _, combining = pack_job(self.live, None)
        self._combine = combine_partitions(combining, "s")

    def shuffled(self, number: int, hot_share: float = 0.0) -> list[tuple[int, PackedPart]]:
        """The parts of a batch, each with its bucket."""
        stream = WORKLOAD.streams["s"]
        ((plan, _),) = self.live.plans_of("s")
        rng = np.random.default_rng(number)
        times = (
            START
            + number * MINUTES_PER_BATCH * MINUTE
            + np.sort(rng.integers(0, MINUTES_PER_BATCH * MINUTE, EVENTS_PER_BATCH))
        )
        keys = np.where(rng.random(EVENTS_PER_BATCH) < hot_share, 0, rng.integers(0, KEYS, EVENTS_PER_BATCH))
        events = pa.table(
            {
                "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "k": keys,
                "x": rng.normal(size=EVENTS_PER_BATCH),
            }
        )
        size = EVENTS_PER_BATCH // TASKS
        found = []
        for task in range(TASKS):
            batch = to_batch(stream, events.slice(task * size, size))
            projected = project(plan, batch).append_column("time", batch.column("t"))
            for packed in self._combine([projected]):
                columns = (packed.column(name).to_pylist() for name in ("bucket", "base", "partials"))
                found += [
                    (bucket, PackedPart.of(base, content)) for bucket, base, content in zip(*columns) if base >= 0
                ]
        return found


def shown_kb(page: str, row: str) -> float:
    """The kilobytes that a table of the page shows."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {row} |")]
    return float(line.split("|")[3])


def test_a_hot_key_is_as_many_rows_as_any_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    job = Job(4)
    for row, hot_share in (("uniform keys", 0.0), ("half of the events in one key", 0.5)):
        parts = job.shuffled(0, hot_share)
        assert sum(part.partials.num_rows for _, part in parts) == 6_000
        assert sum(len(part.content) for _, part in parts) / 1000 == pytest.approx(shown_kb(page, row), rel=0.03)
        of_buckets = [sum(len(part.content) for bucket, part in parts if bucket == one) for one in job.ids]
        assert max(of_buckets) / sum(of_buckets) == pytest.approx(0.26, abs=0.01)


@pytest.mark.parametrize("buckets", [2, 16, 64])
def test_what_a_bucket_more_costs(buckets: int) -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    parts = Job(buckets).shuffled(0)
    assert len(parts) == TASKS * buckets
    shown = shown_kb(page, f"{buckets} | {TASKS * buckets}")
    assert sum(len(part.content) for _, part in parts) / 1000 == pytest.approx(shown, rel=0.03)


def test_the_log_stops_growing_when_the_longest_window_has_closed() -> None:
    job = Job(4)
    buckets = {number: Bucket(job.live) for number in job.ids}
    entries: dict[int, list[tuple[int, dict[int, int]]]] = {number: [] for number in job.ids}
    sizes = []
    for number in range(18):
        parts = job.shuffled(number)
        for bucket_id, bucket in buckets.items():
            mine = [part for place, part in parts if place == bucket_id]
            bucket.append(mine)
            list(bucket.closing(START + ((number + 1) * MINUTES_PER_BATCH - 1) * MINUTE))
            entries[bucket_id].append((len(pack_parts(mine)), bucket.newest_us(mine)))
            entries[bucket_id] = [
                entry for entry in entries[bucket_id] if not bucket.is_expired(entry[1], bucket.closed_us)
            ]
        sizes.append(sum(size for logged in entries.values() for size, _ in logged) / 1e6)
    assert [sizes[after] for after in (3, 7, 11, 17)] == pytest.approx([1.3, 2.5, 3.8, 3.8], abs=0.05)
