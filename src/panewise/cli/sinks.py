"""A job's answers written to its sink, and events that are set aside to theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from panewise.cli.delta import check_columns, delta_is_missing, no_delta
from panewise.cli.job import AVAILABLE_NOW, DELTA, FILE_FORMATS, KAFKA, JobError, JobFile, Sink
from panewise.cli.kafka import check_sink, connector_is_missing, no_connector
from panewise.cli.messages import encoded
from panewise.cli.nearest import did_you_mean
from panewise.cli.preflight import sink_of_table
from panewise.spark import DeltaSink, FileSink, TableBatch, Tables

UNOBSERVED = ("console", KAFKA)
"""Sinks whose batches need a count of their own: the console stops after its first rows, and Spark's observations do
not see the query that writes to Kafka, so they would never come."""


@dataclass(frozen=True)
class SinkOutput:
    """One of a job's sinks: its table in the job file, and the name and the checkpoint of the stream that writes it."""

    job: JobFile
    sink: Sink
    place: str
    name: str
    checkpoint: str | None

    @staticmethod
    def of_answers(job: JobFile) -> SinkOutput:
        """The sink of the long table."""
        assert job.sink is not None, "only wide tables may have sinks of their own alone"
        return SinkOutput(job, job.sink, "[sink]", job.name, job.stream.checkpoint)

    @staticmethod
    def of_table(job: JobFile, table: str) -> SinkOutput:
        """The sink of a wide table."""
        place = f"[sink.{table}]" if table in job.sinks else "[sink]"
        return SinkOutput(job, sink_of_table(job, table), place, job.name, job.stream.checkpoint)

    @staticmethod
    def of_set_aside(job: JobFile) -> SinkOutput | None:
        """The sink of events that are set aside, if the job has one."""
        aside = job.set_aside
        return (
            None if aside is None else SinkOutput(job, aside.sink, "[set_aside]", f"{job.name} aside", aside.checkpoint)
        )


def start_stream(rows: DataFrame, output: SinkOutput) -> StreamingQuery:
    """Start writing a streaming DataFrame; its rows are appended as they come."""
    sink = output.sink
    _check(output, rows)
    with _written(rows, output) as written:
        writer = written.writeStream.format(sink.format).outputMode("append").options(**sink.options)
        return _started(writer, output.job, output.name, output.checkpoint, sink.path)


def start_tables(job: JobFile, tables: Tables) -> StreamingQuery:
    """Start writing the wide tables of a stream, each to its sink, by one query."""
    outputs = {name: SinkOutput.of_table(job, name) for name in tables}
    for name, output in outputs.items():
        # Before the first batch, which may be long.
        _check(output, tables[name])
        _encoded(tables[name], output)
    writer = tables.write_stream({name: partial(_write_table, output) for name, output in outputs.items()})
    return _started(writer, job, job.name, job.stream.checkpoint)


def _write_table(output: SinkOutput, batch: TableBatch) -> None:
    """Write what a batch brings to a table: once to files and Delta Lake, at least once elsewhere."""
    sink = output.sink
    with _written(batch.rows, output) as written:
        batch = replace(batch, rows=written)
        if sink.format in FILE_FORMATS and sink.path is not None:
            FileSink(sink.path, sink.format, sink.options)(batch)
        elif sink.format == DELTA and sink.path is not None:
            DeltaSink(sink.path, sink.options)(batch)
        else:
            _save(written, sink, mode="append")


def _started(
    writer: DataStreamWriter, job: JobFile, name: str, checkpoint: str | None, path: str | None = None
) -> StreamingQuery:
    writer = writer.queryName(name)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    trigger = job.stream.trigger
    writer = writer.trigger(availableNow=True) if trigger == AVAILABLE_NOW else writer.trigger(processingTime=trigger)
    return writer.start(path) if path is not None else writer.start()


def write_batch(rows: DataFrame, output: SinkOutput) -> int:
    """Write a whole DataFrame, and count its rows."""
    sink = output.sink
    _check(output, rows)
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


def _check(output: SinkOutput, rows: DataFrame) -> None:
    """Raise if the sink lacks something, or cannot take the rows, as far as that can be seen before rows come."""
    if output.sink.format == KAFKA:
        check_sink(output.job, output.place, output.sink)
    if output.sink.format == DELTA:
        check_columns(output.job, output.place, output.sink, rows)


def _encoded(rows: DataFrame, output: SinkOutput) -> DataFrame:
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
            what = "rows of events that are set aside have" if output.place == "[set_aside]" else "answers have"
            raise JobError(output.job.file, f"{output.place} {place}", f"the {what} no column {name}{hint}")
    return encoded(rows, sink)


@contextmanager
def _written(rows: DataFrame, output: SinkOutput) -> Iterator[DataFrame]:
    """The rows to write; an error of the sink names what it lacks and the cure."""
    job, sink, place = output.job, output.sink, output.place
    try:
        yield _encoded(rows, output)
    except (PySparkException, Py4JError) as error:
        if isinstance(error, PySparkException) and connector_is_missing(error):
            raise no_connector(job, place, rows.sparkSession) from error
        if delta_is_missing(error, sink.format):
            raise no_delta(job, place, rows.sparkSession) from error
        raise
