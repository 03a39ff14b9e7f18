"""The row log: the rows that queries over PARTITION BY ... ROWS need, as files beside those of the slot log.

    FOLDER/rows/bucket-<id>/<batch>.weft   the rows that came to the bucket in a batch and were on time, in order

Files, names and the rule for batches that are repeated are those of the slot log; a batch that brings a bucket no rows
writes none. Rows are written as they come, before the watermark has reached them: who reads them puts them in order. So
nothing waits in the state of the stream, and lookups see a row with the batch that brought it.

Cost of `put`: one file and one look into the bucket's folder; now and then a merge: see `row_compaction`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from weft.spark.packing import pack_parts
from weft.spark.row_bases import RowBase
from weft.spark.row_compaction import last_rows, tidy_rows
from weft.spark.slot_file import Head, Span, write_file
from weft.spark.slot_log import ROWS, files_before, writing

GATHERED_ROWS = 1 << 20
"""Rows of a batch job that are gathered before those that are not among the last are let go."""


class RowLog:
    """The log in a folder, as the workers of a job write it; `bases` are the job's row bases, by number."""

    def __init__(self, folder: str | os.PathLike[str], bases: Mapping[int, RowBase]) -> None:
        self._folder = Path(folder)
        self._bases = bases

    def put(
        self,
        bucket_id: int,
        batch_id: int,
        rows: Mapping[int, pa.RecordBatch],
        watermark_us: int | None,
        *,
        holds_from_us: int | None = None,
    ) -> None:
        """Write the rows of a batch, by their base; `holds_from_us` where earlier lookups would miss some."""
        with writing(self._folder, ROWS, bucket_id) as folder:
            spans, previous = files_before(self._folder, ROWS, bucket_id, batch_id)
            span = Span(batch_id, batch_id)
            content = pack_parts(self._bases[number].part(some) for number, some in rows.items())
            head = Head(bucket_id, span, previous, watermark_us, None, {}, holds_from_us)
            write_file(folder, head, content)
            tidy_rows(folder, bucket_id, {*spans, span}, self._bases, watermark_us)


class LastRows:
    """The last rows of each substream in a batch job, which has all rows and no watermark."""

    def __init__(self, base: RowBase) -> None:
        self._base = base
        self._kept: list[pa.RecordBatch] = []
        self._gathered = 0
        self.holds_from_us: int | None = None
        """Lookups from here on miss nothing; None when no row was let go."""

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
            kept = last_rows(self._base, rows, end_us)
            if kept.num_rows < rows.num_rows:
                self.holds_from_us = end_us
            rows = kept
        self._kept, self._gathered = [rows], 0
        return rows
