"""Sessions on Spark beside Spark's own session_window and Flink's SESSION: the same queries and answers, in one run.

Trades of each symbol come in bursts, seconds apart, with minutes of silence between them. Each query has another gap,
from one minute on. Spark allows one session_window an operator, so plain Spark runs each query by itself, as a user of
it would; Panewise runs them in one job, and Flink in one statement set over one source. Spark and Panewise run as a
stream, with state and checkpoints, and as a batch; all are warm. Flink runs as a stream in an environment of its own,
which --flink makes if it is missing; its events are CSV, and its answers go to CSV. The last event lies a day behind
the others, so that all of their sessions have closed when the stream ends. The sums over all answers must agree.

Prints a JSON line per measurement with --json. Run: panewise bench sessions --json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import panewise
from _peers.environments import default_folder, interpreter
from panewise import spark as panewise_spark
from panewise.language.workload import Workload
from spark import Checksum, Run, run_streams, start_session, with_checksum

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
DAY_US = 24 * 60 * MINUTE_US
START_US = 1_767_225_600 * SECOND_US
STREAM = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, volume BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
"""
WARM_UP_EVENTS = 100_000


def queries(count: int) -> Workload:
    """Queries whose gaps are one minute, two minutes, and so on."""
    statements = [
        f"CREATE QUERY gap_{gap} AS SELECT symbol, COUNT(*), SUM(volume), MAX(volume) FROM trades "
        f"[SESSION GAP {gap} MINUTES MAX 1 DAY] GROUP BY symbol;"
        for gap in range(1, count + 1)
    ]
    return panewise.read("\n".join([STREAM, *statements]))


def trades(count: int, keys: int, seed: int) -> pa.Table:
    """Trades in the order of time: of each symbol in bursts, and one that comes a day later."""
    dice = np.random.default_rng(seed)
    each = count // keys
    pauses = np.where(dice.random((keys, each)) < 0.97, dice.exponential(5.0, (keys, each)), 0.0)
    pauses = np.where(pauses == 0.0, dice.exponential(12 * 60.0, (keys, each)), pauses)
    times = START_US + (dice.random((keys, 1)) * 600 * SECOND_US + np.cumsum(pauses, axis=1) * SECOND_US).astype(
        np.int64
    )
    # Flink knows milliseconds.
    times = times // 1000 * 1000
    symbols = np.repeat(np.arange(keys), each)
    order = np.argsort(times, axis=None, kind="stable")
    at = np.append(times.ravel()[order], times.max() + DAY_US)
    names = pa.array([f"symbol-{number}" for number in range(keys)] + ["the last one"])
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "symbol": names.take(pa.array(np.append(symbols[order], keys))),
            "volume": pa.array(dice.integers(1, 1000, len(at))),
        }
    )


def write(table: pa.Table, folder: Path, batches: int, cores: int) -> Path:
    """The files of a stream, a micro-batch after the other, whose ages give their order."""
    folder.mkdir()
    bounds = np.linspace(0, table.num_rows, batches * cores + 1).astype(int).tolist()
    for number, (begin, end) in enumerate(pairwise(bounds)):
        file = folder / f"trades-{number:04}.parquet"
        pq.write_table(table.slice(begin, end - begin), file)
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    return folder


def plain_answers(trades: DataFrame, gap: int) -> DataFrame:
    """One query as plain Spark users write it, its answers in Panewise's long form so that both can be compared."""
    session = F.session_window("at", f"{gap} minutes")
    grouped = trades.withWatermark("at", "1 minute").groupBy(session, "symbol")
    made = {"COUNT(*)": F.count(F.lit(1)), "SUM(volume)": F.sum("volume"), "MAX(volume)": F.max("volume")}
    found = grouped.agg(*(value.alias(name) for name, value in made.items()))
    values = F.array(*(F.struct(F.lit(name).alias("aggregate"), F.col(f"`{name}`").alias("exact")) for name in made))
    return found.select(
        F.lit(f"gap_{gap}").alias("query"),
        F.col("session_window.start").alias("window_start"),
        F.col("session_window.end").alias("window_end"),
        "symbol",
        F.explode(values).alias("answer"),
    ).select("*", "answer.*", F.col("answer.exact").cast("double").alias("value"))


def run_batches(frames: list[DataFrame]) -> Run:
    """Run batch DataFrames of answers one after the other, and sum up those that a stream would have closed."""
    checksum = Checksum()
    began = time.perf_counter()
    for frame in frames:
        observation = Observation()
        with_checksum(frame.where("symbol <> 'the last one'"), observation).write.format("noop").mode(
            "overwrite"
        ).save()
        checksum.add(observation.get)
    return Run(time.perf_counter() - began, checksum)


def write_csv(table: pa.Table, folder: Path, cores: int) -> Path:
    """The same events for Flink: a file for each core, with every so many-th event."""
    folder.mkdir()
    for number in range(cores):
        some = table.take(pa.array(np.arange(number, table.num_rows, cores)))
        at_ms = pa.array(np.asarray(some.column("at").cast("int64")) // 1000)
        columns = pa.table({"at_ms": at_ms, "symbol": some.column("symbol"), "volume": some.column("volume")})
        pc.write_csv(columns, folder / f"trades-{number}.csv", pc.WriteOptions(include_header=False))
    return folder


def flink_answers(spark: SparkSession, folder: Path, gap: int) -> DataFrame:
    """What Flink wrote, in Panewise's long form."""
    schema = "window_start TIMESTAMP, window_end TIMESTAMP, symbol STRING, events BIGINT, volume BIGINT, largest BIGINT"
    found = spark.read.schema(schema).csv(str(folder / f"gap_{gap}"), timestampFormat="yyyy-MM-dd HH:mm:ss[.SSS]")
    names = {"COUNT(*)": "events", "SUM(volume)": "volume", "MAX(volume)": "largest"}
    values = F.array(
        *(F.struct(F.lit(name).alias("aggregate"), F.col(column).alias("exact")) for name, column in names.items())
    )
    keys = F.lit(f"gap_{gap}").alias("query"), "window_start", "window_end", "symbol"
    answers = found.select(*keys, F.explode(values).alias("answer")).select("*", "answer.*")
    return answers.withColumn("value", F.col("exact").cast("double"))


class Flink:
    """Flink's program: what it takes for each number of queries, and its answers."""

    def __init__(self, spark: SparkSession, scratch: Path, tables: tuple[pa.Table, pa.Table], cores: int) -> None:
        self._spark, self._scratch, self._cores = spark, scratch, cores
        self._events = [write_csv(table, scratch / f"flink-{place}", cores) for place, table in enumerate(tables)]

    def runs(self, counts: list[int], peers: Path) -> dict[int, Run]:
        """The runs for some numbers of queries, after two on fewer events."""
        answers = [self._scratch / f"flink-answers-{place}" for place in range(len(counts) + 2)]
        gaps = [list(range(1, count + 1)) for count in (2, 2, *counts)]
        events = [self._events[1], self._events[1], *[self._events[0]] * len(counts)]
        points = [
            {"events": str(folder), "gaps": some, "answers": str(into)}
            for folder, some, into in zip(events, gaps, answers, strict=True)
        ]
        job = self._scratch / "flink.json"
        job.write_text(json.dumps({"cores": self._cores, "points": points}))
        program = Path(__file__).parent / "_peers" / "flink_session.py"
        command = [str(interpreter("flink", peers)), str(program), str(job)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"Flink failed: {done.stderr.strip().splitlines()[-1:]}")
        seconds = [json.loads(line)["seconds"] for line in done.stdout.splitlines()][2:]
        found = {}
        for count, taken, into in zip(counts, seconds, answers[2:], strict=True):
            summed = run_batches([flink_answers(self._spark, into, gap) for gap in range(1, count + 1)])
            found[count] = Run(taken, summed.checksum)
        return found


class Ways:
    """Both ways over one folder of events."""

    def __init__(self, spark: SparkSession, folder: Path, cores: int) -> None:
        self._spark, self._folder, self._cores = spark, folder, cores

    def panewise(self, count: int, *, stream: bool) -> Run:
        """All queries in one job."""
        return self._run([panewise_spark.answers(self._trades(stream), queries(count))], stream)

    def plain(self, count: int, *, stream: bool) -> Run:
        """Each query by itself."""
        return self._run([plain_answers(self._trades(stream), gap) for gap in range(1, count + 1)], stream)

    def _trades(self, stream: bool) -> DataFrame:
        table = self._spark.read.parquet(str(self._folder))
        if not stream:
            return table
        reader = self._spark.readStream.schema(table.schema).option("maxFilesPerTrigger", self._cores)
        return reader.parquet(str(self._folder))

    def _run(self, frames: list[DataFrame], stream: bool) -> Run:
        return run_streams(frames) if stream else run_batches(frames)


def measure(
    options: argparse.Namespace, ways: Ways, warm_up: Ways, flink: Flink | None, show: Callable[[dict[str, Any]], None]
) -> None:
    """Every way, with every number of queries."""
    of_flink = {} if flink is None else flink.runs(options.queries, options.environments)
    for stream in (True, False):
        for _ in range(2):
            warm_up.panewise(2, stream=stream)
            warm_up.plain(1, stream=stream)
        for count in options.queries:
            sizes = {"mode": "stream" if stream else "batch", "queries": count, "keys": options.keys}
            sizes |= {"events": options.events, "batches": options.batches, "cores": options.cores}
            mine = ways.panewise(count, stream=stream)
            show({"way": "panewise", **sizes, "seconds": mine.seconds, "answers": mine.checksum.rows})
            plain = ways.plain(count, stream=stream)
            line = {"way": "plain spark", **sizes, "seconds": plain.seconds, "answers": plain.checksum.rows}
            show({**line, "times_slower": plain.seconds / mine.seconds})
            others = {"Spark": plain}
            if stream and count in of_flink:
                found = others["Flink"] = of_flink[count]
                line = {"way": "flink", **sizes, "seconds": found.seconds, "answers": found.checksum.rows}
                show({**line, "times_slower": found.seconds / mine.seconds})
            for name, other in others.items():
                if not other.checksum.agrees(mine.checksum):
                    sys.exit(
                        f"the answers of {count} queries differ: {other.checksum} by {name}, {mine.checksum} by "
                        f"Panewise"
                    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="panewise bench sessions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--batches", type=int, default=4, help="micro-batches of the stream")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 30])
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flink", action="store_true", help="run Flink too; its environment is made if missing")
    parser.add_argument("--environments", type=Path, default=default_folder(), help="where environments are kept")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()

    def show(line: dict[str, Any]) -> None:
        shown = {name: round(value, 3) if isinstance(value, float) else value for name, value in line.items()}
        words = (f"{name} {value}" for name, value in shown.items())
        print(json.dumps({"bench": "sessions", **shown}) if options.json else "  ".join(words), flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        spark = start_session(options.cores)
        try:
            ways, tables = [], []
            for events in (options.events, min(options.events, WARM_UP_EVENTS)):
                table = trades(events, min(options.keys, events), options.seed)
                folder = write(table, Path(scratch) / f"trades-{len(ways)}", options.batches, options.cores)
                ways.append(Ways(spark, folder, options.cores))
                tables.append(table)
            flink = Flink(spark, Path(scratch), (tables[0], tables[1]), options.cores) if options.flink else None
            measure(options, ways[0], ways[1], flink, show)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
