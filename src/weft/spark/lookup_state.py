"""What a lookup client holds: the partials of every family of queries, as far as the slot log has been read.

The watermark that it shows is one that all buckets have reached here: Spark starts a batch when the one before is done,
so once a file with a batch's watermark was seen, every file of the batches before it can be found. All buckets are
listed once more after that, and only then windows up to that watermark count as closed.
"""

from __future__ import annotations

from pathlib import Path

from weft.engine.event_log import HistoryError
from weft.spark.job import Job
from weft.spark.lookup_plan import Covered, Family, Lookup, lookups_of
from weft.spark.lookup_store import LookupStore
from weft.spark.packing import unpack_parts
from weft.spark.slot_compaction import oldest_needed
from weft.spark.slot_file import NO_BATCH, Head
from weft.spark.slot_reader import SlotReader
from weft.windows.clock import show_time

ROUNDS = 100
"""How often all buckets are listed at most while batches keep coming, before lookups go on with what is there."""
NEVER = -(2**62)


class LookupState:
    """The partials of a slot log in memory, and how far it has been read."""

    def __init__(self, folder: Path, job: Job) -> None:
        self.job = job
        self.lookups = lookups_of(job)
        self.reader = SlotReader(folder, job.bucket_ids)
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
        self._settle(announced_us)
        return self.reader.files_read > files_before

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
        """The memory of the partials."""
        return sum(store.bytes_held for stores in self._stores.values() for store in stores.values())

    def check_invariants(self) -> None:
        """Every store is in order."""
        for stores in self._stores.values():
            for store in stores.values():
                store.check_invariants()

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
        self._announced_us = _later(self._announced_us, head.watermark_us)
        self._closed_us = _later(self._closed_us, head.closed_us)
        for number, slot in head.newest_slots.items():
            if number in self.job.bases:
                fed = self.job.bases[number]
                name, end_us = fed.plan.stream.name, (slot + 1) * fed.base.granularity
                self.seen_us[name] = max(end_us, self.seen_us.get(name, end_us))

    def _settle(self, announced_us: int | None) -> None:
        self.watermark_us = _later(self.watermark_us, announced_us)
        if self._lacks_past and self._closed_us is not None:
            for number, fed in self.job.bases.items():
                self._held_from[number] = max(self._held_from[number], oldest_needed(fed, self._closed_us))
            self._lacks_past = False
        for number, stores in self._stores.items():
            fed = self.job.bases[number]
            oldest = NEVER if self.watermark_us is None else oldest_needed(fed, self.watermark_us)
            for store in stores.values():
                store.settle(oldest)


def _later(one_us: int | None, other_us: int | None) -> int | None:
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return max(one_us, other_us)
