"""An engine in this process as a source: it takes events, and answers lookups between them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import sleep, time
from typing import Any, TypeVar

import pyarrow as pa

from panewise.engine.engine import Engine
from panewise.engine.ingest import read_events
from panewise.engine.on_demand.keys import asked_times, key_columns
from panewise.engine.one_row import PlainRow
from panewise.errors import UnknownNameError
from panewise.language.model import Query
from panewise.language.reader import apply
from panewise.language.workload import Workload
from panewise.planning.plan import Plan
from panewise.serve.kept_windows import KeptWindows
from panewise.serve.rehearsal import rehearse
from panewise.serve.source import AnswerSource, Arrays, BusyError, Position, Reader
from panewise.windows import follows_events
from panewise.windows.clock import to_microseconds

T = TypeVar("T")

EVENTS_AT_ONCE = 20_000
"""Events that are pushed while lookups wait: a few milliseconds."""
PAUSE_S = 0.0005
"""After these, lookups that wait get so long to begin."""


class EngineReader:
    """Lookups of an engine; sliding queries show the window that closed last, sessions the one that a group is in."""

    def __init__(self, source: EngineSource) -> None:
        self._source = source

    @property
    def workload(self) -> Workload:
        """The streams and queries."""
        return self._source.engine.workload

    @property
    def position(self) -> Position:
        """How far the engine is."""
        return self._source.position

    def lookup(self, query: str, keys: object, at: int | str | None) -> pa.Table:
        """Answer a query."""
        source = self._source
        bound = source.engine.workload.queries.get(query)
        if bound is None or _asks_engine(bound):
            return source.engine.lookup(query, at, keys)
        return source.kept[bound.stream].lookup(bound, keys, None if at is None else to_microseconds(at, "`at`"))

    def lookup_many(self, query: str, keys: object, at: int | str | None) -> Arrays:
        """Answer many groups of a query as arrays."""
        engine, bound = self._source.engine, self._source.engine.workload.queries[query]
        if _asks_engine(bound):
            return engine.lookup_many(query, keys, at)
        stream = engine.workload.streams[bound.stream]
        size = len(next(iter(key_columns(stream, bound, keys).values())))
        at_us = None if at is None else to_microseconds(at, "`at`")
        return self._source.kept[bound.stream].lookup_at(bound, keys, [at_us] * size)

    def lookup_at(self, query: str, keys: object, times: object) -> Arrays:
        """Answer many groups of a query as arrays, each at its own time."""
        engine, bound = self._source.engine, self._source.engine.workload.queries[query]
        if _asks_engine(bound):
            return engine.lookup_at(query, keys, times)
        return self._source.kept[bound.stream].lookup_at(bound, keys, asked_times(bound, times).tolist())

    def lookup_rows(
        self, queries: list[str], key: dict[str, object], at: int | str | None
    ) -> dict[str, PlainRow | None]:
        """None: the structures of an engine answer each query by itself."""
        return {}


def _asks_engine(query: Query) -> bool:
    """Whether the engine answers lookups of a query, which has no window that closed for all groups."""
    return not query.window.is_sliding or follows_events(query.window)


class EngineSource(AnswerSource):
    """An engine, its events and its answers."""

    kind = "engine"

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.kept = {name: KeptWindows(stream) for name, stream in engine.workload.streams.items()}
        self._lock = Lock()
        self._pushing = Lock()
        """Events come one request after the other."""
        self._waiting = 0
        self._reader = EngineReader(self)
        self._written_s: float | None = None
        self._position = Position()
        self._move()

    @property
    def workload(self) -> Workload:
        """The streams and queries as they are now."""
        return self.engine.workload

    @property
    def position(self) -> Position:
        """How far the engine is."""
        return self._position

    def read(self, work: Callable[[Reader], T], *, wait: bool) -> T:
        """Let work read the engine between two pushes."""
        if not self._lock.acquire(blocking=False):
            if not wait:
                raise BusyError
            self._waiting += 1
            self._lock.acquire()
            self._waiting -= 1
        try:
            return work(self._reader)
        finally:
            self._lock.release()

    def push(self, stream: str, events: pa.Table, watermark: int | str | None) -> None:
        """Take in events in parts, and close windows after the last.

        All events or none: what is wrong is found before the first part.
        """
        if stream not in self.kept:
            raise UnknownNameError(f"no stream named {stream!r}; there are: {', '.join(self.kept)}")
        with self._pushing:
            self._push(stream, events, watermark)
        self.changed()

    def _push(self, stream: str, events: pa.Table, watermark: int | str | None) -> None:
        if watermark is not None:
            watermark_us = to_microseconds(watermark, "the watermark", or_end=True)
            reached_us = self.engine.position(stream).watermark_us
            if reached_us is not None and watermark_us < reached_us:
                # It raises, and says how far the stream is.
                self.engine.advance(stream, watermark_us)
        if events.num_rows > EVENTS_AT_ONCE:
            read_events(self.workload.streams[stream], events)
        for begin in range(0, events.num_rows, EVENTS_AT_ONCE):
            with self._lock:
                self.engine.push(stream, events.slice(begin, EVENTS_AT_ONCE))
                # Whoever looks between two parts is told how far these answers are.
                self._written_s = time()
                self._move()
            if self._waiting:
                sleep(PAUSE_S)
        with self._lock:
            answers = self.engine.advance(stream, watermark)
            for name in self.workload.following(stream):
                self.kept[name].take(answers, self.engine.position(name).watermark_us, self.workload.queries)
            self._written_s = time()
            self._move()

    def start(self) -> None:
        """Compile what events and lookups need, so that no request waits for it."""
        rehearse(self.workload, self.workload)

    def add(self, statements: str) -> bool:
        """Run statements now."""
        rehearse(self.check(statements), self.workload)
        with self._lock:
            self.engine.add(statements)
            streams = self.engine.workload.streams
            # A stream of answers may be another one than before by its name.
            kept = {name: one for name, one in self.kept.items() if one.stream == streams.get(name)}
            self.kept = {name: kept.get(name) or KeptWindows(stream) for name, stream in streams.items()}
            self._move()
        self.changed()
        return True

    def check(self, statements: str) -> Workload:
        """The workload after statements, if they were run."""
        return apply(self.engine.workload, statements)

    def statistics(self) -> dict[str, Any]:
        """What the engine holds."""
        with self._lock:
            return self.engine.statistics()

    def plan(self) -> tuple[Plan, str]:
        """The plan at work, for what was seen; in words with the work predicted and done."""
        with self._lock:
            return self.engine.plan, self.engine.explain(analyze=True)

    def _move(self) -> None:
        streams = {name: self.engine.position(name) for name in self.engine.workload.streams}
        self._position = Position(
            version=self._position.version + 1,
            watermarks_us={name: one.watermark_us for name, one in streams.items()},
            newest_us={name: one.newest_us for name, one in streams.items()},
            written_s=self._written_s,
            events={name: one.events for name, one in streams.items()},
            late_events={name: one.late_events for name, one in streams.items()},
        )
