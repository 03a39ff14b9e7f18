"""Running totals: what on-demand queries over [UNBOUNDED] fold to, a row for each group and no event.

Events behind the watermark are combined into one slot as they become final. A lookup joins the pending events up to its
time. So it is exact from the newest final event on.
Cost: `append` O(events) a query. A lookup combines the pending events once for all lookups until others come, and then
takes O(log groups) for each group that is asked for, or O(groups). Space: a partial for each group and query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.engine.answers import QueryAnswers
from panewise.engine.as_of.answers import blank_answers
from panewise.engine.asked import Asked
from panewise.engine.combine import Combiner
from panewise.engine.event_log import EventLog, one_batch
from panewise.engine.lookup import arrays_of, over_nothing
from panewise.engine.on_demand.kernel_answers import Arrays
from panewise.engine.on_demand.served import Keys, labelled_aggregates
from panewise.engine.projection import project
from panewise.engine.slot_store import SlotStore
from panewise.errors import HistoryError
from panewise.language.model import Query, Stream
from panewise.planning.optimize import plan_lookup
from panewise.windows.clock import show_time
from panewise.windows.window import NO_START_US

Ints = npt.NDArray[np.int64]


@dataclass
class _Total:
    """One query: the partials of its final events, and the same with the pending ones that were last asked for."""

    query: Query
    since_us: int | None
    final: SlotStore
    joined: SlotStore | None = None
    joined_of: tuple[object, int] | None = None
    """The events of the log, and how many of them are in `joined`."""


class RunningTotals:
    """The on-demand queries of one stream that go back to the start."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._totals: dict[str, _Total] = {}
        self._newest_us: int | None = None
        """The newest event that is final."""

    def __contains__(self, name: str) -> bool:
        return name in self._totals

    def __bool__(self) -> bool:
        return bool(self._totals)

    @property
    def nbytes(self) -> int:
        """The memory of all partials."""
        return sum(total.final.bytes_held for total in self._totals.values())

    def add(self, query: Query, since_us: int | None, log: EventLog) -> None:
        """Follow a query, from the events on that the log holds since a time."""
        plan = plan_lookup(self._stream, query)
        total = _Total(query, since_us, SlotStore(plan, plan.trees[0]))
        self._totals[query.name] = total
        final, _ = log.final_events()
        if since_us is not None:
            final = final.slice(int(np.asarray(final.column(self._stream.timestamp)).searchsorted(since_us)))
        if final.num_rows:
            _combine(total.final, one_batch(final))
            self._note(final)

    def remove(self, name: str) -> None:
        """Forget a query."""
        self._totals.pop(name, None)

    def append(self, fresh: pa.Table) -> None:
        """Take in the events that became final."""
        if not fresh.num_rows:
            return
        self._note(fresh)
        batch = one_batch(fresh) if self._totals else None
        for total in self._totals.values():
            assert batch is not None
            _combine(total.final, batch)
            total.joined = total.joined_of = None

    def lookup(self, query: Query, log: EventLog, at_us: int | None, keys: Keys | None) -> QueryAnswers:
        """The answers of a query at a time, of some groups or of all; `at_us` is None while nothing has come."""
        total = self._totals[query.name]
        if at_us is None:
            return over_nothing(self._stream, query, NO_START_US, NO_START_US)
        store = self._up_to(total, log, at_us)
        numbers = None if keys is None else store.numbers_at(list(keys_in_order(store, keys)))
        (planned,) = store.tree.queries
        if numbers is None or len(numbers):
            for closed in store.close(Asked([planned]), None, None, keys=numbers):
                size = len(closed)
                return closed.answers(np.full(size, NO_START_US), np.full(size, at_us))
        return over_nothing(self._stream, query, NO_START_US, at_us)

    def lookup_at(self, query: Query, log: EventLog, times_us: Ints, keys: Keys) -> tuple[Arrays, int]:
        """The answers of some groups, each at its own time, and how many do not fit. Cost: a lookup for each time."""
        # At a time with no answers there is nothing to tell their types by.
        blank = blank_answers(self._stream, query, len(times_us))
        found: Arrays = {
            label: np.ma.MaskedArray(blank[call].values, ~blank[call].valid)
            for label, call in labelled_aggregates(query)
        }
        overflows = 0
        for time_us in np.unique(times_us).tolist():
            places = np.flatnonzero(times_us == time_us)
            some = {name: column.take(pa.array(places)) for name, column in keys.items()}
            answers = self.lookup(query, log, time_us, some if query.group_by else None)
            overflows += answers.overflows
            arrays = arrays_of(answers, some) if query.group_by else _of_one(answers, len(places))
            for label, array in arrays.items():
                found[label][places] = array
        return found, overflows

    def describe(self) -> Mapping[str, pa.RecordBatch]:
        """The partials of each query, for a snapshot."""
        return {name: total.final.partials() for name, total in self._totals.items()}

    @property
    def newest_us(self) -> int | None:
        """The newest event that is final; lookups are exact from there on."""
        return self._newest_us

    def restore(
        self,
        queries: Mapping[str, Query],
        since_us: Mapping[str, int | None],
        partials: Mapping[str, pa.Table],
        newest_us: int | None,
    ) -> None:
        """Go on from a snapshot."""
        self._newest_us = newest_us
        for name, table in partials.items():
            plan = plan_lookup(self._stream, queries[name])
            total = _Total(queries[name], since_us[name], SlotStore(plan, plan.trees[0]))
            for batch in table.to_batches():
                total.final.append(batch)
            self._totals[name] = total

    def _note(self, final: pa.Table) -> None:
        newest_us = int(np.asarray(final.column(self._stream.timestamp))[-1])
        self._newest_us = newest_us if self._newest_us is None else max(newest_us, self._newest_us)

    def _up_to(self, total: _Total, log: EventLog, at_us: int) -> SlotStore:
        """A store with the events up to a time."""
        if self._newest_us is not None and at_us < self._newest_us:
            raise HistoryError(
                f"stream {self._stream.name}: a lookup from the start on at {show_time(at_us)} needs events one by "
                f"one, and they are held as one row for each group; it is exact from {show_time(self._newest_us)} on"
            )
        times = log.times
        begin, end = log.final_held, int(times.searchsorted(at_us, side="right"))
        if total.since_us is not None:
            begin = max(begin, int(times.searchsorted(total.since_us)))
        if end <= begin:
            return total.final
        known = total.joined_of
        if total.joined is None or known is None or known[0] is not log.events or known[1] != end:
            total.joined = total.final.fork()
            _combine(total.joined, one_batch(log.events.slice(begin, end - begin)))
            total.joined_of = log.events, end
        return total.joined


def keys_in_order(store: SlotStore, keys: Keys) -> list[pa.Array]:
    """The columns of keys in the order in which a store has them."""
    return [keys[name] for name in store.tree.group_by]


def _combine(store: SlotStore, batch: pa.RecordBatch) -> None:
    """Put events into the one slot of a store."""
    (base,) = store.plan.bases
    store.append(Combiner(store.plan, project(store.plan, batch)).partials(base, np.zeros(batch.num_rows, np.int64)))


def _of_one(answers: QueryAnswers, size: int) -> dict[str, np.ma.MaskedArray[Any, Any]]:
    """The one answer of a query without GROUP BY, several times; masked if HAVING left none."""
    arrays = {}
    for label, call in labelled_aggregates(answers.query):
        lowered = answers.lowered[call]
        values = lowered.values if lowered.exact is None else lowered.exact
        if not len(values):
            arrays[label] = np.ma.MaskedArray(np.zeros(size, values.dtype), True)
        else:
            arrays[label] = np.ma.MaskedArray(np.repeat(values[:1], size), not bool(lowered.valid[0]))
    return arrays
