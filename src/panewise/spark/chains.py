"""Chains on Spark: queries that read answers run in levels, each a pipeline of its own over the answers of those below.

Level 0 reads declared streams. A query is one level above the highest of the queries that it reads. What a level reads
of one below is answered there for it, besides what that level reports, so a query that others read is answered once
for each level above it that needs it, directly or through others.

In a stream all levels see the watermark of Spark. A batch with watermark w brings the answers of all windows that end
up to w, and the level above takes them in before it closes its own windows up to w. So none of them is late: only what
belongs to windows that it has closed before would be. Windows that Spark reports later than they end hold their stream
back by that much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panewise.errors import NotOnSparkError
from panewise.language.answer_streams import WINDOW_END, WINDOW_TIME, last_instants_us, streams_of
from panewise.language.model import UNBOUNDED_US, Query, Stream
from panewise.language.row_queries import RowQuery
from panewise.language.workload import Workload
from panewise.spark.columns import named
from panewise.windows import RowWindow, SessionWindow

Q = TypeVar("Q", Query, RowQuery)

SLOT_OF_ROWS_US = 1_000_000
"""The slot of a stream that declares none and is read by rows."""


class Level(NamedTuple):
    """Where queries of a chain run together: at one height, and as far behind Spark's watermark."""

    height: int
    behind_us: int


def levels_of(workload: Workload) -> list[Workload]:
    """The queries of a workload by levels, those below first; one level if no query reads answers."""
    if not any(stream.is_of_answers for stream in workload.streams.values()):
        return [workload]
    levels: dict[str, Level] = {}
    for name, stream in workload.streams.items():
        height = 0 if stream.answers_over is None else levels[stream.answers_over].height + 1
        levels[name] = Level(height, _of_answers(workload, stream).watermark_us if height else 0)
    queries, row_queries = _by_level(workload.queries, levels), _by_level(workload.row_queries, levels)
    return [
        _over_streams(workload, queries.get(level, {}), row_queries.get(level, {}))
        for level in sorted({*queries, *row_queries})
    ]


def only(workload: Workload, name: str) -> Workload:
    """One query of a chain, over its stream."""
    return _over_streams(workload, {name: workload.queries[name]}, {})


def check_levels(levels: list[Workload], *, is_live: bool = False) -> None:
    """Raise if Spark cannot run queries of answers as they are."""
    of_answers = next((stream for level in levels for stream in level.streams.values() if stream.is_of_answers), None)
    if of_answers is None:
        return
    if is_live:
        raise NotOnSparkError(
            f"queries read the answers of query {of_answers.name}, which they cannot in a job with a control stream; "
            f"leave out control=, or give {of_answers.name} and the queries that read it a job of their own"
        )
    for level in levels[1:]:
        asked = next((query for query in level.queries.values() if not query.window.is_sliding), None)
        if asked is not None:
            raise NotOnSparkError(
                f"query {asked.name} reads the answers of {asked.stream} and has no SLIDE, and on Spark answers of "
                f"answers are not looked up; give its window a SLIDE, or look it up with panewise.Engine"
            )


def as_events(answers: DataFrame, query: Query) -> DataFrame:
    """The wide table of a query as events of the stream of its answers."""
    last = F.unix_micros(named(WINDOW_END)) + F.lit(last_instants_us(query.window))
    return answers.withColumn(WINDOW_TIME, F.timestamp_micros(last))


def _of_answers(workload: Workload, stream: Stream) -> Stream:
    """A stream of answers as a level reads it: as far behind as Spark may report its windows after they end."""
    query = workload.queries[stream.name]
    slot_us = workload.streams[query.stream].granularity_us or SLOT_OF_ROWS_US
    behind_us = 0
    if isinstance(query.window, SessionWindow):
        # A slot is no longer than the gap.
        behind_us = query.window.max_us + query.window.gap_us
    elif isinstance(query.window, RowWindow):
        behind_us = slot_us
    below = workload.streams[query.stream]
    if below.is_of_answers:
        behind_us += _of_answers(workload, below).watermark_us
    return replace(stream, watermark_us=behind_us, future_bound_us=UNBOUNDED_US)


def _over_streams(workload: Workload, queries: Mapping[str, Query], row_queries: Mapping[str, RowQuery]) -> Workload:
    """Some queries with the streams that they read."""
    every: list[Query | RowQuery] = [*queries.values(), *row_queries.values()]
    read = dict.fromkeys(name for query in every for name in streams_of(query))
    streams = {name: workload.streams[name] for name in read}
    streams = {name: _of_answers(workload, one) if one.is_of_answers else one for name, one in streams.items()}
    return Workload(streams, queries, row_queries)


def _by_level(queries: Mapping[str, Q], levels: Mapping[str, Level]) -> dict[Level, dict[str, Q]]:
    """Queries by the level of the streams that they read, of two the greater in both."""
    found: dict[Level, dict[str, Q]] = {}
    for name, query in queries.items():
        read = [levels[stream] for stream in streams_of(query)]
        level = Level(max(one.height for one in read), max(one.behind_us for one in read))
        found.setdefault(level, {})[name] = query
    return found
