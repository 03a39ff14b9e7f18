"""`weft run`: a job from its sources to its sink, on Spark."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from rich.console import Console

from weft import spark as weft_spark
from weft.cli.control import read_control
from weft.cli.failure import root_cause
from weft.cli.follow import follow, stop_requests
from weft.cli.job import Job, JobError, MetricsSettings, read_job
from weft.cli.messages import MALFORMED_EVENTS
from weft.cli.preflight import check_job
from weft.cli.progress import Display, JsonLines, Lines, LiveTable
from weft.cli.session import start_session
from weft.cli.sinks import start_stream, write_batch
from weft.cli.sources import read_events
from weft.errors import WeftError
from weft.spark.java import ensure_java
from weft.spark.metrics_file import MetricsFile
from weft.spark.progress_listener import MetricsSink
from weft.spark.prometheus import PrometheusEndpoint


def run_job(file: Path, console: Console, *, verbose: bool = False, as_json: bool = False) -> None:
    """Run the job of a file. All that can be checked without Spark is checked before it starts.

    As JSON, what happens is written to standard output for programs; the console then has to be another one.
    """
    job = read_job(file)
    workload = check_job(job)
    lines = JsonLines(sys.stdout) if as_json else None
    if lines is not None and job.sink.format == "console":
        raise JobError(job.file, "[sink] format", "answers on the console would mix with --json; write them elsewhere")
    queries = len(workload.queries)
    console.print(ensure_java().message, style="dim", highlight=False, soft_wrap=True)
    with _metrics_sinks(job.metrics, console) as sinks:
        try:
            spark = start_session(job, verbose=verbose)
            try:
                console.print(
                    f"{job.name}: {queries} quer{'y' if queries == 1 else 'ies'} as a {job.mode}", highlight=False
                )
                malformed: dict[str, Observation] = {}
                events = read_events(spark, job, workload, malformed)
                answers = weft_spark.answers(events, workload, **_options(spark, job))
                if job.is_stream:
                    _run_stream(job, answers, console, lines, sinks)
                else:
                    _run_batch(job, answers, console, lines, malformed)
            finally:
                spark.stop()
        except (PySparkException, Py4JError) as error:
            raise WeftError(f"{job.file}: the job failed in Spark: {root_cause(error)}") from error


def _options(spark: SparkSession, job: Job) -> dict[str, Any]:
    """What the job file tells `answers` beside the events and the workload."""
    given = {
        "buckets": job.stream.buckets,
        "changed_only": job.stream.changed_only,
        "control": None if job.control is None else read_control(spark, job, job.control),
        "folder": job.lookups,
    }
    return {name: value for name, value in given.items() if value is not None}


@contextmanager
def _metrics_sinks(settings: MetricsSettings, console: Console) -> Iterator[tuple[MetricsSink, ...]]:
    """The sinks of metrics that a job asks for, open."""
    files = [] if settings.file is None else [MetricsFile(settings.file)]
    if settings.port is None:
        yield (*files,)
        return
    with PrometheusEndpoint(settings.port, settings.address) as endpoint:
        console.print(f"metrics at {endpoint.url}", highlight=False, soft_wrap=True)
        yield (*files, endpoint)


def _run_stream(
    job: Job, answers: DataFrame, console: Console, lines: JsonLines | None, sinks: tuple[MetricsSink, ...]
) -> None:
    began = time.perf_counter()
    with stop_requests() as stop:
        query = start_stream(answers, job)
        display = lines or _display(job, console)
        totals = follow(query, display, stop, sinks=sinks, stop_within_s=job.stream.stop_within_s)
    end = "stopped" if stop.is_set() else "done"
    took_s = time.perf_counter() - began
    if lines is not None:
        lines.write(end, {"seconds": round(took_s, 3), **totals.as_dict()})
        return
    console.print(f"{end}: {totals} in {took_s:.1f} s", highlight=False)
    for line in totals.summary():
        console.print(line, style="dim", highlight=False, soft_wrap=True)
    if stop.is_set():
        console.print(f"Run it again to go on from {job.stream.checkpoint}", highlight=False, soft_wrap=True)


def _display(job: Job, console: Console) -> Display:
    # The console sink writes to the terminal by itself, which a table drawn over itself would not survive.
    watched = console.is_terminal and job.sink.format != "console"
    return LiveTable(console) if watched else Lines(console)


def _run_batch(
    job: Job, answers: DataFrame, console: Console, lines: JsonLines | None, malformed: Mapping[str, Observation]
) -> None:
    began = time.perf_counter()
    rows = write_batch(answers, job)
    took_s = time.perf_counter() - began
    undecoded = sum(int(count.get[MALFORMED_EVENTS]) for count in malformed.values())
    if lines is not None:
        lines.write("done", {"seconds": round(took_s, 3), "answers": rows, MALFORMED_EVENTS: undecoded})
        return
    console.print(f"done: {rows:,} answers in {took_s:.1f} s", highlight=False)
    if undecoded:
        console.print(f"{undecoded:,} messages could not be decoded", style="dim", highlight=False)
