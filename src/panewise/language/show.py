"""A workload as people see it: a line of text, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from panewise.language.literals import print_duration
from panewise.language.model import Query, Stream, Workload
from panewise.language.printer import print_name, print_query, print_row_query
from panewise.language.row_queries import RowQuery
from panewise.notebook import block, counted, names, table


def workload_text(workload: Workload) -> str:
    """Streams and queries, in a line. Cost: O(queries), to list their names."""
    listed = [*workload.queries, *workload.row_queries]
    streams = counted(len(workload.streams), "stream")
    queries = counted(len(listed), "query", "queries")
    return (
        f"Workload({streams}{': ' if workload.streams else ''}{names(workload.streams)}; "
        f"{queries}{': ' if listed else ''}{names(listed)})"
    )


def workload_html(workload: Workload) -> str:
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
