"""The stream that the cluster's tests answer: events in files, the workload, and the oracle's answers."""

from __future__ import annotations

import random
from pathlib import Path

from tests import oracle
from tests.spark.streaming import Event, watermarks, write_batches

import panewise

MINUTE_US = 60_000_000
START_US = 1_767_225_600_000_000
BATCHES = 5
FILES_PER_BATCH = 2
"""So that two executors have something to read."""

STATEMENTS = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, market STRING, price DOUBLE, volume BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE;
CREATE QUERY by_symbol AS
  SELECT SUM(volume), COUNT(*) FROM trades [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY symbol;
CREATE QUERY prices AS
  SELECT QUANTILE(price, 0.9), MAX(price) FROM trades [RANGE 4 MINUTES SLIDE 2 MINUTES]
  WHERE volume > 20 GROUP BY market;
CREATE QUERY total AS SELECT SUM(price) FROM trades [RANGE 6 MINUTES SLIDE 2 MINUTES];
"""
WORKLOAD = panewise.read(STATEMENTS)
STREAM = WORKLOAD.streams["trades"]
COLUMNS = "at timestamp, symbol string, market string, price double, volume bigint"


def make_batches(count: int = BATCHES) -> list[list[Event]]:
    """The first batches of the stream: two minutes a batch, out of order within it, with NULLs."""
    dice = random.Random(1)
    return [
        [
            {
                "at": START_US + int((2 * batch + dice.random() * 2.5) * MINUTE_US),
                "symbol": f"s{dice.randrange(12)}",
                "market": dice.choice(["north", "south", None]),
                "price": dice.choice([None, round(dice.uniform(1, 100), 2)]),
                "volume": dice.randrange(1, 100),
            }
            for _ in range(80)
        ]
        for batch in range(count)
    ]


def write_events(folder: Path, batches: int = BATCHES) -> None:
    """The events as parquet, a few files a batch."""
    files = [batch[part::FILES_PER_BATCH] for batch in make_batches(batches) for part in range(FILES_PER_BATCH)]
    write_batches(folder, STREAM, files)


def closed_answers(batches: int = BATCHES) -> list[oracle.Answer]:
    """The answers of a stream over these batches at its end; no event is late."""
    made = make_batches(batches)
    return _answers([event for batch in made for event in batch], watermarks(STREAM, made)[-1])


def all_answers() -> list[oracle.Answer]:
    """The answers of every window, as a batch job gives them."""
    return _answers([event for batch in make_batches() for event in batch], None)


def _answers(events: list[Event], watermark_us: int | None) -> list[oracle.Answer]:
    return [
        answer
        for query in WORKLOAD.queries.values()
        for answer in oracle.closed_answers(query, STREAM.timestamp, events, watermark_us)
    ]
