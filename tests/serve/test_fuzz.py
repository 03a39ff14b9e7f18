"""Random requests never end in a 500, over an engine and over the folder of a job."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from tests.serve.conftest import STATEMENTS, as_columns, trades
from tests.serve.fuzzing import Connection, Dice
from tests.spark.log_writing import LogWriter

import panewise
from panewise.serve.application import Application
from panewise.serve.engine_source import EngineSource
from panewise.serve.folder_source import FolderSource
from panewise.serve.server import running
from panewise.serve.source import AnswerSource

FUZZED = int(os.environ.get("PANEWISE_FUZZED_REQUESTS", "2000"))
"""So many random requests, half of them to each source; the full test has 100,000."""

MORE = """
CREATE QUERY near AS SELECT symbol, SUM(volume) AS volume FROM trades [RANGE 5 MINUTES] GROUP BY symbol WITHIN 0.1;
CREATE QUERY pairs AS SELECT symbol, volume, COUNT(*) AS trades FROM trades [RANGE 5 MINUTES] GROUP BY symbol, volume;
CREATE QUERY seen AS SELECT COUNT(DISTINCT symbol) AS symbols, QUANTILE(price, 0.5) AS middle
  FROM trades [RANGE 2 MINUTES SLIDE 1 MINUTE];
"""
ROWS = "CREATE QUERY last_rows AS SELECT symbol, AVG(price) FROM trades [PARTITION BY symbol ROWS 4] GROUP BY symbol;"


def engine_source() -> EngineSource:
    source = EngineSource(panewise.Engine(STATEMENTS + MORE + ROWS))
    source.push("trades", pa.table(as_columns(trades(0, 310))), None)
    return source


def folder_source(folder: Path) -> FolderSource:
    job = LogWriter(folder, panewise.read(STATEMENTS + MORE))
    job.run(trades(0, 200))
    job.run(trades(200, 310))
    return FolderSource(folder)


# The events are at odd times, on purpose.
@pytest.mark.filterwarnings("ignore::panewise.errors.PanewiseWarning")
@pytest.mark.parametrize("kind", ["engine", "folder"])
def test_random_requests_never_fail(kind: str, folder: Path) -> None:
    source: AnswerSource = engine_source() if kind == "engine" else folder_source(folder)
    seen: Counter[int] = Counter()
    with running(Application(source)) as url:
        connection = Connection(int(url.rpartition(":")[2]))
        for place, request in zip(range(FUZZED // 2), Dice(len(kind)).requests()):
            status = connection.ask(request)
            assert status != 500, (place, request.content)
            seen[status] += 1
        connection.close()
    assert seen[200] > FUZZED / 8
    assert seen[400] > FUZZED / 40
    assert seen[503] < FUZZED / 100
