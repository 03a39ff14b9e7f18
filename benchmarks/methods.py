"""Methods of sharing as they are executed: predicted operations beside measured seconds, in the engine.

A grid of methods, numbers of queries, keys and rates. Each cell runs the same events through an engine whose trees one
method has chosen, and counts the CPU seconds of pushing and advancing. `order_agrees` tells, for a cell of the grid,
how many pairs of methods were measured in the order that was predicted; pairs within --alike of each other agree.

Prints a JSON line per run and one per cell with --json.
Run: panewise bench methods --json
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations, product
from typing import Any

import numpy as np

import panewise

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;"
METHODS = ["no_share", "shared", "insert_then_weave", "local_search_from_no_share", "weave_share"]


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
    predicted = panewise.optimize(workload, rate=rate, groups=groups, method=method)
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
    return {
        "bench": "methods",
        "method": method,
        "queries": len(workload.queries),
        "keys": keys,
        "rate": rate,
        "trees": len(predicted.trees),
        "predicted_operations_per_s": predicted.cost,
        "measured_seconds": took,
    }


def agreement(lines: list[dict[str, Any]], alike: float) -> dict[str, Any]:
    """How many pairs of methods were measured in the order that was predicted."""

    def order(one: float, other: float) -> int:
        return 0 if max(one, other) <= (1 + alike) * min(one, other) else 1 if one > other else -1

    agreeing = [
        order(one["predicted_operations_per_s"], other["predicted_operations_per_s"])
        * order(one["measured_seconds"], other["measured_seconds"])
        >= 0
        for one, other in combinations(lines, 2)
    ]
    cell = {name: lines[0][name] for name in ("queries", "keys", "rate")}
    return {"bench": "methods", "experiment": "order", **cell, "pairs": len(agreeing), "order_agrees": sum(agreeing)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench methods", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--queries", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--keys", type=int, nargs="+", default=[0, 100, 10_000], help="0 for queries without GROUP BY")
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 50_000], help="events a second")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of events")
    parser.add_argument("--alike", type=float, default=0.1, help="differences up to this share do not count")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.methods, options.queries, options.keys = ["no_share", "weave_share"], [5], [0, 3]
        options.rates, options.seconds = [50], 10
    for size, keys, rate in product(options.queries, options.keys, options.rates):
        workload = workload_of(size, keys, options.seed)
        lines = [run(workload, one, keys, rate, options.seconds, options.seed) for one in options.methods]
        for line in [*lines, agreement(lines, options.alike)]:
            text = json.dumps(line) if options.json else "  ".join(f"{name} {value}" for name, value in line.items())
            print(text, flush=True)


if __name__ == "__main__":
    main()
