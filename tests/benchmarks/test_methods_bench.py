"""`panewise bench methods`: it is found by its name, and puts what was measured beside what was predicted."""

from __future__ import annotations

import json
import subprocess
import sys

from panewise.cli.bench import benchmarks


def test_it_prints_a_line_for_each_plan_and_one_for_their_order() -> None:
    command = [sys.executable, str(benchmarks()["methods"]), "--json", "--quick"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    plans = [line for line in lines if "method" in line]
    assert [line["method"] for line in plans] == ["no_share", "weave_share"] * 2
    assert all(line["predicted_seconds"] > 0 and line["measured_seconds"] > 0 for line in plans)
    assert [line["pairs"] for line in lines if line.get("experiment") == "order"] == [1, 1]
