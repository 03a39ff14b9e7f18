"""The row queries of one bucket: the engine's operators over the bucket's share of the tuples.

It knows nothing of Spark. Its durable state is the log of the tuples that some window still needs. A bucket that is
built anew takes these in and goes on from the last watermark; what that reports again was reported before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.engine.row_engine import OrderedLog
from panewise.engine.substream_reports import NUMBER, SubstreamReports
from panewise.engine.wide_tables import Closed
from panewise.engine.windowed.feed import Feed
from panewise.engine.windowed.operator import Operator
from panewise.engine.windowed.output import QueryRows, schema_of
from panewise.engine.windowed.row_queries import build_operator
from panewise.language.row_queries import (
    IntersectionQuery,
    JoinQuery,
    RowQuery,
    SortedQuery,
    TopKQuery,
    ValueQuery,
)
from panewise.planning.windowed import share_key
from panewise.spark.layouts import ROWS_AT_ONCE, TableRows
from panewise.spark.ordered_merge import as_rows
from panewise.spark.ordered_pairs import PairedQuery, Sides, needed_of_two, sent_of_two
from panewise.spark.ordered_rows import Needed, OrderedRows, Reporting, needed_by
from panewise.spark.packing import PackedPart, pack
from panewise.spark.row_merges import as_before, for_later, is_before
from panewise.spark.tuple_bases import HeadBase, OrderBase, PassBase, SubstreamBase, TupleBase, is_counts
from panewise.spark.tuple_plan import LATER_ROWS, TuplePlan, over_stream, windows_of
from panewise.spark.value_ranges import RangeSketch
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
    plan: TuplePlan,
    parts: Iterable[PackedPart],
    watermark_us: int | None,
    counting: frozenset[int] = frozenset(),
    *,
    passes: bool = True,
) -> ArrivedTuples:
    """The tuples of a batch that are on time. Late events are counted for some bases.

    Selections pass, or are kept as the others are.
    """
    found = ArrivedTuples()
    for part in parts:
        base = plan.bases.get(part.base)
        if base is None:
            continue
        tuples = part.partials
        if base.since_us is not None or watermark_us is not None:
            times = base.times(tuples)
            timely = times >= (-(2**63) if watermark_us is None else base.final_us(watermark_us))
            if base.number in counting and not timely.all():
                found.late_events += base.count(tuples.filter(pa.array(~timely)))
            if base.since_us is not None:
                timely &= times >= base.since_us
            if not timely.all():
                tuples = tuples.filter(pa.array(timely))
                part = PackedPart(part.base, pack(tuples), tuples)
        if not tuples.num_rows:
            continue
        if passes and isinstance(base, PassBase):
            found.passed.append(_leaving(plan, base.query.name, public_rows(base, tuples)))
        else:
            found.kept.append(part)
    return found


class TupleBucket:
    """The state of a bucket's row queries in a worker's memory."""

    def __init__(self, plan: TuplePlan, parts: int, *, adapts: bool = True) -> None:
        self._plan = TuplePlan()
        self._adapts = adapts
        """Whether evaluation may get rarer: in a stream, but not where somebody looks at what a stream left."""
        self._parts = parts
        """Into how many parts rows are split that are merged with those of other buckets."""
        self.closed_us: int | None = None
        self._newest_us: dict[int, int] = {}
        self._bases: dict[str, TupleBase] = {}
        self._feeds: dict[str, Feed] = {}
        self._operators: list[Operator] = []
        self._reports: dict[str, SubstreamReports] = {}
        """The reports of substreams, by the name of their base."""
        self._ordered: dict[str, OrderedRows] = {}
        """The rows of whole streams, by the name of their base."""
        self._ranges: dict[str, RangeSketch] = {}
        """How keys are spread that all rows of a window are put in order by, by the name of their base."""
        self._over_stream: dict[str, RowQuery] = {}
        self.adopt(plan)

    def adopt(self, plan: TuplePlan) -> None:
        """Go on with a changed plan. Queries that came since have bases that have no tuples yet."""
        before, self._plan = self._plan, plan
        self._over_stream = over_stream(plan.queries)
        self._bases = {base.name: base for base in plan.bases.values() if not isinstance(base, PassBase)}
        self._feeds = {name: self._feeds.get(name) or _feed(base) for name, base in self._bases.items()}
        gone = [name for name, query in before.over_tuples.items() if plan.over_tuples.get(name) != query]
        for operator in self._operators:
            operator.outputs = {name: output for name, output in operator.outputs.items() if name not in gone}
        self._operators = [operator for operator in self._operators if operator.outputs]
        for name, query in plan.over_tuples.items():
            if before.over_tuples.get(name) != query:
                self._answer(query)
        for name, base in self._bases.items():
            if isinstance(base, SubstreamBase):
                self._report(name, base, before)
            elif isinstance(base, OrderBase):
                self._ordered.setdefault(name, OrderedRows(base))
            elif isinstance(base, HeadBase) and base.has_sketch and self._parts > 1:
                self._ranges.setdefault(name, RangeSketch(base, self._parts))
        self._reports = {name: reports for name, reports in self._reports.items() if name in self._bases}
        self._ordered = {name: ordered for name, ordered in self._ordered.items() if name in self._bases}
        self._ranges = {name: ranges for name, ranges in self._ranges.items() if name in self._bases}

    def _answer(self, query: RowQuery) -> None:
        """Answer one more row query, with an operator that is there or a new one."""
        streams = {base.name: base.as_stream for base in self._bases.values()}
        key = share_key(query)
        shared = (one for one in self._operators if key is not None and one.key == key)
        operator = next(shared, None)
        if operator is None:
            operator = build_operator(query, streams, self._feeds)
            self._operators.append(operator)
        operator.outputs[query.name] = QueryRows(query, schema_of(query, streams))

    def _report(self, name: str, base: SubstreamBase, before: TuplePlan) -> None:
        """Report the queries of a base, those of the plan before without change."""
        reports = self._reports.setdefault(name, SubstreamReports(base.as_stream, base.partition_by))
        wanted = {each for each, numbers in self._plan.reads.items() if base.number in numbers}
        for query in list(reports.queries):
            if query not in wanted:
                reports.remove(query)
        for query in wanted - reports.queries.keys():
            reports.add(self._plan.reports[query])

    @property
    def live_rows(self) -> int:
        """How many tuples wait for the watermark, and how many rows are kept of substreams."""
        waiting = sum(len(feed.log.times) for feed in self._feeds.values())
        kept = sum(reports.rows_held for reports in self._reports.values())
        return waiting + kept + sum(ordered.rows_held for ordered in self._ordered.values())

    def append(self, parts: Iterable[PackedPart]) -> None:
        """Take in tuples; others are ignored."""
        for part in parts:
            base = self._bases.get(f"tuples {part.base}")
            if base is None or not part.partials.num_rows:
                continue
            tuples = part.partials
            if isinstance(base, SubstreamBase) and NUMBER in tuples.schema.names:
                tuples = self._restored(base, tuples)
            if isinstance(base, OrderBase) and is_counts(tuples):
                self._ordered[base.name].count(tuples)
            elif isinstance(base, HeadBase) and is_counts(tuples):
                # One place alone needs no ranges.
                if base.name in self._ranges:
                    self._ranges[base.name].count(tuples)
            else:
                self._feeds[base.name].push(base.events(tuples))
            newest_us = int(base.times(part.partials).max())
            self._newest_us[base.number] = max(newest_us, self._newest_us.get(base.number, newest_us))

    def _restored(self, base: SubstreamBase, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Take over the rows of `kept_parts` that have places in their substreams; returns the others."""
        has_place = rows.column(NUMBER).is_valid()
        held = rows.filter(has_place)
        if held.num_rows:
            self._reports[base.name].restore(pa.Table.from_batches([held]))
        return rows.filter(pc.invert(has_place)).drop_columns([NUMBER])

    def kept_parts(self) -> list[PackedPart]:
        """The rows of substreams that are still needed, and those that wait, in place of all that came so far."""
        parts = []
        for name, reports in self._reports.items():
            base, log = self._bases[name], self._feeds[name].log
            waiting = log.events.slice(log.final_held)
            tables = [waiting.append_column(NUMBER, pa.nulls(waiting.num_rows, pa.int64()))]
            held = reports.held()
            if held is not None:
                tables.insert(0, held.select(tables[0].column_names))
            rows = pa.concat_tables(tables).combine_chunks().to_batches()
            parts += [PackedPart(base.number, pack(some), some) for some in rows if some.num_rows]
        return parts

    def is_kept(self, number: int) -> bool:
        """Whether the rows of a base stay until `kept_parts` takes their place."""
        return f"tuples {number}" in self._reports

    @property
    def final_rows(self) -> dict[str, int]:
        """How many rows of whole streams are final, by the number of their base."""
        return {str(self._bases[name].number): ordered.final for name, ordered in self._ordered.items()}

    def resume(self, closed_us: int | None, final_rows: Mapping[str, int] | None = None) -> None:
        """Go on after a watermark whose rows were reported, here or elsewhere; `final_rows` are those at it."""
        if closed_us is not None and (self.closed_us is None or closed_us > self.closed_us):
            for operator in self._operators:
                operator.foresee(None, None)
            self._advance(closed_us)
            for operator in self._operators:
                for output in operator.outputs.values():
                    output.fetch()
            for reports in self._reports.values():
                reports.settle()
            for name, ordered in self._ordered.items():
                known = (final_rows or {}).get(str(self._bases[name].number))
                if known is not None:
                    ordered.align(known)
            self._settle_ordered()
            self._settle_ranges()

    def _reporting(self, name: str) -> dict[str, Reporting]:
        """The queries over the rows of one whole stream that read a base."""
        number, reads = self._bases[name].number, self._plan.reads
        rows = self._over_stream.items()
        alone = {each: query for each, query in rows if isinstance(query, ValueQuery | SortedQuery)}
        every: dict[str, Reporting] = {**self._plan.reports, **alone}
        return {each: query for each, query in every.items() if number in reads[each]}

    @property
    def _paired(self) -> list[tuple[PairedQuery, Sides]]:
        """The queries over the rows of two whole streams, and these."""
        found = []
        for name, query in self._over_stream.items():
            if isinstance(query, IntersectionQuery | JoinQuery):
                left, right = (self._ordered[f"tuples {number}"] for number in self._plan.reads[name])
                found.append((query, (left, right)))
        return found

    def _needed(self, ordered: OrderedRows) -> Needed:
        """Which rows windows to come need."""
        found = [needed_by(query, ordered) for query in self._reporting(ordered.base.name).values()]
        for query, sides in self._paired:
            found += [needed_of_two(query, place, sides) for place, side in enumerate(sides) if side is ordered]
        return reduce(Needed.and_of, found)

    def _settle_ordered(self) -> None:
        for ordered in self._ordered.values():
            ordered.settle(self._needed(ordered))

    def closing(self, watermark_us: int) -> Iterator[TableRows | Closed]:
        """The rows that a watermark completes, and what substreams report."""
        if self.closed_us is not None and watermark_us <= self.closed_us:
            return
        if self._adapts:
            for operator in self._operators:
                operator.foresee(self.closed_us, watermark_us)
        for until_us in [*self._cuts(watermark_us), watermark_us]:
            self._advance(until_us)
            for operator in self._operators:
                for output in operator.outputs.values():
                    yield from self._split(output.query, output.fetch())
            for reports in self._reports.values():
                answers = reports.answers()
                if answers:
                    yield Closed(answers, answers)
                reports.settle()
        # At once, as other buckets stop elsewhere on the way.
        for name, ordered in self._ordered.items():
            yield from self._sent(name, ordered)
        streams = {base.stream.name: base.stream for base in self._bases.values()}
        for paired, sides in self._paired:
            yield from (as_rows(paired.name, sent) for sent in sent_of_two(paired, sides, streams, self._parts))
        self._settle_ordered()
        self._settle_ranges()

    def _sent(self, name: str, ordered: OrderedRows) -> Iterator[TableRows]:
        """The rows that closed windows over a whole stream cover, to the places of each table that shows some."""
        together: dict[tuple[str, tuple[str, ...]], list[Reporting]] = {}
        for query in self._reporting(name).values():
            table = self._plan.homes.get(query.name, query.name)
            together.setdefault((table, query.group_by), []).append(query)
        for (table, _), several in together.items():
            yield from (as_rows(table, sent) for sent in ordered.sent(several, self._parts))

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
        if base is None:
            return False
        if isinstance(base, OrderBase):
            ordered = self._ordered[base.name]
            return newest_us >= ordered.oldest_us(self._needed(ordered))
        return isinstance(base, SubstreamBase) or newest_us + base.kept_us > closed_us

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
        for name in self._reports:
            base, log = self._bases[name], self._feeds[name].log
            if len(log.times) > log.final_held:
                first_us = int(log.times[log.final_held])
                ends.append(-(2**63) if closed_us is None else (first_us // base.slot_us + 1) * base.slot_us)
        for name, ordered in self._ordered.items():
            waiting_us = ordered.first_waiting_us
            if waiting_us is not None:
                ends.append(-(2**63) if closed_us is None else waiting_us + self._bases[name].slot_us)
        if closed_us is not None and any(query.evaluation.most for query in self._plan.over_tuples.values()):
            # Every bucket is called in every batch, so that all of them see the same windows closing.
            ends.append(closed_us + 1)
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
            if name in self._reports:
                self._reports[name].take(events.table)
            if name in self._ordered:
                self._ordered[name].take(events.table, final_us)
        for operator in self._operators:
            operator.advance()

    def _settle_ranges(self) -> None:
        for ranges in self._ranges.values():
            if self.closed_us is not None:
                ranges.settle(self.closed_us)

    def _cuts(self, until_us: int) -> list[int]:
        """Where to stop on the way to a watermark."""
        times = [feed.log.times for feed in self._feeds.values()]
        waiting = np.sort(np.concatenate(times)) if times else np.empty(0, np.int64)
        if len(waiting) <= EVENTS_AT_ONCE:
            return []
        after_us = waiting[0] if self.closed_us is None else self.closed_us
        cuts = np.unique(waiting[EVENTS_AT_ONCE::EVENTS_AT_ONCE])
        return [int(cut) for cut in cuts if after_us < cut < until_us]

    def _split(self, query: RowQuery, rows: pa.Table) -> Iterator[TableRows]:
        """The rows of a query; those that are merged with other buckets' are split by their windows."""
        if not rows.num_rows:
            return
        if not is_merged(query):
            yield from self._pieces(query.name, rows)
            return
        assert isinstance(query, SortedQuery | TopKQuery)
        ranges = self._ranges.get(self._plan.bases[self._plan.reads[query.name][0]].name)
        if isinstance(query, SortedQuery) and ranges is not None:
            for share in ranges.split(query, rows):
                yield from self._pieces(query.name, share.rows, share.part)
                yield _leaving(self._plan, query.name, as_before(share.before), share.part)
            return
        slide_us = lengths_of(query.window)[1]
        part = np.asarray(rows.column("window_end").cast(pa.int64())) // slide_us % self._parts
        for number in np.unique(part).tolist():
            yield from self._pieces(query.name, rows.filter(pa.array(part == number)), number)

    def _pieces(self, name: str, rows: pa.Table, part: int = 0) -> Iterator[TableRows]:
        for batch in rows.combine_chunks().to_batches(max_chunksize=ROWS_AT_ONCE):
            yield _leaving(self._plan, name, batch, part)


def is_merged(query: RowQuery) -> bool:
    """Whether a window's rows are those of all buckets together, and not only beside each other."""
    return isinstance(query, SortedQuery | TopKQuery)


def _leaving(plan: TuplePlan, name: str, rows: pa.RecordBatch, part: int = 0) -> TableRows:
    """Rows of a query for their table. Those of a query that came later say what they are."""
    table = plan.table_of(name)
    answers = 0 if is_before(rows) else rows.num_rows
    return TableRows(table, for_later(plan, name, rows) if table == LATER_ROWS else rows, answers, part)


def _feed(base: TupleBase) -> Feed:
    stream = base.as_stream
    feed = Feed(stream, base.since_us)
    if isinstance(base, HeadBase | SubstreamBase | OrderBase):
        feed.log = OrderedLog(stream, starts_us=base.since_us, complete_from_us=base.since_us)
    return feed


def _next_end_us(query: RowQuery, closed_us: int) -> int:
    if isinstance(query, JoinQuery):
        return closed_us + 1
    # Two windows end together.
    length_us, slide_us = lengths_of(windows_of(query)[0])
    return ((closed_us - length_us) // slide_us + 1) * slide_us + length_us


def public_rows(base: PassBase, tuples: pa.RecordBatch) -> pa.RecordBatch:
    """The tuples of a selection as users see them."""
    schema = schema_of(base.query, {base.stream.name: base.stream})
    return pa.RecordBatch.from_arrays([tuples.column(field.name).cast(field.type) for field in schema], schema=schema)
