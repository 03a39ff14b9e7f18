"""Which queries should share: plan cost and planning time of every method.

Sections:
- paper: workloads of Guirguis et al., section 6: slides from a list of templates by a Zipf distribution in which the
  longest slides are the most frequent, ranges of a uniform overlap times the slide, 50 to 1,000,000 queries. Ranges are
  whole seconds up to 2000 queries, whole minutes beyond.
- templates: a million queries that each repeat one of a few windows;
- any: random ranges and slides of whole seconds up to a day, with the peak of memory, in a process of its own;
- public path: from the text of random queries to the plan, its explanation, its data and its picture, as users call
  them;
- figure14: the work that the optimizations of section 8 save, added one after the other, and each left out;
- changes: single additions and removals among many queries, the slowest as well as the median;
- factors: the savings of bases that no query asked for;
- grouping: the savings of trees over unions of group-by attributes.

Ranges and slides are in seconds, costs in operations per second. Prints a JSON line per measurement with --json.
Run: panewise bench optimizer --json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from itertools import combinations
from math import inf
from typing import Any

import numpy as np

import panewise
from panewise.planning.sharing import EVERY_METHOD, Method, Queries, SharingPlan, Weights
from panewise.planning.sharing.factor_windows import factor_windows
from panewise.planning.sharing.grouping import plan_grouping
from panewise.planning.sharing.incremental_weave_share import IncrementalWeaveShare
from panewise.planning.sharing.no_share import NoShare
from panewise.planning.sharing.shared import Shared
from panewise.planning.sharing.weave_share import WeaveShare

SLIDES_MINUTES = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440]
DAY = 86_400
WHOLE_SECONDS = 2000
"""Up to this many queries, ranges are whole seconds."""
MOST_EDGE_SETS = {
    "exhaustive": 16,
    "local_search_from_no_share": 1000,
    "local_search_from_random": 1000,
}
MOST_QUERIES = {"random": 100_000, "incremental_weave_share": 10_000}
"""The most queries for methods that would take too long on more."""
SECTIONS = ["paper", "templates", "any", "public_path", "text", "figure14", "changes", "factors", "grouping"]
HOUR = 3600
TEXT_SLIDES = np.array([1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600])
UNIT = Weights()


def paper_queries(size: int, overlap: float, skew: float, step: int, seed: int) -> Queries:
    """Queries by the paper's generator, their ranges rounded to whole steps."""
    random = np.random.default_rng(seed)
    slides = 60 * np.array(sorted(SLIDES_MINUTES, reverse=True))
    weights = 1 / np.arange(1, len(slides) + 1) ** skew
    chosen = random.choice(slides, size, p=weights / weights.sum())
    ranges = np.maximum(1, np.rint(random.uniform(1, overlap, size) * chosen / step)).astype(np.int64) * step
    return Queries(ranges, chosen, np.zeros(size, np.int64))


def step_for(size: int) -> int:
    return 1 if size <= WHOLE_SECONDS else 60


def template_queries(size: int, kinds: int, overlap: float, skew: float, seed: int) -> Queries:
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


def load() -> None:
    """Make the first call, which compiles, or loads what was compiled before."""
    for method in EVERY_METHOD:
        method.share(Queries.of([(16, 4), (10, 5), (8, 4)]), 1.2, UNIT)
    WeaveShare().share(any_queries(50, 1), 1.0, UNIT)


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
        show(options, {**line_of(experiment, plan, seconds), "rate": rate, **ratios, **more})
        if method.name == "weave_share" and plan.cost > min(shared, no_share) * (1 + 1e-9):
            raise SystemExit(f"weave_share costs {plan.cost}, more than Shared {shared} or No Share {no_share}")


def paper(options: argparse.Namespace) -> None:
    for size in options.queries:
        for overlap in options.overlaps:
            for skew in options.skews:
                queries = paper_queries(size, overlap, skew, step_for(size), options.seed)
                for rate in options.rates:
                    compare(options, "paper", queries, rate, overlap=overlap, skew=skew)


def templates(options: argparse.Namespace) -> None:
    few = template_queries(options.many, options.templates, 50, 0.6, options.seed)
    compare(options, "templates", few, 100.0, overlap=50, skew=0.6)


def any_windows(options: argparse.Namespace) -> None:
    """Each rate in its own process, so that the peak of memory is its own."""
    for rate in options.any_rates:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for line in pool.apply(measure_any, (options.any, rate, options.seed)):
                show(options, line)


def measure_any(size: int, rate: float, seed: int) -> list[dict[str, Any]]:
    load()
    queries = any_queries(size, seed)
    before = peak_mib()
    lines, costs = [], {}
    for method in (NoShare(), Shared(), WeaveShare()):
        plan, seconds = timed(method, queries, rate)
        costs[method.name] = plan.cost
        memory = {"peak_mib": peak_mib(), "peak_before_mib": before}
        lines.append({**line_of("any", plan, seconds), "rate": rate, **memory})
    if costs["weave_share"] > min(costs.values()) * (1 + 1e-9):
        raise SystemExit(f"weave_share costs more than a rival: {costs}")
    return lines


def public_path(options: argparse.Namespace) -> None:
    """Each size in its own process, so that the peak of memory is its own."""
    for size in options.public:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            show(options, pool.apply(measure_public_path, (size, options.seed)))


def measure_public_path(size: int, seed: int) -> dict[str, Any]:
    """What a user waits for: ranges of whole seconds up to a day, slides up to an hour, one group-by and a SUM."""
    load()
    random = np.random.default_rng(seed)
    windows = zip(random.integers(1, DAY + 1, size).tolist(), random.integers(1, HOUR + 1, size).tolist())
    text = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t;" + "".join(
        f"CREATE QUERY q{place} AS SELECT k, SUM(x) FROM s [RANGE {length} SECONDS SLIDE {slide} SECONDS] GROUP BY k;"
        for place, (length, slide) in enumerate(windows)
    )
    seconds: dict[str, float] = {}

    def step(name: str, call: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = call()
        seconds[f"{name}_seconds"] = time.perf_counter() - began
        return result

    workload = step("read", lambda: panewise.read(text))
    plan = step("optimize", lambda: panewise.optimize(workload))
    step("explain", plan.explain)
    data = step("to_dict", plan.to_dict)
    step("json", lambda: json.dumps(data))
    step("picture", plan.picture)
    line = {"bench": "optimizer", "experiment": "public path", "queries": size, "trees": len(plan.trees)}
    return {**line, **seconds, "seconds": sum(seconds.values()), "peak_mib": peak_mib()}


def text_to_plan(options: argparse.Namespace) -> None:
    """From text to plan, each size in its own process: random ranges with 11 slides, and 50 templates."""
    sizes = [("ranges", size) for size in options.text] + [("templates", options.text_templates)]
    for kind, size in sizes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            show(options, pool.apply(measure_text, (kind, size, options.seed)))


def measure_text(kind: str, size: int, seed: int) -> dict[str, Any]:
    """`seconds` from text to plan; `filled_seconds` for the same queries from a template and a table."""
    load()
    random = np.random.default_rng(seed)
    slides = random.choice(TEXT_SLIDES, size)
    ranges = random.integers(slides, DAY + 1) if kind == "ranges" else slides * random.integers(1, 6, size)
    above = np.zeros(size, np.int64) if kind == "ranges" else random.integers(0, 50, size)
    columns = {
        "name": [f"q{place}" for place in range(size)],
        "length": ranges.tolist(),
        "slide": slides.tolist(),
        "above": above.tolist(),
    }
    stream = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;\n"
    row = (
        "CREATE QUERY {name} AS SELECT k, SUM(x) FROM s [RANGE {length} SECONDS SLIDE {slide} SECONDS] "
        "WHERE x > {above} GROUP BY k;\n"
    )
    text = stream + "".join([row.format(**dict(zip(columns, one))) for one in zip(*columns.values())])
    times = [(time.perf_counter(), time.process_time())]

    def took() -> tuple[float, float]:
        times.append((time.perf_counter(), time.process_time()))
        return times[-1][0] - times[-2][0], times[-1][1] - times[-2][1]

    workload = panewise.read(text)
    read_seconds, read_cpu = took()
    plan = panewise.optimize(workload)
    optimize_seconds, optimize_cpu = took()
    del workload, text
    took()
    panewise.fill(row, columns, panewise.read(stream))
    filled_seconds, _ = took()
    return {
        "bench": "optimizer",
        "experiment": "text to plan",
        "kind": kind,
        "queries": size,
        "trees": len(plan.trees),
        "read_seconds": read_seconds,
        "optimize_seconds": optimize_seconds,
        "seconds": read_seconds + optimize_seconds,
        "cpu_seconds": read_cpu + optimize_cpu,
        "filled_seconds": filled_seconds,
        "peak_mib": peak_mib(),
    }


def peak_mib() -> float:
    """The most memory that this process has taken so far (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def figure_14(options: argparse.Namespace) -> None:
    """The work of Weave Share with none, one, two and all of its optimizations, and without each."""
    queries = paper_queries(options.figure14, 10, 0.7, 1, options.seed)
    names = ["cost_table", "edge_bitmap", "probe_with_fewer"]
    variants = {"naive": dict.fromkeys(names, False)}
    for count, name in enumerate(names, 1):
        variants[f"with {name}"] = {one: one in names[:count] for one in names}
    for name in names:
        variants[f"all but {name}"] = {one: one != name for one in names}
    plans: dict[str, SharingPlan] = {}
    naive = 0.0
    for variant, flags in variants.items():
        plan, seconds = timed(WeaveShare(is_polished=False, **flags), queries, 100)
        plans[variant] = plan
        naive = naive or plan.work.operations
        more = {"overlap": 10, "skew": 0.7, "variant": variant, "times_less_work": naive / plan.work.operations}
        show(options, {**line_of("figure14", plan, seconds), "rate": 100.0, **more})
    everything = plans["with probe_with_fewer"].work.operations
    for name in names:
        gain = plans[f"all but {name}"].work.operations / everything
        show(options, {"bench": "optimizer", "experiment": "figure14", "optimization": name, "gain": gain})
    if any((plan.tree_of != plans["naive"].tree_of).any() for plan in plans.values()):
        raise SystemExit("the optimizations change the plan")
    if options.figure14 >= 250 and naive < 1000 * everything:
        raise SystemExit(f"all optimizations together save {naive / everything:.0f} times the work, not 1000")


def changes(options: argparse.Namespace) -> None:
    """One addition and one removal at a time among many queries.

    The new queries have edges that the others do not have: windows of whole seconds among whole minutes.
    """
    queries = paper_queries(options.incremental, 50, 0.6, 60, options.seed)
    windows = dict(enumerate(zip(queries.ranges.tolist(), queries.slides.tolist())))
    added = paper_queries(options.changes, 50, 0.6, 1, options.seed + 1)
    cases = {
        "no reconstruction": {"tolerance": inf},
        "layouts in the background": {"tolerance": inf, "in_background": True},
        "reconstruction in the background": {"tolerance": 0.2, "in_background": True},
    }
    for case, settings in cases.items():
        online = IncrementalWeaveShare(100.0, **settings)
        online.add_all(windows)
        if settings["tolerance"] != inf:
            online.reconstruct_in_background()
        took: dict[str, list[float]] = {"add": [], "remove": []}
        worked: dict[str, list[float]] = {"add": [], "remove": []}
        for place, window in enumerate(zip(added.ranges.tolist(), added.slides.tolist())):
            for change in took:
                began, began_work = time.perf_counter(), time.thread_time()
                if change == "add":
                    online.add(("new", place), window)
                else:
                    online.remove(place)
                took[change].append(time.perf_counter() - began)
                worked[change].append(time.thread_time() - began_work)
        online.wait()
        from_scratch = WeaveShare().share(online.plan().queries, 100.0, UNIT).cost
        for change, seconds in took.items():
            line = {
                "bench": "optimizer",
                "experiment": "changes",
                "method": "incremental_weave_share",
                "case": case,
                "change": change,
                "queries": len(online),
                "changes": len(seconds),
                "trees": online.number_of_trees,
                "median_ms": 1000 * float(np.median(seconds)),
                "p99_ms": 1000 * float(np.quantile(seconds, 0.99)),
                "longest_ms": 1000 * max(seconds),
                # Only the time of the change itself, without waiting for the processor or for the thread.
                "longest_work_ms": 1000 * max(worked[change]),
                "reconstructions": online.reconstructions,
                "layouts": online.layouts,
                "to_from_scratch": online.cost / from_scratch,
            }
            show(options, line)


def factors(options: argparse.Namespace) -> None:
    """Factor windows on the paper's workloads: with the given trees, and grouped again."""
    for size in options.factor_queries:
        for rate in options.rates:
            plan = WeaveShare().share(paper_queries(size, 50, 0.6, step_for(size), options.seed), rate, UNIT)
            for may_regroup in (False, True):
                began = time.perf_counter()
                better = factor_windows(plan, may_regroup=may_regroup)
                line = {
                    "bench": "optimizer",
                    "experiment": "factors",
                    "queries": size,
                    "rate": rate,
                    "may_regroup": may_regroup,
                    "trees": len(plan),
                    "cost": plan.cost,
                    "seconds": time.perf_counter() - began,
                    "bases": [str(base) for base in better.bases],
                    "trees_over_bases": len(better.plan),
                    "cost_with_bases": better.cost,
                    "to_plan": better.cost / plan.cost,
                }
                show(options, line)


def grouping(options: argparse.Namespace) -> None:
    """Every set of up to three of four attributes, each with some of the paper's queries."""
    attributes = {"carrier": 16.0, "origin": 3.0, "dest": 105.0, "tailnum": 4000.0}
    names = sorted(attributes)
    sets = [one for size in range(4) for one in combinations(names, size)]
    for rate in (10.0, 1000.0, 100_000.0):
        workload = {}
        for place, one in enumerate(sets):
            queries = paper_queries(10, 50, 0.6, 60, options.seed + place)
            # Folded with two stacks: a fragment costs a window once.
            workload[one] = Queries(queries.ranges, queries.slides, queries.offsets, np.ones(len(queries)))
        began = time.perf_counter()
        plan = plan_grouping(workload, rate, distinct=attributes)
        line = {
            "bench": "optimizer",
            "experiment": "grouping",
            "sets": len(sets),
            "rate": rate,
            "trees": len(plan.trees),
            "seconds": time.perf_counter() - began,
            "cost": plan.cost,
            "to_separate": plan.cost / plan.separate_cost,
        }
        show(options, line)


def line_of(experiment: str, plan: SharingPlan, seconds: float) -> dict[str, Any]:
    return {"bench": "optimizer", "experiment": experiment, **plan.summary(), "seconds": seconds}


def show(options: argparse.Namespace, line: dict[str, Any]) -> None:
    line = {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in line.items()}
    if options.json:
        print(json.dumps(line), flush=True)
    else:
        print("  ".join(f"{name} {value}" for name, value in line.items() if name != "bench"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench optimizer", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="only these sections")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--queries", type=int, nargs="+", default=[50, 250, 1000, 2000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--rates", type=float, nargs="+", default=[100.0, 10_000.0], help="events per second")
    parser.add_argument("--overlaps", type=float, nargs="+", default=[50.0], help="greatest overlap")
    parser.add_argument("--skews", type=float, nargs="+", default=[0.6], help="skew of the slides")
    parser.add_argument("--methods", nargs="*", default=[], help="only these methods")
    parser.add_argument("--many", type=int, default=1_000_000, help="queries over a few templates")
    parser.add_argument("--templates", type=int, default=300, help="how many templates")
    parser.add_argument("--any", type=int, default=10_000, help="queries with any range and slide")
    parser.add_argument("--any-rates", type=float, nargs="+", default=[100.0, 1.0], help="events per second for those")
    parser.add_argument("--public", type=int, nargs="+", default=[1000, 3000, 10_000], help="queries for public_path")
    parser.add_argument(
        "--text", type=int, nargs="+", default=[10_000, 100_000], help="queries with 11 slides, as text"
    )
    parser.add_argument("--text-templates", type=int, default=1_000_000, help="queries of 50 templates, as text")
    parser.add_argument("--figure14", type=int, default=250, help="queries for figure 14")
    parser.add_argument("--incremental", type=int, default=100_000, help="queries for single changes")
    parser.add_argument("--changes", type=int, default=2000, help="how many single changes")
    parser.add_argument("--factor-queries", type=int, nargs="+", default=[250, 1000, 2000])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.queries, options.many, options.any, options.figure14 = [10, 50, 250], 10_000, 300, 60
        options.public, options.text, options.text_templates = [100], [200], 1000
        options.incremental, options.changes, options.factor_queries = 2000, 100, [50]
    load()
    sections = {
        "paper": paper,
        "templates": templates,
        "any": any_windows,
        "public_path": public_path,
        "text": text_to_plan,
        "figure14": figure_14,
        "changes": changes,
        "factors": factors,
        "grouping": grouping,
    }
    for name in options.only:
        sections[name](options)


if __name__ == "__main__":
    main()
