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

from weft import spark as weft_spark
from weft.cli.demo.compare import Compared, first_difference
from weft.cli.demo.compile import Compilation
from weft.cli.demo.flights import load_flights, write_replay
from weft.cli.demo.plain import PlainSpark, plain_selects
from weft.cli.demo.quiet import quiet_children
from weft.cli.demo.screen import Nothing, ReplayBar, comparison, heading, note, summary, worst_hours
from weft.cli.failure import root_cause
from weft.cli.follow import follow, stop_requests
from weft.cli.job import Job, Sink, Source, StreamSettings
from weft.cli.progress import Display, Lines, Totals
from weft.cli.session import start_session
from weft.cli.sinks import start_stream
from weft.cli.sources import read_events
from weft.cli.workload import read_workload
from weft.engine.answers import wide
from weft.errors import WeftError
from weft.language.model import Workload
from weft.spark.java import ensure_java

QUERIES = Path(__file__).with_name("queries.sql")
WARM_UP = 5_000
"""Flights of the warm-up."""
BATCHES = 3
"""Enough to watch, and each costs Spark a second or two of its own."""
FILES_PER_BATCH = 2
"""A file is read by one task, so a batch of one file would keep only one core busy."""


def run_demo(console: Console | None = None, *, flights: int | None = None, batches: int = BATCHES) -> None:
    """Run the demo, over the first flights only when their number is given. Raises when some answer differs."""
    console = console or Console()
    workload = read_workload(QUERIES)
    events, cancelled = load_flights()
    events = events.slice(0, flights)
    heading(console, workload, events, cancelled, QUERIES)
    note(console, ensure_java().message)
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        job = _job(Path(folder))
        write_replay(events, _flights(job), batches * FILES_PER_BATCH)
        try:
            _run(job, workload, events, console)
        except (PySparkException, Py4JError) as error:
            raise WeftError(f"the demo failed in Spark: {root_cause(error)}") from error


def _job(folder: Path) -> Job:
    """A replay as a job, as `weft run` would read it from a file."""
    return Job(
        file=folder / "demo.toml",
        queries=QUERIES,
        name="weft demo",
        mode="stream",
        sources={"": Source("parquet", str(folder / "flights"), options={"maxFilesPerTrigger": str(FILES_PER_BATCH)})},
        sink=Sink("parquet", str(folder / "answers")),
        stream=StreamSettings(checkpoint=str(folder / "checkpoint")),
    )


def _flights(job: Job) -> Path:
    return job.file.with_name("flights")


def _run(job: Job, workload: Workload, events: pa.Table, console: Console) -> None:
    spark = _start(job, workload, events, console)
    try:
        display = ReplayBar(console, events.num_rows) if console.is_terminal else Lines(console)
        began = time.perf_counter()
        totals = _replay(_answers(spark, job, workload), job, display)
        weft_s = time.perf_counter() - began
        answers = pq.read_table(job.sink.path)
        worst_hours(console, answers, workload)
        summary(console, workload, totals, weft_s)
        compared = _compare_all(spark, job, workload, events, answers, console)
    finally:
        spark.stop()
    comparison(console, workload, compared, weft_s)
    for query in compared:
        if query.difference is not None:
            raise WeftError(f"query {query.name}: Weft and plain Spark differ: {query.difference}")


def _start(job: Job, workload: Workload, events: pa.Table, console: Console) -> SparkSession:
    """A warm session: Python workers run, Java has compiled what it runs most, and numba Weft's kernels."""
    began = time.perf_counter()
    compilation = Compilation(workload, events)
    compilation.start()
    with console.status("Starting Spark"), quiet_children(job.file.with_name("spark.log")):
        spark = start_session(job, verbose=False)
    started_s = time.perf_counter() - began
    few = events.slice(0, WARM_UP)
    with console.status("Warming up"), tempfile.TemporaryDirectory(prefix="weft-warm-up-") as folder:
        warm_up = _job(Path(folder))
        write_replay(few, _flights(warm_up), FILES_PER_BATCH)
        answers = _answers(spark, warm_up, workload)
        # From here on workers would compile for themselves what is not yet compiled.
        compilation.join()
        _replay(answers, warm_up, Nothing())
    note(
        console,
        f"Spark started in {started_s:.1f} s; Weft's kernels, compiled or loaded, in {compilation.seconds:.1f} s.",
    )
    note(console, f"Ready after {time.perf_counter() - began:.1f} s, with a warm-up on {few.num_rows:,} flights.")
    return spark


def _answers(spark: SparkSession, job: Job, workload: Workload) -> DataFrame:
    return weft_spark.answers(read_events(spark, job, workload), workload)


def _replay(answers: DataFrame, job: Job, display: Display) -> Totals:
    """Run a stream from its first batch to its last."""
    with stop_requests() as stop:
        totals = follow(start_stream(answers, job), display, stop)
        if stop.is_set():
            raise typer.Abort
    return totals


def _compare_all(
    spark: SparkSession, job: Job, workload: Workload, events: pa.Table, answers: pa.Table, console: Console
) -> list[Compared]:
    """Plain Spark's answers to some of the queries beside Weft's."""
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
    """One query by plain Spark, and what it answers otherwise than Weft in the windows that the stream closed."""
    asked = plain.answer(name)
    ends_us = asked.answers.column(1).cast(pa.int64())
    closed = asked.answers.filter(pc.less_equal(ends_us, closed_us))
    keys = 2 + len(workload.queries[name].group_by)
    difference = first_difference(wide(answers, workload, name), closed, keys)
    return Compared(name, asked.seconds, asked.answers.num_rows, difference)
