"""Time zones: when the days of a zone begin.

The days of a zone from 1970 to 2100 are listed once, with summer time as the zone has it. Before and after, the zone
keeps the offset that it has at that end of the list. If summer time skips the instant at which a day begins, the day
begins where the clock is put forward; if the instant comes twice, at the first of the two.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np

from panewise.arrays import Ints
from panewise.windows.window import DAY_US

DAYS = 47_482
"""How many days are listed: from 1970 to 2099."""
_MICROSECOND = timedelta(microseconds=1)


class Zone:
    """The days of a time zone, each of which begins at a local time of day. Day 0 is the first of 1970."""

    def __init__(self, name: str, at_us: int) -> None:
        zone = ZoneInfo(name)
        first = datetime(1970, 1, 1, tzinfo=zone) + at_us * _MICROSECOND
        shifts = ((first + timedelta(days=day)).utcoffset() or timedelta() for day in range(DAYS))
        ahead = np.fromiter((shift // _MICROSECOND for shift in shifts), np.int64, DAYS)
        self._begins = np.arange(DAYS) * DAY_US + at_us - ahead
        self._before, self._after = int(self._begins[0]), int(self._begins[-1])
        self.offsets = tuple(int(offset) for offset in np.unique(at_us - ahead))
        """By how much days begin later than in UTC, each different number of microseconds once."""
        self.spread_us = int(ahead.max() - ahead.min())
        """How much longer or shorter than whole days some days may be."""

    def begins(self, days: Ints) -> Ints:
        """When days begin. Cost: O(days)."""
        listed: Ints = self._begins[np.clip(days, 0, DAYS - 1)]
        outside: Ints = np.minimum(days, 0) + np.maximum(days - (DAYS - 1), 0)
        begins: Ints = listed + outside * DAY_US
        return begins

    def days(self, times: Ints) -> Ints:
        """The day of each time: the last one that has begun. Cost: O(times x log days)."""
        # Also the ends of time have a day.
        times = np.clip(times, -(2**62), 2**62)
        listed = np.searchsorted(self._begins, times, side="right") - 1
        before, after = (times - self._before) // DAY_US, (times - self._after) // DAY_US
        return np.where(times < self._before, before, np.where(times >= self._after, after + DAYS - 1, listed))


@lru_cache(maxsize=64)
def zone_of(name: str, at_us: int = 0) -> Zone:
    """The days of a zone that begin at a local time. Cost: 0.1 s for each zone, once."""
    return Zone(name, at_us)


def is_known(name: str) -> bool:
    """Whether there is a time zone with a name."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def known_zones() -> list[str]:
    """The names of all time zones."""
    return sorted(available_timezones())
