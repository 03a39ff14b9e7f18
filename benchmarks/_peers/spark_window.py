"""Plain Spark: `groupBy(window(...))`, a job or a streaming query for each query, as many at a time as there are cores.

In batch mode the events are cached, so that parquet is decoded once. Streams run with Spark's default state store: in
memory, checkpointed to files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from _peers.program import Folders, Job, serve
from _peers.queries import Aggregate, Query
from _peers.spark_session import read_stream, session_of, together, write_stream


def answers_of(events: DataFrame, query: Query, time: str) -> DataFrame:
    """The answers of one query, as users write it."""
    if query.where is not None:
        events = events.where(query.where.sql(str(query.where.left)))
    window = F.window(time, f"{query.range_us} microseconds", f"{query.slide_us} microseconds")
    names = {one: f"x{place}" for place, one in enumerate(query.computed)}
    found = events.groupBy(window, *query.group_by).agg(*(F.expr(one.sql).alias(names[one]) for one in names))
    if query.having is not None:
        assert isinstance(query.having.left, Aggregate)
        found = found.where(query.having.sql(names[query.having.left]))
    finals = (F.col(names[one]).alias(f"a{place}") for place, one in enumerate(query.aggregates))
    times = (F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"))
    return found.select(*times, *query.group_by, *finals)


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    spark, time = session_of(job), job.stream.time
    is_batch = job.settings["mode"] == "batch"
    cached = spark.read.parquet(str(folders.batch)).cache() if is_batch else None

    def task(query: Query) -> Callable[[], None]:
        target = answers / f"{query.name}.parquet"
        if cached is not None:
            return lambda: answers_of(cached, query, time).write.parquet(str(target))
        events = read_stream(spark, folders.stream).withWatermark(time, f"{job.stream.watermark_us} microseconds")
        return lambda: write_stream(job, answers_of(events, query, time), target)

    together(job.cores, [task(query) for query in queries])
    if cached is not None:
        cached.unpersist()


if __name__ == "__main__":
    serve(run, pyspark.__version__)
