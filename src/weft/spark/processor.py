"""The stateful processor: one call per bucket and batch.

Durable state: a log of packed partials by sequence number, and one row of progress with a version that is new after
each write. The bucket in the worker's memory is a cache of the log: it is used when its version is the one in the state
store; where it has only fallen behind, because Spark handed the bucket to another worker for a while, it catches up
from the log; otherwise it is rebuilt. So a task may move, fail or be repeated anywhere.

Every bucket also gets the statements of the control stream. The first writes them to the statement log, and from the
next batch on every worker goes by them. Where there is a control stream, each bucket keeps the newest time of every
stream and has the watermark from these: Spark's own may stand still for a batch after a crash, and a statement that
comes just then would mean something else.

Rows that queries over PARTITION BY ... ROWS need pass through to the row log: no state is kept of them.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from weft.errors import WeftError
from weft.spark import local_entries
from weft.spark.counts import COMBINED, COUNTS, output_rows
from weft.spark.packed_job import PackedJob, batch_id

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.spark.bucket import Arrived, Bucket
    from weft.spark.job import Job
    from weft.spark.packing import Part

NEVER = -(2**63)

CONTROL = -1
"""In place of a base's number: the row is a statement of the control stream."""

COUNTED = -2
"""In place of a base's number: the row has the counts of the first stream; -3 is the second stream, and so on."""

AT_ONCE_MS = 1
"""A timer that goes off in the next batch, once there is a watermark at all."""


class Progress(NamedTuple):
    """The row of progress in the state store.

    `newest` is the newest event of each stream, in a job with a control stream: see `Newest`.
    """

    version: str
    identity: str
    next_entry: int
    closed_us: int
    timer_ms: int
    newest: str


# Types and not text: Spark would ask the JVM to parse a text in every task.
_PROGRESS = (
    StructType()
    .add("version", StringType())
    .add("identity", StringType())
    .add("next_entry", LongType())
    .add("closed_us", LongType())
    .add("timer_ms", LongType())
    .add("newest", StringType())
)
_ENTRY_KEY = StructType().add("number", LongType()).add("token", StringType())
_ENTRY = StructType().add("parts", BinaryType())


class EntryKey(NamedTuple):
    """What names an entry of the log: its number, and a token that no other attempt at the same batch writes."""

    number: int
    token: str


@dataclass
class LogEntry:
    """What is known of an entry of the log: its size, and for each base when its newest slot begins."""

    bytes: int
    newest_us: dict[int, int]


@dataclass(frozen=True)
class Newest:
    """The newest event of each stream: up to a batch, and before it. A bucket may be called twice in a batch."""

    batch: int = -1
    before_us: dict[str, int] = field(default_factory=dict)
    up_to_us: dict[str, int] = field(default_factory=dict)

    def in_batch(self, batch: int, arrived_us: Mapping[str, int]) -> Newest:
        """The same once a batch has brought events."""
        before_us = self.before_us if batch == self.batch else self.up_to_us
        up_to_us = dict(self.up_to_us)
        for name, time_us in arrived_us.items():
            up_to_us[name] = max(up_to_us.get(name, NEVER), time_us)
        return Newest(batch, before_us, up_to_us)

    @staticmethod
    def of(text: str) -> Newest:
        """From the state."""
        return Newest(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class CachedBucket:
    """A bucket in memory, the version of the state that it equals, and the entries of the log."""

    bucket: Bucket
    version: str = ""
    entries: dict[EntryKey, LogEntry] = field(default_factory=dict)

    def append(self, key: EntryKey, content: bytes, parts: list[Part]) -> None:
        """Take in an entry of the log."""
        self.bucket.append(parts)
        self.entries[key] = LogEntry(len(content), self.bucket.newest_us(parts))

    def leads_to(self, log: set[EntryKey], closed_us: int) -> bool:
        """Whether the state store's log can be reached by appending: nothing is here that was never written there."""
        here_us = NEVER if self.bucket.closed_us is None else self.bucket.closed_us
        if here_us > closed_us:
            return False
        gone = (self.entries[key] for key in self.entries.keys() - log)
        return all(self.bucket.is_expired(entry.newest_us, closed_us) for entry in gone)


@dataclass
class Arrivals:
    """What a batch brings to one bucket."""

    parts: list[tuple[int, bytes]] = field(default_factory=list)
    statements: list[tuple[str, str]] = field(default_factory=list)
    newest_us: dict[int, int] = field(default_factory=dict)
    """By the place of a stream, its newest event."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

    @staticmethod
    def of(rows: Iterable[Row]) -> Arrivals:
        """The rows of a bucket sorted by what they carry."""
        found = Arrivals()
        for row in rows:
            if row.base == CONTROL:
                statement = json.loads(bytes(row.partials))
                found.statements.append((statement.get("position", ""), statement.get("statement") or ""))
                continue
            if row.base > CONTROL:
                found.parts.append((row.base, bytes(row.partials)))
                continue
            place = COUNTED - row.base
            found.newest_us[place] = max(found.newest_us.get(place, NEVER), row.newest_us)
            for name in COMBINED:
                found.counts[name] += row[name]
        return found


_CACHE: OrderedDict[tuple[str, int], CachedBucket] = OrderedDict()
"""The buckets of this worker process, by run and bucket id, the least recently used first."""

MAX_CACHED = 128
"""Buckets that a worker keeps. Those that Spark moved elsewhere, or of a query that ended, are pushed out by others."""


class BucketProcessor(StatefulProcessor):
    """Keeps the partials of each bucket and answers its windows as the watermark closes them."""

    def __init__(self, packed: PackedJob, run: str, folder: str | None = None) -> None:
        self._packed = packed
        self._run = run
        self._folder = folder

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._log = handle.getMapState("log", _ENTRY_KEY, _ENTRY)
        self._progress = handle.getValueState("progress", _PROGRESS)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterable[Row],
        timerValues: TimerValues,
    ) -> Iterator[Row]:
        """Take in a batch's partials for one bucket, and answer what the watermark has closed."""
        yield from self._step(key[0], Arrivals.of(rows), timerValues)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        """Answer what the watermark has closed in a bucket that got no event."""
        yield from self._step(key[0], Arrivals(), timerValues)

    def close(self) -> None:
        """Nothing to close: the cache is meant to stay."""

    def _step(self, bucket_id: int, arrivals: Arrivals, timers: TimerValues) -> Iterator[Row]:
        # Loaded here and not above: Spark opens the state of every new query in a process that gets no rows.
        from weft.spark.packing import Part, pack, pack_parts
        from weft.spark.row_bases import arrived_rows

        batch = batch_id()
        job = self._packed.at(batch)
        counts = arrivals.counts
        progress = self._read_progress()
        cached = self._bucket(bucket_id, progress, job, counts)
        bucket = cached.bucket
        work = bucket.work
        streams = list(job.workload.streams)
        arrived_us = {streams[place]: time_us for place, time_us in arrivals.newest_us.items()}
        newest = Newest.of(progress.newest).in_batch(batch, arrived_us) if job.is_live else Newest()
        # Before the first event Spark's watermark is 0: nothing is late yet, and nothing closes.
        of_spark_us = timers.getCurrentWatermarkInMs() * 1000 or None
        watermark_us = job.watermark_us(newest.before_us) if job.is_live else of_spark_us
        began = perf_counter_ns()
        parts = [Part.of(*part) for part in arrivals.parts]
        arrived = bucket.arrived((part for part in parts if part.base in job.bases), watermark_us)
        rows, late_rows = arrived_rows(job, parts, watermark_us)
        counts["late_events"], counts["corrected_events"] = arrived.late_events + late_rows, arrived.corrected_events
        next_entry = progress.next_entry
        content = pack_parts(arrived.kept)
        if arrived.kept:
            key = EntryKey(next_entry, uuid4().hex)
            self._log.updateValue(key, (content,))
            local_entries.put(key.token, content)
            cached.append(key, content, arrived.kept)
            bucket.correct(arrived.correcting)
            next_entry += 1
        counts["feed_ns"] = perf_counter_ns() - began
        began = perf_counter_ns()
        batches = [] if watermark_us is None else list(bucket.close(watermark_us))
        self._forget(cached)
        counts["close_ns"] = perf_counter_ns() - began
        # Statements that came with this batch hold in the next one, and may close windows earlier than those of now.
        end_us = 0 if arrivals.statements else bucket.next_end_us()
        timer_ms = self._set_timer(end_us, progress.timer_ms)
        closed_us = NEVER if bucket.closed_us is None else bucket.closed_us
        if arrivals.statements and bucket_id == job.bucket_ids[0]:
            self._take_statements(job, batch, arrivals, newest.up_to_us, watermark_us)
        cached.version = uuid4().hex
        self._progress.update(
            Progress(cached.version, self._packed.identity, next_entry, closed_us, timer_ms, str(newest))
        )
        self._keep(bucket_id, cached)
        if self._folder is not None:
            self._publish(job, bucket_id, batch, content, arrived, rows, watermark_us, bucket.closed_us)
        began = perf_counter_ns()
        packed = [(pack(answers), answers.num_rows) for answers in batches]
        counts["pack_ns"] = perf_counter_ns() - began
        counts["fed"], counts["folded"] = (after - before for after, before in zip(bucket.work, work))
        counts["log_bytes"] = sum(entry.bytes for entry in cached.entries.values())
        counts["live_rows"] = bucket.live_rows
        yield from (Row(**row) for row in output_rows(packed, counts))

    def _read_progress(self) -> Progress:
        stored = self._progress.get()
        if stored is None:
            return Progress("", self._packed.identity, 0, NEVER, NEVER, str(Newest()))
        progress = Progress(*stored)
        if progress.identity != self._packed.identity:
            from weft.spark.identity import difference

            raise WeftError(difference(progress.identity, self._packed.identity))
        return progress

    def _bucket(self, bucket_id: int, progress: Progress, job: Job, counts: dict[str, int]) -> CachedBucket:
        """The bucket as the state store has it: from memory, brought up to date where it has fallen behind."""
        from weft.spark.bucket import Bucket
        from weft.spark.packing import unpack_parts

        cached = _CACHE.pop((self._run, bucket_id), None)
        if cached is not None and cached.version == progress.version:
            counts["cache_hits"] += 1
            if not cached.bucket.has_job(job):
                keys = sorted(cached.entries)
                cached.bucket.adopt(job, lambda: (unpack_parts(self._entry(key)) for key in keys))
        else:
            log = {EntryKey(*key) for key in self._log.keys()} if progress.version else set()  # noqa: SIM118 - no dict
            if cached is None or not (cached.bucket.has_job(job) and cached.leads_to(log, progress.closed_us)):
                cached = CachedBucket(Bucket(job))
                counts["rebuilds"] += 1
            else:
                counts["catch_ups"] += 1
            for key in sorted(log - cached.entries.keys()):
                content = self._entry(key)
                cached.append(key, content, unpack_parts(content))
            cached.entries = {key: cached.entries[key] for key in log}
            cached.bucket.resume(None if progress.closed_us == NEVER else progress.closed_us)
        return cached

    def _keep(self, bucket_id: int, cached: CachedBucket) -> None:
        """Remember a bucket for the next batch: only now, as one that a failure left half changed is of no use."""
        _CACHE[self._run, bucket_id] = cached
        while len(_CACHE) > MAX_CACHED:
            _CACHE.popitem(last=False)

    def _entry(self, key: EntryKey) -> bytes:
        """An entry of the log: from a neighbour's file, or from the state store."""
        content = local_entries.get(key.token)
        if content is not None:
            return content
        stored = self._log.getValue(key)
        assert stored is not None, "the state store listed this key"
        return bytes(stored[0])

    def _forget(self, cached: CachedBucket) -> None:
        """Take entries out of the log that no open window covers."""
        bucket = cached.bucket
        closed_us = bucket.closed_us
        for key in [key for key, entry in cached.entries.items() if bucket.is_expired(entry.newest_us, closed_us)]:
            self._log.removeKey(key)
            local_entries.drop(key.token)
            del cached.entries[key]

    def _take_statements(
        self, job: Job, batch: int, arrivals: Arrivals, newest_us: dict[str, int], watermark_us: int | None
    ) -> None:
        """Write a batch's statements where the next batch finds them."""
        from weft.spark.job import Change
        from weft.spark.statement_log import StatementLog

        assert self._packed.statements_in is not None
        statements = job.judge(text for _, text in sorted(arrivals.statements))
        StatementLog(self._packed.statements_in).put(Change(batch, statements, newest_us, watermark_us))
        arrivals.counts["rejected_statements"] = sum(statement.error is not None for statement in statements)

    def _publish(
        self,
        job: Job,
        bucket_id: int,
        batch: int,
        content: bytes,
        arrived: Arrived,
        rows: Mapping[int, pa.RecordBatch],
        watermark_us: int | None,
        closed_us: int | None,
    ) -> None:
        """Write what was kept where lookups find it; rows first, so that who sees the batch finds its rows too."""
        from weft.spark.row_log import RowLog
        from weft.spark.slot_log import Entry, SlotLog

        assert self._folder is not None
        if rows:
            RowLog(self._folder, job.row_bases).put(bucket_id, batch, rows, watermark_us)
        entry = Entry.of(arrived.kept, watermark_us, closed_us, content)
        SlotLog(self._folder, job.bases).put(bucket_id, batch, entry)

    def _set_timer(self, end_us: int | None, current_ms: int) -> int:
        """Keep one timer, at the next end of a window, so that a bucket without events is answered too."""
        # Spark's clock starts at 0; -(-x // 1000) rounds up to the millisecond that covers the end.
        wanted_ms = NEVER if end_us is None else max(AT_ONCE_MS, -(-end_us // 1000))
        if wanted_ms != current_ms:
            if current_ms != NEVER:
                self._handle.deleteTimer(current_ms)
            if wanted_ms != NEVER:
                self._handle.registerTimer(wanted_ms)
        return wanted_ms
