"""`panewise bench live`: it is found by its name, and loses no window."""

from __future__ import annotations

import json
import subprocess
import sys

from panewise.cli.bench import benchmarks


def test_it_prints_a_line_and_loses_no_window() -> None:
    command = [sys.executable, str(benchmarks()["live"]), "--json", "--quick"]
    (line,) = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = json.loads(line)
    assert found["windows_lost"] == 0
    assert found["answers"] > 1000
    assert found["changes"] > 50
