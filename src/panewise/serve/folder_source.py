"""The folder of a job on Spark as a source. A thread reads new files; no request waits for it.

The thread has a lookup client of its own, the builder. Whenever this has read something new, a snapshot of it takes the
place of the one before (`snapshots.py`). Requests read a snapshot, which never changes. Servers that share a directory
have one builder among them: the others load its snapshots, and one of them builds when it ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock, Thread
from time import monotonic, sleep, time, time_ns
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from panewise.engine.wide_columns import group_columns
from panewise.errors import CommandError, FolderError, PanewiseError, StatementError
from panewise.language.reader import apply
from panewise.language.workload import Workload
from panewise.planning.optimize import optimize
from panewise.serve.faults import LOG
from panewise.serve.job_metrics import JobMetrics
from panewise.serve.messages import JobBatch
from panewise.serve.places import MemoryPlace, Place, SharedPlace
from panewise.serve.snapshots import Snapshots
from panewise.serve.source import AnswerSource, Arrays, BusyError, Position, Reader
from panewise.spark.lookup_client import LookupClient
from panewise.spark.lookup_together import PlainRow
from panewise.spark.query_audit import QueryAudit
from panewise.spark.slot_log import JOB_FILE, PROBE_BYTES

T = TypeVar("T")

LOOK_EVERY_S = 0.02
"""How often the thread looks for new files or snapshots."""
AFTER_FAILURE_S = 0.5
"""How long it waits after a look that failed."""
RETRY_S = 0.01
MOST_PREPARED = 200
"""So many kinds of queries are looked up once before requests come to them, which compiles what they need."""


class About(NamedTuple):
    """What is known about a snapshot beside its state."""

    position: Position
    rebuilds: int


class SnapshotBuilder:
    """Reads the folder of a job, and begins anew if the job does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Before the client reads what the job is. If there is no job, the client says so.
        self._job_id = _job_id(folder) if (folder / JOB_FILE).exists() else None
        self.client = LookupClient(folder, refresh_every_s=None)
        self._published: object = None

    def refresh(self) -> None:
        """Read what is new.

        A job that was started anew describes itself anew. Nothing of what was read before belongs to it.
        """
        job_id = _job_id(self._folder)
        if job_id != self._job_id:
            self.client = LookupClient(self._folder, refresh_every_s=None)
            self._job_id = job_id
        self.client.refresh()

    def publish(self, snapshots: Snapshots, version: int, asked: Collection[str]) -> None:
        """Publish what has not been published. Of the queries that were `asked`, those that need an index have it."""
        state = self.client.state
        read = state, state.files_read, state.newest_batch, state.watermark_us
        if read == self._published:
            return
        for query in asked:
            if query in self.client.workload.queries:
                with suppress(PanewiseError):
                    # It has no answer now; whoever asks is told why.
                    self.client.lookup(query)
        state.having.asked.clear()
        snapshots.publish(state, self.about(version))
        self._published = read

    def about(self, version: int) -> About:
        """What is known about the state now."""
        held, streams = self.client.statistics(), self.client.workload.streams
        position = Position(
            version=version,
            watermarks_us=dict.fromkeys(streams, held["watermark_us"]),
            newest_us={name: held["seen_us"].get(name) for name in streams},
            written_s=None if held["age_s"] is None else time() - held["age_s"],
            batch=held["newest_batch"],
        )
        return About(position, held["rebuilds"])


class Snapshot:
    """A state of the folder that requests read, one at a time."""

    def __init__(self, client: LookupClient, about: About) -> None:
        self.client = client
        self.lock = Lock()
        self.position = about.position

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

    def prepare(self) -> None:
        """Look up one query of each kind, so that no request waits for a compiler."""
        kinds: dict[object, str] = {}
        for name, query in self.workload.queries.items():
            asked = query.stream, query.group_by, query.aggregates, query.computed, query.having is None
            kinds.setdefault((asked, query.window.is_sliding, type(query.window)), name)
        for name in list(kinds.values())[:MOST_PREPARED]:
            query = self.workload.queries[name]
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

    def __init__(
        self,
        folder: str | os.PathLike[str],
        control: str | os.PathLike[str] | None = None,
        share: str | os.PathLike[str] | None = None,
        metrics: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._control = None if control is None else Path(control)
        if self._control is not None and not self._control.is_dir():
            raise CommandError(f"--control {control}: there is no such directory; name the one that the job reads")
        self._place: Place = MemoryPlace() if share is None else SharedPlace(Path(share), self._folder)
        self._metrics = None if metrics is None else JobMetrics(Path(metrics))
        self._snapshots = Snapshots(self._place)
        self._builder: SnapshotBuilder | None = None
        self._loaded: str | None = None
        self._active = self._first()
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
        """Let work read the newest snapshot."""
        side = self._acquired(wait=wait)
        try:
            return work(side)
        finally:
            side.lock.release()

    def _acquired(self, *, wait: bool) -> Snapshot:
        """The snapshot to read, with its lock."""
        while True:
            side = self._active
            # If it is not to be had, another reader has it, or there is a newer one.
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
        """What the snapshot holds, and how often there was a new one."""
        side = self._acquired(wait=True)
        try:
            held = side.client.statistics()
        finally:
            side.lock.release()
        refreshing = {
            "refreshes": self.refreshes, "failures": self.failures, "refresh_s": self.refresh_s, "builds": self.builds
        }  # fmt: skip
        return {"lookups": held, "refreshing": refreshing}

    def batches(self) -> list[JobBatch]:
        """The last batches of the job, from its metrics file."""
        return [] if self._metrics is None else list(self._metrics.batches)

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
        self._place.close()

    def refresh(self) -> bool:
        """Read what is new, or load what another server has read; True if there was anything."""
        began_s = monotonic()
        if self._metrics is not None:
            self._metrics.refresh()
        if self._place.may_build():
            self._build(self._active.position.version + 1)
        else:
            # The one that builds reads it; but whoever asks here shall know if it is gone.
            _job_id(self._folder)
        newer = self._newer(self._active)
        if newer is None:
            return False
        self._active = newer
        self.refreshes += 1
        self.refresh_s = monotonic() - began_s
        self.changed()
        return True

    @property
    def builds(self) -> bool:
        """Whether this server reads the folder, for itself and for those that share a directory with it."""
        return self._builder is not None

    def _first(self) -> Snapshot:
        """The first snapshot: of this server, or of the one that builds, once it has one."""
        while True:
            if self._place.may_build():
                self._build(1)
            first = self._newer(None)
            if first is not None:
                return first
            sleep(LOOK_EVERY_S)

    def _build(self, version: int) -> None:
        if self._builder is None:
            self._builder = SnapshotBuilder(self._folder)
        self._builder.refresh()
        asked = () if version == 1 else list(self._active.client.state.having.asked)
        self._builder.publish(self._snapshots, version, asked)

    def _newer(self, before: Snapshot | None) -> Snapshot | None:
        """The current snapshot, ready for lookups; None if it is known already."""
        name = self._place.current()
        if name is None or name == self._loaded:
            return None
        try:
            state, about = self._snapshots.load(name)
        except FileNotFoundError:
            # There is a newer one already, which the next look finds.
            return None
        self._loaded = name
        client = LookupClient.over(self._folder, state, None if before is None else before.client, about.rebuilds)
        newer = Snapshot(client, about)
        if before is None or newer.workload is not before.workload:
            newer.prepare()
        return newer

    def _lack(self) -> str | None:
        """What keeps the job from writing, as far as it can be seen from here."""
        if shutil.disk_usage(self._folder).free >= PROBE_BYTES:
            return None
        return f"{self._folder}: the disk is full, so the job cannot write new answers; free some space"

    def _told(self) -> str | None:
        """What the server that builds says, if it is another one."""
        return self._place.told() if self._builder is None else None

    def _follow(self) -> None:
        pause_s = 0.0
        while not self._stop.wait(pause_s):
            try:
                self.refresh()
                problem, pause_s = self._lack() or self._told(), LOOK_EVERY_S
            except (PanewiseError, OSError) as error:
                problem, pause_s = str(error), AFTER_FAILURE_S
                self.failures += 1
            except Exception:
                # Whatever it is, the thread must go on: otherwise answers would grow old, and nobody would know why.
                LOG.exception("the folder could not be read")
                problem, pause_s = f"{self._folder} cannot be read; the server's log tells why", AFTER_FAILURE_S
                self.failures += 1
            self.problem = problem
            if self._builder is not None:
                self._place.tell(problem)
