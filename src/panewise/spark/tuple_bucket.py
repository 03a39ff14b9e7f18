"""The row queries of one bucket: the engine's operators over the bucket's share of the tuples.

It knows nothing of Spark. Its durable state is the log of the tuples that some window still needs. A bucket that is
built anew takes these in and goes on from the last watermark; what that reports again was reported before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from panewise.engine.row_engine import OrderedLog
from panewise.engine.windowed.feed import Feed
from panewise.engine.windowed.operator import Operator
from panewise.engine.windowed.output import QueryRows, schema_of
from panewise.engine.windowed.row_queries import build_operator
from panewise.language.row_queries import JoinQuery, RowQuery, SortedQuery, TopKQuery
from panewise.planning.windowed import share_key
from panewise.spark.layouts import ROWS_AT_ONCE, TableRows
from panewise.spark.packing import PackedPart, pack
from panewise.spark.tuple_bases import HeadBase, PassBase, TupleBase, TuplePlan, windows_of
from panewise.windows.slots import lengths_of

EVENTS_AT_ONCE = 100_000
"""Of a long past, about so many events are answered at once, to bound what is held."""


@dataclass
class ArrivedTuples:
    """What a batch brings: tuples to keep, rows of selections, and how many events were late."""

    kept: list[PackedPart] = field(default_factory=list)
    passed: list[TableRows] = field(default_factory=list)
    late_events: int = 0


def arrived_tuples(
    plan: TuplePlan, parts: Iterable[PackedPart], watermark_us: int | None, counting: frozenset[int] = frozenset()
) -> ArrivedTuples:
    """The tuples of a batch that are on time. Late events are counted for some bases."""
    found = ArrivedTuples()
    for part in parts:
        base = plan.bases.get(part.base)
        if base is None:
            continue
        tuples = part.partials
        if watermark_us is not None:
            timely = base.times(tuples) >= base.final_us(watermark_us)
            if not timely.all():
                if base.number in counting:
                    found.late_events += base.count(tuples.filter(pa.array(~timely)))
                tuples = tuples.filter(pa.array(timely))
                part = PackedPart(part.base, pack(tuples), tuples)
        if not tuples.num_rows:
            continue
        if isinstance(base, PassBase):
            found.passed.append(TableRows(base.query.name, _public(base, tuples), tuples.num_rows))
        else:
            found.kept.append(part)
    return found


class TupleBucket:
    """The state of a bucket's row queries in a worker's memory."""

    def __init__(self, plan: TuplePlan, parts: int) -> None:
        self._plan = plan
        self._parts = parts
        """Into how many parts rows are split that are merged with those of other buckets."""
        self.closed_us: int | None = None
        self._newest_us: dict[int, int] = {}
        bases = [base for base in plan.bases.values() if not isinstance(base, PassBase)]
        self._bases = {base.name: base for base in bases}
        self._feeds = {base.name: _feed(base) for base in bases}
        self._operators: list[Operator] = []
        streams = {base.name: base.as_stream for base in bases}
        for query in plan.over_tuples.values():
            key = share_key(query)
            shared = (one for one in self._operators if key is not None and one.key == key)
            operator = next(shared, None)
            if operator is None:
                operator = build_operator(query, streams, self._feeds)
                self._operators.append(operator)
            operator.outputs[query.name] = QueryRows(query, schema_of(query, streams))

    @property
    def live_rows(self) -> int:
        """How many tuples wait for the watermark."""
        return sum(len(feed.log.times) for feed in self._feeds.values())

    def append(self, parts: Iterable[PackedPart]) -> None:
        """Take in tuples; others are ignored."""
        for part in parts:
            base = self._bases.get(f"tuples {part.base}")
            if base is not None and part.partials.num_rows:
                self._feeds[base.name].push(base.events(part.partials))
                newest_us = int(base.times(part.partials).max())
                self._newest_us[base.number] = max(newest_us, self._newest_us.get(base.number, newest_us))

    def resume(self, closed_us: int | None) -> None:
        """Go on after a watermark whose rows were reported, here or elsewhere."""
        if closed_us is not None and (self.closed_us is None or closed_us > self.closed_us):
            self._advance(closed_us)
            for operator in self._operators:
                for output in operator.outputs.values():
                    output.fetch()

    def closing(self, watermark_us: int) -> Iterator[TableRows]:
        """The rows that a watermark completes."""
        if self.closed_us is not None and watermark_us <= self.closed_us:
            return
        for until_us in [*self._cuts(watermark_us), watermark_us]:
            self._advance(until_us)
            for operator in self._operators:
                for output in operator.outputs.values():
                    yield from self._leaving(output.query, output.fetch())

    def newest_us(self, parts: Iterable[PackedPart]) -> dict[int, int]:
        """For each base of some tuples, the time of the newest."""
        newest: dict[int, int] = {}
        for part in parts:
            base = self._bases.get(f"tuples {part.base}")
            if base is not None and part.partials.num_rows:
                newest_us = int(base.times(part.partials).max())
                newest[base.number] = max(newest_us, newest.get(base.number, newest_us))
        return newest

    def needs(self, number: int, newest_us: int, closed_us: int) -> bool:
        """Whether some window needs tuples of a base up to a time, once windows have closed up to an instant."""
        base = self._plan.bases.get(number)
        return base is not None and newest_us + base.kept_us > closed_us

    def next_end_us(self) -> int | None:
        """When rows may be complete next; None if nothing waits."""
        closed_us, ends = self.closed_us, []
        for query in self._plan.over_tuples.values():
            numbers = [self._bases[name].number for name in query.streams]
            newest = {number: self._newest_us[number] for number in numbers if number in self._newest_us}
            if closed_us is None:
                if newest:
                    return -(2**63)
                continue
            if any(self.needs(number, newest_us, closed_us) for number, newest_us in newest.items()):
                ends.append(_next_end_us(query, closed_us))
        return min(ends, default=None)

    def _advance(self, watermark_us: int) -> None:
        self.closed_us = watermark_us
        for name, feed in self._feeds.items():
            final_us = self._bases[name].final_us(watermark_us)
            if feed.watermark_us is not None and final_us <= feed.watermark_us:
                continue
            events = feed.advance(final_us)
            for operator in self._operators:
                if name in operator.streams and len(events):
                    operator.take(name, events)
        for operator in self._operators:
            operator.advance()

    def _cuts(self, until_us: int) -> list[int]:
        """Where to stop on the way to a watermark."""
        times = [feed.log.times for feed in self._feeds.values()]
        waiting = np.sort(np.concatenate(times)) if times else np.empty(0, np.int64)
        if len(waiting) <= EVENTS_AT_ONCE:
            return []
        after_us = waiting[0] if self.closed_us is None else self.closed_us
        cuts = np.unique(waiting[EVENTS_AT_ONCE::EVENTS_AT_ONCE])
        return [int(cut) for cut in cuts if after_us < cut < until_us]

    def _leaving(self, query: RowQuery, rows: pa.Table) -> Iterator[TableRows]:
        """The rows of a query; those that are merged with other buckets' are split by their windows."""
        if not rows.num_rows:
            return
        if not is_merged(query):
            yield from _pieces(query.name, rows)
            return
        assert isinstance(query, SortedQuery | TopKQuery)
        slide_us = lengths_of(query.window)[1]
        part = np.asarray(rows.column("window_end").cast(pa.int64())) // slide_us % self._parts
        for number in np.unique(part).tolist():
            yield from _pieces(query.name, rows.filter(pa.array(part == number)), number)


def is_merged(query: RowQuery) -> bool:
    """Whether a window's rows are those of all buckets together, and not only beside each other."""
    return isinstance(query, SortedQuery | TopKQuery)


def _pieces(table: str, rows: pa.Table, part: int = 0) -> Iterator[TableRows]:
    for batch in rows.combine_chunks().to_batches(max_chunksize=ROWS_AT_ONCE):
        yield TableRows(table, batch, batch.num_rows, part)


def _feed(base: TupleBase) -> Feed:
    stream = base.as_stream
    feed = Feed(stream)
    if isinstance(base, HeadBase):
        feed.log = OrderedLog(stream)
    return feed


def _next_end_us(query: RowQuery, closed_us: int) -> int:
    if isinstance(query, JoinQuery):
        return closed_us + 1
    # Two windows end together.
    length_us, slide_us = lengths_of(windows_of(query)[0])
    return ((closed_us - length_us) // slide_us + 1) * slide_us + length_us


def _public(base: PassBase, tuples: pa.RecordBatch) -> pa.RecordBatch:
    schema = schema_of(base.query, {base.stream.name: base.stream})
    return pa.RecordBatch.from_arrays([tuples.column(field.name).cast(field.type) for field in schema], schema=schema)
