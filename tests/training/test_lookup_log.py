"""The log of lookups keeps every line of a lookup that returned, and says which lines are broken or missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import panewise
from panewise.engine.lookup_log import LoggedLookup, LogReport, LookupLog, read_log

STATEMENTS = """
CREATE STREAM s (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t;
CREATE QUERY q AS SELECT SUM(x) AS total FROM s [RANGE 1 MINUTE];
"""
WORKLOAD = panewise.read(STATEMENTS)


def lookup(value: float) -> LoggedLookup:
    return LoggedLookup("q", None, {"total": [value]}, None, 5, None, (0, 0), 1)


def read(path: Path) -> tuple[list[Any], LogReport]:
    report = LogReport()
    return list(read_log(path, report)), report


def written(path: Path, *values: float) -> None:
    log = LookupLog(path, WORKLOAD)
    for value in values:
        log.put(lookup(value))
    log.close()


def test_lines_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written(path, 0.1, 1e300, -0.0)
    written(path, 2.0)
    lines, report = read(path)
    assert report.is_whole
    assert [line.lookup for line in lines] == [lookup(value) for value in (0.1, 1e300, -0.0, 2.0)]
    assert {line.statements for line in lines} == {lines[0].statements}
    assert panewise.read(lines[0].statements).queries == WORKLOAD.queries
    assert path.stat().st_mode & 0o777 == 0o600


def test_special_doubles_are_texts_and_every_line_is_json(tmp_path: Path) -> None:
    written(tmp_path / "log", float("nan"), float("inf"), float("-inf"))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    lines = [json.loads(line, parse_constant=refuse) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["answer"]["total"] for line in lines[1:]] == [["NaN"], ["Infinity"], ["-Infinity"]]


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_line_that_was_cut_off_is_told_and_hides_no_other(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log"
    written(path, 1.0, 2.0)
    os.truncate(path, path.stat().st_size - cut)
    lines, report = read(path)
    assert ([line.lookup.answer["total"] for line in lines], report.broken) == ([[1.0]], [3])
    before = path.read_bytes()
    written(path, 3.0)
    assert path.read_bytes().startswith(before)
    lines, report = read(path)
    # With its newline only, the line was whole.
    assert [line.lookup.answer["total"][0] for line in lines] == ([1.0, 2.0, 3.0] if cut == 1 else [1.0, 3.0])
    assert report.broken == ([] if cut == 1 else [3])


def test_a_line_that_somebody_took_away_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written(path, 1.0, 2.0, 3.0)
    first, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, *rest]))
    lines, report = read(path)
    assert (len(lines), report.missing, report.broken) == (2, 1, [])


PROGRAM = """
import sys
import panewise
from pathlib import Path
from tests.training.test_lookup_log import WORKLOAD, lookup
from panewise.engine.lookup_log import LookupLog
log = LookupLog(sys.argv[1], WORKLOAD)
for number in range(10**9):
    log.put(lookup(float(number)))
    print(number, flush=True)
"""


def test_a_killed_process_loses_no_lookup_that_returned(tmp_path: Path) -> None:
    path = tmp_path / "log"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 500:
        pass
    process.send_signal(signal.SIGKILL)
    returned = 500
    for line in process.stdout:
        # The last line of the pipe may itself be cut off.
        returned = int(line) if line.endswith(b"\n") else returned
    process.wait()
    lines, report = read(path)
    assert [line.lookup.answer["total"][0] for line in lines[: returned + 1]] == list(range(returned + 1))
    assert len(lines) <= returned + 2
    assert report.missing == 0


def test_a_full_disk_is_an_error_and_not_a_lost_line(tmp_path: Path) -> None:
    log = LookupLog(tmp_path / "log", WORKLOAD)
    os.dup2(os.open("/dev/full", os.O_WRONLY), log._file)
    with pytest.raises(panewise.LookupLogError, match=r"the lookup was answered, but the log .* cannot be written"):
        log.put(lookup(1.0))


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(panewise.LookupLogError, match=r"cannot write the log .*; name another file"):
        LookupLog(tmp_path / "missing" / "log", WORKLOAD)
    with pytest.raises(panewise.LookupLogError, match=r"cannot read .*nothing"):
        read(tmp_path / "nothing")
    (tmp_path / "other").write_text('{"event": "lookup", "writer": "a", "number": 0}\n')
    with pytest.raises(panewise.LookupLogError, match="line 1: this is no line of a log of lookups"):
        read(tmp_path / "other")
    log = LookupLog(tmp_path / "log", WORKLOAD)
    log.close()
    with pytest.raises(panewise.LookupLogError, match="is closed"):
        log.put(lookup(1.0))
