"""The live queries of a job and how they came to be, from its folder; and what a statement would meet.

It reads what the job wrote (`job.json` and the statement log), and starts no Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from panewise.language.printer import print_query
from panewise.language.reader import apply
from panewise.language.workload import Workload
from panewise.spark.job import Change, Statement
from panewise.spark.lookup_folder import EVER, FolderJobs
from panewise.spark.quotas import added_queries


@dataclass(frozen=True)
class Taken:
    """A statement of the control stream: in which batch it came, when that was written, and what became of it.

    `position` is its place in the control stream (a file, or a partition and an offset), `author` who sent it, if the
    control stream says so. `added` and `dropped` are the names of queries.
    """

    batch: int
    written_s: float
    statement: Statement
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class LiveQuery:
    """A query that the job answers now, and the statement that brought it; None for one that it began with."""

    name: str
    text: str
    came: Taken | None


@dataclass(frozen=True)
class StreamCost:
    """What the plan of a stream's sliding queries costs now, and what a fresh plan would; operations a second.

    `is_moving` tells that new bases are being filled, which will take over.
    """

    stream: str
    now: float
    fresh: float
    is_moving: bool = False


class QueryAudit:
    """The queries of the job of a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._jobs = FolderJobs(Path(folder))
        self._began: Workload = self._jobs.began.workload

    def live(self) -> list[LiveQuery]:
        """The queries that the job has once its next batch begins, in the order of their statements."""
        came = {name: taken for taken in self.taken() for name in taken.added}
        queries = self._jobs.current().workload.queries
        return [LiveQuery(name, print_query(query), came.get(name)) for name, query in queries.items()]

    def costs(self) -> list[StreamCost]:
        """What each stream with several sliding queries costs. Cost: planning."""
        job = self._jobs.current()
        several = [name for name, queries in job.workload.sliding_queries.items() if len(queries) > 1]
        return [StreamCost(name, *job.costs(name), job.is_moving(name)) for name in several]

    @property
    def replanned(self) -> tuple[int, int | None]:
        """How often queries were planned anew, and which batch was the last to need it."""
        job = self._jobs.current()
        return job.replans, job.replanned_batch

    def taken(self) -> Iterator[Taken]:
        """All statements that came, in order, with those that were refused."""
        workload = self._began
        for change, written_s in self._jobs.changes():
            for statement in change.statements:
                if statement.error is not None:
                    yield Taken(change.batch, written_s, statement)
                    continue
                after = apply(workload, statement.text)
                added = tuple(query.name for query in added_queries(workload, after))
                gone = tuple(name for name in workload.queries if name not in after.queries)
                yield Taken(change.batch, written_s, statement, added, gone)
                workload = after

    def refusal(self, text: str) -> str | None:
        """Why the job would refuse statements if they came now; None if it would take them. Nothing is sent."""
        change = Change(EVER, (Statement(text),), {}, None)
        return self._jobs.current().judge(change).statements[0].error
