"""Pathway: `windowby` with a sliding window, all queries in one graph, so that they share the source.

Pathway's free package writes CSV, not parquet; it reads the events from CSV too. It has no STDDEV_POP, so that is
computed from sums.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("PATHWAY_THREADS", str(os.cpu_count() or 2))

import pathway as pw
from pathway.internals.parse_graph import G

from _peers.program import Folders, Job, serve
from _peers.queries import Aggregate, Condition, Query, partials_of

KINDS = {"STRING": str, "BIGINT": int, "DOUBLE": float}


def lifted(partial: Aggregate) -> Any:
    """A reducer over the events of a window."""
    if partial.column is None:
        return pw.reducers.count()
    factors = [getattr(pw.this, name) for name in partial.column.split(" * ")]
    value = factors[0] if len(factors) == 1 else factors[0] * factors[1]
    return {"MIN": pw.reducers.min, "MAX": pw.reducers.max, "SUM": pw.reducers.sum}[partial.function](value)


def final(windows: Any, one: Aggregate) -> Any:
    """An aggregate from the reduced values."""
    match one.function:
        case "COUNT":
            return windows.n
        case "SUM":
            return windows[f"sum_{one.column}"]
        case "AVG":
            return windows[f"sum_{one.column}"] / windows.n
        case "STDDEV_POP":
            mean = windows[f"sum_{one.column}"] / windows.n
            variance = windows[f"squares_{one.column}"] / windows.n - mean * mean
            return pw.if_else(variance > 0, variance, 0.0) ** 0.5
        case _:
            return windows[f"{one.function.lower()}_{one.column}"]


def compared(condition: Condition, left: Any) -> Any:
    match condition.operator:
        case ">":
            return left > condition.value
        case ">=":
            return left >= condition.value
        case "<":
            return left < condition.value
        case "<=":
            return left <= condition.value
        case _:
            return left == condition.value


def answers_of(events: Any, query: Query) -> Any:
    """The answers of one query."""
    if query.where is not None:
        events = events.filter(compared(query.where, events[str(query.where.left)]))
    instance = pw.make_tuple(*(events[name] for name in query.group_by)) if query.group_by else None
    windowed = events.windowby(
        events.at_ms,
        window=pw.temporal.sliding(hop=query.slide_us // 1000, duration=query.range_us // 1000),
        instance=instance,
    )
    groups = {name: pw.this._pw_instance.get(place) for place, name in enumerate(query.group_by)}
    windows = windowed.reduce(
        window_start=pw.this._pw_window_start,
        window_end=pw.this._pw_window_end,
        **groups,
        **{name: lifted(partial) for name, partial in partials_of(query).items()},
    )
    if query.having is not None:
        assert isinstance(query.having.left, Aggregate)
        windows = windows.filter(compared(query.having, final(windows, query.having.left)))
    return windows.select(
        window_start=windows.window_start * 1000,
        window_end=windows.window_end * 1000,
        **{name: windows[name] for name in query.group_by},
        **{f"a{place}": final(windows, one) for place, one in enumerate(query.aggregates)},
    )


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    answers.mkdir(parents=True)
    G.clear()
    kinds = {"at_ms": int} | {name: KINDS[kind] for name, kind in job.stream.columns.items() if kind in KINDS}
    schema = pw.schema_from_types(**kinds)
    events = pw.io.csv.read(str(folders.named_csv), schema=schema, mode="static")
    for query in queries:
        pw.io.csv.write(answers_of(events, query), str(answers / f"{query.name}.csv"))
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    serve(run, version("pathway"))
