"""Ingest: turn events (Arrow, pandas, Polars, a dict of arrays) into one record batch of the stream's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.engine.columns import arrow_type
from panewise.errors import PanewiseError
from panewise.language.model import Stream
from panewise.windows.clock import FIRST_US, LAST_US, SPAN


class EventsError(PanewiseError):
    """Events that do not fit their stream. None of them was taken in."""


def to_batch(stream: Stream, events: object, *, may_be_untimed: bool = False) -> pa.RecordBatch:
    """Events as one record batch with exactly the stream's attributes, in its order, timestamps as int64 microseconds.

    In a pandas frame NaN stands for a missing value and becomes NULL; anywhere else NaN stays NaN. An event without a
    usable time is refused, unless somebody takes such events.
    """
    columns = _columns(stream, events)
    arrays = [to_column(stream, name, kind, columns) for name, kind in stream.attributes.items()]
    lengths = {name: len(array) for name, array in zip(stream.attributes, arrays)}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise EventsError(f"stream {stream.name}: the columns differ in length ({shown})")
    batch = pa.RecordBatch.from_arrays(arrays, names=list(stream.attributes))
    if not may_be_untimed:
        _check_times(stream, batch.column(stream.timestamp))
    return batch


def _check_times(stream: Stream, times: pa.Array) -> None:
    """Refuse times that are NULL, or outside the years 1 to 9999."""
    if times.null_count:
        row = pc.index(times.is_null(), True).as_py()
        raise EventsError(
            f"stream {stream.name}: {stream.timestamp} is NULL in {times.null_count} of {len(times)} events, first in "
            f"row {row}; an event needs a time: filter those rows out before push, or let Engine(set_aside=...) take "
            f"them"
        )
    _check_span(stream, np.asarray(times))


def _check_span(stream: Stream, times: npt.NDArray[np.int64]) -> None:
    """Refuse times outside the years 1 to 9999."""
    outside = outside_span(times)
    if outside.any():
        row = int(np.argmax(outside))
        raise EventsError(
            f"stream {stream.name}: {stream.timestamp} is {times[row]} in row {row}, and {int(outside.sum())} of "
            f"{len(times)} events have such a time; {SPAN}. Convert other units, such as nanoseconds, before push, or "
            f"let Engine(set_aside=...) take such events"
        )


def outside_span(times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which times lie outside the years 1 to 9999."""
    return (times < FIRST_US) | (times > LAST_US)


def _columns(stream: Stream, events: object) -> Mapping[str, Any]:
    if isinstance(events, Mapping):
        return {str(name): values for name, values in events.items()}
    if isinstance(events, (pa.Table, pa.RecordBatch)):
        return _named(stream, events.schema.names, events.column)
    if type(events).__module__.partition(".")[0] == "pandas" and hasattr(events, "iloc") and hasattr(events, "columns"):
        frame: Any = events
        return _named(stream, [str(name) for name in frame.columns], lambda place: frame.iloc[:, place])
    if hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__"):
        try:
            table = pa.table(events)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise EventsError(
                f"stream {stream.name}: the {type(events).__name__} cannot be read as an Arrow table: {error}"
            ) from None
        return _named(stream, table.schema.names, table.column)
    raise EventsError(
        f"stream {stream.name}: cannot read events from {type(events).__name__}; give an Arrow table or record batch, "
        f"a pandas or Polars DataFrame, or a dict of arrays"
    )


def _named(stream: Stream, names: list[str], column: Callable[[int], Any]) -> dict[str, Any]:
    """Columns by their names; no attribute may occur twice."""
    twice = next((name for name in stream.attributes if names.count(name) > 1), None)
    if twice is not None:
        raise EventsError(
            f"stream {stream.name}: the events have {names.count(twice)} columns {twice!r}; keep or rename one of them"
        )
    return {name: column(place) for place, name in enumerate(names)}


def to_column(stream: Stream, name: str, kind: Type, columns: Mapping[str, Any]) -> pa.Array:
    """One of several columns in the type of a stream's attribute."""
    if name not in columns:
        near = get_close_matches(name, list(columns), 1)
        hint = f"; did you mean your column {near[0]!r}?" if near else f"; the columns are {', '.join(columns)}"
        raise EventsError(f"stream {stream.name}: the events have no column {name!r}{hint}")
    column = columns[name]
    try:
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            if isinstance(column, (str, bytes)):
                raise TypeError("it is one value and not a list or an array")
            column = pa.array(column)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # zero chunks
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        return _cast(column, kind)
    except UnicodeEncodeError as error:
        raise EventsError(
            f"stream {stream.name}: column {name!r} holds text that cannot be written as UTF-8: {error}; "
            f"decode it with the right encoding"
        ) from None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        given = getattr(column, "type", type(column).__name__)
        raise EventsError(f"stream {stream.name}: column {name!r} of type {given} is not {kind}: {error}") from None


def _cast(column: pa.Array, kind: Type) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), arrow_type(kind))
    if kind is Type.TIMESTAMP:
        return _microseconds(column)
    if kind is Type.STRING and not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type)
    ):
        raise pa.ArrowTypeError("a string column is needed")
    if kind is Type.BOOLEAN and not pa.types.is_boolean(column.type):
        raise pa.ArrowTypeError("a boolean column is needed")
    if kind.is_number and not (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    ):
        raise pa.ArrowTypeError("a numeric column is needed")
    # An integer above 2**53 may round on its way to DOUBLE, as it does in Spark; a fraction never becomes a BIGINT.
    return column.cast(arrow_type(kind), safe=kind is not Type.DOUBLE)


def _microseconds(column: pa.Array) -> pa.Array:
    """Timestamps and dates of any unit, or int64 microseconds, as int64 microseconds UTC."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    if not pa.types.is_timestamp(column.type):
        raise pa.ArrowTypeError("a timestamp column, or int64 microseconds since 1970 UTC, is needed")
    if column.type.unit == "ns":
        # An event belongs to the microsecond that it lies in, before the epoch too; Arrow's cast would round up there.
        whole = np.floor_divide(np.asarray(column.cast(pa.int64()).fill_null(0)), 1000)
        return pa.array(whole, mask=np.asarray(column.is_null()))
    return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
