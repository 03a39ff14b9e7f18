"""Lookups: on-demand queries answered by structures, or from the event log.

Structures answer the queries that were planned for them. For the others, the events that the window covers are picked
and combined as one slot: "materialize none" of Arasu and Widom, section 3. Queries with WITHIN ask TimeGrams first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.lowering import Lowered
from panewise.arrays import Floats, Ints
from panewise.engine.answers import NO_TIME, Groups, QueryAnswers
from panewise.engine.asked import Asked
from panewise.engine.combine import Combiner
from panewise.engine.event_log import EventLog, one_batch
from panewise.engine.on_demand.kernel_answers import Arrays
from panewise.engine.on_demand.scalars import Values, as_scalars
from panewise.engine.on_demand.sequence import S
from panewise.engine.on_demand.served import Keys, labelled_aggregates
from panewise.engine.on_demand.shared_structures import EventStructures, SharedStructures
from panewise.engine.projection import project
from panewise.engine.slot_store import SlotStore
from panewise.engine.tables import KeyTable
from panewise.engine.within import Looked, TimeGrams
from panewise.language.expressions import AggregateCall, Expression
from panewise.language.model import Query, Stream
from panewise.planning.optimize import plan_lookup
from panewise.windows import RowWindow, TimeWindow


def lookup_answers(
    stream: Stream,
    query: Query,
    log: EventLog,
    at_us: int | None,
    since_us: int | None,
    within: TimeGrams,
    structures: EventStructures,
    keys: Keys | None = None,
) -> QueryAnswers:
    """The answers of an on-demand query at a time; `at_us` is None while there has been neither event nor watermark.

    If TimeGrams give intervals that are narrow enough for WITHIN, only pending events are read. With `keys`, only these
    groups are answered.
    """
    if at_us is None:
        return over_nothing(stream, query, NO_TIME, NO_TIME)
    looked = within.lookup(query, log, at_us, since_us)
    if looked is not None:
        return of_intervals(query, looked, *_covered_times(query, at_us, looked.times))
    answered = structures.lookup(query, log, at_us, since_us, keys)
    if answered is not None:
        return answered
    return _from_log(stream, query, log, at_us, since_us, keys)


def structure_arrays(
    structures: SharedStructures[S], query: Query, source: S, at: int, since_us: int | None, keys: Keys
) -> tuple[Arrays, int] | None:
    """The answers of some groups by the names of SELECT, and how many do not fit in 64 bits.

    A group without an answer is masked. None if structures do not tell, and what the window covers must be read.
    """
    arrays = structures.lookup_arrays(query, source, at, since_us, keys)
    if arrays is not None:
        return arrays
    found = structures.lookup_many(query, source, at, since_us, keys)
    return None if found is None else (_scattered(query, found.places, found.lowered, keys), found.overflows)


def arrays_of(answers: QueryAnswers, keys: Keys) -> Arrays:
    """The answers of the groups that were asked for, in their order; a group without an answer is masked."""
    size = len(next(iter(keys.values())))
    return _scattered(answers.query, *_places_of(answers, keys, size), keys)


def first_values(answers: QueryAnswers) -> Values | None:
    """The answers of the first group by the names of SELECT; None if there is no group."""
    if not len(answers):
        return None
    values: Values = {}
    for label, call in labelled_aggregates(answers.query):
        value, exact = as_scalars(answers.lowered[call])
        values[label] = value if exact is None else exact
    return values


def _scattered(query: Query, places: Ints, lowered: Mapping[Expression, Lowered], keys: Keys) -> Arrays:
    """Answers at their places among the groups that were asked for, the others masked."""
    size = len(next(iter(keys.values())))
    return {label: _at_places(places, lowered[call], size) for label, call in labelled_aggregates(query)}


def _at_places(places: Ints, lowered: Lowered, size: int) -> np.ma.MaskedArray[Any, Any]:
    """Answers at their places in an array of the given size, the others masked."""
    values = lowered.values if lowered.exact is None else lowered.exact
    if len(places) == size:
        return np.ma.MaskedArray(values, np.ma.nomask if lowered.valid.all() else ~lowered.valid)
    out, mask = np.zeros(size, values.dtype), np.ones(size, np.bool_)
    out[places] = values
    mask[places] = ~lowered.valid
    return np.ma.MaskedArray(out, mask)


def _places_of(answers: QueryAnswers, keys: Keys, size: int) -> tuple[Ints, dict[Expression, Lowered]]:
    """Which of some groups have an answer, and their answers; a group may be asked for twice."""
    if not len(answers):
        return np.empty(0, np.int64), dict(answers.from_rows(np.empty(0, np.int64)).lowered)
    wanted = answers.groups.table.find([keys[name] for name in answers.groups.names], size)
    row_of = np.full(len(answers.groups.table) + 1, -1, np.int64)
    row_of[answers.keys] = np.arange(len(answers))
    rows = row_of[wanted]
    places = np.flatnonzero(rows >= 0)
    return places, dict(answers.from_rows(rows[places]).lowered)


def _from_log(
    stream: Stream,
    query: Query,
    log: EventLog,
    at_us: int,
    since_us: int | None,
    keys: Keys | None,
) -> QueryAnswers:
    """The answers from the events that the window covers, of some groups or of all."""
    rows = log.covered(query.window, at_us, since_us)
    batch = one_batch(log.events.take(pa.array(rows)))
    times = np.asarray(batch.column(stream.timestamp))
    plan = plan_lookup(stream, query)
    (tree,) = plan.trees
    store = SlotStore(plan, tree)
    (base,) = plan.bases
    read = batch if keys is None else _of_keys(stream, batch, keys)
    store.append(Combiner(plan, project(plan, read)).partials(base, np.zeros(read.num_rows, np.int64)))
    for closed in store.close(Asked(tree.queries), None, None):
        groups = closed.fold.groups.decode(closed.fold.keys)
        return closed.answers(*_times(stream, query, at_us, batch, times, groups, len(closed)))
    return over_nothing(stream, query, *_covered_times(query, at_us, times))


def _of_keys(stream: Stream, batch: pa.RecordBatch, keys: Keys) -> pa.RecordBatch:
    """The events of some groups."""
    table = KeyTable([stream.attributes[name] for name in keys])
    table.ids(list(keys.values()), len(next(iter(keys.values()))))
    found = table.find([batch.column(name) for name in keys], batch.num_rows)
    return batch.filter(pa.array(found >= 0))


def over_nothing(stream: Stream, query: Query, start_us: int, end_us: int) -> QueryAnswers:
    """One row of counts 0 and NULLs for an ungrouped query, no row for a grouped one."""
    size = 0 if query.group_by else 1
    lowered: dict[Expression, Lowered] = {call: nothing(call, size) for call in query.aggregates}
    starts, ends, keys = np.full(size, start_us), np.full(size, end_us), np.zeros(size, np.int64)
    answers = QueryAnswers(query, starts, ends, keys, Groups((), KeyTable([])), lowered)
    return answers.having(stream).with_computed(stream)


def of_intervals(query: Query, looked: Looked, start_us: int, end_us: int) -> QueryAnswers:
    """One row, of the middles of the intervals."""
    known = {call: interval for call, interval in looked.intervals.items() if interval is not None}
    lowered: dict[Expression, Lowered] = {call: nothing(call, 1) for call in looked.intervals.keys() - known.keys()}
    for call, interval in known.items():
        exact = None if interval.exact is None else np.array([interval.exact])
        lowered[call] = Lowered(np.array([interval.middle]), exact, np.ones(1, np.bool_))
    bounds: dict[Expression, tuple[Floats, Floats]] = {
        call: (np.array([interval.low]), np.array([interval.high])) for call, interval in known.items()
    }
    starts, ends, keys = np.array([start_us]), np.array([end_us]), np.zeros(1, np.int64)
    return QueryAnswers(query, starts, ends, keys, Groups((), KeyTable([])), lowered, bounds)


def nothing(call: AggregateCall, size: int) -> Lowered:
    """What an aggregate answers over no event, some times: a count is 0, anything else NULL."""
    counts = CATALOGUE[call.function].fewest == 0
    return Lowered(np.zeros(size), np.zeros(size, np.int64) if counts else None, np.full(size, counts))


def _covered_times(query: Query, at_us: int, times: Ints) -> tuple[int, int]:
    """Where the window starts and ends: its bounds in time, or the times of its first and last row."""
    window = query.window
    if isinstance(window, RowWindow):
        return (int(times[0]), int(times[-1])) if len(times) else (at_us, at_us)
    assert isinstance(window, TimeWindow)
    return at_us - window.left_us, at_us - window.right_us


def _times(
    stream: Stream,
    query: Query,
    at_us: int,
    batch: pa.RecordBatch,
    times: Ints,
    groups: dict[str, pa.Array],
    size: int,
) -> tuple[Ints, Ints]:
    """The start and end of each answer; with PARTITION BY, the times of the rows covered in its substream."""
    if not isinstance(query.window, RowWindow) or not query.window.partition_by:
        start, end = _covered_times(query, at_us, times)
        return np.full(size, start), np.full(size, end)
    attributes = query.window.partition_by
    table = KeyTable([stream.attributes[name] for name in attributes])
    owner = table.ids([batch.column(name) for name in attributes], len(times))
    first, last = np.empty(len(table), np.int64), np.empty(len(table), np.int64)
    last[owner] = times
    first[owner[::-1]] = times[::-1]
    partition = table.ids([groups[name] for name in attributes], size)
    return first[partition], last[partition]
