"""Slots: the finest intervals that events are pre-aggregated to.

Every edge of every window must fall between two slots, so the slot length divides all ranges and slides.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from panewise.windows.window import RowWindow, TimeWindow, Window


def granularity_of(windows: Iterable[Window]) -> int:
    """The greatest slot length that divides every range and slide; 0 for no window at all.

    >>> granularity_of([TimeWindow(12, slide_us=9), TimeWindow(30, slide_us=6)])
    3
    """
    lengths = [length for window in windows for length in lengths_of(window)]
    return gcd(*lengths)


def lengths_of(window: Window) -> tuple[int, int]:
    """The range and the slide of a sliding window, in microseconds or in rows."""
    match window:
        case TimeWindow(slide_us=int(slide)):
            return window.range_us, slide
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


def instances_closed(window: Window, granularity: int, after: int | None, until: int | None) -> tuple[int, int]:
    """The first and the last instance whose end lies in (after, until]; None means the beginning or the end of time.

    >>> instances_closed(TimeWindow(12, slide_us=9), 3, after=12, until=40)
    (1, 3)
    """
    length, slide = lengths_of(window)
    unbounded = 2**62 // max(1, slide // granularity)
    first = -unbounded if after is None else (after - length) // slide + 1
    last = unbounded if until is None else (until - length) // slide
    return first, last


def oldest_slot_needed(windows: Iterable[Window], granularity: int, closed: int) -> int:
    """The first slot that some instance ending after `closed` may still cover."""
    starts = []
    for window in windows:
        length, slide = lengths_of(window)
        starts.append(((closed - length) // slide + 1) * slide)
    return min(starts, default=closed) // granularity
