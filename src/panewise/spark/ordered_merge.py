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
from panewise.engine.windowed.histogram import VALUE
from panewise.engine.windowed.intersection import IntersectionOperator
from panewise.engine.windowed.join import JoinOperator, Numbered
from panewise.engine.windowed.output import QueryRows, schema_of
from panewise.engine.windowed.row_queries import build_operator
from panewise.language.expressions import Attribute
from panewise.language.model import Query
from panewise.language.row_queries import IntersectionQuery, JoinQuery, RowQuery, SortedQuery, ValueQuery
from panewise.language.typecheck import type_of
from panewise.spark.layouts import Layout, TableRows
from panewise.spark.ordered_pairs import BEFORE, Instances
from panewise.spark.ordered_rows import Sent
from panewise.spark.tuple_bases import OrderBase, TupleBase

_QUERIES, _BOUNDS, _EDGES, _SIDE = b"ordered", b"bounds", b"edges", b"side"
"""What sent rows say of themselves: their queries, how far reports are and were, whether they are only edges, and of
which window of a query over two."""


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
                operator.foresee(reported if some.stop > seen else None, operator.complete)
                operator.take(stream.name, Events(stream, table, places[some]))
                operator.advance()
        yield from output.fetch().to_batches()


@dataclass(frozen=True)
class OrderedComparison:
    """The rows of INTERSECT, UNION or EXCEPT over the rows of two streams: a place answers for its values."""

    query: IntersectionQuery
    bases: tuple[OrderBase, OrderBase]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return schema_of(self.query, {base.stream.name: base.stream for base in self.bases})

    def answers(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the instances that are complete now."""
        first, end, is_first = (int(each) for each in batches[0].schema.metadata[_BOUNDS].split())
        sides, streams, feeds = [], {}, {}
        for place, (bound, base) in enumerate(zip((self.query.left, self.query.right), self.bases)):
            kind = type_of(bound.argument, base.stream.attributes)
            assert kind is not None  # the binder refuses NULL
            stream = replace(base.as_stream, name=_SIDES[place], attributes={VALUE: kind})
            streams[stream.name], feeds[stream.name] = stream, Feed(stream)
            sides.append(replace(bound, stream=stream.name, where=None, argument=Attribute(VALUE)))
        query = replace(self.query, left=sides[0], right=sides[1])
        operator = IntersectionOperator(query, streams, feeds)
        output = operator.outputs[query.name] = QueryRows(query, self.schema)
        instances = Instances.of(query)
        for place, side in enumerate(operator.sides):
            # What came before was reported, with whatever pace.
            side.starts = first * instances.slide
            side.feed.log.final_count = max(0, (end - 1) * instances.slide + instances.lengths[place])
            for is_edges in (True, False):
                rows = _in_order(batches, place, is_edges=is_edges)
                if rows is not None:
                    # The engine counts positions from 0.
                    events = Events(side.feed.stream, rows, np.asarray(rows.column(NUMBER)) - 1)
                    side.note_times(events) if is_edges else side.enqueue(operator.tuples_of(place, events))
        last = [number * instances.slide for number in (first - 1, end - 1)]
        operator.foresee(None if is_first else last[0], last[1])
        operator.advance()
        yield from output.fetch().to_batches()


@dataclass(frozen=True)
class OrderedJoin:
    """The rows of a join of windows that count rows: a place answers for its keys."""

    query: JoinQuery
    bases: tuple[OrderBase, OrderBase]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return schema_of(self.query, {base.stream.name: base.stream for base in self.bases})

    def answers(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The pairs of fresh events with those that came before them."""
        found = [_in_order(batches, place) for place in range(2)]
        if any(rows is None for rows in found):
            return
        sides, streams, numbered = [], {}, []
        for place, (bound, base, rows) in enumerate(zip((self.query.left, self.query.right), self.bases, found)):
            assert rows is not None
            read = {name: kind for name, kind in base.attributes.items() if name in rows.column_names}
            stream = replace(base.as_stream, name=_SIDES[place], attributes=read)
            streams[stream.name] = stream
            sides.append(replace(bound, stream=stream.name))
            events = Events(stream, rows, np.asarray(rows.column(NUMBER)) - 1)
            numbered.append(Numbered(events, np.asarray(rows.column(BEFORE))))
        query = replace(self.query, left=sides[0], right=sides[1])
        operator = JoinOperator(query, streams, {name: Feed(stream) for name, stream in streams.items()})
        output = operator.outputs[query.name] = QueryRows(query, self.schema)
        operator.join_numbered(numbered)
        yield from output.fetch().to_batches()


_SIDES = ("left", "right")

Ordered = OrderedRowQuery | OrderedComparison | OrderedJoin


def ordered_query(query: RowQuery, bases: Sequence[TupleBase]) -> Ordered:
    """How the rows of a query over the rows of whole streams come of what its bases' buckets sent."""
    found = [base for base in bases if isinstance(base, OrderBase)]
    match query:
        case ValueQuery() | SortedQuery():
            return OrderedRowQuery(query, found[0])
        case IntersectionQuery():
            return OrderedComparison(query, (found[0], found[1]))
        case JoinQuery():
            return OrderedJoin(query, (found[0], found[1]))
        case _:
            raise TypeError(f"no window of {query!r} counts rows")


def _in_order(batches: Sequence[pa.RecordBatch], side: int, *, is_edges: bool = False) -> pa.Table | None:
    """What was sent of one side, in the order of positions; None if nothing was."""
    told = [(batch, batch.schema.metadata) for batch in batches]
    some = [
        batch.replace_schema_metadata(None)
        for batch, said in told
        if int(said[_SIDE]) == side and (_EDGES in said) == is_edges
    ]
    if not some:
        return None
    whole = pa.Table.from_batches(some)
    return whole.take(pa.array(np.argsort(np.asarray(whole.column(NUMBER)), kind="stable"))).combine_chunks()


def as_rows(table: str, sent: Sent) -> TableRows:
    """Rows on their way to a table."""
    bounds = " ".join(str(bound) for bound in sent.bounds).encode()
    told = {_QUERIES: "\n".join(sent.queries).encode(), _BOUNDS: bounds, _SIDE: str(sent.side).encode()}
    if sent.is_edges:
        told[_EDGES] = b""
    return TableRows(table, sent.rows.replace_schema_metadata(told), 0, sent.part)


def sent_for(rows: pa.RecordBatch) -> bytes:
    """The queries that rows were sent for; nothing if they are rows of the table already."""
    told = rows.schema.metadata or {}
    return bytes(told.get(_QUERIES, b""))
