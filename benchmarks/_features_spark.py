"""The features of `features.py` on Spark: `panewise.spark.tables` beside what one writes by hand.

By hand: for each range, a transaction is copied to the windows that it lies in and that end in time, and groupBy
aggregates; the ranges are joined to the longest, which has every row of the others. Spark's own `window()` makes all
copies first, also those of windows that end too late, so the ends are made by `sequence`. Both ways read one Parquet
file and write Parquet files with a row per window end and card and a column per feature. Each runs in a process of its
own: the session is started, the way runs over a tenth of the time to be warm, and then it is timed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panewise
from features import RANGES_US, SLIDE_US, checksum, differing, show, statements, transactions, until_us
from panewise import spark as panewise_spark

WARM_UP = 0.1
"""The part of the time that a way runs over to be warm."""


def start_session() -> SparkSession:
    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    settings = panewise_spark.SETTINGS | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def by_panewise(events: DataFrame, target: Path, features: list[str], days: float) -> None:
    with panewise_spark.tables(events, panewise.read(statements(features)), until=until_us(days)) as tables:
        (table,) = tables.values()
        table.write.parquet(str(target))


def by_hand(events: DataFrame, target: Path, features: list[str], days: float) -> None:
    made = {
        "count": F.count("*"),
        "sum": F.sum("amount"),
        "avg": F.avg("amount"),
        "max": F.max("amount"),
        "distinct": F.countDistinct("merchant"),
    }
    at_us = F.unix_micros("at")
    slide_us = F.lit(SLIDE_US)
    found = []
    for name, range_us in RANGES_US.items():
        first = (F.floor(at_us / slide_us) + 1) * slide_us
        last = F.least(F.floor((at_us + range_us) / slide_us) * slide_us, F.lit(until_us(days)))
        ends = F.explode(F.sequence(first, last, slide_us)).alias("end_us")
        in_time = events.where(first <= last).select(ends, "card", "merchant", "amount")
        groups = in_time.groupBy("end_us", "card")
        found.append(groups.agg(*(made[feature].alias(f"{feature}_{name}") for feature in features)))
    joined = found[-1]
    for other in reversed(found[:-1]):
        joined = joined.join(other, ["end_us", "card"], "left")
    joined.withColumn("window_end", F.timestamp_micros("end_us")).drop("end_us").write.parquet(str(target))


WAYS: dict[str, Callable[[DataFrame, Path, list[str], float], None]] = {
    "panewise on spark": by_panewise,
    "spark by hand": by_hand,
}


def run_one(way: str, source: Path, target: Path, features: list[str], days: float) -> float:
    """The seconds that a way takes when it is warm."""
    session = start_session()
    try:
        events = session.read.parquet(str(source))
        few = events.where(F.col("at") < F.timestamp_micros(F.lit(until_us(days * WARM_UP))))
        WAYS[way](few, target.with_name("warm-up"), features, days * WARM_UP)
        started = time.perf_counter()
        WAYS[way](events, target, features, days)
        return time.perf_counter() - started
    finally:
        session.stop()


def checksum_of_files(folder: Path) -> tuple[dict[str, tuple[float, float]], int]:
    """The checksum of all Parquet files of a folder, and their rows."""
    totals: dict[str, tuple[float, float]] = {}
    rows = 0
    for file in sorted(folder.glob("*.parquet")):
        rows += pq.ParquetFile(file).metadata.num_rows
        for name, (value, scale) in checksum(file).items():
            before = totals.get(name, (0.0, 0.0))
            totals[name] = before[0] + value, before[1] + scale
    return totals, rows


def measure_on_spark(options: argparse.Namespace, folder: Path) -> list[str]:
    """Run both ways, print what they took and how they compare, and return what does not agree."""
    days = min(options.days, options.spark_days)
    source = folder / "transactions-spark.parquet"
    pq.write_table(transactions(options.transactions, options.cards, days), source)
    wrong: list[str] = []
    seconds: dict[str, float] = {}
    reference = None
    for way in WAYS:
        line: dict[str, Any] = {"bench": "features", "way": way, "days": days, "transactions": options.transactions}
        target = folder / way.replace(" ", "-") / "table"
        command = [sys.executable, __file__, "--run", way, "--source", str(source), "--target", str(target)]
        command += ["--days", str(days), "--features", *options.features]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=options.limit, check=True)
        except subprocess.TimeoutExpired:
            show({**line, "seconds": None, "over_limit_s": options.limit}, options.json)
            continue
        found, rows = checksum_of_files(target)
        seconds[way] = json.loads(done.stdout.splitlines()[-1])
        features = len(RANGES_US) * len(options.features)
        show({**line, "rows": rows, "features": features, "seconds": round(seconds[way], 2)}, options.json)
        reference = reference or found
        wrong += [f"{way}: {name} differs" for name in differing(reference, found)]
    if len(seconds) == len(WAYS):
        by_us, by_others = seconds.values()
        line = {"bench": "features", "way": "by hand / panewise, on spark", "ratio": round(by_others / by_us, 2)}
        show(line, options.json)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--run", choices=WAYS, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--days", type=float, required=True)
    parser.add_argument("--features", nargs="+", required=True)
    options = parser.parse_args()
    print(json.dumps(run_one(options.run, options.source, options.target, options.features, options.days)))


if __name__ == "__main__":
    main()
