"""Whether a query with WITHIN is answered as an interval by a TimeGram, or exactly.

A TimeGram knows bounds of MAX, MIN, SUM and AVG without reading the window's events (TR1536, section 3), and counts are
differences of positions. A lookup takes a step for each bucket and aggregate, plus its part of the steps that keep the
TimeGram up to date. That pays if it is less than reading the window's events, and less than the cost of structures that
answer exactly: with few buckets, and many aggregates of the same values. `USING timegram` makes the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from panewise.aggregates.catalogue import CATALOGUE, carrier_of
from panewise.aggregates.types import Type
from panewise.errors import PanewiseError
from panewise.language.expressions import AggregateCall, Expression
from panewise.language.model import Query, Stream
from panewise.language.printer import print_expression
from panewise.language.typecheck import type_of
from panewise.language.words import TIMEGRAM
from panewise.windows import RowWindow, TimeWindow, is_unbounded

ASSUMED_UPDATES = 100
"""The assumed number of events between two lookups."""
ASSUMED_MAGNITUDE = 0.5
"""The assumed size of an answer relative to the range of the values."""
FEWEST_STEPS = 100.0
"""The fixed cost of asking a TimeGram, in events read."""
FEWEST_BUCKETS = 16
MOST_BUCKETS = 8_192
"""With more buckets, most work is in the blocks at a window's two ends: a block is as long as the number of buckets."""


@dataclass(frozen=True)
class WithinPlan:
    """How a query with WITHIN is answered; `buckets` is None for an exact answer, and 0 if the query only counts."""

    reason: str
    buckets: int | None = None
    most_buckets: int = 0
    """How far the number of buckets may grow if intervals are too wide."""


def folded_for(function: str) -> str | None:
    """The aggregate that a TimeGram is asked for; None if it cannot help.

    A mean is a sum, divided by an exact count. Counts are differences of positions with any structure.
    """
    entry = CATALOGUE[function]
    return carrier_of(function) if entry.component() is not None and not entry.only_counts else None


def plan_within(stream: Stream, query: Query, rate: float, structures: float = inf) -> WithinPlan | None:
    """The plan of a query's WITHIN at `rate` events a second; None for a query without one.

    `structures` is what an exact lookup through structures takes, in steps, including their updates.
    """
    if query.within is None:
        return None
    refusal = why_exact(stream, query)
    if refusal is not None:
        return WithinPlan(f"exact: {refusal}")
    if query.using not in (None, TIMEGRAM):
        return WithinPlan(f"exact: USING names {query.using}")
    asked = ((call.argument, folded_for(call.function)) for call in query.aggregates)
    folds = {(argument, function) for argument, function in asked if function is not None}
    columns = {call.argument for call in query.aggregates}
    events = _events(query, rate)
    try:
        buckets = max((_assumed_buckets(query.within, function) for _, function in folds), default=0)
    except PanewiseError as error:
        return WithinPlan(f"exact: {error}")
    if buckets > MOST_BUCKETS:
        return WithinPlan(
            f"exact: WITHIN {query.within:g} needs about {buckets:,} buckets, and the limit is {MOST_BUCKETS:,}"
        )
    updates = FEWEST_STEPS + ASSUMED_UPDATES * len(columns)
    cost = updates + buckets * len(folds)
    if query.using is None and cost >= min(events, structures):
        instead = f"reading the window's events takes {events:,}"
        if structures < events:
            instead = f"structures that answer exactly take {structures:,.0f}"
        return WithinPlan(f"exact: a TimeGram would take {cost:,.0f} steps a lookup, and {instead}")
    what = f"a TimeGram of about {buckets:,} buckets answers with an interval" if folds else "counted by position"
    most = min(MOST_BUCKETS, int((events - updates) / len(folds))) if folds else 0
    text = f"{what} in {cost:,.0f} steps a lookup; reading the window's events takes {events:,}"
    if structures < inf:
        text += f", and structures that answer exactly take {structures:,.0f}"
    return WithinPlan(text, buckets, max(most, buckets))


def why_exact(stream: Stream, query: Query) -> str | None:
    """Why no TimeGram can serve a query at any rate; None if one can."""
    if query.window.is_sliding:
        return "windows that slide are answered from shared partials"
    if is_unbounded(query.window):
        return "a running total answers what goes back to the start, and is exact"
    if query.group_by:
        return "a TimeGram follows the whole stream, and the query has groups"
    if query.having is not None:
        return "HAVING compares exact answers"
    for call in query.aggregates:
        text = print_expression(call)
        is_folded = folded_for(call.function) is not None
        if not is_folded and not CATALOGUE[call.function].only_counts:
            return f"a TimeGram does not answer {text}"
        if is_folded and _argument_type(stream, call) not in (Type.BIGINT, Type.DOUBLE):
            return f"{text} is not a number, and has no relative width"
    return None


def may_be_interval(stream: Stream, query: Query, call: Expression) -> bool:
    """Whether an answer may be an interval wider than a point; what is computed from aggregates never is."""
    if not isinstance(call, AggregateCall):
        return False
    if not CATALOGUE[call.function].is_exact:
        return True
    return query.within is not None and folded_for(call.function) is not None and why_exact(stream, query) is None


def buckets_from_values(query: Query, functions: set[str], low: float, high: float) -> int:
    """The buckets that functions of values from low to high need for a query's WITHIN; 0 if that is not known.

    It is not known for answers that may be near 0: no interval is small relative to these. Such answers are often exact
    or narrow anyway, as a TimeGram keeps the sums and extremes of whole blocks.
    """
    from panewise.structures.timegram_buckets import buckets_for

    assert query.within is not None
    most = 0
    for function in functions:
        try:
            most = max(most, buckets_for(query.within, function, low, high))
        except PanewiseError:
            continue
    return most


def _assumed_buckets(within: float, function: str) -> int:
    # Loaded here and not above: most workloads have no WITHIN, and structures are compiled code.
    from panewise.structures.timegram_buckets import buckets_for

    return max(FEWEST_BUCKETS, buckets_for(within, function, 0.0, 1.0, magnitude=ASSUMED_MAGNITUDE))


def _argument_type(stream: Stream, call: AggregateCall) -> Type | None:
    return None if call.argument is None else type_of(call.argument, stream.attributes)


def _events(query: Query, rate: float) -> int:
    """How many events a lookup would read."""
    window = query.window
    if isinstance(window, RowWindow):
        return window.rows
    assert isinstance(window, TimeWindow)
    return max(1, int(rate * window.range_us / 1e6))
