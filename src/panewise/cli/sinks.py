"""A job's answers written to its sink, and events that are set aside to theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from panewise.cli.delta import delta_is_missing, no_delta
from panewise.cli.job import AVAILABLE_NOW, KAFKA, Job, JobError, Sink
from panewise.cli.kafka import check_sink, connector_is_missing, no_connector
from panewise.cli.messages import encoded
from panewise.cli.nearest import did_you_mean

UNOBSERVED = ("console", KAFKA)
"""Sinks whose batches need a count of their own: the console stops after its first rows, and Spark's observations do
not see the query that writes to Kafka, so they would never come."""


@dataclass(frozen=True)
class Output:
    """One of a job's sinks: its table in the job file, and the name and the checkpoint of the stream that writes it."""

    job: Job
    sink: Sink
    place: str
    name: str
    checkpoint: str | None

    @staticmethod
    def of_answers(job: Job) -> Output:
        """The sink of the answers."""
        return Output(job, job.sink, "[sink]", job.name, job.stream.checkpoint)

    @staticmethod
    def of_set_aside(job: Job) -> Output | None:
        """The sink of events that are set aside, if the job has one."""
        aside = job.set_aside
        return None if aside is None else Output(job, aside.sink, "[set_aside]", f"{job.name} aside", aside.checkpoint)


def start_stream(rows: DataFrame, output: Output) -> StreamingQuery:
    """Start writing a streaming DataFrame; its rows are appended as they come."""
    with _written(rows, output) as written:
        return _start(written, output)


def _start(rows: DataFrame, output: Output) -> StreamingQuery:
    job, sink = output.job, output.sink
    writer = rows.writeStream.format(sink.format).outputMode("append").queryName(output.name).options(**sink.options)
    if output.checkpoint is not None:
        writer = writer.option("checkpointLocation", output.checkpoint)
    if job.stream.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.stream.trigger)
    return writer.start(sink.path) if sink.path is not None else writer.start()


def write_batch(rows: DataFrame, output: Output) -> int:
    """Write a whole DataFrame, and count its rows."""
    sink = output.sink
    if sink.format in UNOBSERVED:
        kept = rows.persist()
        count = kept.count()
        with _written(kept, output) as written:
            _save(written, sink, mode="append" if sink.format == "console" else sink.mode)
        return count
    observation = Observation(f"panewise run {output.place}")
    observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
    with _written(observed, output) as written:
        _save(written, sink, mode=sink.mode)
    return int(observation.get["rows"])


def _save(rows: DataFrame, sink: Sink, mode: str) -> None:
    writer = rows.write.format(sink.format).mode(mode).options(**sink.options)
    if sink.path is not None:
        writer.save(sink.path)
    else:
        writer.save()


def _encoded(rows: DataFrame, output: Output) -> DataFrame:
    """The rows as the sink takes them: as they are, or each as a message."""
    sink = output.sink
    if sink.encode is None:
        return rows
    named = [("headers", name) for name in sink.headers]
    if sink.key is not None and not isinstance(sink.key, str):
        named += [("key", name) for name in sink.key]
    for place, name in named:
        if name not in rows.columns:
            hint = did_you_mean(name, rows.columns)
            what = "answers have" if output.place == "[sink]" else "rows of events that are set aside have"
            raise JobError(output.job.file, f"{output.place} {place}", f"the {what} no column {name}{hint}")
    return encoded(rows, sink)


@contextmanager
def _written(rows: DataFrame, output: Output) -> Iterator[DataFrame]:
    """The rows to write; an error of the sink names what it lacks and the cure."""
    job, sink, place = output.job, output.sink, output.place
    if sink.format == KAFKA:
        check_sink(job, place, sink)
    try:
        yield _encoded(rows, output)
    except (PySparkException, Py4JError) as error:
        if isinstance(error, PySparkException) and connector_is_missing(error):
            raise no_connector(job, place, rows.sparkSession) from error
        if delta_is_missing(error, sink.format):
            raise no_delta(job, place, rows.sparkSession) from error
        raise
