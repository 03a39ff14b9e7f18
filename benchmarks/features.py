"""Features of card transactions as one wide table: Panewise beside DuckDB and Polars.

Transactions of 14 days, 5,000 cards; count, sum, average, maximum and distinct merchants over 1 hour, 6 hours, 24 hours
and 7 days, every 5 minutes. Each way starts with a Parquet file of transactions and ends with one Parquet file that has
a row per window end and card and a column per feature. Each runs in a process of its own, one after the other; the time
is that from reading to the closed file, without starting Python and loading libraries, and memory is the peak of the
process. Rows and features of all ways must agree, or the program ends with an error.

DuckDB copies each transaction to the windows that it lies in, and groups; Polars uses `group_by_dynamic`. Both do so
for each range, and join the ranges to the longest, which has every row of the others. Panewise runs a second time in
one thread, to tell what each part takes.

With --counts, the same with 1, 10 and 100 features over the first day. With --memory, the peak memory of `closing` over
a year of flights, beside that over a month (`_features_memory.py`).
With --spark, Panewise on Spark and hand-written Spark do the same over the first days (`_features_spark.py`).

Prints a JSON line per way with --json, a table otherwise. Run: panewise bench features --json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
SLIDE_US = HOUR_US // 12
START_US = 1_767_225_600_000_000
SPAN_DAYS = 14
RANGES_US = {"1h": HOUR_US, "6h": 6 * HOUR_US, "24h": DAY_US, "7d": 7 * DAY_US}
"""The ranges of this run, the longest last."""
FEATURES = {
    "count": "COUNT(*)",
    "sum": "SUM(amount)",
    "avg": "AVG(amount)",
    "max": "MAX(amount)",
    "distinct": "COUNT(DISTINCT merchant)",
}
COUNTS = {1: (["20h"], ["sum"]), 10: (["1h", "20h"], [*FEATURES]), 100: ([f"{h}h" for h in range(1, 21)], [*FEATURES])}
"""The ranges and the features over each of them that make so many features."""
COUNTS_DAYS = 1.0
TOLERANCE = 1e-9
"""Sums of doubles in another order may differ by this much of the sum of their sizes."""


def transactions(count: int, cards: int, days: float, seed: int = 7) -> pa.Table:
    """The transactions of the first days, in the order of time."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, SPAN_DAYS * DAY_US, count)) + START_US
    table = pa.table(
        {
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "card": rng.integers(0, cards, count),
            "merchant": rng.integers(0, 2_000, count),
            "amount": rng.gamma(2.0, 20.0, count).round(2),
        }
    )
    return table.filter(pa.array(at < until_us(days)))


def until_us(days: float) -> int:
    """The last end of a window."""
    return START_US + int(days * DAY_US)


def use_ranges(names: list[str]) -> None:
    """Choose the ranges of this run, such as 6h or 7d."""
    units = {"h": HOUR_US, "d": DAY_US}
    chosen = {name: int(name[:-1]) * units[name[-1]] for name in names}
    RANGES_US.clear()
    RANGES_US.update(chosen)


def statements(features: list[str]) -> str:
    """The workload of Panewise."""
    queries = []
    for name, range_us in RANGES_US.items():
        items = ", ".join(f"{FEATURES[feature]} AS {feature}_{name}" for feature in features)
        window = f"[RANGE {range_us // HOUR_US} HOURS SLIDE 5 MINUTES]"
        queries.append(f"CREATE QUERY last_{name} AS SELECT {items} FROM transactions {window} GROUP BY card;")
    stream = "(at TIMESTAMP, card BIGINT, merchant BIGINT, amount DOUBLE) TIMESTAMP BY at"
    return f"CREATE STREAM transactions {stream};\n" + "\n".join(queries)


def by_panewise(source: Path, target: Path, features: list[str], days: float) -> dict[str, float]:
    import panewise

    engine = panewise.Engine(statements(features), in_bulk=True)
    engine.push("transactions", pq.read_table(source))
    written = target.with_suffix("")
    (family,) = engine.write("transactions", written, until_us(days))
    (written / f"{family}.parquet").rename(target)
    return {}


def in_parts(source: Path, target: Path, features: list[str], days: float) -> dict[str, float]:
    """As Panewise alone, in one thread, so that each part can be timed."""
    import panewise

    engine = panewise.Engine(statements(features), in_bulk=True)
    started = time.perf_counter()
    engine.push("transactions", pq.read_table(source))
    pushed_s = time.perf_counter() - started
    shaped_s = written_s = 0.0
    with ExitStack() as opened:
        writer = None
        for closed in engine.closing("transactions", until_us(days)):
            begun = time.perf_counter()
            (table,) = closed.families.values()
            made = time.perf_counter()
            writer = writer or opened.enter_context(pq.ParquetWriter(target, table.schema))
            writer.write_table(table)
            shaped_s, written_s = shaped_s + made - begun, written_s + time.perf_counter() - made
    return {"push_s": pushed_s, "to_wide_s": shaped_s, "write_s": written_s}


def by_duckdb(source: Path, target: Path, features: list[str], days: float) -> dict[str, float]:
    import duckdb

    parts = []
    for name, range_us in RANGES_US.items():
        items = ", ".join(f"{FEATURES[feature]} AS {feature}_{name}" for feature in features)
        parts.append(f"""
        range_{name} AS (
          SELECT card, window_end, {items} FROM (
            SELECT *, UNNEST(generate_series(
              (epoch_us("at") // {SLIDE_US} + 1) * {SLIDE_US},
              least((epoch_us("at") + {range_us}) // {SLIDE_US} * {SLIDE_US}, {until_us(days)}),
              {SLIDE_US})) AS window_end
            FROM read_parquet('{source}')
          ) GROUP BY ALL
        )""")
    longest, *shorter = reversed(RANGES_US)
    joins = " ".join(f"LEFT JOIN range_{name} USING (card, window_end)" for name in shorter)
    columns = ", ".join(f"{feature}_{name}" for name in RANGES_US for feature in features)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = '{target.parent}'")
        connection.execute(f"""
        COPY (WITH {", ".join(parts)} SELECT make_timestamptz(window_end) AS window_end, card, {columns}
          FROM range_{longest} {joins}) TO '{target}' (FORMAT parquet)""")
    return {}


def by_polars(source: Path, target: Path, features: list[str], days: float) -> dict[str, float]:
    import polars as pl

    amount = pl.col("amount")
    made = {
        "count": pl.len().cast(pl.Int64),
        "sum": amount.sum(),
        "avg": amount.mean(),
        "max": amount.max(),
        "distinct": pl.col("merchant").n_unique().cast(pl.Int64),
    }
    last = pl.lit(until_us(days)).cast(pl.Datetime("us", "UTC"))
    found = []
    for name, range_us in RANGES_US.items():
        windows = pl.scan_parquet(source).group_by_dynamic(
            "at",
            every=f"{SLIDE_US}us",
            period=f"{range_us}us",
            # Windows that began before the first transaction contain it, too.
            offset=f"-{range_us - SLIDE_US}us",
            group_by="card",
        )
        aggregated = windows.agg(**{f"{feature}_{name}": made[feature] for feature in features})
        end = pl.col("at").dt.offset_by(f"{range_us}us")
        found.append(aggregated.with_columns(window_end=end).drop("at").filter(pl.col("window_end") <= last))
    joined = found[-1]
    for other in reversed(found[:-1]):
        joined = joined.join(other, on=["card", "window_end"], how="left")
    columns = [f"{feature}_{name}" for name in RANGES_US for feature in features]
    joined.select("window_end", "card", *columns).collect().write_parquet(target)
    return {}


WAYS: dict[str, Callable[[Path, Path, list[str], float], dict[str, float]]] = {
    "panewise": by_panewise,
    "panewise_in_parts": in_parts,
    "duckdb": by_duckdb,
    "polars": by_polars,
}


def peak_mb() -> float:
    """The most memory that this process has had. Not that of `getrusage`, which begins with the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e3
    raise RuntimeError("no VmHWM in /proc/self/status")


def run_one(way: str, folder: Path, features: list[str], days: float) -> dict[str, Any]:
    """Run a way here, and tell what it took."""
    import_module(way if way in ("duckdb", "polars") else "panewise.engine.engine")
    started, busy = time.perf_counter(), time.process_time()
    details = WAYS[way](folder / "transactions.parquet", folder / f"{way}.parquet", features, days)
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_s": round(time.process_time() - busy, 2),
        "peak_mb": round(peak_mb()),
        **{name: round(value, 2) for name, value in details.items()},
    }


def checksum(file: Path) -> dict[str, tuple[float, float]]:
    """Of each column, a number that depends on which value is in which row, and the scale of its rounding errors."""
    totals: dict[str, tuple[float, float]] = {}
    for batch in pq.ParquetFile(file).iter_batches(1 << 20):
        ends = np.asarray(batch.column("window_end").cast(pa.int64())) // SLIDE_US
        weights = (ends * 31 + np.asarray(batch.column("card")) * 17) % 1_009 + 1
        for name in batch.schema.names:
            if name in ("window_end", "card"):
                continue
            values = _weighted(batch.column(name), weights)
            before = totals.get(name, (0.0, 0.0))
            totals[name] = before[0] + float(values.sum()), before[1] + float(np.abs(values).sum())
        known = totals.get("rows", (0.0, 0.0))[0]
        totals["rows"] = known + float(weights.sum()), known + float(weights.sum())
    return totals


def _weighted(column: pa.Array, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).fill_null(0.0)) * weights


def differing(mine: dict[str, tuple[float, float]], other: dict[str, tuple[float, float]]) -> list[str]:
    """The columns that do not agree."""
    names = sorted({*mine, *other})
    return [
        name
        for name in names
        if name not in mine
        or name not in other
        or abs(mine[name][0] - other[name][0]) > TOLERANCE * max(1.0, mine[name][1])
    ]


def measure(options: argparse.Namespace, folder: Path) -> list[str]:
    """Run every way, print what it took, and return what does not agree."""
    wrong: list[str] = []
    reference = None
    for way in options.ways:
        line = {"bench": "features", "way": way, "days": options.days, "transactions": options.transactions}
        command = [sys.executable, __file__, "--run", way, "--folder", str(folder), "--days", str(options.days)]
        command += ["--features", *options.features, "--ranges", *RANGES_US]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=options.limit, check=True)
        except subprocess.TimeoutExpired:
            show({**line, "seconds": None, "over_limit_s": options.limit}, options.json)
            continue
        except subprocess.CalledProcessError as error:
            show({**line, "seconds": None, "exit_code": error.returncode}, options.json)
            continue
        target = folder / f"{way}.parquet"
        rows = pq.ParquetFile(target).metadata.num_rows
        line |= {"rows": rows, "features": len(RANGES_US) * len(options.features), **json.loads(done.stdout)}
        show(line, options.json)
        found = checksum(target)
        target.unlink()
        reference = reference or found
        wrong += [f"{way}: {name} differs from {options.ways[0]}" for name in differing(reference, found)]
    return wrong


def measure_counts(options: argparse.Namespace, folder: Path) -> list[str]:
    """Run every way with few features and with many, and return what does not agree."""
    days = min(options.days, COUNTS_DAYS)
    folder = folder / "counts"
    folder.mkdir()
    pq.write_table(transactions(options.transactions, options.cards, days), folder / "transactions.parquet")
    wrong, usual = [], list(RANGES_US)
    for count, (ranges, features) in COUNTS.items():
        use_ranges(ranges)
        asked = argparse.Namespace(**{**vars(options), "days": days, "features": features})
        wrong += [f"{count} features: {difference}" for difference in measure(asked, folder)]
    use_ranges(usual)
    return wrong


def show(line: dict[str, Any], as_json: bool) -> None:
    print(json.dumps(line) if as_json else "  ".join(f"{name} {value}" for name, value in line.items()), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument("--quick", action="store_true", help="few transactions, to see that everything runs")
    parser.add_argument("--days", type=float, default=float(SPAN_DAYS), help="how many of the 14 days")
    parser.add_argument("--transactions", type=int, default=200_000, help="of all 14 days")
    parser.add_argument("--cards", type=int, default=5_000)
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=list(FEATURES), help="over each range")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--spark", action="store_true", help="then the same on Spark, beside hand-written Spark")
    parser.add_argument("--spark-days", type=float, default=2.0, help="how many of the 14 days on Spark")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which a way is stopped")
    parser.add_argument("--counts", action="store_true", help="then 1, 10 and 100 features over the first day")
    parser.add_argument(
        "--memory", action="store_true", help="then the peak memory of closing, over a month and a year"
    )
    parser.add_argument("--ranges", nargs="+", default=list(RANGES_US), help="such as 6h or 7d, the longest last")
    parser.add_argument("--run", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    use_ranges(options.ranges)
    if options.run:
        print(json.dumps(run_one(options.run, options.folder, options.features, options.days)))
        return 0
    if options.quick:
        options.transactions, options.cards, options.days = 2_000, 50, 1.0
    with tempfile.TemporaryDirectory(prefix="features-") as scratch:
        folder = Path(scratch)
        pq.write_table(transactions(options.transactions, options.cards, options.days), folder / "transactions.parquet")
        wrong = measure(options, folder)
        if options.counts:
            wrong += measure_counts(options, folder)
        if options.memory:
            # Only this part needs the flights.
            from _features_memory import measure_memory

            measure_memory(options, folder)
        if options.spark:
            # Only this part needs PySpark.
            from _features_spark import measure_on_spark

            wrong += measure_on_spark(options, folder)
    for difference in wrong:
        print(difference, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
