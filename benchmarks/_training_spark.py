"""The ways of `panewise bench training --spark`: Panewise on Spark beside hand-written Spark.

Hand-written are frames over the union of events and labels (`RANGE BETWEEN`), and a join of each label with the events
of its longest window, filtered for each window and grouped by label. What is timed ends with the sums of all columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import panewise
from panewise import spark as panewise_spark
from training import KEYS, payments_workload, ranges_us

FUNCTIONS: dict[str, Callable[[Column], Column]] = {
    "count": lambda amount: F.when(F.count(amount) > 0, F.count(amount)),
    "sum": F.sum,
    "avg": F.avg,
    "max": F.max,
}


def session() -> SparkSession:
    """A session with all cores of this machine."""
    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", "spark.driver.memory": "6g"}
    spark = SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def panewise_frame(labels: DataFrame, payments: DataFrame, windows: int) -> DataFrame:
    """All columns by Panewise."""
    timed = [frame.withColumn("ts", F.timestamp_micros("ts")) for frame in (labels, payments)]
    found = panewise_spark.training_set(*timed, panewise.read(payments_workload(windows)))
    return found.select(*(F.col(f"`{name}`").alias(name.replace("__", "_")) for name in found.columns if "__" in name))


def union_frame(labels: DataFrame, payments: DataFrame, windows: int) -> DataFrame:
    """All columns by frames over the union."""
    union = payments.unionByName(labels.withColumn("amount", F.lit(None).cast("double")), allowMissingColumns=True)
    for key in KEYS:
        for place, length in enumerate(ranges_us(windows)):
            frame = Window.partitionBy(key).orderBy("ts").rangeBetween(-length, -1)
            amount = F.col("amount")
            count = F.count(amount).over(frame)
            columns = {name: make(amount).over(frame) for name, make in FUNCTIONS.items() if name != "count"}
            columns["count"] = F.when(count > 0, count)
            union = union.withColumns({f"{key}_{place}_{name}": column for name, column in columns.items()})
    return union.where(F.col("id").isNotNull())


def join_frame(labels: DataFrame, payments: DataFrame, windows: int) -> DataFrame:
    """All columns by a join for each key."""
    ranges = list(enumerate(ranges_us(windows)))
    result = labels.select("id")
    for key in KEYS:
        asked = labels.select("id", F.col("ts").alias("t"), F.col(key).alias("k"))
        is_seen = (F.col("k") == F.col(key)) & (F.col("ts") < F.col("t")) & (F.col("ts") >= F.col("t") - ranges[-1][1])
        amounts = {place: F.when(F.col("ts") >= F.col("t") - length, F.col("amount")) for place, length in ranges}
        columns = [
            make(amount).alias(f"{key}_{place}_{name}")
            for place, amount in amounts.items()
            for name, make in FUNCTIONS.items()
        ]
        result = result.join(asked.join(payments, is_seen).groupBy("id").agg(*columns), "id", "left")
    return result


FRAMES = {"spark": panewise_frame, "spark_frames": union_frame, "spark_join": join_frame}


def spark_way(name: str) -> Callable[[Path, int, bool], tuple[float, dict[str, float]]]:
    """A way by its name."""

    def run(folder: Path, windows: int, holistic: bool) -> tuple[float, dict[str, float]]:
        assert not holistic
        spark = session()
        payments = spark.read.parquet(str(folder / "payments.parquet"))
        labels = spark.read.parquet(str(folder / "labels.parquet"))
        # Java and Python are warm before anything is timed: labels with answers, and as many workers as later.
        few = payments.limit(2_000)
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        _sums(FRAMES[name](few.select((F.col("ts") + 1).alias("ts"), *KEYS, F.lit(0).alias("id")), few, 1))
        spark.conf.set("spark.sql.adaptive.enabled", "true")
        start = time.perf_counter()
        sums = _sums(FRAMES[name](labels, payments, windows))
        seconds = time.perf_counter() - start
        # The session ends with the process: until then, the peak of Java's memory can be read.
        return seconds, sums

    return run


def _sums(frame: DataFrame) -> dict[str, float]:
    names = [name for name in frame.columns if name.startswith(KEYS) and "_" in name]
    row: Any = frame.agg(*(F.sum(name).cast("double").alias(name) for name in names)).collect()[0]
    return {name: row[name] or 0.0 for name in names}
