"""Turns statements into a workload: every name is resolved against the streams, every type checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import cast

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.language.answer_streams import readers_of, sources_of, stream_of_answers, without_unread
from panewise.language.checks import check_granularity, check_where, find_stream, refuse_duplicates
from panewise.language.expressions import (
    AggregateCall,
    Attribute,
    Expression,
    Span,
    aggregates_of,
    bare_attributes,
    with_attributes,
)
from panewise.language.functions import with_partners
from panewise.language.limits import check_expression
from panewise.language.model import Query, SelectItem, Stream
from panewise.language.names import copy_of
from panewise.language.own_windows import with_own_windows
from panewise.language.printer import label_of, print_name
from panewise.language.row_binder import bind_row_query, is_row_query, refuse_alias
from panewise.language.source import PlacedError, UnknownSourceError, hint_for, located, shortened
from panewise.language.statements import CreateQuery, CreateStream, DropQuery, Item, Name, Statement
from panewise.language.top_k import check_length, written_out
from panewise.language.typecheck import expect_condition, type_of, unknown_attribute, written
from panewise.language.words import STRUCTURES, TIMEGRAM
from panewise.language.workload import Workload
from panewise.windows import PunctuationWindow, SessionWindow, is_unbounded


def bind(statements: Iterable[Statement], text: str, onto: Workload | None = None) -> Workload:
    """Run statements in order on top of a workload; `text` is what they were parsed from, for messages.

    The workload given is not changed. A statement that does not fit raises a `StatementError`.
    """
    binding = Binding(onto or Workload())
    with located(text):
        for statement in statements:
            binding.run(statement)
    return binding.workload


class Binding:
    """A workload while statements run on it; the one that it begins with is not changed."""

    def __init__(self, onto: Workload) -> None:
        self.streams, self.row_queries = dict(onto.streams), dict(onto.row_queries)
        self.queries = copy_of(onto.queries)
        self.named: dict[str, None] = {}
        """The queries that statements created or dropped, in their order."""

    @property
    def workload(self) -> Workload:
        """The workload after the statements so far."""
        return Workload(self.streams, self.queries, self.row_queries)

    def open_answers(self, source: Name, by: str) -> None:
        """Let a query read the answers of another one, if that is what a source means: a stream's name goes first."""
        name = source.text
        if name in self.streams:
            return
        if name == by:
            hint = f"give the query another name, or let it read another stream than {shortened(name)}"
            raise PlacedError(f"the query {shortened(name)} reads its own answers", source.span, hint)
        if name in self.row_queries:
            hint = "read the stream that it reads, or write the rows to a stream of their own"
            raise PlacedError(f"{shortened(name)} answers with rows, and only aggregates are read", source.span, hint)
        if name in self.queries:
            query = self.queries[name]
            self.streams[name] = stream_of_answers(query, self.streams[query.stream], source)
            return
        known = [*self.streams, *self.queries]
        hint = hint_for(name, known, "declare it first with CREATE STREAM, or CREATE QUERY to read its answers")
        raise UnknownSourceError(name, source.span, hint)

    def has(self, name: str) -> bool:
        """Whether there is a query with a name."""
        return name in self.queries or name in self.row_queries

    def add(self, query: Query) -> None:
        """Add a query that is bound already."""
        place = Span(1, 1, 0, 0)
        self.open_answers(Name(query.stream, place), query.name)
        self.queries[query.name] = query
        self.named[query.name] = None

    def run(self, statement: Statement) -> None:
        """Run a statement; one that does not fit raises a `PlacedError`."""
        if not isinstance(statement, CreateStream):
            self.named[statement.name.text] = None
        match statement:
            case CreateStream():
                self.streams[statement.name.text] = _bind_stream(statement, self.streams)
            case CreateQuery():
                name = statement.name
                if self.has(name.text):
                    message = f"the query {shortened(name.text)} already exists"
                    raise PlacedError(message, name.span, "choose another name, or DROP it")
                for source in sources_of(statement):
                    self.open_answers(source, name.text)
                if is_row_query(statement):
                    self.row_queries[name.text] = bind_row_query(statement, self.streams)
                else:
                    self.queries[name.text] = _bind_query(statement, self.streams, self.queries)
            case DropQuery():
                self._drop(statement.name)

    def _drop(self, name: Name) -> None:
        queries, row_queries = self.queries, self.row_queries
        if name.text not in queries and name.text not in row_queries:
            hint = hint_for(name.text, [*queries, *row_queries], "there are no queries")
            raise PlacedError(f"unknown query {shortened(name.text)}", name.span, hint)
        if name.text in queries and name.text in self.streams and self.streams[name.text].is_of_answers:
            readers = readers_of(name.text, queries.values(), row_queries.values())
            message = f"the answers of {shortened(name.text)} are read by {', '.join(readers)}"
            raise PlacedError(message, name.span, f"drop what reads them first: DROP QUERY {print_name(readers[0])}")
        gone = queries.pop(name.text) if name.text in queries else row_queries.pop(name.text)
        self.streams = without_unread(self.streams, gone, queries.values(), row_queries.values())


def _bind_stream(statement: CreateStream, streams: Mapping[str, Stream]) -> Stream:
    name = statement.name
    if name.text in streams:
        what = "a query of this name is read as a stream" if streams[name.text].is_of_answers else ""
        message = what or f"the stream {shortened(name.text)} already exists"
        raise PlacedError(message, name.span, "choose another name")
    refuse_duplicates([definition.name for definition in statement.definitions], "attribute")
    attributes = {definition.name.text: definition.type for definition in statement.definitions}
    timestamp = statement.timestamp
    found = type_of(Attribute(timestamp.text, span=timestamp.span), attributes)
    if found is not Type.TIMESTAMP:
        message = f"TIMESTAMP BY needs a TIMESTAMP, {shortened(timestamp.text)} is {found}"
        raise PlacedError(message, timestamp.span, f"declare it as {timestamp.text} TIMESTAMP")
    return Stream(
        name.text,
        attributes,
        timestamp.text,
        statement.watermark_us,
        statement.granularity_us,
        statement.correct_us,
        statement.future_bound_us,
        {one.name.text: one.unit for one in statement.definitions if one.unit is not None},
    )


def _bind_query(statement: CreateQuery, streams: Mapping[str, Stream], queries: Mapping[str, Query]) -> Query:
    stream = find_stream(statement.stream, streams)
    refuse_alias(statement.source)
    assert statement.source.window is not None  # without one it is a row query
    group_by = _bind_group_by(statement, stream, streams, queries)
    _check_window(statement, stream, group_by)
    if statement.where is not None:
        check_where(statement.where, stream)
    select = _bind_select(statement, stream, group_by)
    having = statement.having and _bind_having(statement.having, stream, group_by, select)
    window, select, having = with_own_windows(statement.source.window, select, having)
    query = Query(
        statement.name.text,
        stream.name,
        window,
        select,
        statement.where,
        group_by,
        having,
        statement.within,
        _bind_using(statement),
        statement.on_overflow is not None and statement.on_overflow.is_error,
    )
    _check_computed(query, statement)
    if len(select) > len(statement.select) or having != statement.having:
        check_length(query, statement.name.span)
    return query


def _bind_using(statement: CreateQuery) -> str | None:
    """The structure that USING names; the planner decides whether it can serve."""
    if statement.using is None:
        return None
    assert statement.source.window is not None
    name = statement.using.upper
    known = (*STRUCTURES, TIMEGRAM)
    if name.text.lower() not in known:
        hint = hint_for(name.text, known, "")
        raise PlacedError(f"USING names an unknown structure {shortened(name.text)}", name.span, hint)
    if statement.source.window.window.is_sliding:
        hint = "leave out USING, or SLIDE"
        raise PlacedError("USING a structure is for queries without SLIDE", statement.using.span, hint)
    if is_unbounded(statement.source.window.window):
        hint = "leave out USING: one row for each group holds everything since the start, whatever the structure"
        raise PlacedError("USING a structure is for windows with a beginning", statement.using.span, hint)
    if name.text.lower() == TIMEGRAM and statement.within is None:
        raise PlacedError(
            "a TimeGram answers with intervals", name.span, "say how wide: add WITHIN 5 PERCENT before USING"
        )
    return name.text.lower()


def _bind_group_by(
    statement: CreateQuery, stream: Stream, streams: Mapping[str, Stream], queries: Mapping[str, Query]
) -> tuple[str, ...]:
    refuse_duplicates(statement.group_by, "GROUP BY attribute")
    for name in statement.group_by:
        kind = type_of(Attribute(name.text, span=name.span), stream.attributes)
        # Answers of all queries share one table, in which a key column has one type.
        rivals = {other.name for other in streams.values() if other.attributes.get(name.text, kind) is not kind}
        if rivals:
            _refuse_rival(name, kind, rivals, streams, queries)
    return tuple(name.text for name in statement.group_by)


def _refuse_rival(
    name: Name,
    kind: Type | None,
    rivals: set[str],
    streams: Mapping[str, Stream],
    queries: Mapping[str, Query],
) -> None:
    for query in queries.values():
        if query.stream in rivals and name.text in query.group_by:
            other = streams[query.stream].attributes[name.text]
            message = (
                f"{shortened(name.text)} is {kind} here, and {other} in the stream {shortened(query.stream)} "
                f"that the query {shortened(query.name)} groups by it"
            )
            raise PlacedError(message, name.span, "give one of the attributes another name or type")


def _check_window(statement: CreateQuery, stream: Stream, group_by: tuple[str, ...]) -> None:
    clause = statement.source.window
    assert clause is not None  # without one it is a row query
    check_granularity(clause, stream)
    if isinstance(clause.window, SessionWindow) and stream.correct_us:
        hint = "a late event could join sessions that were reported: declare a stream without it for this query"
        message = f"{shortened(stream.name)} has ON LATE CORRECT, and sessions are not corrected"
        raise PlacedError(message, clause.durations[0].span, hint)
    if is_unbounded(clause.window) and clause.window.is_sliding and stream.correct_us:
        hint = "a late event would change all answers after it: declare a stream without it for this query"
        message = f"{shortened(stream.name)} has ON LATE CORRECT, and what goes back to the start is not corrected"
        raise PlacedError(message, clause.durations[0].span, hint)
    if isinstance(clause.window, PunctuationWindow):
        check_where(cast("Expression", clause.window.opens), stream, "FROM WHEN")
        check_where(cast("Expression", clause.window.closes), stream, "UNTIL WHEN")
        if stream.correct_us:
            hint = "a late event could open or close a window that was reported: declare a stream without it"
            message = f"{shortened(stream.name)} has ON LATE CORRECT, and windows that events close are not corrected"
            raise PlacedError(message, statement.name.span, hint)
    refuse_duplicates(clause.partition_by, "PARTITION BY attribute")
    for name in clause.partition_by:
        type_of(Attribute(name.text, span=name.span), stream.attributes)
        if name.text not in group_by:
            hint = f"add it: GROUP BY {', '.join([*group_by, name.text])}"
            raise PlacedError(f"the query partitions by {shortened(name.text)} without grouping by it", name.span, hint)


def _bind_select(statement: CreateQuery, stream: Stream, group_by: tuple[str, ...]) -> tuple[SelectItem, ...]:
    labels: set[str] = set()
    select = []
    for item in chain.from_iterable(written_out(item, stream.attributes) for item in statement.select):
        bound = _bind_item(_timed(item, stream), stream, group_by)
        label = label_of(bound)
        if label in labels:
            place = item.alias.span if item.alias else item.expression.span
            raise PlacedError(f"two SELECT items are called {shortened(label)}", place, "name one of them with AS")
        labels.add(label)
        select.append(bound)
    if not any(item.is_answer for item in select):
        hint = "add one, for instance COUNT(*); or sort the rows of the window with ORDER BY"
        raise PlacedError("SELECT needs at least one aggregate", statement.select[0].expression.span, hint)
    return tuple(select)


def _timed(item: Item, stream: Stream) -> Item:
    """An item whose aggregates of values at times know the event time."""
    return replace(item, expression=with_partners(item.expression, Attribute(stream.timestamp)))


def _bind_item(item: Item, stream: Stream, group_by: tuple[str, ...]) -> SelectItem:
    expression = item.expression
    _check_grouped(expression, stream, group_by)
    kind = type_of(expression, stream.attributes)
    if not isinstance(expression, Attribute | AggregateCall):
        if not aggregates_of(expression):
            hint = "add an aggregate to it, or select the attribute and compute with the answers"
            raise PlacedError("a SELECT item must be a grouped attribute or hold an aggregate", expression.span, hint)
        _refuse_lists(expression)
        if kind not in CATALOGUE["MAX"].types:
            message = f"an answer is a number, a time or a text, {written(expression)} is {kind or 'NULL'}"
            raise PlacedError(message, expression.span, "for a condition write CASE WHEN ... THEN 1 ELSE 0 END")
    return SelectItem(expression, item.alias.text if item.alias else None)


def _bind_having(
    having: Expression, stream: Stream, group_by: tuple[str, ...], select: tuple[SelectItem, ...]
) -> Expression:
    """HAVING, with what aliases of SELECT stand for; a grouped attribute goes before an alias of the same name."""
    meant = {item.alias: item.expression for item in select if item.alias is not None and item.alias not in group_by}
    having = with_partners(with_attributes(having, meant), Attribute(stream.timestamp))
    check_expression(having)
    _check_grouped(having, stream, group_by)
    _refuse_lists(having)
    expect_condition(having, stream.attributes, "HAVING")
    return having


def _refuse_lists(expression: Expression) -> None:
    """Refuse to compute from answers that are lists, or to compare them."""
    for call in aggregates_of(expression):
        if call.function in CATALOGUE and CATALOGUE[call.function].is_list:
            message = f"{call.function} gives a list, and nothing is computed from lists"
            raise PlacedError(message, call.span, "select it by itself; LAST, FIRST, COUNT, MIN and MAX give one value")


def _check_computed(query: Query, statement: CreateQuery) -> None:
    """Refuse arithmetic on answers that have bounds: what is computed from these would have none."""
    if not query.computed:
        return
    place = next(item for item in query.answers if not isinstance(item.expression, AggregateCall)).expression.span
    if query.within is not None:
        hint = "leave out WITHIN, or select the aggregates one by one"
        raise PlacedError("WITHIN answers with intervals, and nothing is computed from these", place, hint)
    for expression in query.computed:
        for call in aggregates_of(expression):
            entry = CATALOGUE[call.function]
            if not entry.is_exact:
                hint = "select it by itself" + (f", or use {entry.exact_form}" if entry.exact_form else "")
                message = f"{call.function} is approximate, and nothing is computed from its answers"
                raise PlacedError(message, call.span, hint)


def _check_grouped(expression: Expression, stream: Stream, group_by: tuple[str, ...]) -> None:
    """Refuse attributes outside aggregates that the query does not group by."""
    for attribute in bare_attributes(expression):
        if attribute.name in group_by:
            continue
        if attribute.name not in stream.attributes:
            raise unknown_attribute(attribute, stream.attributes)
        aggregate = "MAX" if CATALOGUE["MAX"].accepts(stream.attributes[attribute.name]) else "COUNT"
        hint = f"add it to GROUP BY, or aggregate it: {aggregate}({attribute.name})"
        raise PlacedError(f"{shortened(attribute.name)} is neither grouped by nor aggregated", attribute.span, hint)
