"""Compaction of the row log: behind the watermark, only the last rows of each substream stay.

A row behind the watermark never changes its place. Once its substream has had as many later rows as the longest window
is long, no lookup at the watermark or later can cover it. Small files are merged with each other, and with an older
file once they are as large as it is. A merge leaves such rows out. The merged file says from when on lookups find all
they need. As in the slot log, it is written first, then the others are deleted, and every step can be repeated.

Cost: a row is written again once for each doubling of its file. Space: the last rows of every substream that ever
existed, the rows since the watermark, and as many again until the next merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from panewise.spark import slot_compaction
from panewise.spark.packing import pack_parts, unpack_parts
from panewise.spark.row_bases import RowBase
from panewise.spark.slot_compaction import (
    covering_files,
    delete_abandoned,
    delete_covered,
    read_neighbours,
    size_of,
    tidying,
)
from panewise.spark.slot_file import BatchSpan, Head, later, write_file


def tidy_rows(folder: Path, spans: Iterable[BatchSpan], bases: Mapping[int, RowBase], watermark_us: int | None) -> None:
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


def last_rows(base: RowBase, rows: pa.RecordBatch, final_us: int) -> pa.RecordBatch:
    """Rows in order. Of the rows before a time, only the last of each substream stay."""
    from panewise.engine.tables import KeyTable  # Imported here: it loads kernels, which most batches do not need.

    times = np.asarray(rows.column(base.stream.timestamp))
    count = int(np.searchsorted(times, final_us))
    keep = np.arange(len(times)) >= count
    for attributes, most in base.kept_rows.items():
        kinds = [base.stream.attributes[name] for name in attributes]
        keys = KeyTable(kinds).ids([rows.column(name).slice(0, count) for name in attributes], count)
        order = np.argsort(keys, kind="stable")
        ends = np.searchsorted(keys[order], keys[order], side="right")
        keep[order[ends - np.arange(count) <= most]] = True
    return rows.filter(pa.array(keep))


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


def _merge(folder: Path, spans: list[BatchSpan], bases: Mapping[int, RowBase], watermark_us: int | None) -> None:
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
            kept = last_rows(base, rows, final_us)
            if kept.num_rows < rows.num_rows:
                holds_from_us = later([holds_from_us, final_us])
            rows = kept
        parts.append(base.part(rows))
    span = BatchSpan(spans[0].first, spans[-1].last)
    head = replace(heads[-1], span=span, previous=heads[0].previous, holds_from_us=holds_from_us)
    head = replace(head, is_lossy=any(one.is_lossy for one in heads))
    write_file(folder, head, pack_parts(parts))
    delete_covered(folder, spans, [span])
