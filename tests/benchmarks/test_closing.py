"""`panewise bench closing`: every section runs, and windows that move have the answers of those that are folded."""

from __future__ import annotations

import json
import subprocess
import sys

from panewise.cli.bench import benchmarks


def test_every_section_runs() -> None:
    command = [sys.executable, str(benchmarks()["closing"]), "--json", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ranges = [line for line in lines if line["section"] == "range"]
    assert {line["way"] for line in ranges} == {"moving", "two_stacks", "bucket", "folded", "looked_up"}
    of_an_hour = [line for line in ranges if line["range"] == "1h" and line["way"] != "looked_up"]
    assert len({line["answers"] for line in of_an_hour}) == 1
    assert {line["having"] for line in lines if line["section"] == "aggregates"} == {True, False}
    assert {line["section"] for line in lines} == {"range", "aggregates", "keys", "changed", "alerts", "target"}
    assert next(line["rows"] for line in lines if line.get("changed_only")) == 10
