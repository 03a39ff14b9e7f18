from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.types import Type
from panewise.engine.tables import ByteTable, CodeTable, ColumnTable, IntTable, KeyTable


@given(
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), max_size=300), max_size=4),
    st.sampled_from([0, 1, 65, 100]),
)
def test_integers_get_ids_in_order_of_first_appearance(batches: list[list[int]], expected: int) -> None:
    table, seen = IntTable(expected), {}
    for batch in batches:
        ids = table.ids(np.array(batch, np.int64))
        assert ids.tolist() == [seen.setdefault(value, len(seen)) for value in batch]
    assert table.values.tolist() == list(seen)


@given(st.lists(st.lists(st.none() | st.integers(0, 5) | st.integers(0, 300), max_size=100), max_size=4))
def test_codes_of_a_column_get_ids_in_order_of_first_appearance(batches: list[list[int | None]]) -> None:
    column, table, seen = ColumnTable(Type.BIGINT), CodeTable(), {}
    for batch in batches:
        codes = column.codes(pa.array(batch, pa.int64()))
        ids = table.ids(codes)
        assert ids.tolist() == [seen.setdefault(value, len(seen)) for value in batch]
        assert table.of(ids).tolist() == codes.tolist()
        assert len(table) == len(seen)
    known = column.find(pa.array(list(seen), pa.int64()))
    assert table.find(known).tolist() == [table.find_one(code) for code in known.tolist()] == list(seen.values())
    assert table.find(np.array([0])).tolist() == [table.find_one(0)] == [seen.get(None, -1)]


@given(st.lists(st.lists(st.text(max_size=5), max_size=200), max_size=4))
def test_strings_get_ids_in_order_of_first_appearance(batches: list[list[str]]) -> None:
    table, seen, before = ByteTable(), {}, []
    for batch in batches:
        ids = table.ids(pa.array(batch, pa.string()))
        assert ids.tolist() == [seen.setdefault(value, len(seen)) for value in batch]
        before.append(table.values)
    assert table.values.to_pylist() == list(seen)
    # Values share the table's memory, and stay what they are while it grows.
    assert all(values.to_pylist() == list(seen)[: len(values)] for values in before)


def test_growth_to_many_values() -> None:
    table = IntTable()
    values = np.random.default_rng(0).integers(0, 2**62, 200_000)
    ids = table.ids(values)
    assert np.array_equal(table.values[ids], values)
    strings = ByteTable()
    texts = pa.array([f"key {value}" for value in values[:50_000]])
    ids = strings.ids(texts)
    assert strings.values.take(pa.array(ids)).equals(texts.cast(pa.large_string()))


def test_equal_doubles_share_a_code_and_null_has_its_own() -> None:
    codes = ColumnTable(Type.DOUBLE).codes(pa.array([0.0, -0.0, float("nan"), -float("nan"), None, 1.0]))
    assert codes.tolist() == [1, 1, 2, 2, 0, 3]


@given(
    st.lists(
        st.tuples(
            st.none() | st.sampled_from(["a", "b", ""]), st.none() | st.integers(-2, 2), st.none() | st.booleans()
        ),
        max_size=60,
    )
)
def test_keys_of_several_columns_come_back_as_they_were(rows) -> None:
    table = KeyTable([Type.STRING, Type.BIGINT, Type.BOOLEAN])
    columns = [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.int64()),
        pa.array([row[2] for row in rows], pa.bool_()),
    ]
    ids = table.ids(columns, len(rows))
    seen: dict = {}
    assert ids.tolist() == [seen.setdefault(row, len(seen)) for row in rows]
    assert [column.to_pylist() for column in table.decode(ids)] == [column.to_pylist() for column in columns]
    assert table.find(columns, len(rows)).tolist() == ids.tolist()
    wanted = [*rows[:5], ("b", 2, True), ("c", 0, None), (None, 7, False)]
    assert [table.find_one(row) for row in wanted] == [seen.get(row, -1) for row in wanted]


def test_no_columns_make_one_group() -> None:
    table = KeyTable([])
    assert table.ids([], 3).tolist() == [0, 0, 0]
    assert len(table) == 1
    assert table.decode(np.zeros(3, np.int64)) == []
