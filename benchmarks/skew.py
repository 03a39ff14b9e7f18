"""A hot key on Spark: the same stream with uniform keys, and with half of its events in one key.

The combine step turns events into one partial per slot and key before anything is shuffled, so a hot key sends no more
rows to its bucket than a cold one. An aggregate that must keep values (a quantile) is the exception: its partials grow
with the distinct values of a slot and key, so its hot key's bucket gets more. Both are measured, as `sums` and
`quantiles`.

A line per case: the median time of a micro-batch, what all batches put into the shuffle (a row is one bucket's packed
partials), partials fed to trees (`fed`, including those that a worker fed again to rebuild its cache), and the longest
task of the combine stages and of the stages that hold the state; then the ratio of hot to uniform. The hot stream has
fewer partials in all, so a ratio below 1 is no surprise. Tasks are read from Spark's event log. Each case first runs
once over the same events, to warm up.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench skew --json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import panewise
from panewise import spark as panewise_spark

STREAM = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
"""
WORKLOADS = {
    "sums": "SUM(volume), COUNT(*), MIN(price), MAX(price)",
    "quantiles": "QUANTILE(price, 0.9)",
}
WINDOWS = ["[RANGE 10 MINUTES SLIDE 1 MINUTE]", "[RANGE 1 HOUR SLIDE 5 MINUTES]"]
KEYS = ["uniform", "hot"]
SPAN_US = 4 * 3_600_000_000
START_US = 1_767_225_600_000_000
COLUMNS = "at timestamp, symbol string, price double, volume bigint"


def workload_of(name: str) -> panewise.Workload:
    """The queries of a case: its aggregates over a short and a long window, by key."""
    queries = (
        f"CREATE QUERY q{number} AS SELECT {WORKLOADS[name]} FROM trades {window} GROUP BY symbol;"
        for number, window in enumerate(WINDOWS)
    )
    return panewise.read(STREAM + "\n".join(queries))


def write_events(folder: Path, keys: str, options: argparse.Namespace) -> None:
    """Events in order of time, as many files a micro-batch as there are cores."""
    folder.mkdir()
    random = np.random.default_rng(options.seed)
    files = options.batches * options.cores
    size = options.events // files
    symbols = pa.array([f"s{key:06}" for key in range(options.keys)])
    for file in range(files):
        key = random.integers(0, options.keys, size)
        if keys == "hot":
            key[random.random(size) < 0.5] = 0
        times = START_US + (file * size + np.arange(size)) * (SPAN_US // options.events)
        table = pa.table(
            {
                "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "symbol": symbols.take(pa.array(key)),
                "price": np.round(random.lognormal(4.5, 0.4, size), 2),
                "volume": random.integers(1, 100, size),
            }
        )
        path = folder / f"events-{file:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + file,) * 2)


@dataclass(frozen=True)
class Run:
    """One run of a case: which query of Spark's it was, and what its progress said."""

    workload: str
    keys: str
    query_id: str
    seconds_per_batch: float
    fed: int
    answers: int


def run(spark: SparkSession, folder: Path, workload: str, keys: str, options: argparse.Namespace) -> Run:
    """Answer the events of a folder to their end."""
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", options.cores).parquet(str(folder))
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            panewise_spark.answers(source, workload_of(workload))
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    counts = [progress.observedMetrics["panewise"] for progress in query.recentProgress]
    return Run(
        workload,
        keys,
        str(query.id),
        statistics.median(progress.durationMs["triggerExecution"] for progress in batches) / 1000,
        sum(count.fed for count in counts),
        sum(count.answers for count in counts),
    )


@dataclass
class Tasks:
    """What the event log says about one query's tasks."""

    shuffled_rows: int = 0
    shuffled_bytes: int = 0
    longest_combine_s: float = 0.0
    longest_state_s: float = 0.0

    def add(self, event: dict[str, Any]) -> None:
        """Count one task that ended; those that write a shuffle combine, the others hold state."""
        info = event["Task Info"]
        seconds = (info["Finish Time"] - info["Launch Time"]) / 1000
        written = event["Task Metrics"]["Shuffle Write Metrics"]
        if written["Shuffle Records Written"]:
            self.shuffled_rows += written["Shuffle Records Written"]
            self.shuffled_bytes += written["Shuffle Bytes Written"]
            self.longest_combine_s = max(self.longest_combine_s, seconds)
        else:
            self.longest_state_s = max(self.longest_state_s, seconds)


def read_tasks(log: Path) -> dict[str, Tasks]:
    """The tasks of each streaming query in an event log, by the query's id."""
    query_of_stage: dict[int, str] = {}
    tasks: dict[str, Tasks] = defaultdict(Tasks)
    with log.open() as lines:
        for event in map(json.loads, lines):
            if event["Event"] == "SparkListenerJobStart":
                query = event["Properties"].get("sql.streaming.queryId")
                query_of_stage |= dict.fromkeys(event["Stage IDs"], query) if query else {}
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in query_of_stage:
                tasks[query_of_stage[event["Stage ID"]]].add(event)
    return tasks


def start_session(cores: int, log: Path) -> SparkSession:
    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    settings = panewise_spark.SETTINGS | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": "4g",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    session = (
        SparkSession.builder.master(f"local[{cores}]").appName("panewise bench").config(map=settings).getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench skew", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=4, help="micro-batches")
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "log").mkdir()
        runs = measure(start_session(options.cores, folder / "log"), folder, options)
        (log,) = (folder / "log").iterdir()
        tasks = read_tasks(log)
    for workload in options.workloads:
        lines = {run.keys: figures(run, tasks[run.query_id]) for run in runs if run.workload == workload}
        for keys in KEYS:
            emit(options, workload, keys, lines[keys])
        ratios = {name: round(lines["hot"][name] / value, 2) for name, value in lines["uniform"].items() if value}
        emit(options, workload, "hot / uniform", ratios)


def measure(spark: SparkSession, folder: Path, options: argparse.Namespace) -> list[Run]:
    """Run every case once to warm up and once to measure; the session ends, so that its log is complete."""
    for keys in KEYS:
        write_events(folder / keys, keys, options)
    runs = []
    for workload in options.workloads:
        for keys in KEYS:
            for _ in range(2):
                last = run(spark, folder / keys, workload, keys, options)
            runs.append(last)
    spark.stop()
    return runs


def figures(run: Run, tasks: Tasks) -> dict[str, float]:
    """The numbers to show for a case."""
    return {
        "seconds_per_batch": round(run.seconds_per_batch, 3),
        "shuffled_rows": tasks.shuffled_rows,
        "shuffled_bytes": tasks.shuffled_bytes,
        "fed": run.fed,
        "longest_combine_s": round(tasks.longest_combine_s, 3),
        "longest_state_s": round(tasks.longest_state_s, 3),
        "answers": run.answers,
    }


def emit(options: argparse.Namespace, workload: str, keys: str, shown: dict[str, float]) -> None:
    size = {"events": options.events, "batches": options.batches}
    line = {"bench": "skew", "workload": workload, "keys": keys, **size, **shown}
    if options.json:
        print(json.dumps(line), flush=True)
    else:
        print("  ".join(f"{name} {value}" for name, value in list(line.items())[1:]), flush=True)


if __name__ == "__main__":
    main()
