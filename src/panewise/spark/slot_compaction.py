"""Compaction of the slot log: files that no window needs are deleted, and many small ones become one.

The oldest files are deleted as long as all their partials are older than anything a query can ask for. Small files are
merged: the partials of one slot and key become one, and partials that are too old are left out. The merged file is
written first, then the others are deleted. If a crash comes between the two, the names show that one file covers the
others, and the next batch deletes those. So every step can be repeated.

A file that cannot be read is named in the log of the process and left alone: no file is deleted because of its name
only, and files are not merged over one that is missing between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from time import time
from typing import Protocol

import numpy as np

from panewise.errors import SlotLogError
from panewise.planning.trees import Base, StreamPlan, Tree
from panewise.spark.packing import PackedPart, pack, pack_parts, unpack_parts
from panewise.spark.slot_file import (
    BatchSpan,
    Head,
    later,
    read_file,
    read_head,
    readable,
    tell_once,
    write_file,
)
from panewise.spark.whole_file import UNFINISHED
from panewise.windows.cuts import EVERY_SLOT

KEPT_APART = 16
"""So many of the newest files are never merged: a reader that is not further behind finds each batch by itself."""
MERGE_AT = 2 * KEPT_APART
"""So many small files are merged at once. A reader that starts opens at most these and the full ones, and a partial is
written again at most once in 16 batches."""
FULL_BYTES = 8 << 20
"""A file of this size is not merged again: rewriting then costs a bucket at most half a megabyte a batch on average."""
GATHER_AT = 8
"""So many full files are merged with the small ones where lookups go back to the start: no file is ever too old then,
and the partials of a key become one."""

ABANDONED_S = 3600.0
"""An unfinished file of this age is abandoned: no task writes one file for an hour."""


class LoggedBase(Protocol):
    """What the log must know about a base: how its partials are made, and how long lookups need them."""

    @property
    def plan(self) -> StreamPlan:
        """The plan of its stream."""

    @property
    def base(self) -> Base:
        """The base."""

    @property
    def lookback_us(self) -> int:
        """How far before the time up to which windows have closed a lookup may reach."""

    @property
    def logs_gather(self) -> bool:
        """Whether lookups go back to the start, so that what is older stays as one partial for each key."""


def oldest_needed(base: LoggedBase, closed_us: int) -> int:
    """The first slot of a base that a lookup can ask for, once windows have closed up to a time."""
    return (closed_us - base.lookback_us) // base.base.granularity


def covering(spans: Iterable[BatchSpan]) -> list[BatchSpan]:
    """The files that no other file covers, in the order of their batches."""
    kept: list[BatchSpan] = []
    for span in sorted(spans, key=lambda span: (span.first, -span.last)):
        if not kept or not kept[-1].covers(span):
            kept.append(span)
    return kept


def covering_files(folder: Path, spans: Iterable[BatchSpan]) -> list[BatchSpan]:
    """Like `covering`, but only a file that can be read covers others."""
    left = set(spans)
    while True:
        current = covering(left)
        covered = left - set(current)
        needed = (span for span in current if any(map(span.covers, covered)))
        unread = {span for span in needed if readable(read_file, folder / span.name) is None}
        if not unread:
            return current
        left -= unread


def past_files(
    folder: Path, current: list[BatchSpan], bases: Mapping[int, LoggedBase], closed_us: int | None
) -> tuple[list[BatchSpan], int | None]:
    """The oldest files, as far as no query can ask for them any more, and the first batch of those after them.

    The newest file always stays. Cost: a look at the head of each of them, and of the one after.
    """
    past: list[BatchSpan] = []
    for span in current[:-1]:
        head = readable(read_head, folder / span.name)
        if head is None:
            continue  # Also where another attempt at this batch was faster.
        if not _is_past(head, bases, closed_us):
            return past, span.first
        past.append(span)
    return past, current[-1].first if current else None


def tidy(folder: Path, spans: Iterable[BatchSpan], bases: Mapping[int, LoggedBase], closed_us: int | None) -> None:
    """Delete and merge files of a bucket, given those that it has, without those that are past.

    If two attempts at a batch run at once, one may miss files that the other has merged; it then has nothing to do.
    """
    with tidying():
        current = covering_files(folder, spans)
        delete_covered(folder, spans, current)
        if len(current) >= MERGE_AT:
            small = list(takewhile(lambda span: size_of(folder, span) < FULL_BYTES, reversed(current)))
            if len(small) >= MERGE_AT:
                merged = small[: KEPT_APART - 1 : -1]
                full = current[: len(current) - len(small)]
                if len(full) >= GATHER_AT and any(base.logs_gather for base in bases.values()):
                    merged = [*full, *merged]
                _merge(folder, merged, bases, closed_us)
                delete_abandoned(folder)


@contextmanager
def tidying() -> Iterator[None]:
    """Files that are gone, or cannot be read, put tidying off and nothing else."""
    try:
        yield
    except FileNotFoundError:
        pass
    except SlotLogError as error:
        tell_once(f"{error}; until then files of this bucket are not merged")


def read_neighbours(folder: Path, spans: list[BatchSpan]) -> Iterator[tuple[Head, bytes]]:
    """Files to merge, from the oldest on; raises where one is missing between them."""
    last: int | None = None
    for span in spans:
        head, content = read_file(folder / span.name)
        if last is not None and head.previous != last:
            raise SlotLogError(f"{folder} lacks the file of batch {head.previous}; restore it")
        last = span.last
        yield head, content


def _is_past(head: Head, bases: Mapping[int, LoggedBase], closed_us: int | None) -> bool:
    """Whether no query can ask for anything in a file any more."""
    if closed_us is None:
        return False
    newest = ((bases.get(base), slot) for base, slot in head.newest_slots.items())
    # A base that is gone has no query left that could ask.
    return all(
        base is None or (not base.logs_gather and slot < oldest_needed(base, closed_us)) for base, slot in newest
    )


def _merge(folder: Path, spans: list[BatchSpan], bases: Mapping[int, LoggedBase], closed_us: int | None) -> None:
    """Replace neighbouring files by one; give the oldest first."""
    heads: list[Head] = []
    parts: dict[int, list[PackedPart]] = {}
    for head, content in read_neighbours(folder, spans):
        heads.append(head)
        for part in unpack_parts(content):
            if part.base in bases:
                parts.setdefault(part.base, []).append(part)
    merged = [part for base, some in parts.items() for part in merged_partials(bases[base], some, closed_us)]
    newest = {part.base: int(np.asarray(part.partials.column("slot")).max()) for part in merged}
    span = BatchSpan(spans[0].first, spans[-1].last)
    last = heads[-1]
    holds_from_us = later(head.holds_from_us for head in heads)
    head = replace(last, span=span, previous=heads[0].previous, newest_slots=newest, holds_from_us=holds_from_us)
    write_file(folder, head, pack_parts(merged))
    delete_covered(folder, spans, [span])


def merged_partials(fed: LoggedBase, parts: list[PackedPart], closed_us: int | None) -> Iterable[PackedPart]:
    """The partials of one base as one part, or no part if nothing is left."""
    # Imported here: it loads kernels, which most batches do not need.
    from panewise.engine.partial_store import PartialStore

    store = PartialStore(fed.plan, _as_tree(fed.base))
    for part in parts:
        store.append(part.partials)
    if closed_us is not None and fed.logs_gather:
        store.gather(oldest_needed(fed, closed_us), at_once=True)
    elif closed_us is not None:
        store.evict(oldest_needed(fed, closed_us))
    partials = store.partials()
    if partials.num_rows:
        yield PackedPart(fed.base.number, pack(partials), partials)


def gathered_partials(fed: LoggedBase, parts: list[PackedPart]) -> Iterable[PackedPart]:
    """Partials of one base as one for each key and shard, in their newest slot."""
    from panewise.engine.partial_store import PartialStore

    store = PartialStore(fed.plan, _as_tree(fed.base))
    newest = -(2**63)
    for part in parts:
        store.append(part.partials)
        newest = max(newest, int(np.asarray(part.partials.column("slot")).max()))
    store.gather(newest + 1, at_once=True)
    partials = store.partials()
    if partials.num_rows:
        yield PackedPart(fed.base.number, pack(partials), partials)


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
    """Delete what killed attempts have left unfinished."""
    for path in folder.glob(f"*{UNFINISHED}"):
        if time() - path.stat().st_mtime > ABANDONED_S:
            path.unlink(missing_ok=True)


def delete_covered(folder: Path, spans: Iterable[BatchSpan], current: Iterable[BatchSpan]) -> None:
    """Delete the files that others among them cover; a file that is none of Panewise is left alone."""
    by = set(current)
    for span in set(spans) - by:
        if any(other.covers(span) for other in by) and readable(read_file, folder / span.name) is not None:
            delete(folder, span)


def size_of(folder: Path, span: BatchSpan) -> int:
    """The bytes of a file."""
    return (folder / span.name).stat().st_size


def delete(folder: Path, span: BatchSpan) -> None:
    """Delete a file if it exists."""
    (folder / span.name).unlink(missing_ok=True)
