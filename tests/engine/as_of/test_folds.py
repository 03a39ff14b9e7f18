"""Sketches of ranges are those of the values in them, for aggregates that read a sketch itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panewise.aggregates.components import Kind
from panewise.engine.as_of.events import OrderedEvents
from panewise.engine.as_of.folds import ValueFold
from panewise.engine.as_of.substreams import AskedTimes, Substreams
from panewise.engine.as_of.values import InputValues
from panewise.language.expressions import Attribute
from panewise.language.reader import read

STREAM = read("CREATE STREAM s (t TIMESTAMP, x DOUBLE, name STRING) TIMESTAMP BY t;").streams["s"]
pytest.importorskip("datasketches")


def fold_of(name: str) -> ValueFold:
    """The ranges [0, 3) and [1, 4) of four events, of which the second is NULL."""
    batch = pa.RecordBatch.from_pydict(
        {"t": [3, 1, 2, 4], "x": [2.5, 7.0, None, 7.0], "name": ["c", "a", None, "a"]},
        pa.schema([("t", pa.int64()), ("x", pa.float64()), ("name", pa.string())]),
    )
    events = OrderedEvents.of(STREAM, batch)
    part = Substreams(events, AskedTimes(np.array([4]), {}), ()).whole()
    values = InputValues(part, events.input(Attribute(name)))
    begins, ends = np.array([0, 1]), np.array([3, 4])
    return ValueFold(values, np.zeros(2, np.int64), begins, ends, is_precise=False)


def test_sketches_of_numbers() -> None:
    fold = fold_of("x")
    assert [sketch.n for sketch in fold.sketches(Kind.QUANTILES)] == [2, 2]
    assert [sketch.get_max_value() for sketch in fold.sketches(Kind.QUANTILES)] == [7.0, 7.0]
    assert [round(sketch.get_estimate()) for sketch in fold.sketches(Kind.DISTINCT)] == [2, 2]
    assert [sketch.total for sketch in fold.sketches(Kind.FREQUENT)] == [2, 2]


def test_sketches_of_strings() -> None:
    fold = fold_of("name")
    assert [round(sketch.get_estimate()) for sketch in fold.sketches(Kind.DISTINCT)] == [2, 2]
    assert [len(sketch.ranking.words) for sketch in fold.sketches(Kind.FREQUENT)] == [2, 2]
