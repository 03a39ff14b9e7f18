"""Made-up rows, not measured: for each figure some that support every claim, and some that contradict every claim."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import inf
from typing import Any

Rows = list[dict[str, Any]]

METHODS = ("no_share", "random", "shared", "insert_then_weave", "local_search_from_no_share", "weave_share")


def plan(queries: int, rate: float, method: str = "weave_share", **more: Any) -> dict[str, Any]:
    row = {"method": method, "queries": queries, "rate": float(rate), "overlap": 50.0, "skew": 0.6, "workload_seed": 1}
    return {**row, "trees": 1, "normalized": 1.0, "cost": 1.0, "seconds": 1.0, **more}


def weave_4(holds: bool) -> Rows:
    good = {"no_share": 9e6, "random": 8e6, "shared": 5e6, "insert_then_weave": 3e6, "weave_share": 1e3}
    costs = {**good, "local_search_from_no_share": 2e6}
    if not holds:
        costs = {**dict.fromkeys(METHODS, 10.0), "no_share": 5.0, "insert_then_weave": 12.0, "weave_share": 6.0}
    rows = [plan(size, 50, name, cost=costs[name]) for size in (50, 1000) for name in METHODS]
    for row in rows:
        row["seconds"] = 5000.0 if holds and row["method"] == "local_search_from_no_share" else 1.0
    small = {"weave_share": 1.02 if holds else 1.1, "exhaustive": 1.0}
    return rows + [plan(5, 200, name, cost=cost, part="small sets") for name, cost in small.items()]


def weave_5(holds: bool) -> Rows:
    rows = [row for row in weave_4(holds) if "part" not in row]
    for row in rows:
        if row["method"] == "weave_share":
            row["cost"] = 100.0 if holds else 6.0
        elif row["method"] != "shared" and "no_share" != row["method"] != "random":
            row["cost"] = 6e6 if holds else 4.0
    return rows


def weave_6(holds: bool) -> Rows:
    falls = {50: 1.0, 1000: 0.38} if holds else {50: 0.9, 1000: 1.0}
    return [plan(size, rate, normalized=falls[size]) for size in falls for rate in (50, 300, 10_000)]


def weave_7(holds: bool) -> Rows:
    rates = (50, 300, 10_000)
    if holds:
        return [plan(size, rate, trees=size // rate + 2) for size in (50, 250, 1000) for rate in rates]
    trees = {50: 5, 250: 1, 1000: 1}
    return [plan(size, rate, trees=trees[size] + (rate == 300)) for size in trees for rate in rates]


def weave_8(holds: bool) -> Rows:
    paper = {250: (0.2, 0.76, 0.94, 0.95), 1000: (0.1, 0.5, 0.6, 0.88), 2000: (0.1, 0.4, 0.5, 0.76)}
    rates = (50, 2000, 3000, 10_000)
    rows = []
    for size, ratios in paper.items():
        for rate, ratio in zip(rates, ratios):
            rows.append(plan(size, rate, normalized=ratio if holds else 1.3 - rate / 40_000, cost=10.0))
    return [*rows, plan(1000, 10_000, "insert_then_weave", cost=2000.0 if holds else 20.0)]


def weave_9(holds: bool) -> Rows:
    good = {50: (1.0, 1), 200: (1.0, 1), 1000: (0.8, 2), 2000: (0.26, 4)}
    bad = {50: (0.8, 2), 200: (0.9, 2), 1000: (1.0, 2), 2000: (1.0, 2)}
    found = good if holds else bad
    return [
        plan(2000, rate, overlap=float(overlap), normalized=ratio, trees=trees)
        for rate in (100, 100_000)
        for overlap, (ratio, trees) in found.items()
    ]


def weave_10(holds: bool) -> Rows:
    good = {250: (0.8, 0.6, 1.0), 1000: (0.6, 0.3, 1.0)}
    bad = {250: (0.3, 0.3, 0.3), 1000: (0.4, 0.4, 0.4)}
    return [
        plan(size, 100, skew=skew, normalized=ratio)
        for size, ratios in (good if holds else bad).items()
        for skew, ratio in zip((0.0, 1.0, 6.0), ratios)
    ]


def weave_11(holds: bool) -> Rows:
    comparisons = (10_000, 1000, 100) if holds else (100, 1000, 10_000)
    errors = (0.0, 0.1, 0.2) if holds else (0.5, 0.4, 0.3)
    return [
        {"tolerance": tolerance, "queries": 100, "comparisons": count, "mean_error": error}
        for tolerance, count, error in zip((0.0, 0.2, inf), comparisons, errors)
    ]


def weave_14(holds: bool) -> Rows:
    work = (1e6, 1e5, 1e4, 1e3) if holds else (1e6, 1e6, 1e6, 1e6)
    return [{"queries": 250, "optimizations": n, "operations": each, "seconds": 1.0} for n, each in enumerate(work)]


def response(algorithm: str, data: tuple[str, ...], time_us: Callable[..., float], ratios: bool) -> Rows:
    """Rows of TR1536: against the ratio, or against the number of queries."""
    sizes, every = ((100,), (1, 10, 100, 1000)) if ratios else ((1, 2, 8, 1000), (100,))
    asked = ("every query",) if ratios else ("one query", "every query")
    aggregates = ("MAX", "SUM") if ratios else ("MAX",)
    names = ("data", "algorithm", "queries", "ratio", "asked", "aggregate")
    rows = []
    for values in product(data, ("naive", algorithm), sizes, every, asked, aggregates):
        row = dict(zip(names, values))
        rows.append({**row, "us_per_event": time_us(row)})
    return rows


def timegram_ratio(holds: bool, data: tuple[str, ...]) -> Rows:
    def time_us(row: dict[str, Any]) -> float:
        skewed = 1.0 if row["data"] == data[-1] else 3.0
        if row["algorithm"] == "naive":
            return 100.0 if holds else 100.0 / row["ratio"]
        return 10.0 / row["ratio"] if holds else 10.0 * row["ratio"] * skewed

    return response("timegram-64", data, time_us, ratios=True)


def against_queries(algorithm: str, data: tuple[str, ...]) -> Callable[[bool], Rows]:
    def rows(holds: bool) -> Rows:
        def time_us(row: dict[str, Any]) -> float:
            if row["algorithm"] == "naive":
                return 10.0 * row["queries"] if holds else 10.0
            skewed = 1.0 if row["data"] == data[-1] else (0.9 if holds else 3.0)
            return skewed * (10.0 if holds else 10.0 * row["queries"])

        return response(algorithm, data, time_us, ratios=False)

    return rows


def sharing_9(holds: bool) -> Rows:
    good = {
        "running_intervals": (100, 100, 100), "base_intervals": (20, 30, 40), "search_tree": (20, 15, 10),
        "materialize_all": (100, 2, 1), "recompute": (1, 2, 100),
    }  # fmt: skip
    bad = {
        "running_intervals": (10, 10, 10), "base_intervals": (90, 50, 5), "search_tree": (1, 50, 80),
        "materialize_all": (10, 10, 10), "recompute": (10, 10, 10),
    }  # fmt: skip
    return [
        {"structure": name, "updates_share": share, "inputs_per_s": float(rate)}
        for name, rates in (good if holds else bad).items()
        for share, rate in zip((0.0, 0.5, 1.0), rates)
    ]


def sharing_10(holds: bool) -> Rows:
    good = {"running_intervals": (9e8, 8e8), "base_intervals": (5e8, 4e8), "sorted_base_intervals": (1e7, 9e6)}
    bad = {"running_intervals": (9e8, 8e5), "base_intervals": (5e8, 4e5), "sorted_base_intervals": (1e9, 9e6)}
    return [
        {"structure": name, "largest": largest, "updates_per_s": rate}
        for name, rates in (good if holds else bad).items()
        for largest, rate in zip((10_000, 100_000), rates)
    ]


def sharing_11(holds: bool) -> Rows:
    good = {"running_intervals": (9e8, 8e8), "base_intervals": (5e8, 4e8), "sorted_base_intervals": (1e7, 9e6)}
    bad = {"running_intervals": (9e7, 8e6), "base_intervals": (5e8, 4e8), "sorted_base_intervals": (1e9, 1e4)}
    return [
        {"structure": name, "width": width, "lookups_per_s": rate}
        for name, rates in (good if holds else bad).items()
        for width, rate in zip((10, 100_000), rates)
    ]


def sharing_12(holds: bool) -> Rows:
    rates = (20_000.0, 30_000.0, 25_000.0) if holds else (20_000.0, 20_000.0, 20_000.0)
    index = [
        {"filter": "collective_count", "levels_per_size": p, "inputs_per_s": rate} for p, rate in zip((1, 4, 64), rates)
    ]
    return [*index, {"filter": "scan_substreams", "levels_per_size": 0, "inputs_per_s": 1000.0}]


def index_rows(measure: str, costs: dict[str, float], **by_load: Callable[..., float]) -> Rows:
    return [
        {
            "measure": measure, "way": way, "basic_windows": windows, "values": values, "distribution": "uniform",
            "ns_per_tuple": cost * by_load.get("times", lambda *_: 1.0)(way, windows, values),
        }
        for way, cost in costs.items()
        for windows in (50, 500)
        for values in (1000, 10_000)
    ]  # fmt: skip


def indexing_7(holds: bool) -> Rows:
    l_index, t_index, h_index = (100.0, 10.0, 12.0) if holds else (1.0, 10.0, 2.0)
    costs = {
        f"{index} over {storage}": cost
        for storage in ("list", "aggr", "hash")
        for index, cost in (("l_index", l_index), ("t_index", t_index), ("h_index 100", h_index))
    }
    group = 5.0 if holds else 50.0
    more = {"none over list": 8.0, "g_index 10 over group": group, "g_index 50 over group": group}
    return index_rows("maintenance", {**costs, **more})


def indexing_8(holds: bool) -> Rows:
    good = {
        "none over list": 5000.0, "none over aggr": 100.0, "l_index over list": 50.0, "t_index over list": 10.0,
        "h_index 100 over list": 12.0, "t_index over aggr": 20.0,
    }  # fmt: skip
    bad = {
        "none over list": 5.0, "none over aggr": 5.0, "l_index over list": 9.0, "t_index over list": 10.0,
        "h_index 100 over list": 8.0, "t_index over aggr": 20.0,
    }  # fmt: skip
    costs = good if holds else bad
    group = 5.0 if holds else 50.0
    sets = {name: costs[name] for name in ("none over list", "t_index over list", "h_index 100 over list")}
    groups = {"g_index 10 over group": group, "g_index 50 over group": group}
    return index_rows("histogram", costs) + index_rows("intersection", {**sets, **groups})


def indexing_9(holds: bool) -> Rows:
    good = {"none over list": 900.0, "ring forward": 500.0, "ring backward": 40.0, "ring dirty_bits": 10.0}
    bad = {"none over list": 9.0, "ring forward": 5.0, "ring backward": 9.0, "ring dirty_bits": 10.0}
    costs = good if holds else bad

    def times(way: str, windows: int, values: int) -> float:
        return values / 10_000 if (way == "ring dirty_bits") == holds else 1.0

    def plain(way: str, windows: int, values: int) -> float:
        return windows if holds else 1 / windows

    return [
        *index_rows("deletion", costs, times=times),
        *index_rows("maintenance", costs),
        *index_rows("sorted_scan", costs, times=plain),
    ]


UNIFORM, BOTH = ("uniform",), ("gaussian", "uniform")
MADE_UP: dict[str, Callable[[bool], Rows]] = {
    "indexing-7": indexing_7,
    "indexing-8": indexing_8,
    "indexing-9": indexing_9,
    "sharing-9": sharing_9,
    "sharing-10": sharing_10,
    "sharing-11": sharing_11,
    "sharing-12": sharing_12,
    "tr1536-3": lambda holds: timegram_ratio(holds, UNIFORM),
    "tr1536-4": against_queries("timegram-64", UNIFORM),
    "tr1536-5": lambda holds: timegram_ratio(holds, BOTH),
    "tr1536-6": against_queries("timegram-64", BOTH),
    "tr1536-9": against_queries("ordered_sharing", UNIFORM),
    "tr1536-10": against_queries("ordered_sharing", BOTH),
    "weave-4": weave_4,
    "weave-5": weave_5,
    "weave-6": weave_6,
    "weave-7": weave_7,
    "weave-8": weave_8,
    "weave-9": weave_9,
    "weave-10": weave_10,
    "weave-11": weave_11,
    "weave-14": weave_14,
}
