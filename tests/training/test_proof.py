"""Training = stream = lookup: what a running engine served is what a training set gives over the events that had come.

A stream with late events, ties, snapshots and pauses is asked at random moments. Every answer of a lookup, and of the
newest window that was reported, is kept with its moment. Then all moments are labels. Values are multiples of 1/8, so
that sums have no rounding, and answers must be equal to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panewise
from panewise.language.printer import label_of

SECOND = 1_000_000
STREAM = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, venue BIGINT, price DOUBLE, shares BIGINT)
  TIMESTAMP BY ts WATERMARK 4 SECONDS;
"""
ITEMS = "COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean, MAX(price) AS most, MIN(shares) AS least"
HOLISTIC = "COUNT(DISTINCT shares) AS different, QUANTILE(price, 0.25) AS low, MODE(shares) AS mode"
QUERIES = f"""
CREATE QUERY by_symbol AS SELECT {ITEMS} FROM trades [RANGE 30 SECONDS] GROUP BY symbol;
CREATE QUERY by_both AS SELECT {HOLISTIC} FROM trades [RANGE 60 SECONDS] WHERE shares > 2 GROUP BY symbol, venue;
CREATE QUERY past AS SELECT {ITEMS} FROM trades [RANGE BETWEEN 40 SECONDS PRECEDING AND 10 SECONDS PRECEDING]
  GROUP BY venue HAVING COUNT(*) > 2;
CREATE QUERY last_rows AS SELECT {ITEMS}, {HOLISTIC} FROM trades [PARTITION BY symbol ROWS 5] GROUP BY symbol;
CREATE QUERY overall AS SELECT {ITEMS} FROM trades [RANGE 5 SECONDS] WHERE venue = 1;
CREATE QUERY slides AS SELECT {ITEMS} FROM trades [RANGE 20 SECONDS SLIDE 6 SECONDS] GROUP BY symbol;
CREATE QUERY slides_by_both AS SELECT {HOLISTIC} FROM trades [RANGE 7 SECONDS SLIDE 7 SECONDS] GROUP BY venue, symbol
  HAVING COUNT(*) > 1;
"""
SYMBOLS = ["A", "B", "C", None]


def arrivals(random: np.random.Generator, count: int) -> pa.Table:
    """Trades in the order of arrival: mostly a little late, now and then far too late; ties, and pauses."""
    steps = random.integers(0, 3, count) * SECOND // 2
    steps[random.random(count) < 0.01] = 40 * SECOND
    delays = np.where(random.random(count) < 0.1, random.integers(0, 40, count), random.integers(0, 3, count)) * SECOND
    return pa.table(
        {
            "ts": 1_700_000_000 * SECOND + np.cumsum(steps) - delays,
            "symbol": [SYMBOLS[place] for place in random.integers(0, 4, count)],
            "venue": random.integers(0, 3, count),
            "price": random.integers(-80, 80, count) / 8,
            "shares": random.integers(0, 9, count),
        }
    )


class Served:
    """A running engine, what it accepted, and what it answered."""

    def __init__(self) -> None:
        self.engine = panewise.Engine(STREAM + QUERIES)
        self.queries = self.engine.workload.queries
        self.accepted: list[pa.Table] = []
        self.watermark: int | None = None
        self.newest = 0
        self.late = 0
        self.reported: dict[tuple[str, int, tuple[Any, ...]], dict[str, Any]] = {}

    def push(self, piece: pa.Table) -> None:
        times = np.asarray(piece["ts"])
        on_time = times >= (times.min() if self.watermark is None else self.watermark)
        self.accepted.append(piece.filter(pa.array(on_time)))
        self.late += int(np.count_nonzero(~on_time))
        self.newest = max(self.newest, int(times.max()))
        self.engine.push("trades", piece)
        closed = self.engine.advance("trades")
        self.watermark = self.newest - 4 * SECOND
        for name, table in closed.tables.items():
            for row in table.to_pylist():
                key = tuple(row[attribute] for attribute in self.queries[name].group_by)
                self.reported[name, int(row["window_end"].timestamp()) * SECOND, key] = row

    def asked(self, keys: pa.Table) -> dict[str, list[Any]]:
        """The answers now, for each row of keys, by the names of a training set's columns."""
        found: dict[str, list[Any]] = {}
        for name, query in self.queries.items():
            labels = [label_of(item) for item in query.select]
            if query.window.is_sliding:
                rows = [self._newest(name, row) for row in keys.to_pylist()]
                found |= {f"{name}__{label}": [row.get(label) for row in rows] for label in labels}
            elif query.group_by:
                arrays = self.engine.lookup_many(name, {one: keys[one].combine_chunks() for one in query.group_by})
                found |= {f"{name}__{label}": arrays[label].tolist() for label in labels}
            else:
                one = self.engine.lookup_one(name) or {}
                found |= {f"{name}__{label}": [one.get(label)] * len(keys) for label in labels}
        return found

    def _newest(self, name: str, key: dict[str, Any]) -> dict[str, Any]:
        """What the newest window that has closed had for a group."""
        query = self.queries[name]
        range_us, slide_us = query.window.left_us, query.window.slide_us
        assert self.watermark is not None
        end = (self.watermark - range_us) // slide_us * slide_us + range_us
        return self.reported.get((name, end, tuple(key[one] for one in query.group_by)), {})


@pytest.mark.filterwarnings("ignore::panewise.PanewiseWarning")
@pytest.mark.parametrize("seed", range(4))
def test_training_sets_give_what_was_served(seed: int) -> None:
    random = np.random.default_rng(seed)
    served = Served()
    table = arrivals(random, 1_500)
    compared = answers = 0
    begin = 0
    while begin < len(table):
        size = int(random.integers(1, 60))
        served.push(table.slice(begin, size))
        begin += size
        if random.random() < 0.1:
            served.engine = panewise.Engine.restore(served.engine.snapshot())
        if random.random() < 0.3:
            continue
        keys = pa.table({"symbol": [SYMBOLS[place] for place in random.integers(0, 4, 12)],
                         "venue": random.integers(0, 4, 12)})  # fmt: skip
        labels = keys.append_column("moment", pa.array([served.newest] * 12))
        found = served.asked(keys)
        again = panewise.training_set(
            labels, pa.concat_tables(served.accepted), served.engine.workload, time="moment", edge="at"
        )
        for name, wanted in found.items():
            assert again[name].to_pylist() == wanted, (name, begin)
            compared += len(wanted)
            answers += sum(value is not None for value in wanted)
    assert served.late > 20
    assert compared > 10_000
    assert answers > compared / 4
