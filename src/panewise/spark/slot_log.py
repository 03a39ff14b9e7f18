"""The slot log: the partials of every bucket as files, batch by batch, for processes that answer lookups.

    FOLDER/job.json                         what the job is, so that a reader plans the same
    FOLDER/slots/bucket-<id>/<batch>.panewise   what the bucket kept of a batch: see `slot_file`
    FOLDER/rows/...                         single rows, where queries need them: see `row_log`
    FOLDER/manifest/...                     up to which batch each bucket must have files: see `manifest`

The task that runs a bucket's batch writes the bucket's files, one batch after the other. A repeated batch writes the
same file again, so nothing counts twice. A key belongs to one bucket (of each base), so a reader is right about a key
without waiting for other buckets. Old files are deleted and small ones merged: see `slot_compaction`.

Whoever writes knows from the state of the stream what the log must have, and refuses to go on where it has less.

Cost of `put`: two files, one look into the bucket's folder and at the heads of its oldest and newest file; now and then
a merge.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from panewise.errors import FolderError, SlotLogError, UnusableFolderError
from panewise.language.workload import print_workload
from panewise.planning.cost import DEFAULT_TOLERANCE
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.spark.identity import identity_of, what_differs
from panewise.spark.manifest import write_manifest
from panewise.spark.packing import PackedPart, pack_parts
from panewise.spark.slot_compaction import LoggedBase, covering_files, delete, past_files, tidy
from panewise.spark.slot_file import (
    FORMAT,
    NO_BATCH,
    BatchSpan,
    Head,
    read_head,
    readable,
    tell_once,
    write_file,
)
from panewise.spark.whole_file import UNFINISHED, make_folder, write_whole

if TYPE_CHECKING:
    from panewise.spark.job import Job

JOB_FILE = "job.json"
_UNSAID = {"is_batch": False, "method": WEAVE_SHARE, "tolerance": DEFAULT_TOLERANCE}
"""The value if the file of an older Panewise does not have one."""
PROBE_BYTES = 1 << 16
SLOTS = "slots"
ROWS = "rows"
"""The folders of the slot log and of the row log."""


@dataclass(frozen=True)
class Entry:
    """What a bucket kept in one batch: packed partials (maybe none), and the newest slot of each base among them.

    `watermark_us` is the batch's watermark (None before there is one); windows that end up to `closed_us` have been
    answered (None before the first). `changes` is how many batches had brought statements before, and
    `after` the last batch before that every bucket took part in. `holds_from_us` if partials before were lost.
    """

    content: bytes
    newest_slots: Mapping[int, int]
    watermark_us: int | None
    closed_us: int | None
    changes: int = 0
    after: int = NO_BATCH
    holds_from_us: int | None = None

    @classmethod
    def of(
        cls,
        parts: Sequence[PackedPart],
        watermark_us: int | None,
        closed_us: int | None,
        content: bytes | None = None,
        changes: int = 0,
    ) -> Entry:
        """The entry of some parts; give `content` if you already have `pack_parts(parts)`."""
        newest: dict[int, int] = {}
        for part in (part for part in parts if part.partials.num_rows):
            slot = int(np.asarray(part.partials.column("slot")).max())
            newest[part.base] = max(slot, newest.get(part.base, slot))
        return cls(pack_parts(parts) if content is None else content, newest, watermark_us, closed_us, changes)


class SlotLog:
    """The log in a folder, as the workers of a job write it; `bases` are the job's, by number."""

    def __init__(self, folder: str | os.PathLike[str], bases: Mapping[int, LoggedBase]) -> None:
        self._folder = Path(folder)
        self._bases = bases

    def put(self, bucket_id: int, batches: int | BatchSpan, entry: Entry, written: int = NO_BATCH) -> None:
        """Write what a bucket kept in a batch. Call it each time that the bucket is called, in the order of batches.

        The same batch again replaces its file, unless the entry has no partials: Spark may call a bucket twice in a
        batch, with rows and then by a timer. `written` is the last batch that was written, where that is known.
        A bucket that could not write for some batches writes them as one file.
        """
        with writing(self._folder, SLOTS, bucket_id) as folder:
            span = batches if isinstance(batches, BatchSpan) else BatchSpan(batches, batches)
            before = files_before(self._folder, SLOTS, bucket_id, span.last, written)
            if not entry.content and any(one.covers(span) for one in before.spans):
                return
            spans = {*before.spans, span}
            past, oldest = past_files(folder, covering_files(folder, spans), self._bases, entry.closed_us)
            if not past and before.oldest is not None:
                oldest = before.oldest
            head = Head(
                bucket_id,
                span,
                before.previous,
                entry.watermark_us,
                entry.closed_us,
                entry.newest_slots,
                entry.holds_from_us,
                oldest=span.first if oldest is None else oldest,
                changes=entry.changes,
                after=entry.after,
            )
            # What may be missed from now on is said before it is deleted.
            write_file(folder, head, entry.content)
            for one in past:
                delete(folder, one)
            tidy(folder, spans - set(past), self._bases, entry.closed_us)
            write_manifest(self._folder, SLOTS, bucket_id, span.last)


@contextmanager
def writing(root: Path, log: str, bucket_id: int) -> Iterator[Path]:
    """A bucket's folder for writing; if the disk refuses, the error has the cure."""
    folder = bucket_folder(root, bucket_id, log)
    try:
        # Another folder at this place, as where a file system is not mounted, must not get a log that begins anew.
        os.stat(root / JOB_FILE)
        make_folder(root, str(folder.relative_to(root)))
        yield folder
    except OSError as error:
        raise UnusableFolderError(
            f"cannot write the slot log in {folder}: {error.strerror or error}; every worker must be able to write to "
            f"this folder"
        ) from error


def try_to_write(root: Path) -> None:
    """Raise if the shared folder cannot be written, before more is gathered for it."""
    path = root / f"probe.{uuid4().hex}{UNFINISHED}"
    try:
        os.stat(root / JOB_FILE)
        try:
            with path.open("xb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UnusableFolderError(f"cannot write to {root}: {error}") from error


@dataclass(frozen=True)
class FilesBefore:
    """The files that a bucket has when a batch is written, and what the one before it says."""

    spans: list[BatchSpan]
    previous: int
    """The last batch before; NO_BATCH where there is none."""
    oldest: int | None
    """The first batch that the log had then; None where that is not known."""


def files_before(root: Path, log: str, bucket_id: int, batch_id: int, written: int = NO_BATCH) -> FilesBefore:
    """What a bucket has when a batch is written.

    A log that is ahead of the batch belongs to another run, and is left alone. One that lacks what was written was
    moved, or is another folder: to go on there would make lookups answer from a part.
    """
    folder = bucket_folder(root, bucket_id, log)
    spans = []
    for span in list_spans(folder):
        if span.last <= batch_id:
            spans.append(span)
        elif _is_of(folder, span, bucket_id):
            raise SlotLogError(
                f"the slot log in {root} is ahead of this job: bucket {bucket_id} has batch {span.last}, and "
                f"now batch {batch_id} runs; a job with a new checkpoint needs a new or empty folder"
            )
    newest = max((span.last for span in spans), default=NO_BATCH)
    if newest < written:
        raise _lost(folder, written, "no file at all" if newest == NO_BATCH else f"files up to batch {newest}")
    earlier = max((span.last for span in spans if span.last < batch_id), default=NO_BATCH)
    previous = written if NO_BATCH < written < batch_id else earlier
    if newest == NO_BATCH:
        return FilesBefore(spans, previous, None)
    # A batch that is repeated may have deleted files before, and then its own file says so.
    told = [_oldest_by(folder, span) for span in spans if span.last in (previous, batch_id)]
    oldest = max((one for one in told if one is not None), default=None)
    first = min(span.first for span in spans)
    if oldest is not None and first > oldest:
        raise _lost(folder, oldest, f"files from batch {first} on")
    return FilesBefore(spans, previous, oldest)


def _oldest_by(folder: Path, span: BatchSpan) -> int | None:
    """The first batch that the log had, by what a file says; None for one that cannot be read."""
    head = readable(read_head, folder / span.name)
    return None if head is None else head.oldest


def _lost(folder: Path, batch: int, found: str) -> SlotLogError:
    return SlotLogError(
        f"{folder} lacks what this job wrote in batch {batch}: it has {found}. It was moved, emptied, or is another "
        f"folder; put its files back and start the job again, or start anew with an empty folder and a new checkpoint"
    )


def _is_of(folder: Path, span: BatchSpan, bucket_id: int) -> bool:
    """Whether a file is one of the bucket's log; one that only looks like it by its name is told."""
    head = readable(read_head, folder / span.name)
    return head is not None and head.bucket == bucket_id


def bucket_folder(folder: Path, bucket_id: int, log: str = SLOTS) -> Path:
    """The folder of a bucket's files in a log."""
    return folder / log / f"bucket-{bucket_id}"


def list_spans(folder: Path) -> list[BatchSpan]:
    """The files of a bucket in the order of batches; none if the folder is missing."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    spans = {name: BatchSpan.of(name) for name in names}
    for name in names:
        if spans[name] is None and not name.endswith(UNFINISHED):
            tell_once(f"{folder / name} is no file of Panewise; it is left alone")
    return sorted(span for span in spans.values() if span is not None)


def write_job(folder: str | os.PathLike[str], job: Job) -> None:
    """Describe the job in the folder; refuse a folder that belongs to another job."""
    path = Path(folder) / JOB_FILE
    described = _describe(job)
    try:
        make_folder(path.parent)
        if path.exists():
            there = read_description(path)
            _check_same(path, there, described)
            if job.is_batch and any((path.parent / SLOTS).glob("*/*")):
                raise SlotLogError(
                    f"{path.parent} has what this batch job wrote before; give a new or empty folder each time that "
                    f"it runs"
                )
            if there.get("quotas", {}) == described["quotas"]:
                return
        write_whole(path, f"{json.dumps(described, indent=2)}\n".encode())
    except OSError as error:
        raise FolderError(f"cannot write {path}: {error}; give a folder that can be written") from error


def read_description(path: Path) -> dict[str, Any]:
    """The content of a folder's job.json; FileNotFoundError if there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise SlotLogError(
            f"{path} is damaged; start the job anew with an empty folder and a new checkpoint"
        ) from error
    if version != FORMAT:
        raise SlotLogError(
            f"{path} has format {version} and this Panewise reads format {FORMAT}; use the Panewise that runs the job"
        )
    return dict(found)


def _describe(job: Job) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "statements": print_workload(job.workload),
        "rate": job.prices.rate,
        "groups": dict(job.prices.groups),
        "method": job.prices.method,
        "tolerance": job.prices.tolerance,
        "buckets": list(job.bucket_ids),
        "is_live": job.is_live,
        "is_batch": job.is_batch,
        "identity": json.loads(identity_of(job)),
        "quotas": {name: most for name, most in asdict(job.quotas).items() if most is not None},
    }


def _check_same(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    # Quotas may change at each start.
    different = [name for name in here if name != "quotas" and there.get(name, _UNSAID.get(name)) != here[name]]
    if different and set(different) <= {"buckets", "identity"}:
        raise SlotLogError(
            f"{path.parent} does not fit the job: {what_differs(there['identity'], here['identity'])}, or use an empty "
            f"folder and a new checkpoint"
        )
    if different:
        raise SlotLogError(
            f"{path.parent} holds the slot log of another job: {' and '.join(different)} differ from those in "
            f"{path.name}; give each job a folder of its own, or empty this one and use a new checkpoint"
        )
