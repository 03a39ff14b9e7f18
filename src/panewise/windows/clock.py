"""Clock: times as int64 microseconds since the epoch, UTC, and how people write them.

Times lie in the years 1 to 9999. Datetimes and the language's timestamps have the same span. It leaves room in an int64
for every range, slide and delay around a time: none of these is longer than 2**60 microseconds.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from numbers import Integral
from typing import Any

from panewise.errors import TimeError

END_OF_STREAM = 2**63 - 1
"""A watermark past every event: all windows close."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The first time that is accepted: the beginning of year 1."""
LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The last time that is accepted: the end of year 9999."""
FIRST_LIKELY_US = (datetime(1900, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""Times before 1900 are hardly meant."""
LAST_LIKELY_US = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""Nor are times from 2200 on."""
SPAN = f"times lie in the years 1 to 9999 UTC, from {FIRST_US} to {LAST_US} microseconds since 1970"


UNITS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""The units of whole microseconds that integers may have, by their names in TIMESTAMP(...). `ns` is finer."""
UNITS = (*UNITS_US, "ns")
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

# Integers of a unit that mean a time from 1990 to 2100. Taken as microseconds, those of s and ms lie in early 1970.
_FROM_S, _TO_S = 631_152_000, 4_102_444_800
_LOOKS_LIKE = {"s": (_FROM_S, _TO_S), "ms": (1_000 * _FROM_S, 1_000 * _TO_S), "ns": (10**9 * _FROM_S, 10**9 * _TO_S)}
SMALLEST_SECONDS = _FROM_S
"""No smaller integer looks like any unit but microseconds."""
LARGEST_MILLISECONDS = _LOOKS_LIKE["ms"][1]
"""No larger integer looks like seconds or milliseconds, and is in the span of times."""


def likely_unit(first: int, last: int) -> str | None:
    """The unit other than microseconds that integers between `first` and `last` look like, if any.

    >>> likely_unit(1_357_034_400, 1_357_120_800), likely_unit(0, 3_600_000_000)
    ('s', None)
    """
    return next((unit for unit, (low, high) in _LOOKS_LIKE.items() if low <= first <= last <= high), None)


def is_round(time: int, unit: str) -> bool:
    """Whether an integer that looks like a unit is a round number of microseconds, as in an example, all the same.

    700,000,000 is 700 seconds after the epoch in microseconds. Seconds of today hardly ever end in so many zeros.
    """
    return time % (1_000_000 if unit == "ms" else 1_000) == 0


def unit_cure(unit: str) -> str:
    """What to do with integers that look like another unit."""
    factor = "divide them by 1,000" if unit == "ns" else f"multiply them by {UNITS_US[unit]:,}"
    return f"declare the attribute as TIMESTAMP({unit}), or {factor}"


def unit_name(unit: str) -> str:
    """A unit in words."""
    return _UNIT_NAMES[unit]


def to_microseconds(time: object, what: str = "the time", *, or_end: bool = False) -> int:
    """A time as microseconds, a datetime (naive means UTC), a date, ISO text, or a time of NumPy, pandas or Arrow.

    `what` names it in errors; with `or_end` it may also be END_OF_STREAM.

    >>> to_microseconds("2013-01-01 05:00:00") == to_microseconds(datetime(2013, 1, 1, 5))
    True
    >>> to_microseconds(date(2013, 1, 1)) == to_microseconds("2013-01-01")
    True
    """
    if type(time) is not int:
        time = _from_other(time, what)
    if not FIRST_US <= time <= LAST_US and not (or_end and time == END_OF_STREAM):
        end = "; END_OF_STREAM closes everything" if or_end else ""
        nanoseconds = "; it looks like nanoseconds: divide it by 1,000" if likely_unit(time, time) == "ns" else ""
        raise TimeError(f"{what} is {_shortened(time)}: {SPAN}{nanoseconds}{end}")
    return time


def _from_other(time: object, what: str) -> int:
    """Microseconds of a time that is not a plain int."""
    time = _plain(time)
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise TimeError(
                f"{what} is {_shortened(time)}, which is not a time: {error}; "
                "write ISO text such as '2013-01-01 05:00:00'"
            ) from None
    # A pandas date that means no time does not equal itself.
    if isinstance(time, date) and time == time:
        moment = time if isinstance(time, datetime) else datetime(time.year, time.month, time.day)
        aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return int((aware - _EPOCH) // _MICROSECOND)
    if isinstance(time, Integral) and not isinstance(time, bool):
        return int(time)
    raise TimeError(
        f"{what} is {_shortened(time)}, of type {type(time).__name__}; give whole microseconds since 1970 UTC, a "
        f"datetime (of Python, NumPy, pandas or Polars), a date or ISO text"
    )


def _plain(time: object) -> object:
    """A time of NumPy or Arrow as a plain one; anything else stays as it is.

    Neither is imported here: `import panewise` must stay quick.
    """
    library = type(time).__module__.partition(".")[0]
    if library == "pyarrow" and hasattr(time, "as_py"):
        time = time.as_py()
    if library == "numpy" and type(time).__name__ == "datetime64" and time == time:
        scalar: Any = time
        try:
            microseconds = scalar.astype("datetime64[us]")
        except OverflowError:
            return time
        # Before NumPy 2.5, a time that does not fit its unit wraps.
        if microseconds.astype(scalar.dtype) == scalar or scalar.astype("datetime64[s]") == microseconds.astype(
            "datetime64[s]"
        ):
            return int(microseconds.astype("int64"))
    return time


def zone_of(time: object) -> str | None:
    """The zone that a time is given in: its name, "" for a time without a zone, None for UTC and for plain numbers.

    >>> zone_of("2013-01-01 05:00"), zone_of("2013-01-01T05:00:00+01:00"), zone_of("2013-01-01T05:00:00Z"), zone_of(5)
    ('', 'UTC+01:00', None, None)
    """
    if type(time).__name__ == "datetime64":
        return ""
    time = _plain(time)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if not isinstance(time, datetime):
        return None
    if time.tzinfo is None:
        return ""
    return str(time.tzinfo) if time.utcoffset() or not is_utc(str(time.tzinfo)) else None


def is_utc(zone: str) -> bool:
    """Whether the name of a zone means UTC."""
    return zone.upper() in ("UTC", "Z", "ETC/UTC", "+00:00", "UTC+00:00", "GMT")


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def show_time(time_us: int) -> str:
    """A time as people read it; as a plain number where the calendar ends.

    >>> show_time(0)
    '1970-01-01 00:00:00'
    """
    try:
        return str((_EPOCH + timedelta(microseconds=time_us)).replace(tzinfo=None))
    except OverflowError:
        return str(time_us)
