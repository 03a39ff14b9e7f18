"""Scalar functions: their names, how many arguments they take, and their types.

`panewise.language.scalar_values` computes them over Arrow arrays, `panewise.spark.scalar_columns` as Spark's columns.
Both give what Spark's own functions of these names give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from panewise.aggregates.types import Type
from panewise.language import words
from panewise.language.expressions import Expression, Literal, ScalarCall, Span
from panewise.language.source import PlacedError, hint_for, shortened

MOST_DIGITS = 15
"""ROUND keeps at most this many digits behind the point: a DOUBLE has no more."""


class Taking(Enum):
    """What the arguments of a function are."""

    ALIKE = "values of one type"
    NUMBERS = "numbers"
    STRINGS = "strings"
    TIME = "the name of a unit, and a time"


@dataclass(frozen=True)
class Scalar:
    """A scalar function; `result` is None where the answer has the type of the arguments."""

    fewest: int
    most: int | None
    takes: Taking
    example: str
    result: Type | None = None


SCALARS: Mapping[str, Scalar] = {
    "COALESCE": Scalar(2, None, Taking.ALIKE, "COALESCE(delay, 0)"),
    "NULLIF": Scalar(2, 2, Taking.ALIKE, "NULLIF(seats, 0)"),
    "LEAST": Scalar(2, None, Taking.ALIKE, "LEAST(delay, 60)"),
    "GREATEST": Scalar(2, None, Taking.ALIKE, "GREATEST(delay, 0)"),
    "ABS": Scalar(1, 1, Taking.NUMBERS, "ABS(delay)"),
    "ROUND": Scalar(1, 2, Taking.NUMBERS, "ROUND(delay, 2)"),
    "FLOOR": Scalar(1, 1, Taking.NUMBERS, "FLOOR(delay)", Type.BIGINT),
    "CEIL": Scalar(1, 1, Taking.NUMBERS, "CEIL(delay)", Type.BIGINT),
    "SQRT": Scalar(1, 1, Taking.NUMBERS, "SQRT(delay)", Type.DOUBLE),
    "LN": Scalar(1, 1, Taking.NUMBERS, "LN(delay)", Type.DOUBLE),
    "EXP": Scalar(1, 1, Taking.NUMBERS, "EXP(delay)", Type.DOUBLE),
    "POWER": Scalar(2, 2, Taking.NUMBERS, "POWER(delay, 2)", Type.DOUBLE),
    "LENGTH": Scalar(1, 1, Taking.STRINGS, "LENGTH(origin)", Type.BIGINT),
    "LOWER": Scalar(1, 1, Taking.STRINGS, "LOWER(origin)", Type.STRING),
    "UPPER": Scalar(1, 1, Taking.STRINGS, "UPPER(origin)", Type.STRING),
    "SUBSTRING": Scalar(2, 3, Taking.STRINGS, "SUBSTRING(origin, 1, 3)", Type.STRING),
    "CONCAT": Scalar(2, None, Taking.STRINGS, "CONCAT(origin, carrier)", Type.STRING),
    "EXTRACT": Scalar(2, 2, Taking.TIME, "EXTRACT(HOUR FROM dep)", Type.BIGINT),
    "DATE_TRUNC": Scalar(2, 2, Taking.TIME, "DATE_TRUNC('HOUR', dep)", Type.TIMESTAMP),
}
SYNONYMS = {"CEILING": "CEIL", "POW": "POWER", "SUBSTR": "SUBSTRING"}

# A week counts from its Monday, not from the epoch.
FIXED_UNITS_US = {unit: us for unit, us in words.UNITS.items() if unit != "WEEK"}
UNITS = (*FIXED_UNITS_US, "WEEK", "MONTH", "QUARTER", "YEAR")
"""What DATE_TRUNC takes."""
FIELDS = ("SECOND", "MINUTE", "HOUR", "DAY", "DAYOFWEEK", "DOY", "WEEK", "MONTH", "QUARTER", "YEAR")
"""What EXTRACT takes."""

CASTS: Mapping[Type, frozenset[Type]] = {
    Type.BIGINT: frozenset({Type.DOUBLE, Type.STRING, Type.BOOLEAN, Type.TIMESTAMP}),
    Type.DOUBLE: frozenset({Type.BIGINT, Type.STRING, Type.BOOLEAN, Type.TIMESTAMP}),
    Type.STRING: frozenset({Type.BIGINT, Type.BOOLEAN}),
    Type.BOOLEAN: frozenset({Type.BIGINT, Type.DOUBLE}),
    Type.TIMESTAMP: frozenset(),
}
"""From which other types CAST goes to a type."""
WHOLE_TEXT = r"[ \t\r\n]*[+-]?[0-9]+[ \t\r\n]*"
NUMBER_TEXT = r"[ \t\r\n]*(?:[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t\r\n]*"
"""Texts that CAST reads as a BIGINT, and as a DOUBLE; any other is NULL."""


def scalar_call(function: str, arguments: Sequence[Expression], span: Span) -> ScalarCall:
    """A call with the right number of arguments, and constants where they must be."""
    entry = SCALARS[function]
    count = len(arguments)
    if count < entry.fewest or (entry.most is not None and count > entry.most):
        wanted = str(entry.fewest) if entry.most == entry.fewest else f"{entry.fewest} to {entry.most or 'many'}"
        message = f"{function} takes {wanted} argument{'s' if wanted != '1' else ''}, got {count}"
        raise PlacedError(message, span, f"write {entry.example}")
    given = list(arguments)
    if entry.takes is Taking.TIME:
        given[0] = _unit(function, given[0])
    if function == "ROUND" and count == 2:
        _whole(function, given[1], 0, MOST_DIGITS)
    if function == "SUBSTRING":
        _whole(function, given[1], -(2**31), 2**31 - 1)
        if count == 3:
            _whole(function, given[2], 0, 2**31 - 1)
    return ScalarCall(function, tuple(given), span=span)


def _unit(function: str, argument: Expression) -> Literal:
    known = FIELDS if function == "EXTRACT" else UNITS
    value = argument.value if isinstance(argument, Literal) else None
    if not isinstance(value, str) or value.upper() not in known:
        given = shortened(value) if isinstance(value, str) else "an expression"
        hint = hint_for(value.upper() if isinstance(value, str) else "", known, "")
        raise PlacedError(f"{function} takes the name of a unit, got {given}", argument.span, hint)
    return Literal(value.upper(), Type.STRING, span=argument.span)


def _whole(function: str, argument: Expression, low: int, high: int) -> None:
    value = argument.value if isinstance(argument, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        message = f"this argument of {function} must be a whole number from {low} to {high}"
        raise PlacedError(message, argument.span, f"write {SCALARS[function].example}")
