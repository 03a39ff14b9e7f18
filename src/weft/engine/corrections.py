"""Corrections: answers that were reported and that a late event changed, reported again.

Late events are also kept by themselves, in a store of the tree that they belong to. The windows that this store says
it covers, up to the last one reported, are exactly those whose answers changed: they are answered again from all
events. An answer that no longer passes HAVING comes as NULL.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from weft.aggregates.lowering import Lowered
from weft.engine.answers import QueryAnswers
from weft.engine.closed import ClosedWindows
from weft.engine.generation import TreeState
from weft.engine.slot_store import SlotStore
from weft.windows.slots import lengths_of

Ints = npt.NDArray[np.int64]


def corrected_answers(state: TreeState, late: SlotStore, closed_us: int) -> Iterator[QueryAnswers]:
    """The answers of windows that end up to `closed_us` and cover late events."""
    late_closed = late.close(state.queries.values(), state.windows, None, closed_us)
    touched = {closed.planned.query.name: closed for closed in late_closed}
    if not touched:
        return
    oldest = min(_ends(closed).min() for closed in touched.values())
    for closed in state.close(int(oldest) - 1, closed_us):
        name = closed.planned.query.name
        if name in touched:
            yield from _answers(closed, _among(closed, touched[name]))


def _answers(closed: ClosedWindows, rows: Ints) -> Iterator[QueryAnswers]:
    chosen = closed.from_rows(rows)
    if not len(chosen):
        return
    length, slide = lengths_of(chosen.planned.query.window)
    starts = chosen.instances * slide
    answers = chosen.answers(starts, starts + length)
    if len(answers):
        yield answers
    if chosen.planned.query.having is not None and len(answers) < len(chosen):
        kept = set(zip(answers.keys.tolist(), answers.instances.tolist()))
        places = list(zip(chosen.fold.keys.tolist(), chosen.instances.tolist()))
        withdrawn = np.array([row for row, place in enumerate(places) if place not in kept], np.int64)
        yield _nothing(chosen, withdrawn, starts[withdrawn], length)


def _nothing(closed: ClosedWindows, rows: Ints, starts: Ints, length: int) -> QueryAnswers:
    """Rows of NULL for answers that are withdrawn."""
    query, fold = closed.planned.query, closed.fold
    lowered = dict.fromkeys(query.aggregates, Lowered(np.zeros(len(rows)), None, np.zeros(len(rows), np.bool_)))
    return QueryAnswers(
        query, starts, starts + length, fold.keys[rows], fold.groups, lowered, instances=closed.instances[rows]
    )


def _among(closed: ClosedWindows, touched: ClosedWindows) -> Ints:
    """The rows of windows and groups that are also among those touched; the two count groups each their own way."""
    columns = touched.fold.groups.decode(touched.fold.keys)
    names = closed.fold.groups.names
    keys = closed.fold.groups.table.ids([columns[name] for name in names], len(touched))
    lowest = min(closed.instances.min(), touched.instances.min())
    span = max(closed.instances.max(), touched.instances.max()) - lowest + 1
    wanted = keys * span + touched.instances - lowest
    return np.flatnonzero(np.isin(closed.fold.keys * span + closed.instances - lowest, wanted))


def _ends(closed: ClosedWindows) -> Ints:
    length, slide = lengths_of(closed.planned.query.window)
    return closed.instances * slide + length
