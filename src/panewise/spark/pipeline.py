"""The pipeline: a DataFrame of events in, a DataFrame of answers out, streaming or batch.

    project (native) -> combine (mapInArrow) -> one bucket of state per share of the keys -> unpack (mapInArrow)

A streaming DataFrame goes through `transformWithState`, a batch one through `applyInArrow` over its whole history.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from os import PathLike
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panewise.engine.answers import answers_schema
from panewise.errors import ArgumentError, SparkSetupError
from panewise.language.model import Stream
from panewise.language.workload import Workload
from panewise.planning.cost import DEFAULT_TOLERANCE
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.planning.trees import DEFAULT_RATE
from panewise.spark.batch_log import BatchLog
from panewise.spark.bucket import Bucket
from panewise.spark.buckets import bucket_ids
from panewise.spark.chains import as_events, check_levels, levels_of, only
from panewise.spark.columns import named
from panewise.spark.combine import PACKED, combine_partitions
from panewise.spark.cost_accumulator import costs_of
from panewise.spark.counts import (
    BUCKET,
    COMBINED,
    COUNTS,
    METRICS,
    NO_TIME,
    OUTPUT,
    OVERFLOWN,
    output_rows,
    overflown_text,
)
from panewise.spark.identity import identity_of
from panewise.spark.job import Job, check_changed_only, check_workload
from panewise.spark.layouts import LONG, By
from panewise.spark.packed_job import PackedJob
from panewise.spark.packing import PackedPart, pack_table
from panewise.spark.processor import CONTROL, COUNTED, BucketProcessor
from panewise.spark.projection import project, whole
from panewise.spark.quotas import Quotas
from panewise.spark.row_merges import AnyMerge, merge_partitions
from panewise.spark.settings import STATE_STORE
from panewise.spark.slot_log import write_job
from panewise.spark.tuple_bucket import arrived_tuples
from panewise.spark.unpack import answers_type, unpack_partitions
from panewise.spark.versions import in_arrow, with_state
from panewise.windows.clock import END_OF_STREAM

BUCKETS_PER_PARTITION = 2


def answers(
    events: DataFrame | Mapping[str, DataFrame],
    workload: Workload,
    *,
    rate: float = DEFAULT_RATE,
    groups: Mapping[str, int] | None = None,
    method: str = WEAVE_SHARE,
    tolerance: float = DEFAULT_TOLERANCE,
    changed_only: bool = False,
    control: DataFrame | None = None,
    folder: str | PathLike[str] | None = None,
    buckets: int | None = None,
    quotas: Quotas | None = None,
) -> DataFrame:
    """Answer a workload over its streams: a DataFrame of events in, a DataFrame of answers out.

    A streaming DataFrame gives a streaming one. A window is reported once, when the watermark closes it, or again if ON
    LATE CORRECT asks for it. The watermark follows from the stream's WATERMARK delay; do not set one yourself. A batch
    DataFrame gives every window.

    Args:
        events: One DataFrame whose columns are the stream's attributes, or one by name for each of several streams.
        workload: The streams and queries.
        rate: Events a second that queries are planned for.
        groups: About how many values attributes have, by name.
        method: Which method decides what windows share a tree, as for `panewise.optimize`.
        tolerance: As queries come and go, the plan may cost this share more than a fresh one before it is made anew.
        changed_only: Report only groups whose answers differ from those of the window before.
        control: A streaming DataFrame of statements that add and drop queries while the job runs. It has a text column
            `statement` (or one column only), a column `position` if the order within a batch matters, and a column
            `author` if it is to be noted who sent a statement. Statements
            hold from the batch after the one that brings them. A refused one is counted, and kept with the reason
            under `folder`/statements. The answers then have a column for every attribute of the streams.
        folder: A folder that the driver, the workers and those who look answers up share. It belongs to one checkpoint,
            or to one run of a batch. Queries without SLIDE are answered from there alone (`panewise.LookupClient`).
        buckets: Into how many shares the keys are split; two for each of `spark.sql.shuffle.partitions` by default.
        quotas: How much the statements of `control` may ask for.

    Returns:
        The long table, with `query`, `window_start`, `window_end`, the group-by attributes, `aggregate`, `value` and
        `exact`.

    Raises:
        PanewiseError: A column is missing or has another type, a query cannot run on Spark, or a setting is wrong. All
            of this is checked before Spark starts.

    Cost: one pass over the events for all queries, and a shuffle of one partial per slot, key and task.
    """
    asked = AnswerOptions(rate, groups, method, tolerance, changed_only, control, folder, buckets, quotas)
    levels = packed_levels(events, workload, asked)
    parts = [unpacked(packed, job.schemas[LONG], job.merges.get(LONG)) for packed, job in levels]
    if len(parts) == 1:
        return parts[0]
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    return together.select(*(named(name) for name in answers_schema(workload).names))


def unpacked(packed: DataFrame, schema: pa.Schema, merge: AnyMerge | None) -> DataFrame:
    """The rows of one table, given its packed rows; those that are merged meet where their part says."""
    if merge is not None:
        together = packed.where("content IS NOT NULL").select("part", "content").repartition("part")
        return together.mapInArrow(merge_partitions(merge), answers_type(schema))
    return packed.select("content").mapInArrow(unpack_partitions(schema), answers_type(schema))


@dataclass(frozen=True)
class AnswerOptions:
    """What was asked for beside the events and the workload: the keywords of `answers`."""

    rate: float
    groups: Mapping[str, int] | None
    method: str
    tolerance: float
    changed_only: bool
    control: DataFrame | None
    folder: str | PathLike[str] | None
    buckets: int | None
    quotas: Quotas | None
    until_us: int = END_OF_STREAM
    """Windows of a batch that end later are left out."""
    rows: bool = False
    """Whether row queries are answered, in tables of their own."""
    aggregates: bool = True
    """Whether the answers of aggregates are reported."""
    most_rows: int | None = None
    """The most rows that a window of an ORDER BY without LIMIT may have."""

    @staticmethod
    def plain() -> AnswerOptions:
        """Nothing beside the events and the workload."""
        return AnswerOptions(
            DEFAULT_RATE, None, WEAVE_SHARE, DEFAULT_TOLERANCE, changed_only=False, control=None, folder=None,
            buckets=None, quotas=None,
        )  # fmt: skip


def packed_levels(
    events: DataFrame | Mapping[str, DataFrame], workload: Workload, asked: AnswerOptions, wide_by: By | None = None
) -> list[tuple[DataFrame, Job]]:
    """The packed answers of each level of a chain, those below first; one if no query reads answers."""
    levels = levels_of(workload)
    check_levels(levels, is_live=asked.control is not None)
    shown = levels if asked.aggregates else [replace(level, queries={}) for level in levels]
    if len(levels) == 1:
        return [packed_answers(events, shown[0], asked, wide_by)]
    declared = by_stream(events, workload, every=False)
    found: list[tuple[DataFrame, Job]] = []
    for place, level in enumerate(shown):
        if level.queries or level.row_queries:
            # Lookups are of what reads events, and so are the metrics.
            options = asked if place == 0 else replace(asked, folder=None)
            frames = {name: events_of(name, declared, workload, asked) for name in level.streams}
            found.append(packed_answers(frames, level, options, wide_by, None if found else METRICS))
    return found


def events_of(name: str, declared: Mapping[str, DataFrame], workload: Workload, asked: AnswerOptions) -> DataFrame:
    """The events of a stream. Answers are computed for each reader: in Spark, two would share a state."""
    if name in declared:
        return declared[name]
    query = workload.queries[name]
    below = {query.stream: events_of(query.stream, declared, workload, asked)}
    reading = replace(asked, changed_only=False, folder=None, rows=False)
    packed, job = packed_answers(below, only(workload, name), reading, "query", None)
    return as_events(unpacked(packed, job.schemas[name], job.merges.get(name)), query)


def packed_answers(
    events: DataFrame | Mapping[str, DataFrame],
    workload: Workload,
    asked: AnswerOptions,
    wide_by: By | None = None,
    metrics: str | None = METRICS,
) -> tuple[DataFrame, Job]:
    """A DataFrame of packed answers, in the columns of `OUTPUT`, and the job that has the tables of them.

    Its counts are observed by the name of `metrics`, if there is one.
    """
    control, folder = asked.control, asked.folder
    check_workload(workload, lookups=folder is not None, rows=asked.rows, most_rows=asked.most_rows)
    check_changed_only(workload.queries.values(), changed_only=asked.changed_only)
    frames = by_stream(events, workload, every=control is not None)
    any_frame = next(iter(frames.values()))
    session = any_frame.sparkSession
    streaming = any_frame.isStreaming
    if any(frame.isStreaming != streaming for frame in frames.values()):
        raise SparkSetupError("some of the DataFrames are streaming and some are not; give only one kind")
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    ids = bucket_ids(partitions, asked.buckets or BUCKETS_PER_PARTITION * partitions)
    if streaming and "RocksDB" not in (session.conf.get(STATE_STORE) or ""):
        raise SparkSetupError(
            "Spark keeps the state of a Panewise stream in RocksDB only; build the session with "
            ".config(map=panewise.spark.SETTINGS), or set " + STATE_STORE + " yourself"
        )
    if control is not None:
        _check_control(control, streaming, folder)
    # Workers have working directories of their own.
    shared = None if folder is None else os.path.abspath(folder)
    job = Job.of(
        workload,
        ids,
        rate=asked.rate,
        groups=asked.groups,
        method=asked.method,
        tolerance=asked.tolerance,
        is_live=control is not None,
        is_batch=not streaming,
        changed_only=asked.changed_only,
        quotas=asked.quotas,
        wide_by=wide_by,
        most_rows=asked.most_rows,
    )
    if shared is not None:
        write_job(shared, job)
    needed = job if streaming else job.without_native()
    packed, combining = pack_job(needed, None if control is None else shared)
    partials = reduce(
        DataFrame.union,
        [_partials(frame, workload.streams[name], needed, combining) for name, frame in frames.items()],
    )
    if control is not None:
        partials = partials.union(_statements(control, ids))
    grouped = partials.groupBy("bucket")
    if streaming:
        costs = costs_of(session)
        closed = with_state(grouped, BucketProcessor(packed, uuid4().hex, shared, costs), OUTPUT)
    else:
        closed = in_arrow(grouped, answer_bucket(packed, shared, asked.until_us), OUTPUT)
    if metrics is None:
        return closed, job
    observed = closed.observe(
        metrics,
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("answers", *COUNTS)),
        # As one text: over Spark Connect, Spark 4.0 cannot send an observed list.
        F.concat_ws("\n", F.collect_list("overflown")).alias(OVERFLOWN),
        *(F.max(F.when(F.col("bucket") == number, F.col("sizes"))).alias(f"{BUCKET}{number}") for number in ids),
    )
    return observed, job


def pack_job(job: Job, statements_in: str | None) -> tuple[PackedJob, PackedJob]:
    """A job for the workers that answer, and for those that combine."""
    packed = PackedJob(pickle.dumps(job), identity_of(job), statements_in)
    return packed, packed if statements_in is not None else PackedJob(pickle.dumps(job.for_combining()))


def _partials(events: DataFrame, stream: Stream, job: Job, combining: PackedJob) -> DataFrame:
    """One stream's events as packed partials."""
    if combining.statements_in is None:
        plan = next((plan for plan, _ in job.plans_of(stream.name)), None)
        rows, cells = job.row_attributes_of(stream.name), job.cells_of(stream.name)
        projected = project(events, stream, plan, rows, cells)
    else:
        projected = whole(events, stream)
    packed = projected.mapInArrow(combine_partitions(combining, stream.name), PACKED)
    if events.isStreaming and not stream.is_of_answers:
        # Spark takes the watermark from the newest time of a batch. A few packed rows show it as well as all the events
        # would, and take less time.
        packed = packed.withWatermark("newest", f"{stream.watermark_us} microseconds")
    # Without this column: by it Spark would drop late rows, and Panewise must count them.
    return packed.drop("newest")


def _check_control(control: DataFrame, streaming: bool, folder: str | PathLike[str] | None) -> None:
    if not (streaming and control.isStreaming):
        raise ArgumentError(
            "queries come and go only while a stream is read: give `control` and the events as streaming DataFrames; "
            "for a batch, write all statements into the workload"
        )
    if folder is None:
        raise ArgumentError(
            "a job with a control stream keeps its statements in a folder that the driver and the workers share; "
            "give folder="
        )
    names = [name for name in control.columns if name not in ("position", "author")]
    if "statement" not in names and len(names) != 1:
        raise ArgumentError(
            f"the control stream has columns {', '.join(control.columns)}; name the one with statements `statement`"
        )


def _statements(control: DataFrame, ids: list[int]) -> DataFrame:
    """Statements in the columns of packed partials, once for every bucket."""
    name = next((name for name in control.columns if name == "statement"), None)
    text = named(name or next(name for name in control.columns if name not in ("position", "author")))
    position = named("position") if "position" in control.columns else F.lit("")
    author = named("author").cast("string") if "author" in control.columns else F.lit("")
    sent = text.cast("string").alias("statement"), position.alias("position"), author.alias("author")
    statement = F.to_json(F.struct(*sent))
    nothing = F.lit(0).cast("bigint")
    return control.select(
        F.explode(F.array(*(F.lit(number) for number in ids))).alias("bucket"),
        F.lit(CONTROL).alias("base"),
        statement.cast("binary").alias("partials"),
        *(nothing.alias(name) for name in COMBINED),
        nothing.alias("newest_us"),
    )


def by_stream(events: DataFrame | Mapping[str, DataFrame], workload: Workload, *, every: bool) -> dict[str, DataFrame]:
    """The DataFrame of each stream that some query reads, or of every stream."""
    read = [query.stream for query in workload.queries.values()]
    read += [name for query in workload.row_queries.values() for name in query.streams]
    # Answers that are read come from the level below.
    needed = [name for name in dict.fromkeys(read) if not workload.streams[name].is_of_answers or _has(events, name)]
    if every:
        needed = list(workload.streams)
    if isinstance(events, Mapping):
        missing = [name for name in needed if name not in events]
        if missing:
            raise ArgumentError(f"no DataFrame for stream {missing[0]!r}; give one per stream: {{name: DataFrame}}")
        return {name: events[name] for name in needed}
    if len(needed) > 1:
        raise ArgumentError(
            f"the queries read {len(needed)} streams ({', '.join(needed)}); give a DataFrame for each by name"
        )
    return {needed[0]: events}


def _has(events: DataFrame | Mapping[str, DataFrame], name: str) -> bool:
    return isinstance(events, Mapping) and name in events


def answer_bucket(
    packed: PackedJob, folder: str | None = None, until_us: int = END_OF_STREAM
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `applyInArrow` applies to all partials of a bucket. It writes what lookups need to a folder."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = packed.open()
        bucket = Bucket(job)
        log = None if folder is None else BatchLog(folder, job)
        counts, place = dict.fromkeys(COUNTS, 0), 0
        newest_us = dict.fromkeys(job.workload.streams, NO_TIME)
        for batch in batches:
            place = job.bucket_ids.index(batch.column("bucket")[0].as_py())
            parts = [
                PackedPart.of(base, content)
                for base, content in zip(batch.column("base").to_pylist(), batch.column("partials").to_pylist())
                if base > CONTROL
            ]
            bucket.append(parts)
            made = output_rows(map(pack_table, arrived_tuples(job.tuples, parts, None).passed), {})
            yield pa.RecordBatch.from_pylist(made, OUTPUT_ARROW)
            if log is not None:
                others = [part for part in parts if part.base not in job.tuples.bases]
                log.append(batch.column("bucket")[0].as_py(), others)
            for name in COMBINED:
                counts[name] += sum(batch.column(name).to_pylist())
            for base, time_us in zip(batch.column("base").to_pylist(), batch.column("newest_us").to_pylist()):
                if base <= COUNTED:
                    name = list(newest_us)[COUNTED - base]
                    newest_us[name] = max(newest_us[name], time_us)
        for closed in chain(bucket.closing(until_us), bucket.closing_tuples(until_us)):
            made = output_rows(map(pack_table, bucket.rows_of(closed, place)), {})
            yield pa.RecordBatch.from_pylist(made, OUTPUT_ARROW)
        counts["overflown_answers"] = sum(bucket.overflown.values())
        if log is not None:
            log.write(newest_us)
        counts["fed"], counts["folded"] = bucket.work
        made = output_rows([], counts, overflown=overflown_text(bucket.overflown))
        yield pa.RecordBatch.from_pylist(made, OUTPUT_ARROW)

    return answer


OUTPUT_ARROW = pa.schema(
    [
        ("table_name", pa.string()),
        ("query_id", pa.string()),
        ("content", pa.binary()),
        ("part", pa.int32()),
        ("answers", pa.int64()),
        ("overflown", pa.string()),
        ("bucket", pa.int32()),
        ("sizes", pa.string()),
        *((name, pa.int64()) for name in COUNTS),
    ]
)
