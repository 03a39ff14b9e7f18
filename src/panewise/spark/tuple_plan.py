"""The tuple plan: which queries a job answers from tuples, and the bases that these share.

It is a value. Queries that come while the job runs get bases of their own, which begin with the next batch: a query
sees every event from then on. A base goes with the last query that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from panewise.engine.substream_reports import partition_of
from panewise.engine.windowed.histogram import VALUE
from panewise.engine.windowed.output import selected_types
from panewise.errors import NotOnSparkError
from panewise.indexes.values import Width
from panewise.language.expressions import Attribute, Expression, QualifiedAttribute, attributes_of, bare_attributes
from panewise.language.model import Query, Stream
from panewise.language.printer import print_window
from panewise.language.row_queries import (
    HistogramQuery,
    IntersectionQuery,
    JoinQuery,
    JoinSide,
    RowColumn,
    RowQuery,
    SelectionQuery,
    SortedQuery,
    ValueQuery,
)
from panewise.planning.windowed import join_key_types
from panewise.spark.tuple_bases import HeadBase, KeyBase, OrderBase, PassBase, SubstreamBase, TupleBase, ValueBase
from panewise.windows import RowWindow, TimeWindow, Window, reports_by_substream
from panewise.windows.slots import lengths_of

LATER_ROWS = "later_rows"
"""The table of row queries that come while the job runs: `query`, and `row` as JSON."""


@dataclass(frozen=True)
class TuplePlan:
    """The tuple bases of a job by number, and the queries that are answered from them.

    `over_tuples` has each row query as a bucket answers it: over the streams of its bases. A selection has none, nor a
    query over the rows of a whole stream.
    `reports` are the queries of aggregates over rows that slide, of substreams or of a whole stream.
    """

    bases: Mapping[int, TupleBase] = field(default_factory=dict)
    queries: Mapping[str, RowQuery] = field(default_factory=dict)
    over_tuples: Mapping[str, RowQuery] = field(default_factory=dict)
    reports: Mapping[str, Query] = field(default_factory=dict)
    reads: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The numbers of the bases that each query reads."""
    tables: Mapping[str, RowQuery] = field(default_factory=dict)
    """The row queries that have a table of their own: those that the job began with."""
    homes: Mapping[str, str] = field(default_factory=dict)
    """The table of each query over the rows of a whole stream."""
    most_rows: int | None = None
    """The most rows that a window of an ORDER BY without LIMIT may have."""

    @staticmethod
    def of(
        queries: Mapping[str, RowQuery],
        streams: Mapping[str, Stream],
        first: int,
        reports: Mapping[str, Query] | None = None,
        since_us: Mapping[str, int | None] | None = None,
    ) -> TuplePlan:
        """The plan of some queries, with bases numbered from `first` on.

        `since_us` is for queries that come later: from when on the events of each stream are all still to come.
        """
        found: dict[tuple[Any, ...], TupleBase] = {}
        by_time = {name: query for name, query in queries.items() if name not in over_stream(queries)}
        needed = {name: _bases_of(query, streams) for name, query in by_time.items()}
        paired = _paired_slot_us(over_stream(queries), streams)
        needed |= {name: _order_bases(query, streams) for name, query in over_stream(queries).items()}
        needed |= {name: [_report_base(query, streams[query.stream])] for name, query in (reports or {}).items()}
        if paired is not None:
            needed = {name: [_paired(base, paired) for base in some] for name, some in needed.items()}
        for base in (base for some in needed.values() for base in some):
            known = found.get(base.key)
            numbered = replace(base, number=first + len(found), since_us=(since_us or {}).get(base.stream.name))
            found[base.key] = numbered if known is None else known.joined(base)
        over = {name: _over(query, [found[base.key] for base in needed[name]]) for name, query in by_time.items()}
        return TuplePlan(
            {base.number: base for base in found.values()},
            dict(queries),
            {name: query for name, query in over.items() if query is not None},
            dict(reports or {}),
            {name: tuple(found[base.key].number for base in some) for name, some in needed.items()},
        )

    def after(self, gone: Iterable[str], fresh: TuplePlan) -> TuplePlan:
        """The plan without some queries, and with those of another plan, whose bases have other numbers."""
        left = set(gone)
        reads = {name: numbers for name, numbers in self.reads.items() if name not in left}
        needed = {number for numbers in reads.values() for number in numbers}
        return replace(
            self,
            bases={**{number: base for number, base in self.bases.items() if number in needed}, **fresh.bases},
            queries={**_without(self.queries, left), **fresh.queries},
            over_tuples={**_without(self.over_tuples, left), **fresh.over_tuples},
            reports={**_without(self.reports, left), **fresh.reports},
            reads={**reads, **fresh.reads},
        )

    def table_of(self, name: str) -> str:
        """The table that the rows of a row query go to."""
        return name if self.tables.get(name) == self.queries[name] else LATER_ROWS

    def bases_of(self, stream: str) -> list[TupleBase]:
        """The bases of a stream."""
        return [base for base in self.bases.values() if base.stream.name == stream]

    def cells_of(self, stream: str) -> list[Expression]:
        """What is computed of each event of a stream, each expression once."""
        bases = self.bases_of(stream)
        wheres = [base.where for base in bases if base.where is not None]
        return list(dict.fromkeys([*(cell for base in bases for cell in base.cells), *wheres]))


def _without(queries: Mapping[str, Any], gone: set[str]) -> dict[str, Any]:
    return {name: query for name, query in queries.items() if name not in gone}


def check_row_query(query: RowQuery, *, lookups: bool = False) -> None:
    """Raise if Spark cannot answer a row query. One with INTO needs `lookups`."""
    if query.into is not None:
        _check_into(query, lookups=lookups)


def _check_into(query: RowQuery, *, lookups: bool) -> None:
    if not lookups:
        raise NotOnSparkError(
            f"query {query.name}: INTO holds rows for lookups; give folder= (in a job file: [lookups]) and look it up "
            f"from there, or leave out INTO, so that its rows go to a table"
        )
    if isinstance(query.into, RowWindow) and not isinstance(query, SelectionQuery):
        raise NotOnSparkError(
            f"query {query.name}: INTO {print_window(query.into)} counts answers, and nobody knows how far back their "
            f"events lie; write INTO [RANGE ...], or look it up with panewise.Engine"
        )
    if any(isinstance(window, RowWindow) for window in windows_of(query)):
        raise NotOnSparkError(
            f"query {query.name}: with INTO, windows over rows would need all rows since the beginning for lookups; "
            f"use RANGE windows, or look it up with panewise.Engine"
        )


def how_to_look_up(query: RowQuery) -> str:
    """What to do if rows that go to a table are to be looked up."""
    windows = windows_of(query)
    if any(isinstance(window, RowWindow) for window in windows):
        return (
            "windows over rows are counted from the beginning, which no folder holds: read the table, use a RANGE with "
            "INTO, or look it up with panewise.Engine"
        )
    if isinstance(query, JoinQuery | SelectionQuery):
        return "to look them up, write INTO [RANGE ...] at its end"
    # So far apart are windows that are evaluated, at most.
    newest = TimeWindow(lengths_of(windows[0])[1] * (query.evaluation.most or query.evaluation.every))
    return f"to look up the newest window, write INTO {print_window(newest)} at the end of a query like it"


def windows_of(query: RowQuery) -> list[Window]:
    """The windows that a query reads."""
    match query:
        case ValueQuery() | SortedQuery():
            return [query.window]
        case IntersectionQuery() | JoinQuery():
            return [query.left.window, query.right.window]
        case _:
            return []


def _slot_us(query: RowQuery, streams: Mapping[str, Stream]) -> int:
    """The longest slot that every window of a query begins and ends with."""
    lengths = [length for window in windows_of(query) for length in lengths_of(window)]
    declared = (streams[name].granularity_us for name in query.streams)
    return gcd(*lengths, *(length for length in declared if length is not None))


def _bases_of(query: RowQuery, streams: Mapping[str, Stream]) -> list[TupleBase]:
    """The bases that a query needs, one for each of its inputs; not numbered yet."""
    match query:
        case ValueQuery():
            return [_grouped_base(query, streams)]
        case IntersectionQuery(left=left, right=right, width=width):
            return [
                _value_base(query, streams, side.stream, side.window, side.argument, side.where, width)
                for side in (left, right)
            ]
        case SortedQuery():
            return [_head_base(query, streams)]
        case JoinQuery():
            return [_key_base(query, side, streams) for side in (query.left, query.right)]
        case SelectionQuery():
            columns = selected_types(query, streams)
            return [PassBase(stream=streams[query.stream], where=query.where, query=query, columns=columns)]
        case _:
            raise TypeError(f"unknown kind of row query: {query!r}")


ORDER_SLOT_US = 1_000_000
"""Slots in which events get their order, of a stream that declares no GRANULARITY."""


def over_stream(queries: Mapping[str, RowQuery]) -> dict[str, RowQuery]:
    """The row queries over the rows of whole streams."""
    return {
        name: query
        for name, query in queries.items()
        if any(isinstance(window, RowWindow) for window in windows_of(query))
    }


def _order_bases(query: RowQuery, streams: Mapping[str, Stream]) -> list[TupleBase]:
    """The bases of a query over the rows of whole streams, one for each of its inputs."""
    match query:
        case SortedQuery(columns=columns):
            shown = [query.where, *(column.expression for column in columns)]
            return [_order_base(streams[query.stream], shown, (*query.group_by, query.by))]
        case ValueQuery():
            return [_order_base(streams[query.stream], [query.where, query.argument], query.group_by)]
        case IntersectionQuery(left=left, right=right):
            return [_order_base(streams[side.stream], [side.where, side.argument]) for side in (left, right)]
        case JoinQuery(left=left, right=right):
            return [_order_base(streams[side.stream], [], read_of(query, side)) for side in (left, right)]
        case _:
            raise TypeError(f"no window of {query!r} counts rows")


def _order_base(stream: Stream, expressions: Iterable[Expression | None], names: Iterable[str] = ()) -> OrderBase:
    read = {stream.timestamp, *names, *(name for expression in expressions for name in attributes_of(expression))}
    in_order = tuple(name for name in stream.attributes if name in read)
    return OrderBase(stream=stream, slot_us=stream.granularity_us or ORDER_SLOT_US, read=in_order)


def _paired_slot_us(queries: Mapping[str, RowQuery], streams: Mapping[str, Stream]) -> int | None:
    """The slots in which the rows of two streams become final together; None if no query reads two."""
    pairs = [query for query in queries.values() if isinstance(query, IntersectionQuery | JoinQuery)]
    lengths = [streams[name].granularity_us or ORDER_SLOT_US for query in pairs for name in query.streams]
    return gcd(*lengths) if lengths else None


def _paired(base: TupleBase, slot_us: int) -> TupleBase:
    """A base whose rows other streams' rows meet."""
    return replace(base, slot_us=gcd(base.slot_us, slot_us), is_paired=True) if isinstance(base, OrderBase) else base


def _report_base(query: Query, stream: Stream) -> SubstreamBase | OrderBase:
    expressions = (query.where, *(call.argument for call in query.aggregates))
    read = {name for expression in expressions for name in attributes_of(expression)}
    needed = read | {stream.timestamp, *query.group_by}
    names = tuple(name for name in stream.attributes if name in needed)
    if not reports_by_substream(query.window):
        return OrderBase(stream=stream, slot_us=stream.granularity_us or ORDER_SLOT_US, read=names)
    return SubstreamBase(
        stream=stream, slot_us=stream.granularity_us or 1, partition_by=partition_of(query), read=names
    )


def _grouped_base(query: ValueQuery, streams: Mapping[str, Stream]) -> ValueBase:
    width = query.width if isinstance(query, HistogramQuery) else None
    if streams[query.stream].timestamp in query.group_by:
        raise NotOnSparkError(
            f"query {query.name}: on Spark rows are not grouped by the time of an event; declare another attribute "
            f"that has it, or use panewise.Engine"
        )
    base = _value_base(query, streams, query.stream, query.window, query.argument, query.where, width)
    return replace(base, group_by=query.group_by)


def _value_base(
    query: RowQuery,
    streams: Mapping[str, Stream],
    stream: str,
    window: Window,
    argument: Expression,
    where: Expression | None,
    width: Width | None,
) -> ValueBase:
    return ValueBase(
        stream=streams[stream],
        where=where,
        slot_us=_slot_us(query, streams),
        kept_us=lengths_of(window)[0],
        argument=argument,
        width=width,
    )


def _head_base(query: SortedQuery, streams: Mapping[str, Stream]) -> HeadBase:
    stream = streams[query.stream]
    shown = {name for column in query.columns for name in attributes_of(column.expression)}
    needed = shown | {query.by, stream.timestamp, *query.group_by}
    return HeadBase(
        stream=stream,
        where=query.where,
        slot_us=_slot_us(query, streams),
        kept_us=lengths_of(query.window)[0],
        by=query.by,
        descending=query.descending,
        read=tuple(name for name in stream.attributes if name in needed),
        limit=query.limit,
        group_by=query.group_by,
    )


def _key_base(query: JoinQuery, side: JoinSide, streams: Mapping[str, Stream]) -> KeyBase:
    assert isinstance(side.window, TimeWindow)
    return KeyBase(
        stream=streams[side.stream],
        kept_us=side.window.left_us,
        by=keys_of(query, side),
        kinds=join_key_types(query, streams),
        read=frozenset(read_of(query, side)),
    )


def keys_of(query: JoinQuery, side: JoinSide) -> tuple[str, ...]:
    """The attributes of a side that a join compares."""
    keys = query.left_keys if side.name == query.left.name else query.right_keys
    return tuple(key.attribute for key in keys)


def read_of(query: JoinQuery, side: JoinSide) -> set[str]:
    """The attributes of a side that a join reads, its keys among them."""
    read = [column.expression for column in query.columns] + ([] if query.where is None else [query.where])
    attributes = [attribute for expression in read for attribute in bare_attributes(expression)]
    shown = [each for each in attributes if isinstance(each, QualifiedAttribute) and each.side == side.name]
    return {*keys_of(query, side), *(each.attribute for each in shown)}


def _over(query: RowQuery, bases: Sequence[TupleBase]) -> RowQuery | None:
    """A query over the streams of its bases."""
    names = [base.name for base in bases]
    value = Attribute(VALUE)
    match query:
        case ValueQuery():
            return replace(query, stream=names[0], where=None, argument=value)
        case IntersectionQuery(left=left, right=right):
            sides = [replace(side, stream=name, where=None, argument=value) for side, name in zip((left, right), names)]
            return replace(query, left=sides[0], right=sides[1])
        case SortedQuery():
            # What is shown of a row is computed when the rows of all buckets are in order.
            columns = tuple(RowColumn(Attribute(name), str(place)) for place, name in enumerate(bases[0].attributes))
            return replace(query, stream=names[0], where=None, columns=columns)
        case JoinQuery(left=left, right=right):
            return replace(query, left=replace(left, stream=names[0]), right=replace(right, stream=names[1]))
        case _:
            return None
