"""Back to text: what is printed parses and binds to an equal object.

>>> from panewise.language.expressions import Attribute, Comparison, Literal, Logical
>>> from panewise.aggregates.types import Type
>>> late = Comparison(">", Attribute("delay"), Literal(15.0, Type.DOUBLE))
>>> print_expression(Logical("AND", late, Attribute("in")))
'delay > 15.0 AND "in"'
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import cast

from panewise.aggregates.catalogue import CATALOGUE, Parameter, Partner
from panewise.aggregates.types import Type
from panewise.language import expressions as ex
from panewise.language import row_queries as rows
from panewise.language.expressions import Expression
from panewise.language.functions import COUNT, EVERY_EVENT
from panewise.language.literals import print_duration, print_timestamp
from panewise.language.model import UNBOUNDED_US, Query, SelectItem, Stream
from panewise.language.words import RESERVED
from panewise.windows import PunctuationWindow, SessionWindow, TimeWindow, Window

# How tightly a form binds; an operand that binds less tightly than its place asks for gets parentheses.
_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(1, 9)
_ARITHMETIC = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def print_stream(stream: Stream) -> str:
    """The `CREATE STREAM` statement of a stream."""
    attributes = ", ".join(
        f"{print_name(name)} {kind}" + (f"({stream.units[name]})" if name in stream.units else "")
        for name, kind in stream.attributes.items()
    )
    text = f"CREATE STREAM {print_name(stream.name)} ({attributes}) TIMESTAMP BY {print_name(stream.timestamp)}"
    if stream.watermark_us:
        text += f" WATERMARK {print_duration(stream.watermark_us)}"
    if stream.granularity_us is not None:
        text += f" GRANULARITY {print_duration(stream.granularity_us)}"
    if stream.correct_us:
        text += f" ON LATE CORRECT {print_duration(stream.correct_us)}"
    if stream.future_bound_us is not None:
        is_none = stream.future_bound_us == UNBOUNDED_US
        text += f" FUTURE BOUND {'NONE' if is_none else print_duration(stream.future_bound_us)}"
    return text + ";"


def print_query(query: Query) -> str:
    """The `CREATE QUERY` statement of a query."""
    items = ", ".join(_print_item(item) for item in query.select)
    source = f"{print_name(query.stream)} {_print_slide(query) or print_window(query.window)}"
    text = f"CREATE QUERY {print_name(query.name)} AS SELECT {items} FROM {source}"
    if query.where is not None:
        text += f" WHERE {print_expression(query.where)}"
    if query.group_by:
        text += f" GROUP BY {_print_names(query.group_by)}"
    if query.having is not None:
        text += f" HAVING {print_expression(query.having)}"
    if query.within is not None:
        text += f" WITHIN {query.within!r}"
    if query.overflow_is_error:
        text += " ON OVERFLOW ERROR"
    if query.using is not None:
        text += f" USING {query.using}"
    return text + ";"


def _print_slide(query: Query) -> str:
    """The slide alone, if every aggregate has a window of its own; else nothing."""
    window = query.window
    if not query.has_own_windows or not isinstance(window, TimeWindow) or window.slide_us is None or window.zone:
        return ""
    offset = f" OFFSET {print_duration(window.offset_us)}" if window.offset_us else ""
    return f"SLIDE {print_duration(window.slide_us)}{offset}"


def print_row_query(query: rows.RowQuery) -> str:
    """The `CREATE QUERY` statement of a row query."""
    text = f"CREATE QUERY {print_name(query.name)} AS SELECT {_print_rows(query)}"
    if query.into is not None:
        text += f" INTO {print_window(query.into)}"
    if query.using is not None:
        text += f" USING {query.using.upper} OVER {query.using.lower}"
    if query.basic_windows is not None:
        text += f" BASIC WINDOWS {query.basic_windows}"
    return f"{text}{_print_evaluation(query.evaluation)};"


def _print_evaluation(evaluation: rows.Evaluation) -> str:
    usual = rows.Evaluation()
    if evaluation == usual:
        return ""
    most = "" if evaluation.most is None else f" TO {evaluation.most}"
    priority = "" if evaluation.priority == usual.priority else f" PRIORITY {evaluation.priority}"
    return f" EVALUATE EVERY {evaluation.every}{most}{priority}"


def _print_rows(query: rows.RowQuery) -> str:
    """What stands between SELECT and INTO."""
    match query:
        case rows.HistogramQuery():
            widths = query.width if isinstance(query.width, tuple) else [query.width]
            width = "".join(f", {number!r}" for number in widths if number is not None)
            return _print_values(query, f"HISTOGRAM({print_expression(query.argument)}{width})")
        case rows.TopKQuery():
            return _print_values(query, f"TOP_K({print_expression(query.argument)}, {query.k})")
        case rows.DistinctQuery():
            return _print_values(query, f"DISTINCT {print_expression(query.argument)}")
        case rows.SortedQuery():
            text = _print_source(_print_columns(query.columns), query.stream, query.window, query.where)
            text += f" GROUP BY {_print_names(query.group_by)}" if query.group_by else ""
            text += f" ORDER BY {print_name(query.by)}{' DESC' if query.descending else ''}"
            return text if query.limit is None else f"{text} LIMIT {query.limit}"
        case rows.IntersectionQuery(left=left, right=right):
            sides = [
                _print_source(print_expression(side.argument), side.stream, side.window, side.where)
                for side in (left, right)
            ]
            ranges = "" if query.width is None else f" BY RANGES OF {query.width!r}"
            return f"{sides[0]} {query.operation} SELECT {sides[1]}{ranges}"
        case rows.JoinQuery(left=left, right=right):
            keys = zip(query.left_keys, query.right_keys, strict=True)
            on = " AND ".join(f"{print_expression(one)} = {print_expression(other)}" for one, other in keys)
            text = f"{_print_columns(query.columns)} FROM {_print_side(left)} JOIN {_print_side(right)} ON {on}"
            return text + _print_where(query.where)
        case rows.SelectionQuery():
            return _print_source(_print_columns(query.columns), query.stream, None, query.where)
        case _:
            raise TypeError(f"unknown kind of row query: {query!r}")


def _print_values(query: rows.ValueQuery, call: str) -> str:
    # DISTINCT stands alone in SELECT.
    shown = () if isinstance(query, rows.DistinctQuery) else query.group_by
    select = ", ".join([*map(print_name, shown), call])
    text = _print_source(select, query.stream, query.window, query.where)
    return f"{text} GROUP BY {_print_names(query.group_by)}" if query.group_by else text


def _print_source(select: str, stream: str, window: Window | None, where: Expression | None) -> str:
    bounds = "" if window is None else f" {print_window(window)}"
    return f"{select} FROM {print_name(stream)}{bounds}{_print_where(where)}"


def _print_side(side: rows.JoinSide) -> str:
    alias = "" if side.name == side.stream else f" AS {print_name(side.name)}"
    return f"{print_name(side.stream)} {print_window(side.window)}{alias}"


def _print_where(where: Expression | None) -> str:
    return "" if where is None else f" WHERE {print_expression(where)}"


def _print_columns(columns: tuple[rows.RowColumn, ...]) -> str:
    return ", ".join(_print_item(column) for column in columns)


def label_of(item: SelectItem | rows.RowColumn) -> str:
    """The name of a SELECT item in the answers: its alias, or otherwise the name or text of its expression."""
    if item.alias is not None:
        return item.alias
    expression = item.expression
    if isinstance(expression, ex.QualifiedAttribute):
        return expression.attribute
    return expression.name if isinstance(expression, ex.Attribute) else print_expression(expression)


def print_window(window: Window) -> str:
    """A window with its brackets."""
    if isinstance(window, SessionWindow):
        return f"[SESSION GAP {print_duration(window.gap_us)} MAX {print_duration(window.max_us)}]"
    if isinstance(window, PunctuationWindow):
        opens, closes = (print_expression(cast("Expression", one)) for one in (window.opens, window.closes))
        return f"[FROM WHEN {opens} UNTIL WHEN {closes} MAX {print_duration(window.max_us)}]"
    behind = ""
    if isinstance(window, TimeWindow):
        left, right = print_duration(window.left_us), print_duration(window.right_us)
        word = "CUMULATE" if window.grows else "RANGE"
        slide = None if window.slide_us is None else print_duration(window.slide_us)
        if window.offset_us:
            behind += f" OFFSET {print_duration(window.offset_us)}"
        if window.zone is not None:
            behind += f" ALIGN TO TIME ZONE {_print_string(window.zone)}"
        if window.is_unbounded:
            return f"[UNBOUNDED{'' if slide is None else f' SLIDE {slide}{behind}'}]"
        is_historical = window.right_us > 0
    else:
        left, right = str(window.left), str(window.right)
        word, slide = "ROWS", None if window.slide is None else str(window.slide)
        is_historical = window.right > 0
        if window.partition_by:
            word = f"PARTITION BY {_print_names(window.partition_by)} ROWS"
    if is_historical:
        return f"[{word} BETWEEN {left} PRECEDING AND {right} PRECEDING]"
    return f"[{word} {left}]" if slide is None else f"[{word} {left} SLIDE {slide}{behind}]"


def print_name(name: str) -> str:
    """A name, in double quotes when it needs them."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def print_expression(expression: Expression) -> str:
    """An expression, with parentheses only where they change the meaning."""
    return _print(expression)[0]


def _print_item(item: SelectItem | rows.RowColumn) -> str:
    text = print_expression(item.expression)
    return text if item.alias is None else f"{text} AS {print_name(item.alias)}"


def _print_names(names: tuple[str, ...]) -> str:
    return ", ".join(print_name(name) for name in names)


def _print(node: Expression) -> tuple[str, int]:
    """The text of a node and how tightly it binds."""
    match node:
        case ex.Literal():
            return _print_literal(node)
        case ex.QualifiedAttribute():
            return f"{print_name(node.side)}.{print_name(node.attribute)}", _PRIMARY
        case ex.Attribute():
            return print_name(node.name), _PRIMARY
        case ex.AggregateCall():
            return _print_call(node), _PRIMARY
        case ex.ScalarCall():
            return _print_scalar(node), _PRIMARY
        case ex.Pair():
            return f"{print_expression(node.operand)}, {print_expression(node.partner)}", _PRIMARY
        case ex.Cast():
            return f"CAST({print_expression(node.operand)} AS {node.kind})", _PRIMARY
        case ex.Case():
            return _print_case(node), _PRIMARY
        case ex.RowCall():
            parameter = "" if node.parameter is None else f", {node.parameter!r}"
            return f"{node.function}({print_expression(node.argument)}{parameter})", _PRIMARY
        case ex.Negate():
            operand = _operand(node.operand, _UNARY)
            # Two minus signs in a row would begin a comment.
            return (f"-({operand})" if operand.startswith("-") else f"-{operand}"), _UNARY
        case ex.Arithmetic():
            level = _ARITHMETIC[node.operator]
            return f"{_operand(node.left, level)} {node.operator} {_operand(node.right, level + 1)}", level
        case ex.Comparison():
            return f"{_operand(node.left, _SUM)} {node.operator} {_operand(node.right, _SUM)}", _PREDICATE
        case ex.Logical():
            level = _OR if node.operator == "OR" else _AND
            return f"{_operand(node.left, level)} {node.operator} {_operand(node.right, level + 1)}", level
        case ex.Not():
            return f"NOT {_operand(node.operand, _NOT)}", _NOT
        case ex.IsNull():
            return f"{_operand(node.operand, _SUM)} IS {_not(node.negated)}NULL", _PREDICATE
        case ex.InList():
            items = ", ".join(_print_literal(item)[0] for item in node.items)
            return f"{_operand(node.operand, _SUM)} {_not(node.negated)}IN ({items})", _PREDICATE
        case ex.Like():
            pattern = _print_string(node.pattern)
            return f"{_operand(node.operand, _SUM)} {_not(node.negated)}LIKE {pattern}", _PREDICATE
        case _:
            raise TypeError(f"unknown kind of expression: {node!r}")


def _operand(node: Expression, place: int) -> str:
    text, level = _print(node)
    return text if level >= place else f"({text})"


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def _print_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _print_literal(literal: ex.Literal) -> tuple[str, int]:
    value = literal.value
    if value is None:
        return "NULL", _PRIMARY
    if literal.type is Type.TIMESTAMP:
        assert isinstance(value, int)
        return f"TIMESTAMP '{print_timestamp(value)}'", _PRIMARY
    if isinstance(value, bool):
        return str(value).upper(), _PRIMARY
    if isinstance(value, str):
        return _print_string(value), _PRIMARY
    if literal.type is Type.DOUBLE:
        value = float(value)
        if not math.isfinite(value):
            raise ValueError(f"the language has no constant for {value}")
    return repr(value), (_UNARY if repr(value).startswith("-") else _PRIMARY)


def _print_case(case: ex.Case) -> str:
    whens = " ".join(
        f"WHEN {print_expression(condition)} THEN {print_expression(value)}"
        for condition, value in zip(case.conditions, case.values, strict=True)
    )
    otherwise = "" if case.otherwise is None else f" ELSE {print_expression(case.otherwise)}"
    return f"CASE {whens}{otherwise} END"


def _print_scalar(call: ex.ScalarCall) -> str:
    first, *others = call.arguments
    if call.function == "EXTRACT" and isinstance(first, ex.Literal):
        return f"EXTRACT({first.value} FROM {print_expression(others[0])})"
    return f"{call.function}({', '.join(print_expression(argument) for argument in call.arguments)})"


def _print_call(call: ex.AggregateCall) -> str:
    """A call; a CASE with one condition is printed as FILTER, which is the same."""
    if call.over is not None:
        return f"{_print_call(replace(call, over=None))} OVER {print_window(call.over)}"
    match call.argument:
        case ex.Pair(operand=ex.Case(conditions=(condition,), values=(value,), otherwise=None)) as pair:
            written = _print_call(replace(call, argument=replace(pair, operand=value)))
            return f"{written} FILTER (WHERE {print_expression(condition)})"
        case ex.Pair(operand=value) if CATALOGUE[call.function].partner is not Partner.ARGUMENT:
            # The event time goes without saying.
            return _print_call(replace(call, argument=value))
        case ex.Case(conditions=(condition,), values=(value,), otherwise=None):
            is_every = call.function == COUNT and value == EVERY_EVENT
            written = "COUNT(*)" if is_every else _print_call(replace(call, argument=value))
            return f"{written} FILTER (WHERE {print_expression(condition)})"
    entry = CATALOGUE.get(call.function)
    argument = "" if call.argument is None else print_expression(call.argument)
    if entry is not None and entry.written is not None:
        return entry.written.format(argument)
    parameter = "" if call.parameter is None else f", {call.parameter!r}"
    if entry is not None and entry.parameter is Parameter.HALF_LIFE:
        parameter = f", HALF LIFE {print_duration(int(call.parameter or 0))}"
    return f"{call.function}({argument}{parameter})"
