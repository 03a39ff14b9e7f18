"""The folder of a job on Spark as a source. A builder reads new files; no request waits for it.

Whenever the builder has read something new, a snapshot of it takes the place of the one before (`snapshots.py`).
Requests read a snapshot, which never changes. The builder is a thread of this program, or a process of its own. Servers
that share a directory have one builder among them: the others load its snapshots, and one of them builds when it ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock, Thread
from time import monotonic, sleep, time_ns
from typing import Any, TypeVar

import pyarrow as pa

from panewise.engine.one_row import PlainRow
from panewise.engine.wide_columns import group_columns
from panewise.errors import CommandError, FolderError, PanewiseError, StatementError
from panewise.language.reader import apply
from panewise.language.workload import Workload
from panewise.planning.optimize import optimize
from panewise.planning.plan import Plan
from panewise.planning.trees import DEFAULT_RATE
from panewise.serve.builder_process import AFTER_FAILURE_S, LOOK_EVERY_S, BuilderProcess
from panewise.serve.faults import LOG
from panewise.serve.job_metrics import JobMetrics
from panewise.serve.messages import JobBatch
from panewise.serve.places import MemoryPlace, Place, SharedPlace
from panewise.serve.snapshot_builder import About, SnapshotBuilder, job_id
from panewise.serve.snapshots import Snapshots
from panewise.serve.source import AnswerSource, Arrays, BusyError, Position, Reader
from panewise.spark.lookup_client import LookupClient
from panewise.spark.lookup_state import LookupState
from panewise.spark.query_audit import QueryAudit
from panewise.spark.slot_log import PROBE_BYTES
from panewise.spark.whole_file import sync_folder

T = TypeVar("T")

RETRY_S = 0.01
MOST_PREPARED = 200
"""So many kinds of queries are looked up once before requests come to them, which compiles what they need."""


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


class FolderSource(AnswerSource):
    """Follows the folder of a job. Statements go to `control`, the directory that its control stream reads.

    New files are read by a thread, or if `apart`, by a process of its own, so that requests have this one's interpreter
    for themselves.
    """

    kind = "folder"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        control: str | os.PathLike[str] | None = None,
        share: str | os.PathLike[str] | None = None,
        metrics: str | os.PathLike[str] | None = None,
        *,
        apart: bool = False,
    ) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._control = None if control is None else Path(control)
        if self._control is not None and not self._control.is_dir():
            raise CommandError(f"--control {control}: there is no such directory; name the one that the job reads")
        self._apart = apart
        self._place = _place(self._folder, None if share is None else Path(share), apart=apart)
        self._metrics = None if metrics is None else JobMetrics(Path(metrics))
        self._snapshots = Snapshots(self._place)
        self._builder: SnapshotBuilder | BuilderProcess | None = None
        self._loaded: str | None = None
        self._version = 0
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
            if side.lock.acquire(timeout=RETRY_S) if wait else side.lock.acquire(blocking=False):
                if side is self._active:
                    return side
                # While this reader waited, a newer one came, and took the structures.
                side.lock.release()
            elif not wait and side is self._active:
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
        # Spark does not read names that begin with a dot. A file must be whole when it gets its name, also after a
        # machine failed: whoever sent the statements is told that they will hold.
        written = self._control / f".{name}"
        try:
            with written.open("w", encoding="utf-8") as file:
                file.write(statements)
                file.flush()
                os.fsync(file.fileno())
            written.rename(self._control / name)
            sync_folder(self._control)
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

    def plan(self) -> tuple[Plan, str]:
        """The plan of the job's queries, for the rate and the groups that the job was given."""
        job = self._active.client.state.job
        prices = job.prices
        rate = None if prices.rate == DEFAULT_RATE else prices.rate
        plan = optimize(job.workload, rate=rate, groups=prices.groups, in_bulk=prices.in_bulk, method=prices.method)
        return plan, plan.explain()

    def start(self) -> None:
        """Begin to follow the folder."""
        self._thread = Thread(target=self._follow, name="panewise-refresh", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._close_builder()

    def refresh(self) -> bool:
        """Read what is new, or load what another server has read; True if there was anything."""
        began_s = monotonic()
        if self._metrics is not None:
            self._metrics.refresh()
        if self._place.may_build():
            self._build()
        if not self._builds_here:
            # Another process reads it; but whoever asks here shall know if it is gone.
            job_id(self._folder)
        if not self._renew():
            return False
        self.refreshes += 1
        self.refresh_s = monotonic() - began_s
        self.changed()
        return True

    @property
    def builds(self) -> bool:
        """Whether this server reads the folder, for itself and for those that share a directory with it."""
        return self._builder is not None

    @property
    def _builds_here(self) -> bool:
        return isinstance(self._builder, SnapshotBuilder)

    def _first(self) -> Snapshot:
        """The first snapshot: of this server, or of the one that builds, once it has one."""
        try:
            while True:
                if self._place.may_build():
                    self._build()
                loaded = self._load()
                if loaded is not None:
                    state, about = loaded
                    first = Snapshot(LookupClient.over(self._folder, state, None, about.rebuilds), about)
                    first.prepare()
                    return first
                sleep(LOOK_EVERY_S)
        except BaseException:
            self._close_builder()
            raise

    def _build(self) -> None:
        if self._builder is None:
            self._builder = self._new_builder()
        self._builder.build()

    def _new_builder(self) -> SnapshotBuilder | BuilderProcess:
        if isinstance(self._place, SharedPlace) and self._apart:
            return BuilderProcess(self._folder, self._place, lambda: self._version)
        return SnapshotBuilder(self._folder, self._snapshots, self._version)

    def _close_builder(self) -> None:
        if self._builder is not None:
            self._builder.close()
        self._place.close()

    def _renew(self) -> bool:
        """Let requests read the current snapshot; True if they did not yet."""
        loaded = self._load()
        if loaded is None:
            return False
        (state, about), before = loaded, self._active
        client = LookupClient.over(self._folder, state, before.client, about.rebuilds)
        newer = Snapshot(client, about)
        if not before.client.leads_to(state):
            newer.prepare()
        # No request may be at work with structures that the next snapshot will change.
        with before.lock:
            self._active = newer
            client.succeed(before.client)
        return True

    def _load(self) -> tuple[LookupState, About] | None:
        """The current snapshot; None if it is known already."""
        name = self._place.current()
        if name is None or name == self._loaded:
            return None
        try:
            state, about = self._snapshots.load(name)
        except FileNotFoundError:
            # There is a newer one already, which the next look finds.
            return None
        self._loaded, self._version = name, about.position.version
        return state, about

    def _lack(self) -> str | None:
        """What keeps the job from writing, as far as it can be seen from here."""
        if shutil.disk_usage(self._folder).free >= PROBE_BYTES:
            return None
        return f"{self._folder}: the disk is full, so the job cannot write new answers; free some space"

    def _told(self) -> str | None:
        """What keeps the builder from going on, if it is not in this process."""
        return None if self._builds_here else self._place.told()

    def _follow(self) -> None:
        pause_s = 0.0
        while not self._stop.wait(pause_s):
            try:
                self.refresh()
                told = self._told()
                self.failures += told is not None and told != self.problem
                problem, pause_s = self._lack() or told, LOOK_EVERY_S
            except (PanewiseError, OSError) as error:
                problem, pause_s = str(error), AFTER_FAILURE_S
                self.failures += 1
            except Exception:
                # Whatever it is, the thread must go on: otherwise answers would grow old, and nobody would know why.
                LOG.exception("the folder could not be read")
                problem, pause_s = f"{self._folder} cannot be read; the server's log tells why", AFTER_FAILURE_S
                self.failures += 1
            # Answers do without the metrics of the job, but whoever looks for them is told why they are missing.
            self.problem = problem if problem or self._metrics is None else self._metrics.problem
            if self._builds_here:
                self._place.tell(problem)


def _place(folder: Path, share: Path | None, *, apart: bool) -> Place:
    """Where the snapshots of a folder lie."""
    if share is not None:
        return SharedPlace.opened(share, folder)
    return SharedPlace.private() if apart else MemoryPlace()
