"""Groups that pass HAVING, found by a collective index instead of by checking every group.

One index serves all on-demand queries of a stream with the same groups, WHERE and aggregate, whatever their windows
and thresholds. It follows the events behind the watermark; the few at or after it are always read. The groups that it
gives are a superset: HAVING itself is then evaluated over their events, as for any query.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.engine.event_log import EventLog
from panewise.engine.growing import GrowingInts
from panewise.engine.projection import holds
from panewise.engine.tables import KeyTable
from panewise.errors import SlowerLookupsWarning, SubstreamError
from panewise.kernels.key_chains import events_of_keys, extend_chains
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression
from panewise.language.model import Query, Stream
from panewise.language.typecheck import type_of
from panewise.planning.having import HavingPlan, Threshold
from panewise.substreams import SubstreamFilter, build
from panewise.windows import TimeWindow

Ints = npt.NDArray[np.int64]

ERROR = 0.125
"""How far an index of counts or sums may be off before its candidates are checked."""


@dataclass(frozen=True)
class IndexKey:
    """What queries must have in common to share an index."""

    group_by: tuple[str, ...]
    where: Expression | None
    function: str
    argument: Expression | None
    filter: str

    @staticmethod
    def of(query: Query, plan: HavingPlan) -> IndexKey:
        """The index of a query that is planned to use one."""
        assert plan.filter is not None
        assert plan.threshold is not None
        call = plan.threshold.call
        return IndexKey(tuple(sorted(query.group_by)), query.where, call.function, call.argument, plan.filter)


class HavingIndex:
    """A collective index over a stream's groups, and for each group the chain of its events in the log."""

    _numbers: GrowingInts
    """The number in the log of each event that passes WHERE; chains count these events."""
    _times: GrowingInts
    _previous: GrowingInts
    _newest: Ints

    def __init__(self, stream: Stream, key: IndexKey, largest_us: int) -> None:
        self._stream = stream
        self._key = key
        self.largest_us = largest_us
        self.gave_up: str | None = None
        """Why the index can no longer be used: sums beyond what it can hold. None while it can."""
        self._clear()

    def append(self, fresh: pa.Table, first: int) -> None:
        """Take in events that became final, in order; `first` is the number of the first of them in the log."""
        if not fresh.num_rows or self.gave_up is not None:
            return
        raw = {name: _one(fresh.column(name)) for name in fresh.column_names}
        times = np.asarray(raw[self._stream.timestamp])
        passing = np.ones(len(times), np.bool_)
        if self._key.where is not None:
            passing = holds(evaluate(self._key.where, raw, self._stream.attributes))
        numbers = first + np.flatnonzero(passing)
        raw = {name: column.filter(pa.array(passing)) for name, column in raw.items()}
        codes = self._codes(raw, len(numbers))
        chained = np.empty(len(codes), np.int64)
        self._newest = _lengthened(self._newest, len(self._table))
        extend_chains(codes, self._first + len(self._previous), self._newest, chained)
        self._numbers.append(numbers)
        self._times.append(times[passing])
        self._previous.append(chained)
        try:
            self._feed(raw, codes, times[passing])
        except SubstreamError as error:
            self.gave_up = str(error)
            warnings.warn(
                f"every group of a HAVING is checked from now on: {error}", SlowerLookupsWarning, stacklevel=2
            )
        self._let_go()

    def numbers_of(self, threshold: Threshold, range_us: int, at_us: int, pending: pa.Table) -> Ints | None:
        """The numbers of the final events to read for a lookup; None for a time that the index has already passed.

        `pending` holds the events of the window that are not final: their groups are always read.
        """
        times = self._times.values
        if self.gave_up is not None or (len(times) and at_us < times[-1]):
            return None
        found = self._filter.lookup(at_us, range_us, threshold.comparison, threshold.bound).keys
        if pending.num_rows:
            raw = {name: _one(pending.column(name)) for name in pending.column_names}
            found = np.unique(np.concatenate([found, self._codes(raw, pending.num_rows)]))
            self._newest = _lengthened(self._newest, len(self._table))
        places = events_of_keys(found, self._newest, self._previous.values, times, self._first, at_us - range_us)
        return np.sort(self._numbers.values[places - self._first])

    def is_stale(self) -> bool:
        """Whether most of its groups are silent, so that it is worth rebuilding."""
        return self.gave_up is None and len(self._table) > 4 * self._filter.live_keys + 1024

    def rebuild(self, log: EventLog) -> None:
        """Start over from the final events that the log holds."""
        self._clear()
        events, numbers = log.final_events()
        # Runs of neighbouring numbers, so that each is appended with the number of its first event.
        cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
        for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(numbers)]):
            if high > low:
                self.append(events.slice(low, high - low), int(numbers[low]))

    def _clear(self) -> None:
        self._table = KeyTable([self._stream.attributes[name] for name in self._key.group_by])
        self._filter = self._new_filter()
        self._first = 0
        self._numbers = GrowingInts()
        self._times = GrowingInts()
        self._previous = GrowingInts()
        self._newest = np.empty(0, np.int64)

    def _new_filter(self) -> SubstreamFilter:
        if self._key.filter in ("collective_count", "collective_sum"):
            return build(self._key.filter, self.largest_us, error=ERROR)
        assert self._key.argument is not None
        doubles = type_of(self._key.argument, self._stream.attributes) is Type.DOUBLE
        return build(self._key.filter, self.largest_us, doubles=doubles)

    def _codes(self, raw: dict[str, pa.Array], count: int) -> Ints:
        return self._table.ids([raw[name] for name in self._key.group_by], count)

    def _feed(self, raw: dict[str, pa.Array], codes: Ints, times: Ints) -> None:
        """Give the filter the events that its aggregate counts."""
        if self._key.argument is None:
            self._filter.update(codes, None, times)
            return
        values = evaluate(self._key.argument, raw, self._stream.attributes)
        valid = np.asarray(values.is_valid())
        codes, times = codes[valid], times[valid]
        if CATALOGUE[self._key.function].only_counts:
            self._filter.update(codes, None, times)
            return
        numbers = np.asarray(values.drop_null())
        if numbers.dtype.kind == "f":
            # NaN is above all numbers: as infinity it makes its group a candidate, and HAVING decides.
            numbers = np.where(np.isnan(numbers), np.inf, numbers)
        self._filter.update(codes, numbers, times)

    def _let_go(self) -> None:
        """Drop the chains of events that no window covers from the newest event on; earlier lookups do not come."""
        times = self._times.values
        if not len(times):
            return
        gone = int(times.searchsorted(times[-1] - self.largest_us, side="right"))
        self._first += gone
        for column in (self._numbers, self._times, self._previous):
            column.drop(gone)


class HavingIndexes:
    """The indexes of one stream, shared by the queries that are planned to use them."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._plans: dict[str, HavingPlan] = {}
        self._keys: dict[str, IndexKey] = {}
        self._ranges: dict[str, int] = {}
        self._indexes: dict[IndexKey, HavingIndex] = {}

    def add(self, query: Query, plan: HavingPlan, log: EventLog) -> None:
        """Serve one more query, from the events that the log holds."""
        assert isinstance(query.window, TimeWindow)
        key = IndexKey.of(query, plan)
        self._plans[query.name], self._keys[query.name] = plan, key
        self._ranges[query.name] = query.window.left_us
        self._open(key, log)

    def remove(self, name: str) -> None:
        """Serve one query less; the index is dropped with the last query that used it."""
        key = self._keys.pop(name, None)
        if key is None:
            return
        del self._plans[name], self._ranges[name]
        if key not in self._keys.values():
            del self._indexes[key]

    def append(self, fresh: pa.Table, first: int, log: EventLog) -> None:
        """Take in events that became final."""
        for index in self._indexes.values():
            index.append(fresh, first)
            if index.is_stale():
                index.rebuild(log)

    def numbers_of(self, query: Query, at_us: int, pending: pa.Table) -> Ints | None:
        """The numbers of the final events that a lookup must read; None: all that its window covers."""
        key = self._keys.get(query.name)
        if key is None:
            return None
        threshold = self._plans[query.name].threshold
        assert threshold is not None
        return self._indexes[key].numbers_of(threshold, self._ranges[query.name], at_us, pending)

    def _open(self, key: IndexKey, log: EventLog) -> None:
        largest_us = max(self._ranges[name] for name, other in self._keys.items() if other == key)
        known = self._indexes.get(key)
        if known is None or largest_us > known.largest_us:
            self._indexes[key] = index = HavingIndex(self._stream, key, largest_us)
            index.rebuild(log)


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) and combined.num_chunks == 1 else combined


def _lengthened(newest: Ints, count: int) -> Ints:
    if count <= len(newest):
        return newest
    longer = np.full(max(count, 2 * len(newest)), -1, np.int64)
    longer[: len(newest)] = newest
    return longer
