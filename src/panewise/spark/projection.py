"""Projection: turns events into what `combine` reads, by native Spark. The twin of `panewise.engine.projection`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panewise.aggregates.types import Type
from panewise.errors import EventsError, NamesClashError
from panewise.language.expressions import Expression, Pair, attributes_of
from panewise.language.model import UNBOUNDED_US, Stream
from panewise.language.typecheck import type_of
from panewise.planning.trees import BITS_PER_WORD, StreamPlan
from panewise.spark.columns import SPARK_TYPES, named, to_column, to_condition
from panewise.spark.counts import TOO_FAR_AHEAD_US
from panewise.spark.tuple_bases import PassBase, cell_column
from panewise.windows.clock import FIRST_US, LAST_US, UNITS_US

DEFAULT_FUTURE_BOUND_US = 3_600_000_000
"""FUTURE BOUND of a stream that declares none and is read live: more than clocks differ, and far less than a time in
the wrong unit or a placeholder such as the year 9999."""

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FITTING: dict[Type, tuple[type[T.DataType], ...]] = {
    Type.BOOLEAN: (T.BooleanType,),
    Type.BIGINT: (*_INTEGERS, T.BooleanType),
    Type.DOUBLE: (*_INTEGERS, T.FloatType, T.DoubleType, T.DecimalType),
    Type.STRING: (T.StringType, T.VarcharType, T.CharType),
    Type.TIMESTAMP: (T.TimestampType, T.TimestampNTZType, T.DateType),
}


def project(
    events: DataFrame,
    stream: Stream,
    plan: StreamPlan | None,
    rows: Sequence[str] = (),
    cells: Sequence[Expression] = (),
) -> DataFrame:
    """`time`, the keys, `shard_0`, ..., `input_0`, ...: everything of an event that some tree needs, and no more.

    For queries over rows it has the attributes that they read, named by `row_column`, and for row queries their cells,
    named by `cell_column`. A stream with only such queries has no plan.
    """
    time = "panewise_time"
    while time in stream.attributes:
        time += "_"
    read = [*rows, *(name for cell in cells for name in attributes_of(cell))]
    timed = _typed(events, stream, plan, read, time)
    columns = [F.col(time).alias("time"), *(named(name).alias(row_column(rows, name)) for name in rows)]
    columns += [_cell(cell, stream).alias(cell_column(place)) for place, cell in enumerate(cells)]
    if plan is None:
        return timed.select(*columns)
    columns += [named(key).alias(plan.key_column(key)) for key in plan.keys]
    columns += [_shard_word(plan, word).alias(f"shard_{word}") for word in range(plan.shard_words)]
    for place, column in enumerate(plan.inputs):
        value = to_column(column.expression, stream.attributes)
        if not isinstance(column.expression, Pair):
            value = value.cast(SPARK_TYPES[column.type])
        columns.append(value.alias(f"input_{place}"))
    return timed.select(*columns)


def select(events: DataFrame, base: PassBase) -> DataFrame:
    """The rows of a selection over a batch of events, where none can be late: no Python worker is needed."""
    stream, query = base.stream, base.query
    wheres = [] if query.where is None else [query.where]
    cells = [*base.cells, *wheres]
    projected = project(events, stream, None, cells=cells)
    passing = F.col("time").between(F.lit(FIRST_US), F.lit(LAST_US))
    if wheres:
        passing &= F.col(cell_column(len(base.cells)))
    shown = [F.timestamp_micros(F.col("time")).alias("time")]
    for place, (name, kind) in enumerate(base.columns.items()):
        cell = F.col(cell_column(place))
        shown.append((F.timestamp_micros(cell) if kind is Type.TIMESTAMP else cell).alias(name))
    return projected.where(passing).select(*shown)


def _cell(cell: Expression, stream: Stream) -> Column:
    kind = type_of(cell, stream.attributes)
    return to_condition(cell, stream.attributes) if kind is None else to_column(cell, stream.attributes)


def row_column(rows: Sequence[str], name: str) -> str:
    """The column name of an attribute that queries over rows read; `rows` are all such attributes."""
    return f"row_{rows.index(name)}"


def whole(events: DataFrame, stream: Stream) -> DataFrame:
    """`time` and every attribute of a stream, in its types, for queries that are not known yet."""
    if "time" in stream.attributes and stream.timestamp != "time":
        raise NamesClashError(
            f"stream {stream.name}: with a control stream, an attribute other than the timestamp cannot be named time"
        )
    columns = [typed_column(events, stream, name).alias(name) for name in stream.attributes if name != "time"]
    return events.select(_bounded_time(events, stream).alias("time"), *columns)


def _typed(
    events: DataFrame, stream: Stream, plan: StreamPlan | None, rows: Sequence[str], time_name: str
) -> DataFrame:
    """The attributes that queries read, in the stream's types, and the event time in microseconds as `time_name`.

    The time of an event that is too far ahead of the clock is `TOO_FAR_AHEAD_US`.
    """
    names = dict.fromkeys(rows)
    if plan is not None:
        expressions: list[Expression] = [*plan.predicates, *(column.expression for column in plan.inputs)]
        names |= dict.fromkeys([*plan.keys, *(name for one in expressions for name in attributes_of(one))])
    columns = [typed_column(events, stream, name).alias(name) for name in names]
    return events.select(*columns, _bounded_time(events, stream).alias(time_name))


def typed_column(events: DataFrame, stream: Stream, name: str) -> Column:
    """An attribute of a stream in its type; a TIMESTAMP as microseconds."""
    kind = stream.attributes[name]
    found = next((field for field in events.schema.fields if field.name == name), None)
    if found is None:
        near = get_close_matches(name, events.columns, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; its columns are {', '.join(events.columns)}"
        raise EventsError(f"stream {stream.name}: the DataFrame has no column {name!r}{hint}")
    unit = stream.units.get(name)
    if unit is not None and isinstance(found.dataType, _INTEGERS):
        return _micros(name, unit)
    if not isinstance(found.dataType, _FITTING[kind]):
        cure = "change CREATE STREAM"
        if kind is Type.TIMESTAMP and isinstance(found.dataType, _INTEGERS):
            cure = "declare the unit of its integers in CREATE STREAM, as in TIMESTAMP(ms)"
        raise EventsError(
            f"stream {stream.name}: column {name!r} is {found.dataType.simpleString()} and the stream declares {kind}; "
            f"cast it first, or {cure}"
        )
    column = named(name)
    if kind is not Type.TIMESTAMP:
        return column.cast(SPARK_TYPES[kind])
    if isinstance(found.dataType, T.TimestampType):
        return F.unix_micros(column)
    # A date or a timestamp without time zone is UTC, whatever the session's time zone is.
    epoch = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    return F.timestamp_diff("MICROSECOND", epoch, column.cast("timestamp_ntz"))


def _micros(name: str, unit: str) -> Column:
    """Integers of a unit as microseconds. One that does not fit is NULL, and its event has no time."""
    column = named(name).cast("bigint")
    if unit != "ns":
        return F.try_multiply(column, F.lit(UNITS_US[unit]).cast("bigint"))
    # An event belongs to the microsecond that it lies in; DIV rounds towards the epoch.
    quoted = name.replace("`", "``")
    whole = F.expr(f"CAST(`{quoted}` AS BIGINT) DIV 1000")
    return F.when((column < 0) & (column % 1000 != 0), whole - 1).otherwise(whole)


def _bounded_time(events: DataFrame, stream: Stream) -> Column:
    """The event time in microseconds; `TOO_FAR_AHEAD_US` for a time that is further ahead of the clock than allowed."""
    time_us = event_time_us(events, stream)
    bound_us = future_bound_us(stream, is_streaming=events.isStreaming)
    if bound_us == UNBOUNDED_US:
        return time_us
    return F.when(is_too_far_ahead(time_us, bound_us), F.lit(TOO_FAR_AHEAD_US)).otherwise(time_us)


def event_time_us(events: DataFrame, stream: Stream) -> Column:
    """The event time in microseconds, as the events have it."""
    return typed_column(events, stream, stream.timestamp)


def is_too_far_ahead(time_us: Column, bound_us: int) -> Column:
    """Whether a time is further ahead of the clock than a bound; beyond the year 9999 it is no time at all.

    The clock is that of the driver when the batch was planned: Spark keeps it in the checkpoint with the batch's
    offsets, so a batch that is repeated decides the same.
    """
    return (time_us > F.unix_micros(F.current_timestamp()) + F.lit(bound_us)) & (time_us <= F.lit(LAST_US))


def future_bound_us(stream: Stream, *, is_streaming: bool) -> int:
    """The bound in force: the declared one, or for a stream that is read live the default."""
    if stream.future_bound_us is not None:
        return stream.future_bound_us
    return DEFAULT_FUTURE_BOUND_US if is_streaming else UNBOUNDED_US


def _shard_word(plan: StreamPlan, word: int) -> Column:
    """The bits of the predicates that an event satisfies."""
    predicates = plan.predicates[word * BITS_PER_WORD : (word + 1) * BITS_PER_WORD]
    bits = [
        F.when(to_condition(predicate, plan.stream.attributes), F.lit(1 << bit).cast("bigint")).otherwise(
            F.lit(0).cast("bigint")
        )
        for bit, predicate in enumerate(predicates)
    ]
    return reduce(lambda a, b: a.bitwiseOR(b), bits)
