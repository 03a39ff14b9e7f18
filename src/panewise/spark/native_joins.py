"""Joins of a batch, by Spark itself: no Python worker is needed where no event can be late and nothing is kept.

A pair's times differ by less than the windows reach back. So events meet by their key and by an interval of time that
is as long as both windows together: the left side lies in one, the right side in two that its pairs may lie in. Spark's
join by equality then finds only pairs that are near each other, however many events a key has, and a key with many
events is split by time.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panewise.aggregates.types import Type
from panewise.engine.windowed.output import join_attributes, selected_types
from panewise.language.expressions import Attribute, QualifiedAttribute, bare_attributes
from panewise.language.model import Stream
from panewise.language.printer import label_of
from panewise.language.row_queries import JoinQuery, JoinSide
from panewise.planning.windowed import join_key_types
from panewise.spark.columns import named, to_column, to_condition
from panewise.spark.projection import project
from panewise.spark.tuple_bases import cell_column
from panewise.windows import TimeWindow
from panewise.windows.clock import END_OF_STREAM, FIRST_US, LAST_US

_LEFT, _RIGHT, _NEAR = "\0left time", "\0right time", "\0near"
"""Columns that no attribute can have the names of."""


def joined(
    query: JoinQuery, frames: Mapping[str, DataFrame], streams: Mapping[str, Stream], until_us: int = END_OF_STREAM
) -> DataFrame:
    """The rows of a join over batches of events, of those before a time."""
    types = join_attributes(query, streams)
    left_us, right_us = (_length_us(side) for side in (query.left, query.right))
    left = _side(query, query.left, query.left_keys, frames, streams, _LEFT, until_us)
    right = _side(query, query.right, query.right_keys, frames, streams, _RIGHT, until_us)
    # From `right_us` before an event of the left side to `left_us` after it: that touches two intervals at most.
    span_us = left_us + right_us
    first = _interval(F.col(_LEFT), span_us)
    left = left.withColumn(_NEAR, first)
    own = _interval(F.col(_RIGHT) + F.lit(right_us), span_us)
    right = right.withColumn(_NEAR, F.explode(F.array(own - F.lit(span_us), own)))
    by = [_NEAR, *(_key(place) for place in range(len(query.left_keys)))]
    renamed = {name: f"{name}\0" for name in by}
    right = right.withColumnsRenamed(renamed)
    equal = [named(name) == named(other) for name, other in renamed.items()]
    behind = F.col(_RIGHT) - F.col(_LEFT)
    pairs = left.join(right, [*equal, (behind < F.lit(left_us)) & (-behind < F.lit(right_us))])
    if query.where is not None:
        pairs = pairs.where(to_condition(query.where, types))
    shown = [F.timestamp_micros(F.greatest(F.col(_LEFT), F.col(_RIGHT))).alias("time")]
    kinds = selected_types(query, streams)
    for column in query.columns:
        label = label_of(column)
        value = to_column(column.expression, types)
        shown.append((F.timestamp_micros(value) if kinds[label] is Type.TIMESTAMP else value).alias(label))
    return pairs.select(*shown)


def _side(
    query: JoinQuery,
    side: JoinSide,
    keys: tuple[QualifiedAttribute, ...],
    frames: Mapping[str, DataFrame],
    streams: Mapping[str, Stream],
    time: str,
    until_us: int,
) -> DataFrame:
    """The events of a side that have a key: their time, their keys, and what columns and WHERE read."""
    read = [column.expression for column in query.columns] + ([] if query.where is None else [query.where])
    found = dict.fromkeys(attribute for expression in read for attribute in bare_attributes(expression))
    needed = [each for each in found if isinstance(each, QualifiedAttribute) and each.side == side.name]
    cells = [Attribute(each.attribute) for each in (*needed, *keys)]
    projected = project(frames[side.stream], streams[side.stream], None, cells=cells)
    in_time = F.col("time").between(F.lit(FIRST_US), F.lit(min(LAST_US, until_us - 1)))
    columns = [F.col("time").alias(time)]
    columns += [F.col(cell_column(place)).alias(each.name) for place, each in enumerate(needed)]
    for place, kind in enumerate(join_key_types(query, streams)):
        key = F.col(cell_column(len(needed) + place))
        # A BIGINT and a DOUBLE are compared as doubles.
        columns.append((key.cast("double") if kind is Type.DOUBLE else key).alias(_key(place)))
    chosen = projected.where(in_time).select(*columns)
    for place in range(len(keys)):
        # NULL equals nothing. `dropna` would drop NaN too, which equals NaN.
        chosen = chosen.where(F.col(_key(place)).isNotNull())
    return chosen


def _key(place: int) -> str:
    return f"\0key {place}"


def _interval(time: Column, span_us: int) -> Column:
    """Where the interval begins that a time lies in. Not its number: Spark divides as doubles, which round."""
    return time - F.pmod(time, F.lit(span_us))


def _length_us(side: JoinSide) -> int:
    assert isinstance(side.window, TimeWindow)
    return side.window.left_us
