"""Adaptation: change a column's structure once the observed use shows that another would take far less work.

A column is looked at again after as many updates and answers as it has elements, so that rebuilding a structure costs
no more than its use did. Another structure must save a quarter of the work, twice in a row, so that changing rates do
not make a column switch back and forth. The work includes what all structures share: to bring an event to its key, and
to find which of a key's events a window covers. Where that is most of the work, there is nothing to gain.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.engine.on_demand.columns import ColumnKey, HeldColumn
from panewise.language.model import Query, Stream
from panewise.planning.structure_choice import Rates, candidates, shape_for, work_per_s

FEWEST_USES = 10_000
"""The least number of updates and answers before a column is looked at again."""
MARGIN = 4 / 3
WINS = 2
UPDATE_STEPS, LOOKUP_STEPS = 20.0, 40.0
"""What an update and an answer cost with any structure, in combines: a rough estimate, not a measurement."""


@dataclass
class ObservedColumn:
    """How a column had been used at the last look, which structure would have been better, and for how many looks."""

    updates: int = 0
    lookups: int = 0
    covered: int = 0
    better: str | None = None
    wins: int = 0


def better_structure(
    stream: Stream, column: HeldColumn, observed: ObservedColumn, query: Query, elements: int, longest: int
) -> str | None:
    """The structure that a column should change to; None to stay.

    `query` is one that reads the column; `elements` is how many elements it has, and `longest` the most that a key has.
    """
    updates, lookups = column.updates - observed.updates, column.lookups - observed.lookups
    if column.only_counts or updates + lookups < max(FEWEST_USES, elements):
        return None
    width = max(1, (column.covered - observed.covered) // max(1, lookups))
    observed.updates, observed.lookups, observed.covered = column.updates, column.lookups, column.covered
    best, gain = _best(stream, column, query, Rates(updates, lookups), max(width, longest), width)
    if gain <= MARGIN:
        observed.better, observed.wins = None, 0
        return None
    observed.wins = observed.wins + 1 if best == observed.better else 1
    observed.better = best
    if observed.wins < WINS:
        return None
    observed.better, observed.wins = None, 0
    return best


def _best(
    stream: Stream, column: HeldColumn, query: Query, rates: Rates, largest: int, width: int
) -> tuple[str, float]:
    """The structure that takes the least work, and how many times as much work the column's own structure takes."""
    shape = shape_for(largest, width)
    functions = {function for several in column.functions.values() for function in several}
    # Which structures can serve is the same for all aggregates of a column.
    call = next(call for call in query.aggregates if ColumnKey.of(call) == column.key)
    able = candidates(stream, query, call)
    works = {name: max(work_per_s(name, function, shape, rates) for function in functions) for name in able}
    best = min(able, key=lambda name: works[name])
    alike = rates.updates_per_s * UPDATE_STEPS + rates.answers_per_s * LOOKUP_STEPS
    return best, (alike + works[column.structure]) / (alike + works[best])
