"""The `panewise` command as people type it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from panewise.cli.main import app

runner = CliRunner()

WORKLOAD = """
CREATE STREAM flights (dep TIMESTAMP, origin STRING, delay DOUBLE)
  TIMESTAMP BY dep WATERMARK 2 HOURS GRANULARITY 1 MINUTE;
CREATE QUERY delays AS
  SELECT origin, AVG(delay) FROM flights [RANGE 6 HOURS SLIDE 30 MINUTES] GROUP BY origin;
"""
JOB = """
queries = "queries.sql"
mode = "batch"
[source]
format = "parquet"
path = "data"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job without faults that can be seen without Spark."""
    (tmp_path / "queries.sql").write_text(WORKLOAD)
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "data").mkdir()
    return tmp_path


def test_version() -> None:
    done = runner.invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"panewise {version('panewise')}\n")


def test_help_lists_the_commands() -> None:
    done = runner.invoke(app, ["--help"])
    assert done.exit_code == 0
    for command in ("plan", "run", "demo", "bench"):
        assert command in done.stdout


def test_help_loads_neither_spark_nor_numba() -> None:
    program = "import sys, panewise.cli.main; print([m for m in ('pyspark', 'numba', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_plan_explains(folder: Path) -> None:
    done = runner.invoke(app, ["plan", str(folder / "queries.sql"), "--rate", "1000"])
    assert done.exit_code == 0, done.output
    assert "delays" in done.stdout


def test_plan_claims_no_memory_for_a_rate_that_nobody_gave(folder: Path) -> None:
    file = str(folder / "queries.sql")
    assumed = runner.invoke(app, ["plan", file])
    assert "at an assumed 1,000 events a second" in assumed.stdout
    assert "how much is held depends on the rate; give yours, with --rate" in assumed.stdout
    assert " held, most of it" not in assumed.stdout
    given = runner.invoke(app, ["plan", file, "--rate", "1000"])
    assert "assumed 1,000 events" not in given.stdout
    assert " held, most of it" in given.stdout
    assert [
        json.loads(runner.invoke(app, ["plan", file, "--json", *rate]).stdout)["rate_is_assumed"]
        for rate in ([], ["--rate", "1000"])
    ] == [True, False]


def test_plan_says_how_many_groups_it_assumes(tmp_path: Path) -> None:
    file = tmp_path / "grouped.sql"
    file.write_text(
        "CREATE STREAM s (t TIMESTAMP, k STRING) TIMESTAMP BY t;"
        "CREATE QUERY q AS SELECT k, COUNT(*) FROM s [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY k;"
    )
    assumed = runner.invoke(app, ["plan", str(file), "--rate", "5"])
    assert "values of k (--groups k=N, or groups=)" in assumed.stdout
    assert "values of" not in runner.invoke(app, ["plan", str(file), "--rate", "5", "--groups", "k=7"]).stdout


def test_plan_as_json(folder: Path) -> None:
    done = runner.invoke(app, ["plan", str(folder / "queries.sql"), "--json"])
    assert done.exit_code == 0, done.output
    assert isinstance(json.loads(done.stdout), dict)


def test_plan_as_a_picture(folder: Path) -> None:
    picture = folder / "plan.svg"
    done = runner.invoke(app, ["plan", str(folder / "queries.sql"), "--picture", str(picture)])
    assert done.exit_code == 0
    assert picture.read_text().startswith("<svg")
    done = runner.invoke(app, ["plan", str(folder / "queries.sql"), "--picture", str(folder / "no" / "plan.svg")])
    assert done.exit_code == 2
    assert "cannot write it" in done.output


@pytest.mark.parametrize("groups", ["k", "k=0", "k=many", "nobody=3"])
def test_plan_refuses_groups_that_it_cannot_use(folder: Path, groups: str) -> None:
    done = runner.invoke(app, ["plan", str(folder / "queries.sql"), "--groups", groups])
    assert done.exit_code == 2
    assert f"--groups {groups}" in done.output


def test_plan_of_a_bad_file_shows_the_place(folder: Path) -> None:
    (folder / "queries.sql").write_text(WORKLOAD.replace("AVG(delay)", "AVG(dely)"))
    done = runner.invoke(app, ["plan", str(folder / "queries.sql")])
    assert done.exit_code == 2
    assert "queries.sql: line 5, column 22: " in done.stderr
    assert "delay" in done.stderr
    assert "Traceback" not in done.stderr


def test_plan_of_a_missing_file(tmp_path: Path) -> None:
    done = runner.invoke(app, ["plan", str(tmp_path / "nothing.sql")])
    assert done.exit_code == 2
    assert "nothing.sql" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("rate", ["0", "-1", "inf"])
def test_plan_needs_a_positive_rate(folder: Path, rate: str) -> None:
    done = runner.invoke(app, ["plan", str(folder / "queries.sql"), "--rate", rate])
    assert done.exit_code == 2
    assert "--rate must be positive" in done.stderr


@pytest.mark.parametrize("arguments", [["--traceback", "run"], ["run", "--traceback"]])
def test_traceback_is_shown_when_asked_for(tmp_path: Path, arguments: list[str]) -> None:
    done = runner.invoke(app, [*arguments, str(tmp_path / "job.toml")])
    assert done.exit_code == 2, "the traceback must not hide from a restart policy that this will fail again"
    assert "Traceback (most recent call last)" in done.stderr
    assert "JobError: " in done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("job.toml", '"queries.sql"', '"querys.sql"', "queries: there is no file"),
        ("job.toml", '"data"', '"date"', "[source] path: there is nothing at"),
        ("job.toml", '"data"', '"dat[e]/*"', "[source] path: there is nothing at"),
        (
            "job.toml",
            "[source]",
            "[source.fligths]",
            "queries.sql has no stream fligths; did you mean flights?",
        ),
        ("job.toml", '"data"', '"file:///nowhere/at/all"', "there is nothing at /nowhere/at/all"),
        ("queries.sql", "[RANGE 6 HOURS SLIDE 30 MINUTES]", "[ROWS 10]", "delays"),
        ("queries.sql", "AVG(delay)", "AVG(dely)", "queries.sql: line 5, column 22: "),
        ("queries.sql", "BY origin;", "BY origin; DROP QUERY delays;", "has no query"),
        (
            "queries.sql",
            "CREATE QUERY",
            "CREATE STREAM b (t TIMESTAMP) TIMESTAMP BY t;\nCREATE QUERY",
            "write [source.flights], [source.b]",
        ),
    ],
)
def test_what_is_missing_is_seen_before_spark_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, message: str
) -> None:
    def no_spark(*arguments: object, **named: object) -> None:
        raise AssertionError("Spark was started")

    import panewise.cli.run

    monkeypatch.setattr(panewise.cli.run, "ensure_java", no_spark)
    monkeypatch.setattr(panewise.cli.run, "start_session", no_spark)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))

    done = runner.invoke(app, ["run", str(folder / "job.toml")])

    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_stream_without_source(folder: Path) -> None:
    (folder / "queries.sql").write_text(WORKLOAD + "CREATE STREAM b (t TIMESTAMP) TIMESTAMP BY t;")
    (folder / "job.toml").write_text(JOB.replace("[source]", "[source.flights]"))
    done = runner.invoke(app, ["run", str(folder / "job.toml")])
    assert done.exit_code == 2
    assert "[source.b]: is missing; stream b needs a source" in done.stderr


def test_unknown_benchmark() -> None:
    done = runner.invoke(app, ["bench", "nothing-of-the-kind"])
    assert done.exit_code == 2
    assert "there is no benchmark nothing-of-the-kind" in done.stderr


def test_benchmark_gets_what_follows_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import panewise.cli.bench

    (tmp_path / "echo.py").write_text("import sys; sys.exit(7 if sys.argv[1:] == ['--json', '--keys', '3'] else 1)")
    monkeypatch.setattr(panewise.cli.bench, "benchmarks", lambda: {"echo": tmp_path / "echo.py"})
    assert runner.invoke(app, ["bench", "echo", "--json", "--keys", "3"]).exit_code == 7


def test_benchmarks_have_their_own_help(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import panewise.cli.bench

    (tmp_path / "echo.py").write_text("import sys; sys.exit(7 if sys.argv[1:] == ['--help'] else 1)")
    monkeypatch.setattr(panewise.cli.bench, "benchmarks", lambda: {"echo": tmp_path / "echo.py"})
    assert runner.invoke(app, ["bench", "echo", "--help"]).exit_code == 7
    assert "without one, all are listed" in runner.invoke(app, ["bench", "--help"]).stdout


def test_benchmarks_need_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import panewise

    monkeypatch.setattr(panewise, "__file__", str(tmp_path / "lib" / "site-packages" / "panewise" / "__init__.py"))
    done = runner.invoke(app, ["bench", "spark"])
    assert done.exit_code == 2
    assert "not part of the installed package" in done.stderr
