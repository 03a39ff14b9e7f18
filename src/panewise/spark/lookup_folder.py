"""The job of a folder, as `write_job` wrote it, planned like the workers planned it, with all statements since."""

from __future__ import annotations

import json
from pathlib import Path

from panewise.errors import FolderError, SlotLogError, StatementError
from panewise.language.reader import apply
from panewise.language.workload import Workload
from panewise.planning.cost import DEFAULT_TOLERANCE
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.spark.identity import identity_of
from panewise.spark.job import Change, Job
from panewise.spark.quotas import Quotas
from panewise.spark.slot_log import JOB_FILE, read_description
from panewise.spark.statement_log import STATEMENTS, FoundStatements, StatementLog

EVER = 2**62
"""A batch that never comes."""


class FolderJobs:
    """The job of a folder, as it is now."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOB_FILE
        self._statements = StatementLog(folder)
        self._job = self.began = self._read()
        self._found = FoundStatements(folder)

    def current(self, changes: int = 0) -> Job:
        """The job with the queries that it has now; raises where statements are missing that its workers went by.

        `changes` is how many batches of statements these were.
        """
        if self._job.is_live:
            found = self._statements.found(EVER, self._found)
            if len(found.changes) > self._job.changes:
                for change in found.changes[self._job.changes :]:
                    self._job = self._job.after(change)
                self._found = found
        if self._job.changes < changes:
            raise SlotLogError(
                f"{self._path.parent / STATEMENTS} has the statements of {self._job.changes} batches, and the job went "
                f"by those of {changes}: files are missing, or cannot be read; restore them"
            )
        return self._job

    def changes(self) -> list[tuple[Change, float]]:
        """The statements that came, by batch, and when they were written in seconds since the epoch."""
        self.current()
        return [(change, self._statements.written_s(change.batch)) for change in self._found.changes]

    def _read(self) -> Job:
        try:
            there = read_description(self._path)
        except FileNotFoundError:
            raise FolderError(
                f"{self._path.parent} has no {JOB_FILE}: it is not the folder of a Panewise job, or the job has not "
                f"started yet; give the folder that panewise.spark.answers(..., folder=...) was given"
            ) from None
        except OSError as error:
            raise FolderError(f"cannot read {self._path}: {error}") from error
        try:
            workload = apply(Workload(), there["statements"])
            job = Job.of(
                workload,
                there["buckets"],
                rate=there["rate"],
                groups=there["groups"],
                method=there.get("method", WEAVE_SHARE),
                tolerance=there.get("tolerance", DEFAULT_TOLERANCE),
                is_live=there["is_live"],
                is_batch=there.get("is_batch", False),
                changed_only=there["identity"]["changed_only"],
                quotas=Quotas(**there.get("quotas", {})),
            )
            identity = there["identity"]
        except (KeyError, TypeError, ValueError, StatementError) as error:
            raise SlotLogError(
                f"{self._path} cannot be read: {error}; read it with the Panewise that runs the job"
            ) from error
        if json.loads(identity_of(job)) != identity:
            raise SlotLogError(
                f"{self._path} was written by another version of Panewise, which planned the job differently; read it "
                f"with the Panewise that runs the job"
            )
        return job
