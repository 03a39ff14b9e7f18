"""Apache Flink: the window function HOP in SQL, all queries in one statement set, so that they share the source.

PyPI's package reads and writes CSV, not parquet: the events are CSV before the clock starts, and answers are written as
CSV. Flink's HOP needs a range that is a multiple of the slide; other windows use Flink's older HOP in GROUP BY, which
does not need that.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

from _peers.program import Folders, Job, serve
from _peers.queries import Aggregate, Query


def source(job: Job, folder: Path) -> str:
    """The events as a table with a watermark."""
    attributes = ", ".join(f"`{name}` {kind}" for name, kind in job.stream.columns.items() if kind != "TIMESTAMP")
    time = job.stream.time
    return f"""CREATE TABLE events (
      at_ms BIGINT, {attributes}, `{time}` AS TO_TIMESTAMP_LTZ(at_ms, 3),
      WATERMARK FOR `{time}` AS `{time}` - {interval(job.stream.watermark_us)}
    ) WITH ('connector' = 'filesystem', 'path' = '{folder.as_uri()}', 'format' = 'csv')"""


def interval(length_us: int) -> str:
    """An interval: days, and the time of a day. Flink takes at most two digits for seconds, minutes and hours."""
    days, rest_us = divmod(length_us, 86_400_000_000)
    minutes, seconds = divmod(rest_us / 1e6, 60)
    return f"INTERVAL '{days} {int(minutes) // 60:02}:{int(minutes) % 60:02}:{seconds:06.3f}' DAY TO SECOND"


def sink(job: Job, query: Query, answers: Path) -> str:
    """The table to which a query's answers go."""
    groups = "".join(f", `{name}` {job.stream.columns[name]}" for name in query.group_by)
    values = "".join(f", a{place} {'BIGINT' if whole else 'DOUBLE'}" for place, whole in enumerate(query.integers))
    return f"""CREATE TABLE `{query.name}` (window_start TIMESTAMP_LTZ(3), window_end TIMESTAMP_LTZ(3){groups}{values})
    WITH ('connector' = 'filesystem', 'path' = '{(answers / (query.name + ".csv")).as_uri()}', 'format' = 'csv')"""


def statement(query: Query, time: str) -> str:
    """One query."""
    slide, length = interval(query.slide_us), interval(query.range_us)
    groups = "".join(f", `{name}`" for name in query.group_by)
    finals = "".join(f", {one.sql}" for one in query.aggregates)
    where = "" if query.where is None else f"WHERE {query.where.sql(str(query.where.left))}"
    having = ""
    if query.having is not None:
        assert isinstance(query.having.left, Aggregate)
        having = f"HAVING {query.having.sql(query.having.left.sql)}"
    if query.range_us % query.slide_us == 0:
        return f"""INSERT INTO `{query.name}` SELECT window_start, window_end{groups}{finals}
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(`{time}`), {slide}, {length}))
        {where} GROUP BY window_start, window_end{groups} {having}"""
    hop = f"(`{time}`, {slide}, {length})"
    return f"""INSERT INTO `{query.name}` SELECT HOP_START{hop}, HOP_END{hop}{groups}{finals}
    FROM events {where} GROUP BY HOP{hop}{groups} {having}"""


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    configuration = Configuration()
    settings = {
        "parallelism.default": str(job.cores),
        # Every query shuffles by its own key: the default holds the buffers of a few dozen.
        "taskmanager.memory.network.min": f"{64 + len(queries)}m",
        "taskmanager.memory.network.max": f"{64 + len(queries)}m",
        "taskmanager.network.memory.buffers-per-channel": "0",
        "table.local-time-zone": "UTC",
        "rest.port": "0",
    }
    for name, value in settings.items():
        configuration.set_string(name, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(chosen)
    tables.execute_sql(source(job, folders.csv))
    statements = tables.create_statement_set()
    for query in queries:
        tables.execute_sql(sink(job, query, answers))
        statements.add_insert_sql(statement(query, job.stream.time))
    statements.execute().wait()


if __name__ == "__main__":
    serve(run, version("apache-flink"))
