"""The reader of a slot log or a row log: it finds what is new in all buckets' files, each batch once and in order.

While it reads, files appear, are merged into others, and are deleted. For each bucket it knows the last batch that it
has read. Files up to there are old. A later file is new if it follows the last batch without a gap, which each file
tells (`previous`). A merged file that begins before and ends after that point cannot be taken apart: the reader has
fallen behind, and reads everything from the beginning (`FellBehindError`).

What must be there is known from the files themselves and from the bucket's manifest. A file that should be there and is
not, or cannot be read, is an error: lookups would answer from a part. One that cannot be read and that nobody needs is
named in the log of the process and left alone.

A bucket's folder is listed if its time of change is new, or so recent that another change may hide in the same tick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep, time, time_ns

from panewise.errors import LostManifestError, SlotLogError
from panewise.spark.manifest import manifest_path, read_manifest
from panewise.spark.slot_compaction import covering
from panewise.spark.slot_file import NO_BATCH, BatchSpan, Head, read_file, read_head, tell_left_alone
from panewise.spark.slot_log import SLOTS, bucket_folder, list_spans

SETTLED_NS = 2_000_000_000
"""A folder that changed less than this ago is listed again: some disks round times of change to two seconds."""
PAUSE_S = 0.005
"""If a listing misses a file, it is repeated after a pause, then after twice that, and so on: a listing may not show
names that come and go meanwhile."""
LONGEST_PAUSE_S = 0.2
"""If a file is still missing after a pause of this length, it is lost."""

Take = Callable[[Head, bytes], None]
"""Takes a new file."""


class FellBehindError(Exception):
    """Unread batches were merged with batches that were read, or deleted: read everything from the start."""


@dataclass
class _Bucket:
    """How far one bucket's files have been read."""

    number: int
    folder: Path
    last: int = NO_BATCH
    changed_ns: int = -1
    is_settled: bool = False
    unread: dict[BatchSpan, SlotLogError] = field(default_factory=dict)
    """Files that could not be read when the folder was listed last, and why."""

    def missing(self, span: BatchSpan) -> SlotLogError:
        """What to say of a file that should be there: it cannot be read, or it is gone."""
        for other, error in self.unread.items():
            if other.covers(span):
                return error
        return SlotLogError(
            f"{self.folder / span.name} is missing; restore it, or start the job anew with an empty folder and a new "
            f"checkpoint, and open a new client"
        )


class SlotReader:
    """Follows the files of some buckets.

    With `may_skip_batches`, missed files do not matter, as when no file has partials.
    """

    def __init__(
        self, folder: Path, bucket_ids: Iterable[int], log: str = SLOTS, *, may_skip_batches: bool = False
    ) -> None:
        self._root = folder
        self._log = log
        self._buckets = [_Bucket(bucket, bucket_folder(folder, bucket, log)) for bucket in bucket_ids]
        self._may_skip_batches = may_skip_batches
        self.files_read = 0
        self.bytes_read = 0
        self.lag_s: float | None = None
        """The age of the newest file when it was read."""
        self.written_s: float | None = None
        """When the newest of the files that were read was written, in Unix seconds."""

    @property
    def unread(self) -> list[str]:
        """The files that cannot be read and that nobody needs."""
        return [str(bucket.folder / span.name) for bucket in self._buckets for span in bucket.unread]

    @property
    def least_batch(self) -> int:
        """The last batch that has been read of every bucket."""
        return min((bucket.last for bucket in self._buckets), default=NO_BATCH)

    def read_new(self, take: Take) -> bool:
        """Hand over every new file, the oldest of a bucket first; True if there was one."""
        found = [self._read_bucket(bucket, take) for bucket in self._buckets]
        return any(found)

    def _read_bucket(self, bucket: _Bucket, take: Take) -> bool:
        try:
            changed_ns = _changed_ns(bucket.folder)
            if changed_ns == bucket.changed_ns and bucket.is_settled:
                return False
            listed_ns = time_ns()
            before = bucket.last
            bucket.unread = {}
            pause_s = PAUSE_S
            while (missing := self._read_listed(bucket, take)) is not None:
                if pause_s > LONGEST_PAUSE_S:
                    raise bucket.missing(missing)
                sleep(pause_s)
                pause_s *= 2
                bucket.unread = {}
        except OSError as error:
            raise SlotLogError(
                f"cannot read {bucket.folder}: {error.strerror}; give this user the right to read it"
            ) from error
        for error_of_file in bucket.unread.values():
            tell_left_alone(error_of_file)
        bucket.changed_ns = changed_ns
        bucket.is_settled = listed_ns - changed_ns > SETTLED_NS
        return bucket.last != before

    def _read_listed(self, bucket: _Bucket, take: Take) -> BatchSpan | None:
        """Read the new files of one listing; one that should have been there and was not."""
        # Before the listing: the manifest is written after the file that it names.
        must_have = read_manifest(self._root, self._log, bucket.number)
        listed = list_spans(bucket.folder)
        while True:
            spans = covering(span for span in listed if span not in bucket.unread)
            last = max(bucket.last, NO_BATCH if must_have is None else must_have)
            if last != NO_BATCH and (not spans or spans[-1].last < last):
                return BatchSpan(last, last)
            if not spans:
                return None
            span = spans[-1]
            try:
                if bucket.last == NO_BATCH:
                    missing = self._missing_at_first(bucket, spans, must_have)
                    if missing is not None:
                        return missing
                for span in spans:
                    missing = self._read_span(bucket, spans, span, take)
                    if missing is not None:
                        return missing
            except SlotLogError as error:
                bucket.unread[span] = error
                continue
            return None

    def _missing_at_first(self, bucket: _Bucket, spans: list[BatchSpan], must_have: int | None) -> BatchSpan | None:
        """What a log that nothing was read of must have, and has not."""
        try:
            newest = read_head(bucket.folder / spans[-1].name)
        except FileNotFoundError:
            return spans[-1]
        if spans[0].first > newest.oldest and not self._may_skip_batches:
            return BatchSpan(newest.oldest, newest.oldest)
        # The very first file may be there before the manifest is.
        if must_have is None and newest.previous != NO_BATCH:
            raise LostManifestError(
                f"{manifest_path(self._root, self._log, bucket.number)} is missing, and nothing tells if bucket "
                f"{bucket.number} has all its files; restore it, or let the job run on: the next batch with events of "
                f"this bucket writes it anew"
            )
        return None

    def _read_span(self, bucket: _Bucket, spans: list[BatchSpan], span: BatchSpan, take: Take) -> BatchSpan | None:
        """Read a file if it is new; one that should have been there before it and was not, or itself if it is gone."""
        if span.last <= bucket.last:
            return None
        path = bucket.folder / span.name
        try:
            head, content = read_file(path)
            written_s = path.stat().st_mtime
        except FileNotFoundError:
            return span
        if head.bucket != bucket.number:
            raise SlotLogError(f"{path} is a file of bucket {head.bucket}", "put it back into the folder of that")
        if span.first <= bucket.last and not self._may_skip_batches:
            raise FellBehindError
        if head.previous != bucket.last and bucket.last != NO_BATCH and not self._may_skip_batches:
            if span == spans[0]:
                raise FellBehindError
            return BatchSpan(head.previous, head.previous)
        take(head, content)
        bucket.last = span.last
        self.files_read += 1
        self.bytes_read += len(content)
        self.lag_s = time() - written_s
        self.written_s = max(written_s, self.written_s or written_s)
        return None


def _changed_ns(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return -1
