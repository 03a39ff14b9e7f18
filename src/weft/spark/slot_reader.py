"""The reader of a slot log, or of a row log: finds what is new in all buckets' files, each batch once and in order.

While it reads, files appear, are merged into others, and leave. Per bucket it knows the last batch that it has read.
Files up to there are old news; a file from there on is new when it follows the last batch without a gap, which each
file tells (`previous`). A merged file that begins before and ends after that point cannot be taken apart: the reader
has fallen behind, and reads all from the beginning (`FellBehindError`).

A bucket's folder is listed when its time of change is new, or so young that a change in the same tick may hide.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import sleep, time, time_ns

from weft.spark.slot_compaction import covering
from weft.spark.slot_file import NO_BATCH, Head, SlotLogError, Span, read_file
from weft.spark.slot_log import SLOTS, bucket_folder, list_spans

SETTLED_NS = 2_000_000_000
"""A folder that changed less than this ago is listed again: times of change are as coarse as two seconds somewhere."""
PAUSE_S = 0.005
"""A listing that misses a file is repeated after a pause, then after twice that, and so on: names that come and go
while a folder is listed may not be seen."""
LONGEST_PAUSE_S = 0.2
"""After a pause of this length a file is lost."""

Take = Callable[[Head, bytes], None]
"""What is done with a new file."""


class FellBehindError(Exception):
    """Batches that were not read have been merged with ones that were, or have left: read all anew."""


@dataclass
class _Bucket:
    """How far one bucket's files have been read."""

    folder: Path
    first: int = NO_BATCH
    last: int = NO_BATCH
    changed_ns: int = -1
    is_settled: bool = False


class SlotReader:
    """Follows the files of some buckets.

    With `may_skip_batches` files that were missed are of no interest, as where none has partials.
    """

    def __init__(
        self, folder: Path, bucket_ids: Iterable[int], log: str = SLOTS, *, may_skip_batches: bool = False
    ) -> None:
        self._buckets = [_Bucket(bucket_folder(folder, bucket, log)) for bucket in bucket_ids]
        self._may_skip_batches = may_skip_batches
        self.files_read = 0
        self.bytes_read = 0
        self.lag_s: float | None = None
        """How old the newest file was when it was read last."""

    def read_new(self, take: Take) -> bool:
        """Hand over every new file, the oldest of a bucket first; whether there was one."""
        found = [self._read_bucket(bucket, take) for bucket in self._buckets]
        return any(found)

    def _read_bucket(self, bucket: _Bucket, take: Take) -> bool:
        changed_ns = _changed_ns(bucket.folder)
        if changed_ns == bucket.changed_ns and bucket.is_settled:
            return False
        listed_ns = time_ns()
        before = bucket.last
        pause_s = PAUSE_S
        while (missing := self._read_listed(bucket, take)) is not None:
            if pause_s > LONGEST_PAUSE_S:
                raise SlotLogError(
                    f"{bucket.folder / missing} is missing; restore it, or start the job anew with an empty folder and "
                    f"a new checkpoint, and open a new client"
                )
            sleep(pause_s)
            pause_s *= 2
        bucket.changed_ns = changed_ns
        bucket.is_settled = listed_ns - changed_ns > SETTLED_NS
        return bucket.last != before

    def _read_listed(self, bucket: _Bucket, take: Take) -> str | None:
        """Read the new files of one listing; the name of one that should have been there and was not."""
        spans = covering(list_spans(bucket.folder))
        if bucket.last != NO_BATCH and (not spans or spans[-1].last < bucket.last):
            return Span(bucket.last, bucket.last).name
        if spans and spans[0].last < bucket.first and not self._may_skip_batches:
            # The first listing fell between a merge and its deletions, and missed the oldest files.
            raise FellBehindError
        new = [span for span in spans if span.last > bucket.last]
        for span in new:
            if span.first <= bucket.last and not self._may_skip_batches:
                raise FellBehindError
            path = bucket.folder / span.name
            try:
                head, content = read_file(path)
                written_s = path.stat().st_mtime
            except FileNotFoundError:
                return span.name
            if head.previous != bucket.last and bucket.last != NO_BATCH and not self._may_skip_batches:
                if span == spans[0]:
                    raise FellBehindError
                return Span(head.previous, head.previous).name
            take(head, content)
            if bucket.last == NO_BATCH:
                bucket.first = span.first
            bucket.last = span.last
            self.files_read += 1
            self.bytes_read += len(content)
            self.lag_s = time() - written_s
        return None


def _changed_ns(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return -1
