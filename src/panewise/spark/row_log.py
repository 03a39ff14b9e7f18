"""The row log: the rows that queries over ROWS and queries with INTO need, as files beside those of the slot log.

    FOLDER/rows/bucket-<id>/<batch>.panewise   the rows that came to the bucket in a batch and were on time, in order

Files, names and the rule for repeated batches are those of the slot log. A batch without rows for a bucket writes no
file. Rows are written as they come, before the watermark has reached them; the reader puts them in order. So nothing
waits in the state of the stream, and lookups see a row as soon as its batch is done.

Cost of `put`: one file and one listing of the bucket's folder; now and then a merge: see `row_compaction`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from panewise.spark.manifest import write_manifest
from panewise.spark.packing import pack_parts
from panewise.spark.row_bases import RowBase
from panewise.spark.row_compaction import LoggedRows, tidy_rows
from panewise.spark.slot_file import NO_BATCH, BatchSpan, Head, write_file
from panewise.spark.slot_log import ROWS, files_before, writing

GATHERED_ROWS = 1 << 20
"""A batch job gathers so many rows before it drops those that are not among the last."""


class RowLog:
    """The log in a folder, as the workers of a job write it; `bases` are by number."""

    def __init__(self, folder: str | os.PathLike[str], bases: Mapping[int, LoggedRows]) -> None:
        self._folder = Path(folder)
        self._bases = bases

    def put(
        self,
        bucket_id: int,
        batches: int | BatchSpan,
        rows: Mapping[int, pa.RecordBatch],
        watermark_us: int | None,
        *,
        holds_from_us: int | None = None,
        written: int = NO_BATCH,
        is_lossy: bool = False,
        newest_us: Mapping[int, int] | None = None,
    ) -> None:
        """Write the rows of a batch, by their base; `holds_from_us` where earlier lookups would miss some.

        `written` is the last batch that was written, where that is known. `is_lossy` if rows were lost before.
        `newest_us` is of a batch job: for a base of each stream, the stream's newest event.
        """
        with writing(self._folder, ROWS, bucket_id) as folder:
            span = batches if isinstance(batches, BatchSpan) else BatchSpan(batches, batches)
            before = files_before(self._folder, ROWS, bucket_id, span.last, written)
            content = pack_parts(self._bases[number].part(some) for number, some in rows.items())
            oldest = min((one.first for one in (*before.spans, span)) if before.oldest is None else [before.oldest])
            head = Head(bucket_id, span, before.previous, watermark_us, None, newest_us or {}, holds_from_us, oldest)
            head = replace(head, is_lossy=is_lossy)
            write_file(folder, head, content)
            tidy_rows(folder, {*before.spans, span}, self._bases, watermark_us)
            write_manifest(self._folder, ROWS, bucket_id, span.last)


class LastRows:
    """The last rows of each substream in a batch job, which has all rows but no watermark."""

    def __init__(self, base: RowBase) -> None:
        self._base = base
        self._kept: list[pa.RecordBatch] = []
        self._gathered = 0
        self.holds_from_us: int | None = None
        """Lookups from here on miss nothing; None if no row was dropped."""

    def append(self, rows: pa.RecordBatch) -> None:
        """Take in rows, in any order."""
        self._kept.append(rows)
        self._gathered += rows.num_rows
        if self._gathered >= GATHERED_ROWS:
            self.rows()

    def rows(self) -> pa.RecordBatch:
        """The last rows, in order."""
        rows = self._base.in_order(self._kept)
        if rows.num_rows:
            newest_us = rows.column(self._base.stream.timestamp)[-1].as_py()
            end_us = self._base.final_us(newest_us) + self._base.slot_us
            kept = self._base.needed(rows, end_us)
            if kept.num_rows < rows.num_rows:
                self.holds_from_us = end_us
            rows = kept
        self._kept, self._gathered = [rows], 0
        return rows
