"""Lookups: on-demand queries answered from the event log.

The events that the window covers are picked and combined as one slot: materialize none, of Arasu and Widom, section 3.
A structure that keeps partials over the log takes the place of this file's recomputation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.lowering import Lowered
from weft.aggregates.types import Type
from weft.engine.answers import NO_TIME, Groups, QueryAnswers
from weft.engine.combine import Combiner
from weft.engine.event_log import EventLog
from weft.engine.having import HavingIndexes
from weft.engine.projection import project
from weft.engine.slot_store import SlotStore
from weft.engine.tables import KeyTable
from weft.language.expressions import AggregateCall
from weft.language.model import Query, Stream
from weft.planning.optimize import plan_lookup
from weft.windows import RowWindow, TimeWindow

Ints = npt.NDArray[np.int64]


def lookup_answers(
    stream: Stream, query: Query, log: EventLog, at_us: int | None, since_us: int | None, having: HavingIndexes
) -> QueryAnswers:
    """The answers of an on-demand query at a time; `at_us` is None while there has been neither event nor watermark.

    Where a collective index knows which groups can pass HAVING, only their events are read.
    """
    if at_us is None:
        return _over_nothing(stream, query, NO_TIME, NO_TIME)
    rows = log.covered(query.window, at_us, since_us)
    pending = rows[rows >= log.final_held]
    numbers = having.numbers_of(query, at_us, log.events.take(pa.array(pending)))
    if numbers is not None:
        rows = np.concatenate([log.rows_of(numbers), pending])
    covered = log.events.take(pa.array(rows)).combine_chunks()
    batch = covered.to_batches()[0] if len(rows) else pa.RecordBatch.from_pylist([], log.schema)
    times = np.asarray(batch.column(stream.timestamp))
    plan = plan_lookup(stream, query)
    (tree,) = plan.trees
    store = SlotStore(plan, tree)
    (base,) = plan.bases
    store.append(Combiner(plan, project(plan, batch)).partials(base, np.zeros(len(rows), np.int64)))
    for closed in store.close(tree.queries, None, None):
        groups = closed.fold.groups.decode(closed.fold.keys)
        return closed.answers(*_times(stream, query, at_us, batch, times, groups, len(closed)))
    return _over_nothing(stream, query, *_covered_times(query, at_us, times))


def _over_nothing(stream: Stream, query: Query, start_us: int, end_us: int) -> QueryAnswers:
    """One row of counts 0 and NULLs for an ungrouped query, no row for a grouped one."""
    size = 0 if query.group_by else 1
    lowered = {call: _nothing(call, size) for call in query.aggregates}
    starts, ends, keys = np.full(size, start_us), np.full(size, end_us), np.zeros(size, np.int64)
    return QueryAnswers(query, starts, ends, keys, Groups((), KeyTable([])), lowered).having(stream)


def _nothing(call: AggregateCall, size: int) -> Lowered:
    counts = CATALOGUE[call.function].result is Type.BIGINT
    return Lowered(np.zeros(size), np.zeros(size, np.int64) if counts else None, np.full(size, counts))


def _covered_times(query: Query, at_us: int, times: Ints) -> tuple[int, int]:
    """Where the window starts and ends: its bounds in time, or the times of its first and last row."""
    match query.window:
        case TimeWindow():
            return at_us - query.window.left_us, at_us - query.window.right_us
        case RowWindow():
            return (int(times[0]), int(times[-1])) if len(times) else (at_us, at_us)


def _times(
    stream: Stream,
    query: Query,
    at_us: int,
    batch: pa.RecordBatch,
    times: Ints,
    groups: dict[str, pa.Array],
    size: int,
) -> tuple[Ints, Ints]:
    """The start and end of each answer; with PARTITION BY, those of the rows covered in its substream."""
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
