"""A Spark Connect client in its own process: answers the trades as a batch or as a stream, into a file of that name.

    python -m tests.connect.client SERVER EVENTS OUT batch|stream

It needs its own process, because PySpark is either classic or Connect for as long as a process lives.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.feather as feather
from pyspark.sql import SparkSession
from tests.cluster import trades

from panewise import spark as panewise_spark


def answer_batch(spark: SparkSession, events: str, out: Path) -> None:
    """Every window, from a DataFrame that ends."""
    frame = spark.read.schema(trades.COLUMNS).parquet(events)
    feather.write_feather(panewise_spark.answers(frame, trades.WORKLOAD).toArrow(), out / "batch")


def answer_stream(spark: SparkSession, events: str, out: Path) -> None:
    """The windows that the watermark closes, through a sink and a checkpoint on the server's side."""
    stream = spark.readStream.schema(trades.COLUMNS).option("maxFilesPerTrigger", trades.FILES_PER_BATCH)
    answers = panewise_spark.answers(stream.parquet(events), trades.WORKLOAD)
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
    """Do one of them, in a session of the server."""
    server, events, out, kind = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    spark = SparkSession.builder.remote(server).config(map=panewise_spark.SETTINGS).getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect"), "this must be a Connect session"
    {"batch": answer_batch, "stream": answer_stream}[kind](spark, events, out)
    spark.stop()


if __name__ == "__main__":
    main()
