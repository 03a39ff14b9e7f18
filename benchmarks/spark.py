"""Weft on Spark against plain Spark: the same queries, the same stream, the same answers, in one run.

For 1, 10, 100 and 1000 queries over generated events, the time that Weft takes in streaming mode; for 1 and 10, the
time that plain Spark takes for the same queries, each as a streaming aggregation of its own (Spark allows one window an
operator). Everything is warm: each way first runs twice over a quarter as many events. The answers of both ways are
summed up by the same native expressions (rows, a hash of identities and exact values, the sum of values) and must
agree.

Prints a JSON line per measurement with --json, a table otherwise. Run: weft bench spark --json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import weft
from weft import spark as weft_spark
from weft.language.expressions import AggregateCall
from weft.language.model import Query, Workload
from weft.language.printer import label_of, print_expression
from weft.windows import TimeWindow

STREAM = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, market STRING, price DOUBLE, volume BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
"""
SPAN_HOURS = 4
START_US = 1_767_225_600_000_000
MARKETS = 8
MINUTE = "minute"

WINDOWS = [(10, 5), (60, 2), (60, 5), (30, 5), (120, 5), (25, 5), (60, 4), (50, 5), (100, 5), (30, 1)]
"""Range and slide in minutes: overlaps from 2 to 30, 15 on average."""
AGGREGATES = [
    "COUNT(*), SUM(volume)",
    "AVG(price), MAX(price)",
    "MIN(price)",
    "SUM(volume)",
    "COUNT(*), AVG(price)",
    "STDDEV_POP(price)",
]
GROUPS = ["symbol", "symbol", "market", "symbol", "symbol", "", "symbol", "market, symbol"]
PREDICATES = ["", "", "volume > 50", "", "market = 'm3'", "", "price >= 100.0"]


def make_queries(count: int) -> Workload:
    """The first `count` of an endless list of mixed queries; windows of later ones are longer by odd minutes."""
    statements = [STREAM]
    for number in range(count):
        length, slide = WINDOWS[number % len(WINDOWS)]
        turn = number // len(WINDOWS)
        length += turn % 12
        slide += 5 * (turn % 4)
        group = GROUPS[number % len(GROUPS)]
        where = PREDICATES[number % len(PREDICATES)]
        aggregates = AGGREGATES[number % len(AGGREGATES)]
        # Every third query is an alert: only groups above a threshold are reported.
        having = f"HAVING COUNT(*) > {10 * length}" if number % 3 == 2 and "symbol" in group else ""
        statements.append(
            f"CREATE QUERY q{number} AS SELECT {aggregates} FROM trades [RANGE {length} MINUTES SLIDE {slide} MINUTES] "
            f"{'WHERE ' + where if where else ''} {'GROUP BY ' + group if group else ''} {having};"
        )
    return weft.read("\n".join(statements))


FILES_PER_BATCH = 2
"""So that two cores read a micro-batch in equal shares."""


def write_events(folder: Path, events: int, keys: int, batches: int, seed: int) -> None:
    """Events in order of time, a few parquet files a micro-batch."""
    batches *= FILES_PER_BATCH
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    size = events // batches
    symbols = pa.array([f"s{key:06}" for key in range(keys)])
    markets = pa.array([f"m{market}" for market in range(MARKETS)])
    step_us = SPAN_HOURS * 3_600_000_000 / events
    for batch in range(batches):
        first = batch * size
        times = START_US + ((first + np.arange(size)) * step_us).astype(np.int64)
        key = random.integers(0, keys, size)
        table = pa.table(
            {
                "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "symbol": symbols.take(pa.array(key)),
                "market": markets.take(pa.array(key % MARKETS)),
                "price": np.round(random.lognormal(4.5, 0.4, size), 2),
                "volume": random.integers(1, 100, size),
            }
        )
        path = folder / f"events-{batch:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + batch,) * 2)


def start_session(cores: int) -> SparkSession:
    weft_spark.ensure_java()
    weft_spark.choose_worker_python()
    settings = weft_spark.SETTINGS | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": "6g",
    }
    session = SparkSession.builder.master(f"local[{cores}]").appName("weft bench").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(folder))


IDENTITY = ["query", "window_start", "window_end", "symbol", "market", "aggregate"]


def with_checksum(answers: DataFrame) -> DataFrame:
    """Observe what identifies a set of answers whatever their order: rows, hashed identities and integers, values."""
    columns = [F.col(name) if name in answers.columns else F.lit(None).cast("string") for name in IDENTITY]
    return answers.observe(
        "checksum",
        F.count(F.lit(1)).alias("rows"),
        F.bit_xor(F.xxhash64(*columns, F.col("exact"))).alias("hash"),
        F.sum("value").alias("total"),
    )


@dataclass
class Checksum:
    rows: int = 0
    hash: int = 0
    total: float = 0.0

    def add(self, row: Any) -> None:
        self.rows += row.rows
        self.hash ^= row.hash or 0
        self.total += row.total or 0.0

    def agrees(self, other: Checksum) -> bool:
        return (self.rows, self.hash) == (other.rows, other.hash) and bool(
            np.isclose(self.total, other.total, rtol=1e-9)
        )


@dataclass
class Run:
    seconds: float
    busy_seconds: float
    checksum: Checksum


def run(frames: list[DataFrame], mode: str) -> Run:
    """Run streaming DataFrames one after the other, each to its end, and sum up."""
    checksum, busy_ns = Checksum(), 0
    began = time.perf_counter()
    for frame in frames:
        with tempfile.TemporaryDirectory() as checkpoint:
            query = (
                with_checksum(frame)
                .writeStream.format("noop")
                .outputMode(mode)
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            for progress in query.recentProgress:
                checksum.add(progress.observedMetrics["checksum"])
                if "weft" in progress.observedMetrics:
                    busy_ns += progress.observedMetrics["weft"].busy_ns
    return Run(time.perf_counter() - began, busy_ns / 1e9, checksum)


def plain_answers(events: DataFrame, query: Query) -> DataFrame:
    """One query as plain Spark users write it, its answers in Weft's long form so that both can be compared."""
    assert isinstance(query.window, TimeWindow)
    window = F.window("at", f"{query.window.range_us} microseconds", f"{query.window.slide_us} microseconds")
    frame = events.withWatermark("at", "1 minute")
    if query.where is not None:
        frame = frame.where(print_expression(query.where))
    calls = query.aggregates
    named = {call: f"a{place}" for place, call in enumerate(calls)}
    grouped = frame.groupBy(window, *query.group_by).agg(
        *(F.expr(print_expression(call)).alias(name) for call, name in named.items())
    )
    if query.having is not None:
        grouped = grouped.where(_renamed(query, named))
    selected = [item for item in query.select if isinstance(item.expression, AggregateCall)]
    values = F.array(*(_answer(label_of(item), named[item.expression], item.expression) for item in selected))
    return grouped.select(
        F.lit(query.name).alias("query"),
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *query.group_by,
        F.explode(values).alias("answer"),
    ).select("*", "answer.aggregate", "answer.value", "answer.exact")


def _renamed(query: Query, named: dict[AggregateCall, str]) -> Column:
    text = print_expression(query.having)
    for call, name in named.items():
        text = text.replace(print_expression(call), name)
    return F.expr(text)


def _answer(label: str, column: str, call: AggregateCall) -> Column:
    exact = F.col(column) if call.function in ("COUNT_ALL", "SUM") else F.lit(None)
    return F.struct(
        F.lit(label).alias("aggregate"),
        F.col(column).cast("double").alias("value"),
        exact.cast("bigint").alias("exact"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="weft bench spark", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=4, help="micro-batches")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--plain", type=int, nargs="*", default=[1, 10], help="numbers of queries for plain Spark")
    parser.add_argument("--repeat", type=int, default=3, help="runs of Weft of which the median is taken")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    spark = start_session(options.cores)
    with tempfile.TemporaryDirectory() as scratch:
        measure(spark, Path(scratch), options)
    spark.stop()


def measure(spark: SparkSession, scratch: Path, options: argparse.Namespace) -> None:
    folder, warm_up = scratch / "events", scratch / "warm-up"
    write_events(folder, options.events, options.keys, options.batches, options.seed)
    write_events(warm_up, max(options.events // 4, 1), options.keys, 2, options.seed)
    weft_seconds: dict[int, float] = {}
    checksums: dict[int, Checksum] = {}
    for count in options.queries:
        workload = make_queries(count)
        for _ in range(2):
            run([weft_spark.answers(read_stream(spark, warm_up), workload)], "append")
        runs = [
            run([weft_spark.answers(read_stream(spark, folder), workload)], "append") for _ in range(options.repeat)
        ]
        middle = sorted(runs, key=lambda one: one.seconds)[len(runs) // 2]
        weft_seconds[count], checksums[count] = middle.seconds, middle.checksum
        emit(options, "weft", count, statistics.median(one.seconds for one in runs), middle)
    for count in options.plain:
        queries = list(make_queries(count).queries.values())
        for _ in range(2):
            run([plain_answers(read_stream(spark, warm_up), queries[0])], "append")
        plain = run([plain_answers(read_stream(spark, folder), query) for query in queries], "append")
        equal = count not in checksums or plain.checksum.agrees(checksums[count])
        ratio = plain.seconds / weft_seconds[count] if count in weft_seconds else None
        emit(options, "plain spark", count, plain.seconds, plain, equal_answers=equal, times_slower=ratio)
        if not equal:
            sys.exit(f"the answers of {count} queries differ: {plain.checksum} and {checksums[count]}")


def emit(options: argparse.Namespace, way: str, queries: int, seconds: float, one: Run, **more: Any) -> None:
    line = {
        "bench": "spark",
        "way": way,
        "queries": queries,
        "events": options.events,
        "keys": options.keys,
        "batches": options.batches,
        "seconds": round(seconds, 3),
        "events_per_s": round(options.events / seconds),
        "answers": one.checksum.rows,
        "share_in_weft": round(one.busy_seconds / (seconds * options.cores), 3) if way == "weft" else None,
        "checksum": asdict(one.checksum),
        **{name: round(value, 2) if isinstance(value, float) else value for name, value in more.items()},
    }
    if options.json:
        print(json.dumps(line), flush=True)
    else:
        shown = reduce(lambda text, part: f"{text}  {part[0]} {part[1]}", list(line.items())[1:-1], "")
        print(shown.strip(), flush=True)


if __name__ == "__main__":
    main()
