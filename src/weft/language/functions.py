"""Function calls: from the name and the arguments as written to a call of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from weft.aggregates.catalogue import CATALOGUE
from weft.language.expressions import AggregateCall, Expression, Literal, Span, walk
from weft.language.source import PlacedError, hint_for, shortened

# These are written COUNT(*) and COUNT(DISTINCT x), never by their own names.
COUNT_FORMS = frozenset({"COUNT_ALL", "COUNT_DISTINCT"})

SYNONYMS = {"MEAN": "AVG", "VARIANCE": "VAR_SAMP", "STDDEV": "STDDEV_SAMP"}

FUNCTIONS = {name: name for name in CATALOGUE if name not in COUNT_FORMS} | SYNONYMS


def find_function(name: str, span: Span) -> str:
    """The name in the catalogue of the function called `name`, whatever its case or synonym."""
    function = FUNCTIONS.get(name.upper())
    if function is None:
        raise PlacedError(f"unknown function {shortened(name)}", span, hint_for(name, FUNCTIONS, ""))
    return function


def call_all_rows(function: str, span: Span) -> AggregateCall:
    """`COUNT(*)`."""
    if function != "COUNT":
        raise PlacedError(f"{function}(*) has no meaning", span, f"only COUNT takes *; write {function}(attribute)")
    return AggregateCall("COUNT_ALL", span=span)


def call_distinct(function: str, argument: Expression, span: Span) -> AggregateCall:
    """`COUNT(DISTINCT e)`."""
    if function != "COUNT":
        raise PlacedError(f"DISTINCT cannot stand in {function}", span, "only COUNT(DISTINCT e) is known")
    return AggregateCall("COUNT_DISTINCT", _scalar(argument), span=span)


def call(function: str, arguments: Sequence[Expression], span: Span) -> AggregateCall:
    """A function of one argument, or QUANTILE of two."""
    if function == "QUANTILE":
        if len(arguments) != 2:
            raise _wrong_count(function, "two arguments", len(arguments), span, "QUANTILE(delay, 0.9)")
        return AggregateCall(function, _scalar(arguments[0]), _phi(arguments[1]), span=span)
    if len(arguments) != 1:
        star = " or COUNT(*)" if function == "COUNT" else ""
        raise _wrong_count(function, "one argument", len(arguments), span, f"{function}(attribute){star}")
    return AggregateCall(function, _scalar(arguments[0]), span=span)


def _wrong_count(function: str, wanted: str, got: int, span: Span, example: str) -> PlacedError:
    return PlacedError(f"{function} takes {wanted}, got {got}", span, f"write {example}")


def _scalar(argument: Expression) -> Expression:
    for node in walk(argument):
        if isinstance(node, AggregateCall):
            raise PlacedError(
                "an aggregate cannot stand inside another aggregate",
                node.span,
                "aggregate the attribute itself",
            )
    return argument


def _phi(argument: Expression) -> float:
    value = argument.value if isinstance(argument, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PlacedError(
            "the second argument of QUANTILE must be a number from 0 to 1",
            argument.span,
            "0.9 is the value that 9 in 10 do not exceed",
        )
    # Adding zero turns -0.0 into 0.0.
    return float(value) + 0.0
