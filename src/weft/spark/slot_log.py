"""The slot log: the partials of every bucket as files, batch by batch, for processes that answer lookups.

    FOLDER/job.json                         what the job is, so that a reader plans the same
    FOLDER/slots/bucket-<id>/<batch>.weft   what the bucket kept of a batch: see `slot_file`
    FOLDER/rows/...                         single rows, where queries need them: see `row_log`

Each bucket's files are written by whoever runs the bucket's batch, one batch after the other. A batch that is repeated
writes the same file again, so nothing counts twice. A key belongs to one bucket (of each base), so a reader is right
about a key without waiting for other buckets. Old files leave and small ones are merged: see `slot_compaction`.

Cost of `put`: one file, one look into the bucket's folder and at the head of its oldest file; now and then a merge.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from weft.errors import WeftError
from weft.language.printer import print_workload
from weft.spark.identity import identity_of
from weft.spark.packing import Part, pack_parts
from weft.spark.slot_compaction import LoggedBase, tidy
from weft.spark.slot_file import FORMAT, NO_BATCH, UNFINISHED, Head, SlotLogError, Span, write_file

if TYPE_CHECKING:
    from weft.spark.job import Job

JOB_FILE = "job.json"
_UNSAID = {"is_batch": False}
"""What is meant where the file of an older Weft does not say."""
SLOTS = "slots"
ROWS = "rows"
"""The folders of the slot log and of the row log."""


@dataclass(frozen=True)
class Entry:
    """What a bucket kept in one batch: packed partials (maybe none), and the newest slot of each base among them.

    `watermark_us` is the batch's watermark (None before there is one); windows that end up to `closed_us` have been
    answered (None before the first).
    """

    content: bytes
    newest_slots: Mapping[int, int]
    watermark_us: int | None
    closed_us: int | None

    @classmethod
    def of(
        cls,
        parts: Sequence[Part],
        watermark_us: int | None,
        closed_us: int | None,
        content: bytes | None = None,
    ) -> Entry:
        """The entry of some parts; give `content` where `pack_parts(parts)` is known already."""
        newest: dict[int, int] = {}
        for part in (part for part in parts if part.partials.num_rows):
            slot = int(np.asarray(part.partials.column("slot")).max())
            newest[part.base] = max(slot, newest.get(part.base, slot))
        return cls(pack_parts(parts) if content is None else content, newest, watermark_us, closed_us)


class SlotLog:
    """The log in a folder, as the workers of a job write it; `bases` are the job's, by number."""

    def __init__(self, folder: str | os.PathLike[str], bases: Mapping[int, LoggedBase]) -> None:
        self._folder = Path(folder)
        self._bases = bases

    def put(self, bucket_id: int, batch_id: int, entry: Entry) -> None:
        """Write what a bucket kept in a batch, each time that the bucket is called, in the order of batches.

        The same batch again replaces its file, but for an entry without partials: Spark may call a bucket twice in a
        batch, with rows and then by a timer.
        """
        with writing(self._folder, SLOTS, bucket_id) as folder:
            spans, previous = files_before(self._folder, SLOTS, bucket_id, batch_id)
            span = Span(batch_id, batch_id)
            if not entry.content and span in spans:
                return
            head = Head(bucket_id, span, previous, entry.watermark_us, entry.closed_us, entry.newest_slots)
            write_file(folder, head, entry.content)
            tidy(folder, bucket_id, {*spans, span}, self._bases, entry.closed_us)


@contextmanager
def writing(root: Path, log: str, bucket_id: int) -> Iterator[Path]:
    """A bucket's folder, to be written into: what the disk refuses is told with the cure."""
    folder = bucket_folder(root, bucket_id, log)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        raise WeftError(
            f"cannot write the slot log in {folder}: {error}; every worker needs this folder, and may write there"
        ) from error


def files_before(root: Path, log: str, bucket_id: int, batch_id: int) -> tuple[list[Span], int]:
    """The files that a bucket has when a batch is written, and the last batch before it among them.

    A log that is ahead of the batch belongs to another run, and is left alone.
    """
    spans = list_spans(bucket_folder(root, bucket_id, log))
    newest = max((span.last for span in spans), default=NO_BATCH)
    if newest > batch_id:
        raise SlotLogError(
            f"the slot log in {root} is ahead of this job: bucket {bucket_id} has batch {newest}, and "
            f"now batch {batch_id} runs; a job with a new checkpoint needs a new or empty folder"
        )
    return spans, max((span.last for span in spans if span.last < batch_id), default=NO_BATCH)


def bucket_folder(folder: Path, bucket_id: int, log: str = SLOTS) -> Path:
    """Where a bucket's files of a log are."""
    return folder / log / f"bucket-{bucket_id}"


def list_spans(folder: Path) -> list[Span]:
    """The files of a bucket, in the order of batches; none where the folder is missing."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(span for span in map(Span.of, names) if span is not None)


def write_job(folder: str | os.PathLike[str], job: Job) -> None:
    """Say in the folder what the job is; refuse a folder that belongs to another one."""
    path = Path(folder) / JOB_FILE
    described = _describe(job)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _check_same(path, read_description(path), described)
            if job.is_batch and any((path.parent / SLOTS).glob("*/*")):
                raise SlotLogError(
                    f"{path.parent} has what this batch job wrote before; give a new or empty folder each time that "
                    f"it runs"
                )
            return
        unfinished = path.with_name(f"{JOB_FILE}.{uuid4().hex}{UNFINISHED}")
        unfinished.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
        os.replace(unfinished, path)
    except OSError as error:
        raise WeftError(f"cannot write {path}: {error}; give a folder that can be written") from error


def read_description(path: Path) -> dict[str, Any]:
    """What a folder's job.json says; FileNotFoundError where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise SlotLogError(
            f"{path} is damaged; start the job anew with an empty folder and a new checkpoint"
        ) from error
    if version != FORMAT:
        raise SlotLogError(
            f"{path} has format {version} and this Weft reads format {FORMAT}; use the Weft that runs the job"
        )
    return dict(found)


def _describe(job: Job) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "statements": print_workload(job.workload),
        "rate": job.prices.rate,
        "groups": dict(job.prices.groups),
        "buckets": list(job.bucket_ids),
        "is_live": job.is_live,
        "is_batch": job.is_batch,
        "identity": json.loads(identity_of(job)),
    }


def _check_same(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    different = [name for name in here if there.get(name, _UNSAID.get(name)) != here[name]]
    if different:
        raise SlotLogError(
            f"{path.parent} holds the slot log of another job: {' and '.join(different)} differ from those in "
            f"{path.name}; give each job a folder of its own, or empty this one and use a new checkpoint"
        )
