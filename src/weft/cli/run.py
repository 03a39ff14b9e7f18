"""`weft run`: a job from its sources to its sink, on Spark."""

from __future__ import annotations

import time
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from rich.console import Console

from weft import spark as weft_spark
from weft.cli.failure import root_cause
from weft.cli.follow import follow, stop_requests
from weft.cli.job import Job, read_job
from weft.cli.preflight import check_job
from weft.cli.progress import Lines, LiveTable
from weft.cli.session import start_session
from weft.cli.sinks import start_stream, write_batch
from weft.cli.sources import read_events
from weft.errors import WeftError
from weft.spark.java import ensure_java


def run_job(file: Path, console: Console, *, verbose: bool = False) -> None:
    """Run the job of a file. All that can be checked without Spark is checked before it starts."""
    job = read_job(file)
    workload = check_job(job)
    queries = len(workload.queries)
    console.print(ensure_java().message, style="dim", highlight=False, soft_wrap=True)
    try:
        spark = start_session(job, verbose=verbose)
        try:
            console.print(
                f"{job.name}: {queries} quer{'y' if queries == 1 else 'ies'} as a {job.mode}", highlight=False
            )
            answers = weft_spark.answers(read_events(spark, job, workload), workload)
            if job.is_stream:
                _run_stream(job, answers, console)
            else:
                _run_batch(job, answers, console)
        finally:
            spark.stop()
    except (PySparkException, Py4JError) as error:
        raise WeftError(f"{job.file}: the job failed in Spark: {root_cause(error)}") from error


def _run_stream(job: Job, answers: DataFrame, console: Console) -> None:
    began = time.perf_counter()
    # The console sink writes to the terminal by itself, which a table drawn over itself would not survive.
    watched = console.is_terminal and job.sink.format != "console"
    with stop_requests() as stop:
        query = start_stream(answers, job)
        totals = follow(query, LiveTable(console) if watched else Lines(console), stop)
        stopped = stop.is_set()
    took = f"in {time.perf_counter() - began:.1f} s"
    console.print(f"{'stopped' if stopped else 'done'}: {totals} {took}", highlight=False)
    console.print(f"work: {totals.work_text}", style="dim", highlight=False)
    if stopped:
        console.print(f"Run it again to go on from {job.stream.checkpoint}", highlight=False, soft_wrap=True)


def _run_batch(job: Job, answers: DataFrame, console: Console) -> None:
    began = time.perf_counter()
    rows = write_batch(answers, job)
    console.print(f"done: {rows:,} answers in {time.perf_counter() - began:.1f} s", highlight=False)
