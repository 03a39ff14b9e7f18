"""DuckDB: the events in a table, then one statement for each query.

A statement aggregates events to panes, copies every pane to the windows that it lies in, and aggregates those. Other
forms were measured: copying events takes more than ten times as long; a RANGE frame over panes and a grid of window
ends takes half as long again; joining panes with windows by inequality is faster for few windows, and far slower for
windows of a year.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from _peers.program import Folders, Job, serve
from _peers.queries import Query, final_sql, folding_of, having_sql, partials_of


def statement(query: Query, time: str) -> str:
    """The answers of one query over the table `events`."""
    slide_us = query.slide_us
    keys = "".join(f", {name}" for name in query.group_by)
    partials = partials_of(query)
    lifted = ", ".join(f"{partial.sql} AS {name}" for name, partial in partials.items())
    folded = ", ".join(f"{folding_of(partial)}({name}) AS {name}" for name, partial in partials.items())
    where = "" if query.where is None else f"WHERE {query.where.sql(str(query.where.left))}"
    having = having_sql(query)
    finals = ", ".join(
        f"CAST({final_sql(one)} AS {'BIGINT' if whole else 'DOUBLE'}) AS a{place}"
        for place, (one, whole) in enumerate(zip(query.aggregates, query.integers))
    )
    return f"""
    WITH panes AS (
      SELECT epoch_us("{time}") // {query.pane_us} * {query.pane_us} AS pane{keys}, {lifted}
      FROM events {where} GROUP BY ALL
    ), copies AS (
      SELECT *, UNNEST(generate_series(
        ((pane - {query.range_us}) // {slide_us} + 1) * {slide_us}, pane, {slide_us})) AS start
      FROM panes
    ), folded AS (
      SELECT start{keys}, {folded} FROM copies GROUP BY ALL
    )
    SELECT start AS window_start, start + {query.range_us} AS window_end{keys}, {finals}
    FROM folded {"" if having is None else "WHERE " + having}
    """


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    answers.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {job.cores}")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE events AS FROM read_parquet('{folders.batch}/*.parquet')")
        for query in queries:
            target = answers / f"{query.name}.parquet"
            connection.execute(f"COPY ({statement(query, job.stream.time)}) TO '{target}' (FORMAT parquet)")


if __name__ == "__main__":
    serve(run, duckdb.__version__)
