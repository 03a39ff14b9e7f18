"""The pipeline: a DataFrame of events in, a DataFrame of answers out, streaming or batch.

    project (native) -> combine (mapInArrow) -> one bucket of state per share of the keys -> unpack (mapInArrow)

A streaming DataFrame goes through `transformWithState`, a batch one through `applyInArrow` over its whole history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weft.errors import WeftError
from weft.language.model import Workload
from weft.planning.plan import DEFAULT_RATE, StreamPlan
from weft.spark.bucket import Bucket
from weft.spark.buckets import bucket_ids
from weft.spark.combine import PACKED, combine_partitions
from weft.spark.counts import COMBINED, COUNTS, OUTPUT, output_rows
from weft.spark.job import plan_job
from weft.spark.packed_job import PackedJob
from weft.spark.packing import Part, pack
from weft.spark.processor import BucketProcessor
from weft.spark.projection import project
from weft.spark.settings import STATE_STORE
from weft.spark.unpack import answers_type, unpack_partitions
from weft.windows import TimeWindow
from weft.windows.clock import END_OF_STREAM

METRICS = "weft"
"""The name of the observed metrics in a batch's progress."""

BUCKETS_PER_PARTITION = 2


def check_workload(workload: Workload) -> None:
    """Raise when some query cannot be answered on Spark, before anything is started."""
    if workload.row_queries:
        names = ", ".join(workload.row_queries)
        raise WeftError(
            f"the row queries run in the engine only, and Spark answers aggregates: {names}; "
            f"DROP them from the workload, and answer them with weft.Engine"
        )
    if not workload.queries:
        raise WeftError("the workload has no query; add a CREATE QUERY statement")
    for stream in workload.streams.values():
        if stream.correct_us:
            raise WeftError(
                f"stream {stream.name}: on Spark a window is reported once; leave ON LATE CORRECT out and lengthen "
                f"WATERMARK, or use weft.Engine"
            )
    for query in workload.queries.values():
        if not isinstance(query.window, TimeWindow):
            raise WeftError(
                f"query {query.name}: a window over ROWS needs the stream's total order, which Spark does not keep; "
                f"use a RANGE window with SLIDE, or weft.Engine"
            )
        if not query.window.is_sliding:
            raise WeftError(
                f"query {query.name}: its window is evaluated on demand, and on Spark windows report as they close; "
                f"add SLIDE to the window, or look it up with weft.Engine"
            )


def answers(
    events: DataFrame | Mapping[str, DataFrame],
    workload: Workload,
    *,
    rate: float = DEFAULT_RATE,
    groups: Mapping[str, int] | None = None,
) -> DataFrame:
    """The answers of a workload over its streams.

    `events` is one DataFrame, or one per stream by name when the workload has several; its columns are the stream's
    attributes. A streaming DataFrame gives a streaming one in append mode: windows are reported once, when the
    watermark (from the stream's WATERMARK delay; do not set one yourself) closes them. A batch DataFrame gives every
    window. `rate` (events a second) and `groups` (about how many values attributes have) are what queries are planned
    for.
    """
    check_workload(workload)
    frames = _by_stream(events, workload)
    any_frame = next(iter(frames.values()))
    session = any_frame.sparkSession
    streaming = any_frame.isStreaming
    if any(frame.isStreaming != streaming for frame in frames.values()):
        raise WeftError("some of the DataFrames are streaming and some are not; give all of one kind")
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    ids = bucket_ids(partitions, BUCKETS_PER_PARTITION)
    job = plan_job(workload, ids, rate, groups)
    packed, combining = job.packed(), job.packed_for_combining()
    plans = job.plan.streams
    partials = reduce(DataFrame.union, [_partials(frames[name], plan, combining) for name, plan in plans.items()])
    grouped = partials.groupBy("bucket")
    if streaming:
        if "RocksDB" not in (session.conf.get(STATE_STORE) or ""):
            raise WeftError(
                "Spark keeps the state of a Weft stream in RocksDB only; build the session with "
                ".config(map=weft.spark.SETTINGS), or set " + STATE_STORE + " yourself"
            )
        processor = BucketProcessor(packed, uuid4().hex)
        closed = grouped.transformWithState(processor, OUTPUT, "Append", "EventTime")
    else:
        closed = grouped.applyInArrow(answer_bucket(packed), OUTPUT)
    closed = closed.observe(
        METRICS,
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("answers", *COUNTS)),
    )
    return closed.mapInArrow(unpack_partitions(packed), answers_type(workload))


def _partials(events: DataFrame, plan: StreamPlan, combining: PackedJob) -> DataFrame:
    """One stream's events as packed partials."""
    stream = plan.stream
    packed = project(events, plan).mapInArrow(combine_partitions(combining, stream.name), PACKED)
    if events.isStreaming:
        # Spark takes the watermark from the newest time of a batch, and a few packed rows show it as well as all the
        # events do, without a step of its own for each of them.
        packed = packed.withWatermark("newest", f"{stream.watermark_us} microseconds")
    # Without the column: Spark would drop rows behind the watermark by it, and what is late is for Weft to count.
    return packed.drop("newest")


def _by_stream(events: DataFrame | Mapping[str, DataFrame], workload: Workload) -> dict[str, DataFrame]:
    """The DataFrame of each stream that some query reads."""
    needed = list(dict.fromkeys(query.stream for query in workload.queries.values()))
    if isinstance(events, Mapping):
        missing = [name for name in needed if name not in events]
        if missing:
            raise WeftError(f"no DataFrame for stream {missing[0]!r}; give one per stream: {{name: DataFrame}}")
        return {name: events[name] for name in needed}
    if len(needed) > 1:
        raise WeftError(
            f"the queries read {len(needed)} streams ({', '.join(needed)}); give a DataFrame for each by name"
        )
    return {needed[0]: events}


def answer_bucket(packed: PackedJob) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `applyInArrow` applies to all partials of a bucket."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bucket = Bucket(packed.open())
        counts = dict.fromkeys(COUNTS, 0)
        for batch in batches:
            bucket.append(
                Part.of(base, content)
                for base, content in zip(batch.column("base").to_pylist(), batch.column("partials").to_pylist())
                if content
            )
            for name in COMBINED:
                counts[name] += sum(batch.column(name).to_pylist())
        closed = [(pack(answers), answers.num_rows) for answers in bucket.close(END_OF_STREAM)]
        counts["fed"], counts["folded"] = bucket.work
        yield pa.RecordBatch.from_pylist(output_rows(closed, counts), OUTPUT_ARROW)

    return answer


OUTPUT_ARROW = pa.schema([("content", pa.binary()), ("answers", pa.int64()), *((name, pa.int64()) for name in COUNTS)])
