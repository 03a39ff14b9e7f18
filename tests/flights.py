"""The flights of the demo as test data: real, out of order, with NULLs, and known to two other engines."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from panewise.cli.demo.flights import load_flights

STREAM = """
CREATE STREAM flights (
  scheduled TIMESTAMP, origin STRING, dest STRING, carrier STRING, tailnum STRING, distance BIGINT,
  delay DOUBLE, arrival_delay DOUBLE, air_time DOUBLE
) TIMESTAMP BY scheduled WATERMARK 1 DAY GRANULARITY 10 MINUTES;
"""


@cache
def all_flights() -> pa.Table:
    return load_flights()[0]


def flights_before(month: int) -> pa.Table:
    """The flights that were to leave before the first of a month, in the order in which they left."""
    table = all_flights()
    scheduled = table.column("scheduled")
    return table.filter(pc.less(scheduled, pa.scalar(datetime(2013, month, 1, tzinfo=UTC), scheduled.type)))
