"""pandas: `rolling` over panes, one column for each group.

A query's events are aggregated to panes. The panes become a table of time by group without gaps, and every partial is
rolled over all groups at once; the rows at which windows end are the answers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from _peers.program import Folders, Job, serve
from _peers.queries import Aggregate, Condition, Query, partials_of

OPERATORS = {">": "gt", ">=": "ge", "<": "lt", "<=": "le", "=": "eq"}


def compared(condition: Condition, left: pd.Series) -> pd.Series:
    return getattr(left, OPERATORS[condition.operator])(condition.value)


def panes_of(events: pd.DataFrame, query: Query, time: str) -> pd.DataFrame:
    """The partials of each pane and group that has events; the pane is the first level of the index."""
    if query.where is not None:
        events = events[compared(query.where, events[str(query.where.left)])]
    pane = events[time] // query.pane_us
    inputs = {
        name: 1 if partial.column is None else _product(events, partial.column)
        for name, partial in partials_of(query).items()
    }
    table = pd.DataFrame({"pane": pane, **{name: events[name] for name in query.group_by}, **inputs})
    how = {name: {"MIN": "min", "MAX": "max"}.get(one.function, "sum") for name, one in partials_of(query).items()}
    return table.groupby(["pane", *query.group_by], observed=True, sort=False).agg(how)


def _product(events: pd.DataFrame, column: str) -> pd.Series:
    first, *rest = column.split(" * ")
    return events[first] * events[rest[0]] if rest else events[first]


def rolled(panes: pd.DataFrame, query: Query) -> pd.DataFrame:
    """The partials of every window that has events; its end, in panes, is the first level of the index."""
    length, step = query.range_us // query.pane_us, query.slide_us // query.pane_us
    present = panes.index.get_level_values("pane")
    grid = pd.RangeIndex(present.min(), present.max() + length + 1, name="pane")
    # The window that ends before pane e covers the `length` panes before e; windows start at multiples of `step`.
    ends = grid[(grid - length) % step == 0]
    windows = {}
    for name, partial in partials_of(query).items():
        column = panes[name]
        wide = column.unstack(list(query.group_by)) if query.group_by else column.to_frame()
        is_sum = partial.function not in ("MIN", "MAX")
        wide = wide.reindex(grid, fill_value=np.nan)
        wide = wide.fillna(0) if is_sum else wide
        rolling = wide.rolling(length, min_periods=1)
        folded = rolling.sum() if is_sum else rolling.min() if partial.function == "MIN" else rolling.max()
        chosen = folded.shift(1).loc[ends]
        windows[name] = chosen.stack(list(query.group_by), future_stack=True) if query.group_by else chosen.iloc[:, 0]
    table = pd.DataFrame(windows)
    return table[table["n"] > 0]


def final(windows: pd.DataFrame, one: Aggregate) -> pd.Series:
    """An aggregate from folded partials."""
    match one.function:
        case "COUNT":
            return windows["n"]
        case "SUM":
            return windows[f"sum_{one.column}"]
        case "AVG":
            return windows[f"sum_{one.column}"] / windows["n"]
        case "STDDEV_POP":
            mean = windows[f"sum_{one.column}"] / windows["n"]
            return np.sqrt((windows[f"squares_{one.column}"] / windows["n"] - mean * mean).clip(lower=0))
        case _:
            return windows[f"{one.function.lower()}_{one.column}"]


def answers_of(events: pd.DataFrame, query: Query, time: str) -> pd.DataFrame:
    """The answers of one query; times are microseconds."""
    windows = rolled(panes_of(events, query, time), query)
    if query.having is not None:
        assert isinstance(query.having.left, Aggregate)
        windows = windows[compared(query.having, final(windows, query.having.left))]
    end = windows.index.get_level_values("pane") * query.pane_us
    table = {"window_start": end - query.range_us, "window_end": end}
    table |= {name: windows.index.get_level_values(name) for name in query.group_by}
    for place, (one, whole) in enumerate(zip(query.aggregates, query.integers)):
        values = final(windows, one).to_numpy()
        # Sums of doubles that are whole numbers below 2**53 are exact.
        table[f"a{place}"] = np.rint(values).astype(np.int64) if whole else values
    return pd.DataFrame(table)


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    answers.mkdir(parents=True)
    events = pd.read_parquet(folders.batch)
    events[job.stream.time] = events[job.stream.time].dt.as_unit("us").astype("int64")
    strings = [name for name, kind in job.stream.columns.items() if kind == "STRING"]
    events = events.astype(dict.fromkeys(strings, "category"))
    for query in queries:
        answers_of(events, query, job.stream.time).to_parquet(answers / f"{query.name}.parquet", index=False)


if __name__ == "__main__":
    serve(run, pd.__version__)
