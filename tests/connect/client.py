"""A Spark Connect client of its own process: answers the trades as a batch and as a stream, into two files.

    python -m tests.connect.client SERVER EVENTS OUT

A process of its own, because PySpark is either classic or Connect for as long as a process lives.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.feather as feather
from pyspark.sql import SparkSession
from tests.cluster import trades

from weft import spark as weft_spark


def answer_batch(spark: SparkSession, events: str, out: Path) -> None:
    """Every window, from a DataFrame that ends."""
    frame = spark.read.schema(trades.COLUMNS).parquet(events)
    feather.write_feather(weft_spark.answers(frame, trades.WORKLOAD).toArrow(), out / "batch")


def answer_stream(spark: SparkSession, events: str, out: Path) -> None:
    """The windows that the watermark closes, through a sink and a checkpoint on the server's side."""
    stream = spark.readStream.schema(trades.COLUMNS).option("maxFilesPerTrigger", trades.FILES_PER_BATCH)
    answers = weft_spark.answers(stream.parquet(events), trades.WORKLOAD)
    query = (
        answers.writeStream.format("parquet")
        .option("path", str(out / "sink"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    feather.write_feather(spark.read.schema(answers.schema).parquet(str(out / "sink")).toArrow(), out / "stream")


def main() -> None:
    """Do both, in one session of the server."""
    server, events, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = SparkSession.builder.remote(server).config(map=weft_spark.SETTINGS).getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect"), "this is to be a Connect session"
    answer_batch(spark, events, out)
    answer_stream(spark, events, out)
    spark.stop()


if __name__ == "__main__":
    main()
