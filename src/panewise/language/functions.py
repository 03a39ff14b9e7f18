"""Function calls: turns the name and the arguments as written into a call of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from panewise.aggregates.catalogue import CATALOGUE, Parameter, Partner
from panewise.aggregates.sketches import MOST_RANKS
from panewise.aggregates.types import Type
from panewise.language.expressions import (
    AggregateCall,
    Attribute,
    Case,
    Expression,
    Literal,
    Pair,
    RowCall,
    ScalarCall,
    Span,
    walk,
    with_children,
)
from panewise.language.scalars import SCALARS, SYNONYMS, scalar_call
from panewise.language.source import PlacedError, hint_for, joined, shortened
from panewise.language.statements import WindowClause
from panewise.windows import TimeWindow, is_unbounded

# The aggregate with forms of its own, COUNT(*) and COUNT(DISTINCT x), and what these are in the catalogue.
COUNT, COUNT_ALL, COUNT_DISTINCT = "COUNT", "COUNT_ALL", "COUNT_DISTINCT"

# Short for several aggregates: see `panewise.language.top_k`.
APPROX_TOP_K = "APPROX_TOP_K"

# Short for COUNT(*) FILTER (WHERE c).
COUNT_IF = "COUNT_IF"

MOST_KEPT = 10_000
"""The most values of a list: a partial keeps that many."""

EVERY_EVENT = Literal(True, Type.BOOLEAN)
"""What COUNT(*) FILTER (WHERE c) counts where c holds."""

_NO_AGGREGATE = "is no aggregate", "FILTER stands behind an aggregate: COUNT(*) FILTER (WHERE condition)"

DISTINCT = "DISTINCT"
"""The row call that SELECT DISTINCT stands for; it cannot be called by its name."""

# These give rows, not a value.
ROW_FUNCTIONS = frozenset({"HISTOGRAM", "TOP_K"})


def functions() -> dict[str, str]:
    """The aggregates that are called by a name, by their names and synonyms."""
    called = (entry for entry in CATALOGUE.values() if entry.written is None)
    names = {name: entry.name for entry in called for name in (entry.name, *entry.synonyms)}
    return names | {APPROX_TOP_K: APPROX_TOP_K, COUNT_IF: COUNT_IF}


def find_function(name: str, span: Span) -> str:
    """The name in the catalogue of the function called `name`, in any case or by a synonym."""
    if name.upper() in ROW_FUNCTIONS:
        return name.upper()
    entry = CATALOGUE.get(name.upper())
    if entry is not None and entry.written is None:
        return entry.name
    known = functions()
    scalar = SYNONYMS.get(name.upper(), name.upper())
    function = known.get(name.upper()) or (scalar if scalar in SCALARS else None)
    if function is None:
        every = [*known, *ROW_FUNCTIONS, *SCALARS]
        raise PlacedError(f"unknown function {shortened(name)}", span, hint_for(name, every, ""))
    return function


def call_all_rows(function: str, span: Span) -> AggregateCall:
    """`COUNT(*)`."""
    if function != COUNT:
        raise PlacedError(f"{function}(*) has no meaning", span, f"only COUNT takes *; write {function}(attribute)")
    return AggregateCall(COUNT_ALL, span=span)


def call_distinct(function: str, argument: Expression, span: Span) -> AggregateCall:
    """`COUNT(DISTINCT e)`."""
    if function != COUNT:
        raise PlacedError(f"{function} cannot take DISTINCT", span, "only COUNT(DISTINCT e) is known")
    return AggregateCall(COUNT_DISTINCT, _scalar(argument), span=span)


def call(function: str, arguments: Sequence[Expression], span: Span) -> AggregateCall | RowCall | ScalarCall:
    """An aggregate of one argument, or of two with phi or a rank; other functions have rules of their own."""
    if function in SCALARS:
        return scalar_call(function, arguments, span)
    if function == COUNT_IF:
        if len(arguments) != 1:
            raise _wrong_count(function, "one argument", len(arguments), span, "COUNT_IF(delay > 15)")
        return AggregateCall(COUNT, Case((_scalar(arguments[0]),), (EVERY_EVENT,), span=span), span=span)
    if function in ROW_FUNCTIONS:
        return _row_call(function, arguments, span)
    takes = Parameter.RANK if function == APPROX_TOP_K else CATALOGUE[function].parameter
    if takes in _SECOND:
        read, example = _SECOND[takes]
        if len(arguments) != 2:
            raise _wrong_count(function, "two arguments", len(arguments), span, f"{function}(delay, {example})")
        return AggregateCall(function, _scalar(arguments[0]), read(function, arguments[1]), span=span)
    if takes is Parameter.HALF_LIFE:
        hint = f"write {function}(delay, HALF LIFE 10 MINUTES)"
        raise PlacedError(f"{function} takes a value and a half life", span, hint)
    if CATALOGUE[function].partner is Partner.ARGUMENT:
        if len(arguments) != 2:
            raise _wrong_count(function, "two arguments", len(arguments), span, f"{function}(delay, distance)")
        value, partner = (_scalar(argument) for argument in arguments)
        return AggregateCall(function, Pair(value, partner, span=joined(value.span, partner.span)), span=span)
    if len(arguments) != 1:
        star = " or COUNT(*)" if function == COUNT else ""
        raise _wrong_count(function, "one argument", len(arguments), span, f"{function}(attribute){star}")
    return AggregateCall(function, _scalar(arguments[0]), span=span)


def call_half_life(function: str, argument: Expression, half_life_us: int, span: Span) -> AggregateCall:
    """`EWM_AVG(x, HALF LIFE 10 MINUTES)`."""
    entry = CATALOGUE.get(function)
    if entry is None or entry.parameter is not Parameter.HALF_LIFE:
        decaying = [one.name for one in CATALOGUE.values() if one.parameter is Parameter.HALF_LIFE]
        raise PlacedError(f"{function} has no half life", span, f"{' and '.join(decaying)} have one")
    if half_life_us <= 0:
        raise PlacedError("a half life must be positive", span, "write HALF LIFE 10 MINUTES")
    return AggregateCall(function, _scalar(argument), half_life_us, span=span)


def with_partners(node: Expression, time: Attribute) -> Expression:
    """An expression whose aggregates of values at times have the event time as the partner of each value."""
    if not isinstance(node, AggregateCall):
        return with_children(node, lambda child: with_partners(child, time))
    partner = CATALOGUE[node.function].partner if node.function in CATALOGUE else None
    if partner in (None, Partner.ARGUMENT) or node.argument is None or isinstance(node.argument, Pair):
        return node
    takes, given = CATALOGUE[node.function].parameter, node.parameter or 0
    half_life_us = float(given) if takes is Parameter.HALF_LIFE else 0.0
    most = int(given) if takes is Parameter.MOST else 1
    beside = replace(time, span=node.span)
    return replace(node, argument=Pair(node.argument, beside, half_life_us, most, span=node.argument.span))


def filtered(call: AggregateCall | RowCall | ScalarCall, condition: Expression, end: Span) -> AggregateCall:
    """`AGG(x) FILTER (WHERE c)`: the aggregate of x where c holds, and of NULL elsewhere."""
    if not isinstance(call, AggregateCall):
        what, hint = ("gives rows", "put the condition into WHERE") if isinstance(call, RowCall) else _NO_AGGREGATE
        raise PlacedError(f"{call.function} {what}, and cannot take FILTER", call.span, hint)
    for node in walk(condition):
        if isinstance(node, AggregateCall | RowCall):
            hint = "FILTER sees single events; put conditions on aggregates into HAVING"
            raise PlacedError("FILTER cannot use an aggregate", node.span, hint)
    span = joined(call.span, end)
    if call.argument is None:
        return AggregateCall(COUNT, Case((condition,), (EVERY_EVENT,), span=span), span=span)
    if isinstance(call.argument, Pair):
        value = Case((condition,), (call.argument.operand,), span=span)
        return replace(call, argument=replace(call.argument, operand=value), span=span)
    return replace(call, argument=Case((condition,), (call.argument,), span=span), span=span)


def over(call: AggregateCall | RowCall | ScalarCall, clause: WindowClause, end: Span) -> AggregateCall:
    """`AGG(x) OVER [RANGE r]`: the aggregate over a window of its own."""
    if not isinstance(call, AggregateCall):
        what = "gives rows" if isinstance(call, RowCall) else "is no aggregate"
        hint = "OVER stands behind an aggregate: SUM(x) OVER [RANGE 1 HOUR]"
        raise PlacedError(f"{call.function} {what}, and cannot take OVER", call.span, hint)
    window, span = clause.window, joined(call.span, end)
    if is_unbounded(window):
        hint = "put it into a query of its own: FROM s [UNBOUNDED SLIDE 5 MINUTES]; both report at the same times"
        raise PlacedError("OVER takes a RANGE, and not what goes back to the start", span, hint)
    if not isinstance(window, TimeWindow) or window.is_sliding or window.right_us:
        hint = "write OVER [RANGE 1 HOUR], and the slide once, behind the stream: FROM s SLIDE 5 MINUTES"
        raise PlacedError("OVER takes a plain range of time", span, hint)
    return replace(call, over=window, span=span)


def _row_call(function: str, arguments: Sequence[Expression], span: Span) -> RowCall:
    if function == "TOP_K":
        if len(arguments) != 2:
            raise _wrong_count(function, "two arguments", len(arguments), span, "TOP_K(symbol, 10)")
        return RowCall(function, _scalar(arguments[0]), _k(arguments[1]), span=span)
    if not arguments:
        raise _wrong_count(function, "one argument or more", len(arguments), span, "HISTOGRAM(price, 10)")
    width: int | float | tuple[int | float, ...] | None = None
    if len(arguments) == 2:
        width = range_width(_number(arguments[1]), arguments[1].span)
    elif len(arguments) > 2:
        width = _bounds(arguments[1:])
    return RowCall(function, _scalar(arguments[0]), width, span=span)


def _bounds(arguments: Sequence[Expression]) -> tuple[int | float, ...]:
    """The bounds between value ranges."""
    hint = "several numbers are the bounds between ranges, as in HISTOGRAM(x, 0, 10, 100)"
    found: list[int | float] = []
    for argument in arguments:
        bound = _number(argument)
        if bound is None:
            raise PlacedError("a bound of value ranges must be a number", argument.span, hint)
        if found and bound <= found[-1]:
            raise PlacedError("the bounds of value ranges must ascend", argument.span, hint)
        found.append(bound)
    return tuple(found)


def range_width(value: float | None, span: Span) -> int | float:
    """The width of value ranges."""
    if value is None or not value > 0:
        raise PlacedError("the width of value ranges must be a positive number", span, "for instance HISTOGRAM(x, 10)")
    return value


def _number(argument: Expression) -> int | float | None:
    value = argument.value if isinstance(argument, Literal) else None
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def _k(argument: Expression) -> int:
    return _counted("TOP_K", argument, None, "TOP_K(symbol, 10) gives the ten most frequent values")


def _rank(function: str, argument: Expression) -> int:
    hint = "1 is the most frequent value; the row query TOP_K(delay, 500) gives as many as you like"
    return _counted(function, argument, MOST_RANKS, hint)


def _most(function: str, argument: Expression) -> int:
    hint = f"{function}(delay, 10) is a list of at most ten values; ORDER BY gives the rows of a window, however many"
    return _counted(function, argument, MOST_KEPT, hint)


def _counted(function: str, argument: Expression, most: int | None, hint: str) -> int:
    """A second argument that is a whole number from 1 on."""
    value = _number(argument)
    if not isinstance(value, int) or value < 1 or (most is not None and value > most):
        up_to = "on" if most is None else f"to {most}"
        message = f"the second argument of {function} must be a whole number from 1 {up_to}"
        raise PlacedError(message, argument.span, hint)
    return value


def _wrong_count(function: str, wanted: str, got: int, span: Span, example: str) -> PlacedError:
    return PlacedError(f"{function} takes {wanted}, got {got}", span, f"write {example}")


def _scalar(argument: Expression) -> Expression:
    for node in walk(argument):
        if isinstance(node, AggregateCall | RowCall):
            raise PlacedError(
                "an aggregate cannot be inside another aggregate",
                node.span,
                "aggregate the attribute itself",
            )
    return argument


def _phi(function: str, argument: Expression) -> float:
    value = argument.value if isinstance(argument, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PlacedError(
            f"the second argument of {function} must be a number from 0 to 1",
            argument.span,
            "0.9 is the value that 9 in 10 do not exceed",
        )
    # Adding zero turns -0.0 into 0.0.
    return float(value) + 0.0


_SECOND: dict[Parameter | None, tuple[Callable[[str, Expression], float], str]] = {
    Parameter.PHI: (_phi, "0.9"),
    Parameter.RANK: (_rank, "3"),
    Parameter.MOST: (_most, "10"),
}
"""What reads a second argument, and an example of it."""
