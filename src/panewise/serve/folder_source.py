"""The folder of a job on Spark as a source. A thread reads new files; no request waits for it.

There are two clients of the folder. Requests read one of them. The thread brings the other one up to date and prepares
its lookups, then they change places. So what requests read does not change while they read it, and every file is read
twice: this doubles the memory and the work of reading, and takes both from the requests' way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock, Thread
from time import monotonic, time, time_ns
from typing import Any, TypeVar

import pyarrow as pa

from panewise.engine.wide_columns import group_columns
from panewise.errors import CommandError, FolderError, PanewiseError, StatementError
from panewise.language.reader import apply
from panewise.language.workload import Workload
from panewise.planning.optimize import optimize
from panewise.serve.faults import LOG
from panewise.serve.source import AnswerSource, Arrays, BusyError, Position, Reader
from panewise.spark.lookup_client import LookupClient
from panewise.spark.lookup_together import PlainRow
from panewise.spark.query_audit import QueryAudit
from panewise.spark.slot_log import JOB_FILE, PROBE_BYTES

T = TypeVar("T")

LOOK_EVERY_S = 0.02
"""How often the thread looks for new files."""
AFTER_FAILURE_S = 0.5
"""How long it waits after a look that failed."""
RETRY_S = 0.01
MOST_PREPARED = 200
"""So many queries are looked up once before requests come to them, which compiles what they need."""


class FollowedClient:
    """One of the two clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Before the client reads what the job is. If there is no job, the client says so.
        self._job_id = _job_id(folder) if (folder / JOB_FILE).exists() else None
        self.client = LookupClient(folder, refresh_every_s=None)
        self.lock = Lock()
        self.position = Position()
        self._prepared: Workload | None = None

    @property
    def workload(self) -> Workload:
        """The streams and queries."""
        return self.client.workload

    def lookup(self, query: str, keys: object, at: int | str | None) -> pa.Table:
        """Answer a query."""
        return self.client.lookup(query, keys, at)

    def lookup_many(self, query: str, keys: object, at: int | str | None) -> Arrays:
        """Answer many groups of a query as arrays."""
        return self.client.lookup_many(query, keys, at)

    def lookup_at(self, query: str, keys: object, times: object) -> Arrays:
        """Answer many groups of a query as arrays, each at its own time."""
        return self.client.lookup_at(query, keys, times)

    def lookup_rows(
        self, queries: list[str], key: dict[str, object], at: int | str | None
    ) -> dict[str, PlainRow | None]:
        """Answer the queries that share what they read."""
        queries = [query for query in queries if self.client.can_share(query)]
        return dict(zip(queries, self.client.lookup_rows(queries, key, at)))

    def refresh(self, version: int) -> bool:
        """Read what is new, and be ready for lookups; True if there was anything.

        A job that was started anew describes itself anew. Nothing of what was read before belongs to it.
        """
        job_id = _job_id(self._folder)
        if job_id != self._job_id:
            self.client = LookupClient(self._folder, refresh_every_s=None)
            self._job_id, self.position = job_id, Position()
        changed = self.client.refresh()
        if not changed and self.position.version:
            return False
        held = self.client.statistics()
        watermark_us, age_s = held["watermark_us"], held["age_s"]
        self.position = Position(
            version=version,
            watermarks_us=dict.fromkeys(self.workload.streams, watermark_us),
            newest_us={name: held["seen_us"].get(name) for name in self.workload.streams},
            written_s=None if age_s is None else time() - age_s,
            batch=held["newest_batch"],
        )
        if self.workload is not self._prepared:
            self._prepare()
            self._prepared = self.workload
        return True

    def _prepare(self) -> None:
        """Look up each query once, so that no request waits for a compiler."""
        for name, query in list(self.workload.queries.items())[:MOST_PREPARED]:
            columns = group_columns(self.workload.streams[query.stream], query)
            try:
                found = self.client.lookup(name)
                if columns and found.num_rows:
                    first = {attribute: found.column(shown)[0].as_py() for attribute, shown in columns.items()}
                    self.client.lookup(name, first)
            except PanewiseError:
                # It has no answer now; whoever asks is told why.
                continue


def _job_id(folder: Path) -> tuple[int, int]:
    """Which file describes the job now."""
    try:
        found = os.stat(folder / JOB_FILE)
    except OSError as error:
        raise FolderError(
            f"cannot read {folder / JOB_FILE}: {error.strerror}; give the folder that the job was given, or bring it "
            f"back"
        ) from error
    return found.st_ino, found.st_mtime_ns


class FolderSource(AnswerSource):
    """Follows the folder of a job. Statements go to `control`, the directory that its control stream reads."""

    kind = "folder"

    def __init__(self, folder: str | os.PathLike[str], control: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._control = None if control is None else Path(control)
        if self._control is not None and not self._control.is_dir():
            raise CommandError(f"--control {control}: there is no such directory; name the one that the job reads")
        self._active = FollowedClient(self._folder)
        self._active.refresh(1)
        self._spare = FollowedClient(self._folder)
        self._stop = Event()
        self._thread: Thread | None = None
        self.refreshes = 0
        self.failures = 0
        self.refresh_s = 0.0

    @property
    def workload(self) -> Workload:
        """The streams and queries as they are now."""
        return self._active.workload

    @property
    def position(self) -> Position:
        """How far the job is, as far as it was read."""
        return self._active.position

    def read(self, work: Callable[[Reader], T], *, wait: bool) -> T:
        """Let work read the side that is not written."""
        side = self._acquired(wait=wait)
        try:
            return work(side)
        finally:
            side.lock.release()

    def _acquired(self, *, wait: bool) -> FollowedClient:
        """The side to read, with its lock."""
        while True:
            side = self._active
            # If it is not to be had, another reader has it, or the sides have just changed places.
            if side.lock.acquire(timeout=RETRY_S) if wait else side.lock.acquire(blocking=False):
                return side
            if not wait and side is self._active:
                raise BusyError

    def add(self, statements: str) -> bool:
        """Send statements to the job, which takes them with its next batch."""
        if self._control is None:
            raise CommandError(
                "this server cannot send statements to the job; start it with --control and the directory of the "
                "job's control stream"
            )
        self.check(statements)
        name = f"{time_ns():020}-{token_hex(4)}.sql"
        # Spark does not read names that begin with a dot. A file must be whole when it gets its name.
        written = self._control / f".{name}"
        try:
            written.write_text(statements, encoding="utf-8")
            written.rename(self._control / name)
        except OSError as error:
            with suppress(OSError):
                written.unlink(missing_ok=True)
            raise FolderError(
                f"cannot write the statements into {self._control}: {error.strerror}; the job did not get them, so "
                f"send them again once that is mended"
            ) from error
        return False

    def check(self, statements: str) -> Workload:
        """The workload after statements, if the job would take them."""
        after = apply(self.workload, statements)
        if not self._active.client.is_live:
            raise CommandError("this job has no control stream, so its queries stay as they are")
        refusal = QueryAudit(self._folder).refusal(statements)
        if refusal is not None:
            raise StatementError(f"the job would refuse it: {refusal}", line=1, column=1)
        return after

    def statistics(self) -> dict[str, Any]:
        """What the side that is read holds, and how often files were read."""
        side = self._acquired(wait=True)
        try:
            held = side.client.statistics()
        finally:
            side.lock.release()
        refreshing = {"refreshes": self.refreshes, "failures": self.failures, "refresh_s": self.refresh_s}
        return {"lookups": held, "refreshing": refreshing}

    def explain(self) -> str:
        """The plan of the job's queries."""
        return optimize(self.workload).explain()

    def start(self) -> None:
        """Begin to follow the folder."""
        self._thread = Thread(target=self._follow, name="panewise-refresh", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def refresh(self) -> bool:
        """Bring the spare side up to date, and let the sides change places if there was anything new for it.

        The side that steps back lacks it then. So the sides change places twice for each batch, the second time with
        the same answers.
        """
        began_s = monotonic()
        with self._spare.lock:
            changed = self._spare.refresh(self._active.position.version + 1)
        if changed:
            self._active, self._spare = self._spare, self._active
            self.refreshes += 1
            self.refresh_s = monotonic() - began_s
            self.changed()
        return changed

    def _lack(self) -> str | None:
        """What keeps the job from writing, as far as it can be seen from here."""
        if shutil.disk_usage(self._folder).free >= PROBE_BYTES:
            return None
        return f"{self._folder}: the disk is full, so the job cannot write new answers; free some space"

    def _follow(self) -> None:
        pause_s = 0.0
        while not self._stop.wait(pause_s):
            try:
                changed = self.refresh()
                self.problem, pause_s = self._lack(), 0.0 if changed else LOOK_EVERY_S
            except (PanewiseError, OSError) as error:
                self.problem, pause_s = str(error), AFTER_FAILURE_S
                self.failures += 1
            except Exception:
                # Whatever it is, the thread must go on: otherwise answers would grow old, and nobody would know why.
                LOG.exception("the folder could not be read")
                self.problem, pause_s = f"{self._folder} cannot be read; the server's log tells why", AFTER_FAILURE_S
                self.failures += 1
