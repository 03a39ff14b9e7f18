"""With a memory limit, no more events are in memory at a time than fit, also of one key; files are gone afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panewise
from panewise.training import spilled

SECOND = 1_000_000
COUNT = 20_000
MOST = 2_000
WORKLOAD = """
CREATE STREAM trades (ts TIMESTAMP, symbol BIGINT, shares BIGINT) TIMESTAMP BY ts;
CREATE QUERY by_symbol AS SELECT SUM(shares) AS shares, MAX(shares) AS most FROM trades [RANGE 500 SECONDS]
  GROUP BY symbol;
CREATE QUERY last AS SELECT SUM(shares) AS shares FROM trades [PARTITION BY symbol ROWS 50] GROUP BY symbol;
CREATE QUERY overall AS SELECT COUNT(*) AS n, MEDIAN(shares) AS middle FROM trades [RANGE 500 SECONDS];
"""


def test_no_more_events_than_fit_are_answered_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    # One key has almost all events: neither it nor the query without GROUP BY fits.
    symbols = np.where(random.random(COUNT) < 0.9, 0, random.integers(0, 100, COUNT))
    events = pa.table({"ts": np.arange(COUNT) * SECOND, "symbol": symbols, "shares": random.integers(0, 1000, COUNT)})
    chosen = np.sort(random.integers(0, COUNT, 3_000))
    labels = events.select(["ts", "symbol"]).take(pa.array(chosen))
    rows: list[int] = []
    on_disk: list[int] = []
    answers_at = spilled.answers_at

    def recorded(stream: Any, queries: Any, batch: pa.RecordBatch, *rest: Any) -> Any:
        rows.append(batch.num_rows)
        on_disk.append(sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()))
        return answers_at(stream, queries, batch, *rest)

    monkeypatch.setattr(spilled, "answers_at", recorded)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    limit = 8 * (3 + spilled.WORDS) * MOST
    found = panewise.training_set(labels, iter(events.to_batches(1_000)), WORKLOAD, memory_limit=limit)
    assert found.equals(panewise.training_set(labels, events, WORKLOAD))
    assert len(rows) > COUNT / MOST
    # And the last rows of each symbol, for the window over rows.
    assert max(rows) <= MOST + 50 * len(set(symbols.tolist()))
    assert max(on_disk) > COUNT * 8
    assert list(tmp_path.iterdir()) == []
