"""A job as bytes, opened once in each worker.

Plans of thousands of queries take longer to unpickle than a small batch takes to answer, so a worker keeps the jobs
that it has opened. Only an importable module's globals survive from batch to batch in a worker; this is one.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.spark.job import Job


@dataclass(frozen=True)
class PackedJob:
    """A job as bytes, and what identifies it after a restart: its statements and its buckets."""

    content: bytes
    fingerprint: str

    def open(self) -> Job:
        """The job, from this worker's memory when it was opened before."""
        return _open(self.content)


@lru_cache(maxsize=8)
def _open(content: bytes) -> Job:
    job: Job = pickle.loads(content)
    return job
