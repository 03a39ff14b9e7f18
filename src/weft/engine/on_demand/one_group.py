"""One group: its answers in one window, from final and pending events, without arrays where that is possible.

Cost: a few kernel calls, one for the positions and one or two for each column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.aggregates.lowering import AnswerOverflowError
from weft.engine.event_log import EventLog
from weft.engine.on_demand.columns import HeldColumn
from weft.engine.on_demand.scalars import Answer, FoldedOne, Joined, as_scalars, plain_answer
from weft.engine.on_demand.sequence import Events
from weft.engine.on_demand.served import Served
from weft.engine.on_demand.shared import PendingRanges, Ranges, SharedStructures


class FoundOne(NamedTuple):
    """The answers of one group in the order of the query's aggregates; None where the window covers no event of it."""

    start_us: int
    end_us: int
    answers: list[Answer] | None


def find_one(
    structures: SharedStructures, served: Served, log: EventLog, at_us: int, since_us: int | None, code: int
) -> FoundOne | None:
    """The answers of one group that there is, for which all is prepared; None when the window's events must be read."""
    sequence = served.sequence
    from_number, to_number, start_us, end_us = served.coverage_of_one(log, at_us, since_us, code)
    low, high = sequence.final.positions_of_one(code, from_number, to_number)
    pending, pending_low, pending_high = None, 0, 0
    if to_number > log.final_count:
        pending = sequence.pending(log)
        if pending.has(code):
            pending_low, pending_high = pending.positions_of_one(code, from_number, to_number)
        if pending_low == pending_high:
            pending = None
    width = high - low + pending_high - pending_low
    if not width and sequence.group_by:
        return FoundOne(start_us, end_us, None)
    if not served.is_plain:
        ranges = low, high, pending_low, pending_high
        lowered = _lower(structures, served, pending or sequence.pending(log), code, *ranges)
        return None if lowered is None else FoundOne(start_us, end_us, lowered)
    folded: dict[HeldColumn, FoldedOne] = {}
    for column in served.columns:
        own: FoldedOne = sequence.final.fold_one(column, code, low, high)
        if pending is not None:
            own = Joined(own, pending.fold_one(column, code, pending_low, pending_high))
        folded[column] = own
        column.lookups += 1
        column.covered += width
    return FoundOne(start_us, end_us, _plain_answers(served, folded, width))


def _plain_answers(served: Served, folded: dict[HeldColumn, FoldedOne], width: int) -> list[Answer]:
    try:
        return [
            (float(width), width) if one.column is None else plain_answer(one.call.function, folded[one.column])
            for one in served.aggregates
        ]
    except AnswerOverflowError as error:
        raise AnswerOverflowError(f"query {served.query.name}: {error}") from None


def _lower(
    structures: SharedStructures,
    served: Served,
    pending: Events,
    code: int,
    low: int,
    high: int,
    pending_low: int,
    pending_high: int,
) -> list[Answer] | None:
    """The answers by way of arrays."""
    of_pending = None
    if pending_high > pending_low:
        of_pending = PendingRanges(None, np.array([pending_low]), np.array([pending_high]))
    widths = np.array([high - low + pending_high - pending_low])
    ranges = Ranges(np.array([code]), np.array([low]), np.array([high]), widths, of_pending)
    lowered = structures.lower_ranges(served, served.aggregates, pending, ranges)
    return None if lowered is None else [as_scalars(one) for one in lowered.values()]
