"""The demo from its first line to its last: replay, answers, plain Spark, and whether the two agree."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from panewise import spark as panewise_spark
from panewise.cli.demo.compare import Compared, first_difference
from panewise.cli.demo.compile import Compilation
from panewise.cli.demo.flights import load_flights, write_replay
from panewise.cli.demo.plain import PlainSpark, plain_selects
from panewise.cli.demo.quiet import quiet_children
from panewise.cli.demo.screen import Nothing, ReplayBar, comparison, heading, note, summary, worst_hours
from panewise.cli.failure import root_cause
from panewise.cli.follow import follow, stop_requests
from panewise.cli.job import EventSource, JobFile, Sink, StreamSettings
from panewise.cli.progress import Display, Lines, Totals
from panewise.cli.session import start_session
from panewise.cli.sinks import SinkOutput, start_stream
from panewise.cli.sources import read_events
from panewise.cli.workload import read_workload
from panewise.engine.answers import wide
from panewise.errors import CommandError
from panewise.language.workload import Workload
from panewise.spark.java import ensure_java

QUERIES = Path(__file__).with_name("queries.sql")
WARM_UP = 5_000
"""Flights of the warm-up."""
BATCHES = 3
"""Enough batches to watch; each costs Spark a second or two of its own."""
FILES_PER_BATCH = 2
"""A file is read by one task, so a batch of one file would keep only one core busy."""


def run_demo(console: Console | None = None, *, flights: int | None = None, batches: int = BATCHES) -> None:
    """Run the demo, over only the first flights if their number is given. Raises if some answer differs."""
    console = console or Console()
    workload = read_workload(QUERIES)
    events, cancelled = load_flights()
    events = events.slice(0, flights)
    heading(console, workload, events, cancelled, QUERIES)
    note(console, ensure_java().message)
    with tempfile.TemporaryDirectory(prefix="panewise-demo-") as folder:
        job = _job(Path(folder))
        write_replay(events, _flights(job), batches * FILES_PER_BATCH)
        try:
            _run(job, workload, events, console)
        except (PySparkException, Py4JError) as error:
            raise CommandError(f"the demo failed in Spark: {root_cause(error)}") from error


def _job(folder: Path) -> JobFile:
    """A replay as a job, as `panewise run` would read it from a file."""
    return JobFile(
        file=folder / "demo.toml",
        queries=QUERIES,
        name="panewise demo",
        mode="stream",
        sources={
            "": EventSource("parquet", str(folder / "flights"), options={"maxFilesPerTrigger": str(FILES_PER_BATCH)})
        },
        sink=Sink("parquet", str(folder / "answers")),
        stream=StreamSettings(checkpoint=str(folder / "checkpoint")),
    )


def _flights(job: JobFile) -> Path:
    return job.file.with_name("flights")


def _run(job: JobFile, workload: Workload, events: pa.Table, console: Console) -> None:
    spark = _start(job, workload, events, console)
    try:
        display = ReplayBar(console, events.num_rows) if console.is_terminal else Lines(console)
        began = time.perf_counter()
        totals = _replay(_answers(spark, job, workload), job, display)
        panewise_s = time.perf_counter() - began
        answers = pq.read_table(SinkOutput.of_answers(job).sink.path)
        worst_hours(console, answers, workload)
        summary(console, workload, totals, panewise_s)
        compared = _compare_all(spark, job, workload, events, answers, console)
    finally:
        spark.stop()
    comparison(console, workload, compared, panewise_s)
    for query in compared:
        if query.difference is not None:
            raise CommandError(f"query {query.name}: Panewise and plain Spark differ: {query.difference}")


def _start(job: JobFile, workload: Workload, events: pa.Table, console: Console) -> SparkSession:
    """A warm session: Python workers run, Java has compiled what it runs most, and numba Panewise's kernels."""
    began = time.perf_counter()
    compilation = Compilation(workload, events)
    compilation.start()
    with console.status("Starting Spark"), quiet_children(job.file.with_name("spark.log")):
        spark = start_session(job, verbose=False)
    started_s = time.perf_counter() - began
    few = events.slice(0, WARM_UP)
    with console.status("Warming up"), tempfile.TemporaryDirectory(prefix="panewise-warm-up-") as folder:
        warm_up = _job(Path(folder))
        write_replay(few, _flights(warm_up), FILES_PER_BATCH)
        answers = _answers(spark, warm_up, workload)
        # After this point, workers would compile whatever is not yet compiled themselves.
        compilation.join()
        _replay(answers, warm_up, Nothing())
    note(
        console,
        f"Spark started in {started_s:.1f} s; Panewise's kernels, compiled or loaded, in {compilation.seconds:.1f} s.",
    )
    note(console, f"Ready after {time.perf_counter() - began:.1f} s, with a warm-up on {few.num_rows:,} flights.")
    return spark


def _answers(spark: SparkSession, job: JobFile, workload: Workload) -> DataFrame:
    return panewise_spark.answers(read_events(spark, job, workload), workload)


def _replay(answers: DataFrame, job: JobFile, display: Display) -> Totals:
    """Run a stream from its first batch to its last."""
    with stop_requests() as stop:
        totals = follow(start_stream(answers, SinkOutput.of_answers(job)), display, stop)
        if stop.is_set():
            raise typer.Abort
    return totals


def _compare_all(
    spark: SparkSession, job: JobFile, workload: Workload, events: pa.Table, answers: pa.Table, console: Console
) -> list[Compared]:
    """Plain Spark's answers to some of the queries, compared with Panewise's."""
    stream = workload.streams["flights"]
    newest_us = pc.max(events.column(stream.timestamp)).cast(pa.int64()).as_py()
    with console.status("Plain Spark") as status:
        plain = PlainSpark(spark, _flights(job))
        compared = []
        for name in plain_selects():
            status.update(f"Plain Spark: {name}")
            compared.append(_compare(plain, name, workload, answers, newest_us - stream.watermark_us))
    return compared


def _compare(plain: PlainSpark, name: str, workload: Workload, answers: pa.Table, closed_us: int) -> Compared:
    """One query by plain Spark, and how its answers differ from Panewise's in the windows that the stream closed."""
    asked = plain.answer(name)
    ends_us = asked.answers.column(1).cast(pa.int64())
    closed = asked.answers.filter(pc.less_equal(ends_us, closed_us))
    keys = 2 + len(workload.queries[name].group_by)
    difference = first_difference(wide(answers, workload, name), closed, keys)
    return Compared(name, asked.seconds, asked.answers.num_rows, difference)
