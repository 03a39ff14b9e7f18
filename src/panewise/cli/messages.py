"""Turns messages into events, and answers into messages: `decode` and `encode` of a job file.

A message is malformed if its text is not a JSON object, if an attribute does not have its type in the stream, or if
there is no text at all. No part of it becomes part of an event: a half-read event would be counted and have no values.
It becomes an event without any attribute, so without a time, and the stage that counts untimed events counts it and
leaves it out. How many of these were malformed is counted here, as an observed metric of each stream.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from panewise.cli.job import ANSWER_KEY, TIME_UNITS, EventSource, Sink
from panewise.engine.answers import FIXED_COLUMNS, FURTHER_COLUMNS

HEADERS = "headers"
"""The column of a message's headers; `headers.NAME` is one of them."""
MALFORMED = "panewise malformed"
"""The name of the observed metrics of malformed messages is this and the stream's name."""
MALFORMED_TEXT = "panewise_malformed"
"""The column with the text of a malformed message, where that is asked for."""
MALFORMED_EVENTS = "malformed_events"
"""The metric in them."""

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_END_OF_TIMES_US = 253_402_300_800_000_000
"""The year 10000. A later time means a wrong unit, and would close every window for good."""
_TO_MICROSECONDS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def decoded(
    loaded: DataFrame, schema: StructType, source: EventSource, malformed: str | Observation | None
) -> DataFrame:
    """Messages, one a row with its text in `value`, as events with the attributes of a schema.

    Malformed ones are counted as `malformed`. If that is None, they are not counted, and their text is a further column
    `MALFORMED_TEXT`, NULL for all others.
    """
    inside = StructType([_as_text(field) for field in schema if field.name not in source.attributes])
    unreadable = "unreadable"
    while unreadable in schema.names:
        unreadable += "_"
    read = F.from_json(
        F.col("value").cast("string"),
        StructType([*inside, StructField(unreadable, StringType())]),
        {"columnNameOfCorruptRecord": unreadable},
    )
    # Two steps, so that a message is parsed once for any number of attributes.
    parsed = loaded.withColumn("panewise_message", read)
    message = F.col("panewise_message")
    found = {
        field.name: _taken(field, source.attributes[field.name])
        if field.name in source.attributes
        else _typed(field, message[field.name], source.times)
        for field in schema
    }
    wrong = [raw.isNotNull() & typed.isNull() for raw, typed in found.values()]
    is_malformed = reduce(Column.__or__, [message.isNull(), message[unreadable].isNotNull(), *wrong])
    columns = [F.when(~is_malformed, typed).alias(name) for name, (_, typed) in found.items()]
    if malformed is None:
        text = F.coalesce(F.col("value").cast("string"), F.lit(""))
        return parsed.select(*columns, F.when(is_malformed, text).alias(MALFORMED_TEXT))
    return parsed.observe(malformed, F.count_if(is_malformed).alias(MALFORMED_EVENTS)).select(columns)


def is_header(column: str) -> bool:
    """Whether an attribute comes from a header, and not from a column of the source."""
    return column.startswith(f"{HEADERS}.")


def _taken(field: StructField, column: str) -> tuple[Column, Column]:
    """An attribute from outside the message's text, from a column or a header: as it is there, and in its type."""
    if is_header(column):
        header = column.removeprefix(f"{HEADERS}.")
        with_name = F.filter(F.col(HEADERS), lambda one: one["key"] == header)
        # If several headers have one name, the last one counts, as in Kafka's own clients.
        raw = F.try_element_at(F.transform(with_name, lambda one: one["value"]), F.lit(-1)).cast("string")
        return raw, raw.try_cast(field.dataType)
    raw = F.col(_quoted(column))
    # Keys and messages are bytes, which Spark casts only to text.
    return raw, (raw.cast("string") if column in ("key", "value") else raw).try_cast(field.dataType)


def encoded(answers: DataFrame, sink: Sink) -> DataFrame:
    """Answers as messages: `value` with an answer's JSON text, and `key` and `headers` if the sink has them."""
    message = [_json(answers.columns).alias("value")]
    if sink.key is not None:
        message.append(_json(key_columns(answers.columns, sink.key)).alias("key"))
    if sink.headers:
        headers = [
            F.struct(F.lit(name).alias("key"), F.col(_quoted(name)).cast("string").cast("binary").alias("value"))
            for name in sink.headers
        ]
        message.append(F.array(*headers).alias(HEADERS))
    return answers.select(message)


def key_columns(columns: list[str], key: str | tuple[str, ...]) -> list[str]:
    """The columns of the answers that make a message's key.

    >>> key_columns(["query", "window_start", "window_end", "user", "aggregate", "value", "exact"], "group")
    ['query', 'user', 'aggregate']
    """
    if not isinstance(key, str):
        return list(key)
    window = ("window_start", "window_end")
    not_of_groups = (FIXED_COLUMNS | set(FURTHER_COLUMNS)) - {"query", "aggregate"}
    return [name for name in columns if name not in not_of_groups or (key == ANSWER_KEY and name in window)]


def _as_text(field: StructField) -> StructField:
    """Times are read as text first: Spark's own reader takes any number as seconds, and large ones wrap around."""
    return StructField(field.name, StringType()) if isinstance(field.dataType, TimestampType) else field


def _typed(field: StructField, raw: Column, unit: str) -> tuple[Column, Column]:
    """An attribute of a message: as it was read, and in its type."""
    if not isinstance(field.dataType, TimestampType):
        return raw, raw
    us = (raw.try_cast("decimal(26,6)") * F.lit(TIME_UNITS[unit])).try_cast("bigint")
    time = F.when(raw.rlike(_NUMBER), F.timestamp_micros(us)).otherwise(raw.try_cast("timestamp"))
    return raw, F.when(F.unix_micros(time) < _END_OF_TIMES_US, time)


def _json(columns: list[str]) -> Column:
    return F.to_json(F.struct(*map(_quoted, columns)), _TO_MICROSECONDS)


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
