"""One group: its answers in one window, from final and pending elements, without arrays where that is possible.

Cost: one call of a kernel where that can answer; otherwise a few calls for each column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from panewise.engine.answers import overflows_of
from panewise.engine.on_demand.parts import Part
from panewise.engine.on_demand.scalars import Answer, as_scalars
from panewise.engine.on_demand.sequence import S
from panewise.engine.on_demand.served import Served
from panewise.engine.on_demand.shared_structures import PendingRanges, Ranges, SharedStructures


class FoundOne(NamedTuple):
    """The answers of one group in the order of the query's aggregates; None if the window covers nothing of it."""

    start_us: int
    end_us: int
    answers: list[Answer] | None
    overflows: int = 0
    """How many of them are NULL because they do not fit in 64 bits."""


def find_one(
    structures: SharedStructures[S],
    served: Served[S],
    source: S,
    pending: Part,
    at: int,
    since_us: int | None,
    code: int,
) -> FoundOne | None:
    """The answers of one existing group, once everything is prepared; None if what the window covers must be read."""
    coverage, (from_number, to_number, start_us, end_us) = served.coverage_of_one(source, at, since_us, code)
    by_kernel = structures.by_kernel(served)
    if by_kernel is not None:
        found = by_kernel.one(pending, code, coverage)
        if found is not None:
            covered, answers, overflows = found
            return FoundOne(start_us, end_us, answers if covered or not served.sequence.group_by else None, overflows)
    final = served.sequence.final
    low, high = final.positions_of_one(code, from_number, to_number)
    pending_low = pending_high = 0
    if to_number > source.final_count and pending.has(code):
        pending_low, pending_high = pending.positions_of_one(code, from_number, to_number)
    width = high - low + pending_high - pending_low
    if not width and served.sequence.group_by:
        return FoundOne(start_us, end_us, None)
    lowered = _lower(structures, served, pending, code, low, high, pending_low, pending_high)
    return None if lowered is None else FoundOne(start_us, end_us, *lowered)


def _lower(
    structures: SharedStructures[S],
    served: Served[S],
    pending: Part,
    code: int,
    low: int,
    high: int,
    pending_low: int,
    pending_high: int,
) -> tuple[list[Answer], int] | None:
    """The answers by way of arrays, and how many of them do not fit in 64 bits."""
    of_pending = None
    if pending_high > pending_low:
        of_pending = PendingRanges(None, np.array([pending_low]), np.array([pending_high]))
    widths = np.array([high - low + pending_high - pending_low])
    ranges = Ranges(np.array([code]), np.array([low]), np.array([high]), widths, of_pending)
    lowered = structures.lower_ranges(served, served.aggregates, pending, ranges)
    return None if lowered is None else ([as_scalars(one) for one in lowered.values()], overflows_of(lowered))
