"""Running a workload over events as Spark batches, streaming or not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from panewise import spark as panewise_spark
from panewise.engine.answers import public_type
from panewise.language.model import Stream
from panewise.language.workload import Workload

Event = dict[str, Any]


def public_table(stream: Stream, events: Sequence[Event]) -> pa.Table:
    """Events with timestamps typed as users have them."""
    columns = {
        name: pa.array([event[name] for event in events], pa.int64() if pa.types.is_timestamp(kind) else kind).cast(
            kind
        )
        for name, kind in ((name, public_type(kind)) for name, kind in stream.attributes.items())
    }
    return pa.table(columns)


def write_batches(folder: Path, stream: Stream, batches: Sequence[Sequence[Event]], first: int = 0) -> None:
    """One parquet file a micro-batch; the files' ages give their order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(batches, first):
        path = folder / f"events-{number:03}.parquet"
        pq.write_table(public_table(stream, batch), path)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def read_stream(spark: SparkSession, folder: Path, stream: Stream) -> DataFrame:
    schema = spark.createDataFrame(public_table(stream, [])).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run_stream(
    spark: SparkSession, folder: Path, workload: Workload, out: Path | None = None, groups: dict[str, int] | None = None
) -> tuple[pa.Table, list[Any]]:
    """Answer what lies in a folder of events, from its checkpoint on; all answers so far, and the batches' metrics."""
    (stream,) = workload.streams.values()
    out = out or folder.with_name(folder.name + "-answers")
    frame = panewise_spark.answers(read_stream(spark, folder, stream), workload, groups=groups)
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(folder.with_name(folder.name + "-checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    metrics = [progress.observedMetrics["panewise"] for progress in query.recentProgress if progress.observedMetrics]
    return spark.read.schema(frame.schema).parquet(str(out)).toArrow(), metrics


def watermarks(stream: Stream, batches: Sequence[Sequence[Event]]) -> list[int | None]:
    """The watermark that each batch sees, and at the end the one of a last batch without data."""
    seen: list[int | None] = [None]
    newest = None
    for batch in batches:
        times = [event[stream.timestamp] for event in batch]
        newest = max([*times, *([] if newest is None else [newest])])
        seen.append((newest - stream.watermark_us) // 1000 * 1000)
    return seen
