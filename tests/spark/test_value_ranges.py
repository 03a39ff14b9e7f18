"""ORDER BY without LIMIT: places take ranges of the value, which stay even while the values move."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.engine.windowed.test_conformance import as_rows
from tests.spark.simulated import SimulatedSpark

import panewise
from panewise.errors import TooManyRowsError
from panewise.spark.packing import unpack
from panewise.spark.row_merges import is_before

MS = 1_000
ORIGIN_US = 1_000_000_000
STREAM = "CREATE STREAM a (t TIMESTAMP, x DOUBLE, s STRING, n BIGINT) TIMESTAMP BY t WATERMARK 10 MILLISECONDS;"
WINDOW = "[RANGE 40 MILLISECONDS SLIDE 20 MILLISECONDS]"
EVENTS = 400


def batches(seed: int) -> list[list[dict[str, Any]]]:
    """Values that rise from batch to batch, so that ranges of the first would fit none of the others."""
    dice = random.Random(seed)
    return [
        [
            {
                "t": ORIGIN_US + number * 40 * MS + dice.randrange(40) * MS,
                "x": dice.choice([None, math.nan]) if dice.random() < 0.05 else number * 1000 + dice.random() * 100,
                "s": f"{number:03}{dice.randrange(1000):04}é",
                "n": dice.randrange(EVENTS),
            }
            for _ in range(EVENTS)
        ]
        for number in range(5)
    ]


@pytest.mark.parametrize("order", ["x", "x DESC", "s", "s DESC", "t", "n DESC"])
def test_places_have_equal_shares(order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{STREAM} CREATE QUERY q AS SELECT x, s, n, t AS at FROM a {WINDOW} ORDER BY {order};"
    spark = SimulatedSpark(panewise.read(text), tmp_path, wide_by="query", most_rows=10**6, buckets=4)
    shares: Counter[tuple[int, int]] = Counter()
    take = spark._take

    def counting(found: list[tuple[str, int, bytes]]) -> None:
        for _, part, content in found:
            rows = unpack(content)
            if not is_before(rows):
                shares.update((end.timestamp(), part) for end in rows.column("window_end").to_pylist())
        take(found)

    monkeypatch.setattr(spark, "_take", counting)
    found, arrived = [], batches(1)
    for number, batch in enumerate([*arrived, []]):
        spark.run_batch({"a": batch}, attempts=1 + number % 2, shift=number % 2)
        if number == 2:
            spark.start()
        found += as_rows(spark.brought["q"])
    engine = panewise.Engine(text)
    for batch in arrived:
        in_order = sorted(batch, key=lambda row: (row["t"], row["x"] is None, row["x"] != row["x"], row["x"], row["s"]))
        engine.push("a", {name: [row[name] for row in in_order] for name in ("t", "x", "s", "n")})
    engine.advance("a", spark.watermark_of_spark_us)
    wanted = as_rows(engine.rows("q"))
    assert len(found) == len(wanted) > 4 * EVENTS
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    for end, rows in Counter(row["window_end"] for row in wanted).items():
        most = max(count for (window, _), count in shares.items() if round(window * 1e6) == end)
        assert most <= 0.5 * rows, "a place has twice its share"


@pytest.mark.parametrize("buckets", [1, 4])
def test_the_bound_counts_all_ranges(buckets: int, tmp_path: Path) -> None:
    text = f"{STREAM} CREATE QUERY q AS SELECT x FROM a {WINDOW} ORDER BY x;"
    spark = SimulatedSpark(panewise.read(text), tmp_path, wide_by="query", most_rows=EVENTS - 1, buckets=buckets)
    first, second, *_ = batches(1)
    spark.run_batch({"a": first[: EVENTS // 2]})
    spark.run_batch({"a": first[EVENTS // 2 :]})
    spark.run_batch({"a": second})
    with pytest.raises(TooManyRowsError, match=r"query q: the window that ends at .* rows, and most_rows allows 399"):
        spark.run_batch({"a": []})
