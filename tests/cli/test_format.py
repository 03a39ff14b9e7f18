"""`panewise format`: files in one manner, or which are not."""

from __future__ import annotations

from pathlib import Path

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
