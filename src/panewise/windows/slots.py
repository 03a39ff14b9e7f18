"""Slots: the finest intervals that events are pre-aggregated to.

Every edge of every window must fall between two slots, so the slot length divides all ranges, slides and offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from panewise.windows.window import PunctuationWindow, RowWindow, SessionWindow, TimeWindow, Window
from panewise.windows.zones import zone_of


def granularity_of(windows: Iterable[Window]) -> int:
    """The greatest slot length that divides every range, slide and offset; 0 for no window at all.

    Windows from one event to another have slots of their own, a microsecond long.

    >>> granularity_of([TimeWindow(12, slide_us=9), TimeWindow(30, slide_us=6)])
    3
    """
    common = (window for window in windows if not isinstance(window, PunctuationWindow))
    return gcd(*(length for window in common for span in spans_of(window) for length in span))


def spans_of(window: Window) -> tuple[tuple[int, int, int], ...]:
    """The range, slide and offset of plain windows that have all edges of a window, which may be one of them.

    In a time zone there is one for each offset that the zone ever has. What grows has an edge at every slide. The
    fragments of sessions are as long as their gap, so that one never lies in two sessions, and have an edge where
    sessions may be cut. Windows from one event to another may have an edge anywhere.

    >>> spans_of(TimeWindow(12, slide_us=9, offset_us=2)), spans_of(TimeWindow(12, slide_us=3, grows=True))
    (((12, 9, 2),), ((3, 3, 0),))
    """
    if isinstance(window, PunctuationWindow):
        return ((1, 1, 0),)
    if isinstance(window, SessionWindow):
        return ((window.gap_us, window.gap_us, 0), (window.max_us, window.max_us, 0))
    length, slide = lengths_of(window)
    if not isinstance(window, TimeWindow):
        return ((length, slide, 0),)
    if window.zone is not None:
        offsets = {offset % slide for offset in zone_of(window.zone, window.offset_us).offsets}
        return tuple((length, slide, offset) for offset in sorted(offsets))
    return ((slide if window.grows else length, slide, window.offset_us),)


def spans_in_slots(window: Window, granularity: int) -> list[tuple[int, int, int]]:
    """The same, counted in slots of a length that divides all of them."""
    return [
        (length // granularity, slide // granularity, offset // granularity)
        for length, slide, offset in spans_of(window)
    ]


def most_lengths_of(window: Window) -> tuple[int, int]:
    """The longest that an instance may be, and the farthest that two neighbours may be apart."""
    length, slide = lengths_of(window)
    if isinstance(window, SessionWindow | PunctuationWindow):
        return window.left_us, slide
    if isinstance(window, TimeWindow) and window.zone is not None:
        spread_us = zone_of(window.zone, window.offset_us).spread_us
        return length + spread_us, slide + spread_us
    return length, slide


def lengths_of(window: Window) -> tuple[int, int]:
    """The range and the slide of a sliding window, in microseconds or in rows.

    Sessions count as windows as long as their gap, one behind the other: each event is in one of them. A window from
    the start counts as long as its slide: what came before is one slot.
    """
    match window:
        case TimeWindow(slide_us=int(slide)):
            return slide if window.is_unbounded else window.range_us, slide
        case SessionWindow():
            return window.gap_us, window.gap_us
        case PunctuationWindow():
            return window.max_us, window.max_us
        case RowWindow(slide=int(slide)):
            return window.rows, slide
        case _:
            raise ValueError(f"{window} does not slide")


def lengths_in_slots(window: Window, granularity: int) -> tuple[int, int]:
    """The range and the slide of a sliding window, counted in slots of a length that divides both.

    >>> lengths_in_slots(TimeWindow(12, slide_us=9), 3)
    (4, 3)
    """
    length, slide = lengths_of(window)
    return length // granularity, slide // granularity
