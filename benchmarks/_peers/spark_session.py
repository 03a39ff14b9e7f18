"""What the programs on Spark share: one session, and how streams are read and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from _peers.program import Job
from panewise import spark as panewise_spark

FILES_PER_BATCH = 2


@cache
def session(cores: int, settings: tuple[tuple[str, str], ...]) -> SparkSession:
    """The session of this process."""
    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    given = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": "6g",
        **{name: value for name, value in settings if name.startswith("spark.")},
    }
    spark = (
        SparkSession.builder.master(f"local[{cores}]").appName("panewise bench peers").config(map=given).getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def session_of(job: Job) -> SparkSession:
    """The session of a job."""
    return session(job.cores, tuple(job.settings.items()))


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the files of a folder in their order, a few in each micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(folder))


def write_stream(job: Job, frame: DataFrame, target: Path) -> None:
    """Run a streaming DataFrame to the end of its source, into parquet files."""
    query = (
        frame.writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(target))
        .option("checkpointLocation", str(job.scratch / f"checkpoint-{uuid4()}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def together(cores: int, tasks: Iterable[Callable[[], None]]) -> None:
    """Run tasks, as many at a time as there are cores, so that one plans while another computes."""
    with ThreadPoolExecutor(cores) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
