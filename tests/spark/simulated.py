"""Spark's streaming contract in one process: the real combine step and processor, over a state store of dictionaries.

It does what Spark promises: state is read as the last committed batch left it, a batch whose task failed is repeated
from that state, timers go off when the watermark has passed them, buckets move between workers. Random programs of
these are run here by the hundred; the same on Spark itself is in the other files of this folder.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import Row
from tests.spark.streaming import Event, public_table

from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.language.evaluate import evaluate
from panewise.language.model import Stream
from panewise.language.workload import Workload
from panewise.planning.cost import DEFAULT_TOLERANCE
from panewise.spark import combine, packed_job, processor
from panewise.spark.buckets import bucket_ids
from panewise.spark.counts import COMBINED, COUNTS, NO_TIME, Sizes
from panewise.spark.job import Job
from panewise.spark.layouts import LONG, By
from panewise.spark.packing import unpack
from panewise.spark.pipeline import answer_bucket, pack_job
from panewise.spark.processor import CONTROL, BucketProcessor
from panewise.spark.projection import row_column
from panewise.spark.quotas import Quotas
from panewise.spark.row_merges import merge_partitions
from panewise.spark.slot_log import write_job
from panewise.spark.tuple_bases import cell_column

State = dict[str, Any]
Packed = tuple[str, int, bytes]
"""The table of packed rows, their part, and the rows."""


class Worker:
    """A Python worker process: what survives in it from batch to batch."""

    def __init__(self) -> None:
        self.cache: Any = copy.copy(processor._CACHE)
        self.cache.clear()


class SimulatedSpark:
    """One streaming query. Everything that its checkpoint holds is in `committed` and `batch`."""

    def __init__(
        self,
        workload: Workload,
        folder: Path,
        *,
        live: bool = False,
        changed_only: bool = False,
        lookups: bool = False,
        quotas: Quotas | None = None,
        wide_by: By | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
        most_rows: int | None = None,
        buckets: int = 3,
        workers: int = 2,
    ) -> None:
        self.workload = workload
        self.folder = folder
        self._live = live
        self._changed_only = changed_only
        self._lookups = lookups
        self.quotas = quotas
        self._wide_by = wide_by
        self._tolerance = tolerance
        self._most_rows = most_rows
        self._ids = bucket_ids(2, buckets)
        self._workers = [Worker() for _ in range(workers)]
        self.committed: dict[int, State] = {}
        self.batch = 0
        self.newest: dict[str, int] = {}
        self._newest_of_spark: dict[str, int] = {}
        self.answers: list[pa.RecordBatch] = []
        """Those of the long table."""
        self.brought: dict[str, pa.Table] = {}
        """What the last batch brought to each table."""
        self.counts = dict.fromkeys(COUNTS, 0)
        self.sizes: dict[int, Sizes] = {}
        """What each bucket told last."""
        self.start()

    def start(self) -> None:
        """Start the query, or start it again from its checkpoint: with new processes."""
        job = Job.of(
            self.workload,
            self._ids,
            is_live=self._live,
            changed_only=self._changed_only,
            quotas=self.quotas,
            wide_by=self._wide_by,
            tolerance=self._tolerance,
            most_rows=self._most_rows,
        )
        if self._lookups:
            write_job(self.folder, job)
        packed_job._LIVE.clear()
        self.packed, self._combining = pack_job(job, str(self.folder) if self._live else None)
        self._processor = BucketProcessor(self.packed, f"run {self.batch}", str(self.folder) if self._lookups else None)
        self._workers = [Worker() for _ in self._workers]
        self.schema = job.answers_schema
        self.schemas, self.merges = job.schemas, job.merges

    @property
    def watermark_ms(self) -> int:
        """The watermark of the next batch."""
        return self._watermark_ms(self.newest)

    @property
    def watermark_of_spark_us(self) -> int | None:
        """The watermark that Spark hands to the next batch; None before there is one."""
        return self._watermark_ms(self._newest_of_spark) * 1000 or None

    def _watermark_ms(self, newest_us: dict[str, int]) -> int:
        if len(newest_us) < len(self.workload.streams):
            return 0
        return min(
            max(0, (newest - self.workload.streams[name].watermark_us) // 1000) for name, newest in newest_us.items()
        )

    def run_as_batch_job(self, events: dict[str, Sequence[Event]]) -> None:
        """Run the workload as a batch job over all events, each bucket as Spark's `applyInArrow` would call for it."""
        job = Job.of(
            self.workload,
            self._ids,
            is_batch=True,
            changed_only=self._changed_only,
            wide_by=self._wide_by,
            most_rows=self._most_rows,
        )
        self.schemas, self.merges = job.schemas, job.merges
        write_job(self.folder, job)
        self.packed, self._combining = pack_job(job, None)
        rows = list(self._rows(events))
        answer = answer_bucket(self.packed, str(self.folder))
        found: list[Packed] = []
        for bucket in self._ids:
            mine = [row.asDict() for row in rows if row.bucket == bucket]
            if mine:
                found += [
                    (out["table_name"], out["part"], out["content"])
                    for batch in answer(iter([pa.RecordBatch.from_pylist(mine)]))
                    for out in batch.to_pylist()
                    if out["content"] is not None
                ]
        self._take(found)

    def run_batch(
        self,
        events: dict[str, Sequence[Event]],
        statements: Sequence[str] = (),
        *,
        attempts: int = 1,
        shift: int = 0,
        is_skipped: bool = False,
    ) -> pa.Table:
        """Run a batch; all attempts but the last are thrown away. `shift` moves buckets to other workers.

        A batch that `is_skipped` was written by the sink and not committed when Spark died: Spark does not see its
        times, so that its watermark stands still until the batch after the next.
        """
        for attempt in range(attempts):
            state, answers, counts = self._attempt(events, statements, shift + attempt)
        self.committed = state
        self._take(answers)
        for name, count in counts.items():
            self.counts[name] += count
        for name, rows in events.items():
            times = [row[self.workload.streams[name].timestamp] for row in rows]
            times = [time for time in times if time is not None]
            if times:
                self.newest[name] = max([*times, self.newest.get(name, NO_TIME)])
        if is_skipped:
            self.start()
        else:
            self._newest_of_spark = dict(self.newest)
        self.batch += 1
        return self.brought.get(LONG, self.schema.empty_table())

    def _take(self, answers: list[Packed]) -> None:
        """Take what a batch brings."""
        self.brought = {
            name: pa.Table.from_batches([rows.cast(schema) for rows in self._rows_of(name, answers)], schema)
            for name, schema in self.schemas.items()
        }
        self.answers += self.brought[LONG].to_batches() if LONG in self.brought else []
        assert {table for table, _, _ in answers} <= self.schemas.keys()

    def _rows_of(self, table: str, answers: list[Packed]) -> list[pa.RecordBatch]:
        """The rows of a table, those of all buckets merged where they must be."""
        mine = [(part, content) for name, part, content in answers if name == table]
        if table not in self.merges:
            return [unpack(content) for _, content in mine]
        arrays = [pa.array([part for part, _ in mine], pa.int32()), pa.array([some for _, some in mine], pa.binary())]
        packed = pa.RecordBatch.from_arrays(arrays, ["part", "content"])
        return list(merge_partitions(self.merges[table])([packed]))

    def table(self) -> pa.Table:
        """All answers so far."""
        return pa.Table.from_batches([batch.cast(self.schema) for batch in self.answers], self.schema)

    def _attempt(
        self, events: dict[str, Sequence[Event]], statements: Sequence[str], shift: int
    ) -> tuple[dict[int, State], list[Packed], dict[str, int]]:
        state = copy.deepcopy(self.committed)
        answers: list[Packed] = []
        counts = dict.fromkeys(COUNTS, 0)
        with (
            mock.patch.object(combine, "batch_id", return_value=self.batch),
            mock.patch.object(processor, "batch_id", return_value=self.batch),
        ):
            rows = list(self._rows(events)) + list(self._control(statements))
            for place, bucket in enumerate(self._ids):
                mine = [row for row in rows if row.bucket == bucket]
                worker = self._workers[(place + shift) % len(self._workers)]
                with mock.patch.object(processor, "_CACHE", worker.cache):
                    for out in self._call(bucket, mine, state):
                        if out.content is not None:
                            answers.append((out.table_name, out.part, out.content))
                        if out.sizes is not None:
                            self.sizes[out.bucket] = Sizes.of(out.sizes)
                        for name in COUNTS:
                            counts[name] += out[name]
        return state, answers, counts

    def _call(self, bucket: int, rows: list[Row], state: dict[int, State]) -> Iterator[Row]:
        watermark_ms = self._watermark_ms(self._newest_of_spark)
        timers = _Timers(watermark_ms)
        if rows:
            store = state.setdefault(bucket, {"log": {}, "progress": None, "timers": set()})
            self._processor.init(_Handle(store))
            yield from self._processor.handleInputRows((bucket,), iter(rows), timers)
        if bucket in state:
            store = state[bucket]
            for expiry in sorted(time for time in store["timers"] if time <= watermark_ms):
                if expiry in store["timers"]:
                    store["timers"].discard(expiry)
                    self._processor.init(_Handle(store))
                    yield from self._processor.handleExpiredTimer((bucket,), timers, None)

    def _rows(self, events: dict[str, Sequence[Event]]) -> Iterator[Row]:
        """What the combine step makes of each stream's events, in two partitions."""
        for name, rows in events.items():
            stream = self.workload.streams[name]
            function = combine.combine_partitions(self._combining, name)
            for share in (rows[::2], rows[1::2]):
                if share:
                    for batch in function([self._projected(stream, share)]):
                        for row in batch.drop_columns(["newest"]).to_pylist():
                            yield Row(**row)

    def _projected(self, stream: Stream, rows: Sequence[Event]) -> pa.RecordBatch:
        """Events as the native projection hands them to the combine step."""
        timed = [row for row in rows if row[stream.timestamp] is not None]
        batch = to_batch(stream, public_table(stream, timed))
        times = batch.column(stream.timestamp)
        if self._live:
            return batch.append_column("time", times)
        job = self.packed.open()
        columns = {"time": times}
        for plan, _ in job.plans_of(stream.name):
            projected = project(plan, batch)
            columns |= {name: projected.column(name) for name in projected.schema.names}
        attributes = job.row_attributes_of(stream.name)
        columns |= {row_column(attributes, name): batch.column(name) for name in attributes}
        values = {name: batch.column(name) for name in stream.attributes}
        for place, cell in enumerate(job.cells_of(stream.name)):
            columns[cell_column(place)] = evaluate(cell, values, stream.attributes, length=batch.num_rows)
        return pa.RecordBatch.from_pydict(columns)

    def _control(self, statements: Sequence[str]) -> Iterator[Row]:
        for place, text in enumerate(statements):
            content = json.dumps({"statement": text, "position": f"{place:03}"}).encode()
            for bucket in self._ids:
                yield Row(bucket=bucket, base=CONTROL, partials=content, newest_us=0, **dict.fromkeys(COMBINED, 0))


class _Timers:
    def __init__(self, watermark_ms: int) -> None:
        self._watermark_ms = watermark_ms

    def getCurrentWatermarkInMs(self) -> int:
        return self._watermark_ms


class _Handle:
    """The state of one bucket, as a processor's handle."""

    def __init__(self, store: State) -> None:
        self._store = store

    def getMapState(self, name: str, key: object, value: object) -> _Map:
        return _Map(self._store["log"])

    def getValueState(self, name: str, schema: object) -> _Value:
        return _Value(self._store)

    def registerTimer(self, expiry: int) -> None:
        self._store["timers"].add(expiry)

    def deleteTimer(self, expiry: int) -> None:
        self._store["timers"].discard(expiry)


class _Map:
    def __init__(self, content: dict[Any, Any]) -> None:
        self._content = content

    def keys(self) -> Iterator[Any]:
        return iter(list(self._content))

    def getValue(self, key: Any) -> Any:
        return self._content.get(tuple(key))

    def updateValue(self, key: Any, value: Any) -> None:
        self._content[tuple(key)] = value

    def removeKey(self, key: Any) -> None:
        del self._content[tuple(key)]


class _Value:
    def __init__(self, store: State) -> None:
        self._store = store

    def get(self) -> Any:
        return self._store["progress"]

    def update(self, value: Any) -> None:
        self._store["progress"] = tuple(value)
