"""Cuts: the instants at which an advance over a long past is cut, so that what is closed at once stays small.

Cost: O(queries); nothing if few windows end. The number of answers between two cuts is estimated from the groups and
the fragments that are held; a part has at least one end of the window that slides fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from panewise.engine.generation import TreeState
from panewise.engine.partial_store import Extent
from panewise.planning.trees import PlannedQuery
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.slots import lengths_of, most_lengths_of

CELLS = 4_000_000
"""About how many answers are made at once."""
FEW_ENDS = 4
"""So many ends of windows are never cut apart."""


def cuts_of(trees: Sequence[TreeState], after_us: int | None, until_us: int) -> list[int]:
    """Where to stop on the way to `until_us`, which is the last; windows up to `after_us` have closed."""
    slides = [lengths_of(window)[1] for state in trees for window in state.windows]
    if not slides or (after_us is not None and until_us - after_us <= FEW_ENDS * min(slides)):
        return [until_us]
    # The queries of some trees still wait.
    at_work = [state for state in trees if state.windows]
    held = [(state, extent) for state in at_work if (extent := state.store.extent()) is not None]
    if not held:
        return [until_us]
    first_us = min(extent.first for _, extent in held)
    last_us = max(extent.last + max(most_lengths_of(window)[0] for window in state.windows) for state, extent in held)
    first_us = first_us if after_us is None else max(first_us, after_us)
    last_us = last_us if until_us == END_OF_STREAM else min(last_us, until_us)
    cells_a_us = sum(_cells_a_us(planned, extent) for state, extent in held for planned in state.queries.values())
    step_us = max(min(slides), int(CELLS / max(cells_a_us, 1e-30)))
    return [*(first_us + step_us * place for place in range(1, ceil((last_us - first_us) / step_us))), until_us]


def _cells_a_us(planned: PlannedQuery, extent: Extent) -> float:
    """About how many answers a query has for each microsecond of the stream, aggregates counted apart."""
    length, slide = lengths_of(planned.query.window)
    covered = extent.rows * length / max(extent.last - extent.first, 1)
    return min(extent.groups, covered) * len(planned.query.aggregates) / slide
