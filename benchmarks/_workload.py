"""Workloads that several benchmarks measure: mixed sliding-window queries, and the events they are about.

`trades` are generated; `flights` are the demo's real departures from New York City. Both give the first `count` of an
endless list of queries in which windows, groups, aggregates, WHERE and HAVING change from query to query.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import panewise
from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Comparison, Literal
from panewise.language.printer import print_expression
from panewise.language.workload import Workload
from panewise.windows import TimeWindow

TRADES = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, market STRING, price DOUBLE, volume BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
"""
SPAN_HOURS = 4
START_US = 1_767_225_600_000_000
MARKETS = 8
FILES_PER_BATCH = 2
"""Two, so that two cores read a micro-batch in equal shares."""

TRADE_WINDOWS = [(10, 5), (60, 2), (60, 5), (30, 5), (120, 5), (25, 5), (60, 4), (50, 5), (100, 5), (30, 1)]
"""Range and slide in minutes: overlaps from 2 to 30, 15 on average."""
TRADE_AGGREGATES = [
    "COUNT(*), SUM(volume)",
    "AVG(price), MAX(price)",
    "MIN(price)",
    "SUM(volume)",
    "COUNT(*), AVG(price)",
    "STDDEV_POP(price)",
]
TRADE_GROUPS = ["symbol", "symbol", "market", "symbol", "symbol", "", "symbol", "market, symbol"]
TRADE_PREDICATES = ["", "", "volume > 50", "", "market = 'm3'", "", "price >= 100.0"]
TRADES_PASSING = {"": 1.0, "volume > 50": 49 / 99, "market = 'm3'": 1.0, "price >= 100.0": 0.396}
"""The share of a symbol's trades that satisfy a predicate. A symbol is in one market: all its trades pass, or none."""
TRADE_QUERIES = 840
"""After this many queries over trades, the combinations of windows, groups, aggregates and predicates repeat."""
ALERT_DEVIATIONS = 4
"""An alert is for symbols whose trades are at least this many standard deviations above others: few of 10,000."""

FLIGHTS = """
CREATE STREAM flights (scheduled TIMESTAMP, origin STRING, dest STRING, carrier STRING, distance BIGINT, delay DOUBLE)
  TIMESTAMP BY scheduled WATERMARK 1 DAY GRANULARITY 10 MINUTES;
"""
FLIGHT_WINDOWS = [
    *((720, 180), (1440, 120), (360, 90), (180, 30), (2880, 240)),
    *((60, 20), (480, 120), (1440, 360), (240, 60), (2160, 180)),
]
"""Range and slide in minutes: overlaps from 3 to 12, 6.5 on average."""
FLIGHT_AGGREGATES = [
    "COUNT(*), SUM(distance)",
    "AVG(delay), MAX(delay)",
    "MIN(delay)",
    "SUM(distance)",
    "COUNT(*), AVG(delay)",
    "STDDEV_POP(delay)",
]
FLIGHTS_PER_HOUR = {"": 50, "origin": 18, "carrier": 5, "dest": 1, "origin, carrier": 3}
"""Groups, and about how many flights a busy one of them has in an hour."""
FLIGHT_GROUPS = ["origin", "carrier", "origin", "dest", "", "carrier", "origin, carrier"]
FLIGHT_PREDICATES = ["", "delay > 15.0", "", "carrier = 'UA'", "", "", "distance > 1000", "origin = 'JFK'"]


def make_trade_queries(count: int) -> Workload:
    """The first `count` queries over trades; windows of later ones are longer by odd minutes."""
    statements = [TRADES]
    for number in range(count):
        length, slide = TRADE_WINDOWS[number % len(TRADE_WINDOWS)]
        turn = number // len(TRADE_WINDOWS)
        length += turn % 12
        slide += 5 * (turn % 4)
        group = TRADE_GROUPS[number % len(TRADE_GROUPS)]
        where = TRADE_PREDICATES[number % len(TRADE_PREDICATES)]
        aggregates = TRADE_AGGREGATES[number % len(TRADE_AGGREGATES)]
        # Every third query is an alert: only groups above a threshold are reported.
        having = f"COUNT(*) > {10 * length}" if number % 3 == 2 and "symbol" in group else ""
        statements.append(_statement(number, "trades", aggregates, (length, slide), where, group, having))
    return panewise.read("\n".join(statements))


def make_alert_queries(count: int, events: int, keys: int) -> Workload:
    """The queries over trades as alerts: those that group by symbol report only symbols traded unusually often.

    So answers are few for any number of keys and queries. When the list of queries starts again, windows are one minute
    longer, so that thousands of queries are not repetitions of a few hundred.
    """
    workload = make_trade_queries(count)
    per_us = events / (SPAN_HOURS * 3_600_000_000 * keys)
    alerts = {}
    for number, query in enumerate(workload.queries.values()):
        assert isinstance(query.window, TimeWindow)
        window = replace(query.window, left_us=query.window.left_us + number // TRADE_QUERIES * 60_000_000)
        where = "" if query.where is None else print_expression(query.where)
        expected = per_us * window.range_us * TRADES_PASSING[where]
        deviations = ALERT_DEVIATIONS + number % TRADE_QUERIES / TRADE_QUERIES
        unusual = Literal(round(expected + deviations * expected**0.5), Type.BIGINT)
        having = Comparison(">", AggregateCall("COUNT_ALL", None), unusual) if "symbol" in query.group_by else None
        alerts[query.name] = replace(query, window=window, having=having)
    return replace(workload, queries=alerts)


def make_flight_queries(count: int) -> Workload:
    """The first `count` queries over flights; windows of later ones are longer, and slide by more."""
    statements = [FLIGHTS]
    for number in range(count):
        length, slide = FLIGHT_WINDOWS[number % len(FLIGHT_WINDOWS)]
        turn = number // len(FLIGHT_WINDOWS)
        length += 10 * (turn % 12)
        slide += 30 * (turn % 4)
        group = FLIGHT_GROUPS[number % len(FLIGHT_GROUPS)]
        where = FLIGHT_PREDICATES[number % len(FLIGHT_PREDICATES)]
        aggregates = FLIGHT_AGGREGATES[number % len(FLIGHT_AGGREGATES)]
        # Two of three are alerts: only busy groups are reported.
        busy = FLIGHTS_PER_HOUR[group] * length // 60
        having = f"COUNT(*) > {busy}" if number % 3 else ""
        statements.append(_statement(number, "flights", aggregates, (length, slide), where, group, having))
    return panewise.read("\n".join(statements))


def _statement(
    number: int, stream: str, aggregates: str, window: tuple[int, int], where: str, group: str, having: str
) -> str:
    length, slide = window
    clauses = [("WHERE", where), ("GROUP BY", group), ("HAVING", having)]
    return (
        f"CREATE QUERY q{number} AS SELECT {aggregates} FROM {stream} [RANGE {length} MINUTES SLIDE {slide} MINUTES] "
        + " ".join(f"{word} {text}" for word, text in clauses if text)
        + ";"
    )


def write_trades(
    folder: Path, events: int, keys: int, batches: int, seed: int, files_per_batch: int = FILES_PER_BATCH
) -> None:
    """Trades in order of time, a few parquet files a micro-batch."""
    batches *= files_per_batch
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    size = events // batches
    symbols = pa.array([f"s{key:06}" for key in range(keys)])
    markets = pa.array([f"m{market}" for market in range(MARKETS)])
    step_us = SPAN_HOURS * 3_600_000_000 / events
    for batch in range(batches):
        first = batch * size
        times = START_US + ((first + np.arange(size)) * step_us).astype(np.int64)
        key = random.integers(0, keys, size)
        table = pa.table(
            {
                "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "symbol": symbols.take(pa.array(key)),
                "market": markets.take(pa.array(key % MARKETS)),
                "price": np.round(random.lognormal(4.5, 0.4, size), 2),
                "volume": random.integers(1, 100, size),
            }
        )
        write_in_order(table, folder, batch)


def write_in_order(table: pa.Table, folder: Path, place: int) -> None:
    """One file of a stream; its age shows its place, because Spark reads the files of a folder by age."""
    path = folder / f"events-{place:03}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_000_000_000 + place,) * 2)
