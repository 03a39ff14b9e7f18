"""A rehearsal: an engine that nobody asks takes a few events and answers, which compiles what the real one needs.

numba compiles a kernel when it is first called, which takes seconds in a new installation. The real engine would keep
its lock meanwhile, and all requests would wait.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.engine.columns import arrow_type
from panewise.engine.engine import Engine
from panewise.engine.wide_columns import group_columns
from panewise.errors import PanewiseError
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.windows import follows_events
from panewise.windows.clock import END_OF_STREAM

MOST_REHEARSED = 200
"""So many queries: thousands of them are of few kinds."""
EVENTS = 3
_VALUES: dict[Type, list[object]] = {
    Type.BIGINT: [1, 2, 1],
    Type.DOUBLE: [1.0, 2.0, 1.0],
    Type.STRING: ["a", "b", "a"],
    Type.BOOLEAN: [True, False, True],
    Type.TIMESTAMP: [0, 1_000_000, 2_000_000],
}


def rehearse(workload: Workload, known: Workload) -> None:
    """Take in events for the queries of a workload that another one lacks, close their windows, and look them up.

    With the same workload twice, all queries are rehearsed.
    """
    is_all = workload is known
    fresh = [query for name, query in workload.queries.items() if is_all or known.queries.get(name) is not query]
    queries = {query.name: query for query in fresh[:MOST_REHEARSED]}
    if not queries:
        return
    # Answers that a query reads are made up as events are.
    streams = {query.stream: replace(workload.streams[query.stream], answers_over=None) for query in queries.values()}
    with warnings.catch_warnings():
        # What the real engine warns about, it will warn about.
        warnings.simplefilter("ignore")
        engine = Engine(Workload(streams, queries))
        for name, stream in streams.items():
            engine.push(name, _events(stream))
            engine.advance(name)
        for query in queries.values():
            _ask(engine, streams[query.stream], query)
        for name in streams:
            engine.advance(name, END_OF_STREAM)


def _events(stream: Stream) -> pa.Table:
    return pa.table({name: pa.array(_VALUES[kind], arrow_type(kind)) for name, kind in stream.attributes.items()})


def _ask(engine: Engine, stream: Stream, query: Query) -> None:
    """Look a query up in every way that requests do."""
    if query.window.is_sliding and not follows_events(query.window):
        return
    try:
        found = engine.lookup(query.name)
        columns = group_columns(stream, query)
        if columns and found.num_rows:
            key = {attribute: found.column(shown)[:1].to_pylist() for attribute, shown in columns.items()}
            engine.lookup(query.name, keys=key)
            engine.lookup(query.name, keys={attribute: values[0] for attribute, values in key.items()})
            engine.lookup_many(query.name, key)
    except PanewiseError:
        # It has no answer over these events; whoever asks about real ones is told why.
        return
