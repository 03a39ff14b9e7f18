"""Servers for the tests: over an engine with a few trades, and over a folder that a job without Spark writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import panewise
from panewise.extras import missing

if missing("serve"):
    collect_ignore_glob = ["test_*.py"]
else:
    import httpx

    from panewise.serve.application import Application
    from panewise.serve.engine_source import EngineSource
    from panewise.serve.server import running

STATEMENTS = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT)
  TIMESTAMP BY at WATERMARK 10 SECONDS GRANULARITY 10 SECONDS;
CREATE QUERY volume AS
  SELECT symbol, SUM(volume) AS volume, COUNT(*) AS trades FROM trades [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY symbol;
CREATE QUERY latest AS SELECT symbol, AVG(price) AS price, MAX(price) AS best FROM trades [RANGE 5 MINUTES]
  GROUP BY symbol;
CREATE QUERY busy AS SELECT symbol, COUNT(*) AS trades FROM trades [RANGE 5 MINUTES] GROUP BY symbol
  HAVING COUNT(*) > 12;
CREATE QUERY all_trades AS SELECT COUNT(*) AS trades FROM trades [RANGE 5 MINUTES];
"""
SYMBOLS = ["AB", "CD", "EF"]
START_US = 1_767_614_400_000_000  # 2026-01-05 12:00 UTC


def trades(first_s: int, last_s: int) -> list[dict[str, object]]:
    """A trade each ten seconds; the first symbol trades as often as both others."""
    return [
        {
            "at": START_US + second * 1_000_000,
            "symbol": SYMBOLS[(0, 1, 0, 2)[second // 10 % 4]],
            "price": 100.0 + second,
            "volume": second,
        }
        for second in range(first_s, last_s, 10)
    ]


def as_columns(events: list[dict[str, object]]) -> dict[str, list[object]]:
    return {name: [event[name] for event in events] for name in events[0]}


@pytest.fixture
def source() -> EngineSource:
    import pyarrow as pa

    source = EngineSource(panewise.Engine(STATEMENTS))
    source.push("trades", pa.table(as_columns(trades(0, 310))), None)
    return source


@pytest.fixture
def application(source: EngineSource) -> Application:
    return Application(source)


@pytest.fixture
def client(application: Application) -> Iterator[httpx.Client]:
    with running(application) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lookups"
