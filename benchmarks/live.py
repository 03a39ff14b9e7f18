"""Queries that come and go: a plan's cost beside a fresh one, the time of a change, and windows that are lost.

An engine starts with some tumbling and sliding queries. Then events flow, and between two seconds of them a Poisson
number of queries comes and goes. Now and then some have a WHERE clause that no base has, so they need bases of their
own, and the plan drifts. `ratio` is the cost of all that is at work over that of a fresh plan, after each
second (or every so many). If queries wait to move over to a new plan, as sessions do, the old one is still at work too:
such seconds are counted apart. Times of changes are by the clock, `work` is the processor's. `windows_lost` counts
answers of windows that a query has seen whole and did not report, against an engine that had all queries from the start
(up to --check queries).

Prints a JSON line per number of queries with --json.
Run: panewise bench live --json
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import panewise

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;"
SLIDES = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15]
PREDICATES = 5
"""So many WHERE clauses are in use at a time."""


def statement(number: int, random: np.random.Generator, later: int) -> str:
    """A query with a random slide and a range of one or two slides, sometimes a broken number of them.

    `later` is how many queries come while others that use a WHERE clause stay: then a new clause comes into use.
    """
    slide = int(random.choice(SLIDES))
    length = int(random.integers(slide, 2 * slide + 1))
    window = f"[RANGE {length} SECONDS SLIDE {slide} SECONDS]"
    least = later + int(random.integers(PREDICATES))
    return f"CREATE QUERY q{number} AS SELECT k, SUM(x), COUNT(*) FROM s {window} WHERE x > {least} GROUP BY k;"


def events(second: int, random: np.random.Generator, per_second: int) -> dict[str, Any]:
    keys = random.integers(0, 10, per_second)
    return {
        "t": second * US + np.sort(random.integers(0, US, per_second)),
        "k": [f"k{key}" for key in keys.tolist()],
        "x": random.integers(0, 100, per_second),
    }


def measure(size: int, options: argparse.Namespace) -> dict[str, Any]:
    random = np.random.default_rng(options.seed)
    texts = {number: statement(number, random, 0) for number in range(size)}
    engine = panewise.Engine(STREAM + "".join(texts.values()), rate=options.rate, tolerance=options.tolerance)
    alive = list(range(size))
    took: dict[str, list[float]] = {"add": [], "remove": []}
    worked: dict[str, list[float]] = {"add": [], "remove": []}
    ratios: list[float] = []
    moving: list[float] = []
    found: set[tuple[str, ...]] = set()
    expected: list[tuple[int, dict[str, int | None]]] = []
    flow = np.random.default_rng(options.seed + 1)
    for second in range(options.seconds):
        for _ in range(int(random.poisson(options.changes))):
            number = len(texts)
            texts[number] = statement(number, random, (number - size) // options.shift + 1)
            gone = alive.pop(int(random.integers(len(alive))))
            for what, change, named in (("add", engine.add, texts[number]), ("remove", engine.remove, f"q{gone}")):
                began, began_work = time.perf_counter(), time.thread_time()
                change(named)
                took[what].append(time.perf_counter() - began)
                worked[what].append(time.thread_time() - began_work)
            alive.append(number)
        engine.push("s", events(second, flow, options.per_second))
        closed = engine.advance("s", (second + 1) * US)
        if size <= options.check:
            found |= keys_of(closed)
            expected.append((second, {f"q{number}": engine.exact_from(f"q{number}") for number in alive}))
        if second % options.every == 0:
            state = engine._streams["s"]
            is_moving = any(generation.waits for generation in state.generations)
            (moving if is_moving else ratios).append(state.cost / state.fresh_cost)
    line = {
        "bench": "live",
        "queries": size,
        "changes": sum(map(len, took.values())),
        "tolerance": options.tolerance,
        "mean_ratio": float(np.mean(ratios)) if ratios else None,
        "greatest_ratio": max(ratios, default=None),
        "seconds_compared": len(ratios),
        "seconds_compared_while_moving": len(moving),
        "mean_ratio_while_moving": float(np.mean(moving)) if moving else None,
        "greatest_ratio_while_moving": max(moving, default=None),
        "replans": engine._streams["s"].replans,
        "trees": sum(len(generation.trees) for generation in engine._streams["s"].generations),
    }
    for what, seconds in took.items():
        line[f"{what}_median_ms"] = 1000 * float(np.median(seconds))
        line[f"{what}_p99_ms"] = 1000 * float(np.quantile(seconds, 0.99))
        line[f"{what}_longest_ms"] = 1000 * max(seconds)
        line[f"{what}_p99_work_ms"] = 1000 * float(np.quantile(worked[what], 0.99))
    if size <= options.check:
        line["windows_lost"] = len(missed(texts, found, expected, options))
        line["answers"] = len(found)
    return line


def keys_of(closed: panewise.Answers) -> set[tuple[str, ...]]:
    """Every answer of an advance: query, window and values."""
    table = closed.long().select(["query", "window_start", "k", "aggregate", "value"])
    return set(zip(*(map(str, table.column(name).to_pylist()) for name in table.column_names)))


def missed(texts: dict[int, str], found: set[Any], expected: list[Any], options: argparse.Namespace) -> set[Any]:
    """The answers of an engine that had all queries from the start which queries that saw the window did not give."""
    engine = panewise.Engine(STREAM + "".join(texts.values()), rate=options.rate)
    flow = np.random.default_rng(options.seed + 1)
    lost: set[Any] = set()
    for second, exact_from in expected:
        engine.push("s", events(second, flow, options.per_second))
        for name, table in engine.advance("s", (second + 1) * US).tables.items():
            if name not in exact_from or not table.num_rows:
                continue
            first = exact_from[name]
            starts = np.asarray(table.column("window_start").cast("int64"))
            seen = np.ones(len(starts), np.bool_) if first is None else starts >= first
            rows = table.filter(seen)
            for label in ("SUM(x)", "COUNT(*)"):
                columns = [rows.column(one).to_pylist() for one in ("window_start", "k", label)]
                lost |= {(name, str(s), str(k), label, str(float(v))) for s, k, v in zip(*columns)} - found
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench live", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--queries", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--seconds", type=int, default=300, help="seconds of events")
    parser.add_argument("--changes", type=float, default=5.0, help="queries that come, and that go, in a second")
    parser.add_argument("--per-second", type=int, default=50, help="events a second that are pushed")
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second that queries are planned for")
    parser.add_argument("--tolerance", type=float, default=0.2)
    parser.add_argument("--check", type=int, default=1000, help="compare the answers of up to this many queries")
    parser.add_argument("--every", type=int, default=1, help="compare with a fresh plan after so many seconds")
    parser.add_argument("--shift", type=int, default=400, help="a new WHERE clause comes after so many queries")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.queries, options.seconds, options.changes, options.shift = [30], 80, 2.0, 40
    for size in options.queries:
        line = measure(size, options)
        if options.json:
            print(json.dumps(line), flush=True)
        else:
            print("  ".join(f"{name} {value}" for name, value in line.items() if name != "bench"), flush=True)
        if line.get("windows_lost"):
            raise SystemExit(f"{line['windows_lost']} windows were lost")


if __name__ == "__main__":
    main()
