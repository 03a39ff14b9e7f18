"""`panewise calibrate`: every kind is measured, stored and read again."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from panewise.aggregates.components import Kind
from panewise.cli import calibrate
from panewise.cli.main import app
from panewise.errors import PanewiseError
from panewise.planning.calibration import read_calibration, weights_for

runner = CliRunner()


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events and short runs; nothing outside the test's folder."""
    monkeypatch.setattr(calibrate, "EVENTS", 2000)
    monkeypatch.setattr(calibrate, "PARTIALS", 1000)
    monkeypatch.setattr(calibrate.measured_document, "__kwdefaults__", {"seconds": 0.0})
    monkeypatch.delenv("PANEWISE_WEIGHTS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_it_stores_what_the_planner_reads(tmp_path: Path) -> None:
    done = runner.invoke(app, ["calibrate"])
    assert done.exit_code == 0, done.output
    path = tmp_path / "config" / "panewise" / "weights.json"
    assert f"stored in {path}" in done.stdout.replace("\n", "")
    for kind in Kind:
        assert kind.value in done.stdout
    stored = read_calibration(path)
    weights = weights_for([Kind.ROWS])
    assert weights.event == stored.costs[Kind.ROWS].event_ns
    assert weights.source == f"measured, from {path}"
    assert [file.name for file in path.parent.iterdir()] == ["weights.json"]


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "w.json"
    done = runner.invoke(app, ["calibrate", "--json", "--output", str(path)])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document == json.loads(path.read_text())
    assert document["panewise"] == version("panewise")
    assert document["machine"]["cores"] >= 1
    assert set(document["kinds"]) == {kind.value for kind in Kind}
    assert set(document["trees"]) == {"feed_ns", "tree_ns", "closing_ns", "window_ns"}
    assert all(number > 0 for number in document["trees"].values())
    assert all(number > 0 for pair in document["kinds"].values() for number in pair.values())
    assert not (tmp_path / "config").exists()


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = runner.invoke(app, ["calibrate", "--output", str(tmp_path / "file" / "w.json")])
    assert done.exit_code == 2
    assert "cannot be written" in done.output


def test_numbers_that_cannot_be_read_again_are_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text("old")
    with pytest.raises(PanewiseError, match="no table `kinds`"):
        calibrate.store({}, path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["w.json"]
