"""Places: which rows must be answered together, what is read of them, and how far back a label sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from panewise.language.expressions import attributes_of
from panewise.language.model import Query, Stream
from panewise.windows import RowWindow, TimeWindow


def by_group(queries: Iterable[Query]) -> list[list[Query]]:
    """The queries of each GROUP BY."""
    found: dict[frozenset[str], list[Query]] = {}
    for query in queries:
        found.setdefault(frozenset(query.group_by), []).append(query)
    return list(found.values())


def attributes_read(stream: Stream, queries: Iterable[Query]) -> list[str]:
    """The attributes that some queries read, as the stream declares them."""
    read = {stream.timestamp}
    for query in queries:
        read |= {*query.group_by, *attributes_of(query.where)}
        read |= {name for call in query.aggregates for name in attributes_of(call.argument)}
        if isinstance(query.window, RowWindow):
            read |= set(query.window.partition_by)
    return [name for name in stream.attributes if name in read]


def together_by(stream: Stream, queries: Sequence[Query]) -> list[str]:
    """The attributes that decide where rows go: all rows of a substream must be in one place."""
    names = set(queries[0].group_by)
    for query in queries:
        if isinstance(query.window, RowWindow):
            names &= set(query.window.partition_by)
    return [name for name in stream.attributes if name in names]


def longest_us(queries: Iterable[Query]) -> int | None:
    """How far back a label sees; None if that is not a length of time."""
    windows = [query.window for query in queries]
    lengths = [window.left_us for window in windows if isinstance(window, TimeWindow) and not window.is_sliding]
    return max(lengths, default=0) if len(lengths) == len(windows) else None
