"""Ranges: which events of its key a window covers for each asked time.

A time t covers what a lookup at t does: `(t - l, t - r]`, or the last rows up to and with t. A sliding window is the
newest one that had closed when the events up to t had come, given the stream's WATERMARK. A session, or a window from
one event to another, is the one of the group that t lies in, as it stands when the events up to t have come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from panewise.arrays import Ints
from panewise.engine.as_of.events import OrderedEvents
from panewise.engine.as_of.substreams import AskedTimes, KeyGroup, Substreams
from panewise.kernels.label_ranges import places_behind
from panewise.kernels.sessions import closed_punctuated, join_near
from panewise.language.expressions import Expression
from panewise.windows import PunctuationWindow, RowWindow, SessionWindow, TimeWindow, Window
from panewise.windows.clock import END_OF_STREAM, FIRST_US
from panewise.windows.instances import ends_of, last_ending, starts_of

BEFORE_ALL = -(2**62)
"""Before all times."""


def watermarks(delay_us: int, times: Ints, asked: AskedTimes) -> Ints:
    """The stream's watermark when its events up to each asked time had come; `times` are those of the events."""
    seen = np.searchsorted(times, asked.times, side="right")
    if not len(times):
        return np.full(len(seen), BEFORE_ALL)
    return np.where(seen > 0, times[np.maximum(seen - 1, 0)] - delay_us, BEFORE_ALL)


def newest_closed(window: TimeWindow, marks: Ints) -> tuple[Ints, Ints]:
    """Where the newest instance that has ended at each watermark starts and ends."""
    instances = last_ending(window, marks)
    is_none = marks == BEFORE_ALL
    starts = np.where(is_none, BEFORE_ALL, starts_of(window, instances))
    return starts, np.where(is_none, BEFORE_ALL, ends_of(window, instances))


@dataclass(frozen=True)
class CoveredRows:
    """The first and the last place in the order of time that a window over rows covers; -1 where there is none.

    There is one for each asked time, in the order of keys.
    """

    first: Ints
    last: Ints

    @staticmethod
    def of(window: RowWindow, events: OrderedEvents, marks: Ints, partition: Substreams, rows: Ints) -> CoveredRows:
        """Count rows in the substreams of PARTITION BY, or in the whole stream, before WHERE picks some of them.

        `rows` are the asked times in the order that is wanted.
        """
        whole = partition.whole()
        begin = whole.segments[whole.keys]
        if window.slide is None:
            reached = places_behind(whole.times, whole.segments, whole.keys, whole.asked_times) - begin
        else:
            # A row counts once the watermark is past it.
            reached = places_behind(whole.times, whole.segments, whole.keys, marks[partition.asked_rows] - 1) - begin
            reached -= (reached - window.left) % window.slide
        begin, end = begin + np.maximum(reached - window.left, 0), begin + reached - window.right
        first, last = np.full(len(begin), -1), np.full(len(begin), -1)
        some = np.flatnonzero(begin < end)
        first[partition.asked_rows[some]] = whole.rows[begin[some]]
        last[partition.asked_rows[some]] = whole.rows[end[some] - 1]
        return CoveredRows(first[rows], last[rows])


@dataclass(frozen=True)
class WindowRanges:
    """Finds the ranges of windows over one part."""

    part: KeyGroup
    marks: Ints
    """The watermark at each asked time of the part."""
    now: Ints
    """Where the events up to each asked time end."""
    rows: Mapping[RowWindow, CoveredRows]

    @staticmethod
    def of(part: KeyGroup, marks: Ints, rows: Mapping[RowWindow, CoveredRows]) -> WindowRanges:
        """What all windows need; `marks` and `rows` are in the order of keys."""
        now = places_behind(part.times, part.segments, part.keys, part.asked_times)
        return WindowRanges(part, marks[part.asked], now, rows)

    def of_window(self, window: Window) -> tuple[Ints, Ints]:
        """Where the covered events of each asked time begin and end among those of the part."""
        times, asked = self.part.times, self.part.asked_times
        match window:
            case TimeWindow(slide_us=None):
                ends = self._behind(times, asked - window.right_us) if window.right_us else self.now
                return self._behind(times, asked - window.left_us), ends
            case TimeWindow():
                starts, ends = newest_closed(window, self.marks)
                return self._behind(times, starts - 1), self._behind(times, ends - 1)
            case RowWindow():
                first, last = self.rows[window].first[self.part.asked], self.rows[window].last[self.part.asked]
                return self._behind(self.part.rows, first - 1), self._behind(self.part.rows, last)
            case SessionWindow():
                return self._session(window), self.now
            case PunctuationWindow():
                return self._from_event(window), self.now

    def _session(self, window: SessionWindow) -> Ints:
        """Where the session that each asked time lies in begins; where the events end if it lies in none."""
        times, now, gap, longest = self.part.times, self.now, window.gap_us, window.max_us
        runs = np.empty((4, len(times)), np.int64)
        count = join_near(self._owners, times, times, np.arange(len(times)), gap, runs)
        begins = runs[3, :count]
        some = np.flatnonzero(now > self.part.segments[self.part.keys])
        last = now[some] - 1
        begin = begins[np.searchsorted(begins, last, side="right") - 1]
        ends_us = times[last] + gap
        # A run that is too long is cut, and its newest piece is the one of the last event.
        is_cut = ends_us - times[begin] > longest
        cells_us = np.full(len(now), BEFORE_ALL)
        cells_us[some] = times[last] // longest * longest
        begin = np.where(is_cut, np.maximum(begin, self._behind(times, cells_us - 1)[some]), begin)
        ends_us = np.where(is_cut, np.minimum(ends_us, cells_us[some] + longest), ends_us)
        found = now.copy()
        is_in = self.part.asked_times[some] < ends_us
        found[some[is_in]] = begin[is_in]
        return found

    def _from_event(self, window: PunctuationWindow) -> Ints:
        """The same of a window from one event to another."""
        part, asked = self.part, self.part.asked_times
        opens, closes = (part.events.holds(cast("Expression", one))[part.rows] for one in (window.opens, window.closes))
        found = np.empty((7, len(part.rows)), np.int64)
        count = closed_punctuated(
            self._owners, part.times, opens, closes, window.max_us, FIRST_US, END_OF_STREAM, found
        )
        # They come in the order of keys and starts.
        keys, _, first, _, starts, ends, _ = found[:, :count]
        bounds = np.searchsorted(keys, np.arange(len(part.segments)))
        newest = places_behind(starts, bounds, part.keys, asked) - 1
        some = np.flatnonzero(newest >= bounds[part.keys])
        is_in = asked[some] < ends[newest[some]]
        begins = self.now.copy()
        begins[some[is_in]] = first[newest[some[is_in]]]
        return begins

    @property
    def _owners(self) -> Ints:
        """The key of each event."""
        return np.repeat(np.arange(len(self.part.segments) - 1), np.diff(self.part.segments))

    def _behind(self, values: Ints, targets: Ints) -> Ints:
        return places_behind(values, self.part.segments, self.part.keys, targets)
