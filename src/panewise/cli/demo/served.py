"""The flights of the demo, replayed into an engine that a server shows: a year in about ten minutes, then again."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pyarrow.compute as pc

import panewise
from panewise.cli.demo.flights import load_flights
from panewise.cli.workload import read_workload
from panewise.serve.engine_source import EngineSource

QUERIES = Path(__file__).with_name("queries.sql")
LOOKED_UP = """
CREATE QUERY delays_now AS SELECT origin, COUNT(*) AS flights, AVG(delay) AS delay, MAX(delay) AS worst
  FROM flights [RANGE 1 DAY] GROUP BY origin;
CREATE QUERY destinations_now AS SELECT dest, COUNT(*) AS flights, AVG(arrival_delay) AS delay
  FROM flights [RANGE 1 DAY] GROUP BY dest;
CREATE QUERY planes_now AS SELECT tailnum, COUNT(*) AS flights, SUM(distance) AS miles, AVG(delay) AS delay
  FROM flights [RANGE 7 DAYS] GROUP BY tailnum;
CREATE QUERY late_planes AS SELECT tailnum, COUNT(*) AS flights, AVG(delay) AS delay
  FROM flights [RANGE 7 DAYS] GROUP BY tailnum HAVING AVG(delay) > 60;
"""
"""Queries without SLIDE beside those of the demo: they are looked up, now or at any time."""
FLIGHTS_AT_ONCE = 300
"""About eight hours of flights."""
EVERY_S = 0.5
YEAR_US = 365 * 86_400_000_000


class FlightsSource(EngineSource):
    """An engine with the queries of the demo, and a thread that pushes flights. Each round is a year later."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._flights, _ = load_flights()
        self._every_s = every_s
        super().__init__(panewise.Engine(read_workload(QUERIES)))
        self.add(LOOKED_UP)
        # A day is there when the server starts, and what lookups need is compiled.
        self.push("flights", self._flights.slice(0, 3 * FLIGHTS_AT_ONCE), None)
        for name, query in self.workload.queries.items():
            if not query.window.is_sliding:
                self.engine.lookup(name)
        self._stop = Event()
        self._thread = Thread(target=self._replay, name="panewise-replay", daemon=True)

    def start(self) -> None:
        """Begin the replay."""
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def _replay(self) -> None:
        year, begin = 0, 3 * FLIGHTS_AT_ONCE
        while not self._stop.wait(self._every_s):
            flights = self._flights.slice(begin, FLIGHTS_AT_ONCE)
            if year:
                flights = _later(flights, year * YEAR_US)
            self.push("flights", flights, None)
            begin += FLIGHTS_AT_ONCE
            if begin >= self._flights.num_rows:
                year, begin = year + 1, 0


def _later(flights: pa.Table, by_us: int) -> pa.Table:
    """The same flights, some time later."""
    scheduled = flights.column("scheduled")
    moved = pc.add(scheduled.cast(pa.int64()), by_us).cast(scheduled.type)
    return flights.set_column(flights.column_names.index("scheduled"), "scheduled", moved)
