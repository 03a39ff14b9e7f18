"""`panewise bench first-answer`: it is found by its name, starts new processes, and its queries have answers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks import first_answer
from panewise.cli.bench import benchmarks


def test_it_starts_processes_and_prints_lines() -> None:
    program = benchmarks()["first-answer"]
    command = [sys.executable, str(program), "--json", "--runs", "2", "--sections", "import"]
    (line,) = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = json.loads(line)
    assert (found["section"], found["runs"]) == ("import", 2)
    assert 0 < found["least_s"] <= found["median_s"] <= found["most_s"]


@pytest.mark.parametrize("section", first_answer.SECTIONS)
def test_every_section_has_answers(section: str) -> None:
    first_answer.answer(section)
