"""A job's answers written to its sink."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from weft.cli.job import AVAILABLE_NOW, Job


def start_stream(answers: DataFrame, job: Job) -> StreamingQuery:
    """Start writing a streaming DataFrame of answers; they are appended as windows close."""
    sink = job.sink
    writer = (
        _encoded(answers, job)
        .writeStream.format(sink.format)
        .outputMode("append")
        .queryName(job.name)
        .options(**sink.options)
    )
    if job.stream.checkpoint is not None:
        writer = writer.option("checkpointLocation", job.stream.checkpoint)
    if job.stream.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.stream.trigger)
    return writer.start(sink.path) if sink.path is not None else writer.start()


def write_batch(answers: DataFrame, job: Job) -> int:
    """Write a whole DataFrame of answers, and count them."""
    if job.sink.format == "console":
        # The console stops after its first rows, so only a count of its own sees them all.
        kept = answers.persist()
        rows = kept.count()
        _save(kept, job, mode="append")
        return rows
    observation = Observation("weft run")
    observed = answers.observe(observation, F.count(F.lit(1)).alias("rows"))
    _save(_encoded(observed, job), job, mode=job.sink.mode)
    return int(observation.get["rows"])


def _save(answers: DataFrame, job: Job, mode: str) -> None:
    writer = answers.write.format(job.sink.format).mode(mode).options(**job.sink.options)
    if job.sink.path is not None:
        writer.save(job.sink.path)
    else:
        writer.save()


def _encoded(answers: DataFrame, job: Job) -> DataFrame:
    """The answers as the sink takes them: as they are, or each as one JSON text in a column `value`."""
    if job.sink.encode != "json":
        return answers
    return answers.select(F.to_json(F.struct("*")).alias("value"))
