"""The stateful processor: one call per bucket and batch.

Durable state: a log of packed partials by sequence number, and one row of progress with a version that is new after
each write. The bucket in the worker's memory is a cache of the log: it is used when its version is the one in the state
store; where it has only fallen behind, because Spark handed the bucket to another worker for a while, it catches up
from the log; otherwise it is rebuilt. So a task may move, fail or be repeated anywhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
from weft.spark.packed_job import PackedJob

if TYPE_CHECKING:
    from weft.spark.bucket import Bucket
    from weft.spark.packing import Part

NEVER = -(2**63)


class Progress(NamedTuple):
    """The row of progress in the state store."""

    version: str
    workload: str
    next_entry: int
    closed_us: int
    timer_ms: int


# Types and not text: Spark would ask the JVM to parse a text in every task.
_PROGRESS = (
    StructType()
    .add("version", StringType())
    .add("workload", StringType())
    .add("next_entry", LongType())
    .add("closed_us", LongType())
    .add("timer_ms", LongType())
)
_ENTRY_KEY = StructType().add("number", LongType()).add("token", StringType())
_ENTRY = StructType().add("parts", BinaryType())


class EntryKey(NamedTuple):
    """What names an entry of the log: its number, and a token that no other attempt at the same batch writes."""

    number: int
    token: str


@dataclass
class CachedBucket:
    """A bucket in memory, the version of the state that it equals, and when each entry of the log may go."""

    bucket: Bucket
    version: str = ""
    expiries_us: dict[EntryKey, int] = field(default_factory=dict)

    def append(self, key: EntryKey, parts: list[Part]) -> None:
        """Take in an entry of the log."""
        self.bucket.append(parts)
        self.expiries_us[key] = self.bucket.expires_us(parts)

    def leads_to(self, log: set[EntryKey], closed_us: int) -> bool:
        """Whether the state store's log can be reached by appending: nothing is here that was never written there."""
        here_us = NEVER if self.bucket.closed_us is None else self.bucket.closed_us
        gone = self.expiries_us.keys() - log
        return here_us <= closed_us and all(self.expiries_us[key] <= closed_us for key in gone)


_CACHE: OrderedDict[tuple[str, int], CachedBucket] = OrderedDict()
"""The buckets of this worker process, by run and bucket id, the least recently used first."""

MAX_CACHED = 128
"""Buckets that a worker keeps. Those that Spark moved elsewhere, or of a query that ended, are pushed out by others."""


class BucketProcessor(StatefulProcessor):
    """Keeps the partials of each bucket and answers its windows as the watermark closes them."""

    def __init__(self, packed: PackedJob, run: str) -> None:
        self._packed = packed
        self._run = run

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
        parts = []
        counts = dict.fromkeys(COUNTS, 0)
        for row in rows:
            if row.partials:
                parts.append((row.base, bytes(row.partials)))
            for name in COMBINED:
                counts[name] += row[name]
        yield from self._step(key[0], parts, timerValues, counts)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        """Answer what the watermark has closed in a bucket that got no event."""
        yield from self._step(key[0], [], timerValues, dict.fromkeys(COUNTS, 0))

    def close(self) -> None:
        """Nothing to close: the cache is meant to stay."""

    def _step(
        self, bucket_id: int, parts: list[tuple[int, bytes]], timers: TimerValues, counts: dict[str, int]
    ) -> Iterator[Row]:
        # Loaded here and not above: Spark opens the state of every new query in a process that gets no rows.
        from weft.spark.packing import Part, pack, pack_parts

        began = perf_counter_ns()
        progress = self._read_progress()
        cached = self._bucket(bucket_id, progress)
        bucket = cached.bucket
        work = bucket.work
        # Before the first event Spark's watermark is 0: nothing is late yet, and nothing closes.
        watermark_us = timers.getCurrentWatermarkInMs() * 1000 or None
        kept, counts["late_events"] = bucket.on_time([Part.of(*part) for part in parts], watermark_us)
        next_entry = progress.next_entry
        if kept:
            key = EntryKey(next_entry, uuid4().hex)
            content = pack_parts(kept)
            self._log.updateValue(key, (content,))
            local_entries.put(key.token, content)
            cached.append(key, kept)
            next_entry += 1
        batches = [] if watermark_us is None else list(bucket.close(watermark_us))
        self._forget(cached)
        timer_ms = self._set_timer(bucket, progress.timer_ms)
        closed_us = NEVER if bucket.closed_us is None else bucket.closed_us
        cached.version = uuid4().hex
        self._progress.update(Progress(cached.version, self._packed.fingerprint, next_entry, closed_us, timer_ms))
        packed = [(pack(batch), batch.num_rows) for batch in batches]
        counts["fed"], counts["folded"] = (after - before for after, before in zip(bucket.work, work))
        counts["busy_ns"] += perf_counter_ns() - began
        yield from (Row(**row) for row in output_rows(packed, counts))

    def _read_progress(self) -> Progress:
        stored = self._progress.get()
        if stored is None:
            return Progress("", self._packed.fingerprint, 0, NEVER, NEVER)
        progress = Progress(*stored)
        if progress.workload != self._packed.fingerprint:
            raise WeftError(
                "the checkpoint belongs to another workload or to other buckets: since it was written, the queries or "
                "streams were changed, or spark.sql.shuffle.partitions was; undo that, or use a new checkpoint folder"
            )
        return progress

    def _bucket(self, bucket_id: int, progress: Progress) -> CachedBucket:
        """The bucket as the state store has it: from memory, brought up to date where it has fallen behind."""
        from weft.spark.bucket import Bucket
        from weft.spark.packing import unpack_parts

        place = (self._run, bucket_id)
        cached = _CACHE.pop(place, None)
        if cached is None or cached.version != progress.version:
            log = {EntryKey(*key) for key in self._log.keys()} if progress.version else set()  # noqa: SIM118 - no dict
            if cached is None or not cached.leads_to(log, progress.closed_us):
                cached = CachedBucket(Bucket(self._packed.open()))
            for key in sorted(log - cached.expiries_us.keys()):
                cached.append(key, unpack_parts(local_entries.get(key.token) or self._entry(key)))
            cached.expiries_us = {key: cached.expiries_us[key] for key in log}
            cached.bucket.closed_us = None if progress.closed_us == NEVER else progress.closed_us
        _CACHE[place] = cached
        while len(_CACHE) > MAX_CACHED:
            _CACHE.popitem(last=False)
        return cached

    def _entry(self, key: EntryKey) -> bytes:
        """An entry of the log, from the state store."""
        stored = self._log.getValue(key)
        assert stored is not None, "the state store listed this key"
        return bytes(stored[0])

    def _forget(self, cached: CachedBucket) -> None:
        """Take entries out of the log that no open window covers."""
        closed_us = cached.bucket.closed_us
        if closed_us is None:
            return
        for key in [key for key, expires_us in cached.expiries_us.items() if expires_us <= closed_us]:
            self._log.removeKey(key)
            local_entries.drop(key.token)
            del cached.expiries_us[key]

    def _set_timer(self, bucket: Bucket, current_ms: int) -> int:
        """Keep one timer, at the next end of a window, so that a bucket without events is answered too."""
        end_us = bucket.next_end_us()
        # Spark's clock starts at 0; -(-x // 1000) rounds up to the millisecond that covers the end.
        wanted_ms = NEVER if end_us is None else max(1, -(-end_us // 1000))
        if wanted_ms != current_ms:
            if current_ms != NEVER:
                self._handle.deleteTimer(current_ms)
            if wanted_ms != NEVER:
                self._handle.registerTimer(wanted_ms)
        return wanted_ms
