"""Training sets on Spark: labels and events meet by key, and each group is answered as in one process.

Queries with the same GROUP BY share one shuffle of labels and events, whatever the number of windows. Events are packed
by place before it (`packed_events.py`). Keys with many labels are cut by time (`training_places.py`). Windows over rows
need all events of their keys, and are not cut. Labels go from one GROUP BY to the next with their answers packed
(`packed_answers.py`), and the last one unpacks all.
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
from panewise.arrays import Ints
from panewise.engine.as_of.answers import answers_at
from panewise.engine.columns import arrow_type
from panewise.engine.content_order import content_order
from panewise.engine.overflows import Overflows
from panewise.engine.wide_columns import AggregateColumn
from panewise.errors import EventsError, LabelsError, NamesClashError, NotOnSparkError, SparkSetupError
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.spark.columns import named
from panewise.spark.packed_answers import is_word, pack_answers, unpack_answers
from panewise.spark.packed_events import EVENTS, PACKED_SCHEMA, PLACE, packs_events, unpack_events
from panewise.spark.pipeline import AnswerOptions, by_stream, events_of
from panewise.spark.projection import typed_column
from panewise.spark.stand_ins import no_total_order
from panewise.spark.table_frames import check_case
from panewise.spark.training_places import FRACTIONS, Places, bucket_count, slices_wanted, time_cuts
from panewise.spark.unpack import spark_type
from panewise.training.columns import answer_columns, chosen_queries, filled
from panewise.training.places import attributes_read, by_group, needed_from, together_by
from panewise.training.training_set import Edge, check_edge
from panewise.windows import RowWindow, TimeWindow, reports_by_substream
from panewise.windows.slots import spans_of

LABEL, TIME, BUCKET = "panewise_label", "panewise_time", "panewise_bucket"
STAGE, PACKED = "panewise_stage", "panewise_packed"


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

    Cost: one shuffle of labels and events for each different GROUP BY. Before that, a pass over the labels counts them
        by key, a second one finds the times of keys with many, and for windows that slide a pass over the events finds
        which of them closed a window. Answers that other queries read are computed first, once for each GROUP BY.
    """
    check_edge(edge)
    chosen = chosen_queries(workload, queries)
    declared = [workload.source_of(query.stream).name for query in chosen]
    for query in chosen:
        if isinstance(query.window, RowWindow) and not query.window.partition_by:
            raise no_total_order(query)
        if reports_by_substream(query.window):
            raise NotOnSparkError(
                f"query {query.name}: which window a label sees, the watermark of the whole stream tells; leave out "
                f"SLIDE for the last rows at each label, or use panewise.training_set"
            )
    columns = list(answer_columns(workload, chosen))
    clash = next((column.name for _, column in columns if column.name in labels.columns), None)
    if clash is not None:
        raise NamesClashError(
            f"the labels have a column {clash!r}, which is the name of an answer; rename or drop it, or give the "
            f"SELECT item another name with AS"
        )
    check_case(labels.sparkSession, "labels with answers", [*labels.columns, *(column.name for _, column in columns)])
    # Of queries that read answers, the events of the stream that these come from.
    needed = {query.name: replace(query, stream=source) for query, source in zip(chosen, declared, strict=True)}
    frames = by_stream(events, replace(workload, queries=needed, row_queries={}), every=False) if chosen else {}
    if labels.isStreaming or any(frame.isStreaming for frame in frames.values()):
        raise SparkSetupError("a training set is made of batch DataFrames; read labels and events with spark.read")
    placed: list[tuple[_Stage, _CountedLabels, Mapping[int, Ints]]] = []
    for name in dict.fromkeys(query.stream for query in chosen):
        stream, source = workload.streams[name], workload.source_of(name)
        frame = events_of(name, frames, workload, AnswerOptions.plain())
        declared_events = DeclaredEvents(source, frames[source.name])
        stream = replace(stream, watermark_us=workload.delay_us(name))
        stages = []
        for group in by_group(query for query in chosen if query.stream == name):
            names = {query.name for query in group}
            mine = [(query, column) for query, column in columns if query.name in names]
            stages.append(_Stage(stream, group, mine, edge, frame, declared_events))
        counted = _CountedLabels.of(labels, stages, time)
        cuts = counted.cuts(labels)
        placed += [(stage, counted, cuts.get(number, {})) for number, stage in enumerate(stages)]
    result, before = labels, list[Sequence[AggregateColumn]]()
    for stage, counted, some in placed:
        carried = Carried(labels.columns, tuple(before), is_last=len(before) == len(placed) - 1)
        result = stage.answered(result, carried, counted, some)
        before.append([column for _, column in stage.columns])
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


@dataclass(frozen=True)
class _CountedLabels:
    """The labels of each stage's buckets, counted before anything is shuffled."""

    stages: Sequence[_Stage]
    time: str | None
    partitions: int
    span: tuple[int, int] | None
    """The first and the last time of labels; None if there are none."""
    labels: Mapping[int, Mapping[int, int]]
    """For each stage, how many labels each of its buckets has."""

    @staticmethod
    def of(labels: DataFrame, stages: Sequence[_Stage], time: str | None) -> _CountedLabels:
        """Count in one pass over the labels."""
        partitions = int(labels.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
        rows = (
            _bucketed(labels, stages, time, partitions)
            .groupBy(STAGE, BUCKET)
            .agg(
                F.min(TIME).alias("first"),
                F.max(TIME).alias("last"),
                F.count("*").alias("count"),
                F.count_if(F.col(TIME).isNull()).alias("untimed"),
            )
            .collect()
        )
        untimed = sum(row["untimed"] for row in rows if row[STAGE] == 0)
        if untimed:
            name = time or stages[0].declared.stream.timestamp
            raise LabelsError(f"labels: {name!r} is NULL in {untimed} rows; a label needs a time: filter them out")
        span = (min(row["first"] for row in rows), max(row["last"] for row in rows)) if rows else None
        counts: dict[int, dict[int, int]] = {}
        for row in rows:
            counts.setdefault(row[STAGE], {})[row[BUCKET]] = row["count"]
        return _CountedLabels(stages, time, partitions, span, counts)

    def cuts(self, labels: DataFrame) -> dict[int, dict[int, Ints]]:
        """For each stage, the buckets that are cut by time, and where: a pass over the labels if there are any."""
        wanted = {
            number: slices_wanted(counts, self.partitions)
            for number, counts in self.labels.items()
            if self.stages[number].can_be_cut
        }
        hot = [(F.col(STAGE) == number) & F.col(BUCKET).isin(*some) for number, some in wanted.items() if some]
        if not hot:
            return {}
        quantiles = F.percentile_approx(TIME, FRACTIONS.tolist(), 10_000).alias("quantiles")
        bucketed = _bucketed(labels, self.stages, self.time, self.partitions).where(reduce(Column.__or__, hot))
        found: dict[int, dict[int, Ints]] = {}
        for row in bucketed.groupBy(STAGE, BUCKET).agg(quantiles).collect():
            number, bucket = row[STAGE], row[BUCKET]
            times = np.array(row["quantiles"], np.int64)
            cuts = time_cuts(times, wanted[number][bucket], self.stages[number].needed_from)
            found.setdefault(number, {})[bucket] = cuts
        return found


def _bucketed(labels: DataFrame, stages: Sequence[_Stage], time: str | None, partitions: int) -> DataFrame:
    """The time of each label, once for each stage, with the stage's number and its bucket."""
    places = [
        F.struct(F.lit(number).alias(STAGE), stage.bucket_of_label(labels, partitions).alias(BUCKET))
        for number, stage in enumerate(stages)
    ]
    timed = _timed(labels, stages[0].declared.stream, time).alias(TIME)
    return labels.select(timed, F.explode(F.array(*places)).alias(PLACE)).select(TIME, f"{PLACE}.*")


@dataclass(frozen=True)
class DeclaredEvents:
    """The events of the declared stream that the events of a stage come from: they are the same but in chains."""

    stream: Stream
    events: DataFrame


@dataclass(frozen=True)
class _Stage:
    """The queries of one GROUP BY."""

    stream: Stream
    queries: Sequence[Query]
    columns: Sequence[tuple[Query, AggregateColumn]]
    edge: Edge
    events: DataFrame
    declared: DeclaredEvents

    def answered(
        self, labels: DataFrame, carried: Carried, counted: _CountedLabels, cuts: Mapping[int, Ints]
    ) -> DataFrame:
        """The labels with the answers of these queries."""
        stream, partitions = self.stream, counted.partitions
        buckets = bucket_count(partitions, has_keys=bool(self._together))
        places = Places.of(partitions, buckets, cuts, self.needed_from)
        time = _timed(labels, self.declared.stream, counted.time)
        left = labels.select(
            F.struct(*(named(name) for name in carried.label_names)).alias(LABEL),
            *map(named, carried.names),
            time.alias(TIME),
            places.of_label(self.bucket_of_label(labels, partitions), time).alias(PLACE),
            *(column.alias(f"key_{name}") for name, column in self._keys(labels).items()),
        )
        stream = replace(stream, attributes={name: stream.attributes[name] for name in self._read})
        right = self._placed_events(places, partitions, counted.span)
        right = right.mapInArrow(packs_events(schema_of(stream)), PACKED_SCHEMA)
        label = T.StructType([labels.schema[name] for name in carried.label_names])
        fields = carried.fields([column for _, column in self.columns])
        schema = T.StructType([T.StructField(LABEL, label), *fields])
        answer = answer_group(stream, self.queries, self.columns, self.edge, self._closing, carried)
        grouped = left.groupBy(PLACE).cogroup(right.groupBy(PLACE))
        return grouped.applyInArrow(answer, schema).select(f"{LABEL}.*", *(named(field.name) for field in fields))

    @cached_property
    def can_be_cut(self) -> bool:
        """Whether labels see events by their times alone, and not by the number of rows."""
        return not any(isinstance(query.window, RowWindow) for query in self.queries)

    def needed_from(self, asked: Ints) -> Ints:
        """For times in order, the time of the first event that a label may see."""
        return needed_from(self.stream, self.queries, asked, self._closing)

    @cached_property
    def _together(self) -> list[str]:
        return together_by(self.stream, self.queries)

    @cached_property
    def _read(self) -> list[str]:
        return attributes_read(self.stream, self.queries)

    def _placed_events(self, places: Places, partitions: int, span: tuple[int, int] | None) -> DataFrame:
        """What queries read of the events that some label may see, at each of their places."""
        events, time = self.events, named(self.stream.timestamp)
        right = events.select(*(typed_column(events, self.stream, name).alias(name) for name in self._read))
        if span is not None:
            is_seen = time <= F.lit(span[1])
            if self.can_be_cut:
                is_seen &= time >= F.lit(int(self.needed_from(np.array([span[0] - 1]))[0]))
            # An event without a time stays, so that it is told.
            right = right.where(is_seen | time.isNull())
        bucket = self._bucket(partitions, [named(name) for name in self._together])
        return right.withColumn(PLACE, places.of_event(bucket, time))

    def _keys(self, labels: DataFrame) -> dict[str, Column]:
        """What the queries group by, as columns of the labels."""
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
        return keys

    def bucket_of_label(self, labels: DataFrame, partitions: int) -> Column:
        """The bucket of each label."""
        keys = self._keys(labels)
        return self._bucket(partitions, [keys[name] for name in self._together])

    def _bucket(self, partitions: int, keys: Sequence[Column]) -> Column:
        if not keys:
            return F.lit(0)
        # As text -0.0 would differ from 0.0; adding 0 makes them one.
        kinds = [self.stream.attributes[name] for name in self._together]
        plain = [key + F.lit(0.0) if kind is Type.DOUBLE else key for key, kind in zip(keys, kinds, strict=True)]
        buckets = bucket_count(partitions, has_keys=True)
        return F.pmod(F.xxhash64(*plain), F.lit(buckets).cast("bigint")).cast("int")

    @cached_property
    def _closing(self) -> Ints | None:
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
        events, stream = self.declared.events, self.declared.stream
        times = events.select(typed_column(events, stream, stream.timestamp).alias(TIME))
        found = []
        for range_us, slide_us, offset_us in sorted(spans):
            behind = F.col(TIME) - F.lit(range_us + offset_us + self.stream.watermark_us)
            # Integer division, rounded down.
            instance = (behind - F.pmod(behind, F.lit(slide_us).cast("bigint"))).alias("instance")
            found.append(times.groupBy(instance).agg(F.min(TIME).alias(TIME)).select(TIME))
        rows = reduce(DataFrame.union, found).distinct().collect()
        return np.sort(np.array([row[TIME] for row in rows if row[TIME] is not None], np.int64))


@dataclass(frozen=True)
class Carried:
    """What labels bring to a stage and take on: the answers of earlier stages, packed until the last one."""

    label_names: Sequence[str]
    earlier: Sequence[Sequence[AggregateColumn]]
    is_last: bool

    @property
    def names(self) -> list[str]:
        """The columns that labels bring beside their own."""
        return [field.name for number, some in enumerate(self.earlier) for field in _packed_fields(number, some)]

    def fields(self, mine: Sequence[AggregateColumn]) -> list[T.StructField]:
        """The columns beside the label when a stage has answered."""
        every = [*self.earlier, mine]
        if self.is_last:
            return [_field(column) for some in every for column in some]
        return [field for number, some in enumerate(every) for field in _packed_fields(number, some)]

    def with_answers(self, labels: pa.Table, mine: Mapping[AggregateColumn, pa.Array]) -> dict[str, pa.ChunkedArray]:
        """What stands in these columns."""
        found = {name: _taken_back(labels.column(name)) for name in self.names}
        words = [column for column in mine if is_word(column.kind)]
        if not self.is_last:
            if words:
                found[_packed_name(len(self.earlier))] = pack_answers([mine[column] for column in words])
            return found | {column.name: answers for column, answers in mine.items() if column not in words}
        for number, some in enumerate(self.earlier):
            words = [column for column in some if is_word(column.kind)]
            if words:
                columns = unpack_answers(found.pop(_packed_name(number)), [column.kind for column in words])
                found |= zip((column.name for column in words), columns, strict=True)
        return found | {column.name: answers for column, answers in mine.items()}


def _packed_fields(number: int, columns: Sequence[AggregateColumn]) -> list[T.StructField]:
    """One column for all answers of a stage that are words, and one for each other."""
    others = [_field(column) for column in columns if not is_word(column.kind)]
    return others if len(others) == len(columns) else [T.StructField(_packed_name(number), T.BinaryType()), *others]


def _packed_name(number: int) -> str:
    return f"{PACKED}_{number}"


def _field(column: AggregateColumn) -> T.StructField:
    return T.StructField(column.name, spark_type(column.kind))


def schema_of(stream: Stream) -> pa.Schema:
    """The columns of a stream's events."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in stream.attributes.items()])


def answer_group(
    stream: Stream,
    queries: Sequence[Query],
    columns: Sequence[tuple[Query, AggregateColumn]],
    edge: Edge,
    closing: Ints | None,
    carried: Carried,
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The function that `applyInArrow` applies to the labels and the events of a group."""
    schema = schema_of(stream)
    no_answers = {column: pa.array([], column.kind) for _, column in columns}

    def answer(labels: pa.Table, events: pa.Table) -> pa.Table:
        batch = unpack_events(events.column(EVENTS), schema)
        untimed = batch.column(stream.timestamp).null_count
        if untimed:
            raise EventsError(f"stream {stream.name}: {untimed} events have no time; filter those rows out")
        label = _taken_back(labels.column(LABEL))
        if not labels.num_rows:
            return pa.table({LABEL: label, **carried.with_answers(labels, no_answers)})
        batch = batch.take(content_order(stream, batch))
        times = np.asarray(labels.column(TIME)) - (1 if edge == "before" else 0)
        keys = {
            name: labels.column(f"key_{name}").combine_chunks().cast(schema.field(name).type)
            for name in queries[0].group_by
        }
        found = {one.query.name: one for one in answers_at(stream, queries, batch, times, keys, 1, closing)}
        for one in found.values():
            Overflows().add(one.query, one.overflows)
        answered = {column: filled(found[query.name], column) for query, column in columns}
        return pa.table({LABEL: label, **carried.with_answers(labels, answered)})

    return answer


def _taken_back(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of Spark as Spark takes it back: times come in the session's time zone, and go in UTC alone."""
    return column.cast(in_utc(column.type))


def in_utc(kind: pa.DataType) -> pa.DataType:
    """A type with all time zones in it replaced by UTC; the instants stay the same.

    >>> in_utc(pa.list_(pa.timestamp("us", tz="Europe/Berlin")))
    ListType(list<item: timestamp[us, tz=UTC]>)
    """
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, tz="UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = (field.with_type(in_utc(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(in_utc(kind.value_type)))
    return kind
