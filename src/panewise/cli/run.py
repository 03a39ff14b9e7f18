"""`panewise run`: a job from its sources to its sink, on Spark."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Observation, SparkSession
from rich.console import Console

from panewise import spark as panewise_spark
from panewise.cli.control import read_control
from panewise.cli.failure import FAILURES, java_is_gone, job_failed
from panewise.cli.follow import follow, stop_requests
from panewise.cli.java_death import told_once
from panewise.cli.job import JobError, JobFile, read_job
from panewise.cli.kafka import other_connector
from panewise.cli.messages import MALFORMED_EVENTS, MALFORMED_TEXT
from panewise.cli.preflight import check_job
from panewise.cli.progress import Display, JsonLines, Lines, LiveTable
from panewise.cli.session import PACKAGES, start_session
from panewise.cli.sinks import SinkOutput, start_stream, start_tables, write_batch
from panewise.cli.sources import read_events, read_for_set_aside
from panewise.language.workload import Workload
from panewise.notebook import counted
from panewise.spark import Tables
from panewise.spark.java import ensure_java
from panewise.spark.layouts import LONG
from panewise.spark.metrics_file import MetricsFile
from panewise.spark.progress_listener import MetricsSink
from panewise.spark.prometheus import PrometheusEndpoint


def run_job(file: Path, console: Console, *, verbose: bool = False, as_json: bool = False) -> None:
    """Run the job of a file. Everything that can be checked without Spark is checked before it starts.

    With JSON, progress goes to standard output for programs; the console must then write elsewhere.
    """
    job = read_job(file)
    workload = check_job(job)
    lines = JsonLines(sys.stdout) if as_json else None
    if lines is not None and _writes_to_console(job):
        raise JobError(job.file, "[sink] format", "answers on the console would mix with --json; write them elsewhere")
    queries = len(workload.queries) + len(workload.row_queries)
    console.print(ensure_java().message, style="dim", highlight=False, soft_wrap=True)
    with _metrics_sinks(job, console) as sinks, nullcontext() if verbose else told_once():
        try:
            spark = start_session(job, verbose=verbose)
            try:
                _tell_where_to_look(job, spark, console)
                console.print(
                    f"{job.name}: {queries} quer{'y' if queries == 1 else 'ies'} as a {job.mode}", highlight=False
                )
                if warning := other_connector(job.spark.get(PACKAGES, ""), spark.version):
                    console.print(warning, style="yellow", highlight=False, soft_wrap=True)
                malformed: dict[str, Observation] = {}
                events = read_events(spark, job, workload, malformed)
                options = _options(spark, job)
                answers: DataFrame | Tables
                if job.wide_by is None and all(query.into for query in workload.row_queries.values()):
                    answers = panewise_spark.answers(events, workload, **options)
                else:
                    by = job.wide_by or LONG
                    answers = panewise_spark.tables(events, workload, by=by, most_rows=job.most_rows, **options)
                aside = _set_aside(spark, job, workload)
                if job.is_stream:
                    _run_stream(job, answers, aside, console, lines, sinks)
                else:
                    _run_batch(job, answers, aside, console, lines, malformed)
            finally:
                # Where Java is gone there is nothing to stop, and what went wrong is told already.
                with suppress(Py4JError, ConnectionError):
                    spark.stop()
        except FAILURES as error:
            raise job_failed(job, error) from error


def _tell_where_to_look(job: JobFile, spark: SparkSession, console: Console) -> None:
    if job.log_file is not None:
        console.print(f"Spark's log: {job.log_file}", style="dim", highlight=False, soft_wrap=True)
    if url := spark.sparkContext.uiWebUrl:
        console.print(f"Spark's UI: {url}", style="dim", highlight=False, soft_wrap=True)


def _set_aside(spark: SparkSession, job: JobFile, workload: Workload) -> tuple[DataFrame, SinkOutput] | None:
    """The events that are set aside, and where they go; None if they are only counted."""
    output = SinkOutput.of_set_aside(job)
    if output is None:
        return None
    events = read_for_set_aside(spark, job, workload)
    return panewise_spark.set_aside(events, workload, malformed=MALFORMED_TEXT), output


def _options(spark: SparkSession, job: JobFile) -> dict[str, Any]:
    """The settings of the job file for `answers`, besides the events and the workload."""
    given = {
        "buckets": job.stream.buckets,
        "changed_only": job.stream.changed_only,
        "control": None if job.control is None else read_control(spark, job, job.control),
        "folder": job.lookups,
        "quotas": job.quotas,
        "rate": job.planning.rate,
        "groups": job.planning.groups,
        "method": job.planning.method,
        "tolerance": job.planning.tolerance,
    }
    return {name: value for name, value in given.items() if value is not None}


@contextmanager
def _metrics_sinks(job: JobFile, console: Console) -> Iterator[tuple[MetricsSink, ...]]:
    """Opens the sinks of metrics that a job asks for."""
    settings = job.metrics
    files = [] if settings.file is None else [MetricsFile(settings.file)]
    if settings.port is None:
        yield (*files,)
        return
    with PrometheusEndpoint(settings.port, settings.address, job.lookups) as endpoint:
        console.print(f"metrics at {endpoint.url}", highlight=False, soft_wrap=True)
        yield (*files, endpoint)


def _writes_to_console(job: JobFile) -> bool:
    return any(sink.format == "console" for sink in job.every_sink)


def _run_stream(
    job: JobFile,
    answers: DataFrame | Tables,
    aside: tuple[DataFrame, SinkOutput] | None,
    console: Console,
    lines: JsonLines | None,
    sinks: tuple[MetricsSink, ...],
) -> None:
    began = time.perf_counter()

    def tell_silence(message: str) -> None:
        if lines is not None:
            lines.write("warning", {"warning": message})
        else:
            console.print(message, style="yellow", highlight=False, soft_wrap=True)

    with stop_requests() as stop:
        if isinstance(answers, Tables):
            query = start_tables(job, answers)
        else:
            query = start_stream(answers, SinkOutput.of_answers(job))
        beside = None if aside is None else start_stream(*aside)
        display = lines or _display(job, console)
        try:
            totals = follow(
                query,
                display,
                stop,
                beside=beside,
                sinks=sinks,
                stop_within_s=job.stream.stop_within_s,
                on_silence=tell_silence,
            )
        except FAILURES as error:
            if not (stop.is_set() and java_is_gone(error)):
                raise
            # Whoever stops all processes of a job at once ends Java as well, and asked for just that.
            _tell_cut_off(job, console, lines, time.perf_counter() - began)
            return
    if not totals.rows_in:
        tell_silence("no event came: is it the right path or topic, and does anybody write there?")
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


def _tell_cut_off(job: JobFile, console: Console, lines: JsonLines | None, took_s: float) -> None:
    if lines is not None:
        lines.write("stopped", {"seconds": round(took_s, 3), "cut_off": True})
        return
    console.print(
        f"stopped in the middle of a batch, as Spark's Java process was stopped too, after {took_s:.1f} s\n"
        f"Run it again to go on from {job.stream.checkpoint}",
        highlight=False,
        soft_wrap=True,
    )


def _display(job: JobFile, console: Console) -> Display:
    # The console sink writes to the terminal itself, which would break a table that is redrawn in place.
    watched = console.is_terminal and not _writes_to_console(job)
    return LiveTable(console) if watched else Lines(console)


def _run_batch(
    job: JobFile,
    answers: DataFrame | Tables,
    aside: tuple[DataFrame, SinkOutput] | None,
    console: Console,
    lines: JsonLines | None,
    malformed: Mapping[str, Observation],
) -> None:
    began = time.perf_counter()
    tables = {}
    if isinstance(answers, Tables):
        with answers:
            tables = {name: write_batch(table, SinkOutput.of_table(job, name)) for name, table in answers.items()}
        rows = sum(tables.values())
    else:
        rows = write_batch(answers, SinkOutput.of_answers(job))
    set_aside = None if aside is None else write_batch(*aside)
    took_s = time.perf_counter() - began
    undecoded = sum(int(count.get[MALFORMED_EVENTS]) for count in malformed.values())
    if lines is not None:
        written: dict[str, Any] = {"tables": tables} if tables else {"answers": rows}
        if set_aside is not None:
            written["set_aside"] = set_aside
        lines.write("done", {"seconds": round(took_s, 3), MALFORMED_EVENTS: undecoded, **written})
        return
    what = f"rows in {counted(len(tables), 'table')}" if tables else "answers"
    console.print(f"done: {rows:,} {what} in {took_s:.1f} s", highlight=False)
    if undecoded:
        console.print(f"{undecoded:,} messages could not be decoded", style="dim", highlight=False)
    if set_aside is not None:
        console.print(f"{set_aside:,} events were set aside", style="dim", highlight=False)
