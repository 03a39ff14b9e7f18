"""Clock: times as int64 microseconds since the epoch, UTC, and how people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

END_OF_STREAM = 2**63 - 1
"""A watermark past every event: all windows close."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(time: int | datetime | str) -> int:
    """A time given as microseconds, as a datetime (naive means UTC) or as ISO text.

    >>> to_microseconds("2013-01-01 05:00:00") == to_microseconds(datetime(2013, 1, 1, 5))
    True
    """
    if isinstance(time, int):
        return time
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1)


def show_time(time_us: int) -> str:
    """A time as people read it; as a plain number where the calendar ends.

    >>> show_time(0)
    '1970-01-01 00:00:00'
    """
    try:
        return str((_EPOCH + timedelta(microseconds=time_us)).replace(tzinfo=None))
    except OverflowError:
        return str(time_us)
