"""Closing: the part of an engine that moves watermarks and gives the answers of windows that close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from os import PathLike

import numpy as np
import pyarrow as pa

from panewise.engine.answer_events import events_of, watermark_above
from panewise.engine.answers import AnswerColumns
from panewise.engine.closed_tables import Answers
from panewise.engine.outputs import Format, Layout, output_of
from panewise.engine.stream_state import Staged, StreamState
from panewise.engine.warned import Warned
from panewise.engine.wide_tables import Closed
from panewise.engine.windowed.row_queries import RowQueries
from panewise.errors import PanewiseError, QueryKindError
from panewise.language.model import Stream
from panewise.language.workload import Workload
from panewise.planning.memory import machine_bytes
from panewise.windows.clock import FIRST_US, to_microseconds

Time = int | datetime | date | str


class Closing(ABC):
    """Answers the windows of a workload's streams as they close."""

    _workload: Workload
    _columns: AnswerColumns
    _row_queries: RowQueries
    _memory_limit: int | None
    _warned: Warned

    def closing(self, stream: str, watermark: Time | None = None, *, changed_only: bool = False) -> Iterator[Answers]:
        """Move a stream's watermark in steps, and yield the answers as windows close, in bounded memory.

        The watermark moves only as far as you read. If you stop early, `advance` or `closing` goes on from there.

        Args:
            stream: The name of the stream.
            watermark: As for `advance`.
            changed_only: As for `advance`.

        Yields:
            `Answers` of one or several window ends that follow those before; together they are what `advance` returns.

        Raises:
            PanewiseError: As for `advance`.

        Cost: as `advance`, plus O(partials held) for each step of about 4 million answers.
        """
        state = self._declared(stream)
        watermark_us = self._watermark_us(state, watermark)
        if watermark_us is None:
            return iter(())
        return self._steps(state, watermark_us, changed_only)

    def write(
        self,
        stream: str,
        to: str | PathLike[str] | Callable[[str, pa.Table], object],
        watermark: Time | None = None,
        *,
        layout: Layout = "families",
        format: Format = "parquet",
        changed_only: bool = False,
    ) -> dict[str, int]:
        """Move a stream's watermark, and send the answers to files or to a function as windows close.

        Args:
            stream: The name of the stream.
            to: A folder, in which each table becomes a file of its name, or a function that is called with the name of
                a table and the next rows of it.
            watermark: As for `advance`.
            layout: Which tables: "families", "tables" (one for each query) or "long" (one for all).
            format: The format of files, "parquet" or "arrow" (IPC).
            changed_only: As for `advance`.

        Returns:
            The rows written, by the name of the table.

        Raises:
            PanewiseError: As for `advance`; or the layout or format is unknown, or a file is already there.

        Cost: as `closing`, and writing.
        """
        state = self._declared(stream)
        watermark_us = self._watermark_us(state, watermark)
        empty = self._answers(state, {}, changed_only)
        with output_of(to, layout, format, empty) as output:
            if watermark_us is not None:
                for answers in self._steps(state, watermark_us, changed_only):
                    output.take(answers)
        return output.rows

    @abstractmethod
    def _stream(self, name: str) -> StreamState:
        """The state of a stream, or an error if there is none of this name."""

    def _watermark_us(self, state: StreamState, watermark: Time | None) -> int | None:
        """The watermark to move to; None if none is given and no event has come."""
        if watermark is not None:
            watermark_us = to_microseconds(watermark, "the watermark", or_end=True)
            self._warned.time(state, watermark, watermark_us, "the watermark")
            state.check_watermark(watermark_us)
            return watermark_us
        if state.newest_us is None:
            return None
        # Before year 1 there is nothing to close, for any declared delay.
        watermark_us = max(state.newest_us - state.stream.watermark_us, FIRST_US)
        return watermark_us if state.watermark_us is None else max(watermark_us, state.watermark_us)

    def _steps(self, state: StreamState, watermark_us: int, changed_only: bool) -> Iterator[Answers]:
        rows = 0
        for cut_us in state.cuts(watermark_us):
            answers = self._advance(state, cut_us, changed_only)
            rows += answers.num_rows
            yield answers
        self._warned.advance(state, rows)

    def _declared(self, name: str) -> StreamState:
        """The state of a stream that somebody declared; one of answers is moved by the stream below it."""
        state = self._stream(name)
        if state.stream.is_of_answers:
            source = self._workload.source_of(name).name
            raise QueryKindError(
                f"{name} is a query whose answers others read: push events into stream {source}, and advance that one; "
                f"what reads {name} follows in the same call"
            )
        return state

    def _advance(self, state: StreamState, until_us: int, changed_only: bool) -> Answers:
        if changed_only:
            # Before anything moves: what is staged is fed to the streams above.
            for name in self._workload.following(state.stream.name):
                self._stream(name).check_changes()
        staged: list[tuple[StreamState, Staged]] = []
        try:
            self._stage(state, until_us, changed_only, staged)
        except PanewiseError:
            for one, _ in staged:
                one.roll_back()
            raise
        for one, found in staged:
            one.commit(found)
            assert one.watermark_us is not None
            self._row_queries.advance(one.stream.name, one.watermark_us)
        return self._answers(state, {one.stream.name: found.closed for one, found in staged}, changed_only)

    def _stage(
        self, state: StreamState, until_us: int, changed_only: bool, staged: list[tuple[StreamState, Staged]]
    ) -> None:
        """Find what closes in a stream, and with it in the streams of its queries' answers, those below first."""
        most_bytes = machine_bytes() if self._memory_limit is None else self._memory_limit
        found = state.stage(until_us, changed_only=changed_only, most_bytes=most_bytes)
        staged.append((state, found))
        for stream in self._workload.streams_above[state.stream.name]:
            above = self._stream(stream.name)
            self._feed(above, state.stream, found)
            self._stage(above, watermark_above(stream, found.until_us), changed_only, staged)

    def _feed(self, above: StreamState, below: Stream, staged: Staged) -> None:
        """Let a stream of answers take in what was staged below it."""
        stream = above.stream
        query = self._workload.queries[stream.name]
        in_order = above.log is not None or stream.name in self._row_queries.feeds
        for closed in staged.closed:
            answers = [part for part in closed.read if part.query.name == query.name]
            if not answers:
                continue
            events = events_of(stream, below, query, answers, in_order=in_order)
            if above.watermark_us is not None:
                # Those before came when an advance failed, or belong to a past that this stream has not seen whole.
                times = np.asarray(events.column(stream.timestamp))
                events = events.filter(pa.array(times >= above.watermark_us))
            self._row_queries.push(stream.name, above.push(events))

    def _answers(self, state: StreamState, closed: Mapping[str, list[Closed]], changed_only: bool) -> Answers:
        return Answers.of(self._workload, state.stream, closed, self._columns.schema, changed_only=changed_only)
