"""Clock: times as int64 microseconds since the epoch, UTC, and how people write them.

Times lie in the years 1 to 9999. Datetimes and the language's timestamps have the same span. It leaves room in an int64
for every range, slide and delay around a time: none of these is longer than 2**60 microseconds.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from numbers import Integral

from panewise.errors import PanewiseError

END_OF_STREAM = 2**63 - 1
"""A watermark past every event: all windows close."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The first time that is accepted: the beginning of year 1."""
LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The last time that is accepted: the end of year 9999."""
SPAN = f"times lie in the years 1 to 9999 UTC, from {FIRST_US} to {LAST_US} microseconds since 1970"


def to_microseconds(time: object, what: str = "the time", *, or_end: bool = False) -> int:
    """A time that is given as microseconds, as a datetime (naive means UTC), as a date or as ISO text.

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
        raise PanewiseError(f"{what} is {_shortened(time)}: {SPAN}{end}")
    return time


def _from_other(time: object, what: str) -> int:
    """Microseconds of a time that is not a plain int."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise PanewiseError(
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
    raise PanewiseError(
        f"{what} is {_shortened(time)}, of type {type(time).__name__}; give whole microseconds since 1970 UTC, a "
        f"datetime, a date or ISO text"
    )


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
