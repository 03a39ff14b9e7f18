"""The peak memory of `closing` over a year of flights, beside that over a month.

Each span runs in a process of its own: it pushes the flights of the span, closes all windows and makes the wide table
of each step, as a program that writes them would. Features by route over 1 hour, 6 hours, 24 hours and 7 days.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from features import peak_mb, show

SPANS = {"month": datetime(2013, 2, 1, tzinfo=UTC), "year": datetime(2014, 1, 1, tzinfo=UTC)}
"""The flights before these times."""


def statements(slide: str) -> str:
    """The workload."""
    queries = "\n".join(
        f"CREATE QUERY last_{hours}h AS SELECT COUNT(*) AS flights_{hours}h, AVG(delay) AS mean_{hours}h, "
        f"MAX(delay) AS worst_{hours}h FROM flights [RANGE {hours} HOURS SLIDE {slide}] GROUP BY origin, dest;"
        for hours in (1, 6, 24, 168)
    )
    stream = "(scheduled TIMESTAMP, origin STRING, dest STRING, delay DOUBLE) TIMESTAMP BY scheduled"
    return f"CREATE STREAM flights {stream};\n{queries}"


def run_one(source: Path, span: str, slide: str) -> dict[str, Any]:
    """Close all windows over a span here, and tell what it took."""
    import panewise

    engine = panewise.Engine(statements(slide), in_bulk=True)
    begun, rows, steps = time.perf_counter(), 0, 0
    columns = ["scheduled", "origin", "dest", "delay"]
    engine.push("flights", pq.read_table(source, columns=columns, filters=[("scheduled", "<", SPANS[span])]))
    for closed in engine.closing("flights", panewise.END_OF_STREAM):
        (table,) = closed.families.values()
        rows, steps = rows + table.num_rows, steps + 1
    seconds = round(time.perf_counter() - begun, 2)
    return {"rows": rows, "steps": steps, "seconds": seconds, "peak_mb": round(peak_mb())}


def measure_memory(options: argparse.Namespace, folder: Path) -> None:
    """Print the peak of each span, and the ratio of the two."""
    from panewise.cli.demo.flights import load_flights

    source, slide = folder / "flights.parquet", "1 HOUR" if options.quick else "10 MINUTES"
    pq.write_table(load_flights()[0], source)
    peaks: dict[str, float] = {}
    for span in SPANS:
        command = [sys.executable, __file__, str(source), span, slide]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        peaks[span] = found["peak_mb"]
        show({"bench": "features", "section": "memory", "span": span, **found}, options.json)
    ratio = round(peaks["year"] / peaks["month"], 3)
    show({"bench": "features", "section": "memory", "year_to_month": ratio}, options.json)


if __name__ == "__main__":
    print(json.dumps(run_one(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
