"""All row queries of an engine: which operator answers each, what feeds them, and where their rows wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.engine.event_log import EventLog
from panewise.engine.stream_state import StreamState
from panewise.engine.windowed.feed import Events, Feed
from panewise.engine.windowed.histogram import HistogramOperator
from panewise.engine.windowed.intersection import IntersectionOperator
from panewise.engine.windowed.join import JoinOperator
from panewise.engine.windowed.operator import Feeds, Keep, Operator
from panewise.engine.windowed.output import QueryRows, schema_of
from panewise.engine.windowed.selection import SelectionOperator
from panewise.engine.windowed.sorted_window import SortedOperator
from panewise.errors import QueryKindError
from panewise.language.model import Stream
from panewise.language.row_queries import (
    Evaluation,
    IntersectionQuery,
    JoinQuery,
    RowQuery,
    SelectionQuery,
    SortedQuery,
    ValueQuery,
)
from panewise.planning.windowed import share_key
from panewise.windows.clock import END_OF_STREAM


class RowQueries:
    """The row queries of an engine. `states` are the engine's own, for watermarks and newest events."""

    def __init__(self, states: Mapping[str, StreamState]) -> None:
        self._states = states
        self.feeds: dict[str, Feed] = {}
        self.operators: list[Operator] = []

    def push(self, stream: str, batch: pa.RecordBatch) -> None:
        """Take in events that are not late."""
        if not batch.num_rows:
            return
        if stream in self.feeds:
            self.feeds[stream].push(batch)
        events = Events(self._stream(stream), pa.Table.from_batches([batch]), np.arange(batch.num_rows))
        for operator in self.operators:
            if stream in operator.streams:
                operator.push(stream, events)

    def advance(self, stream: str, watermark_us: int) -> None:
        """Move a stream's watermark, and answer the windows that this completes."""
        if stream not in self.feeds:
            return
        reading = [operator for operator in self.operators if stream in operator.streams]
        before = [operator.complete for operator in reading]
        events = self.feeds[stream].advance(watermark_us)
        for operator, known in zip(reading, before, strict=True):
            operator.foresee(known, operator.complete)
            if len(events):
                operator.take(stream, events)
            operator.advance()

    def add(self, queries: Iterable[RowQuery]) -> None:
        """Start answering more queries; those with the same key share an operator."""
        operators, added = list(self.operators), []
        for query in queries:
            key = share_key(query)
            shared = (operator for operator in operators if key is not None and operator.key == key)
            operator = next(shared, None)
            if operator is None:
                operator = self._build(query)
                operators.append(operator)
            added.append((operator, QueryRows(query, schema_of(query, self._streams))))
        # Nothing is changed before this point, where nothing can fail any more.
        self.operators = operators
        for operator, output in added:
            operator.outputs[output.query.name] = output

    def remove(self, name: str) -> None:
        """Stop answering a query, and free what only it needed."""
        operator = self._operator(name)
        del operator.outputs[name]
        self.operators = [each for each in self.operators if each.outputs]
        needed = {
            stream for each in self.operators if not isinstance(each, SelectionOperator) for stream in each.streams
        }
        self.feeds = {stream: feed for stream, feed in self.feeds.items() if stream in needed}

    def rows(self, name: str) -> pa.Table:
        """The rows of a query since the last call."""
        output = self._operator(name).outputs[name]
        if output.query.into is not None:
            raise QueryKindError(f"query {name} holds its rows INTO a window; read them with lookup({name!r})")
        return output.fetch()

    def lookup(self, name: str) -> pa.Table:
        """The newest complete state of a query: the window of INTO, or that of the newest complete basic windows."""
        operator = self._operator(name)
        output = operator.outputs[name]
        if output.query.into is None:
            return operator.lookup(output.query)
        return output.window(self._now_us(output.query))

    def exact_from(self, name: str) -> int | None:
        """Where a query begins to see every event; None: from the beginning."""
        return self._operator(name).exact_from

    def statistics(self) -> dict[str, dict[str, Any]]:
        """The state of each query in numbers."""
        return {
            name: {
                "operator": type(operator).__name__.removesuffix("Operator").lower(),
                **operator.statistics(),
                **({} if output.query.evaluation == Evaluation() else {"evaluations": output.evaluations}),
                "evaluated_every": output.every,
                "evaluations_left_out": output.left_out,
            }
            for operator in self.operators
            for name, output in operator.outputs.items()
        }

    def check_invariants(self) -> None:
        """Raise AssertionError if the state of some operator is wrong."""
        for operator in self.operators:
            operator.check_invariants()

    def describe(self, keep: Keep) -> dict[str, Any]:
        """Everything, for a snapshot."""
        return {
            "feeds": {name: _describe_feed(feed, keep) for name, feed in self.feeds.items()},
            "operators": [
                {
                    "outputs": {name: keep(output.table) for name, output in operator.outputs.items()},
                    "state": operator.describe(keep),
                }
                for operator in self.operators
            ],
        }

    def restore(self, description: Mapping[str, Any], queries: Mapping[str, RowQuery], tables: list[pa.Table]) -> None:
        """Take over what was described."""
        for name, part in description["feeds"].items():
            self.feeds[name] = _restore_feed(self._stream(name), part, tables)
        for part in description["operators"]:
            names = list(part["outputs"])
            operator = self._build(queries[names[0]])
            for name, table in part["outputs"].items():
                operator.outputs[name] = QueryRows(queries[name], schema_of(queries[name], self._streams))
                operator.outputs[name].table = tables[table]
            operator.restore(part["state"], tables)
            self.operators.append(operator)

    @property
    def _streams(self) -> dict[str, Stream]:
        return {name: state.stream for name, state in self._states.items()}

    def _stream(self, name: str) -> Stream:
        return self._states[name].stream

    def _operator(self, name: str) -> Operator:
        return next(operator for operator in self.operators if name in operator.outputs)

    def _build(self, query: RowQuery) -> Operator:
        if isinstance(query, SelectionQuery):
            return SelectionOperator(query, self._unseen_from_us(query.stream))
        return build_operator(query, self._streams, self._open(query.streams))

    def _open(self, streams: Iterable[str]) -> Feeds:
        """The feeds of streams; a new one sees the events from now on."""
        for name in streams:
            if name not in self.feeds:
                feed = Feed(self._stream(name), self._unseen_from_us(name))
                feed.watermark_us = self._states[name].watermark_us
                self.feeds[name] = feed
        return self.feeds

    def _unseen_from_us(self, stream: str) -> int | None:
        """The time from which all events are still to come; None if there has been no event yet."""
        return self._states[stream].unseen_from_us

    def _now_us(self, query: RowQuery) -> int | None:
        """The time up to which the output is whole: a lookup looks back from there.

        A selection answers at once; the others when all watermarks have passed.
        """
        states = [self._states[name] for name in query.streams]
        if isinstance(query, SelectionQuery):
            return states[0].now_us
        marks = [state.watermark_us for state in states]
        if any(mark is None for mark in marks):
            return None
        before_end = [mark for mark in marks if mark is not None and mark != END_OF_STREAM]
        if before_end:
            return min(before_end)
        # At the end of all streams: no earlier than any lookup before it.
        return max((state.now_us for state in states if state.now_us is not None), default=None)


def build_operator(query: RowQuery, streams: Mapping[str, Stream], feeds: Feeds) -> Operator:
    """The operator that answers a query over final events, which `feeds` bring."""
    match query:
        case ValueQuery():
            return HistogramOperator(query, streams, feeds)
        case SortedQuery():
            return SortedOperator(query, streams, feeds)
        case IntersectionQuery():
            return IntersectionOperator(query, streams, feeds)
        case JoinQuery():
            return JoinOperator(query, streams, feeds)
        case _:
            raise TypeError(f"unknown kind of row query: {query!r}")


def _describe_feed(feed: Feed, keep: Keep) -> dict[str, Any]:
    return {"watermark_us": feed.watermark_us, **feed.log.describe(keep)}


def _restore_feed(stream: Stream, description: Mapping[str, Any], tables: list[pa.Table]) -> Feed:
    feed = Feed(stream)
    feed.watermark_us = description["watermark_us"]
    feed.log = EventLog.described(stream, description, tables)
    return feed
