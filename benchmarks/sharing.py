"""Response time of TimeGram, OrderedSharing, B-INT and R-INT beside the naive approach of STREAM, as in TR1536.

One core. A stream of doubles, queries with random windows of up to `--largest` elements, and a lookup after a number of
updates: the update-to-lookup ratio. A lookup asks one query, each in its turn; in section `all` it asks every query,
the largest first. Everything starts with full windows. `seconds` is the time for all events and lookups; the naive
approach evaluates every query at every event whatever the ratio, and is stopped after `--limit` seconds: then its time
is extrapolated and flagged. B-INT, R-INT and TimeGram answer the lookups of 10,000 events in one call, over the
positions that each lookup had; the answers equal those of lookups in between, and are compared with B-INT's.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench sharing --json
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.structures import build
from panewise.structures.ordered_sharing import OrderedSharing
from panewise.structures.rivals.stream_naive import StreamNaive
from panewise.structures.timegram import TimeGram

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

RATIOS = [1, 10, 100, 1_000, 10_000]
QUERIES = [1, 10, 100, 1_000, 10_000]
USUAL_RATIO, USUAL_QUERIES = 100, 1_000
BUCKETS = [16, 64, 256]
CHUNK = 10_000
MOST_EVENTS_FOR_ALL = 100_000
"""In section `all` there are a million lookups at 100:1 with this many events."""
DATA = ["uniform", "gaussian", "drifting"]
ALGORITHMS = {
    "MAX": ["base_intervals", "naive", "timegram-16", "timegram-64", "timegram-256", "ordered_sharing"],
    "SUM": ["base_intervals", "naive", "timegram-16", "timegram-64", "timegram-256", "running_intervals"],
}
"""B-INT comes first: the others are compared with its answers."""


@dataclass(frozen=True)
class Case:
    """What is measured: the stream, the windows, and which window is looked up after how many events."""

    data: str
    queries: int
    ratio: int
    asks_all: bool
    before: Floats
    events: Floats
    sizes: Ints
    after: Ints
    widths: Ints

    @property
    def largest(self) -> int:
        return int(self.sizes.max())


@dataclass(frozen=True)
class Run:
    """One measurement: the time for each event, the answers, and what else is worth showing."""

    seconds_per_event: float
    low: Floats | None = None
    high: Floats | None = None
    shown: tuple[tuple[str, Any], ...] = ()


class Output:
    """Prints measurements as they come."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def emit(self, section: str, **fields: Any) -> None:
        rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in fields.items()}
        if self._as_json:
            print(json.dumps({"bench": "sharing", "section": section, **rounded}), flush=True)
        else:
            print(f"{section:8}", "  ".join(f"{k} {v}" for k, v in rounded.items()), flush=True)


def stream(data: str, count: int, seed: int) -> Floats:
    """Values: uniform, or normal with most of them in [-20, 20], or normal around a mean that moves on."""
    random = np.random.default_rng(seed)
    if data == "uniform":
        return random.uniform(-20.0, 20.0, count)
    values = random.normal(0.0, 7.0, count)
    return values if data == "gaussian" else values + np.arange(count) * 0.005


def make_case(data: str, queries: int, ratio: int, events: int, largest: int, seed: int, asks_all: bool) -> Case:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, largest + 1, queries)
    sizes[0] = largest
    values = stream(data, largest + events, seed)
    after = np.arange(ratio, events + 1, ratio, dtype=np.int64)
    order = random.permutation(sizes)
    if asks_all:
        widths = np.tile(np.sort(sizes)[::-1], len(after))
        after = np.repeat(after, queries)
    else:
        widths = order[np.arange(len(after)) % queries]
    return Case(data, queries, ratio, asks_all, values[:largest], values[largest:], sizes, after, widths)


def run_naive(case: Case, aggregate: str, limit_s: float) -> Run:
    naive = StreamNaive(aggregate, case.sizes.tolist())
    naive.update(case.before)
    piece = max(1, min(CHUNK, 2_000_000 // case.queries))
    done, began = 0, time.perf_counter()
    while done < len(case.events) and time.perf_counter() - began < limit_s:
        naive.update(case.events[done : done + piece])
        done = min(done + piece, len(case.events))
    seconds = time.perf_counter() - began
    shown = (("extrapolated", done < len(case.events)), ("events_run", done))
    return Run(seconds / done, shown=shown)


def run_ordered_sharing(case: Case) -> Run:
    sharing = OrderedSharing("MAX", case.sizes.tolist())
    sharing.update(case.before)
    sharing.lookup(np.unique(case.sizes))
    before = sharing.recalculations
    began = time.perf_counter()
    answers = sharing.replay(case.events, case.after, case.widths)
    seconds = time.perf_counter() - began
    recalculations = sharing.recalculations - before
    shown = (("recalculations", recalculations), ("recalculated", recalculations / max(1, len(case.widths))))
    return Run(seconds / len(case.events), np.ma.getdata(answers), np.ma.getdata(answers), shown)


def run_by_ranges(case: Case, structure: Any, *arguments: str) -> Run:
    """The lookups of a chunk after its updates, over the positions that each had."""
    structure.hold(case.largest + CHUNK)
    structure.update(case.before)
    low, high = np.empty(len(case.widths)), np.empty(len(case.widths))
    began = time.perf_counter()
    asked = 0
    for start in range(0, len(case.events), CHUNK):
        structure.update(case.events[start : start + CHUNK])
        until = int(np.searchsorted(case.after, start + CHUNK, side="right"))
        if until == asked:
            continue
        ends = len(case.before) + case.after[asked:until]
        found = structure.lookup_ranges(ends - case.widths[asked:until], ends, *arguments)
        low[asked:until], high[asked:until] = found if isinstance(found, tuple) else (found, found)
        asked = until
    return Run((time.perf_counter() - began) / len(case.events), low, high)


def run(case: Case, algorithm: str, aggregate: str, limit_s: float) -> Run:
    if algorithm == "naive":
        return run_naive(case, aggregate, limit_s)
    if algorithm == "ordered_sharing":
        return run_ordered_sharing(case)
    if algorithm.startswith("timegram-"):
        measured = run_by_ranges(case, TimeGram(int(algorithm.split("-")[1])), aggregate)
        assert measured.low is not None
        assert measured.high is not None
        return replace(measured, shown=(("mean_width", float(np.mean(measured.high - measured.low))),))
    return run_by_ranges(case, build(algorithm, aggregate))


def check(name: str, exact: Run, measured: Run, aggregate: str) -> None:
    """Stop if an interval does not contain the exact answer, or if an exact answer is wrong."""
    if measured.low is None or measured.high is None:
        return
    assert exact.low is not None
    slack = 1e-6 if aggregate == "SUM" else 0.0
    if not (np.all(measured.low <= exact.low + slack) and np.all(exact.low <= measured.high + slack)):
        raise SystemExit(f"{name}: an answer does not agree with that of base_intervals")


class Bench:
    """All measurements of a run; the naive ones are kept, as they do not depend on the ratio."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._output = Output(options.json)
        self._naive: dict[tuple[str, int, str], Run] = {}
        self._seconds: dict[tuple[str, int, int, str, str], float] = {}

    def measure(self, section: str, data: str, queries: int, ratio: int, *, asks_all: bool = False) -> None:
        options = self._options
        events = min(options.events, MOST_EVENTS_FOR_ALL) if asks_all else options.events
        case = make_case(data, queries, ratio, events, options.largest, options.seed, asks_all)
        for aggregate, algorithms in ALGORITHMS.items():
            exact = None
            for algorithm in algorithms:
                measured = self._measured(case, algorithm, aggregate)
                exact = exact or measured
                check(algorithm, exact, measured, aggregate)
                naive = self._naive.get((data, queries, aggregate))
                if not asks_all:
                    self._seconds[data, queries, ratio, aggregate, algorithm] = measured.seconds_per_event
                each = measured.seconds_per_event
                faster = {} if naive is None else {"times_faster_than_naive": naive.seconds_per_event / each}
                self._output.emit(
                    section, data=data, aggregate=aggregate, algorithm=algorithm, queries=queries, ratio=ratio,
                    events=len(case.events), lookups=len(case.widths), seconds=each * len(case.events),
                    us_per_event=1e6 * each, **faster, **dict(measured.shown),
                )  # fmt: skip

    def _measured(self, case: Case, algorithm: str, aggregate: str) -> Run:
        key = (case.data, case.queries, aggregate)
        if algorithm == "naive" and key in self._naive:
            return self._naive[key]
        small = replace(
            case, events=case.events[:200], after=np.arange(100), widths=case.sizes[np.zeros(100, np.int64)]
        )
        if algorithm != "naive":
            run(small, algorithm, aggregate, 0.0)
            return min(
                (run(case, algorithm, aggregate, 0.0) for _ in range(self._options.repeat)),
                key=lambda one: one.seconds_per_event,
            )
        run(replace(small, sizes=case.sizes[:1]), algorithm, aggregate, 1.0)
        self._naive[key] = run(case, algorithm, aggregate, self._options.limit)
        return self._naive[key]

    def targets(self) -> None:
        """The project's targets, as far as they were measured."""
        for data in self._options.data:
            for aggregate, algorithms in ALGORITHMS.items():
                at = (data, USUAL_QUERIES, USUAL_RATIO, aggregate)
                for algorithm in algorithms:
                    if (*at, algorithm) in self._seconds and algorithm.startswith(("timegram", "ordered")):
                        times = self._seconds[*at, "naive"] / self._seconds[*at, algorithm]
                        self._output.emit(
                            "target", name="faster than naive at 1,000 queries and 100:1", data=data,
                            aggregate=aggregate, algorithm=algorithm, times=times, wanted=100, met=times >= 100,
                        )  # fmt: skip
            few = self._seconds.get((data, 10, USUAL_RATIO, "MAX", "ordered_sharing"))
            many = self._seconds.get((data, 10_000, USUAL_RATIO, "MAX", "ordered_sharing"))
            if few is not None and many is not None:
                self._output.emit(
                    "target", name="ordered_sharing, 10,000 queries against 10", data=data, times=many / few,
                    wanted=3, met=many <= 3 * few,
                )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench sharing", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--largest", type=int, default=10_000, help="elements of the largest window")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds after which the naive approach is stopped")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the fastest counts")
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument(
        "--sections", nargs="+", choices=["ratio", "queries", "all"], default=["ratio", "queries", "all"]
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bench = Bench(options)
    for data in options.data:
        if "ratio" in options.sections:
            for ratio in RATIOS:
                bench.measure("ratio", data, USUAL_QUERIES, ratio)
        if "queries" in options.sections:
            for queries in QUERIES:
                bench.measure("queries", data, queries, USUAL_RATIO)
        if "all" in options.sections:
            for ratio in (USUAL_RATIO, 10 * USUAL_RATIO):
                bench.measure("all", data, USUAL_QUERIES, ratio, asks_all=True)
    bench.targets()


if __name__ == "__main__":
    main()
