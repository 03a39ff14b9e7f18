"""The stateful processor: one call per bucket and batch.

The durable state is a log of packed partials by sequence number, and one row of progress with a version that is new
after each write. The bucket in the worker's memory is a cache of the log. If its version is the one in the state store,
it is used. If it has only fallen behind, because Spark gave the bucket to another worker for a while, it catches up
from the log. Otherwise it is rebuilt. So a task may move, fail or be repeated anywhere.

Every bucket also gets the statements of the control stream. The first bucket writes them to the statement log, and from
the next batch on every worker follows them. Each bucket notes which statements it has followed, and which batch it
wrote last for lookups. If the shared folder lacks these, it was moved or changed, and the batch fails.

With a control stream, each bucket keeps the newest time of every stream and derives the watermark from these: Spark's
own watermark may stand still for a batch after a crash, and a statement that comes just then would mean something else.

Tuples for row queries have entries of their own in the log. Rows for queries over PARTITION BY ... ROWS, and tuples for
row queries with INTO, pass through to the row log and leave no state.

If the shared folder cannot be written, answers go on. What the folder lacks stays in the log of the state, rows too,
until it can be written again; then all of it becomes one file. If that grows beyond `HELD_BYTES`, only what open
windows need stays, and the file says what it lacks.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
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

from panewise.errors import CheckpointError, UnusableFolderError
from panewise.spark import local_entries
from panewise.spark.counts import COMBINED, COUNTS, NO_TIME, PackedTable, Sizes, output_rows, overflown_text
from panewise.spark.flow import Flow
from panewise.spark.packed_job import PackedJob, batch_id, query_id
from panewise.spark.slot_file import NO_BATCH

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.accumulators import Accumulator

    from panewise.engine.overflows import Overflows
    from panewise.spark.bucket import Bucket
    from panewise.spark.job import Change, Job
    from panewise.spark.observed import Observed
    from panewise.spark.packing import PackedPart
    from panewise.spark.query_costs import Costs
    from panewise.spark.slot_log import Entry

NEVER = -(2**63)

CONTROL = -1
"""Instead of a base's number: the row is a statement of the control stream."""

COUNTED = -2
"""Instead of a base's number: the row has the counts of the first stream; -3 is the second stream, and so on."""

HELD_BYTES = 256 << 20
"""How much a bucket keeps for a folder that cannot be written, before it lets go of what only lookups need."""

_LOGGER = logging.getLogger(__name__)

MOST_KEPT = 16
"""After so many batches with rows of substreams, those that no window needs any more are taken out of the log."""

AT_ONCE_MS = 1
"""A timer that goes off in the next batch, once there is a watermark at all."""


class Progress(NamedTuple):
    """The row of progress in the state store; `notes` are JSON: see `Notes`."""

    version: str
    identity: str
    next_entry: int
    closed_us: int
    timer_ms: int
    notes: str


# Types instead of text: Spark would ask the JVM to parse a text in every task.
_PROGRESS = (
    StructType()
    .add("version", StringType())
    .add("identity", StringType())
    .add("next_entry", LongType())
    .add("closed_us", LongType())
    .add("timer_ms", LongType())
    .add("notes", StringType())
)
_ENTRY_KEY = StructType().add("number", LongType()).add("token", StringType())
_ENTRY = StructType().add("parts", BinaryType())


class EntryKey(NamedTuple):
    """The name of a log entry: its number, and a token that no other attempt at the same batch writes."""

    number: int
    token: str


@dataclass
class LogEntry:
    """What is known of a log entry: its size, and for each base when its newest slot begins."""

    bytes: int
    newest_us: dict[int, int]


@dataclass(frozen=True)
class _Brought:
    """What a batch of a bucket brings for lookups: partials, and rows by their base."""

    job: Job
    bucket_id: int
    batch: int
    entry: Entry
    rows: Mapping[int, pa.RecordBatch]


@dataclass(frozen=True)
class Newest:
    """The newest event of each stream, up to a batch and before it. Spark may call a bucket twice in a batch."""

    batch: int = -1
    before_us: dict[str, int] = field(default_factory=dict)
    up_to_us: dict[str, int] = field(default_factory=dict)

    def in_batch(self, batch: int, arrived_us: Mapping[str, int]) -> Newest:
        """The same after a batch has brought events."""
        before_us = self.before_us if batch == self.batch else self.up_to_us
        up_to_us = dict(self.up_to_us)
        for name, time_us in arrived_us.items():
            up_to_us[name] = max(up_to_us.get(name, NEVER), time_us)
        return Newest(batch, before_us, up_to_us)


@dataclass(frozen=True)
class Behind:
    """What the shared folder lacks of a bucket: from which batch on, and from which entry of the log on.

    `is_lossy` when some of these entries had to go.
    """

    first_batch: int
    first_entry: int
    is_lossy: bool = False


@dataclass(frozen=True)
class Notes:
    """What a bucket keeps in mind of its stream and of the shared folder.

    `newest` and `applied` are of a job with a control stream: the newest event of each stream, and the statements that
    the bucket went by. `slots` and `rows` are the last batches that it wrote to the slot log and the row log, and
    `behind` is what it could not write. `called` is the last batch with rows, and `called_before` the one before it.
    `final_rows` is how many rows of whole streams are final, by base. `flows` are the events of each stream so far, if
    this is the first bucket of a job with a control stream.
    """

    newest: Newest = field(default_factory=Newest)
    applied: dict[str, Any] = field(default_factory=dict)
    slots: int = NO_BATCH
    rows: int = NO_BATCH
    behind: Behind | None = None
    called: int = NO_BATCH
    called_before: int = NO_BATCH
    final_rows: dict[str, int] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)

    def in_batch(self, batch: int, *, has_rows: bool) -> Notes:
        """The notes in a batch. A batch with rows calls every bucket, and may call one once more by a timer."""
        if not has_rows or self.called == batch:
            return self
        return replace(self, called=batch, called_before=self.called)

    def after(self, batch: int) -> int:
        """The last batch before one that every bucket took part in."""
        return self.called_before if self.called == batch else self.called

    @staticmethod
    def of(text: str) -> Notes:
        """From the state."""
        found = json.loads(text)
        behind = found.pop("behind", None)
        newest = Newest(**found.pop("newest"))
        flows = {name: Flow(**flow) for name, flow in found.pop("flows", {}).items()}
        return Notes(newest, behind=None if behind is None else Behind(**behind), flows=flows, **found)

    def __str__(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class CachedBucket:
    """A bucket in memory, the version of the state that it equals, and the entries of the log."""

    bucket: Bucket
    version: str = ""
    entries: dict[EntryKey, LogEntry] = field(default_factory=dict)

    def append(
        self, key: EntryKey, content: bytes, parts: list[PackedPart], correcting: Sequence[PackedPart] = ()
    ) -> None:
        """Take in an entry of the log; of a batch that comes now, what corrects answers by itself."""
        self.bucket.append(parts)
        self.bucket.correct(correcting)
        self.entries[key] = LogEntry(len(content), self.bucket.newest_us([*parts, *correcting]))

    def bytes_from(self, first_entry: int) -> int:
        """The bytes of the entries from a number on."""
        return sum(entry.bytes for key, entry in self.entries.items() if key.number >= first_entry)

    def leads_to(self, log: set[EntryKey], closed_us: int) -> bool:
        """Whether appending leads to the state store's log: everything here was also written there."""
        here_us = NEVER if self.bucket.closed_us is None else self.bucket.closed_us
        if here_us > closed_us:
            return False
        gone = (self.entries[key] for key in self.entries.keys() - log)
        return all(self.bucket.is_expired(entry.newest_us, closed_us) for entry in gone)


@dataclass
class BucketArrivals:
    """What a batch brings to one bucket."""

    parts: list[tuple[int, bytes]] = field(default_factory=list)
    statements: list[tuple[str, str, str]] = field(default_factory=list)
    """Of each, its position in the control stream, its text and its author."""
    newest_us: dict[int, int] = field(default_factory=dict)
    """The newest event of each stream, by the stream's place."""
    lifted: dict[int, int] = field(default_factory=dict)
    """How many events of each stream were put into partials, times the number of its bases."""
    has_rows: bool = False
    """Whether they are the rows of a batch; a timer brings none."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

    @staticmethod
    def of(rows: Iterable[Row]) -> BucketArrivals:
        """The rows of a bucket, sorted by their kind."""
        found = BucketArrivals(has_rows=True)
        for row in rows:
            if row.base == CONTROL:
                statement = json.loads(bytes(row.partials))
                said = statement.get("statement") or "", statement.get("author") or ""
                found.statements.append((statement.get("position", ""), *said))
                continue
            if row.base > CONTROL:
                found.parts.append((row.base, bytes(row.partials)))
                continue
            place = COUNTED - row.base
            found.newest_us[place] = max(found.newest_us.get(place, NEVER), row.newest_us)
            found.lifted[place] = found.lifted.get(place, 0) + row.lifted
            for name in COMBINED:
                found.counts[name] += row[name]
        return found


_CACHE: OrderedDict[tuple[str, int], CachedBucket] = OrderedDict()
"""The buckets of this worker process by run and bucket id, least recently used first."""

_OVERFLOWS: dict[str, Overflows] = {}
"""What the buckets of a run here have counted together, so that the log tells each query once."""

MAX_CACHED = 128
"""How many buckets a worker keeps. New ones push out those that Spark moved elsewhere, or whose query ended."""


class BucketProcessor(StatefulProcessor):
    """Keeps the partials of each bucket and answers its windows as the watermark closes them."""

    def __init__(
        self, packed: PackedJob, run: str, folder: str | None = None, costs: Accumulator[Costs] | None = None
    ) -> None:
        self._packed = packed
        self._run = run
        self._folder = folder
        self._costs = costs

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
        yield from self._step(key[0], BucketArrivals.of(rows), timerValues)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        """Answer what the watermark has closed in a bucket that got no event."""
        yield from self._step(key[0], BucketArrivals(), timerValues)

    def close(self) -> None:
        """Close nothing: the cache stays."""

    def _step(self, bucket_id: int, arrivals: BucketArrivals, timers: TimerValues) -> Iterator[Row]:
        # Imported here: Spark opens the state of every new query in a process that gets no rows and needs none of this.
        from panewise.spark.cost_accumulator import costs_in
        from panewise.spark.held_rows import arrived_held
        from panewise.spark.job import Change
        from panewise.spark.layouts import TableRows, answers_of
        from panewise.spark.packing import PackedPart, pack_parts, pack_table
        from panewise.spark.row_bases import arrived_rows
        from panewise.spark.slot_log import Entry
        from panewise.spark.tuple_bucket import arrived_tuples

        batch = batch_id()
        job = self._packed.at(batch)
        counts = arrivals.counts
        progress = self._read_progress()
        notes = Notes.of(progress.notes)
        if job.is_live:
            notes = self._with_statements(notes, batch, brings_more=bool(arrivals.statements))
        cached = self._bucket(bucket_id, progress, job, counts)
        bucket = cached.bucket
        work = bucket.work
        streams = list(job.workload.streams)
        arrived_us = {streams[place]: time_us for place, time_us in arrivals.newest_us.items()}
        newest = notes.newest.in_batch(batch, arrived_us) if job.is_live else Newest()
        # Before the first event, Spark's watermark is 0: nothing is late yet, and nothing closes.
        of_spark_us = timers.getCurrentWatermarkInMs() * 1000 or None
        watermark_us = late_us = job.watermark_us(newest.before_us) if job.is_live else of_spark_us
        if job.behind_us is not None:
            # Answers come with the watermark that closed their windows: what was not closed before is on time.
            watermark_us = None if of_spark_us is None else of_spark_us - job.behind_us
            late_us = bucket.closed_us
        began = perf_counter_ns()
        parts = [PackedPart.of(*part) for part in arrivals.parts]
        arrived = bucket.arrived((part for part in parts if part.base in job.bases), late_us)
        rows, late_rows = arrived_rows(job, parts, late_us)
        held, late_held = arrived_held(job, parts, late_us)
        rows |= held
        tuples = arrived_tuples(job.tuples, parts, late_us, job.counting_bases)
        counts["late_events"] = arrived.late_events + late_rows + late_held + tuples.late_events
        counts["corrected_events"] = arrived.corrected_events
        next_entry = progress.next_entry
        content = pack_parts(arrived.kept)
        if arrived.kept:
            key = EntryKey(next_entry, uuid4().hex)
            self._log.updateValue(key, (content,))
            local_entries.put(key.token, content)
            cached.append(key, content, arrived.timely, arrived.correcting)
            next_entry += 1
        if tuples.kept:
            # An entry of its own: lookups read the other one as it is.
            # The last rows of substreams are kept for ever, others until their windows have closed.
            for is_kept in (False, True):
                parts = [part for part in tuples.kept if bucket.tuples.is_kept(part.base) is is_kept]
                next_entry = self._keep_tuples(cached, parts, next_entry) if parts else next_entry
        counts["feed_ns"] = perf_counter_ns() - began
        began = perf_counter_ns()
        packed: list[PackedTable] = [pack_table(rows) for rows in tuples.passed]
        reported = Counter({rows.table: rows.answers for rows in tuples.passed})
        for closed in (
            () if watermark_us is None else chain(bucket.closing(watermark_us), bucket.closing_tuples(watermark_us))
        ):
            if isinstance(closed, TableRows):
                reported[closed.table] += closed.answers
            else:
                reported += answers_of(closed.reported)
            made = bucket.rows_of(closed, job.bucket_ids.index(bucket_id))
            counts["close_ns"] += perf_counter_ns() - began
            began = perf_counter_ns()
            packed += map(pack_table, made)
            counts["pack_ns"] += perf_counter_ns() - began
            began = perf_counter_ns()
        # Statements of this batch hold in the next one, and may close windows earlier than today's queries.
        end_us = 0 if arrivals.statements else bucket.next_end_us()
        end_us = None if end_us is None else end_us + (job.behind_us or 0)
        timer_ms = self._set_timer(end_us, progress.timer_ms)
        closed_us = NEVER if bucket.closed_us is None else bucket.closed_us
        notes = replace(notes, newest=newest, final_rows=bucket.tuples.final_rows)
        if job.is_live and arrivals.has_rows and bucket_id == job.bucket_ids[0]:
            notes = replace(notes, flows=_flows(job, notes.flows, arrivals))
            seen = _seen(job, bucket, notes)
            if arrivals.statements or seen or job.hands_over(watermark_us):
                self._write_change(job, arrivals, Change(batch, (), newest.up_to_us, watermark_us, seen))
        notes = notes.in_batch(batch, has_rows=arrivals.has_rows)
        if self._folder is not None:
            entry = Entry.of(arrived.kept, watermark_us, bucket.closed_us, content, job.changes)
            entry = replace(entry, after=notes.after(batch))
            first_entry = progress.next_entry
            brought = _Brought(job, bucket_id, batch, entry, rows)
            notes, next_entry = self._publish(brought, notes, cached, first_entry, next_entry)
        self._forget(cached, notes.behind)
        next_entry = self._shorten(cached, next_entry)
        next_entry = self._gather(cached, next_entry, notes.behind)
        cached.version = uuid4().hex
        self._progress.update(
            Progress(cached.version, self._packed.identity, next_entry, closed_us, timer_ms, str(notes))
        )
        self._keep(bucket_id, cached)
        counts["fed"], counts["folded"] = (after - before for after, before in zip(bucket.work, work))
        counts["overflown_answers"] = sum(bucket.overflown.values())
        if self._costs is not None:
            self._costs.add(costs_in(reported, bucket.take_shares_ns()))
        overflown = overflown_text(bucket.overflown)
        sizes = _sizes(cached, notes.behind).text(is_timer=not arrivals.has_rows)
        output = output_rows(packed, counts, query_id=query_id(), overflown=overflown, bucket=bucket_id, sizes=sizes)
        yield from (Row(**row) for row in output)

    def _keep_tuples(self, cached: CachedBucket, parts: list[PackedPart], number: int) -> int:
        """Write the tuples of a batch to the log, and take them in; returns the number of the next entry."""
        from panewise.spark.packing import pack_parts

        key, content = EntryKey(number, uuid4().hex), pack_parts(parts)
        self._log.updateValue(key, (content,))
        local_entries.put(key.token, content)
        cached.append(key, content, parts)
        return number + 1

    def _read_progress(self) -> Progress:
        stored = self._progress.get()
        if stored is None:
            return Progress("", self._packed.identity, 0, NEVER, NEVER, str(Notes()))
        progress = Progress(*stored)
        if progress.identity != self._packed.identity:
            from panewise.spark.identity import difference

            raise CheckpointError(difference(progress.identity, self._packed.identity))
        return progress

    def _bucket(self, bucket_id: int, progress: Progress, job: Job, counts: dict[str, int]) -> CachedBucket:
        """The bucket as the state store has it: from memory, and brought up to date if it has fallen behind."""
        from panewise.engine.overflows import Overflows
        from panewise.spark.bucket import Bucket
        from panewise.spark.packing import unpack_parts

        cached = _CACHE.pop((self._run, bucket_id), None)
        if cached is not None and cached.version == progress.version:
            counts["cache_hits"] += 1
            if not cached.bucket.has_job(job):
                keys = sorted(cached.entries)
                cached.bucket.adopt(job, lambda: (unpack_parts(self._entry(key)) for key in keys))
        else:
            log = {EntryKey(*key) for key in self._log.keys()} if progress.version else set()  # noqa: SIM118 - no dict
            if cached is None or not (cached.bucket.has_job(job) and cached.leads_to(log, progress.closed_us)):
                cached = CachedBucket(Bucket(job, _OVERFLOWS.setdefault(self._run, Overflows())))
                counts["rebuilds"] += 1
            else:
                counts["catch_ups"] += 1
            for key in sorted(log - cached.entries.keys()):
                content = self._entry(key)
                cached.append(key, content, unpack_parts(content))
            cached.entries = {key: cached.entries[key] for key in log}
            closed_us = None if progress.closed_us == NEVER else progress.closed_us
            cached.bucket.resume(closed_us, Notes.of(progress.notes).final_rows)
        return cached

    def _keep(self, bucket_id: int, cached: CachedBucket) -> None:
        """Remember a bucket for the next batch. Not earlier: a failure may leave it half changed and useless."""
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

    def _forget(self, cached: CachedBucket, behind: Behind | None) -> None:
        """Remove log entries that no open window covers, and that the shared folder does not lack."""
        bucket = cached.bucket
        closed_us = bucket.closed_us
        expired = [key for key, entry in cached.entries.items() if bucket.is_expired(entry.newest_us, closed_us)]
        if behind is not None and not behind.is_lossy:
            expired = [key for key in expired if key.number < behind.first_entry]
        self._remove_entries(cached, expired)

    def _shorten(self, cached: CachedBucket, number: int) -> int:
        """Write what is needed of the last rows of substreams anew, in place of many entries.

        Each time when there is twice as much as then: so a row is written again a few times only.
        """
        tuples = cached.bucket.tuples
        keys = sorted(key for key, entry in cached.entries.items() if any(map(tuples.is_kept, entry.newest_us)))
        sizes = [cached.entries[key].bytes for key in keys]
        if len(keys) < MOST_KEPT or sum(sizes) < 2 * sizes[0]:
            return number
        self._replace_entries(cached, keys, number, tuples.kept_parts())
        return number + 1

    def _gather(self, cached: CachedBucket, number: int, behind: Behind | None) -> int:
        """Write what only windows that go back to the start need as one partial for each key, in place of entries.

        Each time when there is twice as much as then: so a partial is written again a few times only. Not while the
        shared folder lacks entries: it would get what it has once more, as an entry that came since.
        """
        from panewise.spark.packing import unpack_parts

        bucket = cached.bucket
        if not bucket.gathers or (behind is not None and not behind.is_lossy):
            return number
        keys = sorted(key for key, entry in cached.entries.items() if bucket.is_aged(entry.newest_us, bucket.closed_us))
        sizes = [cached.entries[key].bytes for key in keys]
        if len(keys) < MOST_KEPT or sum(sizes) < 2 * max(sizes):
            return number
        parts = bucket.gathered_parts(part for key in keys for part in unpack_parts(self._entry(key)))
        self._replace_entries(cached, keys, number, parts)
        return number + 1

    def _replace_entries(
        self, cached: CachedBucket, keys: Iterable[EntryKey], number: int, parts: list[PackedPart]
    ) -> None:
        """Write parts as one entry of the log, and remove the entries in whose place it comes."""
        from panewise.spark.packing import pack_parts

        key, content = EntryKey(number, uuid4().hex), pack_parts(parts)
        self._log.updateValue(key, (content,))
        local_entries.put(key.token, content)
        self._remove_entries(cached, keys)
        cached.entries[key] = LogEntry(len(content), cached.bucket.newest_us(parts))

    def _remove_entries(self, cached: CachedBucket, keys: Iterable[EntryKey]) -> None:
        for key in keys:
            self._log.removeKey(key)
            local_entries.drop(key.token)
            del cached.entries[key]

    def _write_change(self, job: Job, arrivals: BucketArrivals, change: Change) -> None:
        """Write a batch's statements, and what was seen, for the next batch to find."""
        from panewise.spark.job import Statement
        from panewise.spark.statement_log import StatementLog

        assert self._packed.statements_in is not None
        statements = tuple(
            Statement(text, position=str(position), author=author)
            for position, text, author in sorted(arrivals.statements)
        )
        judged = job.judge(replace(change, statements=statements))
        written = StatementLog(self._packed.statements_in).put(judged)
        arrivals.counts["rejected_statements"] = sum(one.error is not None for one in written.statements)

    def _with_statements(self, notes: Notes, batch: int, *, brings_more: bool) -> Notes:
        """The notes with the statements that hold in a batch; raises where they are not those that must be there."""
        from panewise.spark.statement_log import Applied

        before = Applied(**notes.applied)
        found = self._packed.statements_at(batch)
        before.check(found, batch)
        before.check_bases(found, self._packed.bases_after(batch, before.count))
        # A timer may call a bucket once more in the batch that brought statements.
        bases = self._packed.bases_after(batch, len(found.changes))
        applied = found.applied(batch, bases, brings_more=brings_more or before.brought == batch)
        return replace(notes, applied=asdict(applied))

    def _publish(
        self, brought: _Brought, notes: Notes, cached: CachedBucket, first_entry: int, next_entry: int
    ) -> tuple[Notes, int]:
        """Write what was kept for lookups. If that cannot be done now, the state keeps it until it can.

        The entries from `first_entry` on are those of this batch. Returns the notes, and the number of the next entry.
        """
        from panewise.spark.packing import pack_parts

        behind, rows, bucket_id = notes.behind, brought.rows, brought.bucket_id
        try:
            notes = self._write(brought, notes, cached)
        except UnusableFolderError as error:
            if behind is None:
                _LOGGER.warning("%s; answers go on, and lookups of bucket %d fall behind until then", error, bucket_id)
                behind = Behind(brought.batch, first_entry)
        else:
            if behind is not None:
                _LOGGER.warning("lookups of bucket %d have caught up, from batch %d on", bucket_id, behind.first_batch)
            return notes, next_entry
        if rows:
            key = EntryKey(next_entry, uuid4().hex)
            content = pack_parts(brought.job.logged_rows[number].part(some) for number, some in rows.items())
            self._log.updateValue(key, (content,))
            cached.entries[key] = LogEntry(len(content), {})
            next_entry += 1
        if not behind.is_lossy and cached.bytes_from(behind.first_entry) > HELD_BYTES:
            _LOGGER.warning("what lookups of bucket %d lack is too much to be kept: some of it is lost", bucket_id)
            behind = replace(behind, is_lossy=True)
        return replace(notes, behind=behind), next_entry

    def _write(self, brought: _Brought, notes: Notes, cached: CachedBucket) -> Notes:
        """Write a batch, and with it those that could not be written before, as one file.

        Rows come first, so that whoever sees the batch finds its rows too.
        """
        from panewise.spark.row_log import RowLog
        from panewise.spark.slot_file import BatchSpan
        from panewise.spark.slot_log import SlotLog, try_to_write

        assert self._folder is not None
        job, batch, behind = brought.job, brought.batch, notes.behind
        span = BatchSpan(batch, batch)
        if behind is not None:
            try_to_write(Path(self._folder))
            span = BatchSpan(behind.first_batch, batch)
            brought = self._with_held(brought, behind, cached)
        is_lossy = behind is not None and behind.is_lossy
        entry, rows = brought.entry, brought.rows
        if rows or (is_lossy and job.logged_rows):
            log = RowLog(self._folder, job.logged_rows)
            log.put(brought.bucket_id, span, rows, entry.watermark_us, written=notes.rows, is_lossy=is_lossy)
            notes = replace(notes, rows=batch)
        SlotLog(self._folder, job.bases).put(brought.bucket_id, span, entry, notes.slots)
        return replace(notes, slots=batch, behind=None)

    def _with_held(self, brought: _Brought, behind: Behind, cached: CachedBucket) -> _Brought:
        """What a batch brings, with what the folder lacks."""
        from panewise.spark.fed_bases import next_slot
        from panewise.spark.packing import unpack_parts
        from panewise.spark.slot_log import Entry

        job, entry = brought.job, brought.entry
        keys = sorted(key for key in cached.entries if key.number >= behind.first_entry)
        parts = [part for key in keys for part in unpack_parts(self._entry(key))]
        by_base = {number: [some] for number, some in brought.rows.items()}
        for part in parts:
            if part.base in job.logged_rows:
                by_base.setdefault(part.base, []).append(part.partials)
        whole = Entry.of(
            [part for part in parts if part.base in job.bases], entry.watermark_us, entry.closed_us, None, entry.changes
        )
        whole = replace(whole, after=entry.after)
        closed_us = entry.closed_us
        if behind.is_lossy and closed_us is not None:
            held = [next_slot(closed_us - base.retention_us + 1, base.base.granularity) for base in job.bases.values()]
            whole = replace(whole, holds_from_us=max(held, default=None))
        rows = {number: job.logged_rows[number].in_order(some) for number, some in by_base.items()}
        return replace(brought, entry=whole, rows=rows)

    def _set_timer(self, end_us: int | None, current_ms: int) -> int:
        """Keep one timer, at the next end of a window, so that a bucket without events closes its windows too."""
        # Spark's clock starts at 0; -(-x // 1000) rounds up to the millisecond that covers the end.
        wanted_ms = NEVER if end_us is None else max(AT_ONCE_MS, -(-end_us // 1000))
        if wanted_ms != current_ms:
            if current_ms != NEVER:
                self._handle.deleteTimer(current_ms)
            if wanted_ms != NEVER:
                self._handle.registerTimer(wanted_ms)
        return wanted_ms


def _flows(job: Job, flows: Mapping[str, Flow], arrivals: BucketArrivals) -> dict[str, Flow]:
    """The events of each stream with those of a batch."""
    after = dict(flows)
    for place, name in enumerate(job.workload.streams):
        bases = sum(len(some) for _, some in job.plans_of(name))
        newest_us = arrivals.newest_us.get(place)
        if bases and newest_us is not None and newest_us > NO_TIME:
            after[name] = after.get(name, Flow()).with_events(arrivals.lifted[place] // bases, newest_us)
    return after


def _seen(job: Job, bucket: Bucket, notes: Notes) -> dict[str, Observed]:
    """What was seen of the streams that are worth a look."""
    worth_it = {name: flow for name, flow in notes.flows.items() if job.looks_at(name, flow.events)}
    return {name: bucket.observed(name, flow, notes.newest.up_to_us.get(name)) for name, flow in worth_it.items()}


def _sizes(cached: CachedBucket, behind: Behind | None) -> Sizes:
    """What a bucket holds after a batch."""
    log_bytes = sum(entry.bytes for entry in cached.entries.values())
    held_bytes = 0 if behind is None else cached.bytes_from(behind.first_entry)
    return Sizes(log_bytes, cached.bucket.live_rows, int(behind is not None), held_bytes)
