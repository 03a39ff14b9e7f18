"""Panewise on Spark: all queries in one DataFrame of answers, batch or streaming by the setting `mode`."""

from __future__ import annotations

from pathlib import Path

import panewise
from _peers.program import Folders, Job, serve
from _peers.queries import Query
from _peers.spark_session import read_stream, session_of, write_stream
from panewise import spark as panewise_spark


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    spark, workload, target = session_of(job), panewise.read(text), answers / "all.parquet"
    if job.settings["mode"] == "batch":
        events = spark.read.parquet(str(folders.batch))
        panewise_spark.answers(events, workload).write.parquet(str(target))
    else:
        write_stream(job, panewise_spark.answers(read_stream(spark, folders.stream), workload), target)


if __name__ == "__main__":
    serve(run, panewise.__version__)
