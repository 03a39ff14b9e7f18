"""Weights come from the file of this machine or from the shipped numbers, and never from a damaged file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panewise.aggregates.components import Kind
from panewise.errors import CalibrationError
from panewise.planning import calibration
from panewise.planning.calibration import SHIPPED, KindCost, read_calibration, weights_for, weights_path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that no test reads what this machine has stored."""
    monkeypatch.delenv("PANEWISE_WEIGHTS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def numbers() -> dict[str, dict[str, float]]:
    return {kind.value: {"event_ns": 1.0 + at, "combine_ns": 10.0 * (1 + at)} for at, kind in enumerate(Kind)}


def write(path: Path, kinds: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"panewise": "0", "kinds": kinds}))
    return path


def test_the_shipped_numbers_have_every_kind() -> None:
    assert set(SHIPPED.costs) == set(Kind)
    weights = weights_for([Kind.ROWS, Kind.MAX])
    rows, greatest = SHIPPED.costs[Kind.ROWS], SHIPPED.costs[Kind.MAX]
    assert weights.event == rows.event_ns + greatest.event_ns
    assert weights.combine == rows.combine_ns + greatest.combine_ns
    assert weights.closing * weights.combine == pytest.approx(SHIPPED.trees.closing_ns)
    assert weights.source.startswith("shipped with Panewise")


def test_the_file_of_this_machine_is_used(home: Path) -> None:
    path = write(home / "config" / "panewise" / "weights.json", numbers())
    assert weights_path() == path
    weights = weights_for([Kind.ROWS, Kind.ROWS, Kind.COUNT])
    assert (weights.event, weights.combine) == (1 + 1 + 2, 10 + 10 + 20)
    assert weights.source == f"measured, from {path}"


def test_the_environment_says_where(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "config" / "panewise" / "weights.json", numbers())
    kinds = numbers()
    kinds["rows"]["event_ns"] = 7
    path = write(home / "other.json", kinds)
    monkeypatch.setenv("PANEWISE_WEIGHTS", str(path))
    assert weights_for([Kind.ROWS]).event == 7
    monkeypatch.setenv("PANEWISE_WEIGHTS", str(home / "none.json"))
    with pytest.raises(CalibrationError, match=r"PANEWISE_WEIGHTS names .*none.json, which does not exist; unset it"):
        weights_for([Kind.ROWS])


def test_without_a_configuration_folder_it_is_in_the_home(home: Path) -> None:
    assert weights_path({"HOME": "ignored"}) == Path.home() / ".config" / "panewise" / "weights.json"
    assert weights_path({"XDG_CONFIG_HOME": str(home)}) == home / "panewise" / "weights.json"
    assert weights_path({"XDG_CONFIG_HOME": str(home), "PANEWISE_WEIGHTS": "w.json"}) == Path("w.json")
    assert calibration.calibration({"XDG_CONFIG_HOME": str(home)}) is SHIPPED


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it cannot be read"),
        ("[1]", "it has no table `kinds`"),
        ('{"kinds": 3}', "it has no table `kinds`"),
        (b"\xff\xfe\xfa", "it cannot be read"),
    ],
)
def test_a_damaged_file_is_refused(home: Path, text: str | bytes, why: str) -> None:
    path = home / "weights.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CalibrationError, match=why) as told:
        read_calibration(path)
    assert str(path) in str(told.value)
    assert "Run `panewise calibrate`" in str(told.value)


@pytest.mark.parametrize("number", [0, -1.0, "3", None, True, float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(home: Path, number: object) -> None:
    kinds: dict[str, dict[str, object]] = {name: dict(pair) for name, pair in numbers().items()}
    kinds["max"]["combine_ns"] = number
    path = write(home / "weights.json", kinds)
    with pytest.raises(CalibrationError, match="combine_ns of max must be a positive number"):
        read_calibration(path)


def test_a_kind_that_is_missing_is_named(home: Path) -> None:
    kinds = numbers()
    del kinds["values"]
    with pytest.raises(CalibrationError, match="it has no numbers for values"):
        read_calibration(write(home / "weights.json", kinds))


def test_a_file_is_read_as_written(home: Path) -> None:
    read = read_calibration(write(home / "weights.json", numbers()))
    assert read.costs[Kind.ROWS] == KindCost(1.0, 10.0)
    with pytest.raises(ValueError, match="at least one kind"):
        read.weights_for([])


def test_sketches_that_were_not_measured_cost_what_is_shipped(home: Path) -> None:
    """If their package is not installed, `panewise calibrate` has no numbers for them."""
    kinds = numbers()
    del kinds["quantiles"]
    read = read_calibration(write(home / "weights.json", kinds))
    assert read.costs[Kind.QUANTILES] == SHIPPED.costs[Kind.QUANTILES]
    assert read.costs[Kind.DISTINCT] != SHIPPED.costs[Kind.DISTINCT]
