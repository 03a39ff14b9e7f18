"""Window values: which events an answer covers.

Two kinds look back from a point: from a time t for `TimeWindow`, from a position m for `RowWindow`.
A window with a slide is evaluated whenever one of its instances closes; a window without a slide is evaluated on
demand. A `SessionWindow` is evaluated for each group when its events pause, a `PunctuationWindow` when an event closes
it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeGuard

from panewise.errors import ArgumentError

DAY_US = 86_400_000_000

UNBOUNDED_US = 2**59
"""The range of a window from the start: longer than all times that there are."""
NO_START_US = -(2**62)
"""Where a window from the start begins: before all times."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A window over event time.

    With `slide_us`, instance k covers [k * slide_us, k * slide_us + left_us), counted from the epoch, and `offset_us`
    later if there is one. With a `zone`, which needs whole days, it is counted in the local time of that zone. If it
    `grows`, left_us is a period: instance k covers what has passed of its period at (k + 1) * slide_us.
    Without a slide, at time t the window covers (t - left_us, t - right_us].
    A window with the range `UNBOUNDED_US` covers everything since the start. With a slide, it `grows`.
    `panewise.windows.instances` has the arithmetic.
    """

    left_us: int
    right_us: int = 0
    slide_us: int | None = None
    offset_us: int = 0
    zone: str | None = None
    grows: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.right_us < self.left_us:
            raise ArgumentError(f"a window needs 0 <= right_us < left_us, got {self.left_us} and {self.right_us}")
        if self.slide_us is not None and (self.slide_us <= 0 or self.right_us != 0):
            raise ArgumentError(f"a sliding window needs a positive slide and right_us = 0, got {self}")
        if self.slide_us is None and (self.offset_us or self.zone or self.grows):
            raise ArgumentError(f"only a sliding window has an offset, a time zone or a period, got {self}")
        if self.slide_us is not None and not 0 <= self.offset_us < self.slide_us:
            raise ArgumentError(f"an offset is less than the slide and not negative, got {self}")
        if self.is_unbounded and (self.right_us or self.zone or self.grows != self.is_sliding):
            raise ArgumentError(f"a window from the start has only a slide and an offset, and grows, got {self}")
        if self.is_unbounded:
            return
        if self.slide_us is not None and self.grows and (self.left_us % self.slide_us or self.zone):
            raise ArgumentError(f"a growing window needs a period of whole slides and no time zone, got {self}")
        if self.slide_us is not None and self.zone and (self.left_us % DAY_US or self.slide_us % DAY_US):
            raise ArgumentError(f"in a time zone a window needs whole days, got {self}")

    @property
    def range_us(self) -> int:
        """The length of time that one answer covers."""
        return self.left_us - self.right_us

    @property
    def is_sliding(self) -> bool:
        """Whether instances close by themselves as the watermark moves."""
        return self.slide_us is not None

    @property
    def is_unbounded(self) -> bool:
        """Whether it covers everything since the start."""
        return self.left_us == UNBOUNDED_US

    @property
    def overlap(self) -> float:
        """How many instances an event falls into: range over slide (1 when evaluated on demand)."""
        return 1.0 if self.slide_us is None else self.range_us / self.slide_us


@dataclass(frozen=True, slots=True)
class RowWindow:
    """A window over positions of the stream, or of each substream when `partition_by` names attributes.

    Looking back from position m (1-based, the number of rows so far) it covers max(m - left + 1, 1) .. m - right.
    With `slide`, it is evaluated after each row count that is congruent to `left` modulo `slide`, in each substream by
    itself.
    """

    left: int
    right: int = 0
    slide: int | None = None
    partition_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.right < self.left:
            raise ArgumentError(f"a window needs 0 <= right < left, got {self.left} and {self.right}")
        if self.slide is not None and (self.slide <= 0 or self.right != 0):
            raise ArgumentError(f"a sliding window needs a positive slide and right = 0, got {self}")

    @property
    def rows(self) -> int:
        """The largest number of rows that one answer covers."""
        return self.left - self.right

    @property
    def is_sliding(self) -> bool:
        """Whether instances close by themselves as rows arrive."""
        return self.slide is not None


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Sessions: the events of a group of which no two neighbours are more than `gap_us` apart.

    A session covers [first event, last event + gap_us). If that is longer than `max_us`, it is cut at the multiples of
    `max_us` since the epoch, so that what belongs together follows from the events nearby, not from how it all began.
    """

    gap_us: int
    max_us: int

    def __post_init__(self) -> None:
        if not 0 < self.gap_us <= self.max_us:
            raise ArgumentError(f"sessions need 0 < gap_us <= max_us, got {self.gap_us} and {self.max_us}")

    @property
    def is_sliding(self) -> bool:
        """Sessions close by themselves as the watermark moves."""
        return True

    @property
    def left_us(self) -> int:
        """How far before the instant at which a session closes there may be events that decide about it.

        If events fill that time, they are known to be a run that is cut, even if the oldest fragment left in part and
        the slot of the newest has not ended.
        """
        return self.max_us + 3 * self.gap_us + 1

    @property
    def right_us(self) -> int:
        """It reaches up to that instant."""
        return 0


@dataclass(frozen=True, slots=True)
class PunctuationWindow:
    """Windows of a group that events open and close, by two predicates.

    An event for which `opens` holds opens a window, if it is the first since a closing event, or since `max_us` without
    one. The window ends with the first later event for which `closes` holds, and after `max_us` if there is none. So
    what belongs together follows from the events nearby, not from how it all began.
    """

    opens: Hashable
    closes: Hashable
    max_us: int

    def __post_init__(self) -> None:
        if self.max_us <= 0:
            raise ArgumentError(f"a window from one event to another needs a positive max_us, got {self.max_us}")

    @property
    def is_sliding(self) -> bool:
        """They close by themselves as events come and as the watermark moves."""
        return True

    @property
    def left_us(self) -> int:
        """How far before the instant at which one closes there may be events that decide about it."""
        return 2 * self.max_us + 2

    @property
    def right_us(self) -> int:
        """It reaches up to that instant."""
        return 0


Window = TimeWindow | RowWindow | SessionWindow | PunctuationWindow


def follows_events(window: Window) -> TypeGuard[SessionWindow | PunctuationWindow]:
    """Whether each group has windows of its own, which begin and end with its events."""
    return isinstance(window, (SessionWindow, PunctuationWindow))


def is_unbounded(window: Window) -> bool:
    """Whether a window covers everything since the start."""
    return isinstance(window, TimeWindow) and window.is_unbounded


def reports_by_substream(window: Window) -> bool:
    """Whether a window slides over the rows of each substream, so that no instant closes it for all of them."""
    return isinstance(window, RowWindow) and window.is_sliding and bool(window.partition_by)
