"""What a lookup client holds of the row log: for each row base, an engine that answers its queries from the rows, and
the rows of row queries with INTO.

Rows are pushed as their files are read, even those that the watermark has not reached. They become final with the
client's watermark: by then the client has read all rows before it.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from panewise.engine.row_engine import RowEngine
from panewise.errors import HistoryError
from panewise.spark.held_rows import HeldRows
from panewise.spark.job import Job
from panewise.spark.packing import unpack_parts
from panewise.spark.slot_file import NO_BATCH, Head, later
from panewise.spark.slot_log import ROWS
from panewise.spark.slot_reader import FellBehindError, SlotReader

ROUNDS = 100
"""If batches keep coming, all buckets are listed at most so often; then lookups go on with what is there."""


class RowState:
    """The rows of a row log in memory, and how far it has been read."""

    def __init__(self, folder: Path, job: Job) -> None:
        self._folder = folder
        self._job = job
        self._base_of = {name: number for number, base in job.row_bases.items() for name in base.queries}
        self._watermark_us: int | None = None
        self.newest_batch = NO_BATCH
        self.rebuilds = 0
        """How often everything was read from the start."""
        self._begin()

    def _begin(self) -> None:
        job = self._job
        self.reader = SlotReader(self._folder, job.bucket_ids if job.logged_rows else (), ROWS)
        self.held = HeldRows(job)
        self._engines = {
            number: RowEngine(base.stream, [*base.queries.values()], job.prices, base.since_us)
            for number, base in job.row_bases.items()
        }
        self._holds_from_us: int | None = None
        self._is_settled = False
        self._is_lossy = False
        self._has_held = False

    @property
    def queries(self) -> list[str]:
        """The names of the queries over rows."""
        return [*self._base_of]

    def final_us(self, query: str, watermark_us: int) -> int:
        """Up to where no row of a query over rows can come any more, at a watermark."""
        return self._job.row_bases[self._base_of[query]].final_us(watermark_us)

    def order_of(self, query: str) -> list[str] | None:
        """The attributes that order rows of equal time; None for a query that is not over rows."""
        return list(self._job.row_bases[self._base_of[query]].attributes) if query in self._base_of else None

    def engine(self, query: str) -> RowEngine | None:
        """The engine that answers a query; None for one that is not over rows."""
        if query not in self._base_of:
            return None
        if self._is_lossy:
            raise _lossy(query)
        return self._engines[self._base_of[query]]

    def held_rows(self, query: str) -> HeldRows | None:
        """What answers a row query with INTO; None for another query."""
        if query not in self.held.queries:
            return None
        if self._is_lossy:
            raise _lossy(query)
        return self.held

    def catch_up(self) -> bool:
        """Read all that is new; True if there was anything.

        If necessary, read everything from the start; `FellBehindError` if even that does not help.
        """
        files_before = self.reader.files_read
        try:
            self._read_new()
        except FellBehindError:
            self._begin()
            self.rebuilds += 1
            self._read_new()
            return True
        return self.reader.files_read > files_before

    def settle(self, watermark_us: int | None) -> None:
        """Make rows behind the watermark final; in a batch job, all rows."""
        self._watermark_us = watermark_us = later([self._watermark_us, watermark_us])
        for number, engine in self._engines.items():
            base, newest_us = self._job.row_bases[number], engine.newest_us
            if self._job.is_batch:
                watermark_us = None if newest_us is None else newest_us + base.slot_us
            if watermark_us is not None:
                engine.advance(base.stream.name, base.final_us(watermark_us))
                self._is_settled = True
            if self._holds_from_us is not None:
                engine.hold_from(self._holds_from_us)
        self.held.holds_from_us = self._holds_from_us
        if self._job.held.bases and (self._watermark_us is not None or self._job.is_batch):
            self.held.settle(self._watermark_us)
            self._is_settled = self._is_settled or self._has_held

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return sum(engine.rows_held for engine in self._engines.values()) + self.held.rows

    @property
    def bytes_held(self) -> int:
        """The memory of the rows."""
        return sum(engine.bytes_held for engine in self._engines.values()) + self.held.bytes_held

    @property
    def overflown(self) -> dict[str, int]:
        """By query, the answers that were NULL because they do not fit in 64 bits."""
        return {name: count for engine in self._engines.values() for name, count in engine.overflown.items()}

    def check_invariants(self) -> None:
        """Assert that every engine is in order."""
        for engine in self._engines.values():
            engine.check_invariants()

    def _read_new(self) -> None:
        for _ in range(ROUNDS):
            if not self.reader.read_new(self._take):
                break

    def _take(self, head: Head, content: bytes) -> None:
        """Take in a file."""
        if self._job.is_batch and self._is_settled:
            # It has rows of all times, and those that were read before are final.
            raise FellBehindError
        self._holds_from_us = later([self._holds_from_us, head.holds_from_us])
        self._is_lossy |= head.is_lossy
        if self._job.is_batch:
            self.held.note_newest(head.newest_slots)
        self.newest_batch = max(self.newest_batch, head.span.last)
        for part in unpack_parts(content):
            # Files that were not merged since still have rows of a base that is gone.
            if part.base in self._job.held.bases:
                self._has_held = True
                self.held.take(part)
            elif part.base in self._engines:
                rows: pa.RecordBatch = part.partials
                self._engines[part.base].push(self._job.row_bases[part.base].stream.name, rows)


def _lossy(query: str) -> HistoryError:
    return HistoryError(
        f"query {query}: rows were lost while the folder could not be written, and nobody knows which rows are "
        f"the last; start the job anew with an empty folder and a new checkpoint"
    )
