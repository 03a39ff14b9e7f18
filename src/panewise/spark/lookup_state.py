"""What a lookup client holds: the partials of every family of queries, as far as it has read the slot log, and rows.

It shows a watermark that all buckets have reached here. Spark starts a batch when the one before is done, so once the
client has seen a file with a batch's watermark, every file of the earlier batches exists. The client then lists all
buckets once more, and only after that windows up to that watermark count as closed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panewise.engine.packed_rows import PackedRows
from panewise.errors import HistoryError
from panewise.spark.job import Job
from panewise.spark.lookup_plan import Covered, Lookup, StoreQueries, lookups_of
from panewise.spark.lookup_store import LookupStore
from panewise.spark.packing import unpack_parts
from panewise.spark.row_state import ROUNDS, RowState
from panewise.spark.slot_compaction import oldest_needed
from panewise.spark.slot_file import NO_BATCH, Head, later
from panewise.spark.slot_reader import SlotReader
from panewise.windows import is_unbounded
from panewise.windows.clock import show_time

NEVER = -(2**62)


class LookupState:
    """The partials of a slot log in memory, and how far it has been read."""

    def __init__(self, folder: Path, job: Job, over_rows: RowState | None = None) -> None:
        self.job = job
        self.lookups = lookups_of(job)
        self.reader = SlotReader(folder, job.bucket_ids, may_skip_batches=not job.bases)
        self.over_rows = RowState(folder, job) if over_rows is None else over_rows
        self.watermark_us: int | None = None
        """Windows that end up to here have closed, and all their partials have been read."""
        self.newest_batch = NO_BATCH
        self.changes = 0
        """From how many batches the workers had statements when they wrote what has been read."""
        self.seen_us: dict[str, int] = {}
        """By stream, the end of the newest slot with an event."""
        self._stores: dict[int, dict[tuple[str, ...], LookupStore]] = {}
        for lookup in self.lookups.values():
            family = lookup.family
            stores = self._stores.setdefault(family.fed.base.number, {})
            if family.tree.group_by not in stores:
                stores[family.tree.group_by] = LookupStore(family.fed.plan, family.tree)
        self._announced_us: int | None = None
        self._waiting: dict[int, int] = {}
        """By the batch that every bucket must have been read up to first, the watermark that counts then."""
        self._after = NO_BATCH
        self._lost_us: int | None = None
        self._closed_us: int | None = None
        self._buckets: set[int] = set()
        self._lacks_past = False
        self._held_from = {
            number: NEVER if fed.logged_from_us is None else fed.logged_from_us // fed.base.granularity
            for number, fed in job.bases.items()
        }

    def catch_up(self) -> bool:
        """Read all that is new; True if there was anything. Raises `FellBehindError` if it must read from the start."""
        files_before = self.reader.files_read
        for _ in range(ROUNDS):
            announced_us = self._announced_us
            if not self.reader.read_new(self._take):
                break
        # After the watermark is known, so that all rows before it are found.
        has_rows = self.over_rows.catch_up()
        self._settle(announced_us)
        return has_rows or self.reader.files_read > files_before

    @property
    def files_read(self) -> int:
        """How many files have been read."""
        return self.reader.files_read + self.over_rows.reader.files_read

    @property
    def unread(self) -> list[str]:
        """Files that cannot be read, and that nobody needs."""
        return [*self.reader.unread, *self.over_rows.reader.unread]

    @property
    def bytes_read(self) -> int:
        """The size of the content of these files."""
        return self.reader.bytes_read + self.over_rows.reader.bytes_read

    @property
    def is_behind(self) -> bool:
        """Whether a bucket lacks a batch that others have gone beyond: its worker could not write to the folder."""
        return self.reader.least_batch < self._after

    def latest_us(self, query: str, at_us: int | None) -> int | None:
        """The time to look up instead of the newest one, or of `at_us`, while some bucket is behind: the watermark."""
        if not self.is_behind:
            return at_us
        if self.watermark_us is None or (at_us is not None and at_us >= self.watermark_us):
            shown = "none" if self.watermark_us is None else show_time(self.watermark_us)
            raise HistoryError(
                f"query {query}: some workers could not write to the folder, so lookups are complete up to the "
                f"watermark only, which is {shown}; look up an earlier time, or wait until the job has caught up"
            )
        return self.watermark_us - 1 if at_us is None else at_us

    def closed_us(self, stream: str) -> int | None:
        """Windows of a stream that end up to here have closed; in a batch job, every window with events."""
        return self.seen_us.get(stream) if self.job.is_batch else self.watermark_us

    def store(self, family: StoreQueries) -> LookupStore:
        """The partials of a family."""
        return self._stores[family.fed.base.number][family.tree.group_by]

    def replace_runs(self, replaced: Callable[[PackedRows], PackedRows]) -> None:
        """Hold other runs with the same rows in all stores."""
        for stores in self._stores.values():
            for store in stores.values():
                store.replace_runs(replaced)

    def check_held(self, lookup: Lookup, covered: Covered) -> None:
        """Raise if some of the slots that a window covers may be gone."""
        number, slot_us = lookup.family.fed.base.number, lookup.family.fed.base.granularity
        held_from = max(self._held_from[number], self.store(lookup.family).forgotten)
        if lookup.exact_from_us is not None:
            held_from = max(held_from, lookup.exact_from_us // slot_us)
        if is_unbounded(lookup.query.window):
            if self._lost_us is not None:
                raise HistoryError(
                    f"query {lookup.query.name} goes back to the start, and partials before "
                    f"{show_time(self._lost_us)} were lost while the folder could not be written; start the job anew "
                    f"with an empty folder, or look up a query with a RANGE"
                )
            if covered.to_slot < held_from:
                raise HistoryError(
                    f"query {lookup.query.name}: what came before {show_time(held_from * slot_us)} is held as one "
                    f"partial for each group; look up that time or a later one"
                )
            return
        if covered.from_slot < held_from:
            raise HistoryError(
                f"query {lookup.query.name}: its window begins at {show_time(covered.from_slot * slot_us)}, and "
                f"partials are held from {show_time(held_from * slot_us)} on; look up a later time"
            )

    @property
    def rows(self) -> int:
        """How many partials are held."""
        return sum(store.live_rows for stores in self._stores.values() for store in stores.values())

    @property
    def bytes_held(self) -> int:
        """The memory of the partials, and of the rows of queries over rows."""
        partials = sum(store.bytes_held for stores in self._stores.values() for store in stores.values())
        return partials + self.over_rows.bytes_held

    def check_invariants(self) -> None:
        """Every store is in order."""
        for stores in self._stores.values():
            for store in stores.values():
                store.check_invariants()
        self.over_rows.check_invariants()

    def _take(self, head: Head, content: bytes) -> None:
        """Take in a file."""
        for part in unpack_parts(content):
            for store in self._stores.get(part.base, {}).values():
                store.append(part.partials)
        # A merged file, and what came before the first file, may lack partials that were too old.
        is_first = head.bucket not in self._buckets
        self._lacks_past |= head.span.first != head.span.last or (is_first and head.previous != NO_BATCH)
        self._buckets.add(head.bucket)
        self.newest_batch = max(self.newest_batch, head.span.last)
        self.changes = max(self.changes, head.changes)
        self._announced_us = later([self._announced_us, head.watermark_us])
        self._closed_us = later([self._closed_us, head.closed_us])
        self._lost_us = later([self._lost_us, head.holds_from_us])
        self._after = max(self._after, head.after)
        if head.watermark_us is not None:
            self._waiting[head.after] = max(head.watermark_us, self._waiting.get(head.after, head.watermark_us))
        for number, slot in head.newest_slots.items():
            if number in self.job.bases:
                fed = self.job.bases[number]
                name, end_us = fed.plan.stream.name, (slot + 1) * fed.base.granularity
                self.seen_us[name] = max(end_us, self.seen_us.get(name, end_us))

    def _settle(self, announced_us: int | None) -> None:
        least = self.reader.least_batch
        for after in [after for after in self._waiting if after <= least]:
            if announced_us is not None and self._waiting[after] <= announced_us:
                self.watermark_us = later([self.watermark_us, self._waiting.pop(after)])
        self.over_rows.settle(self.watermark_us)
        if self.job.is_batch:
            # Each bucket wrote what windows reach from its own newest slot.
            for number, fed in self.job.bases.items():
                seen_us = self.seen_us.get(fed.plan.stream.name)
                if seen_us is not None:
                    self._held_from[number] = oldest_needed(fed, seen_us)
        if self._lacks_past and self._closed_us is not None:
            for number, fed in self.job.bases.items():
                self._held_from[number] = max(self._held_from[number], oldest_needed(fed, self._closed_us))
            self._lacks_past = False
        if self._lost_us is not None:
            for number, fed in self.job.bases.items():
                self._held_from[number] = max(self._held_from[number], -(-self._lost_us // fed.base.granularity))
        for number, stores in self._stores.items():
            fed = self.job.bases[number]
            oldest = NEVER if self.watermark_us is None else oldest_needed(fed, self.watermark_us)
            for store in stores.values():
                store.settle(oldest, gathers=fed.logs_gather)
