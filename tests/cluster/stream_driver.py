"""A driver in its own process: answers streams on a cluster, one after the other, as its input says.

    python stream_driver.py MASTER SETTINGS

Each line of input is an `Order` as JSON, and gets a line of output. An order may ask for trouble. It comes between
Panewise and the sink, in the tasks that hold Panewise's state: there a task that fails or dies has done its work, and
may have committed its state or not.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import panewise
from panewise import spark as panewise_spark

PATIENCE_S = 600
"""How long a stream may take, and how long a held task waits to be killed."""


@dataclass(frozen=True)
class Order:
    """Answer the events of a folder; the results go to another folder."""

    statements: str
    columns: str
    events: str
    files_per_batch: int
    out: str
    fail_in_batches: tuple[int, ...] = ()
    hold_in_batch: int | None = None


Partitions = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def watched(order: Order) -> Partitions:
    """The function that passes answers on, writes down which task ran where, and makes the requested trouble."""
    out = Path(order.out)

    def note(file: str, **facts: object) -> None:
        with (out / file).open("a") as lines:
            lines.write(json.dumps(facts) + "\n")

    def hold(worker: str) -> None:
        try:
            (out / "held").mkdir()
        except FileExistsError:
            return
        note("held/unfinished", worker=worker)
        (out / "held" / "unfinished").rename(out / "held" / "task")
        time.sleep(PATIENCE_S)
        raise TimeoutError("nobody killed this task")

    def pass_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        batch, partition = int(context.getLocalProperty("streaming.sql.batchId") or -1), context.partitionId()
        # The scratch folder shows which worker it is: .../worker-0/local/...
        worker = next(part for part in Path(os.environ["SPARK_LOCAL_DIRS"]).parts if part.startswith("worker-"))
        note("tasks", batch=batch, partition=partition, attempt=context.attemptNumber(), worker=worker, pid=os.getpid())
        fails = batch in order.fail_in_batches and context.attemptNumber() == 0
        for answers in batches:
            yield answers
            # Half of the tasks fail in the middle of the state's work, the others when all of it is done.
            if fails and partition % 2:
                break
        if batch == order.hold_in_batch:
            hold(worker)
        if fails:
            raise RuntimeError("this task fails at its first attempt")

    return pass_on


def run(spark: SparkSession, order: Order) -> int:
    """Answer the stream to its end and write the answers to one file; returns the number of batches."""
    out = Path(order.out)
    out.mkdir(parents=True)
    events: DataFrame = (
        spark.readStream.schema(order.columns).option("maxFilesPerTrigger", order.files_per_batch).parquet(order.events)
    )
    answers = panewise_spark.answers(events, panewise.read(order.statements))
    query = (
        answers.mapInArrow(watched(order), answers.schema)
        .writeStream.format("parquet")
        .option("path", str(out / "sink"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(PATIENCE_S):
        raise TimeoutError(f"the stream is not at its end after {PATIENCE_S} seconds: {query.status}")
    # Through Spark, which tells the files of committed tasks from those of failed tasks.
    feather.write_feather(spark.read.schema(answers.schema).parquet(str(out / "sink")).toArrow(), out / "answers")
    return len(query.recentProgress)


def main() -> None:
    """Start the session and follow orders until there are none."""
    master, settings = sys.argv[1], json.loads(sys.argv[2])
    spark = SparkSession.builder.master(master).config(map=panewise_spark.SETTINGS | settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps({"batches": run(spark, Order(**json.loads(line)))}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
