"""Plain Spark: `OVER` frames. Events are aggregated to panes, and a RANGE frame folds the panes of a window.

A frame gives an answer for each row, but the query wants one for each window: so a row is added for each group and each
end of a window, and only those rows are kept. AVG and STDDEV_POP are computed from sums. The setting
`spark.sql.window.segmentTree.enabled` chooses how Spark folds a moving frame.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from _peers.program import Folders, Job, serve
from _peers.queries import Query, final_sql, folding_of, having_sql, partials_of
from _peers.spark_session import session_of, together

SEGMENT_TREE = "spark.sql.window.segmentTree.enabled"


def answers_of(events: DataFrame, query: Query, time: str, span_us: tuple[int, int]) -> DataFrame:
    """The answers of one query over events between two times."""
    if query.where is not None:
        events = events.where(query.where.sql(str(query.where.left)))
    partials, pane_us = partials_of(query), query.pane_us
    pane = F.expr(f"unix_micros({time}) div {pane_us}").alias("pane")
    panes = events.groupBy(pane, *query.group_by).agg(
        *(F.expr(partial.sql).alias(name) for name, partial in partials.items())
    )
    length, step = query.range_us // pane_us, query.slide_us // pane_us
    first = ((span_us[0] - query.range_us) // query.slide_us + 1) * step + length
    last = span_us[1] // query.slide_us * step + length
    ends = F.explode(F.sequence(F.lit(first), F.lit(last), F.lit(step))).alias("pane")
    groups = panes.select(*query.group_by).distinct() if query.group_by else events.sparkSession.range(1).select()
    grid = groups.select(*query.group_by, ends, F.lit(True).alias("is_end"))
    rows = panes.withColumn("is_end", F.lit(False)).unionByName(grid, allowMissingColumns=True)
    frame = Window.partitionBy(*query.group_by).orderBy("pane").rangeBetween(-length, -1)
    folded = rows.select(
        "pane",
        "is_end",
        *query.group_by,
        *(F.expr(f"{folding_of(partial)}({name})").over(frame).alias(name) for name, partial in partials.items()),
    ).where("is_end AND n > 0")
    having = having_sql(query)
    finals = (
        F.expr(final_sql(one)).cast("bigint" if whole else "double").alias(f"a{place}")
        for place, (one, whole) in enumerate(zip(query.aggregates, query.integers))
    )
    return (folded if having is None else folded.where(having)).select(
        ((F.col("pane") - length) * pane_us).alias("window_start"),
        (F.col("pane") * pane_us).alias("window_end"),
        *query.group_by,
        *finals,
    )


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    spark, time = session_of(job), job.stream.time
    if SEGMENT_TREE in job.settings:
        # This refuses a name that this Spark does not know; setting it would silently do nothing.
        assert spark.conf.get(SEGMENT_TREE) == job.settings[SEGMENT_TREE]
    events = spark.read.parquet(str(folders.batch)).cache()
    low, high = events.select(F.min(F.unix_micros(time)), F.max(F.unix_micros(time))).first()

    def task(query: Query) -> Callable[[], None]:
        target = answers / f"{query.name}.parquet"
        return lambda: answers_of(events, query, time, (low, high)).write.parquet(str(target))

    together(job.cores, [task(query) for query in queries])
    events.unpersist()


if __name__ == "__main__":
    serve(run, pyspark.__version__)
