"""Rows in no order get the places that a sort by all their values gives them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

import panewise
from panewise.engine.content_order import content_order

(STREAM,) = panewise.read(
    "CREATE STREAM s (x DOUBLE, t TIMESTAMP, name STRING) TIMESTAMP BY t;"
).streams.values()  # fmt: skip
SCHEMA = pa.schema([("x", pa.float64()), ("t", pa.int64()), ("name", pa.string())])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "x": st.sampled_from([None, -1.0, 0.0, 1.0, math.nan]),
            "t": st.integers(0, 30) | st.integers(0, 3),
            "name": st.sampled_from([None, "", "a", "b"]),
        }
    ),
    max_size=30,
)


@settings(max_examples=examples(200), deadline=None)
@given(ROWS)
def test_rows_come_by_time_and_then_by_their_values(rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    found = batch.take(content_order(STREAM, batch)).to_pylist()
    wanted = batch.take(pc.sort_indices(batch, [("t", "ascending"), ("x", "ascending"), ("name", "ascending")]))
    assert repr(found) == repr(wanted.to_pylist())
