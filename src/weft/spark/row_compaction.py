"""Compaction of the row log: of rows behind the watermark only the last of each substream stay.

A row behind the watermark is in its place for good. Once as many rows of its substream as the longest window has come
after it, no lookup at the watermark or later can cover it. Small files are merged with each other, and with an older
file once they are as large as it is; in a merge such rows are left out. The merged file says from where on lookups find
all they need. As in the slot log, it is written first and the others are deleted then, and every step can be repeated.

Cost: a row is written again once for each doubling of the file that it is in. Space: the last rows of every substream
that there ever was, those since the watermark, and as many again until the next merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from weft.spark import slot_compaction
from weft.spark.packing import pack_parts, unpack_parts
from weft.spark.row_bases import RowBase
from weft.spark.slot_compaction import covering, delete, delete_abandoned, size_of
from weft.spark.slot_file import Head, Span, later, read_file, write_file


def tidy_rows(
    folder: Path, bucket_id: int, spans: set[Span], bases: Mapping[int, RowBase], watermark_us: int | None
) -> None:
    """Merge files of a bucket, given those that it has, once there are many.

    Where two attempts at a batch run at once, one finds files gone that the other has merged; that one is done.
    """
    with suppress(FileNotFoundError):
        current = covering(spans)
        for span in spans - set(current):
            delete(folder, span)
        if len(current) >= slot_compaction.MERGE_AT:
            chosen = _chosen(folder, current[: -slot_compaction.KEPT_APART])
            _merge(folder, bucket_id, chosen, bases, watermark_us)
            delete_abandoned(folder)


def last_rows(base: RowBase, rows: pa.RecordBatch, final_us: int) -> pa.RecordBatch:
    """Rows in order, without those before a time that are not among the last of their substream up to then."""
    from weft.engine.tables import KeyTable  # loads kernels, which most batches do without

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


def _chosen(folder: Path, spans: list[Span]) -> list[Span]:
    """Which files to merge, of those that may be: the newest half, and older ones that are no larger than these."""
    chosen = spans[len(spans) // 2 :]
    total = sum(size_of(folder, span) for span in chosen)
    for span in reversed(spans[: len(spans) // 2]):
        size = size_of(folder, span)
        if size > total:
            break
        chosen.insert(0, span)
        total += size
    return chosen


def _merge(
    folder: Path, bucket_id: int, spans: list[Span], bases: Mapping[int, RowBase], watermark_us: int | None
) -> None:
    """Write one file in place of neighbouring ones, given from the oldest on."""
    heads: list[Head] = []
    found: dict[int, list[pa.RecordBatch]] = {}
    for span in spans:
        head, content = read_file(folder / span.name)
        heads.append(head)
        for part in unpack_parts(content):
            # Rows of a base that is gone have no query left that could ask.
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
    span = Span(spans[0].first, spans[-1].last)
    head = Head(bucket_id, span, heads[0].previous, heads[-1].watermark_us, None, {}, holds_from_us)
    write_file(folder, head, pack_parts(parts))
    for one in spans:
        if one != span:
            delete(folder, one)
