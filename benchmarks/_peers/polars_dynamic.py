"""Polars: `group_by_dynamic` over panes, all queries in one `collect_all`.

Events are read once, strings as categories. `group_by_dynamic` takes every event once for each window it lies in, so
the events are aggregated to panes first: without that it is far slower for windows that overlap much.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from _peers.program import Folders, Job, serve
from _peers.queries import Aggregate, Condition, Query, partials_of

OPERATORS = {">": "gt", ">=": "ge", "<": "lt", "<=": "le", "=": "eq"}


def lifted(partial: Aggregate) -> pl.Expr:
    """A partial of the events of a pane."""
    if partial.column is None:
        return pl.len().cast(pl.Int64)
    factors = [pl.col(name) for name in partial.column.split(" * ")]
    value = factors[0] if len(factors) == 1 else factors[0] * factors[1]
    return value.min() if partial.function == "MIN" else value.max() if partial.function == "MAX" else value.sum()


def folded(name: str, partial: Aggregate) -> pl.Expr:
    """A partial of the panes of a window."""
    panes = pl.col(name)
    return panes.min() if partial.function == "MIN" else panes.max() if partial.function == "MAX" else panes.sum()


def final(one: Aggregate) -> pl.Expr:
    """An aggregate from folded partials."""
    match one.function:
        case "COUNT":
            return pl.col("n")
        case "SUM":
            return pl.col(f"sum_{one.column}")
        case "AVG":
            return pl.col(f"sum_{one.column}") / pl.col("n")
        case "STDDEV_POP":
            mean = pl.col(f"sum_{one.column}") / pl.col("n")
            return (pl.col(f"squares_{one.column}") / pl.col("n") - mean * mean).clip(lower_bound=0).sqrt()
        case _:
            return pl.col(f"{one.function.lower()}_{one.column}")


def compared(condition: Condition, left: pl.Expr) -> pl.Expr:
    return getattr(left, OPERATORS[condition.operator])(condition.value)


def answers_of(events: pl.DataFrame, query: Query, time: str) -> pl.LazyFrame:
    """The answers of one query."""
    frame = events.lazy()
    if query.where is not None:
        frame = frame.filter(compared(query.where, pl.col(str(query.where.left))))
    keys, partials = list(query.group_by), partials_of(query)
    panes = frame.group_by(*keys, pl.col(time).dt.truncate(f"{query.pane_us}us")).agg(
        **{name: lifted(partial) for name, partial in partials.items()}
    )
    # Windows start at the first event; those that began before it, and contain it, need the offset.
    earlier = -(-query.range_us // query.slide_us) - 1
    windows = panes.sort(time).group_by_dynamic(
        time,
        every=f"{query.slide_us}us",
        period=f"{query.range_us}us",
        offset=f"-{earlier * query.slide_us}us",
        group_by=keys,
    )
    found = windows.agg(**{name: folded(name, partial) for name, partial in partials.items()})
    if query.having is not None:
        assert isinstance(query.having.left, Aggregate)
        found = found.filter(compared(query.having, final(query.having.left)))
    start = pl.col(time).dt.epoch("us")
    finals = {
        f"a{place}": final(one).cast(pl.Int64 if whole else pl.Float64)
        for place, (one, whole) in enumerate(zip(query.aggregates, query.integers))
    }
    return found.select(window_start=start, window_end=start + query.range_us, **{k: pl.col(k) for k in keys}, **finals)


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    answers.mkdir(parents=True)
    events = pl.read_parquet(folders.batch / "*.parquet").with_columns(pl.col(pl.String).cast(pl.Categorical))
    found = pl.collect_all([answers_of(events, query, job.stream.time) for query in queries])
    for query, frame in zip(queries, found):
        frame.write_parquet(answers / f"{query.name}.parquet")


if __name__ == "__main__":
    serve(run, pl.__version__)
