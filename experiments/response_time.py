"""Response time of TimeGram and OrderedSharing beside the naive approach of STREAM, as rows.

Streams, windows and runs are those of `panewise bench sharing`. `us_per_event` is the time of all events and lookups,
divided by the number of events. A lookup asks one query, each in its turn, or all of them. Answers are compared with
those of base intervals, and a wrong one stops the run. A naive run that takes too long is stopped and flagged
`extrapolated`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from benchmarks.sharing import Case as Load
from benchmarks.sharing import Run, check, make_case, run
from experiments.figures import Case, Parameters
from experiments.tables import Row, Table

NAMES = {"naive": "naive", "timegram-64": "TimeGram, 64 buckets", "ordered_sharing": "OrderedSharing"}
ONE, ALL = "one query", "every query"


def cases(parameters: Parameters) -> Iterator[Case]:
    """A case for each kind of data, number of queries, ratio, and way to ask."""
    for data in parameters["data"]:
        for queries in parameters["queries"]:
            for ratio in parameters["ratios"]:
                for asked in parameters["asked"]:
                    label = f"{data}, {queries:,} queries, {ratio:,} updates a lookup of {asked}"
                    yield Case(label, partial(_rows, parameters, data, queries, ratio, asked))


def _rows(parameters: Parameters, data: str, queries: int, ratio: int, asked: str) -> Iterator[Row]:
    events = parameters["events"]
    if asked == ALL:
        # No more lookups than there is time for; the result is a time by event.
        events = min(events, max(10 * ratio, parameters["most_lookups"] * ratio // queries))
    load = make_case(data, queries, ratio, events, parameters["largest"], parameters["seed"], asked == ALL)
    for aggregate in parameters["aggregates"]:
        exact = _fastest(load, "base_intervals", aggregate, {**parameters, "repeat": 1})
        for algorithm in parameters["algorithms"]:
            measured = _fastest(load, algorithm, aggregate, parameters)
            check(algorithm, exact, measured, aggregate)
            yield {
                "data": data,
                "aggregate": aggregate,
                "algorithm": algorithm,
                "queries": queries,
                "ratio": ratio,
                "asked": asked,
                "events": events,
                "lookups": len(load.widths),
                "us_per_event": 1e6 * measured.seconds_per_event,
                **dict(measured.shown),
            }


def _fastest(load: Load, algorithm: str, aggregate: str, parameters: Parameters) -> Run:
    """The fastest of several runs, after a short one that compiles."""
    some = replace(load, events=load.events[:200], after=np.arange(100), widths=load.sizes[np.zeros(100, np.int64)])
    run(replace(some, sizes=load.sizes[:1]), algorithm, aggregate, 1.0)
    runs = (run(load, algorithm, aggregate, parameters["limit_s"]) for _ in range(parameters["repeat"]))
    return min(runs, key=lambda one: one.seconds_per_event)


def time_us(table: Table, algorithm: str, **where: Any) -> float:
    """The response time by event."""
    return table.mean("us_per_event", algorithm=algorithm, **where)


def times_faster(table: Table, algorithm: str, **where: Any) -> float:
    """How many times as long the naive approach takes."""
    return time_us(table, "naive", **where) / time_us(table, algorithm, **where)
