"""Wide tables on Spark: a DataFrame for each family or query, all from one computation of packed answers.

A batch DataFrame of packed answers is persisted, so that each table is unpacked from the same rows. A streaming query
of Spark has one sink, so `Tables.write_stream` splits each batch of packed answers into several: the events are read
once, and the state is kept once. A batch that is repeated after a crash has the same rows and the same number, and a
sink that knows batches by the id of the query and their number takes each of them once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import reduce
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from panewise.errors import ArgumentError, NamesClashError, NotOnSparkError
from panewise.language.row_queries import JoinQuery
from panewise.language.workload import Workload
from panewise.named_tables import NamedTables
from panewise.planning.cost import DEFAULT_TOLERANCE
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.planning.trees import DEFAULT_RATE
from panewise.spark.job import Job
from panewise.spark.layouts import AnyBy, check_by, table_names
from panewise.spark.native_joins import joined
from panewise.spark.pipeline import AnswerOptions, by_stream, packed_levels, unpacked
from panewise.spark.projection import select
from panewise.spark.quotas import Quotas
from panewise.spark.row_merges import AnyMerge
from panewise.spark.tuple_bases import PassBase
from panewise.windows.clock import END_OF_STREAM, to_microseconds

BATCH_COLUMN = "panewise_batch"
"""The column by which `FileSink` partitions its folder: a streaming query's id and the number of a batch."""


@dataclass(frozen=True)
class TableBatch:
    """The rows of one table that a batch of a stream brings."""

    table: str
    """The name of the table."""
    rows: DataFrame
    number: int
    """The number of the batch. A batch that is repeated has the same one, and the same rows."""
    query_id: str
    """The id of the streaming query, which its checkpoint keeps."""


TableWriter = Callable[[TableBatch], object]
"""Writes the rows that a batch brings to a table."""


@dataclass(frozen=True)
class FileSink:
    """Writes a table's batches into a folder, each exactly once.

    A batch goes into the folder `panewise_batch=ID-NUMBER` in the path and replaces what is there, so a batch that is
    repeated is there once. Whoever reads the path sees a further column `panewise_batch`, and may see a batch whose
    query has not committed it yet, but no half of one where renaming a folder is atomic. The id is that of the
    checkpoint: after a start with a new checkpoint, nothing is replaced.
    """

    path: str | PathLike[str]
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batch: TableBatch) -> None:
        """Write a batch."""
        rows = batch.rows.withColumn(BATCH_COLUMN, F.lit(f"{batch.query_id}-{batch.number:09}"))
        # Of all partitions, only the one of this batch is replaced, by renaming a folder that is complete.
        once = {**self.options, "partitionOverwriteMode": "dynamic"}
        writer = rows.write.format(self.format).options(**once).mode("overwrite").partitionBy(BATCH_COLUMN)
        writer.save(fspath(self.path))


@dataclass(frozen=True)
class DeltaSink:
    """Appends a table's batches to a Delta table, each exactly once: Delta notes the query and the batch's number."""

    path: str | PathLike[str]
    options: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batch: TableBatch) -> None:
        """Write a batch."""
        once = {"txnAppId": f"panewise {batch.query_id} {batch.table}", "txnVersion": str(batch.number)}
        batch.rows.write.format("delta").options(**{**self.options, **once}).mode("append").save(fspath(self.path))


def tables(
    events: DataFrame | Mapping[str, DataFrame],
    workload: Workload,
    *,
    by: AnyBy = "family",
    rate: float = DEFAULT_RATE,
    groups: Mapping[str, int] | None = None,
    method: str = WEAVE_SHARE,
    tolerance: float = DEFAULT_TOLERANCE,
    changed_only: bool = False,
    control: DataFrame | None = None,
    folder: str | PathLike[str] | None = None,
    buckets: int | None = None,
    quotas: Quotas | None = None,
    until: int | datetime | date | str | None = None,
    most_rows: int | None = None,
) -> Tables:
    """Answer a workload over its streams, with a wide DataFrame for each family or query.

    The tables have the columns and types that `Answers.families` and `Answers.tables` of the engine have. With
    `changed_only`, or if a stream says ON LATE CORRECT, the column `ended` marks groups that no longer have an answer.
    Each row query has a table too, as `rows` gives it.

    Args:
        events: As for `answers`.
        workload: As for `answers`.
        by: "family" for a table per family: queries with the same stream, GROUP BY and slide, side by side. "query" for
            a table per query. "long" for one table `long` of all answers, as `answers` has it; it is for jobs that
            have row queries beside aggregates.
        rate: As for `answers`.
        groups: As for `answers`.
        method: As for `answers`.
        tolerance: As for `answers`.
        changed_only: As for `answers`.
        control: As for `answers`; only with `by="query"`. The queries of the workload have a table each. Answers of
            queries that come later, or come back changed, are in the table `long`, as `answers` has them. If the
            workload has row queries, others may come too: their rows are in `later_rows`, as for `rows`.
        folder: As for `answers`.
        buckets: As for `answers`.
        quotas: As for `answers`.
        until: For a batch: the time up to which events are complete. Windows that end later are left out.
        most_rows: As for `rows`.

    Returns:
        The DataFrames by name. Those of a batch share one computation, which is persisted when the first of them is
        used. Those of a stream are written with `Tables.write_stream`, by one streaming query.

    Raises:
        PanewiseError: As for `answers`; or no query slides, names of columns differ in case only, or `by` does not fit.

    Cost: as `answers`, without a row for each answer.
    """
    check_by(by, is_live=control is not None)
    if not table_names(workload, by, is_live=control is not None):
        raise ArgumentError("no query of the workload has SLIDE, so there is no table; look answers up, or add SLIDE")
    until_us = END_OF_STREAM if until is None else to_microseconds(until, "`until`", or_end=True)
    planned = AnswerOptions(rate, groups, method, tolerance, changed_only, control, folder, buckets, quotas)
    asked = replace(planned, until_us=until_us, rows=True, most_rows=most_rows)
    return _answered(events, workload, asked, by, until)


def rows(
    events: DataFrame | Mapping[str, DataFrame],
    workload: Workload,
    *,
    control: DataFrame | None = None,
    folder: str | PathLike[str] | None = None,
    buckets: int | None = None,
    until: int | datetime | date | str | None = None,
    most_rows: int | None = None,
) -> Tables:
    """Answer the row queries of a workload, with a DataFrame for each: `rows(events, workload)["top_symbols"]`.

    The DataFrames have the columns and types that `Engine.rows` gives, in no order. Spark knows no order of arrival, so
    in ORDER BY, rows of equal key and time go by the values of the attributes that the query reads.

    Args:
        events: As for `answers`.
        workload: The streams and row queries; queries of aggregates are left to `answers` and `tables`.
        control: As for `answers`. The rows of queries that come later, or come back changed, are in the table
            `later_rows`, with the columns `query` and `row`: a JSON object each.
        folder: As for `answers`.
        buckets: As for `answers`.
        until: As for `tables`.
        most_rows: The most rows that a window of an ORDER BY without LIMIT may have. Such a query needs it, as all rows
            of a window are brought together; a window with more is an error.

    Returns:
        The DataFrames by name, as those of `tables`: of a batch from one computation, of a stream to be written with
        `Tables.write_stream` by one streaming query.

    Raises:
        PanewiseError: As for `answers`; or there is no row query, a window of two streams counts rows, a query
            holds its rows INTO a window, or `most_rows` is missing.

    Cost: one pass over the events for all queries, and a shuffle of one tuple per slot, value and task for HISTOGRAM,
    TOP_K and INTERSECT, of k events per slot and task for ORDER BY ... LIMIT k, and of every event that a join or a
    selection reads.
    """
    if not workload.row_queries:
        raise ArgumentError("no query of the workload answers with rows; use answers or tables for aggregates")
    if most_rows is not None and most_rows < 1:
        raise ArgumentError(f"most_rows must be at least 1, got {most_rows}")
    by: AnyBy = "family" if control is None else "query"
    if control is not None:
        workload = Workload(workload.streams, row_queries=workload.row_queries)
    until_us = END_OF_STREAM if until is None else to_microseconds(until, "`until`", or_end=True)
    planned = AnswerOptions(
        DEFAULT_RATE, None, WEAVE_SHARE, DEFAULT_TOLERANCE, changed_only=False, control=control, folder=folder,
        buckets=buckets, quotas=None, until_us=until_us, rows=True, aggregates=False, most_rows=most_rows,
    )  # fmt: skip
    return _answered(events, workload, planned, by, until)


def _answered(
    events: DataFrame | Mapping[str, DataFrame], workload: Workload, asked: AnswerOptions, by: AnyBy, until: object
) -> Tables:
    """The tables of a workload, those of all levels of a chain together."""
    levels = packed_levels(events, workload, asked, None if by == "long" else by)
    is_streaming = levels[0][0].isStreaming
    if until is not None and is_streaming:
        raise ArgumentError("until is for a batch; a stream answers windows when its watermark closes them")
    by_name: dict[str, Job] = {}
    for packed, job in levels:
        for table, schema in job.schemas.items():
            if table in by_name:
                raise NotOnSparkError(
                    "queries that read answers have no place in one long table beside those that they read; take "
                    'by="query" or by="family"'
                )
            check_case(packed.sparkSession, f"table {table}", schema.names)
            by_name[table] = job
    selected = {} if is_streaming else _native(events, levels[0][1], asked.until_us)
    return Tables(
        reduce(DataFrame.union, [packed for packed, _ in levels]),
        {table: job.schemas[table] for table, job in by_name.items()},
        {table: merge for _, job in levels for table, merge in job.merges.items()},
        selected,
    )


def _native(events: DataFrame | Mapping[str, DataFrame], job: Job, until_us: int) -> dict[str, DataFrame]:
    """The selections and joins of a batch from events, which Spark makes by itself."""
    queries, streams = job.native_queries, job.workload.streams
    frames = by_stream(events, job.workload, every=False) if queries else {}
    bases = [base for base in job.tuples.bases.values() if isinstance(base, PassBase) and base.query.name in queries]
    found = {base.query.name: select(frames[base.stream.name], base) for base in bases}
    joins = [query for query in queries.values() if isinstance(query, JoinQuery)]
    return found | {query.name: joined(query, frames, streams, until_us) for query in joins}


def check_case(spark: SparkSession, table: str, names: Sequence[str]) -> None:
    """Refuse names that are one name to Spark."""
    if (spark.conf.get("spark.sql.caseSensitive") or "false").lower() == "true":
        return
    counts = Counter(name.lower() for name in names)
    clash = [name for name in names if counts[name.lower()] > 1]
    if clash:
        raise NamesClashError(
            f"{table}: to Spark the columns {' and '.join(clash)} have the same name; choose another one after AS, or "
            f"set spark.sql.caseSensitive to true"
        )


class Tables(NamedTables[DataFrame]):
    """Wide DataFrames by name, from one computation.

    Of a batch, every DataFrame reads the same packed answers. They are persisted, in memory and on disk, from the first
    use of a DataFrame on, and until you call `unpersist` or leave `with`.

    Of a stream, `write_stream` writes all tables by one streaming query. A DataFrame that you write by itself is a
    query with a state of its own that reads the events again: that is the best way if you need one table only, because
    every sink of Spark then keeps its own promises.
    """

    def __init__(
        self,
        packed: DataFrame,
        schemas: Mapping[str, pa.Schema],
        merges: Mapping[str, AnyMerge] | None = None,
        selected: Mapping[str, DataFrame] | None = None,
    ) -> None:
        super().__init__("table", schemas)
        self._schemas = dict(schemas)
        self._merges = dict(merges or {})
        self._selected = dict(selected or {})
        self._is_streaming = packed.isStreaming
        self._packed = packed
        self._is_persisted = False

    def __getitem__(self, name: str) -> DataFrame:
        """A table; of a stream, for a query of its own."""
        self._check(name)
        if name in self._selected:
            return self._selected[name]
        if not self._is_streaming and not self._is_persisted:
            # Not before a table needs it: what Spark makes by itself does without.
            self._packed.persist()
            self._is_persisted = True
        return _unpacked(self._packed, name, self._schemas[name], self._merges.get(name))

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self.unpersist()

    def unpersist(self) -> None:
        """Free the packed answers of a batch. A DataFrame that is used later computes them again."""
        if self._is_persisted:
            self._packed.unpersist()

    def write_stream(self, write: TableWriter | Mapping[str, TableWriter | None]) -> DataStreamWriter:
        """Write the tables of a stream, all by one streaming query.

        A batch is committed when all its tables are written. If one fails, the batch is repeated, with the same rows
        and the same number. So a table is written exactly once by a `FileSink` or a `DeltaSink`, or by a function that
        knows what it wrote by `TableBatch.query_id` and `TableBatch.number`, and at least once by any other.

        Args:
            write: A function that writes a `TableBatch`, or one by name for each table, such as a `FileSink` or a
                `DeltaSink`; None leaves a table out. Functions are called only for tables that a batch has rows of.

        Returns:
            Spark's writer, to set the checkpoint, the trigger and the name, and to start the query.

        Raises:
            PanewiseError: The events are a batch, or a table is unknown or missing.
        """
        if not self._is_streaming:
            raise ArgumentError("the events are a batch, and write_stream is for streams; write each DataFrame itself")
        writers = self._writers(write)
        schemas, merges = self._schemas, self._merges

        def split(batch: DataFrame, number: int) -> None:
            # Persisted, as each use of it would run the stream's state once more.
            kept = batch.where("content IS NOT NULL").select("table_name", "query_id", "content", "part").persist()
            try:
                found: dict[str, str] = dict(kept.select("table_name", "query_id").collect())
                for table, writer in writers.items():
                    if table in found and writer is not None:
                        rows = _unpacked(kept, table, schemas[table], merges.get(table))
                        writer(TableBatch(table, rows, number, found[table]))
            finally:
                kept.unpersist()

        return self._packed.writeStream.foreachBatch(split).outputMode("append")

    def _writers(self, write: TableWriter | Mapping[str, TableWriter | None]) -> dict[str, TableWriter | None]:
        if not isinstance(write, Mapping):
            _check_writer(write, "write")
            return dict.fromkeys(self._schemas, write)
        for name, writer in write.items():
            self._check(name)
            if writer is not None:
                _check_writer(writer, f"what writes table {name}")
        missing = [name for name in self._schemas if name not in write]
        if missing:
            raise ArgumentError(f"nothing writes table {missing[0]!r}; give a function for it, or None to leave it out")
        return {name: write[name] for name in self._schemas}


def _check_writer(writer: Any, what: str) -> None:
    if not callable(writer):
        raise ArgumentError(f"{what} is a function of a TableBatch, a FileSink or a DeltaSink, not {writer!r}")


def _unpacked(packed: DataFrame, table: str, schema: pa.Schema, merge: AnyMerge | None) -> DataFrame:
    return unpacked(packed.where(F.col("table_name") == table), schema, merge)
