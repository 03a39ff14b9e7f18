"""When the next window of a stream closes, or why none can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panewise.engine.stream_state import StreamState
from panewise.language.literals import print_duration
from panewise.language.model import Query
from panewise.windows import PunctuationWindow, RowWindow, SessionWindow, TimeWindow
from panewise.windows.clock import END_OF_STREAM, show_time
from panewise.windows.instances import ends_of, last_ending, last_starting, needed_from
from panewise.windows.slots import lengths_of


@dataclass(frozen=True)
class NextClosing:
    """The next window of a stream that closes, or why none can. As text it says both."""

    query: str | None
    """The query of that window; None if no window can close as things are."""
    end_us: int | None
    """The end of that window: it closes when the watermark gets there. None for a window over rows."""
    rows: int | None
    """For a window over rows, how many more events must be behind the watermark."""
    why: str
    """What must happen first, in words."""

    def __str__(self) -> str:
        return self.why


def next_closing(state: StreamState) -> NextClosing:
    """The next window of a stream that closes with an event in it, or why none can."""
    queries = _sliding(state)
    name = state.stream.name
    if not queries and state.substreams:
        query = next(iter(state.substreams[0].queries))
        return _none(f"query {query} reports each substream by itself, when it has its next rows")
    if not queries:
        return _none(f"stream {name} has no query of aggregates that slides, so nothing closes; look answers up")
    if state.watermark_us == END_OF_STREAM:
        return _none(f"stream {name} has ended, and every window was closed")
    if state.newest_us is None:
        return _none(f"no event of stream {name} was taken in, and a window without events gives no answer")
    by_time = min(_ends(state, queries), default=None)
    if by_time is not None:
        end_us, query = by_time
        return NextClosing(query, end_us, None, f"the next window, of query {query}, ends at {show_time(end_us)}")
    by_rows = min(_rows_missing(state, queries), default=None)
    if by_rows is not None:
        rows, query = by_rows
        why = f"the next window, of query {query}, ends {rows:,} events after those that are behind the watermark"
        return NextClosing(query, None, rows, why)
    return _none(f"every window with an event of stream {name} has closed; push newer events")


def why_nothing_closed(state: StreamState) -> str:
    """Why an advance to where the watermark stands now closed no window."""
    upcoming = next_closing(state)
    watermark_us = state.watermark_us
    if state.newest_us is None or watermark_us is None:
        return upcoming.why
    if watermark_us == END_OF_STREAM and all(isinstance(query.window, RowWindow) for query in _sliding(state)):
        rows, query = min(_rows_missing(state, _sliding(state)))
        return f"the stream has ended, and query {query} needs {rows:,} more events to fill a window"
    if upcoming.query is None:
        return "windows ended, but no event passed WHERE, or a query came too late to see a whole window"
    shown = f"the watermark stands at {show_time(watermark_us)}"
    delay_us = state.newest_us - watermark_us
    if delay_us > 0 and delay_us == state.stream.watermark_us:
        shown += f", the WATERMARK delay of {print_duration(delay_us)} behind the newest event"
    return f"{shown}, and {upcoming.why}"


def _none(why: str) -> NextClosing:
    return NextClosing(None, None, None, why)


def _sliding(state: StreamState) -> list[Query]:
    return [
        planned.query
        for generation in state.generations
        for tree in generation.trees
        for planned in tree.queries.values()
    ]


def _ends(state: StreamState, queries: list[Query]) -> Iterator[tuple[int, str]]:
    """The end of the next window of time of each query that may hold an event taken in."""
    assert state.newest_us is not None
    assert state.oldest_us is not None
    for query in queries:
        if isinstance(query.window, SessionWindow):
            # That of the newest event; sessions of other groups may end before.
            end_us = state.newest_us + query.window.gap_us
            if state.closed_us is None or end_us >= state.closed_us:
                yield end_us, query.name
        if isinstance(query.window, PunctuationWindow):
            # At the latest; an event may close it before.
            end_us = state.newest_us + query.window.max_us
            if state.closed_us is None or end_us >= state.closed_us:
                yield end_us, query.name
        if not isinstance(query.window, TimeWindow):
            continue
        window = query.window
        after_us = state.oldest_us if state.closed_us is None else max(state.oldest_us, state.closed_us)
        exact_from = state.exact_from(query.name)
        if exact_from is not None:
            # Windows that the query has not seen whole are not reported.
            first_whole = last_starting(window, exact_from - 1) + 1
            after_us = max(after_us, ends_of(window, first_whole) - 1)
        upcoming = last_ending(window, after_us) + 1
        if needed_from(window, upcoming) <= state.newest_us:
            yield ends_of(window, upcoming), query.name


def _rows_missing(state: StreamState, queries: list[Query]) -> Iterator[tuple[int, str]]:
    """How many more events must be behind the watermark, for each query over rows."""
    for query in queries:
        if not isinstance(query.window, RowWindow):
            continue
        length, slide = lengths_of(query.window)
        start = max(state.exact_from(query.name) or 0, 0)
        after = max(state.closed_rows, -(-start // slide) * slide + length - 1 if start else 0)
        end = ((after - length) // slide + 1) * slide + length
        yield end - state.closed_rows, query.name
