"""Packed answers come back as they were, whatever pieces they travel in."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise.engine.wide_columns import AggregateColumn
from panewise.language.expressions import Attribute
from panewise.spark.packed_answers import pack_answers, unpack_answers
from panewise.spark.training_frames import Carried

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    pa.int64(): INT64,
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.timestamp("us", tz="UTC"): st.integers(-(2**55), 2**55),
}


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Array]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=12))
    rows = draw(st.integers(0, 7))
    return [pa.array(draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows)), kind) for kind in kinds]


@settings(max_examples=examples(200), deadline=None)
@given(tables(), st.sampled_from([1, 3, 100]), st.integers(1, 5), st.booleans())
def test_answers_come_back(columns: list[pa.Array], piece: int, batch: int, is_large: bool) -> None:
    with patch("panewise.spark.packed_answers.PIECE_ROWS", piece):
        packed = pack_answers(columns)
    # Spark cuts them anew, and its setting useLargeVarTypes makes their type another one.
    kind = pa.large_binary() if is_large else pa.binary()
    pieces = pa.Table.from_batches(
        pa.table({"packed": packed.combine_chunks().cast(kind)}).to_batches(batch), pa.schema([("packed", kind)])
    )
    found = unpack_answers(pieces.column("packed"), [column.type for column in columns])
    assert [column.type for column in found] == [column.type for column in columns]
    # As text NaN equals itself, and -0.0 is not 0.0.
    assert repr([column.to_pylist() for column in found]) == repr([column.to_pylist() for column in columns])


def test_labels_carry_all_answers_to_the_last_stage() -> None:
    """Also those that are no words, which travel beside, and those of a stage that has no words."""
    columns = {
        name: AggregateColumn(name, kind, Attribute(name), "exact")
        for name, kind in (
            ("n", pa.int64()),
            ("times", pa.list_(pa.timestamp("us", tz="UTC"))),
            ("last", pa.string()),
            ("mean", pa.float64()),
        )
    }
    times = pa.array([[0, 1], None], columns["times"].kind).to_pylist()
    answers = {"n": [1, None], "times": times, "last": [None, "b"], "mean": [0.5, 1.5]}
    stages = [["n", "times"], ["last"], ["mean"]]
    table = pa.table({"label": [1, 2]})
    for number, names in enumerate(stages):
        earlier = [[columns[name] for name in some] for some in stages[:number]]
        carried = Carried(["label"], earlier, is_last=number == 2)
        mine = {columns[name]: pa.array(answers[name], columns[name].kind) for name in names}
        assert carried.names == table.column_names[1:]
        table = pa.table({"label": table["label"], **carried.with_answers(table, mine)})
        if number == 0:
            # Spark gives times in the zone of the session, and takes them in UTC.
            place = table.schema.get_field_index("times")
            zoned = table["times"].cast(pa.list_(pa.timestamp("us", tz="Europe/Berlin")))
            table = table.set_column(place, "times", zoned)
        assert len(carried.fields(list(mine))) == len(table.column_names) - 1
    assert {name: table.schema.field(name).type for name in columns} == {
        name: column.kind for name, column in columns.items()
    }
    assert table.drop_columns("label").to_pydict() == answers
