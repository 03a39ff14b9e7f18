"""What an engine warns of: each thing once for each stream, until somebody asks to hear it again."""

from __future__ import annotations

import sys
import warnings

import numpy as np

from panewise.arrays import Ints
from panewise.engine.ingest import GivenTimes
from panewise.engine.next_closing import why_nothing_closed
from panewise.engine.stream_state import StreamState
from panewise.errors import (
    EndedWarning,
    LateWarning,
    MixedZonesWarning,
    NothingClosedWarning,
    PanewiseWarning,
    UnlikelyTimesError,
    UnlikelyTimesWarning,
)
from panewise.language.model import Stream
from panewise.windows.clock import (
    END_OF_STREAM,
    FIRST_LIKELY_US,
    LARGEST_MILLISECONDS,
    LAST_LIKELY_US,
    SMALLEST_SECONDS,
    is_round,
    likely_unit,
    show_time,
    unit_cure,
    unit_name,
    zone_of,
)

_FIRST_OF_TODAY_US = 631_152_000_000_000
"""Integers of microseconds that mean 1990 or later."""


class Warned:
    """Warns of what is allowed but hardly meant. With `strict`, unlikely times are errors."""

    def __init__(self, *, strict: bool = False, is_quiet: bool = False) -> None:
        self.strict = strict
        self._is_quiet = is_quiet
        self._said: set[tuple[str, type[PanewiseWarning]]] = set()
        self._closed: set[str] = set()
        """The streams in which a window closed before."""
        self._zones: dict[str, dict[str, str]] = {}
        """Of each stream, in which zones times were given, and for what."""

    def again(self) -> None:
        """Say everything again when it happens the next time."""
        self._said.clear()
        self._zones.clear()

    def events(self, state: StreamState, times: Ints, given: GivenTimes) -> None:
        """Warn of the times of some events, before they are taken in."""
        if self._is_quiet or not len(times):
            return
        stream = state.stream
        low, high = int(times.min()), int(times.max())
        if low < FIRST_LIKELY_US or high >= LAST_LIKELY_US:
            self._unlikely(stream, _beyond(stream, times))
        elif given.are_integers and 0 < low <= LARGEST_MILLISECONDS and not _counts_from_the_epoch(state):
            self._unlikely(stream, of_another_unit(stream.timestamp, times))
        if given.zones:
            self._zone(stream, given.zones, f"the events' {stream.timestamp}")

    def time(self, state: StreamState, time: object, time_us: int, what: str) -> None:
        """Warn of a time that was given by itself: a watermark, or the time of a lookup."""
        if self._is_quiet or time_us == END_OF_STREAM:
            return
        stream = state.stream
        if not FIRST_LIKELY_US <= time_us < LAST_LIKELY_US:
            self._unlikely(stream, f"{what} is {show_time(time_us)}, outside the years 1900 to 2200; is that meant?")
        elif type(time) is int:
            # Beside events of 1970 it is of their unit, and of these was warned already.
            is_beside = state.newest_us is not None and state.newest_us <= LARGEST_MILLISECONDS
            unit = likely_unit(time, time) if 0 < time <= LARGEST_MILLISECONDS and not is_beside else None
            if unit is not None and not is_round(time, unit):
                self._unlikely(
                    stream,
                    f"{what} is {time}, which is {show_time(time)} in microseconds and looks like {unit_name(unit)}; "
                    f"give microseconds, or a datetime.",
                )
        else:
            zone = zone_of(time)
            if zone is not None:
                self._zone(stream, frozenset([zone]), what)

    def push(self, state: StreamState, times: Ints, dropped: int) -> None:
        """Warn of a push whose events were all dropped."""
        pushed = len(times)
        if not dropped or dropped < pushed or self._is_quiet:
            return
        name = state.stream.name
        if state.watermark_us == END_OF_STREAM:
            self._say(
                name,
                EndedWarning,
                f"stream {name} has ended: advance(END_OF_STREAM) closed every window, so these {pushed:,} events were "
                f"dropped, as later ones will be; make a new engine for new events",
            )
            return
        assert state.watermark_us is not None
        self._say(
            name,
            LateWarning,
            f"stream {name}: all {pushed:,} events of this push are late and were dropped: the newest is of "
            f"{show_time(int(times.max()))}, and the watermark stands at {show_time(state.watermark_us)}. "
            f"Advance less far, or declare a longer WATERMARK or ON LATE CORRECT; late_events({name!r}) counts them",
        )

    def advance(self, state: StreamState, answers: int) -> None:
        """Warn of an advance that closed no window, as long as none ever did; one that HAVING lets not pass counts."""
        name = state.stream.name
        if answers or any(tree.has_closed for generation in state.generations for tree in generation.trees):
            self._closed.add(name)
        if self._is_quiet or name in self._closed or (name, NothingClosedWarning) in self._said:
            return
        if not any(generation.active for generation in state.generations):
            return  # without a sliding query nothing is expected
        self._say(
            name,
            NothingClosedWarning,
            f"stream {name}: this advance closed no window: {why_nothing_closed(state)}. next_closing({name!r}) tells "
            f"when the next window closes",
        )

    def _zone(self, stream: Stream, zones: frozenset[str], what: str) -> None:
        """Remember in which zones times are given, and warn if some have none beside some in a zone."""
        seen = self._zones.setdefault(stream.name, {})
        for zone in zones:
            seen.setdefault(zone, what)
        named = next((zone for zone in seen if zone), None)
        if "" in seen and named is not None:
            self._say(
                stream.name,
                MixedZonesWarning,
                f"stream {stream.name}: {seen['']} came without a time zone, and was taken as UTC, but {seen[named]} "
                f"came in the zone {named}; give both a zone",
            )

    def _unlikely(self, stream: Stream, problem: str | None) -> None:
        if problem is None:
            return
        if self.strict:
            raise UnlikelyTimesError(f"stream {stream.name}: {problem}")
        self._say(
            stream.name,
            UnlikelyTimesWarning,
            f"stream {stream.name}: {problem} Engine(..., strict=True) refuses such times",
        )

    def _say(self, stream: str, category: type[PanewiseWarning], message: str) -> None:
        if (stream, category) in self._said:
            return
        self._said.add((stream, category))
        told = f"{message} (Said once for each stream; engine.warn_again() says it again.)"
        warnings.warn(told, category, stacklevel=caller_level())


def _counts_from_the_epoch(state: StreamState) -> bool:
    """Whether the stream began in the first minutes of 1970, as made-up streams do: later it passes every unit."""
    return state.oldest_us is not None and state.oldest_us < SMALLEST_SECONDS


def caller_level() -> int:
    """The stack level of whoever called Panewise, seen from the function that warns."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("panewise."):
        level, frame = level + 1, frame.f_back
    return level


def _beyond(stream: Stream, times: Ints) -> str:
    beyond = (times < FIRST_LIKELY_US) | (times >= LAST_LIKELY_US)
    row = int(np.argmax(beyond))
    return (
        f"{stream.timestamp} is {show_time(int(times[row]))} in row {row}, and {int(beyond.sum()):,} of {len(times):,} "
        f"events lie outside the years 1900 to 2200. Such a time moves the watermark, so that others come late, or "
        f"comes late itself: filter it out, or correct its unit."
    )


def of_another_unit(column: str, times: Ints) -> str | None:
    """What is wrong with integers that look like seconds or milliseconds; None if nothing seems to be."""
    # Integers of microseconds may stand beside them, if these are of our time.
    small = times[times < _FIRST_OF_TODAY_US]
    if not len(small):
        return None
    unit = likely_unit(int(small.min()), int(small.max()))
    if unit is None or all(is_round(int(time), unit) for time in small[:100]):
        return None
    row = int(np.argmin(times))
    return (
        f"{column} is {times[row]} in row {row}, which is {show_time(int(times[row]))} in microseconds and "
        f"looks like {unit_name(unit)}: {unit_cure(unit)}. If microseconds are meant, declare TIMESTAMP(us)."
    )
