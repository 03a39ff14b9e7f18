"""Compaction of the slot log: files that no window needs leave, and many small ones become one.

Files leave from the oldest on, as long as all their partials are older than what any query can ask for. Small files are
merged: the partials of one slot and key become one, those that are too old are left out. The merged file is written
first and the others are deleted then; what a crash leaves between the two is seen by the names, which tell that one
file covers the others, and is deleted by the next batch. So every step can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from time import time
from typing import Protocol

import numpy as np

from weft.planning.plan import Base, StreamPlan, Tree
from weft.spark.packing import Part, pack, pack_parts, unpack_parts
from weft.spark.slot_file import UNFINISHED, Head, Span, read_file, read_head, write_file
from weft.windows.cuts import EVERY_SLOT

KEPT_APART = 16
"""The newest files that are never merged: a reader that is no further behind finds each batch by itself."""
MERGE_AT = 2 * KEPT_APART
"""Small files before they are merged: a reader that starts opens no more than these and the full ones, and a partial is
written again once in 16 batches at most."""
FULL_BYTES = 8 << 20
"""A file of this size is not merged again: rewriting costs a bucket no more than half a megabyte a batch on average."""

ABANDONED_S = 3600.0
"""An unfinished file of this age is nobody's: no task writes one file for an hour."""


class LoggedBase(Protocol):
    """What the log must know of a base: how its partials are made, and for how long lookups need them."""

    @property
    def plan(self) -> StreamPlan:
        """The plan of its stream."""

    @property
    def base(self) -> Base:
        """The base."""

    @property
    def lookback_us(self) -> int:
        """How far before the time up to which windows have closed a lookup may reach."""


def oldest_needed(base: LoggedBase, closed_us: int) -> int:
    """The first slot of a base that a lookup can ask for, once windows have closed up to a time."""
    return (closed_us - base.lookback_us) // base.base.granularity


def covering(spans: Iterable[Span]) -> list[Span]:
    """The files that no other file covers, in the order of their batches."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.first, -span.last)):
        if not kept or not kept[-1].covers(span):
            kept.append(span)
    return kept


def tidy(
    folder: Path, bucket_id: int, spans: set[Span], bases: Mapping[int, LoggedBase], closed_us: int | None
) -> None:
    """Delete and merge files of a bucket, given those that it has.

    Where two attempts at a batch run at once, one finds files gone that the other has merged; that one is done.
    """
    with suppress(FileNotFoundError):
        _tidy(folder, bucket_id, spans, bases, closed_us)


def _tidy(
    folder: Path, bucket_id: int, spans: set[Span], bases: Mapping[int, LoggedBase], closed_us: int | None
) -> None:
    current = covering(spans)
    for span in spans - set(current):
        delete(folder, span)
    while len(current) > 1 and _is_past(read_head(folder / current[0].name), bases, closed_us):
        delete(folder, current.pop(0))
    if len(current) >= MERGE_AT:
        small = list(takewhile(lambda span: size_of(folder, span) < FULL_BYTES, reversed(current)))
        if len(small) >= MERGE_AT:
            _merge(folder, bucket_id, small[: KEPT_APART - 1 : -1], bases, closed_us)
            delete_abandoned(folder)


def _is_past(head: Head, bases: Mapping[int, LoggedBase], closed_us: int | None) -> bool:
    """Whether no query can ask for anything of a file any more."""
    if closed_us is None:
        return False
    newest = ((bases.get(base), slot) for base, slot in head.newest_slots.items())
    # A base that is gone has no query left that could ask.
    return all(base is None or slot < oldest_needed(base, closed_us) for base, slot in newest)


def _merge(
    folder: Path, bucket_id: int, spans: list[Span], bases: Mapping[int, LoggedBase], closed_us: int | None
) -> None:
    """Write one file in place of neighbouring ones, given from the oldest on."""
    heads: list[Head] = []
    parts: dict[int, list[Part]] = {}
    for span in spans:
        head, content = read_file(folder / span.name)
        heads.append(head)
        for part in unpack_parts(content):
            if part.base in bases:
                parts.setdefault(part.base, []).append(part)
    merged = [part for base, some in parts.items() for part in merged_partials(bases[base], some, closed_us)]
    newest = {part.base: int(np.asarray(part.partials.column("slot")).max()) for part in merged}
    span = Span(spans[0].first, spans[-1].last)
    head = Head(bucket_id, span, heads[0].previous, heads[-1].watermark_us, heads[-1].closed_us, newest)
    write_file(folder, head, pack_parts(merged))
    for one in spans:
        if one != span:
            delete(folder, one)


def merged_partials(fed: LoggedBase, parts: list[Part], closed_us: int | None) -> Iterable[Part]:
    """The partials of one base as one part, or none where nothing is left."""
    from weft.engine.slot_store import SlotStore  # loads kernels, which most batches do without

    store = SlotStore(fed.plan, _as_tree(fed.base))
    for part in parts:
        store.append(part.partials)
    if closed_us is not None:
        store.evict(oldest_needed(fed, closed_us))
    partials = store.partials()
    if partials.num_rows:
        yield Part(fed.base.number, pack(partials), partials)


def _as_tree(base: Base) -> Tree:
    """A tree that holds what the base holds."""
    return Tree(
        number=base.number,
        base=base.number,
        clock=base.clock,
        granularity=base.granularity,
        group_by=base.group_by,
        predicates=base.predicates,
        components=base.components,
        queries=(),
        cuts=EVERY_SLOT,
    )


def delete_abandoned(folder: Path) -> None:
    """Delete what attempts that were killed while they wrote have left."""
    for path in folder.glob(f"*{UNFINISHED}"):
        if time() - path.stat().st_mtime > ABANDONED_S:
            path.unlink(missing_ok=True)


def size_of(folder: Path, span: Span) -> int:
    """The bytes of a file."""
    return (folder / span.name).stat().st_size


def delete(folder: Path, span: Span) -> None:
    """Delete a file, if it is there."""
    (folder / span.name).unlink(missing_ok=True)
