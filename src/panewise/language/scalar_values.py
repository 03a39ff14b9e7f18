"""Scalar functions over Arrow arrays, with what Spark gives for NULL, NaN, infinities and numbers that do not fit.

Whole numbers that do not fit are NULL. Times are UTC microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.arrays import Floats
from panewise.language.scalars import FIXED_UNITS_US, NUMBER_TEXT, WHOLE_TEXT

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_WHOLE, _NUMBER = re.compile(WHOLE_TEXT), re.compile(NUMBER_TEXT)
_ROUNDING = Context(prec=400, rounding=ROUND_HALF_UP)
_FIELDS = {
    "MINUTE": "minute",
    "HOUR": "hour",
    "DAY": "day",
    "DOY": "day_of_year",
    "WEEK": "iso_week",
    "MONTH": "month",
    "QUARTER": "quarter",
    "YEAR": "year",
}


def call_scalar(function: str, arguments: Sequence[Any], equals: Callable[[Any, Any], Any], below: Any) -> Any:
    """A function of arrays of one length, already in the types that it takes; `equals` and `below` compare as Spark."""
    match function:
        case "COALESCE":
            return pc.call_function("coalesce", list(arguments))
        case "NULLIF":
            first, second = arguments
            return _chosen(equals(first, second), pa.scalar(None, first.type), first)
        case "LEAST":
            return reduce(lambda one, other: _nearer(one, other, below(other, one)), arguments)
        case "GREATEST":
            return reduce(lambda one, other: _nearer(one, other, below(one, other)), arguments)
        case "CONCAT":
            return pc.call_function("binary_join_element_wise", [*arguments, pa.scalar("")])
        case "LENGTH":
            return pc.cast(pc.call_function("utf8_length", list(arguments)), pa.int64())
        case "LOWER":
            return _by_value(arguments[0], str.lower, pa.string())
        case "UPPER":
            return _by_value(arguments[0], str.upper, pa.string())
        case "SUBSTRING":
            start, *length = (argument[0].as_py() for argument in arguments[1:])
            return _by_value(arguments[0], lambda text: _substring(text, start, *length), pa.string())
        case "EXTRACT":
            return _extract(arguments[0][0].as_py(), arguments[1])
        case "DATE_TRUNC":
            return _truncated(arguments[0][0].as_py(), arguments[1])
        case "POWER":
            return _numpy(_power, *arguments)
        case "SQRT":
            return _numpy(np.sqrt, *arguments)
        case "EXP":
            return _numpy(np.exp, *arguments)
        case "LN":
            logarithms = _numpy(np.log, *arguments)
            is_low = pc.call_function("less_equal", [arguments[0], pa.scalar(0.0)])
            return _chosen(is_low, pa.scalar(None, pa.float64()), logarithms)
        case "ABS":
            return _absolute(arguments[0])
    number = arguments[0]
    if number.type == pa.int64():
        return number
    if function == "ROUND":
        digits = arguments[1][0].as_py() if len(arguments) == 2 else 0
        return _numpy(_rounded, number) if digits == 0 else _rounded_to(number, digits)
    return _whole_doubles(np.floor if function == "FLOOR" else np.ceil, number)


def cast_to(kind: Type, source: Type, values: Any) -> Any:
    """An array in another type; NULL where that has no such value."""
    match source, kind:
        case Type.TIMESTAMP, Type.BIGINT:
            return _numpy(lambda times: times // FIXED_UNITS_US["SECOND"], values)
        case Type.TIMESTAMP, _:
            return _numpy(lambda times: times / 1e6, values)
        case Type.DOUBLE, Type.BIGINT:
            return _whole_doubles(np.trunc, values)
        case Type.STRING, Type.BIGINT:
            return _by_value(values, _whole, pa.int64())
        case Type.STRING, Type.DOUBLE:
            return _by_value(values, lambda text: float(text) if _NUMBER.fullmatch(text) else None, pa.float64())
        case _, Type.BOOLEAN:
            return _numpy(lambda numbers: numbers != 0, values)
        case Type.BOOLEAN, Type.DOUBLE:
            return pc.cast(pc.cast(values, pa.int64()), pa.float64())
        case _, Type.DOUBLE:
            return pc.cast(values, pa.float64(), safe=False)
        case _, Type.STRING:
            return pc.cast(values, pa.string())
        case _:
            return pc.cast(values, pa.int64())


def _chosen(condition: Any, one: Any, other: Any) -> Any:
    is_true = pc.call_function("coalesce", [condition, pa.scalar(False)])
    return pc.call_function("if_else", [is_true, one, other])


def _nearer(one: Any, other: Any, is_better: Any) -> Any:
    """The other value where it is better, or where it is the only one."""
    is_first = pc.call_function("is_null", [one])
    better = pc.call_function("coalesce", [is_better, pa.scalar(False)])
    return pc.call_function("if_else", [pc.call_function("or", [is_first, better]), other, one])


def _numpy(function: Callable[..., Any], *columns: Any) -> Any:
    """A NumPy function of columns, NULL where one of them is."""
    valid = reduce(np.logical_and, (np.asarray(column.is_valid()) for column in columns))
    zeros = (column.fill_null(False if column.type == pa.bool_() else 0) for column in columns)
    with np.errstate(all="ignore"):
        found = function(*(column.to_numpy(zero_copy_only=False) for column in zeros))
    return pa.array(found, mask=None if valid.all() else ~valid)


def _whole_doubles(function: Callable[[Floats], Floats], values: Any) -> Any:
    """Doubles made whole, as BIGINT; NULL where they do not fit."""
    fits = _numpy(lambda doubles: (doubles >= -(2.0**63)) & (doubles < 2.0**63), values)
    return _chosen(
        fits, _numpy(lambda doubles: function(doubles).astype(np.int64), values), pa.scalar(None, pa.int64())
    )


def _by_value(column: Any, function: Callable[[str], Any], kind: pa.DataType) -> Any:
    """A Python function of each different string."""
    encoded = column.dictionary_encode()
    found = pa.array([function(text) for text in encoded.dictionary.to_pylist()], kind)
    return found.take(encoded.indices)


def _absolute(number: Any) -> Any:
    found = pc.call_function("abs", [number])
    if number.type != pa.int64():
        return found
    return _chosen(pc.call_function("equal", [number, pa.scalar(INT64_MIN)]), pa.scalar(None, pa.int64()), found)


def _power(bases: Floats, exponents: Floats) -> Floats:
    """As Java: 1 to the power of NaN is NaN, and so is 1 or -1 to an infinite power."""
    found = np.power(bases, exponents)
    odd = np.isnan(exponents) | ((np.abs(bases) == 1) & np.isinf(exponents))
    return np.where(odd, np.nan, found)


def _rounded(values: Floats) -> Floats:
    """To whole numbers, halves away from zero; a zero has no sign."""
    sizes = np.abs(values)
    below = np.floor(sizes)
    rounded: Floats = np.copysign(below + (sizes - below >= 0.5), values) + 0.0
    return rounded


def _rounded_to(number: Any, digits: int) -> Any:
    """To digits of the decimal number that is printed, as Spark does."""
    step = Decimal(1).scaleb(-digits)

    def rounded(value: float) -> float:
        return float(Decimal(repr(value)).quantize(step, context=_ROUNDING)) + 0.0 if np.isfinite(value) else value

    return pa.array([None if value is None else rounded(value) for value in number.to_pylist()], pa.float64())


def _substring(text: str, start: int, length: int | None = None) -> str:
    """From a position counted from 1, or from the end if it is negative; a length counts from before the beginning."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def _whole(text: str) -> int | None:
    if not _WHOLE.fullmatch(text):
        return None
    value = int(text) if len(text) < 4000 else INT64_MAX + 1
    return value if INT64_MIN <= value <= INT64_MAX else None


def _extract(field: str, times: Any) -> Any:
    if field == "SECOND":
        return _numpy(lambda us: (us % FIXED_UNITS_US["MINUTE"]) / 1e6, times)
    instants = times.view(pa.timestamp("us"))
    if field == "DAYOFWEEK":
        options = pc.DayOfWeekOptions(count_from_zero=False, week_start=7)
        return pc.cast(pc.call_function("day_of_week", [instants], options), pa.int64())
    return pc.cast(pc.call_function(_FIELDS[field], [instants]), pa.int64())


def _truncated(unit: str, times: Any) -> Any:
    if unit in FIXED_UNITS_US:
        return _numpy(lambda us: us - us % FIXED_UNITS_US[unit], times)
    return _numpy(lambda us: _first_days(unit, us // FIXED_UNITS_US["DAY"]) * FIXED_UNITS_US["DAY"], times)


def _first_days(unit: str, days: Any) -> Any:
    """The first day of each day's week, month, quarter or year."""
    if unit == "WEEK":
        return days - (days + 3) % 7
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    months -= months % {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)
