"""The engine and DuckDB answer the same sliding windows over the flights in the same way.

DuckDB's SQL is written by hand and shares nothing with Panewise: windows are rows that are joined with the flights in
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.flights import STREAM, all_flights

import panewise
from panewise.cli.demo.compare import first_difference

PUSHES = 7
HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Case:
    """A query for both: the window in hours, and the text that differs between the two."""

    range_h: float
    slide_h: float
    panewise: str
    duckdb: str
    group_by: str = ""
    where: str = ""
    having: str = ""


def element(column: str, phi: str) -> str:
    """Panewise's QUANTILE in DuckDB: the element at the 1-based position max(1, floor(phi * n)), phi a decimal."""
    sorted_list = f"list_sort(list({column}) FILTER ({column} IS NOT NULL))"
    return f"({sorted_list})[greatest(1, CAST(floor({phi} * count({column})) AS BIGINT))]"


CASES = {
    "traffic": Case(
        2, 0.5, "COUNT(*), AVG(delay), MAX(delay), MIN(delay)", "count(*), avg(delay), max(delay), min(delay)"
    ),
    "range_no_multiple_of_slide": Case(
        *(5, 2, "SUM(distance), COUNT(arrival_delay), AVG(distance)"),
        "CAST(sum(distance) AS BIGINT), count(arrival_delay), avg(distance)",
        group_by="origin",
    ),
    "spread": Case(
        *(12, 3, "VAR_POP(delay), VAR_SAMP(delay), STDDEV_POP(arrival_delay), STDDEV_SAMP(arrival_delay)"),
        "var_pop(delay), var_samp(delay), stddev_pop(arrival_delay), stddev_samp(arrival_delay)",
        group_by="carrier",
    ),
    "only_bad_windows": Case(
        *(24, 1, "COUNT(*), AVG(delay)", "count(*), avg(delay)"),
        group_by="origin, carrier",
        where="distance BETWEEN 300 AND 2000 AND carrier <> 'UA'",
        having="COUNT(*) >= 10 AND AVG(delay) > 30",
    ),
    "range_below_slide": Case(
        *(8, 12, "AVG(arrival_delay), MAX(air_time), COUNT(*)", "avg(arrival_delay), max(air_time), count(*)"),
        group_by="dest",
    ),
    "quantiles": Case(
        *(6, 1, "MEDIAN(delay), QUANTILE(delay, 0.9), QUANTILE(arrival_delay, 0.01)"),
        ", ".join(["quantile_disc(delay, 0.5)", element("delay", "0.9"), element("arrival_delay", "0.01")]),
        group_by="origin",
    ),
    "different_values": Case(
        *(24, 6, "COUNT(DISTINCT tailnum), COUNT(DISTINCT dest), COUNT(DISTINCT air_time)"),
        "count(DISTINCT tailnum), count(DISTINCT dest), count(DISTINCT air_time)",
        group_by="carrier",
    ),
    "expressions": Case(
        *(48, 4, "AVG(delay - arrival_delay), MAX(distance * 60 / air_time), COUNT(*)"),
        "avg(delay - arrival_delay), max(distance * 60 / air_time), count(*)",
        where="dest LIKE 'S%' OR tailnum IS NULL OR dest IN ('LAX', 'BOS')",
    ),
}


def statement(name: str, case: Case) -> str:
    window = f"[RANGE {round(case.range_h * 60)} MINUTES SLIDE {round(case.slide_h * 60)} MINUTES]"
    clauses = [
        f"WHERE {case.where}" if case.where else "",
        f"GROUP BY {case.group_by}" if case.group_by else "",
        f"HAVING {case.having}" if case.having else "",
    ]
    return f"CREATE QUERY {name} AS SELECT {case.panewise} FROM flights {window} {' '.join(clauses)};"


WORKLOAD = STREAM + "\n".join(statement(name, case) for name, case in CASES.items())


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return all_flights()


@pytest.fixture(scope="module")
def answers(flights: pa.Table) -> pa.Table:
    """All answers, with the flights pushed in the order of departure and windows closed in between."""
    engine = panewise.Engine(WORKLOAD)
    closed = []
    length = -(-flights.num_rows // PUSHES)
    for begin in range(0, flights.num_rows, length):
        engine.push("flights", flights.slice(begin, length))
        closed.append(engine.advance("flights").long())
    closed.append(engine.advance("flights", panewise.END_OF_STREAM).long())
    assert engine.late_events("flights") == 0
    assert all(part.num_rows for part in closed)
    return pa.concat_tables(closed)


@pytest.fixture(scope="module")
def database(flights: pa.Table) -> duckdb.DuckDBPyConnection:
    at_us = flights.column("scheduled").cast(pa.int64())
    connection = duckdb.connect()
    connection.register("events", flights.append_column("at_us", at_us).drop_columns(["scheduled"]))
    connection.execute("CREATE TABLE flights AS SELECT * FROM events")
    return connection


def by_duckdb(database: duckdb.DuckDBPyConnection, case: Case, first_us: int, last_us: int) -> pa.Table:
    range_us, slide_us = round(case.range_h * HOUR_US), round(case.slide_h * HOUR_US)
    keys = f"{case.group_by}, " if case.group_by else ""
    first_start_us = (first_us - range_us) // slide_us * slide_us
    return database.sql(
        f"""
        SELECT start_us, start_us + {range_us}, {keys}{case.duckdb}
        FROM generate_series({first_start_us}, {last_us}, {slide_us}) AS windows(start_us)
        JOIN flights ON at_us >= start_us AND at_us < start_us + {range_us}
        WHERE {case.where or "true"} GROUP BY {keys}start_us HAVING {case.having or "true"}
        """
    ).to_arrow_table()


@pytest.mark.parametrize("name", CASES)
def test_the_engine_agrees_with_duckdb(
    name: str, flights: pa.Table, answers: pa.Table, database: duckdb.DuckDBPyConnection
) -> None:
    case = CASES[name]
    extremes = pc.min_max(flights.column("scheduled").cast(pa.int64()))
    expected = by_duckdb(database, case, extremes["min"].as_py(), extremes["max"].as_py())
    ours = panewise.wide(answers, panewise.read(WORKLOAD), name)
    assert ours.num_rows > 50
    keys = 2 + len(case.group_by.split(",")) * bool(case.group_by)
    assert first_difference(ours, expected, keys) is None
