"""Scalar functions as native Spark columns: the twin of `panewise.language.scalar_values`.

They do not depend on the session: neither on its time zone nor on whether it refuses what does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from panewise.aggregates.types import Type
from panewise.language.scalars import FIXED_UNITS_US, NUMBER_TEXT, WHOLE_TEXT

_DAY_US = FIXED_UNITS_US["DAY"]
_INT64_MIN = -(2**63)
_FIELDS = {
    "DAY": F.dayofmonth,
    "DAYOFWEEK": F.dayofweek,
    "DOY": F.dayofyear,
    "WEEK": F.weekofyear,
    "MONTH": F.month,
    "QUARTER": F.quarter,
    "YEAR": F.year,
}


def call_scalar(function: str, kind: Type, arguments: Sequence[Column], constants: Sequence[object]) -> Column:
    """A function of columns in the types that it takes.

    `kind` is that of the first argument that is no constant, and `constants` has the value of each one that is.
    """
    first = arguments[0]
    match function:
        case "COALESCE":
            return F.coalesce(*arguments)
        case "NULLIF":
            return F.nullif(*arguments)
        case "LEAST":
            return F.least(*arguments)
        case "GREATEST":
            return F.greatest(*arguments)
        case "CONCAT":
            return F.concat(*arguments)
        case "LENGTH":
            return F.length(first).cast("bigint")
        case "LOWER":
            return F.lower(first)
        case "UPPER":
            return F.upper(first)
        case "SUBSTRING":
            return F.substring(first, _int(constants[1]), _int(constants[2]) if len(constants) == 3 else 2**31 - 1)
        case "EXTRACT":
            return _extract(str(constants[0]), arguments[1])
        case "DATE_TRUNC":
            return _truncated(str(constants[0]), arguments[1])
        case "POWER":
            return F.pow(*arguments)
        case "SQRT":
            return F.sqrt(first)
        case "EXP":
            return F.exp(first)
        case "LN":
            return F.ln(first)
        case "ABS":
            return F.abs(first) if kind is Type.DOUBLE else F.when(first != F.lit(_INT64_MIN), F.abs(first))
    if kind is not Type.DOUBLE:
        return first
    if function == "ROUND":
        return F.round(first, _int(constants[1]) if len(constants) == 2 else 0)
    # Some versions of Spark refuse what does not fit, others give the nearest that does.
    return F.when(_fits(first), F.floor(first) if function == "FLOOR" else F.ceil(first))


def _fits(doubles: Column) -> Column:
    """Whether doubles lie within the whole numbers of 64 bits."""
    return (doubles >= F.lit(-(2.0**63))) & (doubles < F.lit(2.0**63))


def cast_to(kind: Type, source: Type, column: Column) -> Column:
    """A column in another type; NULL where that has no such value."""
    match source, kind:
        case Type.TIMESTAMP, Type.BIGINT:
            return _whole(column, FIXED_UNITS_US["SECOND"])
        case Type.TIMESTAMP, _:
            return column.cast("double") / F.lit(1e6)
        case Type.DOUBLE, Type.BIGINT:
            return F.when(_fits(column), column.try_cast("bigint"))
        case Type.STRING, Type.BIGINT:
            return F.when(column.rlike(_all_of(WHOLE_TEXT)), column.try_cast("bigint"))
        case Type.STRING, _:
            return F.when(column.rlike(_all_of(NUMBER_TEXT)), column.try_cast("double"))
    return column.try_cast({Type.BIGINT: "bigint", Type.DOUBLE: "double", Type.BOOLEAN: "boolean"}.get(kind, "string"))


def _all_of(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _whole(us: Column, unit_us: int) -> Column:
    """How many whole units a time is behind the epoch, exactly: multiples of a second below 2**59 are doubles."""
    return ((us - F.pmod(us, F.lit(unit_us))) / F.lit(unit_us)).cast("bigint")


def _date(us: Column) -> Column:
    return F.date_from_unix_date(_whole(us, _DAY_US).cast("int"))


def _extract(field: str, us: Column) -> Column:
    match field:
        case "SECOND":
            return F.pmod(us, F.lit(FIXED_UNITS_US["MINUTE"])).cast("double") / F.lit(1e6)
        case "MINUTE" | "HOUR":
            count = 60 if field == "MINUTE" else 24
            return F.pmod(_whole(us, FIXED_UNITS_US[field]), F.lit(count)).cast("bigint")
    return _FIELDS[field](_date(us)).cast("bigint")


def _truncated(unit: str, us: Column) -> Column:
    if unit in FIXED_UNITS_US:
        return us - F.pmod(us, F.lit(FIXED_UNITS_US[unit]))
    return F.unix_date(F.trunc(_date(us), unit)).cast("bigint") * F.lit(_DAY_US)
