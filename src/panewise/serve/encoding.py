"""Tables as JSON rows and as Arrow, and times as text."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import time as now_s
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.engine.answers import INTERVAL_COLUMNS
from panewise.engine.families import WINDOW_END
from panewise.engine.one_row import PlainRow
from panewise.engine.wide_columns import WINDOW_START
from panewise.serve.messages import Answer, History, HistoryPoint, Row, Values
from panewise.serve.source import Arrays, Position
from panewise.windows.clock import END_OF_STREAM, to_microseconds

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOW, _HIGH = INTERVAL_COLUMNS


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table, with values that JSON has. Times are ISO 8601; NaN and infinities are text."""
    names = table.column_names
    if table.num_rows == 1:
        return [{name: _one(column[0]) for name, column in zip(names, table.itercolumns())}]
    return [dict(zip(names, row)) for row in zip(*map(_plain, table.itercolumns()))]


def _one(scalar: pa.Scalar) -> Any:
    """A single value: most lookups ask for one group, and columns of one value are slow to turn around."""
    if isinstance(scalar, pa.TimestampScalar) and scalar.type.unit == "us":
        return time_text(scalar.value)
    value = scalar.as_py()
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    return _nested(value) if isinstance(value, (list, dict, datetime)) else value


def _plain(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        times = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return [time_text(time_us) for time_us in times.to_pylist()]
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(kind):
        return [value if value is None or math.isfinite(value) else _not_finite(value) for value in values]
    if pa.types.is_nested(kind):
        return [_nested(value) for value in values]
    return values


def _not_finite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _nested(value: Any) -> Any:
    if isinstance(value, list):
        return [_nested(one) for one in value]
    if isinstance(value, dict):
        return {name: _nested(one) for name, one in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    return _not_finite(value) if isinstance(value, float) and not math.isfinite(value) else value


@lru_cache(4096)
def time_text(time_us: int | None) -> str | None:
    """A time in ISO 8601; None for none, and `end` for the end of a stream.

    >>> time_text(0), time_text(None), time_text(END_OF_STREAM)
    ('1970-01-01T00:00:00Z', None, 'end')
    >>> time_text(-63_000_000_000_000_000)
    '-027-08-11T08:00:00.000000Z'
    """
    if time_us is None:
        return None
    if time_us == END_OF_STREAM:
        return "end"
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        # Outside the years 1 to 9999, which a window reaches that begins or ends near them.
        return f"{np.datetime64(time_us, 'us')}Z"


def age_s(position: Position) -> float | None:
    """How long ago the newest events came."""
    return None if position.written_s is None else max(0.0, now_s() - position.written_s)


@lru_cache(4096)
def intervals_of(names: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """The columns that are intervals, with those of their bounds.

    >>> intervals_of(("k", "SUM(x)", "SUM(x) low", "SUM(x) high"))
    {'SUM(x)': ('SUM(x) low', 'SUM(x) high')}
    """
    there = set(names)
    bounds = {name: (f"{name} {_LOW}", f"{name} {_HIGH}") for name in names}
    return {name: (low, high) for name, (low, high) in bounds.items() if low in there and high in there}


def columns_of(arrays: Arrays) -> dict[str, list[Any]]:
    """Arrays as lists with values that JSON has."""
    return {name: [_nested(value) for value in array.tolist()] for name, array in arrays.items()}


def arrow_of_values(query: str, stream: str, arrays: Arrays, position: Position) -> bytes:
    """Arrays as an Arrow stream, NULL where they are masked."""
    columns = {name: pa.array(array.tolist(), _ARROW_TYPES.get(array.dtype.kind)) for name, array in arrays.items()}
    return arrow_of(query, stream, pa.table(columns), position)


_ARROW_TYPES = {"f": pa.float64(), "i": pa.int64(), "b": pa.bool_()}


class Told:
    """What each answer of a request tells about a state, made once for all of them."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._age_s = age_s(position)
        self._times: dict[str, tuple[str | None, str | None]] = {}

    def answer(self, query: str, stream: str, table: pa.Table, limit: int, offset: int = 0) -> Answer:
        """An answer with at most `limit` rows."""
        intervals = intervals_of(tuple(table.column_names))
        shown = table if table.num_rows <= limit and not offset else table.slice(offset, limit)
        return self._answer(query, stream, rows_of(shown), table.num_rows, intervals)

    def answer_of_one(self, query: str, stream: str, row: PlainRow | None, limit: int) -> Answer:
        """An answer from the plain values of one group; these are exact."""
        return self._answer(query, stream, [_shown(row)] if row is not None and limit else [], int(row is not None), {})

    def values(self, query: str, stream: str, arrays: Arrays) -> Values:
        """Arrays of many groups."""
        return Values(query, columns_of(arrays), *self._state(stream))

    def history(self, query: str, stream: str, points: list[HistoryPoint], names: tuple[str, ...]) -> History:
        """The windows of one group, whose rows have these columns."""
        intervals = intervals_of(names)
        return History(query, points, not intervals, intervals, *self._state(stream))

    def _state(self, stream: str) -> tuple[str | None, str | None, float | None, int]:
        """The watermark, the newest event, its age and the version."""
        if stream not in self._times:
            watermark_us, newest_us = self._position.watermarks_us.get(stream), self._position.newest_us.get(stream)
            self._times[stream] = time_text(watermark_us), time_text(newest_us)
        return *self._times[stream], self._age_s, self._position.version

    def _answer(
        self, query: str, stream: str, rows: list[Row], total_rows: int, intervals: dict[str, tuple[str, str]]
    ) -> Answer:
        watermark, newest, age, version = self._state(stream)
        return Answer(
            query=query,
            rows=rows,
            total_rows=total_rows,
            exact=not intervals,
            intervals=intervals,
            watermark=watermark,
            newest_event=newest,
            age_s=age,
            version=version,
        )


def _shown(row: PlainRow) -> Row:
    shown = dict(row)
    for name, value in row.items():
        # The difference is NaN if the value is not finite.
        if value.__class__ is float and value - value != 0.0:
            shown[name] = _not_finite(value)
        elif isinstance(value, datetime):
            shown[name] = time_text(to_microseconds(value))
    for name in (WINDOW_START, WINDOW_END):
        shown[name] = time_text(row[name])
    return shown


def arrow_of(query: str, stream: str, table: pa.Table, position: Position) -> bytes:
    """A table as an Arrow stream; how far the stream was stands in the metadata of its schema."""
    about = {
        "query": query,
        "watermark": time_text(position.watermarks_us.get(stream)) or "",
        "newest_event": time_text(position.newest_us.get(stream)) or "",
        "age_s": str(age_s(position)),
        "exact": str(not intervals_of(tuple(table.column_names))).lower(),
        "version": str(position.version),
    }
    # Columns of one type may come in pieces, or as dictionaries that a stream cannot replace.
    shown = table.combine_chunks().replace_schema_metadata({f"panewise.{name}": text for name, text in about.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, shown.schema) as writer:
        writer.write_table(shown)
    return bytes(sink.getvalue())
