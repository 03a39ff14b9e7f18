"""Workloads: streams and the queries over them, and how people see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from panewise.aggregates.types import Type
from panewise.language.literals import print_duration
from panewise.language.model import Query, Stream
from panewise.language.names import copy_of
from panewise.language.printer import print_name, print_query, print_row_query, print_stream
from panewise.language.row_queries import RowQuery
from panewise.notebook import block, counted, names, table


@dataclass(frozen=True, repr=False)
class Workload:
    """Streams and the queries over them, by name, in the order of their statements.

    Queries of aggregates and queries of rows are kept apart, and no name is in both.
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
        """The workload without a query of aggregates. Cost: as `language.names` says."""
        queries = copy_of(self.queries)
        del queries[name]
        return Workload(self.streams, queries, self.row_queries)

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
    streams = [print_stream(stream) for stream in workload.streams.values()]
    queries = [print_query(query) for query in workload.queries.values()]
    row_queries = [print_row_query(query) for query in workload.row_queries.values()]
    return "\n".join([*streams, *queries, *row_queries, ""])


def _text(workload: Workload) -> str:
    """Streams and queries, in a line. Cost: O(queries), to list their names."""
    listed = [*workload.queries, *workload.row_queries]
    streams = counted(len(workload.streams), "stream")
    queries = counted(len(listed), "query", "queries")
    return (
        f"Workload({streams}{': ' if workload.streams else ''}{names(workload.streams)}; "
        f"{queries}{': ' if listed else ''}{names(listed)})"
    )


def _html(workload: Workload) -> str:
    """Streams and queries as tables. Cost: O(queries shown)."""
    total = len(workload.queries) + len(workload.row_queries)
    title = f"Workload: {counted(len(workload.streams), 'stream')}, {counted(total, 'query', 'queries')}"
    return block(title, _streams(workload), queries_table(workload))


def _streams(workload: Workload) -> str:
    headings = ("stream", "attributes", "time", "watermark")
    return table(headings, (_stream_row(stream) for stream in workload.streams.values()), len(workload.streams))


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
