"""A table that is written and read again is the same table, whole or not at all."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest
from experiments.tables import NotMeasuredError, Table
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import PanewiseError

WORDS = st.text(alphabet="abc ,\"'#:", min_size=1).filter(lambda text: text.strip() == text)
CELLS = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.integers(-1000, 1000).map(lambda n: n / 8), WORDS)


@given(st.lists(st.dictionaries(st.sampled_from(["way", "size", "ns"]), CELLS, min_size=1), min_size=1))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]) -> None:
    file = tmp_path_factory.mktemp("tables") / "one.csv"
    facts = {"commit": "abc123 with changes", "claim": 'a: b, "c"'}
    Table.of(rows, facts).write(file)
    again = Table.read(file)
    assert list(again.rows) == rows
    assert again.facts == facts


def test_infinity_and_missing_cells() -> None:
    text = Table.of([{"a": inf, "b": 1}, {"a": 0.1}]).text()
    assert text == "a,b\ninf,1\n0.1,\n"


def test_where_and_mean() -> None:
    table = Table.of([{"way": "x", "ns": 1}, {"way": "x", "ns": 3}, {"way": "y", "ns": 9}])
    assert table.mean("ns", way="x") == 2
    assert table.distinct("way") == ["x", "y"]
    assert len(table.where(way="y")) == 1
    assert len(table.where(other=None)) == 3
    with pytest.raises(NotMeasuredError, match="way z"):
        table.mean("ns", way="z")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PanewiseError, match="measure the figure"):
        Table.read(tmp_path / "none.csv")
