"""From the command to the picture, at the tiny scale; and what happens when something is wrong."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from experiments.drawing import require_matplotlib
from experiments.figures import Case, Figure, every_figure
from experiments.run import reproduce
from experiments.tables import Table
from rich.console import Console
from typer.testing import CliRunner

from experiments import run as running
from panewise.cli.main import app
from panewise.cli.reproduce import experiments
from panewise.errors import PanewiseError

pytest.importorskip("matplotlib")

FACTS = {"commit", "seed", "scale", "processor", "cores", "memory", "python", "numba", "measured", "parameters"}


def console() -> Console:
    return Console(file=StringIO(), width=200)


@pytest.mark.parametrize("name", ["weave-4", "sharing-12", "tr1536-4"])
def test_a_figure_from_measurement_to_picture(name: str, tmp_path: Path) -> None:
    figure, out = every_figure()[name], console()
    verdicts = reproduce([figure], "tiny", tmp_path, out, seed=3)
    table = Table.read(tmp_path / f"{name}.csv")
    assert len(table) > 1
    assert set(table.facts) >= FACTS
    assert table.facts["seed"] == "3"
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(verdicts) == len(figure.claims)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    for verdict in verdicts:
        assert str(verdict) in printed
        assert str(verdict) in (tmp_path / f"{name}.claims.txt").read_text(encoding="utf-8")
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{name}.claims.txt", f"{name}.csv", f"{name}.png"]


def test_redrawing_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = every_figure()["weave-14"]
    rows = [{"queries": 250, "optimizations": n, "operations": 10.0 ** (6 - n), "seconds": 1.0} for n in range(4)]
    Table.of(rows, {"title": "kept"}).write(tmp_path / "weave-14.csv")
    monkeypatch.setattr(Figure, "cases", lambda *_: pytest.fail("a case was made"))
    verdicts = reproduce([figure], "small", tmp_path, console(), redraw=True)
    assert all(verdict.holds for verdict in verdicts)
    assert (tmp_path / "weave-14.png").exists()


def test_a_failure_names_the_case_stops_the_run_and_leaves_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[dict[str, object]]:
        raise SystemExit("an answer does not agree")

    ran = []
    cases = [
        Case("the first", lambda: [{"a": 1}]),
        Case("the second", fail),
        Case("the third", lambda: ran.append(1) or []),  # type: ignore[func-returns-value]
    ]
    monkeypatch.setattr(Figure, "cases", lambda *_: cases)
    figures = every_figure()
    with pytest.raises(PanewiseError, match=r"weave-4 stopped at 'the second': SystemExit: an answer does not agree"):
        reproduce([figures["weave-4"], figures["weave-5"]], "tiny", tmp_path, console())
    assert not ran
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_is_asked_for_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PanewiseError, match=r"panewise\[plots\]"):
        require_matplotlib()
    monkeypatch.setattr(running, "_measured", lambda *_: pytest.fail("something was measured"))
    with pytest.raises(PanewiseError, match="matplotlib"):
        reproduce([every_figure()["weave-4"]], "tiny", tmp_path / "out", console())
    assert not (tmp_path / "out").exists()


def panewise(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    start = f"import sys; sys.argv = {['panewise', *arguments]!r}; from panewise.cli.main import app; app()"
    command = [sys.executable, "-c", start]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_the_command_lists_the_figures_even_beside_another_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("raise SystemExit('the wrong one')\n", encoding="utf-8")
    done = panewise("reproduce", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(every_figure())
    assert all(len(line.split()) > 3 for line in lines)


def test_the_command_reproduces_into_a_folder(tmp_path: Path) -> None:
    done = panewise("reproduce", "weave-14", "--scale", "tiny", "--output", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "weave-14" in done.stdout
    assert (tmp_path / "out" / "weave-14.png").exists()


def test_an_unknown_figure_is_an_error(tmp_path: Path) -> None:
    done = panewise("reproduce", "weave-44", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_checkout_there_are_no_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import panewise as package

    assert (experiments() / "figures.py").exists()
    monkeypatch.setattr(package, "__file__", str(tmp_path / "site" / "panewise" / "__init__.py"))
    result = CliRunner().invoke(app, ["reproduce", "weave-4"])
    assert result.exit_code == 2
