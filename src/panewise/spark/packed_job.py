"""A job as bytes: each worker opens it once and brings it up to the current batch.

A plan of thousands of queries takes longer to unpickle than a small batch takes to answer, so a worker keeps the jobs
that it has opened. In a worker, only the globals of an importable module survive from batch to batch; these do.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark import TaskContext

from panewise.aggregates.catalogue import Aggregate, adopt, registered

if TYPE_CHECKING:
    from panewise.spark.job import Job
    from panewise.spark.statement_log import FoundStatements


@dataclass(frozen=True)
class PackedJob:
    """A job as bytes, its identity after a restart, and the folder of its statements if queries come and go.

    `aggregates` are those that were registered in the driver. They travel beside the job: Spark can pickle functions by
    value, and each time they arrive as new objects.
    """

    content: bytes
    identity: str = ""
    statements_in: str | None = None
    aggregates: tuple[Aggregate, ...] = field(default_factory=registered, compare=False)

    def open(self) -> Job:
        """The job as it began; from this worker's memory if the worker has opened it before."""
        adopt(self.aggregates)
        return _open(self.content)

    def at(self, batch: int) -> Job:
        """The job as it is in a batch: after the statements of all earlier batches."""
        return self.open() if self.statements_in is None else self._live(batch)[1]

    def statements_at(self, batch: int) -> FoundStatements:
        """The statements of the batches before, as the folder has them."""
        return self._live(batch)[0]

    def _live(self, batch: int) -> tuple[FoundStatements, Job]:
        from panewise.spark.statement_log import FoundStatements, StatementLog

        assert self.statements_in is not None
        adopt(self.aggregates)
        known = _LIVE.get(self)
        found = StatementLog(self.statements_in).found(batch, None if known is None else known[0])
        if known is None or known[0].changes != found.changes[: len(known[0].changes)]:
            known = FoundStatements(found.folder), self.open()
        job = known[1]
        for change in found.changes[len(known[0].changes) :]:
            job = job.after(change)
        _LIVE.clear()
        _LIVE[self] = found, job
        return found, job


_LIVE: dict[PackedJob, tuple[FoundStatements, Job]] = {}
"""The live job that this worker used last, and the statements that it has seen."""


@lru_cache(maxsize=8)
def _open(content: bytes) -> Job:
    job: Job = pickle.loads(content)
    return job


def query_id() -> str:
    """The id of the streaming query that this task belongs to, the same after a restart; empty if there is none."""
    return _property("sql.streaming.queryId") or ""


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def batch_id() -> int:
    """The number of the micro-batch that this task belongs to."""
    number = _property("streaming.sql.batchId")
    if number is None:
        raise RuntimeError("Spark does not tell the batch of this task: streaming.sql.batchId is not set")
    return int(number)
