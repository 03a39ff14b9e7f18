"""The forms that Spark 4.0 needs do what the forms of later versions do, whichever version is installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues

from panewise.errors import PanewiseError
from panewise.spark.versions import InPandas, on_table, with_state


class Echo(StatefulProcessor):
    """Answers each row by itself, and a timer by its time; keeps what it was called with."""

    def __init__(self) -> None:
        self.called: list[Any] = []

    def init(self, handle: Any) -> None:
        self.called.append(handle)

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: TimerValues) -> Iterator[Row]:
        for row in rows:
            self.called.append((key, row, timerValues.getCurrentWatermarkInMs()))
            if row.content is not None:
                yield Row(content=bytes(row.content), size=row["size"])

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Any:
        yield Row(content=None, size=expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        self.called.append("closed")


BIG = 2**53 + 1
"""A number that a double does not hold: pandas must not make one of it on the way."""


def test_rows_pass_through_pandas_unchanged() -> None:
    echo = Echo()
    processor = InPandas(echo)
    frames = [
        pd.DataFrame({"content": pd.Series([b"a", None], dtype=object), "size": [BIG, 2]}),
        pd.DataFrame({"content": [b""], "size": [3]}),
    ]
    processor.init("handle")
    made = list(processor.handleInputRows((np.int32(7),), iter(frames), TimerValues(0, 5)))
    processor.close()
    rows = [Row(content=b"a", size=BIG), Row(content=None, size=2), Row(content=b"", size=3)]
    assert echo.called == ["handle", *(((7,), row, 5) for row in rows), "closed"]
    assert type(echo.called[1][0][0]) is int
    assert [frame.to_dict("records") for frame in made] == [
        [{"content": b"a", "size": BIG}, {"content": b"", "size": 3}]
    ]


def test_nothing_to_answer_is_no_frame() -> None:
    frame = pd.DataFrame({"content": [None], "size": [1]})
    assert list(InPandas(Echo()).handleInputRows((1,), iter([frame]), TimerValues())) == []


def test_a_timer_is_answered() -> None:
    (frame,) = InPandas(Echo()).handleExpiredTimer((1,), TimerValues(), ExpiredTimerInfo(BIG))
    assert frame.to_dict("records") == [{"content": None, "size": BIG}]


def test_a_function_of_batches_takes_a_table() -> None:
    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(sum(batch.column("x").to_pylist()) for batch in batches)
        yield pa.RecordBatch.from_pydict({"x": [2 * total]})

    table = pa.concat_tables([pa.table({"x": [1, 2]}), pa.table({"x": [3]})])
    assert on_table(doubled)(table).to_pydict() == {"x": [12]}


def test_a_spark_without_state_is_refused_with_the_cure() -> None:
    class WithoutState:
        """What groups a DataFrame over Spark Connect 4.0."""

    with pytest.raises(PanewiseError, match=r"Spark Connect keeps no state .* PySpark 4\.1 or later"):
        with_state(WithoutState(), Echo(), "x BIGINT")  # type: ignore[arg-type]
