"""Queries come one at a time; each plan is compared with the cost of a plan from scratch.

The overhead is counted in comparisons of two trees: one for each existing tree when a query comes, and for a
reconstruction all pairs of the first round and those with the merged tree of each further round (section 8.1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from benchmarks.optimizer import UNIT, paper_queries, step_for
from experiments.figures import Case, Parameters
from experiments.plan_costs import load_once
from experiments.tables import Row

from panewise.planning.sharing import Queries
from panewise.planning.sharing.incremental_weave_share import IncrementalWeaveShare
from panewise.planning.sharing.weave_share import WeaveShare


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each tolerance; plans from scratch are made once for all of them."""
    total = parameters["first"] + parameters["added"]
    overlap, skew = parameters["overlap"], parameters["skew"]
    queries = paper_queries(total, overlap, skew, step_for(total), parameters["seed"])

    @cache
    def from_scratch(size: int) -> float:
        some = Queries(queries.ranges[:size], queries.slides[:size], queries.offsets[:size])
        return WeaveShare().share(some, parameters["rate"], UNIT).cost

    for tolerance in parameters["tolerances"]:
        work = partial(_rows, parameters, queries, tolerance, from_scratch)
        yield Case(f"tolerance {tolerance:g}", work)


def _rows(
    parameters: Parameters, queries: Queries, tolerance: float, from_scratch: Callable[[int], float]
) -> Iterator[Row]:
    load_once()
    windows = list(zip(queries.ranges.tolist(), queries.slides.tolist()))
    online = IncrementalWeaveShare(float(parameters["rate"]), tolerance=tolerance)
    online.add_all(dict(enumerate(windows[: parameters["first"]])))
    seconds, comparisons, errors = 0.0, 0, []
    for place in range(parameters["first"], len(windows)):
        trees, made = online.number_of_trees, online.reconstructions
        began = time.process_time()
        online.add(place, windows[place])
        seconds += time.process_time() - began
        comparisons += trees
        if online.reconstructions > made:
            comparisons += _weaving(len(queries.chosen(np.arange(place + 1)).classes), online.number_of_trees)
        if (place + 1 - parameters["first"]) % parameters["check_every"] == 0:
            errors.append(online.cost / from_scratch(place + 1) - 1)
    yield {
        "tolerance": tolerance,
        "queries": len(windows),
        "comparisons": comparisons,
        "seconds": seconds,
        "reconstructions": online.reconstructions - 1,
        "mean_error": sum(errors) / len(errors),
        "greatest_error": max(errors),
    }


def _weaving(edge_sets: int, trees: int) -> int:
    """How many comparisons it takes to merge edge sets into trees, with a table of costs."""
    return edge_sets * (edge_sets - 1) // 2 + sum(range(trees - 1, edge_sets - 1))
