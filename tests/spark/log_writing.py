"""Writing a slot log as the workers of a job do, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.engine.combine import Combiner
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.language.workload import Workload
from panewise.spark.buckets import bucket_places
from panewise.spark.job import Job
from panewise.spark.packing import PackedPart, pack
from panewise.spark.slot_log import Entry, SlotLog, write_job

Event = dict[str, Any]
BUCKETS = [3, 4, 9]


class LogWriter:
    """Plays a job over one stream: each batch brings events and sees the watermark of those before."""

    def __init__(
        self,
        folder: Path,
        workload: Workload,
        buckets: Sequence[int] = BUCKETS,
        groups: dict[str, int] | None = None,
    ) -> None:
        self.folder = folder
        self.workload = workload
        (self.stream,) = workload.streams.values()
        self.job = Job.of(workload, buckets, groups=groups)
        write_job(folder, self.job)
        self.log = SlotLog(folder, self.job.bases)
        self.accepted: list[Event] = []
        self.newest_us: int | None = None
        self.watermark_us: int | None = None
        self.next_batch = 0
        self._last: tuple[int, dict[int, Entry]] = (-1, {})

    @property
    def slot_us(self) -> int:
        return next(iter(self.job.bases.values())).base.granularity

    @property
    def seen_us(self) -> int | None:
        """The end of the newest slot with an event that was not late."""
        if not self.accepted:
            return None
        return (max(event[self.stream.timestamp] for event in self.accepted) // self.slot_us + 1) * self.slot_us

    def run(self, events: Sequence[Event]) -> None:
        """One batch."""
        if self.newest_us is not None:
            self.watermark_us = (self.newest_us - self.stream.watermark_us) // 1000 * 1000
        kept = [event for event in events if not self._is_late(event)]
        self.accepted += kept
        times = [event[self.stream.timestamp] for event in events]
        self.newest_us = max([*times, *([] if self.newest_us is None else [self.newest_us])], default=None)
        parts: dict[int, list[PackedPart]] = {self.job.bucket_ids[0]: []}
        if kept:
            self._combine(kept, parts)
        entries = {bucket: Entry.of(some, self.watermark_us, self.watermark_us) for bucket, some in parts.items()}
        self._last = self.next_batch, entries
        self.repeat()
        self.next_batch += 1

    def repeat(self) -> None:
        """Write what the last batch wrote once more."""
        batch, entries = self._last
        for bucket, entry in entries.items():
            self.log.put(bucket, batch, entry)

    def _is_late(self, event: Event) -> bool:
        slot_end_us = (event[self.stream.timestamp] // self.slot_us + 1) * self.slot_us
        return self.watermark_us is not None and slot_end_us <= self.watermark_us

    def _combine(self, events: Sequence[Event], parts: dict[int, list[PackedPart]]) -> None:
        columns = {name: [event[name] for event in events] for name in self.stream.attributes}
        batch = to_batch(self.stream, columns)
        times = np.asarray(batch.column(self.stream.timestamp))
        for plan, _ in self.job.plans_of(self.stream.name):
            combiner = Combiner(plan, project(plan, batch))
            for base in plan.bases:
                partials = combiner.partials(base, times // base.granularity)
                places = bucket_places(plan, base, partials, len(self.job.bucket_ids))
                for place, bucket in enumerate(self.job.bucket_ids):
                    share = partials.filter(pa.array(places == place))
                    if share.num_rows:
                        parts.setdefault(bucket, []).append(PackedPart(base.number, pack(share), share))
