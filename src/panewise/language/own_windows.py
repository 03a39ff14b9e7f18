"""Windows of single aggregates: `SUM(x) OVER [RANGE 1 HOUR]`, in a query that is reported with every SLIDE.

All windows of a query end together. The window of the query is the longest of them. Once a query is bound, either all
of its aggregates have windows of their own, or none has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from panewise.language.expressions import AggregateCall, Expression, aggregates_of, with_aggregates
from panewise.language.literals import print_duration
from panewise.language.model import SelectItem
from panewise.language.source import PlacedError
from panewise.language.statements import WindowClause
from panewise.windows import TimeWindow, Window

Bound = tuple[Window, tuple[SelectItem, ...], Expression | None]


def with_own_windows(clause: WindowClause, select: tuple[SelectItem, ...], having: Expression | None) -> Bound:
    """The window of a query, its SELECT and its HAVING, given the window that stands behind its stream."""
    calls = [call for expression in _expressions(select, having) for call in aggregates_of(expression)]
    own = [call for call in calls if call.over is not None]
    if not own:
        if clause.is_slide_alone:
            hint = "write SUM(x) OVER [RANGE 1 HOUR]; or one window for all: FROM s [RANGE 1 HOUR SLIDE 5 MINUTES]"
            raise PlacedError("an aggregate has no window", calls[0].span, hint)
        return clause.window, select, having
    window = _sliding(clause.window, own[0])
    for call in calls:
        _check(call, window, clause)
    # An aggregate without OVER has the window behind the stream.
    meant = {call: replace(call, over=call.over or TimeWindow(window.left_us)) for call in calls}
    longest_us = max(call.over.left_us for call in meant.values() if call.over is not None)
    items = tuple(replace(item, expression=with_aggregates(item.expression, meant)) for item in select)
    return replace(window, left_us=longest_us), items, None if having is None else with_aggregates(having, meant)


def _expressions(select: tuple[SelectItem, ...], having: Expression | None) -> Iterator[Expression]:
    yield from (item.expression for item in select)
    if having is not None:
        yield having


def _sliding(window: Window, call: AggregateCall) -> TimeWindow:
    if isinstance(window, TimeWindow) and window.is_sliding and not window.grows:
        return window
    hint = "say how often the query is reported: FROM s SLIDE 5 MINUTES"
    raise PlacedError("OVER is for queries that slide over time", call.span, hint)


def _check(call: AggregateCall, window: TimeWindow, clause: WindowClause) -> None:
    if call.over is None and clause.is_slide_alone:
        raise PlacedError("an aggregate has no window", call.span, "add OVER [RANGE 1 HOUR] behind it")
    range_us, slide_us = (call.over or window).left_us, window.slide_us
    assert slide_us is not None
    if range_us % slide_us:
        message = f"RANGE {print_duration(range_us)} is not a multiple of SLIDE {print_duration(slide_us)}"
        hint = "the windows of a query end together: choose a SLIDE that divides all of their ranges"
        raise PlacedError(message, call.span, hint)
