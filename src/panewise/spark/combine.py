"""Combine on Spark: batches of projected events into packed partials, one row per (bucket, base). Stateless.

Queries over rows need events themselves, which are packed as rows, and row queries need tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import Ints
from panewise.engine.combine import Combiner
from panewise.engine.ingest import outside_span
from panewise.engine.projection import holds, project
from panewise.kernels.ordering import order_words
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression
from panewise.planning.trees import Base, StreamPlan
from panewise.spark.buckets import bucket_places, places_of
from panewise.spark.counts import COMBINED, COMBINED_COLUMNS, NO_TIME, TOO_FAR_AHEAD_US
from panewise.spark.gathering import gathered
from panewise.spark.job import Job
from panewise.spark.packed_job import PackedJob, batch_id
from panewise.spark.packing import pack
from panewise.spark.processor import COUNTED
from panewise.spark.projection import row_column
from panewise.spark.row_bases import RowBase
from panewise.spark.tuple_bases import HeadBase, OrderBase, TupleBase, cell_column

PACKED = f"bucket INT, base INT, partials BINARY, {COMBINED_COLUMNS}, newest_us BIGINT, newest TIMESTAMP"
"""A row of packed partials, or of counts. Spark's watermark follows from `newest`, the time of the newest event."""

_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("base", pa.int32()),
        ("partials", pa.binary()),
        *((name, pa.int64()) for name in COMBINED),
        ("newest_us", pa.int64()),
        ("newest", pa.timestamp("us", "UTC")),
    ]
)

ROWS_PER_COMBINE = 1 << 20
"""So many events are gathered before they are combined: the more, the fewer partials."""


def combine_partitions(
    packed: PackedJob, stream: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` applies to each partition of one stream's events.

    If queries come and go, events arrive whole and are projected here for the queries of the batch. Otherwise Spark
    has projected them.
    """

    def combine(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = packed.open() if packed.statements_in is None else packed.at(batch_id())
        combining = _Combining(job, stream, is_projected=packed.statements_in is None)
        for some in gathered(batches, lambda batch: batch.num_rows, ROWS_PER_COMBINE):
            yield combining.combined(some)

    return combine


class _Combining:
    """The combining of one stream's events for one job."""

    def __init__(self, job: Job, stream: str, *, is_projected: bool) -> None:
        self._job = job
        self._plans = job.plans_of(stream)
        self._row_bases = job.row_bases_of(stream)
        self._tuple_bases = job.tuple_bases_of(stream)
        self._cells = {cell: place for place, cell in enumerate(job.cells_of(stream))}
        self._row_attributes = job.row_attributes_of(stream)
        self._counted = COUNTED - list(job.workload.streams).index(stream)
        self._is_projected = is_projected

    def combined(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        """Rows of packed partials of some events, and before them rows with the newest time, the first with counts."""
        began = perf_counter_ns()
        batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        # An event without a usable time does not count as an event: neither windows nor the watermark see it.
        times = batch.column("time")
        values = np.asarray(times.fill_null(0))
        timed = np.asarray(times.is_valid()) & ~outside_span(values)
        ahead = int(np.count_nonzero(values == TOO_FAR_AHEAD_US))
        untimed = batch.num_rows - int(np.count_nonzero(timed)) - ahead
        if untimed or ahead:
            batch = batch.filter(pa.array(timed))
        # Every bucket gets a row from every batch, to tell what it holds, and if the checkpoint fits the job. If
        # queries come and go, it knows the watermark by itself; if there are lookups, a bucket that has not written a
        # batch is told from one that had nothing to write.
        rows = [(bucket, self._counted, b"") for bucket in self._job.bucket_ids]
        for plan, bases in self._plans if batch.num_rows else ():
            rows += self._packed_partials(plan, bases, batch)
        for base in self._row_bases if batch.num_rows else ():
            rows += self._packed_rows(base, batch)
        for tuples in self._tuple_bases if batch.num_rows else ():
            rows += self._packed_tuples(tuples, batch)
        newest_us = pc.max(batch.column("time")).as_py() if batch.num_rows else NO_TIME
        first = np.arange(len(rows)) == 0
        counts = {
            "untimed_events": untimed,
            "future_events": ahead,
            "combine_ns": perf_counter_ns() - began,
            "lifted": batch.num_rows * sum(len(bases) for _, bases in self._plans),
        }
        newest = pa.array([newest_us] * len(rows), pa.int64())
        return pa.RecordBatch.from_arrays(
            [
                pa.array([bucket for bucket, _, _ in rows], pa.int32()),
                pa.array([base for _, base, _ in rows], pa.int32()),
                pa.array([content for _, _, content in rows], pa.binary()),
                *(pa.array(np.where(first, counts[name], 0)) for name in COMBINED),
                newest,
                newest.cast(_SCHEMA.field("newest").type),
            ],
            schema=_SCHEMA,
        )

    def _packed_partials(
        self, plan: StreamPlan, bases: list[Base], batch: pa.RecordBatch
    ) -> Iterator[tuple[int, int, bytes]]:
        """The partials of some bases of a plan, split by bucket."""
        times = np.asarray(batch.column("time"))
        combiner = Combiner(plan, batch if self._is_projected else project(plan, batch))
        for base in bases:
            partials = combiner.partials(base, times // base.granularity)
            places = bucket_places(plan, base, partials, len(self._job.bucket_ids))
            yield from self._by_bucket(base.number, partials, places)

    def _packed_rows(self, base: RowBase, batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes]]:
        """The rows of a row base, split by bucket."""
        rows = pa.RecordBatch.from_arrays(
            [self._attribute(base, field.name, batch).cast(field.type) for field in base.schema], schema=base.schema
        )
        # The rows of a whole stream are spread by time.
        spread_by = base.together_by or (base.stream.timestamp,)
        keys = [(rows.column(name), base.stream.attributes[name]) for name in spread_by]
        places = places_of(base.number, keys, rows.num_rows, len(self._job.bucket_ids))
        yield from self._by_bucket(base.number, rows, places)

    def _packed_tuples(self, base: TupleBase, batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes]]:
        """The tuples of a base, split by bucket."""
        if base.where is not None:
            batch = batch.filter(pa.array(holds(self._cell(base, base.where, batch))))
        cells = [self._cell(base, cell, batch) for cell in base.cells]
        tuples = base.tuples(np.asarray(batch.column("time")), cells)
        places = base.places(tuples, len(self._job.bucket_ids))
        yield from self._by_bucket(base.number, tuples, places)
        if isinstance(base, OrderBase) or (self._is_sketched(base) and tuples.num_rows):
            counts = pack(base.counts(tuples))
            yield from ((bucket, base.number, counts) for bucket in self._job.bucket_ids)

    def _is_sketched(self, base: TupleBase) -> TypeGuard[HeadBase]:
        """Whether all buckets are told how keys are spread. A lookup client has them all in one place."""
        return isinstance(base, HeadBase) and base.has_sketch and base.number in self._job.tuples.bases

    def _cell(self, base: TupleBase, cell: Expression, batch: pa.RecordBatch) -> pa.Array:
        """What is computed of each event: by Spark already, or here if queries come and go."""
        if self._is_projected:
            return batch.column(cell_column(self._cells[cell]))
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns[base.stream.timestamp] = batch.column("time")
        return evaluate(cell, columns, base.stream.attributes, length=batch.num_rows)

    def _attribute(self, base: RowBase, name: str, batch: pa.RecordBatch) -> pa.Array:
        """The column of an attribute that a row base needs."""
        if name == base.stream.timestamp:
            return batch.column("time")
        return batch.column(row_column(self._row_attributes, name) if self._is_projected else name)

    def _by_bucket(self, base: int, content: pa.RecordBatch, places: Ints) -> Iterator[tuple[int, int, bytes]]:
        """The rows of a batch packed for each bucket, given the bucket's place of each."""
        ids = self._job.bucket_ids
        order = order_words(places, len(ids))
        content = content.take(pa.array(order))
        bounds = np.searchsorted(places[order], np.arange(len(ids) + 1))
        for bucket, low, high in zip(ids, bounds[:-1], bounds[1:]):
            if high > low:
                yield bucket, base, pack(content.slice(low, high - low))
