"""Constants: turns the text of numbers, strings, timestamps and durations into values, and values back into text.

Each reader takes the text and its span, and raises `PlacedError` if the text has no value.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

from panewise.language.expressions import Span
from panewise.language.foreign_words import unit_hint
from panewise.language.source import PlacedError, nearest, shortened
from panewise.language.words import UNITS
from panewise.windows.clock import FIRST_US, LAST_US

INT64_MAX = 2**63 - 1
# 36,000 years: adding a few durations to a timestamp still fits an int64.
LONGEST_DURATION_US = 2**60
MOST_ROWS = 2**60

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?\s*(Z|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.IGNORECASE | re.ASCII,
)
_TIMESTAMP_HINT = "write it as TIMESTAMP '2013-01-31 05:00:00', with an optional fraction and Z or +hh:mm"
_DURATION_HINT = "units are MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS and WEEKS"


def read_integer(text: str, span: Span) -> int:
    """An integer up to 2**63; 2**63 itself fits an int64 only with a minus sign in front."""
    digits = text.lstrip("0") or "0"
    value = int(digits) if len(digits) <= 19 else INT64_MAX + 2
    if value > INT64_MAX + 1:
        raise integer_too_large(text, span)
    return value


def integer_too_large(text: str, span: Span) -> PlacedError:
    """The error for an integer that does not fit an int64."""
    hint = f"integers go from {-INT64_MAX - 1} to {INT64_MAX}; write a DOUBLE with a decimal point"
    return PlacedError(f"the integer {shortened(text)} is out of range", span, hint)


def read_decimal(text: str, span: Span) -> float:
    """A number with a decimal point or an exponent."""
    value = float(text)
    if math.isinf(value):
        raise PlacedError(f"the number {shortened(text)} is out of range", span, "the largest DOUBLE is near 1.8e308")
    return value


def read_timestamp(text: str, span: Span) -> int:
    """Microseconds since the epoch; a timestamp without a zone is UTC."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise PlacedError(f"{shortened(text)} is not a timestamp", span, _TIMESTAMP_HINT)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    microsecond = int((match[7] or "").ljust(6, "0"))
    try:
        moment = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=_zone(match[8]))
    except ValueError as error:
        raise PlacedError(f"{shortened(text)} is not a timestamp: {error}", span, _TIMESTAMP_HINT) from None
    value = (moment - _EPOCH) // _MICROSECOND
    if not FIRST_US <= value <= LAST_US:
        raise PlacedError(f"{shortened(text)} is outside the years 1 to 9999 in UTC", span, _TIMESTAMP_HINT)
    return value


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-offset if text[0] == "-" else offset)


def print_timestamp(value: int) -> str:
    """The text between the quotes of a timestamp, in UTC.

    >>> print_timestamp(1_356_998_400_000_000)
    '2013-01-01 00:00:00'
    """
    if not FIRST_US <= value <= LAST_US:
        raise ValueError(f"the timestamp {value} us is outside the years 1 to 9999")
    return (_EPOCH + value * _MICROSECOND).replace(tzinfo=None).isoformat(sep=" ")


def read_duration(number: str, unit: str, span: Span, unit_span: Span) -> int:
    """Microseconds; negative ones too, so that the caller can refuse them with the right words."""
    singular = unit.upper()
    if singular not in UNITS:
        singular = singular.removesuffix("S")
    if singular not in UNITS:
        plurals = [f"{known}S" for known in UNITS]
        close = nearest(unit, [*UNITS, *plurals])
        hint = unit_hint(number, unit) or (f"did you mean {close}?" if close else _DURATION_HINT)
        raise PlacedError(f"unknown unit of time {shortened(unit)}", unit_span, hint)
    written = f"{shortened(number)[1:-1]} {unit}"
    us = _exact_us(number, UNITS[singular])
    if us is None or abs(us) > LONGEST_DURATION_US:
        raise PlacedError(f"the duration {written} is too long", span, "at most 2**60 microseconds")
    if us.denominator != 1:
        raise PlacedError(f"{written} is not a whole number of microseconds", span, "time is counted in microseconds")
    return int(us)


def _exact_us(number: str, unit_us: int) -> Fraction | None:
    """The number of microseconds, exactly; None when there are far too many of them."""
    # The exponent is looked at first: the Fraction of 1e999999999 would fill the memory.
    try:
        value = Decimal(number)
    except ArithmeticError:
        return None
    if not value or value.adjusted() < -20:
        return Fraction(1, 2) if value else Fraction(0)
    return None if value.adjusted() > 20 else Fraction(value) * unit_us


def print_duration(us: int) -> str:
    """A duration in the largest unit that divides it.

    >>> print_duration(5_400_000_000)
    '90 MINUTES'
    """
    if us == 0:
        return "0 SECONDS"
    unit, size = next((unit, size) for unit, size in reversed(UNITS.items()) if us % size == 0)
    count = us // size
    return f"{count} {unit}" if count == 1 else f"{count} {unit}S"


def unquoted(text: str) -> str:
    """The content of a quoted string or name, in which a doubled quote stands for one.

    >>> unquoted("'it''s'")
    "it's"
    """
    return text[1:-1].replace(text[0] * 2, text[0])
