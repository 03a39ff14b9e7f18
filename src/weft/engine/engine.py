"""The engine: push, advance, lookup, add, remove, snapshot. One process, one thread."""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches
from os import PathLike

import pyarrow as pa

from weft.engine.answers import answers_schema, to_table, wide
from weft.engine.explain import explain_engine
from weft.engine.ingest import to_batch
from weft.engine.snapshot import read_snapshot, write_snapshot
from weft.engine.stream_state import StreamState
from weft.errors import WeftError
from weft.language.model import Query, Workload
from weft.language.reader import apply, read
from weft.windows.clock import to_microseconds

Time = int | datetime | str


class Engine:
    """Answers the queries of a workload over events that are pushed in.

    Times are int microseconds since 1970 UTC, datetimes (naive means UTC) or ISO text. Not thread-safe.
    """

    def __init__(self, workload: Workload | str | PathLike[str]) -> None:
        self._workload = workload if isinstance(workload, Workload) else read(workload)
        self._schema = answers_schema(self._workload)
        self._streams = {
            stream.name: StreamState(stream, self._workload.queries_of(stream.name))
            for stream in self._workload.streams.values()
        }

    @property
    def workload(self) -> Workload:
        """The streams, and the queries that are being answered."""
        return self._workload

    def push(self, stream: str, events: object) -> None:
        """Take in events: Arrow, pandas, Polars or a dict of arrays, in any order.

        Events behind the watermark are dropped and counted (`late_events`). Cost: O(events) per execution tree.
        """
        state = self._stream(stream)
        state.push(to_batch(state.stream, events))

    def advance(self, stream: str, watermark: Time | None = None) -> pa.Table:
        """Move a stream's watermark and return the answers of the windows that it closes.

        Without a watermark, it is the newest event's time less the stream's declared WATERMARK delay.
        `weft.END_OF_STREAM` closes everything.
        """
        state = self._stream(stream)
        if watermark is not None:
            watermark_us = to_microseconds(watermark)
        elif state.newest_us is None:
            return to_table([], self._schema)
        else:
            watermark_us = max(state.newest_us - state.stream.watermark_us, state.watermark_us or -(2**63))
        return to_table(state.advance(watermark_us), self._schema)

    def lookup(self, query: str, at: Time | None = None) -> pa.Table:
        """Answer an on-demand query at a time, or now: at the newest event or the watermark, whichever is later."""
        bound = self._query(query)
        if bound.window.is_sliding:
            raise WeftError(
                f"query {query} slides, so its answers come from advance(); for lookups, write its window without SLIDE"
            )
        at_us = None if at is None else to_microseconds(at)
        return to_table([self._stream(bound.stream).lookup(bound, at_us)], self._schema)

    def add(self, statements: str) -> None:
        """Run statements: CREATE STREAM, CREATE QUERY, DROP QUERY. All of them, or none when one is wrong.

        A new query reports only windows that it has seen whole; `exact_from` tells from where on that is.
        """
        workload = apply(self._workload, statements)
        schema = answers_schema(workload)
        before, after = self._workload.queries, workload.queries
        for name in before:
            if after.get(name) is not before[name]:
                self._stream(before[name].stream).remove(name)
        for stream in workload.streams.values():
            if stream.name not in self._streams:
                self._streams[stream.name] = StreamState(stream, [])
            fresh = [query for query in workload.queries_of(stream.name) if before.get(query.name) is not query]
            self._streams[stream.name].add(fresh)
        self._workload, self._schema = workload, schema

    def remove(self, query: str) -> None:
        """Stop answering a query, and free what only it needed."""
        bound = self._query(query)
        self._stream(bound.stream).remove(query)
        queries = {name: kept for name, kept in self._workload.queries.items() if name != query}
        self._workload = Workload(self._workload.streams, queries)
        self._schema = answers_schema(self._workload)

    def late_events(self, stream: str) -> int:
        """How many events came behind the watermark and were dropped."""
        return self._stream(stream).late

    def exact_from(self, query: str) -> int | None:
        """From where on a query sees every event: microseconds, or a position for ROWS ... SLIDE; None: the start."""
        return self._stream(self._query(query).stream).exact_from(query)

    def explain(self, *, analyze: bool = False) -> str:
        """The plan that is at work, as text; with `analyze`, what was predicted for each tree beside what it did."""
        return explain_engine(self._workload, self._streams, analyze=analyze)

    def wide(self, answers: pa.Table, query: str) -> pa.Table:
        """One query's rows of an answers table, with a typed column per SELECT item."""
        return wide(answers, self._workload, query)

    def snapshot(self) -> bytes:
        """Everything that the engine holds, as bytes for `restore`."""
        return write_snapshot(self._workload, self._streams)

    @classmethod
    def restore(cls, blob: bytes) -> Engine:
        """An engine that goes on where `snapshot` left off."""
        workload, streams = read_snapshot(blob)
        engine = cls.__new__(cls)
        engine._workload = workload
        engine._schema = answers_schema(workload)
        engine._streams = streams
        return engine

    def _stream(self, name: str) -> StreamState:
        if name not in self._streams:
            raise WeftError(f"no stream named {name!r}{_instead(name, list(self._streams))}")
        return self._streams[name]

    def _query(self, name: str) -> Query:
        if name not in self._workload.queries:
            raise WeftError(f"no query named {name!r}{_instead(name, list(self._workload.queries))}")
        return self._workload.queries[name]


def _instead(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known[:10]) or 'none'}"
