"""Chains: how many events a second a stream of answers has, so that queries of answers are planned with the others."""

from __future__ import annotations

from dataclasses import replace

from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.planning.cost import Prices
from panewise.windows import PunctuationWindow, RowWindow, SessionWindow, TimeWindow
from panewise.windows.slots import lengths_of

SECOND_US = 1_000_000


def prices_over(workload: Workload, stream: Stream, prices: Prices) -> Prices:
    """The prices of queries over a stream; one of answers has as many events as there are answers.

    Cost: O(length of the chain).
    """
    if stream.answers_over is None or stream.name not in workload.queries:
        return prices
    below = prices_over(workload, workload.streams[stream.answers_over], prices)
    return replace(prices, rate=answers_per_s(workload.queries[stream.name], below))


def answers_per_s(query: Query, prices: Prices) -> float:
    """About how many answers a sliding query has a second: one for each window that ends, and each group in it."""
    groups, window = float(prices.groups_of(query.group_by)), query.window
    if isinstance(window, RowWindow):
        assert window.slide is not None
        at_once = 1.0 if window.partition_by else min(groups, float(window.left))
        return prices.rate * at_once / window.slide
    if isinstance(window, SessionWindow):
        return min(prices.rate, groups * SECOND_US / window.gap_us)
    if isinstance(window, PunctuationWindow):
        return min(prices.rate, groups * SECOND_US / window.max_us)
    assert isinstance(window, TimeWindow)
    assert window.slide_us is not None
    # No more than the events, each in every window that covers it.
    in_window = min(groups, max(1.0, prices.rate * lengths_of(window)[0] / SECOND_US))
    return in_window * SECOND_US / window.slide_us
