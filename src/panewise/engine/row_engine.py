"""An engine for rows that arrive in no order: rows of equal time are ordered by their values, not by arrival.

Every query is answered as `panewise.Engine` answers it over rows pushed in that order; see `content_order`.
Cost: as in the engine, plus a sort of the pending rows by all attributes where times are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from panewise.engine.content_order import content_order
from panewise.engine.engine import Engine
from panewise.engine.event_log import EventLog
from panewise.engine.warned import Warned
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.planning.cost import Prices


@dataclass
class OrderedLog(EventLog):
    """An event log whose rows of equal time are in the order of their values."""

    @property
    def events(self) -> pa.Table:
        """All events held, in order, pending ones included."""
        has_new = bool(self._new)
        events = super().events
        if has_new:
            pending = events.slice(self.final_held)
            ordered = pending.take(content_order(self.stream, pending))
            self._events = events = pa.concat_tables([events.slice(0, self.final_held), ordered])
        return events


class RowEngine(Engine):
    """Answers lookups of queries over one stream.

    A query sees the rows from its time in `since_us` on, or all of them.
    """

    def __init__(
        self,
        stream: Stream,
        queries: Sequence[Query],
        prices: Prices,
        since_us: Mapping[str, int | None],
    ) -> None:
        # Rows are in microseconds, and whoever wrote them has judged their times: by now the clock says something else.
        stream = replace(stream, units={}, future_bound_us=None)
        super().__init__(Workload({stream.name: stream}), rate=prices.rate, groups=prices.groups)
        self._log = OrderedLog(stream)
        self._state = self._streams[stream.name]
        self._state.log = self._log
        self._state.add(list(queries))
        self._state.since_us |= since_us
        self._workload = Workload({stream.name: stream}, {query.name: query for query in queries})
        # Rows and watermarks are those of a job, not of somebody who could be warned.
        self._warned = Warned(is_quiet=True)

    def hold_from(self, time_us: int) -> None:
        """Refuse lookups at an earlier time: rows that they need were never pushed."""
        self._log.trimmed_at_us = max(time_us, self._log.trimmed_at_us or time_us)

    @property
    def newest_us(self) -> int | None:
        """The time of the newest row that was ever pushed."""
        return self._state.newest_us

    @property
    def overflown(self) -> dict[str, int]:
        """By query, the answers that were NULL because they do not fit in 64 bits."""
        return self._state.overflows.counts

    @property
    def rows_held(self) -> int:
        """How many rows are held."""
        return len(self._log.times)

    @property
    def bytes_held(self) -> int:
        """The memory of the rows, without that of structures."""
        return int(self._log.events.nbytes)

    def check_invariants(self) -> None:
        """Rows are in order, and none came behind the watermark."""
        events = self._log.events
        assert content_order(self._log.stream, events).to_pylist() == list(range(events.num_rows))
        assert not self._state.late
        self._state.structures.check_invariants()
