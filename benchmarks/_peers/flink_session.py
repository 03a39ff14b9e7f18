"""Apache Flink: the window function SESSION in SQL, all queries in one statement set, so that they share the source.

A program for `panewise bench sessions`. Its argument is a JSON file with the cores, and a list of points: the folder of
the events as CSV (milliseconds, symbol, volume), the gaps in minutes, and the folder for the answers. It prints the
seconds of each point as a JSON line. The first points warm it up.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """CREATE TABLE trades (
  at_ms BIGINT, symbol STRING, volume BIGINT, `at` AS TO_TIMESTAMP_LTZ(at_ms, 3),
  WATERMARK FOR `at` AS `at` - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
SINK = """CREATE TABLE gap_{gap} (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), symbol STRING, events BIGINT, volume BIGINT, largest BIGINT
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
QUERY = """INSERT INTO gap_{gap}
SELECT CAST(window_start AS TIMESTAMP(3)), CAST(window_end AS TIMESTAMP(3)), symbol, COUNT(*), SUM(volume), MAX(volume)
FROM TABLE(SESSION(TABLE trades PARTITION BY symbol, DESCRIPTOR(`at`), INTERVAL '{gap}' MINUTES))
GROUP BY window_start, window_end, symbol"""


def run(cores: int, point: dict[str, Any]) -> float:
    """Answer the queries of a point, and return how long that took with planning."""
    began = time.perf_counter()
    configuration = Configuration()
    settings = {
        "parallelism.default": str(cores),
        "taskmanager.memory.network.min": f"{64 + len(point['gaps'])}m",
        "taskmanager.memory.network.max": f"{64 + len(point['gaps'])}m",
        "taskmanager.network.memory.buffers-per-channel": "0",
        "table.local-time-zone": "UTC",
        "rest.port": "0",
    }
    for name, value in settings.items():
        configuration.set_string(name, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(chosen)
    tables.execute_sql(SOURCE.format(path=Path(point["events"]).as_uri()))
    statements = tables.create_statement_set()
    for gap in point["gaps"]:
        path = (Path(point["answers"]) / f"gap_{gap}").as_uri()
        tables.execute_sql(SINK.format(gap=gap, path=path))
        statements.add_insert_sql(QUERY.format(gap=gap))
    statements.execute().wait()
    return time.perf_counter() - began


def main() -> None:
    # Whatever libraries print goes to the standard error.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.loads(Path(sys.argv[1]).read_text())
    for point in job["points"]:
        print(json.dumps({"seconds": run(job["cores"], point)}), file=results, flush=True)


if __name__ == "__main__":
    main()
