"""Every label with the answers of all queries as they were at its time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from panewise.engine.answer_events import events_of_table
from panewise.engine.as_of.answers import AnswersAt, answers_at
from panewise.engine.content_order import content_order
from panewise.engine.engine import Engine
from panewise.engine.ingest import read_events
from panewise.engine.names import instead
from panewise.engine.overflows import Overflows
from panewise.errors import ArgumentError, EventsError, PanewiseWarning
from panewise.language.model import Query, Stream
from panewise.language.reader import read
from panewise.language.workload import Workload
from panewise.training.columns import answer_columns, chosen_queries, filled
from panewise.training.labels import read_labels
from panewise.training.spilled import come_in_pieces, spilled_answers
from panewise.training.warned import warn_of_times
from panewise.windows.clock import END_OF_STREAM

Edge = Literal["before", "at"]


def training_set(
    labels: Any,
    events: object,
    workload: Workload | str | PathLike[str],
    *,
    time: str | None = None,
    edge: Edge = "before",
    queries: Iterable[str] | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> Any:
    """Give every label the answers of all queries as they were at its time.

    A label at time t sees the events before t: `[RANGE r]` covers `[t - r, t)`, so a label never sees itself. A window
    with SLIDE is the newest one that the stream had closed by then, its WATERMARK included. A session, or a window from
    one event to another, is the one of its group that the label comes in, as far as it had come.

    Args:
        labels: An Arrow table or record batch, or a pandas or Polars DataFrame, with a time, and a column for each
            attribute that a query groups by.
        events: The events of the stream as for `Engine.push`, in any order, or a dict of them by the names of streams.
        workload: What `panewise.read` returns, or the text or the path of statements.
        time: The column of the labels with their times, in the forms that events may have. The default is the name of
            the stream's own.
        edge: "before", or "at": `[RANGE r]` then covers `(t - r, t]`, as a lookup at t does.
        queries: The names of the queries to answer. The default is all of them.
        threads: How many threads to use. The default is one for each core.
        memory_limit: About how many bytes events and what is built of them may take at a time, besides labels and
            answers. Events then go through files in the folder for temporary files, and may be given in pieces: as an
            Arrow dataset or reader, or an iterator of tables. The default is no limit.

    Returns:
        The labels, as the same kind of table, with the same rows in the same order, and behind their columns a column
        `query__item` for each aggregate of SELECT. It is NULL where the group has no event in the window, or does not
        pass HAVING; for a query without GROUP BY a count of nothing is 0.

    Raises:
        LabelsError: The labels lack a time or a key, or have one of another type.
        NamesClashError: The labels have a column of the result's name.
        EventsError: The events do not fit their stream.
        QueryKindError: A query answers with rows.

    Cost: sorting labels and events once for each different GROUP BY; O(events) for each different input and WHERE;
        O(1) or O(log events) for each label and column. For APPROX_TOP_K, O(events in the window) for each label.
    """
    bound = workload if isinstance(workload, Workload) else read(workload)
    chosen = chosen_queries(bound, queries)
    check_edge(edge)
    given: object = threads
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
        raise ArgumentError(f"`threads` is a positive number, or None; got {threads!r}")
    limit: object = memory_limit
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ArgumentError(f"`memory_limit` is a positive number of bytes, or None; got {memory_limit!r}")
    table = read_labels(labels)
    columns = list(answer_columns(bound, chosen))
    table.check_names(column.name for _, column in columns)
    found: dict[str, AnswersAt] = {}
    given_by_stream = _by_stream(events, bound, chosen)
    for stream_name in dict.fromkeys(query.stream for query in chosen):
        stream, source = bound.streams[stream_name], bound.source_of(stream_name)
        given_events = given_by_stream[source.name]
        several = [query for query in chosen if query.stream == stream_name]
        # Times are whole microseconds: what comes before t has come at t - 1.
        asked = table.times(source, time)
        times = asked - (1 if edge == "before" else 0)
        keys = table.keys(stream, several)
        look = partial(warn_of_times, source, time or source.timestamp, asked, table.given_times(source, time))
        if memory_limit is None:
            if come_in_pieces(given_events):
                raise EventsError(
                    f"stream {source.name}: a {type(given_events).__name__} gives events in pieces; say how much of "
                    f"them may be in memory, such as training_set(..., memory_limit=2_000_000_000), or give a table"
                )
            batch, how_given = read_events(source, given_events)
            look(np.asarray(batch.column(source.timestamp)), how_given)
            closing = np.sort(np.asarray(batch.column(source.timestamp))) if stream.is_of_answers else None
            if stream.is_of_answers:
                batch = answers_as_events(bound, stream, batch)
                stream = replace(stream, watermark_us=bound.delay_us(stream.name))
            answered = answers_at(stream, several, batch, times, keys, threads, closing)
        elif stream.is_of_answers:
            raise ArgumentError(
                f"query {several[0].name} reads the answers of query {stream.name}, which are computed from all events "
                f"at once; leave out memory_limit, or choose other queries with training_set(..., queries=[...])"
            )
        else:
            answered = spilled_answers(stream, several, given_events, times, keys, threads, memory_limit, look)
        found |= {answers.query.name: answers for answers in answered}
    overflows = Overflows()
    for answers in found.values():
        overflows.add(answers.query, answers.overflows)
    return table.joined(pa.table({column.name: filled(found[query.name], column) for query, column in columns}))


def check_edge(edge: object) -> None:
    """Refuse what is no edge."""
    if edge not in ("before", "at"):
        raise ArgumentError(f'`edge` is "before" or "at", got {edge!r}')


def answers_as_events(workload: Workload, stream: Stream, events: pa.RecordBatch) -> pa.RecordBatch:
    """All answers that a stream of answers gets from the events of the declared stream below it."""
    source = workload.source_of(stream.name)
    chain = [stream.name]
    while (below := workload.queries[chain[-1]].stream) != source.name:
        chain.append(below)
    # The queries below the last one are read, that one is not.
    streams = {name: workload.streams[name] for name in (source.name, *reversed(chain[1:]))}
    queries = {name: workload.queries[name] for name in reversed(chain)}
    with warnings.catch_warnings():
        # No window with events is nothing to warn of here, and times are what they are.
        warnings.simplefilter("ignore", PanewiseWarning)
        engine = Engine(Workload({name: replace(one, units={}) for name, one in streams.items()}, queries))
        engine.push(source.name, events)
        answers = engine.advance(source.name, END_OF_STREAM).tables[stream.name]
    found = events_of_table(stream, workload.queries[stream.name], answers)
    return found.take(content_order(stream, found))


def _by_stream(events: object, workload: Workload, queries: Sequence[Query]) -> Mapping[str, object]:
    """The events of each stream that some query reads."""
    needed = list(dict.fromkeys(workload.source_of(query.stream).name for query in queries))
    if isinstance(events, Mapping) and events and set(events) <= set(workload.streams):
        missing = next((name for name in needed if name not in events), None)
        if missing is not None:
            raise EventsError(f"there are no events of stream {missing}; give them as events={{{missing!r}: ...}}")
        return {name: events[name] for name in needed}
    if isinstance(events, Mapping) and events and all(hasattr(table, "columns") for table in events.values()):
        unknown = next(name for name in events if name not in workload.streams)
        raise EventsError(
            f"there is no stream {unknown!r} to give events of{instead(str(unknown), [*workload.streams])}"
        )
    if len(needed) > 1:
        raise EventsError(
            f"the queries read {len(needed)} streams; give a dict with the events of each: "
            f"{{{', '.join(f'{name!r}: ...' for name in needed)}}}"
        )
    return dict.fromkeys(needed, events)
