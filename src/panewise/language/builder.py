"""Turns lark's tokens into statements: one method for each rule of the grammar, called while the text is parsed.

Only `parser` imports this module, and only at the first parse, because it imports lark.
"""

# ruff: noqa: D102 - a method's rule in grammar.lark is its description.

from __future__ import annotations

from typing import Any

from lark import Token, Transformer

from panewise.aggregates.types import Type
from panewise.language import expressions as ex
from panewise.language import functions
from panewise.language.expressions import Expression, Span, walk
from panewise.language.limits import check_expression, not_too_deep
from panewise.language.literals import (
    INT64_MAX,
    integer_too_large,
    read_decimal,
    read_duration,
    read_integer,
    read_timestamp,
    unquoted,
)
from panewise.language.model import UNBOUNDED_US
from panewise.language.source import PlacedError, hint_for, joined, shortened
from panewise.language.statements import (
    Counted,
    CreateQuery,
    CreateStream,
    Definition,
    DropQuery,
    Duration,
    EvaluateClause,
    Intersect,
    Into,
    Item,
    Join,
    Name,
    OnOverflow,
    Order,
    Source,
    Statement,
    UsingClause,
    WindowClause,
)
from panewise.language.window_clauses import (
    cumulate,
    partition_window,
    punctuation_window,
    range_between,
    range_window,
    rows_between,
    rows_window,
    session_window,
    slide_alone,
    unbounded,
)
from panewise.language.words import TYPE_HINTS, TYPES
from panewise.windows.clock import UNITS

_CONDITIONS = (ex.Comparison, ex.InList, ex.IsNull, ex.Like, ex.Logical, ex.Not)
_WORDS: dict[str, tuple[bool | None, Type | None]] = {
    "TRUE": (True, Type.BOOLEAN),
    "FALSE": (False, Type.BOOLEAN),
    "NULL": (None, None),
}


def span_of(token: Token) -> Span:
    """The place of a token."""
    line, column, start, end = token.line, token.column, token.start_pos, token.end_pos
    # Only a token that was read from no text lacks a place.
    assert None not in (line, column, start, end)
    return Span(line, column, start, end)  # type: ignore[arg-type]


def read_unit(word: Token, type_: Type, parameters: list[Token]) -> str:
    """The unit in TIMESTAMP(ms); no other type takes a parameter."""
    first = parameters[0]
    if type_ is not Type.TIMESTAMP:
        raise PlacedError(f"{word.upper()} takes no parameter", span_of(first), f"write {word.upper()} alone")
    if len(parameters) > 1 or first.lower() not in UNITS:
        hint = f"name the unit that integers come in, one of {', '.join(UNITS)}, as in TIMESTAMP(ms)"
        raise PlacedError(f"{shortened(first)} is not a unit of TIMESTAMP", span_of(first), hint)
    return str(first.lower())


def _counted(number: tuple[int, Span], word: str) -> Counted:
    value, span = number
    if value <= 0:
        raise PlacedError(f"{word} must be positive, got {value}", span, f"for instance {word} 4")
    return Counted(value, span)


class Builder(Transformer[Token, tuple[Statement, ...]]):
    """The methods are named after the rules and aliases of grammar.lark; each gets the parts of its rule."""

    # Statements

    def start(self, parts: list[Statement | None]) -> tuple[Statement, ...]:
        return tuple(part for part in parts if part is not None)

    def create_stream(self, parts: list[Any]) -> CreateStream:
        create, name, *rest = parts
        definitions = tuple(part for part in rest if isinstance(part, Definition))
        timestamp = rest[len(definitions)]
        options: dict[str, Duration] = {}
        for option in rest[len(definitions) + 1 :]:
            if option.word in options:
                raise PlacedError(f"{option.word} is given twice", option.span, "keep one of them")
            options[option.word] = option
        watermark, granularity = options.get("WATERMARK"), options.get("GRANULARITY")
        if watermark is not None and watermark.us < 0:
            raise PlacedError("WATERMARK must not be negative", watermark.span, "0 SECONDS means no delay")
        if granularity is not None and granularity.us <= 0:
            raise PlacedError("GRANULARITY must be positive", granularity.span, "for instance GRANULARITY 1 SECOND")
        correct = options.get("CORRECT")
        if correct is not None and correct.us <= 0:
            raise PlacedError("ON LATE CORRECT must be positive", correct.span, "for instance ON LATE CORRECT 1 HOUR")
        bound = options.get("FUTURE BOUND")
        if bound is not None and bound.us < 0:
            hint = "for instance FUTURE BOUND 1 HOUR; FUTURE BOUND NONE takes events of any time"
            raise PlacedError("FUTURE BOUND must not be negative", bound.span, hint)
        return CreateStream(
            name,
            definitions,
            timestamp,
            watermark.us if watermark else 0,
            granularity.us if granularity else None,
            correct.us if correct else 0,
            bound.us if bound else None,
            span_of(create),
        )

    def definition(self, parts: list[Any]) -> Definition:
        name, word, *rest = parts
        parameters = [token for token in rest if token is not None]
        known = TYPES.get(word.upper())
        if known is None:
            hint = TYPE_HINTS.get(word.upper()) or hint_for(word, TYPES, "")
            raise PlacedError(f"unknown type {shortened(word)}", span_of(word), hint)
        return Definition(name, known, read_unit(word, known, parameters) if parameters else None)

    def parameter(self, parts: list[Token]) -> Token:
        return parts[0]

    def stream_option(self, parts: list[Any]) -> Duration:
        word, duration = parts
        written = word.upper()
        return Duration(duration.us, duration.span, "FUTURE BOUND" if written == "FUTURE" else written)

    def no_bound(self, parts: list[Token]) -> Duration:
        word, none = parts
        return Duration(UNBOUNDED_US, joined(span_of(word), span_of(none)), "FUTURE BOUND")

    def create_query(self, parts: list[Any]) -> CreateQuery:
        create, name, select, source, join, where, group_by, having, within, *row_clauses = parts
        on_overflow, intersect, order, into, using, basic_windows, evaluate = row_clauses
        return CreateQuery(
            name,
            source,
            select,
            where,
            group_by or (),
            having,
            within,
            span_of(create),
            join,
            intersect,
            order,
            into,
            using,
            on_overflow,
            basic_windows,
            evaluate,
        )

    def drop_query(self, parts: list[Any]) -> DropQuery:
        drop, name = parts
        return DropQuery(name, span_of(drop))

    # Clauses

    def select(self, parts: list[Item]) -> tuple[Item, ...]:
        return tuple(parts)

    def distinct_values(self, parts: list[Expression]) -> tuple[Item, ...]:
        (argument,) = parts
        check_expression(argument)
        return (Item(ex.RowCall(functions.DISTINCT, argument, span=argument.span), None),)

    def item(self, parts: list[Any]) -> Item:
        expression, alias = parts
        check_expression(expression)
        return Item(expression, alias)

    def where(self, parts: list[Expression]) -> Expression:
        check_expression(parts[0])
        return parts[0]

    having = where

    def group_by(self, parts: list[tuple[Name, ...]]) -> tuple[Name, ...]:
        return parts[0]

    def within(self, parts: list[Any]) -> float:
        (number, span), percent = parts
        value = read_decimal(number, span) / (100 if percent else 1)
        if not 0 < value < 1:
            hint = "a relative width, for instance WITHIN 0.05 or WITHIN 5 PERCENT"
            raise PlacedError(f"WITHIN must be above 0 and below 1, got {value:g}", span, hint)
        return value

    def on_overflow(self, parts: list[Token]) -> OnOverflow:
        word, choice = parts
        return OnOverflow(choice.upper() == "ERROR", joined(span_of(word), span_of(choice)))

    def source(self, parts: list[Any]) -> Source:
        return Source(*parts)

    def join(self, parts: list[Any]) -> Join:
        word, source, on = parts
        check_expression(on)
        return Join(source, on, span_of(word))

    def intersect(self, parts: list[Any]) -> Intersect:
        word, select, source, where, ranges = parts
        width, width_span = ranges or (None, span_of(word))
        return Intersect(select, source, where, width, width_span, span_of(word), word.upper())

    def ranges(self, parts: list[Any]) -> tuple[int | float, Span]:
        number, span = parts[0]
        digits = number.removeprefix("-")
        whole = digits.isdecimal()
        value = read_integer(digits, span) if whole else read_decimal(digits, span)
        if whole and value > INT64_MAX:
            raise integer_too_large(digits, span)
        return functions.range_width(-value if number.startswith("-") else value, span), span

    def order(self, parts: list[Any]) -> Order:
        word, by, direction, limit = parts
        return Order(by, direction is not None and direction.type == "DESC", limit, span_of(word))

    def limit(self, parts: list[tuple[int, Span]]) -> int:
        value, span = parts[0]
        if value <= 0:
            raise PlacedError(f"LIMIT must be positive, got {value}", span, "for instance LIMIT 100")
        return value

    def into(self, parts: list[Any]) -> Into:
        word, window = parts
        return Into(window, span_of(word))

    def using(self, parts: list[Any]) -> UsingClause:
        word, upper, lower = parts
        if isinstance(lower, Token):
            lower = Name(str(lower), span_of(lower))
        return UsingClause(upper, lower, span_of(word))

    def basic_windows(self, parts: list[Any]) -> Counted:
        return _counted(parts[1], "BASIC WINDOWS")

    def evaluate(self, parts: list[Any]) -> EvaluateClause:
        word, every, most, priority = parts
        return EvaluateClause(
            _counted(every, "EVERY"),
            most and _counted(most, "TO"),
            priority and _counted(priority, "PRIORITY"),
            span_of(word),
        )

    def names(self, parts: list[Name]) -> tuple[Name, ...]:
        return tuple(parts)

    def name(self, parts: list[Token]) -> Name:
        token = parts[0]
        return Name(_name(token), span_of(token))

    # Windows

    def range_window(self, parts: list[Any]) -> WindowClause:
        _, length, slide, offset, zone = parts
        return range_window(length, slide, offset, zone and (unquoted(zone), span_of(zone)))

    def cumulate(self, parts: list[Any]) -> WindowClause:
        return cumulate(*parts[1:])

    def unbounded(self, parts: list[Any]) -> WindowClause:
        _, slide, offset = parts
        return unbounded(slide, offset)

    def range_between(self, parts: list[Any]) -> WindowClause:
        return range_between(*parts[1:])

    def rows_window(self, parts: list[Any]) -> WindowClause:
        return rows_window(*parts[1:])

    def rows_between(self, parts: list[Any]) -> WindowClause:
        return rows_between(*parts[1:])

    def session_window(self, parts: list[Any]) -> WindowClause:
        word, gap, longest = parts
        return session_window(gap, longest, span_of(word))

    def punctuation_window(self, parts: list[Any]) -> WindowClause:
        word, opens, closes, longest = parts
        return punctuation_window(opens, closes, longest, span_of(word))

    def partition_window(self, parts: list[Any]) -> WindowClause:
        _, names, clause = parts
        return partition_window(names, clause)

    def duration(self, parts: list[Any]) -> Duration:
        (number, span), unit = parts
        unit_span = span_of(unit)
        whole = joined(span, unit_span)
        return Duration(read_duration(number, unit, whole, unit_span), whole)

    def count(self, parts: list[tuple[str, Span]]) -> tuple[int, Span]:
        number, span = parts[0]
        digits = number.removeprefix("-")
        if not digits.isdecimal():
            raise PlacedError(f"a number of rows must be whole, got {number}", span, "for instance ROWS 100")
        value = read_integer(digits, span)
        return (-value if number.startswith("-") else value), span

    def number(self, parts: list[Any]) -> tuple[str, Span]:
        minus, digits = parts
        if minus is None:
            return str(digits), span_of(digits)
        return f"-{digits}", joined(span_of(minus), span_of(digits))

    # Conditions

    def disjunction(self, parts: list[Expression]) -> Expression:
        left, right = parts
        return not_too_deep(ex.Logical("OR", left, right, span=joined(left.span, right.span)))

    def conjunction(self, parts: list[Expression]) -> Expression:
        left, right = parts
        return not_too_deep(ex.Logical("AND", left, right, span=joined(left.span, right.span)))

    def negation(self, parts: list[Any]) -> Expression:
        word, operand = parts
        return not_too_deep(ex.Not(operand, span=joined(span_of(word), operand.span)))

    def comparison(self, parts: list[Any]) -> Expression:
        left, operator, right = parts
        symbol = "<>" if operator == "!=" else str(operator)
        return ex.Comparison(symbol, left, right, span=joined(left.span, right.span))

    def between(self, parts: list[Any]) -> Expression:
        operand, negated, low, high = parts
        # The operand is written twice: without this check, nested BETWEENs would grow exponentially.
        if _holds_condition(operand):
            hint = "BETWEEN takes a number, a string or a timestamp; use AND and OR to combine conditions"
            raise PlacedError("the left side of BETWEEN is a condition", operand.span, hint)
        span = joined(operand.span, high.span)
        both = ex.Logical(
            "AND",
            ex.Comparison(">=", operand, low, span=span),
            ex.Comparison("<=", operand, high, span=span),
            span=span,
        )
        return ex.Not(both, span=span) if negated else both

    def in_list(self, parts: list[Any]) -> Expression:
        operand, negated, *items, right = parts
        return ex.InList(operand, tuple(items), negated is not None, span=joined(operand.span, span_of(right)))

    def like(self, parts: list[Any]) -> Expression:
        operand, negated, pattern = parts
        text = unquoted(pattern)
        if (len(text) - len(text.rstrip("\\"))) % 2:
            hint = r"a backslash escapes the next character; write \\ for a backslash"
            raise PlacedError("the pattern ends in a lone backslash", span_of(pattern), hint)
        return ex.Like(operand, text, negated is not None, span=joined(operand.span, span_of(pattern)))

    def is_null(self, parts: list[Any]) -> Expression:
        operand, negated, null = parts
        return ex.IsNull(operand, negated is not None, span=joined(operand.span, span_of(null)))

    # Values

    def arithmetic(self, parts: list[Any]) -> Expression:
        left, operator, right = parts
        return not_too_deep(ex.Arithmetic(str(operator), left, right, span=joined(left.span, right.span)))

    def negative(self, parts: list[Any]) -> Expression:
        minus, operand = parts
        span = joined(span_of(minus), operand.span)
        if isinstance(operand, ex.Literal) and operand.type in (Type.BIGINT, Type.DOUBLE):
            assert isinstance(operand.value, int | float)
            if operand.value == -INT64_MAX - 1 and operand.type is Type.BIGINT:
                raise integer_too_large(str(INT64_MAX + 1), span)
            return ex.Literal(-operand.value, operand.type, span=span)
        return not_too_deep(ex.Negate(operand, span=span))

    def literal(self, parts: list[Any]) -> ex.Literal:
        minus, constant = parts
        value = constant if minus is None else self.negative(parts)
        if not isinstance(value, ex.Literal):
            raise PlacedError("only a number can be negative", constant.span, "remove the minus sign")
        if value.value is None:
            hint = "x IN (..., NULL) is never false; write x IN (...) OR x IS NULL"
            raise PlacedError("an IN list cannot hold NULL", value.span, hint)
        check_expression(value)
        return value

    def integer(self, parts: list[Token]) -> ex.Literal:
        span = span_of(parts[0])
        return ex.Literal(read_integer(parts[0], span), Type.BIGINT, span=span)

    def decimal(self, parts: list[Token]) -> ex.Literal:
        span = span_of(parts[0])
        return ex.Literal(read_decimal(parts[0], span), Type.DOUBLE, span=span)

    def string(self, parts: list[Token]) -> ex.Literal:
        return ex.Literal(unquoted(parts[0]), Type.STRING, span=span_of(parts[0]))

    def timestamp(self, parts: list[Token]) -> ex.Literal:
        word, text = parts
        span = joined(span_of(word), span_of(text))
        return ex.Literal(read_timestamp(unquoted(text), span), Type.TIMESTAMP, span=span)

    def word(self, parts: list[Token]) -> ex.Literal:
        value, kind = _WORDS[parts[0].upper()]
        return ex.Literal(value, kind, span=span_of(parts[0]))

    def attribute(self, parts: list[Token]) -> ex.Attribute:
        return ex.Attribute(_name(parts[0]), span=span_of(parts[0]))

    def qualified(self, parts: list[Token]) -> ex.QualifiedAttribute:
        side, attribute = parts
        span = joined(span_of(side), span_of(attribute))
        return ex.QualifiedAttribute.of(_name(side), _name(attribute), span=span)

    # Calls

    def call(self, parts: list[Any]) -> Expression:
        name, arguments, right, condition, over = parts
        function = functions.find_function(name, span_of(name))
        span = joined(span_of(name), span_of(right))
        build: Any = functions.call
        values: Any = ([],)
        if arguments is not None:
            build, *values = arguments
        result: ex.AggregateCall | ex.RowCall | ex.ScalarCall = build(function, *values, span)
        if condition is not None:
            result = functions.filtered(result, *condition)
        return not_too_deep(result if over is None else functions.over(result, *over))

    def cast(self, parts: list[Any]) -> Expression:
        word, operand, kind, right = parts
        known = TYPES.get(kind.upper())
        if known is None:
            hint = TYPE_HINTS.get(kind.upper()) or hint_for(kind, TYPES, "")
            raise PlacedError(f"unknown type {shortened(kind)}", span_of(kind), hint)
        return not_too_deep(ex.Cast(operand, known, span=joined(span_of(word), span_of(right))))

    def extract(self, parts: list[Any]) -> Expression:
        word, field, time, right = parts
        span = joined(span_of(word), span_of(right))
        unit = ex.Literal(str(field), Type.STRING, span=span_of(field))
        return not_too_deep(functions.call("EXTRACT", [unit, time], span))

    def over(self, parts: list[Any]) -> tuple[WindowClause, Span]:
        clause, close = parts
        return clause, span_of(close)

    def slide(self, parts: list[Any]) -> WindowClause:
        return slide_alone(*parts)

    def filter(self, parts: list[Any]) -> tuple[Expression, Span]:
        condition, right = parts
        return condition, span_of(right)

    def when(self, parts: list[Expression]) -> tuple[Expression, Expression]:
        condition, value = parts
        return condition, value

    def case(self, parts: list[Any]) -> Expression:
        word, *whens, otherwise, end = parts
        conditions, values = zip(*whens, strict=True)
        return not_too_deep(ex.Case(conditions, values, otherwise, span=joined(span_of(word), span_of(end))))

    def all_rows(self, parts: list[Token]) -> tuple[Any, ...]:
        return (functions.call_all_rows,)

    def distinct(self, parts: list[Expression]) -> tuple[Any, ...]:
        return functions.call_distinct, parts[0]

    def plain(self, parts: list[Expression]) -> tuple[Any, ...]:
        return functions.call, parts

    def half_life(self, parts: list[Any]) -> tuple[Any, ...]:
        argument, duration = parts
        return functions.call_half_life, argument, duration.us


def _name(token: Token) -> str:
    """The name that a NAME or QUOTED token stands for."""
    if token.type == "NAME":
        return str(token)
    text = unquoted(token)
    if not text:
        raise PlacedError("a name cannot be empty", span_of(token), "write a name between the double quotes")
    return text


def _holds_condition(expression: Expression) -> bool:
    """Whether an expression holds a condition outside its aggregates."""
    return any(isinstance(node, _CONDITIONS) for node in walk(expression, into_aggregates=False))
