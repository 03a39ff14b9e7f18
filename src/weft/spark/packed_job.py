"""A job as bytes, opened once in each worker, and brought up to the batch that is at work.

Plans of thousands of queries take longer to unpickle than a small batch takes to answer, so a worker keeps the jobs
that it has opened. Only an importable module's globals survive from batch to batch in a worker; this is one.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark import TaskContext

if TYPE_CHECKING:
    from weft.spark.job import Job


@dataclass(frozen=True)
class PackedJob:
    """A job as bytes, what identifies it after a restart, and the folder of its statements if queries come and go."""

    content: bytes
    identity: str = ""
    statements_in: str | None = None

    def open(self) -> Job:
        """The job as it began, from this worker's memory when it was opened before."""
        return _open(self.content)

    def at(self, batch: int) -> Job:
        """The job as it is in a batch: after the statements of the batches before."""
        if self.statements_in is None:
            return self.open()
        from weft.spark.statement_log import StatementLog

        log = StatementLog(self.statements_in)
        seen = tuple(number for number in log.batches() if number < batch)
        known = _LIVE.get(self)
        if known is None or known[0] != seen[: len(known[0])]:
            known = (), self.open()
        if known[0] != seen:
            job = known[1]
            for change in log.before(batch)[len(known[0]) :]:
                job = job.after(change)
            known = seen, job
        _LIVE.clear()
        _LIVE[self] = known
        return known[1]


_LIVE: dict[PackedJob, tuple[tuple[int, ...], Job]] = {}
"""The live job that this worker used last, and the batches whose statements it has seen."""


@lru_cache(maxsize=8)
def _open(content: bytes) -> Job:
    job: Job = pickle.loads(content)
    return job


def batch_id() -> int:
    """The number of the micro-batch that this task belongs to."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if number is None:
        raise RuntimeError("Spark does not tell the batch of this task: streaming.sql.batchId is not set")
    return int(number)
