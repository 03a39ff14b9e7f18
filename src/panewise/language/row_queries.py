"""Row queries: queries whose answers are rows, not aggregates. One class an operator, as values.

They are the operators of Golab, Garg and Özsu ("On Indexing Sliding Windows over On-line Data Streams", 2004,
section 3) that need more than an aggregate: a histogram or the most frequent values of a window, the values that two
windows share, a window in sorted order, a join of two windows, and the plain selection. Input and output may each be
windowed or not, which makes the paper's four modes: `into` is the window that holds the output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import gcd

from panewise.language.expressions import Expression, QualifiedAttribute
from panewise.windows import TimeWindow, Window
from panewise.windows.slots import lengths_of

EVERY = "evaluated_every"
"""The column that says how often windows were evaluated."""

MOST_BASIC_WINDOWS = 2**20
"""The most basic windows that a window can have."""


@dataclass(frozen=True)
class BasicWindows:
    """How a sliding window is cut: `count` basic windows of `length` (us or rows), answered after every `every`."""

    length: int
    count: int
    every: int

    @staticmethod
    def of(window: Window, count: int | None = None) -> BasicWindows:
        """The longest possible basic windows: every start and end of the window falls between two of them.

        A `count` that fits gives shorter ones.

        >>> BasicWindows.of(TimeWindow(12, slide_us=9))
        BasicWindows(length=3, count=4, every=3)
        >>> BasicWindows.of(TimeWindow(12, slide_us=9), 12)
        BasicWindows(length=1, count=12, every=9)
        """
        range_length, slide = lengths_of(window)
        length = gcd(range_length, slide) if count is None else range_length // count
        return BasicWindows(length, range_length // length, slide // length)


@dataclass(frozen=True)
class Using:
    """What USING names: an index over a storage, or a ring over an index."""

    upper: str
    lower: str


@dataclass(frozen=True)
class Evaluation:
    """How often the windows of a query are evaluated: those whose number is a multiple of `every`.

    The number of a window is how many slides lie before its end. With `most`, evaluation may get rarer, up to each
    `most`-th window: when an advance completes more than `priority` windows that are due.
    """

    every: int = 1
    most: int | None = None
    priority: int = 10

    def under(self, due: int) -> int:
        """How often windows are evaluated in an advance that completes so many that are due.

        >>> [Evaluation(2, 16, 10).under(due) for due in (10, 11, 35, 1000)]
        [2, 4, 8, 16]
        """
        if self.most is None or due <= self.priority:
            return self.every
        return min(self.every * -(-due // self.priority), self.most)


@dataclass(frozen=True)
class RowColumn:
    """A column of the rows: an expression, and the name it was given, if any."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True)
class JoinSide:
    """One input of a join: a stream and its window; `name` is the prefix of its attributes."""

    stream: str
    window: Window
    name: str


@dataclass(frozen=True)
class IntersectionSide:
    """One window of an intersection."""

    stream: str
    window: Window
    argument: Expression
    where: Expression | None = None


@dataclass(frozen=True, kw_only=True)
class RowQuery(ABC):
    """What all row queries have."""

    name: str
    into: Window | None = None
    using: Using | None = None
    basic_windows: int | None = None
    """Into how many basic windows its window is cut (of two, the left one); None for as few as possible."""
    evaluation: Evaluation = Evaluation()

    @property
    @abstractmethod
    def streams(self) -> tuple[str, ...]:
        """The streams that it reads, each once."""


@dataclass(frozen=True, kw_only=True)
class WindowQuery(RowQuery):
    """An operator over the sliding window of one stream."""

    stream: str
    window: Window
    where: Expression | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """The one stream."""
        return (self.stream,)


@dataclass(frozen=True, kw_only=True)
class ValueQuery(WindowQuery):
    """An operator over the values of a window, or over those of each group in it."""

    argument: Expression
    group_by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HistogramQuery(ValueQuery):
    """Every value of the window and how often it occurs; with a `width`, ranges of values instead.

    A `width` of several numbers has the bounds between ranges.
    """

    width: int | float | tuple[int | float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TopKQuery(ValueQuery):
    """The k most frequent values of the window."""

    k: int


@dataclass(frozen=True, kw_only=True)
class DistinctQuery(ValueQuery):
    """The different values of the window."""


@dataclass(frozen=True, kw_only=True)
class SortedQuery(WindowQuery):
    """The window, or each group in it, sorted by one attribute; it shows some columns."""

    columns: tuple[RowColumn, ...]
    by: str
    group_by: tuple[str, ...] = ()
    descending: bool = False
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class TwoSidedQuery(RowQuery):
    """An operator over the windows of two streams, or over two windows of one."""

    left: IntersectionSide | JoinSide
    right: IntersectionSide | JoinSide

    @property
    def streams(self) -> tuple[str, ...]:
        """The two streams, or the one that is on both sides."""
        return tuple(dict.fromkeys((self.left.stream, self.right.stream)))


@dataclass(frozen=True, kw_only=True)
class IntersectionQuery(TwoSidedQuery):
    """The values that two windows share, or the ranges of values when there is a `width`.

    With another `operation`: the values of either window (UNION), or those of the left that the right lacks (EXCEPT).
    """

    left: IntersectionSide
    right: IntersectionSide
    width: int | float | None = None
    operation: str = "INTERSECT"


@dataclass(frozen=True, kw_only=True)
class JoinQuery(TwoSidedQuery):
    """The pairs of events with equal keys, each within the other's window when it came."""

    left: JoinSide
    right: JoinSide
    left_keys: tuple[QualifiedAttribute, ...]
    right_keys: tuple[QualifiedAttribute, ...]
    """Keys that are equated, pair by pair."""
    columns: tuple[RowColumn, ...]
    where: Expression | None = None


@dataclass(frozen=True, kw_only=True)
class SelectionQuery(RowQuery):
    """The events that pass a condition, as they come."""

    stream: str
    columns: tuple[RowColumn, ...]
    where: Expression | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """The one stream."""
        return (self.stream,)


def columns_of(query: RowQuery) -> tuple[str, ...]:
    """The columns that every row of such a query has besides the selected ones.

    If evaluation may get rarer, each row says how often windows were evaluated when its own was.
    """
    columns = _own_columns(query)
    return columns if query.evaluation.most is None else (*columns[:2], EVERY, *columns[2:])


def _own_columns(query: RowQuery) -> tuple[str, ...]:
    match query:
        case HistogramQuery(width=None, group_by=groups):
            return ("window_start", "window_end", *groups, "value", "count")
        case HistogramQuery(group_by=groups):
            return ("window_start", "window_end", *groups, "low", "high", "count")
        case TopKQuery(group_by=groups):
            return ("window_start", "window_end", *groups, "rank", "value", "count")
        case DistinctQuery(group_by=groups):
            return ("window_start", "window_end", *groups, "value")
        case IntersectionQuery(width=None):
            return ("window_start", "window_end", "value", "left_count", "right_count")
        case IntersectionQuery():
            return ("window_start", "window_end", "low", "high", "left_count", "right_count")
        case SortedQuery():
            return ("window_start", "window_end", "position")
        case _:
            return ("time",)


def clock_of(window: Window) -> str:
    """What a window counts: "time" or "rows"."""
    return "time" if isinstance(window, TimeWindow) else "rows"
