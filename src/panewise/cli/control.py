"""A job's control: a stream of statements that change its queries while it runs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from panewise.cli.job import KAFKA, EventSource, JobError, JobFile
from panewise.cli.kafka import source_options


def read_control(spark: SparkSession, job: JobFile, control: EventSource) -> DataFrame:
    """Statements as text, what they are sorted by within a batch, and who sent them.

    A file is one text, as a statement may take several lines; files are sorted by name, messages by offset.
    The key of a message names its author.
    """
    options = dict(control.options)
    position: Column = F.lit("")
    author: Column = F.lit("")
    if control.format == "text":
        options = {"wholetext": "true", **options}
        position = F.col("_metadata.file_path")
    elif control.format == KAFKA:
        options = source_options(control)
        position = F.format_string("%010d %020d", "partition", "offset")
        author = F.col("key").cast("string")
    reader = spark.readStream.format(control.format).options(**options)
    loaded = reader.load(control.path) if control.path is not None else reader.load()
    if "value" not in loaded.columns:
        columns = ", ".join(loaded.columns)
        raise JobError(job.file, "[control]", f"has no column value with statements; its columns are {columns}")
    statement = F.col("value").cast("string")
    return loaded.select(statement.alias("statement"), position.alias("position"), author.alias("author"))
