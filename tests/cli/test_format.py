"""`panewise format`: files in one manner, or which are not."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from panewise.cli.exit_codes import ExitCode
from panewise.cli.main import app

runner = CliRunner()


def test_files_are_laid_out_once(tmp_path: Path) -> None:
    rough, good, wrong = tmp_path / "rough.sql", tmp_path / "good.sql", tmp_path / "wrong.sql"
    rough.write_text("drop  query a -- old\n; drop query b")
    good.write_text("DROP QUERY a;\n")
    wrong.write_text("DROP a")
    files = [str(rough), str(good)]
    would = runner.invoke(app, ["format", "--check", *files])
    assert (would.exit_code, would.stdout.splitlines()) == (ExitCode.DIFFERS, [str(rough)])
    assert runner.invoke(app, ["format", *files, str(wrong)]).exit_code == ExitCode.PERMANENT
    assert rough.read_text().startswith("drop")
    done = runner.invoke(app, ["format", *files])
    assert (done.exit_code, done.stdout.splitlines()) == (0, [str(rough)])
    assert rough.read_text() == "DROP QUERY a;  -- old\nDROP QUERY b;\n"
    assert runner.invoke(app, ["format", "--check", *files]).exit_code == 0


def test_a_file_keeps_its_mode_and_its_link_and_its_text_if_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link = tmp_path / "a.sql", tmp_path / "link.sql"
    file.write_text("drop query a")
    file.chmod(0o640)
    link.symlink_to(file)
    with monkeypatch.context() as full:
        full.setattr(os, "replace", mock.Mock(side_effect=OSError(28, "No space left on device")))
        failed = runner.invoke(app, ["format", str(link)])
    assert failed.exit_code == ExitCode.PERMANENT
    assert [path.name for path in tmp_path.iterdir() if path not in (file, link)] == []
    assert file.read_text() == "drop query a"
    assert runner.invoke(app, ["format", str(link)]).exit_code == 0
    assert (link.is_symlink(), file.read_text(), file.stat().st_mode & 0o777) == (True, "DROP QUERY a;\n", 0o640)
