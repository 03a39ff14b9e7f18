"""`panewise lookup` where there is something, nothing, or something that cannot be read."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.spark.log_writing import LogWriter
from typer.testing import CliRunner

import panewise
from panewise.cli.exit_codes import ExitCode
from panewise.cli.main import app

MINUTE_US = 60_000_000
QUERIES = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 0 SECONDS;
CREATE QUERY total AS SELECT k, SUM(x) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k;
CREATE QUERY much AS SELECT k, SUM(x) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k HAVING SUM(x) > 100;
"""
runner = CliRunner()


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "lookups", panewise.read(QUERIES))


@pytest.fixture
def folder(writer: LogWriter) -> Path:
    """A job that has closed windows; of its groups, b has fallen silent."""
    writer.run([{"t": MINUTE_US, "k": "b", "x": 1}])
    writer.run([{"t": minute * MINUTE_US, "k": "a", "x": minute} for minute in range(1, 9)])
    writer.run([])
    return writer.folder


def test_a_group_with_an_answer(folder: Path) -> None:
    done = runner.invoke(app, ["lookup", str(folder), "total", "--key", "k=a", "--json"])
    assert (done.exit_code, done.stderr) == (ExitCode.DONE, "")
    assert [json.loads(line)["SUM(x)"] for line in done.stdout.splitlines()] == [6 + 7]


@pytest.mark.parametrize("key", ["k=b", "k=never seen"])
def test_an_idle_group_has_an_exit_code_of_its_own(folder: Path, key: str) -> None:
    done = runner.invoke(app, ["lookup", str(folder), "total", "--key", key])
    assert (done.exit_code, done.stdout) == (ExitCode.NO_ANSWER, "")
    assert f"total: {key} is idle: it has no events in the window" in done.stderr
    assert re.search(r"watermark 1970-01-01 00:08:00, published \d+\.\d s ago$", done.stderr)

    done = runner.invoke(app, ["lookup", str(folder), "total", "--key", key, "--json"])
    assert done.exit_code == ExitCode.NO_ANSWER
    told = json.loads(done.stdout)
    assert (told["event"], told["exit_code"], told["query"]) == ("no_answer", 3, "total")
    assert f"{key} is idle" in told["reason"]


def test_a_group_under_another_name(tmp_path: Path) -> None:
    writer = LogWriter(
        tmp_path / "lookups", panewise.read(QUERIES.replace("SELECT k, SUM(x)", "SELECT SUM(x), k AS who"))
    )
    writer.run([{"t": minute * MINUTE_US, "k": "a", "x": minute} for minute in range(1, 9)])
    writer.run([])
    done = runner.invoke(app, ["lookup", str(writer.folder), "total", "--key", "k=a", "--key", "k=b", "--json"])
    answer, told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (answer["who"], answer["SUM(x)"]) == ("a", 13)
    assert "k=b is idle" in told["reason"]
    shown = runner.invoke(app, ["lookup", str(writer.folder), "total"]).stdout
    assert "who" in shown
    assert "13" in shown


def test_the_age_of_the_last_batch_is_shown(folder: Path) -> None:
    for file in folder.rglob("*.panewise"):
        os.utime(file, (file.stat().st_mtime - 7200,) * 2)
    done = runner.invoke(app, ["lookup", str(folder), "total"])
    assert "; watermark 1970-01-01 00:08:00, published 2.0 h ago" in " ".join(done.stdout.split())


def test_one_idle_group_among_others_is_told(folder: Path) -> None:
    done = runner.invoke(app, ["lookup", str(folder), "total", "--key", "k=a", "--key", "k=b"])
    assert done.exit_code == ExitCode.NO_ANSWER
    assert "13" in done.stdout
    assert "k=b is idle" in done.stderr
    assert "k=a is idle" not in done.stderr


def test_no_group_and_no_window(writer: LogWriter) -> None:
    done = runner.invoke(app, ["lookup", str(writer.folder), "total"])
    assert done.exit_code == ExitCode.NO_ANSWER
    assert "total: no window has closed yet; no watermark yet" in done.stderr

    writer.run([{"t": minute * MINUTE_US, "k": "a", "x": minute} for minute in range(1, 9)])
    writer.run([])
    done = runner.invoke(app, ["lookup", str(writer.folder), "much"])
    assert done.exit_code == ExitCode.NO_ANSWER
    assert "much: no group has an answer" in done.stderr


@pytest.mark.parametrize("place", [".", "slots", "slots/bucket-3", "job.json"])
def test_a_folder_that_cannot_be_read_is_an_error_that_says_so(folder: Path, place: str) -> None:
    unreadable = folder / place
    moved = folder.with_name("moved")
    unreadable.rename(moved)
    unreadable.symlink_to(unreadable.name, target_is_directory=True)  # a loop: nobody can open it, not even root
    done = runner.invoke(app, ["lookup", str(folder), "total", "--key", "k=a", "--json"])
    assert done.exit_code == ExitCode.PERMANENT, done.output
    told = json.loads(done.stdout)
    assert (told["event"], told["exit_code"], told["failure"]) == ("failed", 2, "permanent")
    assert f"{folder}: cannot read {unreadable}" in told["error"]
    assert told["error"] in done.stderr
    assert "Traceback" not in done.stderr


PROGRAM = """
import os, sys
from panewise.cli.main import app
import panewise.cli.lookup
import panewise.cli.queries
if os.getuid() == 0:
    os.setuid(65534)
app()
"""


def in_a_folder_of_somebody_else(folder: Path, place: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a folder in which a place may not be read; the command's `FOLDER` stands for it."""
    # Not below pytest's own folder, into which nobody else may look.
    with TemporaryDirectory() as everybodys:
        Path(everybodys).chmod(0o755)
        theirs = Path(shutil.copytree(folder, Path(everybodys, "lookups")))
        (theirs / place).chmod(0)
        arguments = [str(theirs) if argument == "FOLDER" else argument for argument in command]
        done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False)
        (theirs / place).chmod(0o700)
    assert done.returncode == ExitCode.PERMANENT, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize("place", [".", "slots", "job.json"])
def test_a_folder_of_somebody_else_names_the_cure(folder: Path, place: str) -> None:
    done = in_a_folder_of_somebody_else(folder, place, "lookup", "FOLDER", "total", "--json")
    assert "Permission denied; run as the job's user, or let " in json.loads(done.stdout)["error"]


@pytest.mark.parametrize("place", [".", "job.json"])
def test_the_queries_of_somebody_else_name_the_cure(folder: Path, place: str) -> None:
    done = in_a_folder_of_somebody_else(folder, place, "queries", "FOLDER")
    assert "Permission denied; run as the job's user, or let " in done.stderr
