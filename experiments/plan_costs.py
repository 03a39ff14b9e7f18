"""Plans of the sharing paper's workloads: what each method's plan costs, as rows.

Workloads are those of `panewise bench optimizer`: ranges of whole seconds up to 2,000 queries and of whole minutes
beyond. So figures with fewer and with more queries than that have different edges and cannot be compared. A plan's
cost is in operations per second; `normalized` is its ratio to the cost of Shared for the same queries and rate. Costs
do not depend on the machine, the seconds of planning do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

from benchmarks.optimizer import MOST_EDGE_SETS, MOST_QUERIES, UNIT, load, paper_queries, step_for, timed
from experiments.figures import Case, Parameters
from experiments.tables import Row, Table

from panewise.errors import PanewiseError
from panewise.planning.sharing import EVERY_METHOD, Queries
from panewise.planning.sharing.shared import Shared

NAMES = {
    "weave_share": "Weave Share",
    "shared": "Shared",
    "insert_then_weave": "Insert-then-Weave",
    "local_search_from_no_share": "Local Search from No Share",
    "local_search_from_random": "Local Search from Random",
    "random": "Random",
    "no_share": "No Share",
    "exhaustive": "Exhaustive",
}
RIVALS = [name for name in NAMES if name not in ("weave_share", "exhaustive")]


@cache
def workload(queries: int, overlap: float, skew: float, seed: int) -> Queries:
    """The queries of one setting, made once."""
    return paper_queries(queries, overlap, skew, step_for(queries), seed)


def costs(methods: Iterable[str], queries: int, rate: float, overlap: float, skew: float, seed: int) -> Iterator[Row]:
    """A row for the plan of each method, except those that would not finish."""
    load_once()
    every = {method.name: method for method in EVERY_METHOD}
    asked = workload(queries, overlap, skew, seed)
    shared = Shared().share(asked, rate, UNIT).cost
    for name in methods:
        if name not in every:
            raise PanewiseError(f"there is no method {name}; choose from {', '.join(every)}")
        if len(asked.classes) > MOST_EDGE_SETS.get(name, len(asked)) or queries > MOST_QUERIES.get(name, queries):
            continue
        plan, seconds = timed(every[name], asked, rate)
        yield {
            **plan.summary(),
            "rate": float(rate),
            "overlap": float(overlap),
            "skew": float(skew),
            "workload_seed": seed,
            "normalized": plan.cost / shared,
            "seconds": seconds,
        }


def cases(parameters: Parameters, methods: Sequence[str] = ("weave_share",)) -> Iterator[Case]:
    """A case for every combination of the numbers of queries, rates, overlaps and skews."""
    for queries, rate, overlap, skew, seed in product(
        parameters["queries"], parameters["rates"], parameters["overlaps"], parameters["skews"], seeds(parameters)
    ):
        label = f"{queries:,} queries, {rate:,} events/s, overlap {overlap}, skew {skew}"
        yield Case(label, partial(costs, methods, queries, rate, overlap, skew, seed))


def seeds(parameters: Parameters) -> list[int]:
    """The seeds of the workloads: one for each workload in the average."""
    return [parameters["seed"] + number for number in range(parameters["workloads"])]


def small_sets(parameters: Parameters) -> Iterator[Case]:
    """Sets of queries small enough for Exhaustive, beside Weave Share and Shared."""
    for rate, queries in parameters["small_sets"]:
        for seed in seeds(parameters):
            yield Case(f"exhaustive, {queries} queries", partial(_small, queries, rate, seed))


def _small(queries: int, rate: float, seed: int) -> Iterator[Row]:
    for row in costs(("weave_share", "exhaustive", "shared"), queries, rate, 50, 0.6, seed):
        yield {**row, "part": "small sets"}


@cache
def load_once() -> None:
    """Compile what will be timed."""
    load()


def normalized(table: Table, **where: Any) -> float:
    """The mean ratio of the cost of Weave Share to that of Shared."""
    return table.mean("normalized", method="weave_share", **where)
