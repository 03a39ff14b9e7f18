"""Methods of sharing as they are executed: predicted beside measured seconds, in the engine and on Spark.

A grid of methods, numbers of queries, keys and rates. Each cell runs the same events through an engine whose trees one
method has chosen, and counts the CPU seconds of pushing and advancing, second by second. `predicted_seconds` are those
of the cost model with the numbers of `panewise calibrate`: the work of the plan, without what a push costs under any
plan. `order_agrees` tells, for a cell of the grid, how many pairs of methods were measured in the order that was
predicted; pairs within --alike of each other agree. Exhaustive search runs where there are few enough edge sets.

With --spark, one row of the grid runs as a batch on Spark too, and counts seconds by the clock, without the first run.

Prints a JSON line per run and one per cell with --json.
Run: panewise bench methods --json
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations, product
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import panewise
from panewise.aggregates.components import Kind
from panewise.planning.calibration import weights_for
from panewise.planning.cost import Prices
from panewise.planning.sharing import Queries
from panewise.planning.sharing.exhaustive import MOST_EDGE_SETS
from panewise.planning.sharing.names import METHODS

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;"
SPARK_SECONDS = 600
"""How many seconds of events the batch on Spark has, and at which rate."""
SPARK_RATE = 2000


def workload_of(size: int, keys: int, seed: int) -> panewise.Workload:
    """Queries with slides of 1 to 30 seconds and ranges of one to eight slides; grouped if there are keys."""
    random = np.random.default_rng(seed)
    slides = random.choice([1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30], size)
    columns = {
        "name": [f"q{place}" for place in range(size)],
        "length": (slides * random.integers(1, 9, size)).tolist(),
        "slide": slides.tolist(),
    }
    select, ending = ("k, SUM(x)", " GROUP BY k") if keys else ("SUM(x)", "")
    row = f"CREATE QUERY {{name}} AS SELECT {select} FROM s [RANGE {{length}} SECONDS SLIDE {{slide}} SECONDS]{ending}"
    return panewise.fill(row, columns, panewise.read(STREAM))


def run(workload: panewise.Workload, method: str, keys: int, rate: int, seconds: int, seed: int) -> dict[str, Any]:
    groups = {"k": keys} if keys else {}
    engine = panewise.Engine(workload, rate=rate, groups=groups, method=method, tolerance=float("inf"))
    random = np.random.default_rng(seed)
    took = 0.0
    for second in range(seconds + 1):
        times = second * US + np.sort(random.integers(0, US, rate))
        events = {"t": times, "k": random.integers(0, max(keys, 1), rate), "x": random.integers(0, 100, rate)}
        began = time.process_time()
        engine.push("s", events)
        engine.advance("s", (second + 1) * US)
        # The first second compiles, or loads what was compiled before.
        took += time.process_time() - began if second else 0.0
    return line_of("engine", workload, method, keys, rate, seconds, took)


def line_of(
    where: str, workload: panewise.Workload, method: str, keys: int, rate: int, seconds: int, took: float
) -> dict[str, Any]:
    """What a plan was predicted to cost, and what it took."""
    known = {"rate": rate, "groups": {"k": keys} if keys else {}, "method": method, "in_bulk": where == "spark"}
    plan = panewise.optimize(workload, **known)
    measured = panewise.optimize(workload, **known, weights=weights_for([Kind.ROWS, Kind.SUM_INT]))
    # Planned with other weights the trees may differ; these are priced as they are.
    prices = Prices(rate, measured.weights, known["groups"], known["in_bulk"])
    nanoseconds_per_s = sum(prices.stream(stream) for stream in plan.streams.values())
    return {
        "bench": "methods",
        "where": where,
        "method": method,
        "queries": len(workload.queries),
        "keys": keys,
        "rate": rate,
        "trees": len(plan.trees),
        "predicted_operations_per_s": plan.cost,
        "predicted_seconds": nanoseconds_per_s * seconds / 1e9,
        "measured_seconds": took,
    }


def run_on_spark(workload: panewise.Workload, methods: list[str], keys: int, seed: int) -> list[dict[str, Any]]:
    """Each method's plan over the same batch of events; the fastest of two runs behind one that warms up."""
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    from panewise import spark as panewise_spark

    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    settings = panewise_spark.SETTINGS | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    random = np.random.default_rng(seed)
    count = SPARK_SECONDS * SPARK_RATE
    times = pa.array(np.sort(random.integers(0, SPARK_SECONDS * US, count)), pa.timestamp("us", "UTC"))
    columns = {"t": times, "k": random.integers(0, max(keys, 1), count), "x": random.integers(0, 100, count)}
    lines = []
    with TemporaryDirectory() as folder:
        pq.write_table(pa.table(columns), f"{folder}/events.parquet")
        events = session.read.parquet(f"{folder}/events.parquet")
        groups = {"k": keys} if keys else {}
        for method in methods:
            answers = panewise_spark.answers(events, workload, rate=SPARK_RATE, groups=groups, method=method)
            took = []
            for _ in range(3):
                began = time.perf_counter()
                answers.write.format("noop").mode("overwrite").save()
                took.append(time.perf_counter() - began)
            lines.append(line_of("spark", workload, method, keys, SPARK_RATE, SPARK_SECONDS, min(took[1:])))
    session.stop()
    return lines


def agreement(lines: list[dict[str, Any]], alike: float) -> dict[str, Any]:
    """How many pairs of methods were measured in the order that was predicted."""

    def order(one: float, other: float) -> int:
        return 0 if max(one, other) <= (1 + alike) * min(one, other) else 1 if one > other else -1

    agreeing = [
        order(one["predicted_seconds"], other["predicted_seconds"])
        * order(one["measured_seconds"], other["measured_seconds"])
        >= 0
        for one, other in combinations(lines, 2)
    ]
    cell = {name: lines[0][name] for name in ("where", "queries", "keys", "rate")}
    return {"bench": "methods", "experiment": "order", **cell, "pairs": len(agreeing), "order_agrees": sum(agreeing)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench methods", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--queries", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--keys", type=int, nargs="+", default=[0, 100, 10_000], help="0 for queries without GROUP BY")
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 50_000], help="events a second")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of events")
    parser.add_argument("--spark", action="store_true", help="also run a row on Spark: the first keys and queries")
    parser.add_argument("--alike", type=float, default=0.1, help="differences up to this share do not count")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.methods, options.queries, options.keys = ["no_share", "weave_share"], [5], [0, 3]
        options.rates, options.seconds = [50], 10
    for size, keys, rate in product(options.queries, options.keys, options.rates):
        workload = workload_of(size, keys, options.seed)
        methods = executable(options.methods, workload)
        lines = [run(workload, one, keys, rate, options.seconds, options.seed) for one in methods]
        show([*lines, agreement(lines, options.alike)], options)
    if options.spark:
        workload = workload_of(options.queries[0], options.keys[0], options.seed)
        lines = run_on_spark(workload, executable(options.methods, workload), options.keys[0], options.seed)
        show([*lines, agreement(lines, options.alike)], options)


def executable(methods: list[str], workload: panewise.Workload) -> list[str]:
    """The methods that can plan a workload."""
    windows = Queries.of_windows([query.window for query in workload.queries.values()])
    return [one for one in methods if one != "exhaustive" or len(windows.classes) <= MOST_EDGE_SETS]


def show(lines: list[dict[str, Any]], options: argparse.Namespace) -> None:
    for line in lines:
        text = json.dumps(line) if options.json else "  ".join(f"{name} {value}" for name, value in line.items())
        print(text, flush=True)


if __name__ == "__main__":
    main()
