"""Compaction of the row log: behind the watermark, only the last rows of each substream stay, and what INTO holds.

A row behind the watermark never changes its place. Once its substream has had as many later rows as the longest window
is long, no lookup at the watermark or later can cover it. Small files are merged with each other, and with an older
file once they are as large as it is. A merge leaves such rows out. The merged file says from when on lookups find all
they need. As in the slot log, it is written first, then the others are deleted, and every step can be repeated.

Cost: a row is written again once for each doubling of its file. Space: the last rows of every substream that ever
existed, the rows since the watermark, and as many again until the next merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from panewise.spark import slot_compaction
from panewise.spark.packing import PackedPart, pack_parts, unpack_parts
from panewise.spark.slot_compaction import (
    covering_files,
    delete_abandoned,
    delete_covered,
    read_neighbours,
    size_of,
    tidying,
)
from panewise.spark.slot_file import BatchSpan, Head, later, write_file


class LoggedRows(Protocol):
    """What the row log knows of the rows of a base."""

    def final_us(self, watermark_us: int) -> int:
        """The time before which no row can come any more, at a watermark."""

    def in_order(self, rows: Sequence[pa.RecordBatch], /) -> pa.RecordBatch:
        """Rows of several batches in order."""

    def needed(self, rows: pa.RecordBatch, final_us: int, /) -> pa.RecordBatch:
        """Of rows in order, those that lookups may need once all rows before a time are there."""

    def part(self, rows: pa.RecordBatch, /) -> PackedPart:
        """Rows as a part of an entry."""


def tidy_rows(
    folder: Path, spans: Iterable[BatchSpan], bases: Mapping[int, LoggedRows], watermark_us: int | None
) -> None:
    """Merge files of a bucket, given those that it has, once there are many.

    If two attempts at a batch run at once, one may miss files that the other has merged; it then has nothing to do.
    """
    with tidying():
        current = covering_files(folder, spans)
        delete_covered(folder, spans, current)
        if len(current) >= slot_compaction.MERGE_AT:
            chosen = _chosen(folder, current[: -slot_compaction.KEPT_APART])
            _merge(folder, chosen, bases, watermark_us)
            delete_abandoned(folder)


def _chosen(folder: Path, spans: list[BatchSpan]) -> list[BatchSpan]:
    """Which files to merge: the newest half, and older ones that are not larger than these."""
    chosen = spans[len(spans) // 2 :]
    total = sum(size_of(folder, span) for span in chosen)
    for span in reversed(spans[: len(spans) // 2]):
        size = size_of(folder, span)
        if size > total:
            break
        chosen.insert(0, span)
        total += size
    return chosen


def _merge(folder: Path, spans: list[BatchSpan], bases: Mapping[int, LoggedRows], watermark_us: int | None) -> None:
    """Replace neighbouring files by one; give the oldest first."""
    heads: list[Head] = []
    found: dict[int, list[pa.RecordBatch]] = {}
    for head, content in read_neighbours(folder, spans):
        heads.append(head)
        for part in unpack_parts(content):
            # A base that is gone has no query left that could ask for its rows.
            if part.base in bases:
                found.setdefault(part.base, []).append(part.partials)
    holds_from_us = later(head.holds_from_us for head in heads)
    parts = []
    for number, batches in found.items():
        base = bases[number]
        rows = base.in_order(batches)
        if watermark_us is not None:
            final_us = base.final_us(watermark_us)
            kept = base.needed(rows, final_us)
            if kept.num_rows < rows.num_rows:
                holds_from_us = later([holds_from_us, final_us])
            rows = kept
        parts.append(base.part(rows))
    span = BatchSpan(spans[0].first, spans[-1].last)
    head = replace(heads[-1], span=span, previous=heads[0].previous, holds_from_us=holds_from_us)
    head = replace(head, is_lossy=any(one.is_lossy for one in heads))
    write_file(folder, head, pack_parts(parts))
    delete_covered(folder, spans, [span])
