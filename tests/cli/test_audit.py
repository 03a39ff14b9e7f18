"""`panewise audit`: what it prints, its exit codes, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.log_writing import LogWriter
from typer.testing import CliRunner

import panewise
from panewise.cli.exit_codes import ExitCode
from panewise.cli.main import app
from panewise.spark.lookup_client import LookupClient

MINUTE_US = 60_000_000
QUERIES = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 0 SECONDS;
CREATE QUERY total AS SELECT k, SUM(x) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k;
CREATE QUERY newest AS SELECT COUNT(*) AS n FROM s [RANGE 2 MINUTES] GROUP BY k;
"""
EVENTS = [{"t": minute * MINUTE_US, "k": "a", "x": minute} for minute in range(1, 9)]
runner = CliRunner()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a log of three lookups, and the events of then."""
    writer = LogWriter(tmp_path / "lookups", panewise.read(QUERIES))
    writer.run(EVENTS)
    writer.run([])
    with LookupClient(writer.folder, log=tmp_path / "served.log") as client:
        client.lookup("total", {"k": "a"})
        client.lookup("newest", {"k": "a"})
        client.lookup("newest", {"k": "b"})
    write_events(tmp_path, EVENTS)
    return tmp_path


def write_events(place: Path, events: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(events)
    pq.write_table(table.set_column(0, "t", table["t"].cast(pa.timestamp("us", "UTC"))), place / "events.parquet")


def run(place: Path, *more: str) -> Any:
    return runner.invoke(app, ["audit", str(place / "served.log"), str(place / "events.parquet"), *more])


def test_all_agree(place: Path) -> None:
    done = run(place)
    assert (done.exit_code, done.stdout) == (ExitCode.DONE, "3 lookups of 3 groups: 3 agree, 0 differ\n")


def test_differences_have_an_exit_code_of_their_own(place: Path) -> None:
    write_events(place, [*EVENTS, {"t": 8 * MINUTE_US + 5, "k": "b", "x": 1}])
    done = run(place)
    assert done.exit_code == ExitCode.DIFFERS == 4
    first, last = done.stdout.splitlines()
    assert first.startswith(
        "line 4: newest of 'b' at 1970-01-01 00:08:59.999999: n was None, and is now 1: arrived later"
    )
    assert last == "3 lookups of 3 groups: 2 agree, 1 differ (arrived later 1)"

    done = run(place, "--json")
    difference, counts = map(json.loads, done.stdout.splitlines())
    assert (done.exit_code, difference["key"], difference["reason"]) == (4, ["b"], "arrived_later")
    assert (counts["event"], counts["agree"], counts["differ"], counts["missing_lines"]) == ("audited", 2, 1, 0)
    assert counts["reasons"]["arrived_later"] == 1

    write_events(
        place, [*({**one, "batch": 0} for one in EVENTS), {"t": 8 * MINUTE_US + 5, "k": "b", "x": 1, "batch": 9}]
    )
    done = run(place, "--arrived", "batch")
    assert done.exit_code == ExitCode.DONE
    assert "1 of those that agree do so without events that arrived later" in done.stdout


def test_a_changed_query(place: Path) -> None:
    (place / "now.sql").write_text(QUERIES.replace("[RANGE 2 MINUTES] GROUP", "[RANGE 3 MINUTES] GROUP"))
    done = run(place, "--queries", str(place / "now.sql"))
    assert done.exit_code == ExitCode.DIFFERS
    assert "n was 2, and is now 3: changed query: it was: CREATE QUERY newest" in done.stdout
    assert done.stdout.endswith("2 agree, 1 differ (changed query 1)\n")


def test_a_log_that_is_not_whole_is_told(place: Path) -> None:
    log = place / "served.log"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([lines[0], *lines[2:]]) + lines[2][:40])
    done = run(place)
    assert done.exit_code == ExitCode.DONE
    assert "2 lookups of 2 groups: 2 agree" in done.stdout
    assert "1 lines of the log are cut off, first 4" in done.stdout
    assert "1 lines of the log are missing" in done.stdout


def test_mistakes_name_the_place_and_the_cure(place: Path) -> None:
    def fails(message: str, *arguments: str) -> None:
        done = runner.invoke(app, ["audit", *arguments])
        assert done.exit_code == ExitCode.PERMANENT, done.output
        assert message in " ".join(done.stderr.split()), done.stderr

    log, events = str(place / "served.log"), str(place / "events.parquet")
    fails("cannot read", str(place / "no.log"), events)
    fails("there is no file or folder", log, str(place / "no.parquet"))
    fails("there is no stream r", log, f"r={events}")
    fails("the events have no column 'batc' with the batch", log, events, "--arrived", "batc")
    fails("name the events of each: s=PATH", log, events, events)
    (place / "empty.log").write_text("")
    fails("has no lookups; write some with LookupClient(folder, log=", str(place / "empty.log"), events)
    (place / "text.csv").write_text("t,k\n1,a\n")
    fails("stream s", log, str(place / "text.csv"))
    assert runner.invoke(app, ["audit", log, f"s={events}"]).exit_code == ExitCode.DONE


def test_help() -> None:
    done = runner.invoke(app, ["audit", "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "--arrived" in done.output
    assert "Exit code 4" in done.output
