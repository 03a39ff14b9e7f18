"""Instances: where the k-th instance of a sliding window starts and ends, and which instance a time belongs to.

Starts and ends never fall as k rises. Everything is in microseconds, or in rows for a window over rows. Whoever needs a
start or an end asks here, so that an offset, a time zone or a window that grows within a period is known in one place.

Where a session starts and ends depends on its events. It is counted by the microsecond after its end, as if it were a
window that slides by a microsecond and is as long as sessions reach back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, overload

import numpy as np

from panewise.arrays import Ints
from panewise.windows.slots import lengths_of
from panewise.windows.window import (
    DAY_US,
    NO_START_US,
    PunctuationWindow,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
    follows_events,
    is_unbounded,
)
from panewise.windows.zones import Zone, zone_of

Instances = TypeVar("Instances", int, Ints)


def starts_of(window: Window, instances: Instances) -> Instances:
    """Where some instances start.

    >>> starts_of(TimeWindow(12, slide_us=9, offset_us=2), 1)
    11
    """
    if isinstance(window, TimeWindow) and window.slide_us is not None and window.zone is None and not window.grows:
        # Asked several times of every window that closes.
        return instances * window.slide_us + window.offset_us
    if follows_events(window):
        return instances - _reach(window)
    if is_unbounded(window):
        return instances * 0 + NO_START_US
    length, slide = lengths_of(window)
    zone = _zone(window)
    if zone is not None:
        return _each(zone.begins, instances * (slide // DAY_US))
    starts = instances * slide
    if _grows(window):
        starts = starts // length * length
    return starts + _offset(window)


def ends_of(window: Window, instances: Instances) -> Instances:
    """Where some instances end.

    >>> ends_of(TimeWindow(12, slide_us=9), 1), ends_of(TimeWindow(9, slide_us=3, grows=True), 1)
    (21, 6)
    """
    if isinstance(window, TimeWindow) and window.slide_us is not None and window.zone is None and not window.grows:
        return instances * window.slide_us + (window.left_us + window.offset_us)
    if follows_events(window):
        return instances
    length, slide = lengths_of(window)
    zone = _zone(window)
    if zone is not None:
        return _each(zone.begins, instances * (slide // DAY_US) + length // DAY_US)
    return instances * slide + (slide if _grows(window) else length) + _offset(window)


def last_ending(window: Window, until: Instances) -> Instances:
    """The newest instance that ends up to a time or a position.

    >>> last_ending(TimeWindow(12, slide_us=9), 21), last_ending(TimeWindow(12, slide_us=9), 20)
    (1, 0)
    """
    if isinstance(window, TimeWindow) and window.zone is None and window.slide_us is not None:
        # Asked of every window at every advance.
        length = window.slide_us if window.grows else window.left_us
        return (until - window.offset_us - length) // window.slide_us
    if follows_events(window):
        return until
    length, slide = lengths_of(window)
    zone = _zone(window)
    if zone is not None:
        return (_each(zone.days, until) - length // DAY_US) // (slide // DAY_US)
    return (until - length) // slide


def last_starting(window: Window, at: int) -> int:
    """The newest instance that starts up to a time or a position; from the start, the one whose slide it is in.

    >>> last_starting(TimeWindow(12, slide_us=9), 9), last_starting(TimeWindow(9, slide_us=3, grows=True), 9)
    (1, 5)
    """
    if follows_events(window):
        return at + _reach(window)
    length, slide = lengths_of(window)
    zone = _zone(window)
    if zone is not None:
        return _each(zone.days, at) // (slide // DAY_US)
    if _grows(window) and not is_unbounded(window):
        # The last instance of the period.
        return ((at - _offset(window)) // length + 1) * (length // slide) - 1
    return (at - _offset(window)) // slide


def instances_closed(window: Window, granularity: int, after: int | None, until: int | None) -> tuple[int, int]:
    """The first and the last instance whose end lies in (after, until]; None means the beginning or the end of time.

    >>> instances_closed(TimeWindow(12, slide_us=9), 3, after=12, until=40)
    (1, 3)
    """
    first = -_unbounded(window, granularity) if after is None else last_ending(window, after) + 1
    last = _unbounded(window, granularity) if until is None else last_ending(window, until)
    return first, last


def oldest_slot_needed(windows: Iterable[Window], granularity: int, closed: int) -> int:
    """The first slot that some instance ending after `closed` may still cover."""
    starts = [needed_from(window, last_ending(window, closed) + 1) for window in windows]
    return min(starts, default=closed) // granularity


def needed_from(window: Window, instance: int) -> int:
    """From when on slots must be held for an instance and those after it.

    From the start, what comes before the instance's own slide is held as one slot.
    """
    if is_unbounded(window):
        return ends_of(window, instance - 1)
    return starts_of(window, instance)


def same_ends(window: Window) -> tuple[str | tuple[str, ...], int, int, str | None]:
    """What two windows have in common whose instances end at the same instants (or positions).

    It is what they count, their slide, by how much they end after a multiple of it, and their time zone.

    >>> same_ends(TimeWindow(12, slide_us=6)) == same_ends(TimeWindow(6, slide_us=6))
    True
    """
    if follows_events(window):
        gap_us = window.gap_us if isinstance(window, SessionWindow) else 0
        return "sessions", gap_us, _reach(window), None
    length, slide = lengths_of(window)
    if isinstance(window, RowWindow):
        return tuple(sorted(window.partition_by)) or "rows", slide, length % slide, None
    assert isinstance(window, TimeWindow)
    phase = (window.offset_us if window.grows else window.offset_us + length) % slide
    return "time", slide, phase, window.zone


def end_numbers(window: Window, instances: Ints) -> Ints:
    """Numbers for the ends of instances that are the same for all windows with the `same_ends`."""
    if follows_events(window):
        return instances
    length, slide = lengths_of(window)
    if _grows(window):
        return instances + 1
    return instances + (length + _offset(window)) // slide


def with_end_numbers(window: Window, numbers: Ints) -> Ints:
    """The instances of a window whose ends have these numbers."""
    return numbers - end_numbers(window, np.zeros(1, np.int64))


def _reach(window: Window) -> int:
    assert isinstance(window, SessionWindow | PunctuationWindow)
    return window.left_us


def _unbounded(window: Window, granularity: int) -> int:
    """A number beyond those of all instances."""
    if follows_events(window):
        return 2**62
    return 2**62 // max(1, lengths_of(window)[1] // granularity)


@overload
def _each(found: Callable[[Ints], Ints], of: int) -> int: ...
@overload
def _each(found: Callable[[Ints], Ints], of: Ints) -> Ints: ...
def _each(found: Callable[[Ints], Ints], of: int | Ints) -> int | Ints:
    """What is found of one number or of each."""
    return found(of) if isinstance(of, np.ndarray) else int(found(np.asarray(of)))


def _zone(window: Window) -> Zone | None:
    if not isinstance(window, TimeWindow) or window.zone is None:
        return None
    return zone_of(window.zone, window.offset_us)


def _offset(window: Window) -> int:
    return window.offset_us if isinstance(window, TimeWindow) else 0


def _grows(window: Window) -> bool:
    return isinstance(window, TimeWindow) and window.grows
