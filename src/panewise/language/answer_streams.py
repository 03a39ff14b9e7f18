"""Streams of answers: what a query sees that reads another query's answers.

`FROM hourly`, where `hourly` is a sliding query, reads a stream whose events are the answers of `hourly`. It is a
stream like any other: it has attributes, a time and a watermark, so all queries work over it. Nobody declares it. It is
there as long as some query reads it, and nobody pushes into it.

The time of an answer is the last instant that belongs to its window, so the answers of all hours of a day lie in that
day. When the watermark of the stream below reaches w, all windows that end up to w have been reported, so no answer of
a time before w can come any more. Sessions are the exception: a long one is cut only once it is known to be too long,
and its first piece is reported up to MAX after its end. Their stream stays MAX behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Attribute, Expression
from panewise.language.model import Query, Stream
from panewise.language.printer import label_of, print_name
from panewise.language.row_queries import RowQuery
from panewise.language.source import PlacedError, shortened
from panewise.language.statements import CreateQuery, Name
from panewise.language.typecheck import type_of
from panewise.windows import RowWindow, SessionWindow, TimeWindow, Window

WINDOW_START, WINDOW_END, WINDOW_TIME = "window_start", "window_end", "window_time"


def sources_of(statement: CreateQuery) -> Iterator[Name]:
    """What a query reads, as it is written."""
    yield statement.source.stream
    if statement.join is not None:
        yield statement.join.source.stream
    if statement.intersect is not None:
        yield statement.intersect.source.stream


def streams_of(query: Query | RowQuery) -> tuple[str, ...]:
    """The streams that a query reads."""
    return query.streams if isinstance(query, RowQuery) else (query.stream,)


def stream_of_answers(query: Query, base: Stream, source: Name) -> Stream:
    """The stream of a query's answers; `source` is where somebody wants to read it."""
    _check_readable(query, base, source)
    attributes = {WINDOW_START: Type.TIMESTAMP, WINDOW_END: Type.TIMESTAMP, WINDOW_TIME: Type.TIMESTAMP}
    for name, kind in _columns(query, base):
        if name in attributes:
            message = f"the answers of {shortened(query.name)} cannot be read: they have two attributes {name!r}"
            raise PlacedError(message, source.span, f"give the item of {query.name} another name with AS")
        if kind is not None:
            attributes[name] = kind
    behind_us = query.window.max_us if isinstance(query.window, SessionWindow) else 0
    return Stream(query.name, attributes, WINDOW_TIME, watermark_us=behind_us, answers_over=base.name)


def last_instants_us(window: Window) -> int:
    """By how much the last instant that belongs to an instance of a window lies behind its end: 0 or -1."""
    return -1 if isinstance(window, TimeWindow) else 0


def readers_of(name: str, queries: Iterable[Query], row_queries: Iterable[RowQuery]) -> list[str]:
    """The names of the queries that read a stream."""
    every: list[Query | RowQuery] = [*queries, *row_queries]
    return [query.name for query in every if name in streams_of(query)]


def without_unread(
    streams: Mapping[str, Stream], gone: Query | RowQuery, queries: Iterable[Query], row_queries: Iterable[RowQuery]
) -> dict[str, Stream]:
    """The streams without those of answers that only a query read that is gone.

    Cost: O(queries), but only if that query read answers.
    """
    unread = {
        name for name in streams_of(gone) if streams[name].is_of_answers and not readers_of(name, queries, row_queries)
    }
    return {name: stream for name, stream in streams.items() if name not in unread}


def _columns(query: Query, base: Stream) -> Iterator[tuple[str, Type | None]]:
    """The names and types of groups and items; None for a list, which no query can read."""
    selected = {item.expression.name for item in query.select if isinstance(item.expression, Attribute)}
    for name in query.group_by:
        if name not in selected:
            yield name, base.attributes[name]
    for item in query.select:
        yield label_of(item), None if _is_list(item.expression) else type_of(item.expression, base.attributes)


def _is_list(expression: Expression) -> bool:
    return isinstance(expression, AggregateCall) and CATALOGUE[expression.function].is_list


def _check_readable(query: Query, base: Stream, source: Name) -> None:
    """Refuse queries whose answers are no stream of final events."""
    message = hint = ""
    if not query.window.is_sliding:
        message = f"{shortened(query.name)} has no SLIDE, so it answers when it is looked up and not by itself"
        hint = f"read {print_name(base.name)} itself, or give the window of {query.name} a SLIDE"
    elif not isinstance(query.window, TimeWindow | RowWindow | SessionWindow):
        message = f"{shortened(query.name)} has windows from one event to another, and their answers cannot be read"
        hint = "read queries with windows of RANGE, ROWS, CUMULATE, UNBOUNDED or SESSION"
    elif base.correct_us:
        message = (
            f"the answers of {shortened(query.name)} may be corrected, as {shortened(base.name)} has ON LATE CORRECT, "
            f"and a query reads only answers that are final"
        )
        hint = f"declare the stream a second time without ON LATE CORRECT, and let {query.name} read that one"
    if message:
        raise PlacedError(message, source.span, hint)
