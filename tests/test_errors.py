"""Every error and warning is a name of the package, stands in one place, and is listed in the reference."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import panewise
from panewise import errors
from panewise.engine import event_log
from panewise.structures import HistoryError

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "panewise").rglob("*.py"))
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
INSIDE = {"PlacedError", "MustReadError", "IntervalNeedsEventsError", "FellBehindError", "_TooMuchWorkError"}
INSIDE |= {"UnknownSourceError", "BusyError", "OverloadedError", "RequestError"}
"""Exceptions that are always caught where they arise."""


def classes() -> list[str]:
    """The name of every class that ends like an exception, as often as it is defined."""
    nodes = (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = (node.name for node in nodes if isinstance(node, ast.ClassDef))
    return [name for name in found if re.search("(Error|Warning)$", name) and name not in INSIDE]


def test_each_is_defined_once_and_is_a_name_of_the_package() -> None:
    counted = Counter(classes())
    assert [name for name, times in counted.items() if times > 1] == []
    for name in counted:
        assert name in panewise.__all__
        assert issubclass(getattr(panewise, name), (panewise.PanewiseError, panewise.PanewiseWarning))


def test_each_is_listed_in_the_reference_with_its_meaning() -> None:
    listed = re.findall(r"^\| \[`(\w+)`\]\(#panewise\.\w+\) \| (.+?) \| ", PAGE, re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(classes())
    assert sorted(re.findall(r"^::: panewise\.(\w+)$", PAGE, re.MULTILINE)) == sorted(classes())
    for name, meaning in listed:
        assert meaning == " ".join((getattr(panewise, name).__doc__ or "").split()), name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_raises_the_base_of_all_errors(path: Path) -> None:
    assert "raise PanewiseError(" not in path.read_text(encoding="utf-8")


def test_what_left_history_is_one_class_everywhere() -> None:
    assert panewise.HistoryError is HistoryError is errors.HistoryError
    assert event_log.HistoryError is HistoryError


def test_an_argument_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="rate must be positive"):
        panewise.optimize(panewise.Workload(), rate=-1)
    with pytest.raises(panewise.TimeError, match="the watermark is"):
        panewise.Engine("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;").advance("s", "noon")


TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING) TIMESTAMP BY t;
CREATE QUERY sliding AS SELECT k, COUNT(*) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY k;
CREATE QUERY recent AS SELECT k, COUNT(*) FROM s [RANGE 5 SECONDS] GROUP BY k;
CREATE QUERY listed AS SELECT k FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] ORDER BY k;
"""


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("push", ("none", {}), panewise.UnknownNameError),
        ("push", (5, {}), panewise.ArgumentError),
        ("push", ("s", {"t": [1]}), panewise.EventsError),
        ("push", ("s", {"t": [None], "k": ["a"]}), panewise.EventsError),
        ("advance", ("s", 3), panewise.WatermarkError),
        ("advance", ("s", 2**62), panewise.TimeError),
        ("lookup", ("none",), panewise.UnknownNameError),
        ("lookup", ("sliding",), panewise.QueryKindError),
        ("lookup", ("listed", 5), panewise.QueryKindError),
        ("lookup", ("recent", None, {"z": 1}), panewise.KeysError),
        ("lookup_one", ("recent", ("a", "b")), panewise.KeysError),
        ("lookup", ("recent", "noon"), panewise.TimeError),
        ("rows", ("recent",), panewise.QueryKindError),
        ("rows", ("none",), panewise.UnknownNameError),
        ("add", ("CREATE QUERY q",), panewise.StatementError),
        ("add", (5,), panewise.ArgumentError),
        ("restore", (b"x",), panewise.SnapshotError),
        ("next_closing", ("none",), panewise.UnknownNameError),
    ],
)
def test_each_mistake_has_its_class(method: str, arguments: tuple[object, ...], error: type[Exception]) -> None:
    engine = panewise.Engine(TEXT)
    engine.push("s", {"t": [1, 2], "k": ["a", "b"]})
    engine.advance("s", 5)
    with pytest.raises(error) as raised:
        getattr(engine, method)(*arguments)
    assert type(raised.value) is error
