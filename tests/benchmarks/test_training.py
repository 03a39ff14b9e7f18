"""`panewise bench training`: every way runs, and all of them give the same sums."""

from __future__ import annotations

import json
import subprocess
import sys

from panewise.cli.bench import benchmarks


def test_every_way_runs_and_all_agree() -> None:
    command = [sys.executable, str(benchmarks()["training"]), "--json", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    sets = {(line["set"], line["keys"]) for line in lines}
    assert sets == {
        ("sums", "uniform"),
        ("sums", "zipf"),
        ("sums", "hot"),
        ("holistic", "uniform"),
        ("holistic", "zipf"),
    }
    for one in sets:
        some = [line for line in lines if (line["set"], line["keys"]) == one]
        assert [line["way"] for line in some] == ["panewise", "duckdb", "polars"]
        assert {line["columns"] for line in some} == {16 if one[0] == "sums" else 8}


def test_a_memory_limit_is_one_more_way() -> None:
    some = ["--sets", "sums", "--keys", "uniform", "--ways", "panewise", "limited", "--memory-limit", "300000"]
    command = [sys.executable, str(benchmarks()["training"]), "--json", "--quick", *some]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["way"], line["keys"], line["of_uniform"]) for line in lines] == [
        ("panewise", "uniform", 1.0),
        ("limited", "uniform", 1.0),
    ]
