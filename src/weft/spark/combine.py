"""Combine on Spark: batches of projected events into packed partials, one row per (bucket, base). Stateless."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.engine.combine import Combiner
from weft.planning.plan import StreamPlan
from weft.spark.buckets import bucket_places
from weft.spark.counts import COMBINED, COMBINED_COLUMNS
from weft.spark.job import Job
from weft.spark.packed_job import PackedJob
from weft.spark.packing import pack

PACKED = f"bucket INT, base INT, partials BINARY, {COMBINED_COLUMNS}, newest TIMESTAMP"
"""A row of packed partials with counts; `newest` is the time of the newest event, from which Spark's watermark
follows."""

NO_TIME = -62_135_596_800_000_000
"""The time that stands for none: Spark's earliest, which moves no watermark."""

_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("base", pa.int32()),
        ("partials", pa.binary()),
        *((name, pa.int64()) for name in COMBINED),
        ("newest", pa.timestamp("us", "UTC")),
    ]
)

ROWS_PER_COMBINE = 1 << 20
"""Events are gathered up to this number before they are combined: the more, the fewer partials."""


def combine_partitions(
    packed: PackedJob, stream: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` applies to each partition of one stream's events."""

    def combine(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = packed.open()
        plan = job.plan.streams[stream]
        gathered: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            gathered.append(batch)
            rows += batch.num_rows
            if rows >= ROWS_PER_COMBINE:
                yield _combine(job, plan, gathered)
                gathered, rows = [], 0
        if rows:
            yield _combine(job, plan, gathered)

    return combine


def _combine(job: Job, plan: StreamPlan, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    began = perf_counter_ns()
    batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    untimed = batch.column("time").null_count
    if untimed:
        batch = batch.filter(batch.column("time").is_valid())
    # The first bucket gets a row from every batch, with the counts: its state tells if the checkpoint fits the job.
    columns = [(job.bucket_ids[0], plan.bases[0].number, b"")]
    if batch.num_rows:
        columns += _packed_partials(job, plan, batch)
    newest = pc.max(batch.column("time")).as_py() if batch.num_rows else NO_TIME
    first = np.arange(len(columns)) == 0
    counts = {
        "untimed_events": untimed,
        "busy_ns": perf_counter_ns() - began,
        "lifted": batch.num_rows * len(plan.bases),
    }
    return pa.RecordBatch.from_arrays(
        [
            pa.array([bucket for bucket, _, _ in columns], pa.int32()),
            pa.array([base for _, base, _ in columns], pa.int32()),
            pa.array([content for _, _, content in columns], pa.binary()),
            *(pa.array(np.where(first, counts[name], 0)) for name in COMBINED),
            pa.array([newest] * len(columns), pa.int64()).cast(_SCHEMA.field("newest").type),
        ],
        schema=_SCHEMA,
    )


def _packed_partials(job: Job, plan: StreamPlan, batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes]]:
    """The partials of every base, split by bucket."""
    times = np.asarray(batch.column("time"))
    combiner = Combiner(plan, batch)
    for base in plan.bases:
        partials = combiner.partials(base, times // base.granularity)
        places = bucket_places(plan, base, partials, len(job.bucket_ids))
        order = np.argsort(places, kind="stable")
        partials = partials.take(pa.array(order))
        bounds = np.searchsorted(places[order], np.arange(len(job.bucket_ids) + 1))
        for bucket, low, high in zip(job.bucket_ids, bounds[:-1], bounds[1:]):
            if high > low:
                yield bucket, base.number, pack(partials.slice(low, high - low))
