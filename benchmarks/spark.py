"""Panewise on Spark against plain Spark: the same queries, the same stream, the same answers, in one run.

Ways, over generated events, for each number of keys:

- `panewise`: all queries in streaming mode, with state and checkpoints; with --batch also as a batch job.
- `plain spark`: the same queries, each as a streaming aggregation of its own (Spark allows one window an operator).
- `null`: the same source through an identity `mapInArrow`; the cost of Spark, of the files and of the way to Python.

Everything ends in a noop sink and is warm: each way first runs twice over fewer events. The same native expressions
sum up the answers of all ways (rows, a hash of identities and exact values, the sum of values), and the sums must
agree. --scale sets the sizes, `usual` takes some minutes and `issue` hours; any size can be given beside it. Workloads:
`mixed` reports every group in most queries; in `alerts` queries by symbol report unusual groups only, so that
thousands of queries over many keys have few enough answers to count.

`planning_s` is the time to plan the queries, once, and is not part of `seconds`. `stages_s` is time in Panewise's own
code by stage, summed over tasks; `stages_share` is its share of all cores' time. `log_bytes` is the durable state after
the last batch that touched all buckets: at the end, when everything that could close has closed, and `while_running`,
after the last batch with events. `live_slot_keys` are the different (slot, key) pairs of each base that some window may
still need at that batch's watermark, `live_partials` those pairs times the combinations of predicates that their events
satisfy. Plain Spark counts both in the events, from the plan's bases; they do not come from Panewise. Partials leave
the log by whole batches, so at the end it also holds older ones: the larger the batches, the more.

Lines `target` say what the project wants, and whether this run met it. Prints a JSON line per measurement with --json.
Run: panewise bench spark --json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from _spark_state import last_whole, state_of
from _workload import FILES_PER_BATCH, make_alert_queries, make_trade_queries, write_trades
from panewise import spark as panewise_spark
from panewise.language.expressions import AggregateCall
from panewise.language.model import Query
from panewise.language.printer import label_of, print_expression
from panewise.language.workload import Workload
from panewise.spark.batch_metrics import STAGES, BatchMetrics, is_batch
from panewise.windows import TimeWindow

SCALES: dict[str, dict[str, Any]] = {
    "quick": {"events": 200_000, "keys": [100], "batches": 2, "queries": [1, 10], "workload": "mixed", "repeat": 1},
    "usual": {
        "events": 4_000_000, "keys": [1000], "batches": 4, "queries": [1, 10, 100, 1000], "workload": "mixed",
        "repeat": 3,
    },
    "issue": {
        "events": 20_000_000, "keys": [1000, 100_000], "batches": 20, "queries": [1, 10, 100, 1000, 10_000],
        "workload": "alerts", "repeat": 3,
    },
}  # fmt: skip
WARM_UP_EVENTS = 1_000_000
"""A way is warmed up with at most this many events, and with at most a quarter of those measured."""


def start_session(cores: int) -> SparkSession:
    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    settings = panewise_spark.SETTINGS | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.driver.memory": "6g",
    }
    session = (
        SparkSession.builder.master(f"local[{cores}]").appName("panewise bench").config(map=settings).getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


@dataclass(frozen=True)
class Events:
    """Generated events in files."""

    folder: Path
    count: int
    keys: int
    files_per_batch: int

    @staticmethod
    def of(data: Path, count: int, keys: int, batches: int, seed: int, files_per_batch: int) -> Events:
        """The events in a folder of `data`; they are written unless an earlier run wrote them."""
        folder = data / f"trades-{count}-{keys}-{batches}x{files_per_batch}-{seed}"
        if not folder.exists():
            data.mkdir(parents=True, exist_ok=True)
            # An interrupted run leaves nothing under the final name.
            with tempfile.TemporaryDirectory(dir=data) as begun:
                write_trades(Path(begun) / "trades", count, keys, batches, seed, files_per_batch)
                (Path(begun) / "trades").rename(folder)
        written = sum(pq.read_metadata(file).num_rows for file in folder.iterdir())
        return Events(folder, written, keys, files_per_batch)

    def stream(self, spark: SparkSession) -> DataFrame:
        """All of them, a micro-batch after the other."""
        schema = self.table(spark).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", self.files_per_batch)
        return reader.parquet(str(self.folder))

    def table(self, spark: SparkSession) -> DataFrame:
        """All of them at once."""
        return spark.read.parquet(str(self.folder))


IDENTITY = ["query", "window_start", "window_end", "symbol", "market", "aggregate"]


def with_checksum(answers: DataFrame, observation: str | Observation = "checksum") -> DataFrame:
    """Observe what identifies a set of answers in any order: rows, hashed identities and integers, values."""
    columns = [F.col(name) if name in answers.columns else F.lit(None).cast("string") for name in IDENTITY]
    return answers.observe(
        observation,
        F.count(F.lit(1)).alias("rows"),
        F.bit_xor(F.xxhash64(*columns, F.col("exact"))).alias("hash"),
        F.sum("value").alias("total"),
    )


@dataclass
class Checksum:
    rows: int = 0
    hash: int = 0
    total: float = 0.0

    def add(self, observed: dict[str, Any]) -> None:
        self.rows += observed["rows"]
        self.hash ^= observed["hash"] or 0
        self.total += observed["total"] or 0.0

    def agrees(self, other: Checksum) -> bool:
        return (self.rows, self.hash) == (other.rows, other.hash) and bool(
            np.isclose(self.total, other.total, rtol=1e-9)
        )


@dataclass(frozen=True)
class Run:
    """How long one way took once it was planned, its answers, and the batches that Spark reported."""

    seconds: float
    checksum: Checksum = field(default_factory=Checksum)
    batches: tuple[BatchMetrics, ...] = ()
    planning_s: float | None = None


def run_to_end(frame: DataFrame) -> list[Any]:
    """Run a streaming DataFrame to the end of its source; the progress of each batch."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.format("noop")
            .outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress for progress in query.recentProgress if is_batch(progress)]


def run_streams(frames: list[DataFrame]) -> Run:
    """Run streaming DataFrames of answers one after the other, and sum up."""
    checksum, batches = Checksum(), []
    began = time.perf_counter()
    for frame in frames:
        for progress in run_to_end(with_checksum(frame)):
            checksum.add(progress["observedMetrics"]["checksum"].asDict())
            batches.append(BatchMetrics.of(progress))
    return Run(time.perf_counter() - began, checksum, tuple(batches))


def run_batch(answers: DataFrame, closed_us: int) -> Run:
    """Run a batch job of answers, and sum up only the windows that a stream has closed."""
    closed = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=closed_us)
    observation = Observation()
    began = time.perf_counter()
    ended = answers.where(F.col("window_end") <= F.lit(closed))
    with_checksum(ended, observation).write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    checksum = Checksum()
    checksum.add(observation.get)
    return Run(seconds, checksum)


def run_null(events: DataFrame) -> Run:
    """The same source through Python and back, unchanged."""

    def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    began = time.perf_counter()
    run_to_end(events.mapInArrow(identity, events.schema))
    return Run(time.perf_counter() - began)


def plain_answers(events: DataFrame, query: Query) -> DataFrame:
    """One query as plain Spark users write it, its answers in Panewise's long form so that both can be compared."""
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


def work_of(run: Run, cores: int) -> dict[str, Any]:
    """Where the time of a run went, and how workers found their buckets."""
    stages = {stage: sum(batch.stages_ns[stage] for batch in run.batches) / 1e9 for stage in STAGES}
    steps: dict[str, float] = {}
    for batch in run.batches:
        for step, took_ms in batch.steps_ms.items():
            steps[step] = steps.get(step, 0.0) + took_ms / 1000
    shares = {stage: took / (run.seconds * cores) for stage, took in stages.items()}
    found = {name: sum(batch.counts[name] for batch in run.batches) for name in ("cache_hits", "catch_ups", "rebuilds")}
    return {
        "stages_s": stages,
        "stages_share": shares,
        "share_in_panewise": sum(shares.values()),
        "steps_s": dict(sorted(steps.items())),
        **found,
    }


@dataclass
class Figures:
    """The measurements for the targets of one number of keys: seconds by the number of queries, and bytes of state."""

    panewise_s: dict[int, float] = field(default_factory=dict)
    plain_s: dict[int, float] = field(default_factory=dict)
    null_s: float | None = None
    bytes_per_live: dict[int, float] = field(default_factory=dict)


def targets(figures: Figures) -> Iterator[dict[str, Any]]:
    """The project's targets, as far as they were measured."""
    panewise, plain = figures.panewise_s, figures.plain_s
    if 100 in panewise and plain:
        measured = max(plain)
        times = plain[measured] / measured * 100 / panewise[100]
        how = f"plain Spark one by one: measured on {measured} queries, scaled per query to 100"
        yield _at_least("100 queries: times faster than plain Spark", times, 100, how=how)
    if 1 in panewise and 1000 in panewise:
        yield _at_least("throughput of 1,000 queries against 1", panewise[1] / panewise[1000], 0.5)
    if 1 in panewise and figures.null_s is not None:
        yield _at_least("throughput of 1 query against the null pipeline", figures.null_s / panewise[1], 0.5)
    if figures.bytes_per_live:
        worst = max(figures.bytes_per_live, key=lambda queries: figures.bytes_per_live[queries])
        value = figures.bytes_per_live[worst]
        name = "bytes of state per live (slot, key), at most"
        yield {"name": name, "value": value, "wanted": 64, "met": value <= 64, "queries": worst}


def _at_least(name: str, value: float, wanted: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "wanted": wanted, "met": value >= wanted, **more}


class Bench:
    """All measurements of a run."""

    def __init__(self, spark: SparkSession, data: Path, options: argparse.Namespace) -> None:
        self._spark = spark
        self._data = data
        self._options = options

    def measure(self, keys: int) -> None:
        """Every way over the events of `keys` keys, and the targets."""
        options = self._options
        files = max(FILES_PER_BATCH, options.cores)
        events = Events.of(self._data, options.events, keys, options.batches, options.seed, files)
        fewer = min(WARM_UP_EVENTS, max(options.events // 4, 1))
        warm_up = Events.of(self._data, fewer, keys, 2, options.seed, files)
        figures = Figures()
        if options.null:
            null = self._median(lambda one: run_null(one.stream(self._spark)), events, warm_up)
            figures.null_s = null.seconds
            self._emit("null", events, null)
        checksums = {count: self._panewise(count, events, warm_up, figures) for count in options.queries}
        for count in options.plain:
            self._plain(count, events, warm_up, figures, checksums.get(count))
        for target in targets(figures):
            sizes = {"workload": options.workload, "keys": keys, "events": events.count}
            self._print({"bench": "spark", "way": "target", **sizes, **target})

    def _median(self, way: Callable[[Events], Run], events: Events, warm_up: Events) -> Run:
        """The median of the runs of one way, warm."""
        for _ in range(2):
            way(warm_up)
        runs = [way(events) for _ in range(self._options.repeat)]
        return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]

    def _workload(self, count: int, events: Events) -> Workload:
        if self._options.workload == "alerts":
            return make_alert_queries(count, events.count, events.keys)
        return make_trade_queries(count)

    def _panewise(self, count: int, events: Events, warm_up: Events, figures: Figures) -> Checksum:
        """Measure Panewise; returns its answers in streaming mode."""
        options, spark = self._options, self._spark
        workload = self._workload(count, events)
        different = len({replace(query, name="") for query in workload.queries.values()})
        sizes = {"queries": count, "different_queries": different}
        run = self._median(lambda one: self._stream_panewise(one, workload), events, warm_up)
        state = state_of(events.table(spark), workload, run.batches)
        figures.panewise_s[count] = run.seconds
        if state["bytes_per_live_slot_key"] is not None:
            figures.bytes_per_live[count] = state["bytes_per_live_slot_key"]
        work = work_of(run, options.cores)
        self._emit("panewise", events, run, **sizes, planning_s=run.planning_s, **work, **state)
        if options.batch:
            closed_us = last_whole(run.batches).watermark_us or 0
            batch = self._median(
                lambda one: run_batch(panewise_spark.answers(one.table(spark), workload), closed_us), events, warm_up
            )
            self._emit("panewise batch", events, batch, **sizes)
            self._check(count, "panewise batch", batch.checksum, run.checksum)
        return run.checksum

    def _stream_panewise(self, events: Events, workload: Workload) -> Run:
        source = events.stream(self._spark)
        began = time.perf_counter()
        answers = panewise_spark.answers(source, workload)
        planning_s = time.perf_counter() - began
        return replace(run_streams([answers]), planning_s=planning_s)

    def _plain(self, count: int, events: Events, warm_up: Events, figures: Figures, checksum: Checksum | None) -> None:
        spark = self._spark
        queries = list(self._workload(count, events).queries.values())
        for _ in range(2):
            run_streams([plain_answers(warm_up.stream(spark), queries[0])])
        run = run_streams([plain_answers(events.stream(spark), query) for query in queries])
        figures.plain_s[count] = run.seconds
        ratio = run.seconds / figures.panewise_s[count] if count in figures.panewise_s else None
        equal = None if checksum is None else run.checksum.agrees(checksum)
        self._emit("plain spark", events, run, queries=count, times_slower=ratio, equal_answers=equal)
        if checksum is not None:
            self._check(count, "plain spark", run.checksum, checksum)

    def _check(self, count: int, way: str, found: Checksum, panewise: Checksum) -> None:
        if not found.agrees(panewise):
            sys.exit(f"the answers of {count} queries differ: {found} by {way}, {panewise} by panewise")

    def _emit(self, way: str, events: Events, run: Run, queries: int | None = None, **more: Any) -> None:
        options = self._options
        answered = {} if queries is None else {"answers": run.checksum.rows}
        line = {
            "bench": "spark", "way": way, "workload": options.workload, "queries": queries, "keys": events.keys,
            "events": events.count, "batches": options.batches, "cores": options.cores, "seconds": run.seconds,
            "events_per_s": round(events.count / run.seconds), **answered, **more,
        }  # fmt: skip
        if answered:
            line["checksum"] = asdict(run.checksum)
        self._print(line)

    def _print(self, line: dict[str, Any]) -> None:
        line = {
            name: value if name == "checksum" else _rounded(value) for name, value in line.items() if value is not None
        }
        if self._options.json:
            print(json.dumps(line), flush=True)
        else:
            shown = (f"{name} {value}" for name, value in line.items() if name not in ("bench", "checksum"))
            print("  ".join(shown), flush=True)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options; the scale sets the sizes that are not given."""
    parser = argparse.ArgumentParser(prog="panewise bench spark", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--scale", choices=list(SCALES), default="usual", help="all sizes that are not given")
    parser.add_argument("--events", type=int)
    parser.add_argument("--keys", type=int, nargs="+", help="numbers of keys, each measured by itself")
    parser.add_argument("--batches", type=int, help="micro-batches")
    parser.add_argument("--queries", type=int, nargs="+", help="numbers of queries for Panewise")
    parser.add_argument("--workload", choices=["mixed", "alerts"])
    parser.add_argument("--plain", type=int, nargs="*", default=[1, 10], help="numbers of queries for plain Spark")
    parser.add_argument("--null", action=argparse.BooleanOptionalAction, default=True, help="the null pipeline")
    parser.add_argument("--batch", action="store_true", help="also Panewise as a batch job over the same files")
    parser.add_argument("--data", type=Path, help="folder that keeps generated events for further runs")
    parser.add_argument(
        "--repeat", type=int, help="runs of Panewise and of the null pipeline of which the median is taken"
    )
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for name, value in SCALES[options.scale].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def main() -> None:
    options = parse()
    with ExitStack() as stack:
        data = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark = start_session(options.cores)
        stack.callback(spark.stop)
        bench = Bench(spark, data, options)
        for keys in options.keys:
            bench.measure(keys)


if __name__ == "__main__":
    main()
