"""What a lookup client holds: the partials of every family of queries, as far as the slot log has been read, and rows.

The watermark that it shows is one that all buckets have reached here: Spark starts a batch when the one before is done,
so once a file with a batch's watermark was seen, every file of the batches before it can be found. All buckets are
listed once more after that, and only then windows up to that watermark count as closed.
"""

from __future__ import annotations

from pathlib import Path

from weft.engine.event_log import HistoryError
from weft.spark.job import Job
from weft.spark.lookup_having import LookupIndexes
from weft.spark.lookup_plan import Covered, Family, Lookup, lookups_of
from weft.spark.lookup_store import LookupStore
from weft.spark.packing import unpack_parts
from weft.spark.row_state import ROUNDS, RowState
from weft.spark.slot_compaction import oldest_needed
from weft.spark.slot_file import NO_BATCH, Head, later
from weft.spark.slot_reader import SlotReader
from weft.windows.clock import show_time

NEVER = -(2**62)


class LookupState:
    """The partials of a slot log in memory, and how far it has been read."""

    def __init__(self, folder: Path, job: Job, over_rows: RowState | None = None) -> None:
        self.job = job
        self.lookups = lookups_of(job)
        self.having = LookupIndexes(self.lookups.values(), job.prices.rate)
        self.reader = SlotReader(folder, job.bucket_ids, may_skip_batches=not job.bases)
        self.over_rows = RowState(folder, job) if over_rows is None else over_rows
        self.watermark_us: int | None = None
        """Windows that end up to here have closed, and all that belongs to them has been read."""
        self.newest_batch = NO_BATCH
        self.seen_us: dict[str, int] = {}
        """By stream, the end of the newest slot with an event."""
        self._stores: dict[int, dict[tuple[str, ...], LookupStore]] = {}
        for lookup in self.lookups.values():
            family = lookup.family
            stores = self._stores.setdefault(family.fed.base.number, {})
            if family.tree.group_by not in stores:
                stores[family.tree.group_by] = LookupStore(family.fed.plan, family.tree)
        self._announced_us: int | None = None
        self._closed_us: int | None = None
        self._buckets: set[int] = set()
        self._lacks_past = False
        self._held_from = {
            number: NEVER if fed.logged_from_us is None else fed.logged_from_us // fed.base.granularity
            for number, fed in job.bases.items()
        }

    def catch_up(self) -> bool:
        """Read all that is new; whether there was anything. Raises `FellBehindError` where only reading anew helps."""
        files_before = self.reader.files_read
        for _ in range(ROUNDS):
            announced_us = self._announced_us
            if not self.reader.read_new(self._take):
                break
        # After the watermark was announced, so that all rows before it are found.
        has_rows = self.over_rows.catch_up()
        self._settle(announced_us)
        return has_rows or self.reader.files_read > files_before

    @property
    def files_read(self) -> int:
        """How many files have been read."""
        return self.reader.files_read + self.over_rows.reader.files_read

    @property
    def bytes_read(self) -> int:
        """The size of what these files held."""
        return self.reader.bytes_read + self.over_rows.reader.bytes_read

    def closed_us(self, stream: str) -> int | None:
        """Windows of a stream that end up to here have closed; in a batch job all that it has events for."""
        return self.seen_us.get(stream) if self.job.is_batch else self.watermark_us

    def store(self, family: Family) -> LookupStore:
        """The partials of a family."""
        return self._stores[family.fed.base.number][family.tree.group_by]

    def check_held(self, lookup: Lookup, covered: Covered) -> None:
        """Raise where some of the slots that a window covers may have left."""
        number, slot_us = lookup.family.fed.base.number, lookup.family.fed.base.granularity
        held_from = max(self._held_from[number], self.store(lookup.family).forgotten)
        if lookup.exact_from_us is not None:
            held_from = max(held_from, lookup.exact_from_us // slot_us)
        if covered.from_slot < held_from:
            raise HistoryError(
                f"query {lookup.query.name}: its window from {show_time(covered.from_slot * slot_us)} on begins before "
                f"{show_time(held_from * slot_us)}, from where on partials are held; look up a later time"
            )

    @property
    def rows(self) -> int:
        """How many partials are held."""
        return sum(store.live_rows for stores in self._stores.values() for store in stores.values())

    @property
    def bytes_held(self) -> int:
        """The memory of the partials, of the indexes over them, and of the rows of queries over rows."""
        partials = sum(store.bytes_held for stores in self._stores.values() for store in stores.values())
        return partials + self.having.nbytes + self.over_rows.bytes_held

    def check_invariants(self) -> None:
        """Every store is in order."""
        for stores in self._stores.values():
            for store in stores.values():
                store.check_invariants()
        self.having.check_invariants()
        self.over_rows.check_invariants()

    def _take(self, head: Head, content: bytes) -> None:
        """Take in a file."""
        for part in unpack_parts(content):
            for store in self._stores.get(part.base, {}).values():
                store.append(part.partials)
        # A merged file, and what was before the first file, may be without partials that had become too old.
        is_first = head.bucket not in self._buckets
        self._lacks_past |= head.span.first != head.span.last or (is_first and head.previous != NO_BATCH)
        self._buckets.add(head.bucket)
        self.newest_batch = max(self.newest_batch, head.span.last)
        self._announced_us = later([self._announced_us, head.watermark_us])
        self._closed_us = later([self._closed_us, head.closed_us])
        for number, slot in head.newest_slots.items():
            if number in self.job.bases:
                fed = self.job.bases[number]
                name, end_us = fed.plan.stream.name, (slot + 1) * fed.base.granularity
                self.seen_us[name] = max(end_us, self.seen_us.get(name, end_us))

    def _settle(self, announced_us: int | None) -> None:
        self.watermark_us = later([self.watermark_us, announced_us])
        self.over_rows.settle(self.watermark_us)
        if self.job.is_batch:
            # Each bucket wrote what the windows at its own newest slot reach.
            for number, fed in self.job.bases.items():
                seen_us = self.seen_us.get(fed.plan.stream.name)
                if seen_us is not None:
                    self._held_from[number] = oldest_needed(fed, seen_us)
        if self._lacks_past and self._closed_us is not None:
            for number, fed in self.job.bases.items():
                self._held_from[number] = max(self._held_from[number], oldest_needed(fed, self._closed_us))
            self._lacks_past = False
        for number, stores in self._stores.items():
            fed = self.job.bases[number]
            oldest = NEVER if self.watermark_us is None else oldest_needed(fed, self.watermark_us)
            for store in stores.values():
                store.settle(oldest)
