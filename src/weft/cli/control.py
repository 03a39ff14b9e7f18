"""A job's control: a stream of statements that change its queries while it runs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.cli.job import KAFKA, Job, JobError, Source
from weft.cli.kafka import source_options


def read_control(spark: SparkSession, job: Job, control: Source) -> DataFrame:
    """Statements as text, and what they are sorted by within a batch.

    A file is one text, as a statement may take several lines; files go by their names, messages by their offsets.
    """
    options = dict(control.options)
    position: Column = F.lit("")
    if control.format == "text":
        options = {"wholetext": "true", **options}
        position = F.col("_metadata.file_path")
    elif control.format == KAFKA:
        options = source_options(control)
        position = F.format_string("%010d %020d", "partition", "offset")
    reader = spark.readStream.format(control.format).options(**options)
    loaded = reader.load(control.path) if control.path is not None else reader.load()
    if "value" not in loaded.columns:
        columns = ", ".join(loaded.columns)
        raise JobError(job.file, "[control]", f"has no column value with statements; its columns are {columns}")
    return loaded.select(F.col("value").cast("string").alias("statement"), position.alias("position"))
