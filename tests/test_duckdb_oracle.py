"""The engine, the oracle in Python and DuckDB agree: on drawn workloads, awkward numbers, and the flights.

Drawn times lie around 0 and before 1970, with ties; windows are of every kind. See `tests.duckdb_oracle`.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from tests import oracle
from tests.answers import to_answers
from tests.duckdb_oracle import DuckDBOracle
from tests.flights import STREAM, flights_before
from tests.workloads import (
    DECAYED,
    LISTS,
    MOMENTS,
    OF_CONDITIONS,
    OF_TWO,
    ON_DEMAND,
    PICKED,
    SLIDING,
    random_events,
    random_workload,
)

import panewise
from panewise.engine.columns import arrow_type
from panewise.language.expressions import AggregateCall
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload

# Some times lie before 1900 on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")


def without_sketches(workload: Workload) -> Workload:
    """The queries that DuckDB can answer too; it refuses moments of infinite values, and has no half lives."""
    foreign = (*MOMENTS, *OF_TWO, *PICKED, *DECAYED, *OF_CONDITIONS, *LISTS)
    kept = {
        name: query
        for name, query in workload.queries.items()
        if not any(call.function.startswith("APPROX") or call.function in foreign for call in query.aggregates)
    }
    return replace(workload, queries=kept)


def as_table(stream: Stream, rows: list[dict]) -> pa.Table:
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in stream.attributes.items()])
    return pa.Table.from_pylist(rows, schema)


def closed_by_engine(workload: Workload, table: pa.Table) -> list[oracle.Answer]:
    (stream,) = workload.streams
    engine = panewise.Engine(workload)
    size = table.num_rows // 3 + 1
    for begin in range(0, table.num_rows, size):
        engine.push(stream, table.slice(begin, size))
    return to_answers(engine.advance(stream, panewise.END_OF_STREAM).long(), workload)


@pytest.mark.parametrize("origin_us", [0, -3_000_000_000_000_000])
@pytest.mark.parametrize("seed", range(5))
def test_windows_that_close(seed: int, origin_us: int) -> None:
    workload = without_sketches(random_workload(seed, queries=24, windows=SLIDING))
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 60, origin_us=origin_us)
    duck = DuckDBOracle(stream, rows)
    expected = [answer for query in workload.queries.values() for answer in duck.closed(query)]
    assert expected
    oracle.assert_same_answers(closed_by_engine(workload, as_table(stream, rows)), expected)


@pytest.mark.parametrize("origin_us", [0, -3_000_000_000_000_000])
@pytest.mark.parametrize("seed", range(10, 15))
def test_lookups(seed: int, origin_us: int) -> None:
    workload = without_sketches(random_workload(seed, queries=24, windows=ON_DEMAND))
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 60, origin_us=origin_us)
    duck = DuckDBOracle(stream, rows)
    engine = panewise.Engine(workload)
    engine.push(stream.name, as_table(stream, rows))
    times = sorted(row[stream.timestamp] for row in rows)
    for at in (times[20], times[40] + 1, times[-1]):
        for name, query in workload.queries.items():
            found = to_answers(engine.lookup(name, at=at), workload, name)
            oracle.assert_same_answers(found, duck.looked_up(query, at), name)


FUNCTIONS = "COUNT(v), SUM(v), AVG(v), MIN(v), MAX(v), VAR_POP(v), VAR_SAMP(v), STDDEV_POP(v), STDDEV_SAMP(v), MODE(v)"


@pytest.mark.parametrize("center", [0, 10**6, 2**40, 1_700_000_000_000_000, 2**53, -(10**16)])
def test_large_means(center: int) -> None:
    """Numbers close around any mean, as BIGINT and as DOUBLE; exact in DuckDB's HUGEINT."""
    workload = panewise.read(
        "CREATE STREAM s (t TIMESTAMP, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY t;"
        f"CREATE QUERY a AS SELECT k, {FUNCTIONS.replace('v', 'n')} FROM s [RANGE 9 SECONDS SLIDE 4 SECONDS]"
        "  GROUP BY k;"
        f"CREATE QUERY b AS SELECT {FUNCTIONS.replace('v', 'x')} FROM s [RANGE 9 SECONDS SLIDE 4 SECONDS];"
        f"CREATE QUERY c AS SELECT {FUNCTIONS.replace('v', 'n')} FROM s [ROWS 7 SLIDE 3];"
    )
    (stream,) = workload.streams.values()
    random = Random(center)
    rows = []
    for place in range(60):
        n = center + 2 * random.randrange(4)
        rows.append({"t": (place - 30) * 700_000, "k": random.randrange(2), "n": n, "x": float(n)})
    duck = DuckDBOracle(stream, rows, whole=True)
    expected = [answer for query in workload.queries.values() for answer in duck.closed(query)]
    oracle.assert_same_answers(closed_by_engine(workload, as_table(stream, rows)), expected)


FLIGHTS = """
CREATE QUERY traffic AS SELECT origin, COUNT(*), AVG(delay), MIN(delay), MAX(arrival_delay), SUM(distance)
  FROM flights [RANGE 6 HOURS SLIDE 2 HOURS] GROUP BY origin;
CREATE QUERY spread AS SELECT carrier, VAR_POP(delay), STDDEV_SAMP(arrival_delay), VAR_SAMP(distance), SUM(air_time)
  FROM flights [RANGE 1 DAYS SLIDE 12 HOURS] WHERE distance > 500 AND origin <> 'JFK' GROUP BY carrier
  HAVING COUNT(*) > 10;
CREATE QUERY middle AS SELECT QUANTILE(delay, 0.9), MEDIAN(air_time), COUNT(DISTINCT tailnum), COUNT(arrival_delay)
  FROM flights [RANGE 5 HOURS SLIDE 3 HOURS];
CREATE QUERY some_rows AS SELECT MODE(distance), AVG(air_time) FROM flights [ROWS 50 SLIDE 500];
"""


def test_flights() -> None:
    table = flights_before(2).slice(0, 12_000)
    workload = panewise.read(STREAM + FLIGHTS)
    stream = workload.streams["flights"]
    table = table.select(list(stream.attributes))
    duck = DuckDBOracle(stream, table)
    expected = [answer for query in workload.queries.values() for answer in duck.closed(query)]
    found = closed_by_engine(workload, table)
    assert len(found) > 1000
    oracle.assert_same_answers(found, expected)


def test_every_aggregate_and_window_was_drawn() -> None:
    """The seeds above reach every exact aggregate, and every kind of window."""
    queries: list[Query] = []
    for seed, windows in [*((seed, SLIDING) for seed in range(5)), *((seed, ON_DEMAND) for seed in range(10, 15))]:
        queries += without_sketches(random_workload(seed, queries=24, windows=windows)).queries.values()
    calls = {call.function for query in queries for call in query.aggregates if isinstance(call, AggregateCall)}
    assert len(calls) == 14, sorted(calls)
    kinds = {(type(query.window).__name__, query.window.is_sliding) for query in queries}
    assert len(kinds) == 4
    assert any(query.having for query in queries)
    assert any(query.where for query in queries)
    assert any(getattr(query.window, "partition_by", ()) for query in queries)
