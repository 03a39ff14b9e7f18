"""Edges: the instants at which some window of a set opens or closes.

A window with range r and slide s has edges at k * s and at k * s + (r mod s): two fragments a slide, or one when the
slide divides the range. Source: Krishnamurthy, Wu and Franklin, SIGMOD 2006; Guirguis et al., section 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from panewise.windows.periodic import PeriodicSet
from panewise.windows.slots import lengths_of, spans_of
from panewise.windows.window import Window


def edge_set(window: Window) -> PeriodicSet:
    """The edges of a sliding window, for ever.

    >>> from panewise.windows import RowWindow
    >>> edge_set(RowWindow(10, slide=6))
    PeriodicSet(period=6, residues=(0, 4))
    """
    spans = spans_of(window)
    slide = spans[0][1]
    return PeriodicSet.of(slide, [edge for length, _, offset in spans for edge in (offset, offset + length)])


def edges_of(window: Window) -> list[int]:
    """The edges of one slide, in (0, slide].

    >>> from panewise.windows import TimeWindow
    >>> edges_of(TimeWindow(12, slide_us=9)), edges_of(TimeWindow(10, slide_us=6))
    ([3, 9], [4, 6])
    """
    return edge_set(window).up_to(lengths_of(window)[1])


def composite_edges(windows: Iterable[Window]) -> list[int]:
    """The edges of a set of windows over one composite slide: the least common multiple of the slides.

    >>> from panewise.windows import TimeWindow
    >>> composite_edges([TimeWindow(12, slide_us=9), TimeWindow(10, slide_us=6)])
    [3, 4, 6, 9, 10, 12, 16, 18]
    """
    windows = list(windows)
    composite = lcm(*(lengths_of(window)[1] for window in windows))
    return sorted({edge for window in windows for edge in edge_set(window).up_to(composite)})
