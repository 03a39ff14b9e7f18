"""A job as bytes: each worker opens it once and brings it up to the current batch.

A plan of thousands of queries takes longer to unpickle than a small batch takes to answer, so a worker keeps the jobs
that it has opened. In a worker, only the globals of an importable module survive from batch to batch; these do.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

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
        return self.open() if self.statements_in is None else self._live(batch).job

    def statements_at(self, batch: int) -> FoundStatements:
        """The statements of the batches before, as the folder has them."""
        return self._live(batch).found

    def bases_after(self, batch: int, count: int) -> str:
        """What identifies the bases after the first so many changes of those before a batch."""
        from panewise.spark.identity import bases_id

        live = self._live(batch)
        if count not in live.bases:
            job = self.open()
            for change in live.found.changes[:count]:
                job = job.after(change)
            live.bases[count] = bases_id(job)
        return live.bases[count]

    def _live(self, batch: int) -> _Live:
        from panewise.spark.identity import bases_id
        from panewise.spark.statement_log import FoundStatements, StatementLog

        assert self.statements_in is not None
        adopt(self.aggregates)
        known = _LIVE.get(self)
        found = StatementLog(self.statements_in).found(batch, None if known is None else known.found)
        if known is None or known.found.changes != found.changes[: len(known.found.changes)]:
            known = _Live(FoundStatements(found.folder), self.open(), {})
        job, bases, before = known.job, known.bases, len(known.found.changes)
        for count, change in enumerate(found.changes[before:], before + 1):
            job = job.after(change)
            # Buckets went by all changes, or by all but the last.
            if count >= len(found.changes) - 1:
                bases = {**bases, count: bases_id(job)}
        _LIVE.clear()
        _LIVE[self] = live = _Live(found, job, bases)
        return live


class _Live(NamedTuple):
    """The statements that a worker has seen, the job that they led to, and some identities of its bases by count."""

    found: FoundStatements
    job: Job
    bases: dict[int, str]


_LIVE: dict[PackedJob, _Live] = {}
"""The live job that this worker used last."""


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
