"""Row queries on Spark and in the engine, beside the way one would write them in plain Spark.

Each query runs over windows that do not overlap and over windows that overlap `--overlap` times (a join looks back so
many times further), as a batch over generated events. `--windows 100` is a hundred such queries in one workload, with
ranges of 1 to 100 slides (joins look back 1 to 100 seconds, selections have different bounds); plain Spark runs
`--plain-sample` of them, spread over the ranges, and its time is scaled:

- `spark`: `panewise.spark.rows`.
- `plain spark`: histogram and top k by `groupBy(window(...), value)`, top k and ORDER BY with `row_number`, INTERSECT
  as a join of two such counts, JOIN as a join with conditions on the times, a selection as itself.
- `engine`: `panewise.Engine` in this process, from Arrow tables to Arrow tables.

Both Spark ways end in the same native sum over all rows (their number, and a hash of every column), and the sums must
agree; the engine's rows are counted. Each way runs once to warm up, then `--repeat` times, and the median counts.
`ratio` is the time of plain Spark divided by that of the way. With `--skew`, a line `spark, skewed` follows: the same
query over events of which half have one symbol, and `times_uniform`, how many times the time of the others it takes. A
join is left out there, since its answer grows with the square of the events of a key.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench rows --json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

import panewise
from panewise import spark as panewise_spark

STREAMS = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT) TIMESTAMP BY at;
CREATE STREAM quotes (at TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT) TIMESTAMP BY at;
"""
START_US = 1_767_225_600_000_000
SPAN_US = 3_600_000_000
SLIDE_S = 30
LOOK_BACK_S = 30
"""How far a join looks back, where nothing overlaps."""
K = 10
Frames = dict[str, DataFrame]


def statement_of(query: str, overlap: int, back_s: int | None = None, least: int = 90, name: str = "q") -> str:
    """A query over windows that overlap so many times."""
    window = f"[RANGE {SLIDE_S * overlap} SECONDS SLIDE {SLIDE_S} SECONDS]"
    back = f"[RANGE {LOOK_BACK_S * overlap if back_s is None else back_s} SECONDS]"
    select = {
        "histogram": f"HISTOGRAM(symbol) FROM trades {window}",
        "top_k": f"TOP_K(symbol, {K}) FROM trades {window}",
        "intersect": f"symbol FROM trades {window} INTERSECT SELECT symbol FROM quotes {window}",
        "order_by": f"symbol, price, at AS traded FROM trades {window} ORDER BY price DESC LIMIT {K}",
        "join": f"t.price, q.price AS quote FROM trades {back} AS t JOIN quotes {back} AS q ON t.symbol = q.symbol",
        "selection": f"symbol, price * volume AS worth FROM trades WHERE volume > {least}",
    }[query]
    return f"CREATE QUERY {name} AS SELECT {select};"


def statements_of(query: str, windows: int) -> dict[str, tuple[str, int]]:
    """Queries with so many different windows: the statement of each, and its number from 1 on."""
    numbers = {f"q{number}": number for number in range(1, windows + 1)}
    return {
        name: (statement_of(query, number, back_s=number, least=number - 1, name=name), number)
        for name, number in numbers.items()
    }


QUERIES = ("histogram", "top_k", "intersect", "order_by", "join", "selection")


def counted(events: DataFrame, overlap: int) -> DataFrame:
    """How often each symbol occurs in each window."""
    window = F.window("at", f"{SLIDE_S * overlap} seconds", f"{SLIDE_S} seconds")
    found = events.groupBy(window.alias("w"), "symbol").agg(F.count(F.lit(1)).alias("count"))
    return found.select(
        F.col("w.start").alias("window_start"),
        F.col("w.end").alias("window_end"),
        F.col("symbol").alias("value"),
        "count",
    )


def plain(query: str, frames: Frames, overlap: int, back_s: int | None = None, least: int = 90) -> DataFrame:
    """The same rows in plain Spark."""
    trades, quotes = frames["trades"], frames["quotes"]
    match query:
        case "histogram":
            return counted(trades, overlap)
        case "top_k":
            rank = F.row_number().over(Over.partitionBy("window_end").orderBy(F.desc("count"), "value"))
            found = counted(trades, overlap).withColumn("rank", rank.cast("bigint")).where(F.col("rank") <= K)
            return found.select("window_start", "window_end", "rank", "value", "count")
        case "intersect":
            keys = ["window_start", "window_end", "value"]
            left = counted(trades, overlap).withColumnRenamed("count", "left_count")
            return left.join(counted(quotes, overlap).withColumnRenamed("count", "right_count"), keys)
        case "order_by":
            window = F.window("at", f"{SLIDE_S * overlap} seconds", f"{SLIDE_S} seconds")
            order = (F.desc("price"), F.col("at"), F.col("symbol"))
            position = F.row_number().over(Over.partitionBy("w").orderBy(*order))
            found = trades.withColumn("w", window).withColumn("position", position.cast("bigint"))
            bounds = F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end")
            shown = "position", "symbol", "price", F.col("at").alias("traded")
            return found.where(F.col("position") <= K).select(*bounds, *shown)
        case "join":
            return _joined(trades, quotes, LOOK_BACK_S * overlap if back_s is None else back_s)
        case _:
            worth = (F.col("price") * F.col("volume")).alias("worth")
            return trades.where(f"volume > {least}").select(F.col("at").alias("time"), "symbol", worth)


def _joined(trades: DataFrame, quotes: DataFrame, back_s: int) -> DataFrame:
    """Each trade with the quotes of its symbol that lie within the window before or after it."""
    t, q = trades.alias("t"), quotes.alias("q")
    back = F.expr(f"INTERVAL {back_s} SECONDS")
    near = (F.col("q.at") > F.col("t.at") - back) & (F.col("t.at") > F.col("q.at") - back)
    found = t.join(q, (F.col("t.symbol") == F.col("q.symbol")) & near)
    later = F.greatest(F.col("t.at"), F.col("q.at")).alias("time")
    return found.select(later, F.col("t.price"), F.col("q.price").alias("quote"))


def sums(rows: DataFrame) -> DataFrame:
    """The number of rows, and a hash of all of them that does not depend on their order."""
    each: Column = F.xxhash64(*(F.col(name) for name in rows.columns)) % 1_000_003
    return rows.agg(F.count(F.lit(1)).alias("rows"), F.sum(each).alias("hash"))


def summed(rows: DataFrame) -> tuple[int, int]:
    """The same as numbers."""
    found = sums(rows).first()
    assert found is not None
    return int(found[0]), int(found[1] or 0)


def write_events(folder: Path, options: argparse.Namespace, *, is_skewed: bool) -> None:
    """Events of both streams in order of time, in as many files as there are cores."""
    dice = np.random.default_rng(options.seed)
    symbols = pa.array([f"s{key:06}" for key in range(options.keys)])
    for stream, count in (("trades", options.events), ("quotes", options.events // 4)):
        (folder / stream).mkdir(parents=True)
        key = dice.zipf(1.5, count) % options.keys if options.zipf else dice.integers(0, options.keys, count)
        if is_skewed:
            key[dice.random(count) < 0.5] = 0
        times = np.sort(START_US + dice.integers(0, SPAN_US, count))
        table = pa.table(
            {
                "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "symbol": symbols.take(pa.array(key)),
                "price": np.round(dice.lognormal(4.5, 0.4, count), 2),
                "volume": dice.integers(1, 100, count),
            }
        )
        size = -(-count // options.cores)
        for part in range(options.cores):
            pq.write_table(table.slice(part * size, size), folder / stream / f"{part}.parquet")


def on_spark(query: str, frames: Frames, overlap: int) -> tuple[int, int]:
    """The rows of Panewise on Spark, summed up."""
    workload = panewise.read(STREAMS + statement_of(query, overlap))
    read = {name: frames[name] for name in workload.row_queries["q"].streams}
    with panewise_spark.rows(read, workload) as rows:
        return summed(rows["q"])


def many_on_spark(query: str, frames: Frames, windows: int) -> dict[str, tuple[int, int]]:
    """The rows of Panewise on Spark for many queries of one workload, summed up by query in one job."""
    statements = statements_of(query, windows)
    workload = panewise.read(STREAMS + "".join(text for text, _ in statements.values()))
    read = {name: frames[name] for name in workload.row_queries["q1"].streams}
    with panewise_spark.rows(read, workload) as rows:
        every = [sums(rows[name]).withColumn("query", F.lit(name)) for name in statements]
        return {row["query"]: (row["rows"], row["hash"] or 0) for row in reduce(DataFrame.union, every).collect()}


def many_in_engine(query: str, tables: dict[str, pa.Table], windows: int) -> tuple[int, int]:
    """The number of rows of the engine for the same queries."""
    statements = statements_of(query, windows)
    engine = panewise.Engine(STREAMS + "".join(text for text, _ in statements.values()))
    for name, table in tables.items():
        engine.push(name, table)
    for name in tables:
        engine.advance(name, panewise.END_OF_STREAM)
    return sum(engine.rows(name).num_rows for name in statements), 0


def in_engine(query: str, tables: dict[str, pa.Table], overlap: int) -> tuple[int, int]:
    """The number of rows of the engine."""
    engine = panewise.Engine(STREAMS + statement_of(query, overlap))
    for name, table in tables.items():
        engine.push(name, table)
    for name in tables:
        engine.advance(name, panewise.END_OF_STREAM)
    return engine.rows("q").num_rows, 0


def timed(run: Callable[[], tuple[int, int]], repeat: int) -> tuple[float, tuple[int, int]]:
    """The median time of some runs after one to warm up, and what they gave."""
    found = run()
    took = []
    for _ in range(repeat):
        began = time.perf_counter()
        found = run()
        took.append(time.perf_counter() - began)
    return statistics.median(took), found


def measure(query: str, overlap: int, frames: Frames, tables: dict[str, pa.Table], repeat: int) -> list[dict[str, Any]]:
    """A line for each way."""
    plain_s, wanted = timed(lambda: summed(plain(query, frames, overlap)), repeat)
    spark_s, found = timed(lambda: on_spark(query, frames, overlap), repeat)
    engine_s, counted_rows = timed(lambda: in_engine(query, tables, overlap), repeat)
    if found != wanted or counted_rows[0] != wanted[0]:
        raise SystemExit(f"{query}, overlap {overlap}: {found} on Spark, {counted_rows} in the engine, not {wanted}")
    ways = {"plain spark": plain_s, "spark": spark_s, "engine": engine_s}
    return [
        {"query": query, "overlap": overlap, "way": way, "seconds": round(took, 3), "ratio": round(plain_s / took, 2)}
        | {"rows": wanted[0]}
        for way, took in ways.items()
    ]


def measure_many(
    query: str, windows: int, frames: Frames, tables: dict[str, pa.Table], sample: int, with_engine: bool
) -> list[dict[str, Any]]:
    """A line for each way, for many queries at once. Plain Spark runs some of them."""
    chosen = [windows * (2 * place + 1) // (2 * sample) or 1 for place in range(min(sample, windows))]
    wanted = {}
    plain_s = 0.0
    for number in chosen:
        asked = plain(query, frames, number, back_s=number, least=number - 1)
        if number == chosen[0]:
            summed(asked)
        began = time.perf_counter()
        wanted[f"q{number}"] = summed(asked)
        plain_s += time.perf_counter() - began
    plain_s *= windows / len(chosen)
    began = time.perf_counter()
    found = many_on_spark(query, frames, windows)
    ways = {"plain spark": plain_s, "spark": time.perf_counter() - began}
    wrong = {name: (found[name], rows) for name, rows in wanted.items() if found[name] != rows}
    if wrong:
        raise SystemExit(f"{query}, {windows} windows: on Spark and by plain Spark {wrong}")
    rows = sum(count for count, _ in found.values())
    if with_engine:
        began = time.perf_counter()
        counted_rows, _ = many_in_engine(query, tables, windows)
        ways["engine"] = time.perf_counter() - began
        if counted_rows != rows:
            raise SystemExit(f"{query}, {windows} windows: {counted_rows} rows in the engine, {rows} on Spark")
    return [
        {"query": query, "windows": windows, "way": way, "seconds": round(took, 3), "ratio": round(plain_s / took, 2)}
        | {"rows": rows}
        | ({"measured_windows": len(chosen)} if way == "plain spark" else {})
        for way, took in ways.items()
    ]


def measure_skewed(query: str, overlap: int, frames: Frames, uniform_s: float, repeat: int) -> dict[str, Any]:
    """The line for events of which half have one symbol."""
    wanted = summed(plain(query, frames, overlap))
    took, found = timed(lambda: on_spark(query, frames, overlap), repeat)
    if found != wanted:
        raise SystemExit(f"{query}, overlap {overlap}, skewed: {found} on Spark, not {wanted}")
    line = {"query": query, "overlap": overlap, "way": "spark, skewed", "seconds": round(took, 3)}
    return {**line, "times_uniform": round(took / uniform_s, 2), "rows": wanted[0]}


def start_session(cores: int) -> SparkSession:
    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    settings = panewise_spark.SETTINGS | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
    }
    session = (
        SparkSession.builder.master(f"local[{cores}]").appName("panewise bench").config(map=settings).getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench rows", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--events", type=int, default=1_000_000, help="trades; a quarter as many quotes")
    parser.add_argument("--keys", type=int, default=1000, help="symbols")
    parser.add_argument("--overlap", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--windows", type=int, nargs="+", default=[1], help="how many windows a workload has; 1 is one")
    parser.add_argument("--plain-sample", type=int, default=4, help="of many windows, plain Spark runs so many")
    parser.add_argument("--skip-engine", action="store_true", help="leave out the engine where there are many windows")
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--skew", action="store_true", help="measure events of which half have one symbol too")
    parser.add_argument("--zipf", action="store_true", help="symbols by a power law")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_events(Path(scratch), options, is_skewed=False)
        spark = start_session(options.cores)
        frames = {name: spark.read.parquet(str(Path(scratch) / name)) for name in ("trades", "quotes")}
        skewed: Frames = {}
        if options.skew:
            write_events(Path(scratch) / "skewed", options, is_skewed=True)
            skewed = {name: spark.read.parquet(str(Path(scratch) / "skewed" / name)) for name in frames}
        tables = {name: pq.read_table(Path(scratch) / name) for name in frames}
        for query, windows in ((query, n) for query in options.queries for n in options.windows if n > 1):
            sample, with_engine = options.plain_sample, not options.skip_engine
            for line in measure_many(query, windows, frames, tables, sample, with_engine):
                emit(options, line)
        for query in options.queries if 1 in options.windows else ():
            for overlap in options.overlap if query != "selection" else options.overlap[:1]:
                lines = measure(query, overlap, frames, tables, options.repeat)
                if skewed and query != "join":
                    uniform_s = next(line["seconds"] for line in lines if line["way"] == "spark")
                    lines.append(measure_skewed(query, overlap, skewed, uniform_s, options.repeat))
                for line in lines:
                    emit(options, line)
        spark.stop()


def emit(options: argparse.Namespace, line: dict[str, Any]) -> None:
    size = {"events": options.events, "keys": options.keys}
    if options.json:
        print(json.dumps({"bench": "rows", **size, **line}), flush=True)
    else:
        print("  ".join(f"{name} {value}" for name, value in line.items()), flush=True)


if __name__ == "__main__":
    main()
