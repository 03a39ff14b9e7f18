"""Windows move in buckets as they do in the engine: the same answers and the same changes, batch after batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.dice import SeededDice
from tests.engine.test_moving import MOVING, NEVER, settings_of
from tests.spark.simulated import SimulatedSpark
from tests.spark.test_wide_layout import of_engine, public_table, rows_of

import panewise
from panewise.spark.layouts import By

US = 1_000_000
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;
CREATE QUERY a AS SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(y) AS top
  FROM s [RANGE 40 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY b AS SELECT k, MIN(y) AS least, SUM(y) AS sum FROM s [RANGE 9 SECONDS SLIDE 1 SECOND] GROUP BY k
  HAVING COUNT(*) > 1;
CREATE QUERY c AS SELECT k, MAX(x) AS most FROM s [RANGE 20 SECONDS SLIDE 2 SECONDS] WHERE x > 3 GROUP BY k;
"""


@pytest.mark.parametrize("by", ["family", "query"])
@pytest.mark.parametrize("changed_only", [False, True])
def test_buckets_have_the_rows_of_an_engine_that_folds_each_window_anew(
    tmp_path: Path, by: By, changed_only: bool
) -> None:
    workload = panewise.read(TEXT)
    stream = workload.streams["s"]
    dice = SeededDice(5)
    spark = SimulatedSpark(workload, tmp_path, changed_only=changed_only, wide_by=by)
    engine = panewise.Engine(workload)
    reported = 0
    for second in range(1, 90):
        keys = "abcdefgh" if second < 4 else "ab" if second < 60 else "c"
        batch = [
            {
                "t": second * US + number,
                "k": keys[dice.integer(0, len(keys) - 1)],
                "x": dice.integer(0, 9),
                "y": float(dice.integer(0, 9)),
            }
            for number in range(dice.integer(1, 5))
        ]
        watermark_us = spark.watermark_ms * 1000 or None
        with settings_of(MOVING):
            spark.run_batch({"s": batch}, attempts=dice.integer(1, 2), shift=0 if second % 20 else 1)
        engine.push("s", public_table(stream, batch))
        if watermark_us is None:
            continue
        with settings_of(NEVER):
            expected = of_engine(engine.advance("s", watermark_us, changed_only=changed_only), by)
        for name, table in expected.items():
            assert rows_of(spark.brought[name]) == rows_of(table), (name, second)
            reported += table.num_rows
    assert reported > 150
