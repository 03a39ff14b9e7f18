"""Ingest: turn events (Arrow, pandas, Polars, a dict of arrays) into one record batch of the stream's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.engine.columns import arrow_type
from panewise.errors import EventsError, TimeError
from panewise.language.model import Stream
from panewise.windows.clock import (
    FIRST_US,
    LAST_US,
    SPAN,
    UNITS_US,
    is_utc,
    likely_unit,
    to_microseconds,
    unit_cure,
    zone_of,
)

_NUMPY_UNITS = ("D", "s", "ms", "us", "ns")
"""The units of NumPy's times that Arrow takes."""


@dataclass(frozen=True)
class GivenTimes:
    """How the times of some events were given, as far as that may be a mistake."""

    are_integers: bool = False
    """Integers whose unit nobody declared; they are taken as microseconds."""
    zones: frozenset[str] = frozenset()
    """The zones other than UTC that they are in; "" stands for times without a zone, which are taken as UTC."""


def to_batch(stream: Stream, events: object, *, may_be_untimed: bool = False) -> pa.RecordBatch:
    """Events as one record batch with exactly the stream's attributes, in its order, timestamps as int64 microseconds.

    In a pandas frame NaN stands for a missing value and becomes NULL; anywhere else NaN stays NaN. An event without a
    usable time is refused, unless somebody takes such events.
    """
    return read_events(stream, events, may_be_untimed=may_be_untimed)[0]


def read_events(stream: Stream, events: object, *, may_be_untimed: bool = False) -> tuple[pa.RecordBatch, GivenTimes]:
    """Events as one record batch, and how their times were given."""
    columns = _columns(stream, events)
    arrays = [
        to_column(stream, name, kind, columns, stream.units.get(name)) for name, kind in stream.attributes.items()
    ]
    lengths = {name: len(array) for name, array in zip(stream.attributes, arrays)}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise EventsError(f"stream {stream.name}: the columns differ in length ({shown})")
    batch = pa.RecordBatch.from_arrays(arrays, names=list(stream.attributes))
    if not may_be_untimed:
        _check_times(stream, batch.column(stream.timestamp))
    return batch, given_times(columns[stream.timestamp], stream.units.get(stream.timestamp))


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
    if not len(times) or (times.min() >= FIRST_US and times.max() <= LAST_US):
        return
    outside = outside_span(times)
    row = int(np.argmax(outside))
    unit = likely_unit(int(times[row]), int(times[row]))
    cure = "convert other units" if unit is None else unit_cure(unit)
    raise EventsError(
        f"stream {stream.name}: {stream.timestamp} is {times[row]} in row {row}, and {int(outside.sum())} of "
        f"{len(times)} events have such a time; {SPAN}. Before push, {cure}, "
        f"or let Engine(set_aside=...) take such events"
    )


def given_times(column: Any, unit: str | None) -> GivenTimes:
    """How times were given, that could be read."""
    kind = getattr(column, "type", None) or getattr(column, "dtype", None)
    if isinstance(kind, pa.DataType):
        if pa.types.is_timestamp(kind):
            return GivenTimes(zones=_zones(kind.tz))
        return GivenTimes(pa.types.is_integer(kind) and unit is None)
    if isinstance(kind, np.dtype) and kind.kind in "iuM":
        return GivenTimes(kind.kind in "iu" and unit is None, frozenset([""] if kind.kind == "M" else []))
    zone = getattr(kind, "tz", None)
    if zone is not None:
        return GivenTimes(zones=_zones(str(zone)))
    # A list, or an array of objects: the zones of datetimes may differ from place to place.
    first = next((value for value in column if value is not None), None)
    if isinstance(first, datetime):
        return GivenTimes(zones=frozenset(zone for zone in map(zone_of, column) if zone is not None))
    return GivenTimes(isinstance(first, Integral) and unit is None)


def _zones(zone: str | None) -> frozenset[str]:
    return frozenset([""]) if zone is None else frozenset() if is_utc(zone) else frozenset([zone])


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
    is_column = type(events).__name__ == "Series"
    if not is_column and (hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__")):
        try:
            table = pa.table(events)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise EventsError(
                f"stream {stream.name}: the {type(events).__name__} cannot be read as an Arrow table: {error}"
            ) from None
        return _named(stream, table.schema.names, table.column)
    raise EventsError(
        f"stream {stream.name}: cannot read events from {type(events).__name__}; give an Arrow table or record batch, "
        f"a pandas or Polars DataFrame, or a dict of arrays{_instead_of(events)}"
    )


def _instead_of(events: object) -> str:
    """What to write for events of a form that is often tried."""
    name = type(events).__name__
    if name == "Series":
        return ". A Series is one column, or one row: give the DataFrame, or frame.iloc[[0]] for its first row"
    if isinstance(events, (list, tuple)) and events and isinstance(events[0], Mapping):
        return ". Make a table of a list of dicts: pyarrow.Table.from_pylist(events)"
    if name == "LazyFrame":
        return ". Collect it first: frame.collect()"
    return ""


def _named(stream: Stream, names: list[str], column: Callable[[int], Any]) -> dict[str, Any]:
    """Columns by their names; no attribute may occur twice."""
    twice = next((name for name in stream.attributes if names.count(name) > 1), None)
    if twice is not None:
        raise EventsError(
            f"stream {stream.name}: the events have {names.count(twice)} columns {twice!r}; keep or rename one of them"
        )
    return {name: column(place) for place, name in enumerate(names)}


def to_column(stream: Stream, name: str, kind: Type, columns: Mapping[str, Any], unit: str | None = None) -> pa.Array:
    """One of several columns in the type of a stream's attribute; `unit` is that of integers that are times."""
    if name not in columns:
        near = get_close_matches(name, list(columns), 1)
        hint = f"; did you mean your column {near[0]!r}?" if near else f"; the columns are {', '.join(columns)}"
        raise EventsError(f"stream {stream.name}: the events have no column {name!r}{hint}")
    column = columns[name]
    try:
        column = _one_array(column)
        return _cast(column, kind, unit)
    except UnicodeEncodeError as error:
        raise EventsError(
            f"stream {stream.name}: column {name!r} holds text that cannot be written as UTF-8: {error}; "
            f"decode it with the right encoding"
        ) from None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        given: object = getattr(column, "type", type(column).__name__)
        raise EventsError(f"stream {stream.name}: column {name!r} of type {given} is not {kind}: {error}") from None


def as_column(kind: Type, column: Any, unit: str | None = None) -> pa.Array:
    """An array or a list as one Arrow array of a type; raises what Arrow raises if it is not of that type."""
    return _cast(_one_array(column), kind, unit)


def _one_array(column: Any) -> pa.Array:
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        if isinstance(column, (str, bytes)):
            raise TypeError("it is one value and not a list or an array")
        column = pa.array(_for_arrow(column))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # zero chunks
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def _for_arrow(column: Any) -> Any:
    """A column as Arrow can read it: NumPy's times of any unit, also in a list."""
    if isinstance(column, (list, tuple)) and column and isinstance(column[0], np.datetime64):
        column = np.array(column)
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        unit = np.datetime_data(column.dtype)
        if unit[0] not in _NUMPY_UNITS or unit[1] != 1:
            return column.astype("datetime64[us]")
    return column


def _cast(column: pa.Array, kind: Type, unit: str | None = None) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), arrow_type(kind))
    if kind is Type.TIMESTAMP:
        return _microseconds(column, unit)
    if kind is Type.STRING and not _is_text(column.type):
        raise pa.ArrowTypeError("a string column is needed")
    if kind is Type.BOOLEAN and not pa.types.is_boolean(column.type):
        raise pa.ArrowTypeError("a boolean column is needed")
    if kind is Type.BIGINT and pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    if kind.is_number and not (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    ):
        raise pa.ArrowTypeError("a numeric column is needed")
    # An integer above 2**53 may round on its way to DOUBLE, as it does in Spark; a fraction never becomes a BIGINT.
    return column.cast(arrow_type(kind), safe=kind is not Type.DOUBLE)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _microseconds(column: pa.Array, unit: str | None) -> pa.Array:
    """Timestamps and dates of any unit, ISO text, or integers of the declared unit, as int64 microseconds UTC."""
    if pa.types.is_integer(column.type):
        return _of_unit(column.cast(pa.int64()), unit or "us")
    if _is_text(column.type):
        return _from_text(column)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    if not pa.types.is_timestamp(column.type):
        raise pa.ArrowTypeError(_NO_TIMES.get(str(column.type), _NEEDED))
    if column.type.unit == "ns":
        return _of_unit(column.cast(pa.int64()), "ns")
    return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())


_NEEDED = "a timestamp column, ISO text, or integers since 1970 UTC are needed"
_NO_TIMES = dict.fromkeys(
    ("float", "double", "halffloat"),
    f"{_NEEDED}. Doubles are no exact times: make integers of them, such as (seconds * 1_000_000).astype('int64')",
)


def _of_unit(column: pa.Array, unit: str) -> pa.Array:
    """Integers of a unit as microseconds."""
    if unit != "ns":
        return column if unit == "us" else pc.multiply_checked(column, UNITS_US[unit])
    # An event belongs to the microsecond that it lies in, before the epoch too; Arrow's cast would round up there.
    whole = np.floor_divide(np.asarray(column.fill_null(0)), 1000)
    return pa.array(whole, mask=np.asarray(column.is_null()))


def _from_text(column: pa.Array) -> pa.Array:
    """ISO texts as microseconds; those without a zone are UTC."""
    for zone in (None, "UTC"):
        try:
            return column.cast(pa.timestamp("us", tz=zone)).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    # With and without zones, or in a form that only Python reads.
    values = []
    for row, text in enumerate(column.to_pylist()):
        try:
            values.append(None if text is None else to_microseconds(text, f"row {row}"))
        except TimeError as error:
            raise ValueError(str(error)) from None
    return pa.array(values, pa.int64())
