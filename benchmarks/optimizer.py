"""Which queries should share: plan cost and planning time of every method.

Workloads are those of Guirguis et al., section 6: slides from a list of templates by a Zipf distribution in which the
longest slides are the most frequent, ranges of a uniform overlap times the slide. Further: the work that each
optimization of section 8 saves (figure 14), a million queries, random windows without templates, and single additions
and removals among many queries. Ranges and slides are in seconds, costs in operations per second.

Prints a JSON line per measurement with --json, a table otherwise. Run: weft bench optimizer --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

from weft.planning.sharing import EVERY_METHOD, Method, Queries, SharingPlan, Weights
from weft.planning.sharing.incremental_weave_share import IncrementalWeaveShare
from weft.planning.sharing.no_share import NoShare
from weft.planning.sharing.shared import Shared
from weft.planning.sharing.weave_share import WeaveShare

SLIDES_MINUTES = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440]
DAY = 86_400
MOST_EDGE_SETS = {
    "exhaustive": 16,
    "local_search_from_no_share": 300,
    "local_search_from_random": 300,
}
MOST_QUERIES = {"random": 10_000, "incremental_weave_share": 1000}
"""Methods that would take too long on more."""
UNIT = Weights()


def paper_queries(size: int, overlap: float, skew: float, step: int, seed: int) -> Queries:
    """Queries by the paper's generator, their ranges rounded to whole steps."""
    random = np.random.default_rng(seed)
    slides = 60 * np.array(sorted(SLIDES_MINUTES, reverse=True))
    weights = 1 / np.arange(1, len(slides) + 1) ** skew
    chosen = random.choice(slides, size, p=weights / weights.sum())
    ranges = np.maximum(1, np.rint(random.uniform(1, overlap, size) * chosen / step)).astype(np.int64) * step
    return Queries(ranges, chosen, np.zeros(size, np.int64))


def templates(size: int, kinds: int, overlap: float, skew: float, seed: int) -> Queries:
    """Queries that each repeat one of a few windows, some of them more often than others."""
    few = paper_queries(kinds, overlap, skew, 1, seed)
    weights = 1 / np.arange(1, kinds + 1) ** skew
    return few.chosen(np.random.default_rng(seed).choice(kinds, size, p=weights / weights.sum()))


def any_queries(size: int, seed: int) -> Queries:
    """Ranges and slides of any whole seconds up to a day."""
    random = np.random.default_rng(seed)
    return Queries(random.integers(1, DAY + 1, size), random.integers(1, DAY + 1, size), np.zeros(size, np.int64))


def timed(method: Method, queries: Queries, rate: float) -> tuple[SharingPlan, float]:
    fresh = Queries(queries.ranges, queries.slides, queries.offsets)
    began = time.perf_counter()
    plan = method.share(fresh, rate, UNIT)
    return plan, time.perf_counter() - began


def compare(options: argparse.Namespace, experiment: str, queries: Queries, rate: float, **more: Any) -> None:
    """Every method that finishes on these queries, beside Shared and No Share."""
    shared, no_share = (method.share(queries, rate, UNIT).cost for method in (Shared(), NoShare()))
    for method in EVERY_METHOD:
        if len(queries.classes) > MOST_EDGE_SETS.get(method.name, len(queries)):
            continue
        if len(queries) > MOST_QUERIES.get(method.name, len(queries)):
            continue
        if options.methods and method.name not in options.methods:
            continue
        plan, seconds = timed(method, queries, rate)
        ratios = {"to_shared": plan.cost / shared, "to_no_share": plan.cost / no_share}
        emit(options, experiment, plan, seconds, rate=rate, **ratios, **more)
        if method.name == "weave_share" and plan.cost > min(shared, no_share) * (1 + 1e-9):
            raise SystemExit(f"weave_share costs {plan.cost}, more than Shared {shared} or No Share {no_share}")


def figure_14(options: argparse.Namespace) -> None:
    """The work of Weave Share with none, one, two and all of its optimizations."""
    queries = paper_queries(options.figure14, 10, 0.7, 1, options.seed)
    flags = {"cost_table": False, "edge_bitmap": False, "probe_with_fewer": False}
    plans = []
    for variant, flag in (("naive", None), *((f"with {name}", name) for name in flags)):
        if flag is not None:
            flags[flag] = True
        plan, seconds = timed(WeaveShare(is_polished=False, **flags), queries, 100)
        plans.append(plan)
        emit(
            options,
            "figure 14",
            plan,
            seconds,
            rate=100,
            overlap=10,
            skew=0.7,
            variant=variant,
            times_less_work=plans[0].work.operations / max(plan.work.operations, 1),
        )
    if any((plan.tree_of != plans[0].tree_of).any() for plan in plans):
        raise SystemExit("the optimizations change the plan")


def changes(options: argparse.Namespace) -> None:
    """One addition and one removal at a time among many queries, reconstruction left out."""
    queries = paper_queries(options.incremental, 50, 0.6, 60, options.seed)
    windows = list(zip(queries.ranges.tolist(), queries.slides.tolist()))
    online = IncrementalWeaveShare(100.0, tolerance=float("inf"))
    online.add_all(dict(enumerate(windows)))
    added = paper_queries(options.changes, 50, 0.6, 1, options.seed + 1)
    took: dict[str, list[float]] = {"add": [], "remove": []}
    for place, window in enumerate(zip(added.ranges.tolist(), added.slides.tolist())):
        began = time.perf_counter()
        online.add(("new", place), window)
        took["add"].append(time.perf_counter() - began)
        began = time.perf_counter()
        online.remove(place)
        took["remove"].append(time.perf_counter() - began)
    from_scratch = WeaveShare().share(online.plan().queries, 100.0, UNIT).cost
    for change, seconds in took.items():
        line = {
            "bench": "optimizer",
            "experiment": "changes",
            "method": "incremental_weave_share",
            "change": change,
            "queries": len(online),
            "trees": online.number_of_trees,
            "median_ms": 1000 * statistics.median(seconds),
            "longest_ms": 1000 * max(seconds),
            "to_from_scratch": online.cost / from_scratch,
        }
        show(options, line)


def emit(options: argparse.Namespace, experiment: str, plan: SharingPlan, seconds: float, **more: Any) -> None:
    line = {"bench": "optimizer", "experiment": experiment, **plan.summary(), "seconds": seconds, **more}
    show(options, line)


def show(options: argparse.Namespace, line: dict[str, Any]) -> None:
    line = {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in line.items()}
    if options.json:
        print(json.dumps(line), flush=True)
    else:
        print("  ".join(f"{name} {value}" for name, value in line.items() if name != "bench"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="weft bench optimizer", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--queries", type=int, nargs="*", default=[10, 50, 250, 1000, 2000])
    parser.add_argument("--rates", type=float, nargs="+", default=[100.0, 10_000.0], help="events per second")
    parser.add_argument("--overlaps", type=float, nargs="+", default=[50.0], help="greatest overlap")
    parser.add_argument("--skews", type=float, nargs="+", default=[0.6], help="skew of the slides")
    parser.add_argument("--methods", nargs="*", default=[], help="only these methods")
    parser.add_argument("--many", type=int, default=1_000_000, help="queries over a few templates; 0 for none")
    parser.add_argument("--templates", type=int, default=300, help="how many templates")
    parser.add_argument("--any", type=int, default=2000, help="queries with any range and slide; 0 for none")
    parser.add_argument("--figure14", type=int, default=120, help="queries for figure 14 (the paper: 250); 0 for none")
    parser.add_argument("--incremental", type=int, default=100_000, help="queries for single changes; 0 for none")
    parser.add_argument("--changes", type=int, default=100, help="how many single changes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # The first call compiles, or loads what was compiled before.
    for method in EVERY_METHOD:
        method.share(Queries.of([(16, 4), (10, 5), (8, 4)]), 1.2, UNIT)
    for size in options.queries:
        for overlap in options.overlaps:
            for skew in options.skews:
                queries = paper_queries(size, overlap, skew, 1, options.seed)
                for rate in options.rates:
                    compare(options, "paper", queries, rate, overlap=overlap, skew=skew)
    if options.many:
        few = templates(options.many, options.templates, 50, 0.6, options.seed)
        compare(options, "templates", few, 100.0, overlap=50, skew=0.6)
        # Ranges of whole minutes: some thousand different edge sets.
        compare(options, "many", paper_queries(options.many, 50, 0.6, 60, options.seed), 100.0, overlap=50, skew=0.6)
    if options.any:
        compare(options, "any windows", any_queries(options.any, options.seed), 100.0)
    if options.figure14:
        figure_14(options)
    if options.incremental:
        changes(options)


if __name__ == "__main__":
    main()
