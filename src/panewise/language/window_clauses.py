"""Window clauses: turns the numbers between the brackets into a window, or into an error that names the wrong one."""

from __future__ import annotations

from dataclasses import replace

from panewise.language.expressions import Expression, Span
from panewise.language.literals import MOST_ROWS, print_duration
from panewise.language.source import PlacedError, hint_for, shortened
from panewise.language.statements import Duration, Name, WindowClause
from panewise.windows import PunctuationWindow, RowWindow, SessionWindow, TimeWindow, zones
from panewise.windows.window import DAY_US, UNBOUNDED_US

Count = tuple[int, Span]
Zone = tuple[str, Span]
"""The name of a time zone, and where it stands."""


def range_window(length: Duration, slide: Duration | None, offset: Duration | None, zone: Zone | None) -> WindowClause:
    """`RANGE r`, or `RANGE r SLIDE s` with `OFFSET o` and `ALIGN TO TIME ZONE z` if they are given."""
    length = _positive_duration("RANGE", length)
    if slide is None:
        return WindowClause(TimeWindow(length.us), (length,))
    slide = _positive_duration("SLIDE", slide)
    durations = (length, slide, *_offset(offset, slide))
    if zone is not None:
        durations += _in_zone(zone, durations)
    window = TimeWindow(length.us, slide_us=slide.us, offset_us=offset.us if offset else 0, zone=zone and zone[0])
    return WindowClause(window, durations)


def slide_alone(slide: Duration, offset: Duration | None) -> WindowClause:
    """`SLIDE s` behind a stream: each aggregate then says what it is OVER."""
    slide = _positive_duration("SLIDE", slide)
    window = TimeWindow(slide.us, slide_us=slide.us, offset_us=offset.us if offset else 0)
    return WindowClause(window, (slide, *_offset(offset, slide)), is_slide_alone=True)


def cumulate(period: Duration, slide: Duration, offset: Duration | None) -> WindowClause:
    """`CUMULATE p SLIDE s`, with `OFFSET o` if it is given."""
    period, slide = _positive_duration("CUMULATE", period), _positive_duration("SLIDE", slide)
    if period.us % slide.us:
        message = f"CUMULATE {print_duration(period.us)} is not a multiple of SLIDE {print_duration(slide.us)}"
        hint = "a period is reported whole at its end: choose a SLIDE that divides it"
        raise PlacedError(message, period.span, hint)
    window = TimeWindow(period.us, slide_us=slide.us, offset_us=offset.us if offset else 0, grows=True)
    return WindowClause(window, (period, slide, *_offset(offset, slide)))


def unbounded(slide: Duration | None, offset: Duration | None) -> WindowClause:
    """`UNBOUNDED`, or `UNBOUNDED SLIDE s` with `OFFSET o` if it is given."""
    if slide is None:
        return WindowClause(TimeWindow(UNBOUNDED_US))
    slide = _positive_duration("SLIDE", slide)
    window = TimeWindow(UNBOUNDED_US, slide_us=slide.us, offset_us=offset.us if offset else 0, grows=True)
    return WindowClause(window, (slide, *_offset(offset, slide)))


def range_between(left: Duration, right: Duration) -> WindowClause:
    """`RANGE BETWEEN l PRECEDING AND r PRECEDING`."""
    left = _positive_duration("RANGE", left)
    if right.us < 0:
        raise PlacedError("the end of a RANGE must not be negative", right.span, "0 SECONDS PRECEDING is now")
    if right.us >= left.us:
        message = f"a RANGE must begin before it ends, got {print_duration(left.us)} and {print_duration(right.us)}"
        raise PlacedError(
            message,
            right.span,
            "write the larger duration first: BETWEEN 2 HOURS PRECEDING AND 1 HOUR PRECEDING",
        )
    return WindowClause(TimeWindow(left.us, right.us), (left, Duration(right.us, right.span, "RANGE")))


def rows_window(length: Count, slide: Count | None) -> WindowClause:
    """`ROWS n` or `ROWS n SLIDE m`."""
    left = _positive_count("ROWS", length)
    return WindowClause(RowWindow(left, slide=None if slide is None else _positive_count("SLIDE", slide)))


def rows_between(length: Count, end: Count) -> WindowClause:
    """`ROWS BETWEEN n PRECEDING AND m PRECEDING`."""
    left = _positive_count("ROWS", length)
    right, span = end
    if right < 0:
        raise PlacedError("the end of ROWS must not be negative", span, "0 PRECEDING is the last row")
    if right >= left:
        hint = "write the larger number first: BETWEEN 100 PRECEDING AND 10 PRECEDING"
        raise PlacedError(f"ROWS must begin before it ends, got {left} and {right}", span, hint)
    return WindowClause(RowWindow(left, right))


def session_window(gap: Duration, longest: Duration | None, span: Span) -> WindowClause:
    """`SESSION GAP g MAX m`."""
    gap = _positive_duration("GAP", gap)
    if longest is None:
        hint = f"say how long a session may be, for instance SESSION GAP {print_duration(gap.us)} MAX 1 DAY"
        raise PlacedError("sessions need a MAX: a group that never pauses would be kept forever", span, hint)
    longest = _positive_duration("MAX", longest)
    if longest.us < gap.us:
        message = f"MAX {print_duration(longest.us)} is shorter than the GAP, {print_duration(gap.us)}"
        raise PlacedError(message, longest.span, "a session of one event is already as long as the GAP")
    return WindowClause(SessionWindow(gap.us, longest.us), (gap, longest))


def punctuation_window(opens: Expression, closes: Expression, longest: Duration | None, span: Span) -> WindowClause:
    """`FROM WHEN p UNTIL WHEN q MAX m`; the binder checks the predicates."""
    if longest is None:
        hint = "say how long a window may be: FROM WHEN ... UNTIL WHEN ... MAX 1 DAY"
        raise PlacedError("a window from one event to another needs a MAX: it may never be closed", span, hint)
    longest = _positive_duration("MAX", longest)
    # The granularity does not matter: such windows begin and end at any time.
    return WindowClause(PunctuationWindow(opens, closes, longest.us))


def partition_window(names: tuple[Name, ...], clause: WindowClause) -> WindowClause:
    """`PARTITION BY k ROWS ...`; the binder checks the names."""
    window = clause.window
    assert isinstance(window, RowWindow)
    partitioned = replace(window, partition_by=tuple(name.text for name in names))
    return WindowClause(partitioned, partition_by=names)


def _offset(offset: Duration | None, slide: Duration) -> tuple[Duration, ...]:
    """The offset, checked, if there is one."""
    if offset is None:
        return ()
    if not 0 <= offset.us < slide.us:
        message = f"OFFSET must be less than the SLIDE, {print_duration(slide.us)}, and not negative"
        hint = "windows repeat with every SLIDE, so take off whole slides: OFFSET 26 HOURS of 1 DAY is OFFSET 2 HOURS"
        raise PlacedError(message, offset.span, hint)
    return (Duration(offset.us, offset.span, "OFFSET"),)


def _in_zone(zone: Zone, durations: tuple[Duration, ...]) -> tuple[Duration, ...]:
    """The offsets of a zone from UTC, which slots must divide; refuses what is not counted in whole days."""
    name, span = zone
    if not zones.is_known(name):
        known = zones.known_zones()
        hint = hint_for(name, known, "install the package tzdata, which lists the time zones") if known else ""
        raise PlacedError(f"unknown time zone {shortened(name)}", span, hint)
    for duration in durations[:2]:
        if duration.us % DAY_US:
            message = f"{duration.word} {print_duration(duration.us)} is no whole number of days"
            hint = "summer time changes days only: leave out ALIGN TO TIME ZONE, or use whole days"
            raise PlacedError(message, duration.span, hint)
    at_us = sum(duration.us for duration in durations[2:])
    return tuple(
        Duration(abs(offset), span, f"the offset of {name} from UTC,") for offset in zones.zone_of(name, at_us).offsets
    )


def _positive_duration(word: str, duration: Duration) -> Duration:
    if duration.us <= 0:
        sign = "-" if duration.us < 0 else ""
        message = f"{word} must be positive, got {sign}{print_duration(abs(duration.us))}"
        raise PlacedError(message, duration.span, f"for instance {word} 5 MINUTES")
    return Duration(duration.us, duration.span, word)


def _positive_count(word: str, count: Count) -> int:
    value, span = count
    if value <= 0:
        raise PlacedError(f"{word} must be positive, got {value}", span, f"for instance {word} 100")
    if value > MOST_ROWS:
        raise PlacedError(f"{word} {value} is too large", span, "at most 2**60 rows")
    return value
