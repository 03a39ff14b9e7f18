"""What differs between the versions of PySpark that Panewise runs on: 4.0 on one side, 4.1 and later on the other.

| | 4.0 | 4.1 and later |
|---|---|---|
| state | `transformWithStateInPandas` only | also `transformWithState`, which passes rows |
| state over Spark Connect | none | as without Connect |
| `applyInArrow` | takes a function of a table | also takes a function of an iterator of batches |

All three changed together, so the method `transformWithState` tells which side is installed. The newest Java that Spark
runs on changed later, with 4.2 (`newest_java`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, GroupedData, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from panewise.errors import SparkSetupError

if TYPE_CHECKING:
    import pandas as pd

OnBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What is done with one group: batches in, batches out."""


def with_state(grouped: GroupedData, processor: StatefulProcessor, output: str) -> DataFrame:
    """Each group of a stream through a processor of rows, with event-time timers; `output` is the schema as text."""
    if _is_4_1_or_later(grouped):
        return grouped.transformWithState(processor, output, "Append", "EventTime")
    if not hasattr(grouped, "transformWithStateInPandas"):
        raise SparkSetupError(
            "Spark Connect keeps no state for Python before Spark 4.1, so it cannot run a Panewise stream; "
            "run the stream without Connect, or use PySpark 4.1 or later on both sides"
        )
    return grouped.transformWithStateInPandas(InPandas(processor), output, "Append", "EventTime")


def in_arrow(grouped: GroupedData, on_batches: OnBatches, output: str) -> DataFrame:
    """Each group of a batch DataFrame through a function; `output` is the schema as text."""
    # From 4.1 on, Spark reads the type hints of the function and hands a group over batch by batch.
    return grouped.applyInArrow(on_batches if _is_4_1_or_later(grouped) else on_table(on_batches), output)


def newest_java(spark: str = pyspark.__version__) -> int | None:
    """The newest Java that a version of Spark runs on; None if none is too new.

    >>> newest_java("4.0.5"), newest_java("4.1.4"), newest_java("4.2.0")
    (22, 22, None)
    """
    # Hadoop in Spark 4.0 asks Java for the subject of a thread, which Java refuses from 23 on. Arrow in Spark 4.1 was
    # seen to fail on Java 25, and Spark 4.2 was not.
    major, minor = (int(number) for number in spark.split(".")[:2])
    return 22 if (major, minor) < (4, 2) else None


def _is_4_1_or_later(grouped: GroupedData) -> bool:
    return hasattr(grouped, "transformWithState")


def on_table(on_batches: OnBatches) -> Callable[[pa.Table], pa.Table]:
    """The same function for a group that comes as one table."""

    def whole(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches(on_batches(iter(table.to_batches())))

    return whole


class InPandas(StatefulProcessor):
    """A processor of rows, for a Spark that hands rows over as pandas DataFrames and takes such frames back."""

    def __init__(self, processor: StatefulProcessor) -> None:
        self._processor = processor

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._processor.init(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Any]:
        """Take in a batch's rows for one group."""
        return _frames(self._processor.handleInputRows(_plain(key), _rows(rows), timerValues))

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Any]:
        """Answer a timer of a group that may have got no rows."""
        return _frames(self._processor.handleExpiredTimer(_plain(key), timerValues, expiredTimerInfo))

    def close(self) -> None:
        """Close what the processor opened."""
        self._processor.close()


def _plain(key: Iterable[Any]) -> tuple[Any, ...]:
    """A key without NumPy's types, which are neither JSON nor names of files."""
    return tuple(part.item() if hasattr(part, "item") else part for part in key)


def _rows(frames: Iterable[pd.DataFrame]) -> Iterator[Row]:
    for frame in frames:
        # Columns one by one: `to_dict` and `iterrows` would make one type of all.
        columns = [frame[name].tolist() for name in frame.columns]
        as_row = Row(*frame.columns)
        yield from (as_row(*values) for values in zip(*columns))


def _frames(rows: Iterable[Any]) -> Iterator[pd.DataFrame]:
    """The rows as one frame, or none at all: Spark cannot tell the types of a frame without rows."""
    import pandas as pd

    if made := list(rows):
        yield pd.DataFrame([tuple(row) for row in made], columns=list(made[0].__fields__))
