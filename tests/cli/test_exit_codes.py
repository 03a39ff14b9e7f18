"""Exit codes tell failures that a restart can mend from those that it cannot."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import panewise.cli.run
from panewise.cli.exit_codes import ExitCode, JobFailedError, exit_code_of
from panewise.cli.main import app
from panewise.errors import FileAccessError, PanewiseError

ROOT = Path(__file__).parents[2]
runner = CliRunner()


def caused(cause: Exception) -> PanewiseError:
    try:
        raise FileAccessError("cannot write it") from cause
    except PanewiseError as error:
        return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PanewiseError("no such query"), ExitCode.PERMANENT),
        (caused(OSError(errno.ENOSPC, "No space left on device")), ExitCode.PASSING),
        (caused(OSError(errno.EADDRINUSE, "Address already in use")), ExitCode.PASSING),
        (caused(OSError(errno.EACCES, "Permission denied")), ExitCode.PERMANENT),
        (JobFailedError("gone", ExitCode.UNKNOWN), ExitCode.UNKNOWN),
        (ZeroDivisionError("a fault of ours"), ExitCode.UNEXPECTED),
    ],
)
def test_exit_code_of(error: Exception, code: ExitCode) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize("code", [ExitCode.PASSING, ExitCode.UNKNOWN, ExitCode.PERMANENT])
def test_the_failure_is_a_line_of_json_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: ExitCode) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise JobFailedError("job.toml: it failed", code)

    monkeypatch.setattr(panewise.cli.run, "run_job", fail)
    done = runner.invoke(app, ["run", "job.toml", "--json"])
    assert done.exit_code == code
    assert json.loads(done.stdout) == {
        "event": "failed",
        "exit_code": int(code),
        "failure": code.name.lower(),
        "error": "job.toml: it failed",
    }
    assert "error: job.toml: it failed" in done.stderr
    assert runner.invoke(app, ["run", "job.toml"]).stdout == ""


def test_a_bad_job_file_is_a_line_of_json_too(tmp_path: Path) -> None:
    done = runner.invoke(app, ["run", str(tmp_path / "job.toml"), "--json"])
    assert done.exit_code == ExitCode.PERMANENT
    assert "there is no such job file" in json.loads(done.stdout)["error"]


def test_an_unexpected_error_is_a_line_of_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panewise.cli.run, "run_job", lambda *arguments, **named: 1 // 0)
    done = runner.invoke(app, ["run", "job.toml", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["failure"]) == (ExitCode.UNEXPECTED, "unexpected")
    assert isinstance(done.exception, ZeroDivisionError)
