"""Sessions: how a tree's rows close into them, and which rows no later session can need.

A fragment is no longer than the smallest gap, so its events of one group lie in one session. A session is a run of a
group's rows that lie near each other: a range of rows, folded as the ranges of other windows are. The sessions of a
larger gap are unions of those of a smaller one, so rows are walked over once, and then runs instead of rows.

Windows from one event to another are ranges of rows too. Their fragments are single times.

A lookup sees the window that its time lies in, as if no event came any more: one that closes at the end of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from panewise.aggregates.components import Component, Kind
from panewise.arrays import Bools, Ints
from panewise.engine.answers import Groups
from panewise.engine.closed_windows import Fold, View
from panewise.kernels.sessions import closed_punctuated, closed_sessions, join_near
from panewise.planning.trees import StreamPlan
from panewise.windows import PunctuationWindow, SessionWindow, Window

_NOTHING = np.empty(0, np.int64)


@dataclass
class SessionFold(Fold):
    """Sessions, each a range of a view's rows; the number of an instance is a microsecond after its end."""

    starts_us: Ints = field(default_factory=lambda: _NOTHING)
    ends_us: Ints = field(default_factory=lambda: _NOTHING)
    known_from_us: Ints = field(default_factory=lambda: _NOTHING)
    """From when on events must be known to be sure of it."""

    def bounds(self, window: Window) -> tuple[Ints, Ints]:
        """Where each session's window starts and ends."""
        return self.starts_us, self.ends_us

    def needs_from(self, window: Window) -> Ints:
        """From when on events must be known to be sure of each."""
        return self.known_from_us

    def standing(self, at_us: int) -> Self:
        """Those that a time lies in."""
        return self.chosen(np.flatnonzero((self.starts_us <= at_us) & (at_us < self.ends_us)))

    def chosen(self, rows: Ints) -> Self:
        """Some of the sessions."""
        return replace(
            super().chosen(rows),
            starts_us=self.starts_us[rows],
            ends_us=self.ends_us[rows],
            known_from_us=self.known_from_us[rows],
        )


class SessionRows:
    """The rows of a view with the times of their events, and the runs of neighbours for rising gaps."""

    def __init__(self, view: View, times: int) -> None:
        self._view = view
        (first,) = Component(Kind.MIN, times).column_names()
        (last,) = Component(Kind.MAX, times).column_names()
        self._firsts, self._lasts = view.column(first), view.column(last)
        self._runs = self._fragments()

    def _fragments(self) -> Ints:
        """The runs of single fragments; each has a row for every shard, in no order of time."""
        keys, slots = self._view.keys, self._view.slots
        if not len(keys):
            return np.empty((4, 0), np.int64)
        is_first = np.ones(len(keys), np.bool_)
        is_first[1:] = (keys[1:] != keys[:-1]) | (slots[1:] != slots[:-1])
        begins = np.flatnonzero(is_first)
        firsts, lasts = np.minimum.reduceat(self._firsts, begins), np.maximum.reduceat(self._lasts, begins)
        return np.stack([keys[begins], firsts, lasts, begins])

    def near(self, gap_us: int) -> Ints:
        """The runs of rows at most a gap apart, for a gap that is not smaller than the one before."""
        joined = np.empty_like(self._runs)
        keys, firsts, lasts, begins = self._runs
        count = join_near(keys, firsts, lasts, begins, gap_us, joined)
        self._runs = joined[:, :count].copy()
        return self._runs

    def folds(
        self, windows: Iterable[SessionWindow], after_us: int, until_us: int, plan: StreamPlan, groups: Groups
    ) -> Iterator[tuple[SessionWindow, SessionFold]]:
        """The sessions of each window that close in (after_us, until_us]."""
        for window in sorted(windows, key=lambda one: one.gap_us):
            runs = self.near(window.gap_us)
            found = np.empty((7, len(self._firsts)), np.int64)
            count = closed_sessions(
                runs, self._firsts, self._lasts, window.gap_us, window.max_us, after_us, until_us, found
            )
            keys, instances, low, high, starts, ends, known_from = found[:, :count]
            fold = SessionFold(self._view, keys, instances, low, high, plan, groups)
            yield window, replace(fold, starts_us=starts, ends_us=ends, known_from_us=known_from)

    def open(self, gap_us: int, closed_us: int) -> Ints:
        """The rows that an event from a time on may be near to, if gaps up to this one are asked for."""
        _, _, lasts, begins = self.near(gap_us)
        lengths = np.diff(begins, append=len(self._firsts))
        return np.flatnonzero(np.repeat(lasts + gap_us >= closed_us, lengths))


def punctuated(
    view: View,
    opens: Bools,
    closes: Bools,
    window: PunctuationWindow,
    ending_us: tuple[int, int],
    plan: StreamPlan,
    groups: Groups,
) -> SessionFold:
    """The windows from one event to another that close after a time, up to another; the rows that open and close."""
    found = np.empty((7, len(opens)), np.int64)
    count = closed_punctuated(view.keys, view.slots, opens, closes, window.max_us, *ending_us, found)
    keys, instances, low, high, starts, ends, known_from = found[:, :count]
    fold = SessionFold(view, keys, instances, low, high, plan, groups)
    return replace(fold, starts_us=starts, ends_us=ends, known_from_us=known_from)
