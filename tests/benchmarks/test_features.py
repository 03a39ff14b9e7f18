"""`panewise bench features`: every way writes the same table, and a wrong one is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import features
from panewise.cli.bench import benchmarks


def test_all_ways_agree() -> None:
    command = [sys.executable, str(benchmarks()["features"]), "--json", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["way"] for line in lines] == ["panewise", "panewise_in_parts", "duckdb", "polars"]
    assert len({line["rows"] for line in lines}) == 1
    assert all(line["rows"] > 1_000 and line["features"] == 20 and line["peak_mb"] > 0 for line in lines)


def test_counts_of_features_and_memory() -> None:
    ways = ["--ways", "panewise", "polars", "--counts", "--memory"]
    command = [sys.executable, str(benchmarks()["features"]), "--json", "--quick", *ways]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()][2:]
    assert [line["features"] for line in lines[:6]] == [1, 1, 10, 10, 100, 100]
    assert len({line["rows"] for line in lines[:6]}) == 1
    month, year, ratio = lines[6:]
    assert year["rows"] > 10 * month["rows"] > 1_000
    assert year["peak_mb"] > 0
    assert ratio["year_to_month"] == round(year["peak_mb"] / month["peak_mb"], 3)


def test_a_value_in_another_row_is_found(tmp_path: Path) -> None:
    events = features.transactions(500, 20, 0.5)
    pq.write_table(events, tmp_path / "transactions.parquet")
    target = tmp_path / "right.parquet"
    features.by_panewise(tmp_path / "transactions.parquet", target, ["count", "avg"], 0.5)
    right = pq.read_table(target)
    counts = right["count_7d"].to_pylist()
    counts[0], counts[-1] = counts[0] + 1, counts[-1] - 1
    place = right.column_names.index("count_7d")
    pq.write_table(right.set_column(place, "count_7d", pa.array(counts)), tmp_path / "wrong.parquet")
    pq.write_table(right.slice(1), tmp_path / "short.parquet")
    known = features.checksum(target)
    assert features.differing(known, features.checksum(target)) == []
    assert features.differing(known, features.checksum(tmp_path / "wrong.parquet")) == ["count_7d"]
    assert "rows" in features.differing(known, features.checksum(tmp_path / "short.parquet"))


@pytest.mark.spark
def test_both_ways_on_spark_agree() -> None:
    ways = ["--ways", "panewise", "--spark", "--spark-days", "0.5", "--features", "count", "avg", "distinct"]
    command = [sys.executable, str(benchmarks()["features"]), "--json", "--quick", *ways]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    here, *on_spark, ratio = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["way"] for line in on_spark] == ["panewise on spark", "spark by hand"]
    assert len({line["rows"] for line in on_spark}) == 1
    assert here["rows"] > on_spark[0]["rows"] > 100
    assert ratio["ratio"] > 0
