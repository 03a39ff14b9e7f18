"""The statement log: which statements came through the control stream, in which batch.

    FOLDER/statements/<batch>.json          the statements of a batch, and why some were refused

Each batch with statements has a file in the folder that all workers share. The batch writes it, and later batches read
it. Spark's offsets fix what a batch brings, and the next batch begins when all of it is done. So a batch always finds
the same files, even when it is repeated. A batch may also write a file without statements: what it saw of a stream, or
that new bases take over. Whatever it wrote first holds.

A file that is none of these is named in the log of the process and left alone. What was applied so far, how many files
and a digest of them all, stands in the state of the stream (`Applied`). So a job whose folder was moved, or that lost
some of its statements, refuses to go on: it would drop queries without a word. Nor does it go on if the statements lead
to other bases than before, as after a change of the planner: it would take partials for something else.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from panewise.errors import CheckpointError, FolderError
from panewise.spark.job import Change, Statement
from panewise.spark.observed import Observed
from panewise.spark.slot_file import NO_BATCH, tell_once
from panewise.spark.whole_file import UNFINISHED, make_folder, write_whole

FORMAT = 1
FORMAT_SEEN = 2
"""With what was seen. Who reads the first format only would plan differently."""
STATEMENTS = "statements"
_NAME = re.compile(r"(\d{12})\.json")


@dataclass(frozen=True)
class Applied:
    """The statements that a bucket has gone by: from how many batches, and a digest of their files.

    `brought` is the batch of its last call, where that brought further ones. `bases` identifies the bases that they led
    to, which is what the partials in the state are made of.
    """

    count: int = 0
    digest: str = ""
    brought: int = NO_BATCH
    bases: str = ""

    def check(self, found: FoundStatements, batch: int) -> None:
        """Raise where a batch does not find just those statements, and those of the batch that brought some.

        Files without statements may come at any time.
        """
        due = [] if self.brought in (NO_BATCH, batch) else [self.brought]
        further = found.changes[self.count :]
        batches = [change.batch for change in further if change.statements or change.batch in due]
        if len(found.batches) < self.count + len(due):
            wrong = f"has {len(found.batches)} of the {self.count + len(due)} batches of statements that it went by"
        elif batches != due or (self.count and found.digests[self.count - 1] != self.digest):
            wrong = "has other statements than those that it went by"
        else:
            return
        raise CheckpointError(
            f"{found.folder} does not belong to this checkpoint: the job {wrong}. It was moved, emptied or changed, or "
            f"it is another job's; put its files back and start the job again, or start anew with an empty folder and "
            f"a new checkpoint, and send the statements again"
        )

    def check_bases(self, found: FoundStatements, bases: str) -> None:
        """Raise where the same statements lead to other bases than they did when the state was written."""
        if self.bases and bases != self.bases:
            raise CheckpointError(
                f"the statements in {found.folder} lead to another plan than when the checkpoint was written, so its "
                f"partials cannot be read: another version of Panewise planned them; go on with that version, or start "
                f"anew with an empty folder and a new checkpoint, and send the statements again"
            )


@dataclass(frozen=True)
class FoundStatements:
    """The statements that hold in a batch, in order; `digests` has one of each file with all before it."""

    folder: Path
    changes: tuple[Change, ...] = ()
    digests: tuple[str, ...] = ()

    @property
    def batches(self) -> list[int]:
        """The batches that brought them."""
        return [change.batch for change in self.changes]

    def applied(self, batch: int, bases: str, *, brings_more: bool) -> Applied:
        """What a bucket notes that goes by them, with the bases that they led to."""
        digest = self.digests[-1] if self.digests else ""
        return Applied(len(self.changes), digest, batch if brings_more else NO_BATCH, bases)


class StatementLog:
    """The statements of a job's control stream, in its folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._root = Path(folder)
        self._folder = self._root / STATEMENTS

    def put(self, change: Change) -> Change:
        """Write the change of a batch, or find what the same batch wrote before; what holds.

        A batch that is repeated finds the same statements, and does not judge them again: quotas may have changed.
        """
        path = self._path(change.batch)
        version = FORMAT if change.seen is None else FORMAT_SEEN
        content = json.dumps({"format": version, **asdict(change)}, sort_keys=True, indent=1)
        try:
            if not path.exists():
                make_folder(self._root, STATEMENTS)
                write_whole(path, content.encode())
                return change
        except OSError as error:
            raise FolderError(
                f"cannot write the statements of batch {change.batch} to {path}: {error.strerror}; they hold from the "
                f"next batch on, so the job cannot go on without: let the workers write there, and start it again"
            ) from error
        there = self._read(change.batch)
        if there is None or _unjudged(there[0]) != _unjudged(change):
            raise CheckpointError(
                f"{path} was written by another run of batch {change.batch}; this folder belongs to another "
                f"checkpoint: give the job a folder of its own"
            )
        return there[0]

    def written_s(self, batch: int) -> float:
        """When the statements of a batch were written, in seconds since the epoch."""
        return self._path(batch).stat().st_mtime

    def before(self, batch: int) -> list[Change]:
        """The changes that hold in a batch, in order."""
        return [*self.found(batch).changes]

    def found(self, batch: int, known: FoundStatements | None = None) -> FoundStatements:
        """The statements that hold in a batch; files of `known` are not read again."""
        batches = [number for number in self.batches() if number < batch]
        if known is None or not set(known.batches) <= set(batches):
            known = FoundStatements(self._folder)
        last = known.batches[-1] if known.changes else NO_BATCH
        changes, digests = [*known.changes], [*known.digests]
        for number in sorted(set(batches) - set(known.batches)):
            read = self._read(number)
            if read is None:
                continue
            if number < last:
                return self.found(batch)
            changes.append(read[0])
            digests.append(sha256(f"{digests[-1] if digests else ''} ".encode() + read[1]).hexdigest()[:32])
        return (
            FoundStatements(self._folder, tuple(changes), tuple(digests))
            if len(changes) > len(known.changes)
            else known
        )

    def batches(self) -> list[int]:
        """The batches that brought statements, in order, by the names of the files."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FolderError(
                f"cannot read {self._folder}: {error.strerror}; give this user the right to read it"
            ) from error
        numbers = []
        for name in names:
            matched = _NAME.fullmatch(name)
            if matched is not None:
                numbers.append(int(matched[1]))
            elif not name.endswith(UNFINISHED):
                tell_once(f"{self._folder / name} is no file of statements that Panewise wrote; it is left alone")
        return sorted(numbers)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:012}.json"

    def _read(self, batch: int) -> tuple[Change, bytes] | None:
        """The change of a batch, and its file's content; None for a file that Panewise did not write.

        If it did, and the file was damaged since, those who know what they need see that it is missing.
        """
        path = self._path(batch)
        try:
            text = path.read_bytes()
            content = json.loads(text)
            version = content["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            tell_once(f"{path} cannot be read as statements that Panewise wrote ({error}); it is left alone")
            return None
        if version not in (FORMAT, FORMAT_SEEN):
            raise FolderError(f"{path} has format {version}, this Panewise reads formats {FORMAT} and {FORMAT_SEEN}")
        try:
            statements = tuple(Statement(**statement) for statement in content["statements"])
            seen = content.get("seen")
            if seen is not None:
                seen = {name: Observed.of_json(some) for name, some in seen.items()}
            change = Change(content["batch"], statements, content["newest_us"], content["watermark_us"], seen)
        except (KeyError, TypeError) as error:
            tell_once(f"{path} cannot be read as statements that Panewise wrote ({error}); it is left alone")
            return None
        if change.batch != batch:
            tell_once(f"{path} has the statements of batch {change.batch}; it was renamed, and is left alone")
            return None
        return change, text


def _unjudged(change: Change) -> Change:
    return replace(change, statements=tuple(replace(one, error=None) for one in change.statements), seen=None)
