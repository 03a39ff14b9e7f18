"""The log of a batch job: what lookups need of its whole history, written once for each bucket as batch 0.

It holds what a stream's slot log and row log would hold after the last event: the partials that the longest window
reaches from the bucket's newest slot, and the last rows of each substream.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from panewise.spark.job import Job
from panewise.spark.packing import PackedPart
from panewise.spark.row_log import LastRows, RowLog
from panewise.spark.slot_compaction import merged_partials
from panewise.spark.slot_file import later
from panewise.spark.slot_log import Entry, SlotLog

BATCH = 0
"""The number of a batch job's only batch."""


class BatchLog:
    """What one bucket of a batch job leaves for lookups."""

    def __init__(self, folder: str | os.PathLike[str], job: Job) -> None:
        self._folder = Path(folder)
        self._job = job
        self._bucket_id: int | None = None
        self._parts: dict[int, list[PackedPart]] = {}
        self._rows = {number: LastRows(base) for number, base in job.row_bases.items()}
        self._held: dict[int, list[pa.RecordBatch]] = {}

    def append(self, bucket_id: int, parts: Iterable[PackedPart]) -> None:
        """Take in partials and rows of the bucket."""
        self._bucket_id = bucket_id
        for part in parts:
            if part.base in self._rows:
                self._rows[part.base].append(part.partials)
            elif part.base in self._job.held_bases:
                self._held.setdefault(part.base, []).append(part.partials)
            else:
                self._parts.setdefault(part.base, []).append(part)

    def write(self, newest_us: Mapping[str, int]) -> None:
        """Write what lookups need, given the newest event of each stream. Writing a bucket again replaces it."""
        if self._bucket_id is None:
            return
        rows = {number: last.rows() for number, last in self._rows.items()}
        rows = {number: some for number, some in rows.items() if some.num_rows}
        newest_of = {}
        for number, held in self._job.held_bases.items():
            newest_of[number] = newest_us[held.base.stream.name]
            if number in self._held:
                # Lookups look back from the newest event of all streams that the query reads.
                rows[number] = held.needed(held.in_order(self._held[number]), self._ends_us(number, newest_us))
        if rows or newest_of:
            held_us = later(last.holds_from_us for last in self._rows.values())
            log = RowLog(self._folder, self._job.logged_rows)
            log.put(self._bucket_id, BATCH, rows, None, holds_from_us=held_us, newest_us=newest_of)
        kept = [part for number, some in self._parts.items() for part in self._last_partials(number, some)]
        SlotLog(self._folder, self._job.bases).put(self._bucket_id, BATCH, Entry.of(kept, None, None))

    def _ends_us(self, number: int, newest_us: Mapping[str, int]) -> int:
        """The earliest time that a query over a held base may be looked up at."""
        plan = self._job.held
        queries = [plan.queries[name] for name, numbers in plan.reads.items() if number in numbers]
        return min(max(newest_us[name] for name in query.streams) for query in queries) + 1

    def _last_partials(self, number: int, parts: list[PackedPart]) -> Iterable[PackedPart]:
        fed = self._job.bases[number]
        newest = max(int(np.asarray(part.partials.column("slot")).max()) for part in parts)
        return merged_partials(fed, parts, (newest + 1) * fed.base.granularity)
