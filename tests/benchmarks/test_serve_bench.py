"""`panewise bench serve`: it starts a feed and a server, and prints its sections."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from panewise.cli.bench import benchmarks

pytest.importorskip("starlette", reason="the extra serve is not installed")


@pytest.mark.parametrize("name", ["serve", "lookups"])
def test_it_prints_its_sections(name: str) -> None:
    command = [sys.executable, str(benchmarks()[name]), "--json", "--quick"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    found = {line["section"]: line for line in map(json.loads, lines)}
    if name == "serve":
        assert list(found) == ["latency", "most", "memory"]
        assert found["latency"]["requests"] == 150
        assert 0 < found["latency"]["p50_ms"] <= found["latency"]["p999_ms"] <= found["latency"]["max_ms"]
    else:
        assert {"lookup", "many", "every", "lag", "memory"} == set(found)
