"""A job's answers written to its sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from panewise.cli.delta import delta_is_missing, no_delta
from panewise.cli.job import AVAILABLE_NOW, KAFKA, Job, JobError
from panewise.cli.kafka import check_sink, connector_is_missing, no_connector
from panewise.cli.messages import encoded
from panewise.cli.nearest import did_you_mean

UNOBSERVED = ("console", KAFKA)
"""Sinks whose batches need a count of their own: the console stops after its first rows, and Spark's observations do
not see the query that writes to Kafka, so they would never come."""


def start_stream(answers: DataFrame, job: Job) -> StreamingQuery:
    """Start writing a streaming DataFrame of answers; they are appended as windows close."""
    with _written(answers, job) as written:
        return _start(written, job)


def _start(answers: DataFrame, job: Job) -> StreamingQuery:
    sink = job.sink
    writer = answers.writeStream.format(sink.format).outputMode("append").queryName(job.name).options(**sink.options)
    if job.stream.checkpoint is not None:
        writer = writer.option("checkpointLocation", job.stream.checkpoint)
    if job.stream.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.stream.trigger)
    return writer.start(sink.path) if sink.path is not None else writer.start()


def write_batch(answers: DataFrame, job: Job) -> int:
    """Write a whole DataFrame of answers, and count them."""
    if job.sink.format in UNOBSERVED:
        kept = answers.persist()
        rows = kept.count()
        with _written(kept, job) as written:
            _save(written, job, mode="append" if job.sink.format == "console" else job.sink.mode)
        return rows
    observation = Observation("panewise run")
    observed = answers.observe(observation, F.count(F.lit(1)).alias("rows"))
    with _written(observed, job) as written:
        _save(written, job, mode=job.sink.mode)
    return int(observation.get["rows"])


def _save(answers: DataFrame, job: Job, mode: str) -> None:
    writer = answers.write.format(job.sink.format).mode(mode).options(**job.sink.options)
    if job.sink.path is not None:
        writer.save(job.sink.path)
    else:
        writer.save()


def _encoded(answers: DataFrame, job: Job) -> DataFrame:
    """The answers as the sink takes them: as they are, or each as a message."""
    sink = job.sink
    if sink.encode is None:
        return answers
    named = [("headers", name) for name in sink.headers]
    if sink.key is not None and not isinstance(sink.key, str):
        named += [("key", name) for name in sink.key]
    for place, name in named:
        if name not in answers.columns:
            hint = did_you_mean(name, answers.columns)
            raise JobError(job.file, f"[sink] {place}", f"the answers have no column {name}{hint}")
    return encoded(answers, sink)


@contextmanager
def _written(answers: DataFrame, job: Job) -> Iterator[DataFrame]:
    """The answers to write; an error of the sink names what it lacks and the cure."""
    if job.sink.format == KAFKA:
        check_sink(job)
    try:
        yield _encoded(answers, job)
    except (PySparkException, Py4JError) as error:
        if isinstance(error, PySparkException) and connector_is_missing(error):
            raise no_connector(job, "[sink]", answers.sparkSession) from error
        if delta_is_missing(error, job.sink.format):
            raise no_delta(job, "[sink]", answers.sparkSession) from error
        raise
