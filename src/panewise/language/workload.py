"""Workloads: streams and the queries over them, and how people see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from panewise.aggregates.types import Type
from panewise.errors import QueryInUseError
from panewise.language.answer_streams import readers_of, without_unread
from panewise.language.literals import print_duration
from panewise.language.model import Query, Stream
from panewise.language.names import copy_of
from panewise.language.printer import print_name, print_query, print_row_query, print_stream
from panewise.language.row_queries import RowQuery
from panewise.notebook import block, counted, names, table


@dataclass(frozen=True, repr=False)
class Workload:
    """Streams and the queries over them, by name, in the order of their statements.

    Queries of aggregates and queries of rows are kept apart, and no name is in both. Among the streams are those of
    answers that some query reads (`Stream.is_of_answers`), each behind the stream that its query reads.
    """

    streams: Mapping[str, Stream] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    row_queries: Mapping[str, RowQuery] = field(default_factory=dict)

    def __repr__(self) -> str:
        return _text(self)

    def _repr_html_(self) -> str:
        return _html(self)

    def queries_of(self, stream: str) -> list[Query]:
        """The queries over one stream, in order."""
        return [query for query in self.queries.values() if query.stream == stream]

    def without(self, name: str) -> Workload:
        """The workload without a query, and without the stream of answers that only it read.

        Cost: as `language.names` says; O(queries) for a query that reads answers.
        """
        self.check_unread(name)
        queries, row_queries = self.queries, self.row_queries
        gone: Query | RowQuery
        if name in row_queries:
            gone = row_queries[name]
            row_queries = {other: query for other, query in row_queries.items() if other != name}
        else:
            queries = copy_of(queries)
            gone = queries.pop(name)
        return Workload(
            without_unread(self.streams, gone, queries.values(), row_queries.values()), queries, row_queries
        )

    def check_unread(self, name: str) -> None:
        """Refuse to let a query go whose answers others read."""
        if name in self.queries and name in self.streams and self.streams[name].is_of_answers:
            readers = ", ".join(readers_of(name, self.queries.values(), self.row_queries.values()))
            raise QueryInUseError(f"the answers of query {name} are read by {readers}; remove those first")

    @property
    def declared(self) -> dict[str, Stream]:
        """The streams that somebody declared, without those of answers."""
        return {name: stream for name, stream in self.streams.items() if not stream.is_of_answers}

    @cached_property
    def streams_above(self) -> dict[str, tuple[Stream, ...]]:
        """The streams of answers of the queries over each stream."""
        found: dict[str, tuple[Stream, ...]] = dict.fromkeys(self.streams, ())
        for stream in self.streams.values():
            # A level of a chain on Spark has it without the stream below.
            if stream.answers_over in found:
                found[stream.answers_over] += (stream,)
        return found

    def following(self, stream: str) -> list[str]:
        """A stream, and the streams of answers that move with it, those below first."""
        return [stream, *(name for above in self.streams_above[stream] for name in self.following(above.name))]

    def source_of(self, stream: str) -> Stream:
        """The declared stream that the events of a stream come from in the end."""
        found = self.streams[stream]
        while found.answers_over is not None:
            found = self.streams[found.answers_over]
        return found

    def delay_us(self, stream: str) -> int:
        """How far the watermark of a stream is behind the newest event of the declared stream that it comes from."""
        found = self.streams[stream]
        below = 0 if found.answers_over is None else self.delay_us(found.answers_over)
        return found.watermark_us + below

    @cached_property
    def sliding_queries(self) -> dict[str, dict[str, Query]]:
        """The sliding queries over each stream, by name. They are picked once: an engine asks at every closing."""
        found: dict[str, dict[str, Query]] = {stream: {} for stream in self.streams}
        for name, query in self.queries.items():
            if query.window.is_sliding:
                found[query.stream][name] = query
        return found

    @property
    def group_by_attributes(self) -> dict[str, Type]:
        """Every attribute that some query groups by, with its type: the key columns of an answers table."""
        return {
            attribute: self.streams[query.stream].attributes[attribute]
            for query in self.queries.values()
            for attribute in query.group_by
        }


def print_workload(workload: Workload) -> str:
    """All streams, then all queries."""
    streams = [print_stream(stream) for stream in workload.declared.values()]
    queries = [print_query(query) for query in workload.queries.values()]
    row_queries = [print_row_query(query) for query in workload.row_queries.values()]
    return "\n".join([*streams, *queries, *row_queries, ""])


def _text(workload: Workload) -> str:
    """Streams and queries, in a line. Cost: O(queries), to list their names."""
    listed = [*workload.queries, *workload.row_queries]
    declared = workload.declared
    streams = counted(len(declared), "stream")
    queries = counted(len(listed), "query", "queries")
    return (
        f"Workload({streams}{': ' if declared else ''}{names(declared)}; "
        f"{queries}{': ' if listed else ''}{names(listed)})"
    )


def _html(workload: Workload) -> str:
    """Streams and queries as tables. Cost: O(queries shown)."""
    total = len(workload.queries) + len(workload.row_queries)
    title = f"Workload: {counted(len(workload.declared), 'stream')}, {counted(total, 'query', 'queries')}"
    return block(title, _streams(workload), queries_table(workload))


def _streams(workload: Workload) -> str:
    headings = ("stream", "attributes", "time", "watermark")
    declared = workload.declared
    return table(headings, (_stream_row(stream) for stream in declared.values()), len(declared))


def _stream_row(stream: Stream) -> tuple[str, str, str, str]:
    attributes = ", ".join(f"{print_name(name)} {kind}" for name, kind in stream.attributes.items())
    watermark = f"{print_duration(stream.watermark_us).lower()} behind" if stream.watermark_us else "no delay"
    return stream.name, attributes, stream.timestamp, watermark


def queries_table(workload: Workload) -> str:
    """Every query with its statement, and how its answers come."""
    total = len(workload.queries) + len(workload.row_queries)
    return table(("query", "answered by", "statement"), _query_rows(workload), total)


def _query_rows(workload: Workload) -> Iterator[tuple[str, str, str]]:
    for query in workload.queries.values():
        yield query.name, "advance" if query.window.is_sliding else "lookup", _statement(query, print_query(query))
    for rows in workload.row_queries.values():
        yield rows.name, "rows", _statement(rows, print_row_query(rows))


def _statement(query: Query | RowQuery, text: str) -> str:
    return text.removeprefix(f"CREATE QUERY {print_name(query.name)} AS ").removesuffix(";")
