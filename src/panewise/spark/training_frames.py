"""Training sets on Spark: labels and events meet by key, and each group is answered as in one process.

Queries with the same GROUP BY share one shuffle of labels and events, whatever the number of windows. A group is a
share of the keys and a slice of time: an event goes to every slice whose labels may see it, so a key with many events
is answered in several places. Windows over rows, and those that slide, need all events of their keys: one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panewise.aggregates.types import Type
from panewise.engine.as_of.answers import answers_at
from panewise.engine.columns import Ints, arrow_type
from panewise.engine.content_order import content_order
from panewise.engine.event_log import one_batch
from panewise.engine.overflows import Overflows
from panewise.engine.wide_columns import AggregateColumn
from panewise.errors import EventsError, LabelsError, NamesClashError, SparkSetupError
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.spark.columns import named
from panewise.spark.pipeline import by_stream
from panewise.spark.projection import typed_column
from panewise.spark.stand_ins import no_total_order
from panewise.training.columns import answer_columns, chosen_queries, filled
from panewise.training.places import attributes_read, by_group, longest_us, together_by
from panewise.training.training_set import Edge, check_edge
from panewise.windows import RowWindow, TimeWindow
from panewise.windows.slots import spans_of

_TYPES = {pa.int64(): T.LongType(), pa.float64(): T.DoubleType(), pa.bool_(): T.BooleanType()}
GROUPS_PER_PARTITION = 4
LABEL, TIME, BUCKET, SLICE = "panewise_label", "panewise_time", "panewise_bucket", "panewise_slice"


def training_set(
    labels: DataFrame,
    events: DataFrame | Mapping[str, DataFrame],
    workload: Workload,
    *,
    time: str | None = None,
    edge: Edge = "before",
    queries: Iterable[str] | None = None,
) -> DataFrame:
    """Give every label the answers of all queries as they were at its time.

    Args:
        labels: A batch DataFrame with a time, and a column for each attribute that a query groups by.
        events: A batch DataFrame whose columns are the stream's attributes, or one by name for each of several streams.
        workload: The streams and queries.
        time: The column of the labels with their times. The default is the name of the stream's own.
        edge: "before": `[RANGE r]` covers `[t - r, t)`; or "at": it covers `(t - r, t]`, as a lookup at t does.
        queries: The names of the queries to answer. The default is all of them.

    Returns:
        The labels with a column `query__item` for each aggregate of SELECT, in no order. Answers are those of
        `panewise.training_set`; rows of equal time are ordered by their values, as Spark knows no other order.

    Raises:
        PanewiseError: As for `panewise.training_set`; also for `[ROWS n]` without PARTITION BY.

    Cost: one shuffle of labels and events for each different GROUP BY. Before that, a pass over the labels finds their
        first and last time, and for windows that slide a pass over the events finds which of them closed a window.
    """
    check_edge(edge)
    chosen = chosen_queries(workload, queries)
    for query in chosen:
        if isinstance(query.window, RowWindow) and not query.window.partition_by:
            raise no_total_order(query)
    columns = list(answer_columns(workload, chosen))
    clash = next((column.name for _, column in columns if column.name in labels.columns), None)
    if clash is not None:
        raise NamesClashError(
            f"the labels have a column {clash!r}, which is the name of an answer; rename or drop it, or give the "
            f"SELECT item another name with AS"
        )
    needed = replace(workload, queries={query.name: query for query in chosen}, row_queries={})
    frames = by_stream(events, needed, every=False) if chosen else {}
    if labels.isStreaming or any(frame.isStreaming for frame in frames.values()):
        raise SparkSetupError("a training set is made of batch DataFrames; read labels and events with spark.read")
    result = labels
    for name, frame in frames.items():
        stream = workload.streams[name]
        several = [query for query in chosen if query.stream == name]
        timed = _timed(labels, stream, time)
        span = _span(timed, labels, time or stream.timestamp)
        for group in by_group(several):
            names = {query.name for query in group}
            mine = [(query, column) for query, column in columns if query.name in names]
            result = _Stage(stream, group, mine, edge, span).answered(result, frame, time)
    return result.select(*(named(name) for name in [*labels.columns, *(column.name for _, column in columns)]))


def _timed(labels: DataFrame, stream: Stream, time: str | None) -> Column:
    """The times of labels in microseconds."""
    wanted = stream.timestamp if time is None else time
    if wanted not in labels.columns:
        near = get_close_matches(wanted, labels.columns, 1) or labels.columns[:1] or ["time"]
        raise LabelsError(
            f"the labels have no column {wanted!r} with their times; name the column that has them, such as "
            f"training_set(..., time={near[0]!r}); the columns are {', '.join(labels.columns)}"
        )
    return _label_column(labels, replace(stream, attributes={wanted: Type.TIMESTAMP}), wanted, "it is their time")


def _label_column(labels: DataFrame, stream: Stream, name: str, why: str) -> Column:
    try:
        return typed_column(labels, stream, name)
    except EventsError as error:
        fault = str(error).removeprefix(f"stream {stream.name}: ")
        raise LabelsError(f"labels: {fault}; {why}") from None


def _span(time: Column, labels: DataFrame, name: str) -> tuple[int, int] | None:
    """The first and the last time of labels; None if there are none."""
    row = (
        labels.select(time.alias(TIME))
        .agg(F.min(TIME).alias("first"), F.max(TIME).alias("last"), F.count_if(F.col(TIME).isNull()).alias("untimed"))
        .collect()[0]
    )
    if row["untimed"]:
        raise LabelsError(f"labels: {name!r} is NULL in {row['untimed']} rows; a label needs a time: filter them out")
    return None if row["first"] is None else (row["first"], row["last"])


@dataclass(frozen=True)
class _Stage:
    """The queries of one GROUP BY."""

    stream: Stream
    queries: Sequence[Query]
    columns: Sequence[tuple[Query, AggregateColumn]]
    edge: Edge
    span: tuple[int, int] | None

    def answered(self, labels: DataFrame, events: DataFrame, time: str | None) -> DataFrame:
        """The labels with the answers of these queries."""
        stream, partitions = self.stream, int(labels.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
        slices, length_us = self._slices(partitions)
        buckets = max(2, GROUPS_PER_PARTITION * partitions // slices)
        left = self._with_keys(labels, _timed(labels, stream, time), buckets)
        left = left.withColumn(SLICE, self._slice(F.col(TIME), slices, length_us))
        kept = attributes_read(stream, self.queries)
        right = events.select(*(typed_column(events, stream, name).alias(name) for name in kept))
        right = right.withColumn(BUCKET, self._bucket(buckets, [named(name) for name in self._together]))
        right = self._in_slices(right, slices, length_us)
        schema = T.StructType(
            [
                T.StructField(LABEL, T.StructType(labels.schema.fields)),
                *(T.StructField(column.name, _TYPES.get(column.kind, T.TimestampType())) for _, column in self.columns),
            ]
        )
        stream = replace(stream, attributes={name: stream.attributes[name] for name in kept})
        answer = answer_group(stream, self.queries, self.columns, self.edge, self._closing(events))
        grouped = left.groupBy(BUCKET, SLICE).cogroup(right.groupBy(BUCKET, SLICE))
        answers = [named(column.name) for _, column in self.columns]
        return grouped.applyInArrow(answer, schema).select(f"{LABEL}.*", *answers)

    @cached_property
    def _together(self) -> list[str]:
        return together_by(self.stream, self.queries)

    @cached_property
    def _longest_us(self) -> int | None:
        return longest_us(self.queries)

    def _slices(self, partitions: int) -> tuple[int, int]:
        """How many slices of time there are, and how long they are: at least twice as long as the longest window."""
        if self._longest_us is None or self.span is None:
            return 1, 1
        whole_us = self.span[1] - self.span[0] + 1
        slices = max(1, min(2 * partitions, whole_us // (2 * self._longest_us)))
        return slices, -(-whole_us // slices)

    def _slice(self, time: Column, slices: int, length_us: int) -> Column:
        if slices == 1 or self.span is None:
            return F.lit(0).cast("bigint")
        place = F.floor((time - F.lit(self.span[0])) / F.lit(length_us)).cast("bigint")
        return F.least(F.greatest(place, F.lit(0).cast("bigint")), F.lit(slices - 1).cast("bigint"))

    def _in_slices(self, events: DataFrame, slices: int, length_us: int) -> DataFrame:
        """Events in each slice whose labels may see them."""
        if slices == 1 or self._longest_us is None or self.span is None:
            return events.withColumn(SLICE, F.lit(0).cast("bigint"))
        time = named(self.stream.timestamp)
        seen = events.where(time.between(self.span[0] - self._longest_us, self.span[1]))
        first = self._slice(time, slices, length_us)
        last = self._slice(time + F.lit(self._longest_us), slices, length_us)
        return seen.withColumn(SLICE, F.explode(F.sequence(first, last)))

    def _with_keys(self, labels: DataFrame, time: Column, buckets: int) -> DataFrame:
        """Labels as one column, with their time, their keys as `key_...`, and the bucket that they go to."""
        keys = {}
        for query in self.queries:
            for name in query.group_by:
                if name not in labels.columns:
                    near = get_close_matches(name, labels.columns, 1)
                    hint = f"rename your column {near[0]!r}" if near else f"add a column {name!r} to the labels"
                    raise LabelsError(
                        f"query {query.name} groups by {name!r}, which the labels do not have; {hint}, or leave the "
                        f"query out with training_set(..., queries=[...])"
                    )
                keys[name] = _label_column(labels, self.stream, name, f"query {query.name} groups by it")
        whole = F.struct(*(named(name) for name in labels.columns)).alias(LABEL)
        return labels.select(
            whole,
            time.alias(TIME),
            self._bucket(buckets, [keys[name] for name in self._together]).alias(BUCKET),
            *(column.alias(f"key_{name}") for name, column in keys.items()),
        )

    def _bucket(self, buckets: int, keys: Sequence[Column]) -> Column:
        if not keys:
            return F.lit(0).cast("bigint")
        # As text -0.0 would differ from 0.0; adding 0 makes them one.
        kinds = [self.stream.attributes[name] for name in self._together]
        plain = [key + F.lit(0.0) if kind is Type.DOUBLE else key for key, kind in zip(keys, kinds, strict=True)]
        return F.pmod(F.xxhash64(*plain), F.lit(buckets).cast("bigint"))

    def _closing(self, events: DataFrame) -> Ints | None:
        """The times of events that closed a window of some sliding query, in order; None if no query slides.

        The watermark moves with every event, but only these change which window is the newest that has closed.
        """
        spans = {
            span
            for query in self.queries
            if isinstance(query.window, TimeWindow) and query.window.is_sliding
            for span in spans_of(query.window)
        }
        if not spans:
            return None
        times = events.select(typed_column(events, self.stream, self.stream.timestamp).alias(TIME))
        found = []
        for range_us, slide_us, offset_us in sorted(spans):
            behind = F.col(TIME) - F.lit(range_us + offset_us + self.stream.watermark_us)
            # Integer division, rounded down.
            instance = (behind - F.pmod(behind, F.lit(slide_us).cast("bigint"))).alias("instance")
            found.append(times.groupBy(instance).agg(F.min(TIME).alias(TIME)).select(TIME))
        rows = reduce(DataFrame.union, found).distinct().collect()
        return np.sort(np.array([row[TIME] for row in rows if row[TIME] is not None], np.int64))


def answer_group(
    stream: Stream,
    queries: Sequence[Query],
    columns: Sequence[tuple[Query, AggregateColumn]],
    edge: Edge,
    closing: Ints | None,
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The function that `applyInArrow` applies to the labels and the events of a group."""
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in stream.attributes.items()])

    def answer(labels: pa.Table, events: pa.Table) -> pa.Table:
        batch = one_batch(events.select(schema.names).cast(schema))
        untimed = batch.column(stream.timestamp).null_count
        if untimed:
            raise EventsError(f"stream {stream.name}: {untimed} events have no time; filter those rows out")
        batch = batch.take(content_order(stream, batch))
        times = np.asarray(labels.column(TIME)) - (1 if edge == "before" else 0)
        keys = {
            name: labels.column(f"key_{name}").combine_chunks().cast(schema.field(name).type)
            for name in queries[0].group_by
        }
        found = {one.query.name: one for one in answers_at(stream, queries, batch, times, keys, 1, closing)}
        for one in found.values():
            Overflows().add(one.query, one.overflows)
        answered = {column.name: filled(found[query.name], column) for query, column in columns}
        return pa.table({LABEL: labels.column(LABEL), **answered})

    return answer
