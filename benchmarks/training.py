"""Training sets of card payments: Panewise beside DuckDB and Polars.

Payments of 90 days by card and merchant, and labels that are some of the payments at their own times. A label gets, for
each of its windows `[t - r, t)`, COUNT, SUM, AVG and MAX of the amounts: half of the windows by card, half by merchant.
Cards and merchants are drawn alike (uniform), by Zipf's law with exponent 1.3 (zipf), or alike but for one card and one
merchant with 30 % of all payments (hot). A smaller set (holistic) has MEDIAN and COUNT(DISTINCT merchant) by card.

DuckDB and Polars answer COUNT, SUM and AVG by ASOF joins over running sums, and the others by frames over the union
of events and labels (`RANGE BETWEEN`, `rolling_..._by`). Each way reads the same Parquet files and runs in a process
of its own, one after the other; the time is that from tables in memory to a table in memory, and memory is the peak of
the process. The columns of all ways must have the same sums, or the program ends with an error.

With --spark, Panewise on Spark stands beside hand-written Spark (`_training_spark.py`). With --memory-limit, Panewise
runs once more with it, and reads the events in pieces (the way `limited`). `ratio` is the time of a way beside that
of the first way, `of_uniform` beside the same way with uniform keys. A way that takes longer than --most-s is ended,
and its ratio is what it is at least.

Prints a JSON line per way with --json, a table otherwise. Run: panewise bench training --json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HOUR_US = 3_600_000_000
START_US = 1_767_225_600_000_000
SPAN_US = 90 * 24 * HOUR_US
KEYS = ("card", "merchant")
DISTRIBUTIONS = ("uniform", "zipf", "hot")
HOT_SHARE = 0.3
TOLERANCE = 1e-9
STREAM = """
CREATE STREAM payments (ts TIMESTAMP, card BIGINT, merchant BIGINT, amount DOUBLE) TIMESTAMP BY ts;
"""


def ranges_us(windows: int) -> list[int]:
    """The ranges of one key's windows, from an hour to thirty days."""
    return [int(HOUR_US * 720 ** (place / max(1, windows - 1))) for place in range(windows)]


def drawn_keys(random: np.random.Generator, count: int, keys: int, distribution: str) -> npt.NDArray[np.int64]:
    """The key of each payment."""
    if distribution == "zipf":
        shares = 1.0 / np.arange(1, keys + 1) ** 1.3
        return random.choice(keys, count, p=shares / shares.sum()).astype(np.int64)
    drawn = random.integers(0, keys, count)
    if distribution == "hot":
        drawn[random.random(count) < HOT_SHARE] = 0
    return drawn


def write_data(folder: Path, arguments: argparse.Namespace, distribution: str) -> None:
    """Payments in the order of time, and labels in no order."""
    random = np.random.default_rng(7)
    count = arguments.events
    payments = pa.table(
        {
            "ts": np.sort(random.integers(START_US, START_US + SPAN_US, count)),
            "card": drawn_keys(random, count, arguments.cards, distribution),
            "merchant": drawn_keys(random, count, arguments.merchants, distribution),
            "amount": np.round(random.lognormal(3.0, 1.0, count), 2),
        }
    )
    chosen = random.permutation(count)[: arguments.labels]
    pq.write_table(payments, folder / "payments.parquet")
    labels = payments.take(pa.array(chosen)).drop_columns("amount")
    pq.write_table(labels.append_column("id", pa.array(np.arange(len(chosen)))), folder / "labels.parquet")


def payments_workload(windows: int, holistic: bool = False) -> str:
    """The statements for so many windows of each key."""
    select = "MEDIAN(amount) AS median, COUNT(DISTINCT merchant) AS merchants"
    if not holistic:
        select = "COUNT(*) AS count, SUM(amount) AS sum, AVG(amount) AS avg, MAX(amount) AS max"
    return STREAM + "".join(
        f"CREATE QUERY {key}_{place} AS SELECT {select} FROM payments [RANGE {length} MICROSECONDS] GROUP BY {key};\n"
        for key in (KEYS[:1] if holistic else KEYS)
        for place, length in enumerate(ranges_us(windows))
    )


# The ways. Each returns sums of its columns, by name.


def panewise_way(folder: Path, windows: int, holistic: bool) -> tuple[float, dict[str, float]]:
    import panewise

    payments, labels = pq.read_table(folder / "payments.parquet"), pq.read_table(folder / "labels.parquet")
    workload = panewise.read(payments_workload(windows, holistic))
    # Kernels are compiled, or read from the cache, once in the life of a program.
    panewise.training_set(labels.slice(0, 10), payments.slice(0, 10), workload)
    start = time.perf_counter()
    result = panewise.training_set(labels, payments, workload)
    seconds = time.perf_counter() - start
    return seconds, {name.replace("__", "_"): _sum(result.column(name)) for name in result.column_names[4:]}


def limited_way(folder: Path, windows: int, holistic: bool) -> tuple[float, dict[str, float]]:
    """As `panewise_way`, with a memory limit, from the disk: the events are never in memory as a whole."""
    import pyarrow.dataset

    import panewise

    labels = pq.read_table(folder / "labels.parquet")
    workload = panewise.read(payments_workload(windows, holistic))
    payments = pyarrow.dataset.dataset(folder / "payments.parquet")
    panewise.training_set(labels.slice(0, 10), payments.head(10), workload)
    limit = int(os.environ[LIMIT])
    start = time.perf_counter()
    result = panewise.training_set(labels, payments, workload, memory_limit=limit)
    seconds = time.perf_counter() - start
    return seconds, {name.replace("__", "_"): _sum(result.column(name)) for name in result.column_names[4:]}


def duckdb_way(folder: Path, windows: int, holistic: bool) -> tuple[float, dict[str, float]]:
    import duckdb

    base = duckdb.connect()
    base.execute(f"SET temp_directory = '{folder}/duckdb'")
    base.execute(f"CREATE TABLE payments AS FROM '{folder}/payments.parquet'")
    base.execute(f"CREATE TABLE labels AS FROM '{folder}/labels.parquet'")
    ranges = list(enumerate(ranges_us(windows)))
    tables = []
    start = time.perf_counter()
    for key in KEYS[:1] if holistic else KEYS:
        other = KEYS[1] if holistic else "NULL"
        functions = {"max": "max(amount)"}
        if holistic:
            functions = {"median": "quantile_disc(amount, 0.5)", "merchants": f"count(DISTINCT {other})"}
        else:
            base.execute(
                f"CREATE OR REPLACE TEMP TABLE running AS SELECT DISTINCT {key} AS k, ts, sum(amount) OVER w AS s, "
                f"count(*) OVER w AS c FROM payments WINDOW w AS (PARTITION BY {key} ORDER BY ts)"
            )
            joins = " ".join(
                f"ASOF LEFT JOIN running r{place} ON l.{key} = r{place}.k AND l.ts - {length} > r{place}.ts"
                for place, length in ranges
            )
            sums = ", ".join(
                f"coalesce(e.c, 0) - coalesce(r{place}.c, 0) AS c{place}, "
                f"coalesce(e.s, 0) - coalesce(r{place}.s, 0) AS s{place}"
                for place, _ in ranges
            )
            shown = ", ".join(
                f"nullif(c{place}, 0) AS {key}_{place}_count, if(c{place} > 0, s{place}, NULL) AS {key}_{place}_sum, "
                f"if(c{place} > 0, s{place} / c{place}, NULL) AS {key}_{place}_avg"
                for place, _ in ranges
            )
            joined = f"labels l ASOF LEFT JOIN running e ON l.{key} = e.k AND l.ts > e.ts {joins}"
            tables.append(base.sql(f"SELECT id, {shown} FROM (SELECT l.id, {sums} FROM {joined})").to_arrow_table())
        frames = ", ".join(
            f"{call} OVER (PARTITION BY {key} ORDER BY ts RANGE BETWEEN {length} PRECEDING AND 1 PRECEDING) "
            f"AS {key}_{place}_{name}"
            for place, length in ranges
            for name, call in functions.items()
        )
        union = (
            f"SELECT {key}, ts, amount, {other} AS {KEYS[1] if holistic else 'unused'}, NULL AS id FROM payments "
            f"UNION ALL SELECT {key}, ts, NULL, NULL, id FROM labels"
        )
        tables.append(base.sql(f"SELECT id, {frames} FROM ({union}) QUALIFY id IS NOT NULL").to_arrow_table())
    seconds = time.perf_counter() - start
    return seconds, {name: _sum(table.column(name)) for table in tables for name in table.column_names[1:]}


def polars_way(folder: Path, windows: int, holistic: bool) -> tuple[float, dict[str, float]]:
    import polars as pl

    payments, labels = pl.read_parquet(folder / "payments.parquet"), pl.read_parquet(folder / "labels.parquet")
    ranges = list(enumerate(ranges_us(windows)))
    frames = []
    start = time.perf_counter()
    for key in KEYS[:1] if holistic else KEYS:
        union = pl.concat([payments, labels.with_columns(amount=pl.lit(None, pl.Float64))], how="diagonal").sort("ts")
        if holistic:
            frames += [_polars_holistic(pl, union, key, place, length) for place, length in ranges]
            continue
        frames.append(
            union.with_columns(
                pl.col("amount").rolling_max_by("ts", f"{length}i", closed="left").over(key).alias(f"{key}_{place}_max")
                for place, length in ranges
            ).filter(pl.col("id").is_not_null())
        )
        running = (
            payments.sort("ts")
            .select(key, "ts", s=pl.col("amount").cum_sum().over(key), c=pl.col("amount").cum_count().over(key))
            .unique([key, "ts"], keep="last", maintain_order=True)
        )
        ordered = labels.sort("ts")
        joining = {"by": key, "strategy": "backward", "allow_exact_matches": False, "check_sortedness": False}
        now = ordered.join_asof(running, on="ts", **joining)
        for place, length in ranges:
            then = ordered.with_columns(ts=pl.col("ts") - length).join_asof(running, on="ts", **joining)
            count = now["c"].fill_null(0).cast(pl.Int64) - then["c"].fill_null(0).cast(pl.Int64)
            total = now["s"].fill_null(0.0) - then["s"].fill_null(0.0)
            some = count > 0
            name = f"{key}_{place}"
            parts = pl.DataFrame({"some": some, "c": count, "s": total})
            frames.append(
                parts.select(
                    pl.when("some").then("c").alias(f"{name}_count"),
                    pl.when("some").then("s").alias(f"{name}_sum"),
                    pl.when("some").then(pl.col("s") / pl.col("c")).alias(f"{name}_avg"),
                )
            )
    seconds = time.perf_counter() - start
    sums = {}
    for frame in frames:
        sums |= {name: _sum(frame[name].to_arrow()) for name in frame.columns if name.startswith(KEYS) and "_" in name}
    return seconds, sums


def _polars_holistic(pl: Any, union: Any, key: str, place: int, length: int) -> Any:
    rolled = union.rolling("ts", period=f"{length}i", closed="left", group_by=key).agg(
        pl.col("amount").quantile(0.5, "lower").alias(f"{key}_{place}_median"),
        pl.col("merchant").filter(pl.col("amount").is_not_null()).n_unique().alias(f"{key}_{place}_merchants"),
        pl.col("amount").count().alias("seen"),
    )
    ids = union.sort(key, "ts", maintain_order=True)["id"]
    rolled = rolled.sort(key, "ts", maintain_order=True).with_columns(id=ids).filter(pl.col("id").is_not_null())
    return rolled.with_columns(
        pl.when(pl.col("seen") > 0).then(f"{key}_{place}_merchants").alias(f"{key}_{place}_merchants")
    )


def _sum(column: Any) -> float:
    return float(pc.sum(column.cast(pa.float64())).as_py() or 0.0)


WAYS: dict[str, Callable[[Path, int, bool], tuple[float, dict[str, float]]]] = {
    "panewise": panewise_way,
    "limited": limited_way,
    "duckdb": duckdb_way,
    "polars": polars_way,
}
LIMIT = "PANEWISE_BENCH_MEMORY_LIMIT"
ON_SPARK = ("spark", "spark_frames", "spark_join")


def way_of(name: str) -> Callable[[Path, int, bool], tuple[float, dict[str, float]]]:
    """A way by its name."""
    if name in WAYS:
        return WAYS[name]
    from _training_spark import spark_way

    return spark_way(name)


def measured(way: str, folder: Path, windows: int, holistic: bool, most_s: float | None) -> dict[str, Any] | None:
    """Run one way in a process of its own; None if it takes too long."""
    command = [sys.executable, __file__, "--way", way, "--folder", str(folder), "--windows", str(windows)]
    command += ["--holistic"] if holistic else []
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=most_s)
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A line for each set, distribution and way; the sums of all ways must agree."""
    small = argparse.Namespace(
        **{**vars(arguments), "events": arguments.events // 10, "labels": arguments.labels // 10}
    )
    name_of_sums = "spark" if arguments.spark else "sums"
    sets = [(name_of_sums, distribution, arguments, arguments.windows // 2) for distribution in arguments.keys]
    if not arguments.spark:
        sets += [("holistic", one, small, 4) for one in ("uniform", "zipf") if one in arguments.keys]
    sets = [one for one in sets if arguments.sets is None or one[0] in arguments.sets]
    known = ON_SPARK if arguments.spark else tuple(way for way in WAYS if way != "limited" or arguments.memory_limit)
    ways = [way for way in known if arguments.ways is None or way in arguments.ways]
    uniform: dict[tuple[str, str], float] = {}
    for name, distribution, sizes, windows in sets:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            write_data(folder, sizes, distribution)
            data_mb = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
            wanted: dict[str, Any] = {}
            for way in ways:
                found = measured(way, folder, windows, name == "holistic", arguments.most_s)
                if found is None:
                    least = None if not wanted else round(arguments.most_s / wanted["seconds"], 2)
                    yield {
                        **{"set": name, "keys": distribution, "way": way, "events": sizes.events},
                        **{"labels": sizes.labels, "more_than_s": arguments.most_s, "ratio_at_least": least},
                    }
                    continue
                wanted = wanted or found
                if distribution == "uniform":
                    uniform[name, way] = found["seconds"]
                beside = uniform.get((name, way))
                _check(name, distribution, way, found["sums"], wanted["sums"])
                yield {
                    "set": name,
                    "keys": distribution,
                    "way": way,
                    "events": sizes.events,
                    "labels": sizes.labels,
                    "columns": len(found["sums"]),
                    "seconds": round(found["seconds"], 3),
                    "ratio": round(found["seconds"] / wanted["seconds"], 2),
                    "of_uniform": None if beside is None else round(found["seconds"] / beside, 2),
                    "peak_mb": round(found["peak_mb"]),
                    "data_mb": round(data_mb),
                }


def peak_mb() -> float:
    """The peaks of this process and of those that it has started, Java and workers, together."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    parents: dict[int, tuple[int, float]] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue  # It has ended meanwhile.
        peak = fields.get("VmHWM", "0 kB").split()[0]
        parents[int(status.parent.name)] = int(fields["PPid"]), int(peak) / 1024
    mine, found = {os.getpid()}, own
    while more := {one for one, (parent, _) in parents.items() if parent in mine and one not in mine}:
        found += sum(parents[one][1] for one in more)
        mine |= more
    return found


def _check(name: str, distribution: str, way: str, sums: dict[str, float], wanted: dict[str, float]) -> None:
    if sums.keys() != wanted.keys():
        raise SystemExit(f"{name}, {distribution}: {way} has other columns: {sorted(sums.keys() ^ wanted.keys())[:5]}")
    for column, value in sums.items():
        if abs(value - wanted[column]) > TOLERANCE * max(1.0, abs(wanted[column])):
            raise SystemExit(f"{name}, {distribution}: {column} of {way} sums up to {value}, not {wanted[column]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--windows", type=int, default=50, help="half of them by card, half by merchant")
    parser.add_argument("--cards", type=int, default=100_000)
    parser.add_argument("--merchants", type=int, default=10_000)
    parser.add_argument("--keys", nargs="+", choices=DISTRIBUTIONS, default=list(DISTRIBUTIONS))
    parser.add_argument("--sets", nargs="+", choices=["sums", "holistic", "spark"], help="only these sets")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, *ON_SPARK], help="only these ways")
    parser.add_argument("--memory-limit", type=int, help="bytes for the way `limited`, which runs only with this")
    parser.add_argument("--most-s", type=float, help="end a way that takes longer, with its start")
    parser.add_argument("--spark", action="store_true", help="Panewise on Spark beside hand-written Spark instead")
    parser.add_argument("--way", choices=[*WAYS, *ON_SPARK], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--holistic", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        seconds, sums = way_of(arguments.way)(arguments.folder, arguments.windows, arguments.holistic)
        print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), "sums": sums}))
        return
    if arguments.memory_limit:
        os.environ[LIMIT] = str(arguments.memory_limit)
    if arguments.quick:
        arguments.events, arguments.labels, arguments.windows = 20_000, 2_000, 4
        arguments.cards, arguments.merchants = 200, 50
    for line in lines(arguments):
        print(json.dumps(line) if arguments.json else _text(line), flush=True)


def _text(line: dict[str, Any]) -> str:
    place = f"{line['set']:9} {line['keys']:8} {line['way']:12}"
    if "more_than_s" in line:
        return f"{place} more than {line['more_than_s']:g} s"
    return f"{place} {line['seconds']:9.3f} s  {line['ratio']:7.2f} times  {line['peak_mb']:6} MB"


if __name__ == "__main__":
    main()
