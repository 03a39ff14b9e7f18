"""Windows over the rows of a whole stream, where the rows that they cover meet: see `ordered_rows.py`.

A place has the rows of its groups from all buckets, with their positions, and folds the windows as ranges of them, as
the reports of substreams are. It keeps no state: what a window covers is sent with each batch that closes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from panewise.engine.answers import QueryAnswers
from panewise.engine.as_of.events import OrderedEvents
from panewise.engine.substream_reports import NUMBER, answers_over_stream
from panewise.engine.wide_tables import Closed
from panewise.engine.windowed.feed import Events, Feed
from panewise.engine.windowed.output import QueryRows, schema_of
from panewise.engine.windowed.row_queries import build_operator
from panewise.language.model import Query
from panewise.language.row_queries import SortedQuery, ValueQuery
from panewise.spark.layouts import Layout, TableRows
from panewise.spark.ordered_rows import Sent
from panewise.spark.tuple_bases import OrderBase

_QUERIES, _BOUNDS, _EDGES = b"ordered", b"bounds", b"edges"
"""What sent rows say of themselves: their queries, how far reports are and were, and whether they are only edges."""


@dataclass(frozen=True)
class OrderedMerge:
    """The answers of one table, of which some are of windows over the rows of a whole stream."""

    table: str
    layout: Layout
    queries: Mapping[str, Query]
    bases: Mapping[str, OrderBase]
    """The base of each query."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.layout.schemas[self.table]

    def answers(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the table that a place makes of what was sent to it for the same queries."""
        told = batches[0].schema.metadata
        names = told[_QUERIES].decode().split("\n")
        base = self.bases[names[0]]
        reported, final = (int(each) for each in told[_BOUNDS].split())
        edges = [batch.replace_schema_metadata(None) for batch in batches if _EDGES in batch.schema.metadata]
        rows = [batch.replace_schema_metadata(None) for batch in batches if _EDGES not in batch.schema.metadata]
        if not rows:
            return
        whole = pa.Table.from_batches(rows)
        in_order = whole.take(pa.array(np.argsort(np.asarray(whole.column(NUMBER)), kind="stable")))
        (batch,) = in_order.combine_chunks().to_batches()
        stream = base.as_stream
        numbers = np.asarray(batch.column(NUMBER))
        events = OrderedEvents(stream, batch.drop_columns([NUMBER]), np.asarray(batch.column(stream.timestamp)))
        of_edges = pa.Table.from_batches(edges)
        at_edges = np.asarray(of_edges.column(NUMBER)), np.asarray(of_edges.column(stream.timestamp))
        queries = [self.queries[name] for name in names]
        found: list[QueryAnswers] = answers_over_stream(events, numbers, queries, reported, final, at_edges)
        for rows_of_table in self.layout.rows(Closed(found, found)):
            if rows_of_table.table == self.table:
                yield rows_of_table.rows.cast(self.schema)


@dataclass(frozen=True)
class OrderedRowQuery:
    """The rows of a row query over the rows of a whole stream: the engine's operator, over what windows cover."""

    query: ValueQuery | SortedQuery
    base: OrderBase

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return schema_of(self.query, {self.base.stream.name: self.base.stream})

    def answers(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the windows that end after those that were reported."""
        reported = int(batches[0].schema.metadata[_BOUNDS].split()[0])
        rows = [batch.replace_schema_metadata(None) for batch in batches if _EDGES not in batch.schema.metadata]
        whole = pa.Table.from_batches(rows)
        whole = whole.take(pa.array(np.argsort(np.asarray(whole.column(NUMBER)), kind="stable"))).combine_chunks()
        # The engine counts positions from 0.
        places, stream = np.asarray(whole.column(NUMBER)) - 1, self.base.as_stream
        feed = Feed(stream)
        feed.log.final_count = int(places[0])
        query = replace(self.query, stream=stream.name)
        operator = build_operator(query, {stream.name: stream}, {stream.name: feed})
        output = operator.outputs[query.name] = QueryRows(query, self.schema)
        seen = int(np.searchsorted(places, reported))
        for some in (slice(0, seen), slice(seen, len(places))):
            output.fetch()
            if some.start < some.stop:
                feed.log.final_count = int(places[some][-1]) + 1
                table = whole.drop_columns([NUMBER]).slice(some.start, some.stop - some.start)
                # What came before was reported, with whatever pace.
                before = None if some.start == 0 else reported
                operator.foresee(before, operator.complete)
                operator.take(stream.name, Events(stream, table, places[some]))
                operator.advance()
        yield from output.fetch().to_batches()


def as_rows(table: str, sent: Sent) -> TableRows:
    """Rows on their way to a table."""
    bounds = f"{sent.reported} {sent.final}".encode()
    told = {_QUERIES: "\n".join(sent.queries).encode(), _BOUNDS: bounds}
    if sent.is_edges:
        told[_EDGES] = b""
    return TableRows(table, sent.rows.replace_schema_metadata(told), 0, sent.part)


def sent_for(rows: pa.RecordBatch) -> bytes:
    """The queries that rows were sent for; nothing if they are rows of the table already."""
    told = rows.schema.metadata or {}
    return bytes(told.get(_QUERIES, b""))
