"""Binds row queries: finds the operator of a statement, and checks every name and type in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any, NamedTuple

from panewise.aggregates.types import Type
from panewise.language import row_queries as rows
from panewise.language.checks import check_granularity, check_where, find_stream, refuse_duplicates
from panewise.language.expressions import (
    Attribute,
    Comparison,
    Expression,
    QualifiedAttribute,
    RowCall,
    Span,
    aggregates_of,
    bare_attributes,
    conjuncts,
    walk,
)
from panewise.language.foreign_words import NO_ORDER
from panewise.language.functions import DISTINCT
from panewise.language.model import Stream
from panewise.language.printer import label_of, print_name
from panewise.language.row_queries import clock_of, columns_of
from panewise.language.source import PlacedError, hint_for, shortened
from panewise.language.statements import Counted, CreateQuery, EvaluateClause, Item, Source, UsingClause, WindowClause
from panewise.language.typecheck import expect_condition, type_of
from panewise.language.words import INDEXES, RINGS, STORAGES
from panewise.windows import RowWindow, TimeWindow, Window, follows_events, is_unbounded
from panewise.windows.slots import lengths_of

_Width = int | float | tuple[int | float, ...]
"""The width of value ranges, or the bounds between them."""

SAME_INSTANT = TimeWindow(1)
"""The window of both sides where answers meet whose windows end together."""
_SLIDING_HINT = "for instance [RANGE 1 HOUR SLIDE 1 MINUTE]"


def is_row_query(statement: CreateQuery) -> bool:
    """Whether a query answers with rows: by its clauses, by HISTOGRAM or TOP_K, or because it has no window."""
    clauses = (statement.join, statement.intersect, statement.order, statement.into, *_paces(statement))
    uses_index = statement.using is not None and statement.using.lower is not None
    return (
        any(clause is not None for clause in clauses)
        or uses_index
        or statement.source.window is None
        or _has_row_call(statement)
    )


def bind_row_query(statement: CreateQuery, streams: Mapping[str, Stream]) -> rows.RowQuery:
    """The row query of a statement."""
    _refuse_clauses(statement)
    if statement.join is not None:
        query: rows.RowQuery = _bind_join(statement, streams)
    elif statement.intersect is not None:
        query = _bind_intersection(statement, streams)
    elif _has_row_call(statement):
        query = _bind_row_call(statement, streams)
    elif statement.order is not None:
        query = _bind_sorted(statement, streams)
    else:
        query = _bind_selection(statement, streams)
    return _with_evaluation(query, statement)


def _with_evaluation(query: rows.RowQuery, statement: CreateQuery) -> rows.RowQuery:
    """The query with BASIC WINDOWS and EVALUATE."""
    if statement.basic_windows is not None:
        query = replace(query, basic_windows=_basic_windows(query, statement.basic_windows))
    clause = statement.evaluate
    if clause is None:
        return query
    if isinstance(query, rows.JoinQuery | rows.SelectionQuery):
        hint = "leave out EVALUATE; of a window that slides it says which windows are evaluated"
        raise PlacedError("joins and selections answer at every event", clause.span, hint)
    every = clause.every.number
    if clause.priority is not None and clause.most is None:
        hint = f"write EVALUATE EVERY {every} TO {8 * every} PRIORITY {clause.priority.number}"
        raise PlacedError("PRIORITY is for evaluation that may get rarer", clause.priority.span, hint)
    if clause.most is not None and (clause.most.number % every or clause.most.number == every):
        hint = f"for instance EVALUATE EVERY {every} TO {8 * every}"
        raise PlacedError(f"TO must be a greater multiple of EVERY {every}", clause.most.span, hint)
    usual = rows.Evaluation()
    most = None if clause.most is None else clause.most.number
    priority = usual.priority if clause.priority is None else clause.priority.number
    return replace(query, evaluation=rows.Evaluation(every, most, priority))


def _basic_windows(query: rows.RowQuery, asked: Counted) -> int:
    """Into how many basic windows the window of a query is cut, if that is possible."""
    count = asked.number
    if isinstance(query, rows.SelectionQuery):
        raise PlacedError("a selection has no window", asked.span, "leave out BASIC WINDOWS")
    if count > rows.MOST_BASIC_WINDOWS:
        raise PlacedError(f"at most {rows.MOST_BASIC_WINDOWS:,} basic windows, got {count:,}", asked.span, "take fewer")
    if isinstance(query, rows.JoinQuery):
        return count
    windows = [query.left.window, query.right.window] if isinstance(query, rows.IntersectionQuery) else []
    if isinstance(query, rows.ValueQuery | rows.SortedQuery):
        windows = [query.window]
    length, _ = lengths_of(windows[0])
    unit = gcd(*(each for window in windows for each in lengths_of(window)))
    if length % count or unit % (length // count):
        least = length // unit
        hint = f"it can be {least:,}, or a multiple of it that divides the range"
        raise PlacedError(f"{count:,} basic windows do not fit the ends of the windows", asked.span, hint)
    return count


def _paces(statement: CreateQuery) -> list[Counted | EvaluateClause | None]:
    return [statement.basic_windows, statement.evaluate]


def _has_row_call(statement: CreateQuery) -> bool:
    return any(isinstance(item.expression, RowCall) for item in statement.select)


def _sorts_events(statement: CreateQuery) -> bool:
    """Whether ORDER BY is over events, and not over aggregates, which have no order."""
    return statement.order is not None and not any(aggregates_of(item.expression) for item in statement.select)


def _refuse_clauses(statement: CreateQuery) -> None:
    """Refuse the clauses that no row query has, and those of two operators at once."""
    groups = bool(statement.group_by) and not (_has_row_call(statement) or _sorts_events(statement))
    for found, span, word in (
        (groups, statement.group_by[0].span if statement.group_by else statement.span, "GROUP BY"),
        (statement.having is not None, statement.having.span if statement.having else statement.span, "HAVING"),
        (statement.within is not None, statement.name.span, "WITHIN"),
        (
            statement.on_overflow is not None,
            statement.on_overflow.span if statement.on_overflow else statement.span,
            "ON OVERFLOW",
        ),
    ):
        if found:
            hint = f"leave out {word}, or ask for aggregates over a window without INTO, USING and ORDER BY"
            if statement.order is not None and word != "ON OVERFLOW":
                hint = f"leave out ORDER BY: {NO_ORDER}"
            raise PlacedError(f"{word} is for aggregates, and this query answers with rows", span, hint)
    operators = [part for part in (statement.join, statement.intersect, statement.order) if part is not None]
    if len(operators) > 1:
        hint = "write two queries"
        words = "JOIN, INTERSECT, UNION, EXCEPT and ORDER BY"
        raise PlacedError(f"a query can have only one of {words}", operators[1].span, hint)
    if operators and _has_row_call(statement):
        call = next(item.expression for item in statement.select if isinstance(item.expression, RowCall))
        hint = "write two queries"
        words = "JOIN, INTERSECT, UNION, EXCEPT or ORDER BY"
        raise PlacedError(f"{call.function} cannot be used with {words}", call.span, hint)


class _Clauses(NamedTuple):
    """INTO and USING, bound."""

    into: Window | None
    using: rows.Using | None


def _bind_clauses(statement: CreateQuery, uppers: tuple[str, ...], lowers: tuple[str, ...]) -> _Clauses:
    """INTO and USING, the latter with one of `uppers` over one of `lowers`."""
    into = None
    if statement.into is not None:
        into = statement.into.window.window
        _expect_suffix(into, statement.into.span, "INTO")
    using = None if statement.using is None else _bind_using(statement.using, uppers, lowers)
    return _Clauses(into, using)


def _bind_using(clause: UsingClause, uppers: tuple[str, ...], lowers: tuple[str, ...]) -> rows.Using:
    if not uppers:
        raise PlacedError("this query needs no index", clause.span, "leave out USING")
    hint = f"here it is one of {', '.join(uppers)} OVER one of {', '.join(lowers)}"
    if clause.lower is None:
        raise PlacedError("USING needs OVER in a query that answers with rows", clause.span, hint)
    for name, known in ((clause.upper, uppers), (clause.lower, lowers)):
        if name.text.lower() not in known:
            raise PlacedError(f"USING cannot take {shortened(name.text)}", name.span, hint)
    return rows.Using(clause.upper.text.lower(), clause.lower.text.lower())


def _set_names(width: _Width | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The indexes and storages for single values, or for ranges of values."""
    if width is not None:
        return ("g_index",), ("list", "group")
    return tuple(name for name in INDEXES if name != "g_index"), tuple(name for name in STORAGES if name != "group")


def _ring_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    return RINGS, tuple(name for name in INDEXES if name != "g_index")


# Windows


def _sliding(source: Source, stream: Stream, what: str) -> Window:
    """The window of a source, which must slide."""
    refuse_alias(source)
    clause = source.window
    if clause is None:
        raise PlacedError(f"{what} needs a window", source.stream.span, _SLIDING_HINT)
    window = clause.window
    if clause.is_slide_alone:
        raise PlacedError(f"{what} needs a window with a RANGE", clause.durations[0].span, _SLIDING_HINT)
    if not window.is_sliding:
        raise PlacedError(f"{what} needs a window that slides", source.stream.span, _SLIDING_HINT)
    if follows_events(window):
        place = clause.durations[0].span if clause.durations else source.stream.span
        raise PlacedError(f"{what} needs a window of a fixed length", place, _SLIDING_HINT)
    if is_unbounded(window):
        raise PlacedError(f"{what} needs a window of a fixed length", source.stream.span, _SLIDING_HINT)
    if isinstance(window, RowWindow) and window.partition_by:
        hint = "leave out PARTITION BY, or use a RANGE; windows of each group's own rows are for aggregates"
        raise PlacedError(f"{what} needs one window for all groups", source.stream.span, hint)
    if isinstance(window, TimeWindow) and (window.offset_us or window.zone is not None or window.grows):
        hint = "leave out OFFSET and ALIGN, and write RANGE for CUMULATE"
        raise PlacedError(f"{what} needs a window that is counted from 1970 UTC", source.stream.span, hint)
    check_granularity(clause, stream)
    basic = rows.BasicWindows.of(window)
    if basic.count > rows.MOST_BASIC_WINDOWS:
        message = f"the window needs {basic.count:,} basic windows, at most {rows.MOST_BASIC_WINDOWS:,}"
        hint = "choose a slide that shares a larger divisor with the range"
        raise PlacedError(message, source.stream.span, hint)
    return window


def refuse_alias(source: Source) -> None:
    """Refuse `AS` behind a stream that is not joined."""
    if source.alias is not None:
        raise PlacedError("only the streams of a JOIN can have other names", source.alias.span, "leave out AS")


def _expect_suffix(window: Window, span: Span, what: str) -> None:
    """Refuse windows that slide, that end before now, or that count the rows of substreams."""
    ends_now = (window.right if isinstance(window, RowWindow) else window.right_us) == 0
    by_key = isinstance(window, RowWindow) and bool(window.partition_by)
    if window.is_sliding or not ends_now or is_unbounded(window) or by_key:
        raise PlacedError(f"{what} needs a plain window", span, "[RANGE 1 HOUR] or [ROWS 1000]")


# Operators


def _bind_row_call(statement: CreateQuery, streams: Mapping[str, Stream]) -> rows.RowQuery:
    stream = find_stream(statement.stream, streams)
    call = _only_call(statement)
    window = _sliding(statement.source, stream, call.function)
    kind = _value_type(call.argument, stream)
    _check_events(statement.where, stream)
    group_by = _bind_groups(statement, stream)
    name, where = statement.name.text, statement.where
    width = _check_bounds(call.parameter, kind, call.span) if call.function == "HISTOGRAM" else None
    # Values of groups are indexed one by one, and so are their ranges.
    into, using = _bind_clauses(statement, *_set_names(None if group_by else width))
    shared: dict[str, Any] = {"name": name, "stream": stream.name, "window": window, "where": where}
    shared |= {"argument": call.argument, "group_by": group_by, "into": into, "using": using}
    query: rows.ValueQuery
    if call.function == DISTINCT:
        query = rows.DistinctQuery(**shared)
    elif call.function == "TOP_K":
        assert isinstance(call.parameter, int)
        query = rows.TopKQuery(**shared, k=call.parameter)
    else:
        query = rows.HistogramQuery(**shared, width=width)
    _check_group_names(query, statement)
    return query


def _only_call(statement: CreateQuery) -> RowCall:
    """The call of HISTOGRAM, TOP_K or DISTINCT. Beside it there may be attributes of GROUP BY."""
    grouped = {name.text for name in statement.group_by}
    (call, *others) = [item for item in statement.select if isinstance(item.expression, RowCall)]
    assert isinstance(call.expression, RowCall)
    for item in statement.select:
        is_group = isinstance(item.expression, Attribute) and item.expression.name in grouped
        if item in others or (item is not call and not is_group):
            hint = "write two queries, or GROUP BY the attribute"
            raise PlacedError("HISTOGRAM and TOP_K must be alone in SELECT", item.expression.span, hint)
        if item.alias is not None:
            message = f"the columns of {call.expression.function} have fixed names"
            raise PlacedError(message, item.alias.span, "leave out AS")
    return call.expression


def _bind_groups(statement: CreateQuery, stream: Stream) -> tuple[str, ...]:
    """The attributes of GROUP BY, all of which the rows show."""
    refuse_duplicates(statement.group_by, "GROUP BY attribute")
    for name in statement.group_by:
        type_of(Attribute(name.text, span=name.span), stream.attributes)
    return tuple(name.text for name in statement.group_by)


def _check_group_names(query: rows.ValueQuery, statement: CreateQuery) -> None:
    """Refuse a group that is called as another column."""
    own = columns_of(replace(query, group_by=()))
    for name in statement.group_by:
        if name.text in own:
            hint = "rename the attribute in CREATE STREAM"
            raise PlacedError(f"the rows already have a column {shortened(name.text)}", name.span, hint)


def _bind_intersection(statement: CreateQuery, streams: Mapping[str, Stream]) -> rows.IntersectionQuery:
    clause = statement.intersect
    assert clause is not None
    word = clause.operation
    left, left_type = _bind_intersection_side(word, statement.select, statement.source, statement.where, streams)
    right, right_type = _bind_intersection_side(word, clause.select, clause.source, clause.where, streams)
    if left_type is not right_type:
        message = f"{word} needs values of one type, got {left_type} and {right_type}"
        raise PlacedError(message, clause.select[0].expression.span, "declare both attributes with the same type")
    _check_pairing(word, left.window, right.window, clause.source.stream.span)
    width = _check_width(clause.width, left_type, clause.width_span)
    into, using = _bind_clauses(statement, *_set_names(width))
    return rows.IntersectionQuery(
        name=statement.name.text, left=left, right=right, width=width, operation=word, into=into, using=using
    )


def _bind_intersection_side(
    word: str, select: tuple[Item, ...], source: Source, where: Expression | None, streams: Mapping[str, Stream]
) -> tuple[rows.IntersectionSide, Type]:
    stream = find_stream(source.stream, streams)
    if len(select) > 1:
        raise PlacedError(f"{word} takes one value a side", select[1].expression.span, "select one attribute")
    if select[0].alias is not None:
        raise PlacedError(f"the columns of {word} have fixed names", select[0].alias.span, "leave out AS")
    window = _sliding(source, stream, word)
    kind = _value_type(select[0].expression, stream)
    _check_events(where, stream)
    return rows.IntersectionSide(stream.name, window, select[0].expression, where), kind


def _check_pairing(word: str, left: Window, right: Window, span: Span) -> None:
    """Refuse two windows whose instances do not end together."""
    if clock_of(left) != clock_of(right):
        raise PlacedError(f"{word} cannot mix RANGE and ROWS", span, "give both windows a RANGE, or both ROWS")
    (left_length, slide), (right_length, right_slide) = lengths_of(left), lengths_of(right)
    if slide != right_slide:
        raise PlacedError(f"the windows of {word} need the same SLIDE", span, "give both the SLIDE of the first")
    if clock_of(left) == "time" and (left_length - right_length) % slide:
        hint = "let the two ranges differ by a multiple of the slide"
        raise PlacedError(f"the windows of {word} never end together", span, hint)


def _bind_sorted(statement: CreateQuery, streams: Mapping[str, Stream]) -> rows.SortedQuery:
    order = statement.order
    assert order is not None
    stream = find_stream(statement.stream, streams)
    window = _sliding(statement.source, stream, "ORDER BY")
    type_of(Attribute(order.by.text, span=order.by.span), stream.attributes)
    _check_events(statement.where, stream)
    into, using = _bind_clauses(statement, *_ring_names())
    query = rows.SortedQuery(
        name=statement.name.text,
        stream=stream.name,
        window=window,
        where=statement.where,
        columns=tuple(_bind_column(item, stream.attributes) for item in statement.select),
        by=order.by.text,
        group_by=_bind_groups(statement, stream),
        descending=order.descending,
        limit=order.limit,
        into=into,
        using=using,
    )
    _check_labels(query, query.columns, statement.select)
    return query


def _bind_selection(statement: CreateQuery, streams: Mapping[str, Stream]) -> rows.SelectionQuery:
    stream = find_stream(statement.stream, streams)
    calls = [call for item in statement.select for call in aggregates_of(item.expression)]
    if statement.source.window is not None:
        clauses = (statement.into, statement.using, *_paces(statement))
        words = ("INTO", "USING", "BASIC WINDOWS", "EVALUATE")
        clause, word = next((one, word) for one, word in zip(clauses, words) if one is not None)
        hint = f"leave out {word}; or sort the window with ORDER BY, or select from the stream without a window"
        raise PlacedError(f"{word} is for queries that answer with rows", clause.span, hint)
    if calls:
        message = f"{shortened(stream.name)} needs a window here"
        hint = "every query of aggregates needs a window, for instance [RANGE 1 HOUR SLIDE 5 MINUTES]"
        raise PlacedError(message, statement.stream.span, hint)
    refuse_alias(statement.source)
    _check_events(statement.where, stream)
    into, _ = _bind_clauses(statement, (), ())
    query = rows.SelectionQuery(
        name=statement.name.text,
        stream=stream.name,
        where=statement.where,
        columns=tuple(_bind_column(item, stream.attributes) for item in statement.select),
        into=into,
    )
    _check_labels(query, query.columns, statement.select)
    return query


def _bind_join(statement: CreateQuery, streams: Mapping[str, Stream]) -> rows.JoinQuery:
    clause = statement.join
    assert clause is not None
    sources = statement.source, clause.source
    # Answers of the same instant meet where neither side says how far to look back.
    of_answers = all(one.window is None and find_stream(one.stream, streams).is_of_answers for one in sources)
    left, right = (_bind_join_side(one, streams, of_answers=of_answers) for one in sources)
    if left.name == right.name:
        name = clause.source.alias or clause.source.stream
        hint = f"give one of them another name: FROM {print_name(left.stream)} [...] AS a"
        raise PlacedError(f"both sides of the JOIN are called {shortened(right.name)}", name.span, hint)
    attributes = {
        QualifiedAttribute.of(side.name, attribute).name: kind
        for side in (left, right)
        for attribute, kind in streams[side.stream].attributes.items()
    }
    written = [item.expression for item in statement.select] + [clause.on]
    for expression in [*written, *([statement.where] if statement.where is not None else [])]:
        _expect_qualified(expression, left.name, right.name)
    expect_condition(clause.on, attributes, "ON")
    keys = [_bind_keys(pair, left.name) for pair in conjuncts(clause.on)]
    if statement.where is not None:
        _refuse_aggregates(statement.where)
        expect_condition(statement.where, attributes, "WHERE")
    into, using = _bind_clauses(statement, *_ring_names())
    query = rows.JoinQuery(
        name=statement.name.text,
        left=left,
        right=right,
        left_keys=tuple(one for one, _ in keys),
        right_keys=tuple(other for _, other in keys),
        columns=tuple(_bind_column(item, attributes) for item in statement.select),
        where=statement.where,
        into=into,
        using=using,
    )
    _check_labels(query, query.columns, statement.select)
    return query


def _bind_join_side(source: Source, streams: Mapping[str, Stream], *, of_answers: bool) -> rows.JoinSide:
    stream = find_stream(source.stream, streams)
    clause: WindowClause | None = source.window
    if of_answers:
        return rows.JoinSide(stream.name, SAME_INSTANT, source.side)
    if clause is None:
        hint = "for instance [RANGE 1 HOUR] or [ROWS 1000]"
        if stream.is_of_answers:
            hint += "; answers of two queries are joined by the ends of their windows if neither side has a window"
        raise PlacedError(f"{shortened(stream.name)} needs a window to be joined", source.stream.span, hint)
    _expect_suffix(clause.window, source.stream.span, "JOIN")
    check_granularity(clause, stream)
    return rows.JoinSide(stream.name, clause.window, source.side)


def _expect_qualified(expression: Expression, left: str, right: str) -> None:
    """Refuse attributes of a join without the name of their stream."""
    for attribute in bare_attributes(expression):
        if not isinstance(attribute, QualifiedAttribute):
            name = print_name(attribute.name)
            hint = f"write {print_name(left)}.{name} or {print_name(right)}.{name}"
            raise PlacedError(f"in a JOIN {shortened(attribute.name)} needs its stream", attribute.span, hint)
        if attribute.side not in (left, right):
            hint = hint_for(attribute.side, [left, right], "")
            raise PlacedError(f"the JOIN has no stream {shortened(attribute.side)}", attribute.span, hint)


def _bind_keys(on: Expression, left: str) -> tuple[QualifiedAttribute, QualifiedAttribute]:
    """The keys of `a.k = b.k`, the key of the left stream first."""
    match on:
        case Comparison(operator="=", left=QualifiedAttribute() as one, right=QualifiedAttribute() as other):
            if one.side == left != other.side:
                return one, other
            if other.side == left != one.side:
                return other, one
    hint = "write ON a.k = b.k AND a.m = b.m, and put other conditions into WHERE"
    raise PlacedError("ON must equate one attribute of each stream", on.span, hint)


# Columns


def _value_type(expression: Expression, stream: Stream) -> Type:
    """The type of the values that a histogram or an intersection counts."""
    _refuse_aggregates(expression)
    found = type_of(expression, stream.attributes)
    if found is None:
        raise PlacedError("NULL has no values", expression.span, "name an attribute")
    return found


def _check_bounds(width: _Width | None, kind: Type, span: Span) -> _Width | None:
    """The width of value ranges, or the bounds between them, in the type of the values."""
    if not isinstance(width, tuple):
        return _check_width(width, kind, span)
    return tuple(_in_type(bound, kind, span) for bound in width)


def _check_width(width: float | None, kind: Type, span: Span) -> int | float | None:
    """The width of value ranges in the type of the values."""
    return None if width is None else _in_type(width, kind, span)


def _in_type(width: float, kind: Type, span: Span) -> int | float:
    if not kind.is_number:
        hint = "leave out the width to count single values"
        raise PlacedError(f"ranges are of BIGINT or DOUBLE, these values are {kind}", span, hint)
    if kind is Type.DOUBLE:
        return float(width)
    if not isinstance(width, int):
        raise PlacedError("ranges of BIGINT need whole numbers", span, "for instance 10")
    return width


def _bind_column(item: Item, attributes: Mapping[str, Type]) -> rows.RowColumn:
    _refuse_aggregates(item.expression)
    if type_of(item.expression, attributes) is None:
        raise PlacedError("a column of NULLs has no type", item.expression.span, "select an attribute")
    return rows.RowColumn(item.expression, item.alias.text if item.alias else None)


def _refuse_aggregates(expression: Expression) -> None:
    calls = aggregates_of(expression)
    if calls:
        hint = "this query answers with rows; ask for aggregates in a query of their own"
        raise PlacedError("an aggregate cannot be used here", calls[0].span, hint)
    for node in walk(expression):
        if isinstance(node, RowCall):
            raise PlacedError(f"{node.function} gives rows, not a value", node.span, "it must be alone in SELECT")


def _check_events(where: Expression | None, stream: Stream) -> None:
    if where is not None:
        check_where(where, stream)


def _check_labels(query: rows.RowQuery, columns: tuple[rows.RowColumn, ...], items: tuple[Item, ...]) -> None:
    """Refuse two columns with one name."""
    taken = set(columns_of(query))
    for column, item in zip(columns, items):
        label = label_of(column)
        place = item.alias.span if item.alias else item.expression.span
        if label in columns_of(query):
            hint = "name it with AS"
            raise PlacedError(f"the rows already have a column {shortened(label)}", place, hint)
        if label in taken:
            raise PlacedError(f"two SELECT items are called {shortened(label)}", place, "name one of them with AS")
        taken.add(label)
