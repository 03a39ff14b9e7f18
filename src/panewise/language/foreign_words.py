"""What people write out of habit from other systems, and what to write here instead."""

from __future__ import annotations

import re

_WINDOWS = (
    "a window stands in brackets behind its stream: s [RANGE 1 HOUR SLIDE 1 HOUR] tumbles, and with a shorter SLIDE it "
    "hops"
)
_CASE = "write CASE WHEN condition THEN value ELSE another END"
_DURATION = "write a duration as a number and a unit, without quotes: 1 HOUR"
NO_ORDER = (
    "answers have no order: sort the table that you get, or keep the large groups with HAVING; the most frequent "
    "values come from APPROX_TOP_K"
)

_HINTS = {
    "CASE": _CASE,
    "WHEN": _CASE,
    "FILTER": "FILTER stands behind an aggregate: COUNT(*) FILTER (WHERE condition)",
    "INTERVAL": _DURATION,
    "TUMBLE": _WINDOWS,
    "TUMBLING": _WINDOWS,
    "HOP": _WINDOWS,
    "HOPPING": _WINDOWS,
    "SLIDING": _WINDOWS,
    "CUMULATE": "a window stands in brackets behind its stream: s [CUMULATE 1 DAY SLIDE 1 HOUR]",
    "SESSION": "a window stands in brackets behind its stream: s [SESSION GAP 30 MINUTES MAX 1 DAY]",
    "UNBOUNDED": "everything since the start is s [UNBOUNDED], or s [UNBOUNDED SLIDE 1 HOUR] to be reported",
    "OVER": "OVER stands behind an aggregate: SUM(x) OVER [RANGE 1 HOUR], in a query FROM s SLIDE 5 MINUTES",
    "LIMIT": f"LIMIT is for ORDER BY over rows; {NO_ORDER}",
    "FOR": "write the delay alone: WATERMARK 5 SECONDS",
    "IF": _CASE,
}
"""By the word that cannot be read."""
_LEADING = ("CASE", "CUMULATE", "HOP", "IF", "OVER", "SESSION", "TUMBLE", "UNBOUNDED")
"""Words that can be read as names, so that only what follows them cannot."""

_LAST_WORD = re.compile(r"(\w+)\s*$")
_ORDER_BY = re.compile(r"\border\s+by\s+\w+\s*$", re.IGNORECASE)

UNIT_HINTS = {
    **dict.fromkeys(("US", "MICROS"), "MICROSECONDS"),
    **dict.fromkeys(("MS", "MILLI", "MILLIS"), "MILLISECONDS"),
    **dict.fromkeys(("S", "SEC"), "SECONDS"),
    **dict.fromkeys(("M", "MIN"), "MINUTES"),
    **dict.fromkeys(("H", "HR"), "HOURS"),
    "D": "DAYS",
    "W": "WEEKS",
}
"""Short forms of units of time, without a plural's S."""


def foreign_hint(found: str, before: str) -> str:
    """The hint for a word that stands behind a text, if it is a habit; else nothing.

    >>> foreign_hint("INTERVAL", "FROM s [RANGE")
    'write a duration as a number and a unit, without quotes: 1 HOUR'
    """
    if found == "(" and _ORDER_BY.search(before):
        return NO_ORDER
    match = _LAST_WORD.search(before)
    last = "" if match is None else match[1].upper()
    if last in _LEADING:
        return _HINTS[last]
    if found.startswith("'") and last in ("RANGE", "SLIDE", "WATERMARK", "GRANULARITY"):
        return _DURATION
    return _HINTS.get(found.upper(), "")


def unit_hint(number: str, unit: str) -> str:
    """The hint for a unit of time in short, or for one without a fixed length; else nothing.

    >>> unit_hint("1", "h")
    'write 1 HOUR'
    """
    short = unit.upper()
    long = UNIT_HINTS.get(short) or UNIT_HINTS.get(short.removesuffix("S"))
    if long is not None:
        return f"write {number} {long.removesuffix('S') if number == '1' else long}"
    if short.removesuffix("S") in ("MONTH", "QUARTER", "YEAR"):
        return f"a {short.removesuffix('S').lower()} has no fixed length: write a number of DAYS"
    return ""
