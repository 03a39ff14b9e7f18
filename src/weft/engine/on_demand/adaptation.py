"""Adaptation: another structure for a column once what was observed says that it would take far less work.

A column is looked at again after as many updates and answers as it has elements, so that building a structure anew
costs no more than it was used. Another structure must take a quarter less of the work, twice in a row: rates that go up
and down do not make a column go to and fro. What all structures take alike, to bring an event to its key and to find
which of a key's events a window covers, is part of the work: where that is most of it, there is nothing to gain.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.engine.on_demand.columns import ColumnKey, HeldColumn
from weft.language.model import Query, Stream
from weft.planning.structure_choice import Rates, candidates, shape_for, work_per_s

FEWEST_USES = 10_000
"""Updates and answers before a column is looked at again."""
MARGIN = 4 / 3
WINS = 2
UPDATE_STEPS, LOOKUP_STEPS = 20.0, 40.0
"""What an update and an answer take whatever the structure, in combines: a rough estimate, not a measurement."""


@dataclass
class Observed:
    """How a column had been used when it was last looked at, and which structure would have been better since when."""

    updates: int = 0
    lookups: int = 0
    covered: int = 0
    better: str | None = None
    wins: int = 0


def better_structure(
    stream: Stream, column: HeldColumn, observed: Observed, query: Query, elements: int, longest: int
) -> str | None:
    """The structure that a column should change to; None to stay.

    `query` is one that asks it; `elements` is how many it has, and `longest` the most that a key has.
    """
    updates, lookups = column.updates - observed.updates, column.lookups - observed.lookups
    if column.key.carrier == "COUNT" or updates + lookups < max(FEWEST_USES, elements):
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
    """The structure that takes the least work, and how many times as much the column's own takes."""
    shape = shape_for(largest, width)
    functions = {function for several in column.functions.values() for function in several}
    # Which structures can serve is the same for all aggregates of a column.
    call = next(call for call in query.aggregates if ColumnKey.of(call) == column.key)
    able = candidates(stream, query, call)
    works = {name: max(work_per_s(name, function, shape, rates) for function in functions) for name in able}
    best = min(able, key=lambda name: works[name])
    alike = rates.updates_per_s * UPDATE_STEPS + rates.answers_per_s * LOOKUP_STEPS
    return best, (alike + works[column.structure]) / (alike + works[best])
