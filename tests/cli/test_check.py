"""`panewise check`: mistakes as editors read them."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from panewise.cli.main import app

runner = CliRunner()

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t;\n"
GOOD = STREAM + "CREATE QUERY q AS SELECT k, SUM(x) / COUNT(*) AS mean FROM s [RANGE 1 HOUR] GROUP BY k;\n"
BAD = (
    STREAM
    + "CREATE QUERY a AS SELECT SUM(y) FROM s [RANGE 1 HOUR];\n"
    + "CREATE QUERY b AS SELECT SUM(x) FROM s [RANGE 1 HOUR];\n"
    + "CREATE QUERY c AS\n  SELECT SUM(k) FROM s [RANGE 1 HOUR];\n"
)


def test_a_file_without_mistakes_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "good.sql"
    file.write_text(GOOD)
    done = runner.invoke(app, ["check", str(file)])
    assert (done.exit_code, done.stdout) == (0, "")


def test_every_mistake_is_a_line_that_editors_read(tmp_path: Path) -> None:
    good, bad, syntax = tmp_path / "good.sql", tmp_path / "bad.sql", tmp_path / "syntax.sql"
    good.write_text(GOOD)
    bad.write_text(BAD)
    syntax.write_text(STREAM + "CREATE QUERY a AS SELECT FROM s;\nCREATE QUERY b AS SELECT FROM s;")
    done = runner.invoke(app, ["check", str(good), str(bad), str(syntax)])
    assert done.exit_code == 2
    assert done.stdout.splitlines() == [
        f"{bad}:2:30: error: unknown attribute 'y' (known: t, k, x)",
        f"{bad}:5:14: error: SUM needs BIGINT or DOUBLE, k is STRING (COUNT and COUNT(DISTINCT ...) take every type)",
        f"{syntax}:2:26: error: unexpected 'FROM', expected an expression",
    ]


def test_mistakes_as_json_and_streams_that_cannot_be_read(tmp_path: Path) -> None:
    file, empty = tmp_path / "bad.sql", tmp_path / "empty.sql"
    file.write_text(BAD.replace("TIMESTAMP BY t", "TIMESTAMP BY x"))
    empty.write_text("-- nothing\n")
    done = runner.invoke(app, ["check", "--json", str(file), str(empty)])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["file"], one["line"], one["column"]) for one in found] == [(str(file), 1, 64), (str(empty), 1, 1)]
    assert found[0]["message"] == "TIMESTAMP BY needs a TIMESTAMP, 'x' is DOUBLE"
    assert found[0]["hint"] == "declare it as x TIMESTAMP"
    missing = runner.invoke(app, ["check", str(tmp_path / "none.sql")])
    assert missing.exit_code != 0
    assert "no such file" in missing.stderr
