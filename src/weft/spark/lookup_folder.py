"""The job of a folder: what `write_job` said of it, planned again as the workers have it, with the statements since."""

from __future__ import annotations

import json
from pathlib import Path

from weft.errors import StatementError, WeftError
from weft.language.model import Workload
from weft.language.reader import apply
from weft.spark.identity import identity_of
from weft.spark.job import Job
from weft.spark.slot_file import SlotLogError
from weft.spark.slot_log import JOB_FILE, read_description
from weft.spark.statement_log import StatementLog

EVER = 2**62
"""A batch that never comes."""


class FolderJobs:
    """The job of a folder, as it is now."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOB_FILE
        self._statements = StatementLog(folder)
        self._job = self._read()
        self._seen: list[int] = []

    def current(self) -> Job:
        """The job with the queries that it has now."""
        if self._job.is_live and len(self._statements.batches()) > len(self._seen):
            for change in self._statements.before(EVER)[len(self._seen) :]:
                self._job = self._job.after(change)
                self._seen.append(change.batch)
        return self._job

    def _read(self) -> Job:
        try:
            there = read_description(self._path)
        except FileNotFoundError:
            raise WeftError(
                f"{self._path.parent} has no {JOB_FILE}: it is no folder of a Weft job, or the job was not started "
                f"yet; give the folder that weft.spark.answers(..., folder=...) was given"
            ) from None
        except OSError as error:
            raise WeftError(f"cannot read {self._path}: {error}") from error
        try:
            workload = apply(Workload(), there["statements"])
            job = Job.of(
                workload,
                there["buckets"],
                rate=there["rate"],
                groups=there["groups"],
                is_live=there["is_live"],
                is_batch=there.get("is_batch", False),
                changed_only=there["identity"]["changed_only"],
            )
            identity = there["identity"]
        except (KeyError, TypeError, ValueError, StatementError) as error:
            raise SlotLogError(
                f"{self._path} cannot be understood: {error}; read it with the Weft that runs the job"
            ) from error
        if json.loads(identity_of(job)) != identity:
            raise SlotLogError(
                f"{self._path} was written by another version of Weft, which planned the job differently; read it with "
                f"the Weft that runs the job"
            )
        return job
