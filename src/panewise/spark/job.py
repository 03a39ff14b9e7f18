"""The job: a planned workload and its buckets, which is all that the Python workers need to know.

Its queries may come and go while it runs. A `Job` is a value: the bases that events are combined into, the trees that
they feed, and from when on each query is exact. `after` gives the job after a change. It is a function of the old job
and of the change alone, so every worker that has seen the same changes has the same job, and a repeated batch gets the
same answers as the first time.

A new query joins a tree that holds all it needs, or opens a tree on a base that does. Both start from the partials that
the base's log still has. When the plan costs more than a fresh one by more than the tolerance, trees are woven anew
from the same log, and where that is not enough, so are the bases (`panewise.spark.replanning`). Other new queries are
planned together onto new bases, which begin with the next batch.
Queries over ROWS that are looked up have row bases of their own. Row queries have tuple bases, and so have queries that
report each substream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import pyarrow as pa

from panewise.engine.answers import (
    FIXED_COLUMNS,
    FURTHER_COLUMNS,
    ITEMS,
    AnswerColumns,
    answers_schema,
    is_list,
    public_type,
)
from panewise.engine.windowed.output import schema_of
from panewise.errors import ArgumentError, NamesClashError, NotOnSparkError, PanewiseError
from panewise.language.expressions import Expression
from panewise.language.model import Query, Stream
from panewise.language.reader import apply, changed
from panewise.language.row_queries import JoinQuery, RowQuery, SelectionQuery, SortedQuery
from panewise.language.workload import Workload
from panewise.planning.cost import DEFAULT_TOLERANCE, Prices
from panewise.planning.drift import MOST_GENERATIONS, is_beyond, is_due, is_worth_a_look
from panewise.planning.optimize import check_plannable, fit, grow, plan_stream
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.planning.trees import DEFAULT_RATE, Base, StreamPlan
from panewise.spark.fed_bases import FedBase, FedTree, next_slot
from panewise.spark.held_rows import HeldBase, held_bases
from panewise.spark.layouts import By, Layout, LongLayout, WideLayout
from panewise.spark.observed import Observed
from panewise.spark.ordered_merge import OrderedMerge, ordered_query
from panewise.spark.quotas import Quotas, added_queries
from panewise.spark.replanning import cost_of_bases, handed_over, may_open, opened, sliding_queries, woven_anew
from panewise.spark.row_bases import RowBase, check_structure, is_over_rows, plan_row_bases
from panewise.spark.row_merges import AnyMerge, LaterRows, merges_of
from panewise.spark.stand_ins import StandIn, check_lookups, in_place_of, plan_with_stand_ins, slot_length
from panewise.spark.tuple_bases import OrderBase, TupleBase
from panewise.spark.tuple_plan import LATER_ROWS, TuplePlan, check_row_query, over_stream
from panewise.windows import PunctuationWindow, RowWindow, TimeWindow, is_unbounded, reports_by_substream
from panewise.windows.slots import spans_of


@dataclass(frozen=True)
class Statement:
    """A text of the control stream, the reason if it was refused, and where it came from.

    `position` is its place in the control stream, `author` who sent it; both are empty if nothing says so.
    """

    text: str
    error: str | None = None
    position: str = ""
    author: str = ""


@dataclass(frozen=True)
class Change:
    """The statements of one batch; they hold from the next batch on.

    `newest_us` is the newest event of each stream up to that batch, and `watermark_us` the watermark in it. What opens
    now will see all events from there on. `seen` is what was seen of some streams; None in files of a Panewise that did
    not look, whose jobs made no bases anew. A change may have no statement, if there is something to see, or if new
    bases take over.
    """

    batch: int
    statements: tuple[Statement, ...]
    newest_us: Mapping[str, int]
    watermark_us: int | None
    seen: Mapping[str, Observed] | None = None

    def since_us(self, stream: str) -> int | None:
        """From when on all events of a stream are still to come; None if none has come yet."""
        seen = [time + 1 for time in (self.newest_us.get(stream),) if time is not None]
        seen += [time for time in (self.watermark_us,) if time is not None and self.newest_us]
        return max(seen, default=None)


@dataclass(frozen=True)
class Job:
    """What the workers of one batch need to know. Queries are planned with `prices`."""

    workload: Workload
    bucket_ids: tuple[int, ...]
    bases: Mapping[int, FedBase]
    prices: Prices
    answers_schema: pa.Schema
    layout: Layout
    next_base: int
    row_bases: Mapping[int, RowBase] = field(default_factory=dict)
    """By numbers that no base has."""
    tuples: TuplePlan = field(default_factory=TuplePlan)
    """The row queries and those that report substreams, and their bases by numbers that no other base has."""
    held: TuplePlan = field(default_factory=TuplePlan)
    """The row queries with INTO, which only lookups answer, and their bases, by numbers that no other base has."""
    is_live: bool = False
    is_batch: bool = False
    changed_only: bool = False
    quotas: Quotas = field(default_factory=Quotas)
    changes: int = 0
    since_us: int | None = None
    """The watermark when the last change came. The job before it reported what ended up to then."""
    unchecked: Mapping[str, int] = field(default_factory=dict)
    """How many sliding queries of each stream came and went since its plan was compared with a fresh one."""
    known_costs: Mapping[str, float] = field(default_factory=dict)
    """What a fresh plan of each stream cost then, or its plan before the first change."""
    replans: int = 0
    """How often trees were woven anew, or bases made anew."""
    replanned_batch: int | None = None
    """The batch that was the last to make that necessary."""
    learned: Mapping[str, Observed] = field(default_factory=dict)
    """What was last seen of each stream."""

    @staticmethod
    def of(
        workload: Workload,
        bucket_ids: Sequence[int],
        *,
        rate: float = DEFAULT_RATE,
        groups: Mapping[str, int] | None = None,
        method: str = WEAVE_SHARE,
        tolerance: float = DEFAULT_TOLERANCE,
        is_live: bool = False,
        is_batch: bool = False,
        changed_only: bool = False,
        quotas: Quotas | None = None,
        wide_by: By | None = None,
        most_rows: int | None = None,
    ) -> Job:
        """Plan a workload for some buckets. If queries may come and go, every attribute has a column in the answers.

        Answers leave in one long table, or with `wide_by` in wide ones.
        """
        schema = live_schema(workload) if is_live else answers_schema(workload)
        layout: Layout = LongLayout(schema)
        if wide_by is not None:
            others = LongLayout(schema) if is_live else None
            layout = WideLayout.of(workload, wide_by, changed_only=changed_only, others=others)
        prices = Prices(rate, groups=dict(groups or {}), in_bulk=True, method=method, tolerance=tolerance)
        by_slots = {name: query for name, query in workload.queries.items() if not isinstance(query.window, RowWindow)}
        plan, stand_ins = plan_with_stand_ins(Workload(workload.streams, by_slots), prices)
        bases = {
            base.number: FedBase(
                stream,
                base,
                tuple(FedTree.of(tree) for tree in stream.fed_by(base)),
                tells_changes=changed_only,
                stand_ins=stand_ins.get(base.number, ()),
            )
            for stream in plan.streams.values()
            for base in stream.bases
        }
        job = Job(
            workload,
            tuple(bucket_ids),
            bases,
            prices,
            schema,
            layout,
            next_base=max(bases, default=-1) + 1,
            is_live=is_live,
            is_batch=is_batch,
            changed_only=changed_only,
            quotas=quotas or Quotas(),
        )
        for stream in workload.streams.values():
            over_rows = [query for query in workload.queries_of(stream.name) if is_over_rows(query)]
            for query in over_rows:
                check_structure(stream, query, prices)
            job = job._with_row_bases(stream, over_rows, None)
        shown, into = _shown(workload), _with_into(workload)
        tuples = TuplePlan.of(shown, workload.streams, job.next_base, _reports(workload))
        homes = {name: layout.table_of(query) for name, query in tuples.reports.items() if _is_over_stream(query)}
        tuples = replace(tuples, tables=shown, most_rows=most_rows, homes=homes)
        held = TuplePlan.of(into, workload.streams, job.next_base + len(tuples.bases))
        held = replace(held, tables=into)
        next_base = job.next_base + len(tuples.bases) + len(held.bases)
        return replace(job, tuples=tuples, held=held, next_base=next_base)

    def for_combining(self) -> Job:
        """The job for the combine step, if queries stay: without trees, so that it is small even with many queries."""
        bases = {
            number: replace(live, plan=replace(live.plan, trees=()), trees=()) for number, live in self.bases.items()
        }
        layout = LongLayout(self.answers_schema)
        return replace(self, workload=Workload(self.workload.streams), bases=bases, layout=layout)

    @property
    def native_queries(self) -> dict[str, RowQuery]:
        """Of a batch, the queries over events that Spark answers by itself."""
        streams, queries = self.workload.streams, self.tuples.queries
        by_rows = over_stream(queries)
        native = {
            name: query
            for name, query in queries.items()
            if isinstance(query, JoinQuery | SelectionQuery) and name not in by_rows
        }
        return {n: query for n, query in native.items() if not any(streams[s].is_of_answers for s in query.streams)}

    def without_native(self) -> Job:
        """The job of a batch without the tuples of these queries."""
        native = self.native_queries
        needed = {number for name, some in self.tuples.reads.items() if name not in native for number in some}
        bases = {number: base for number, base in self.tuples.bases.items() if number in needed}
        over = {name: query for name, query in self.tuples.over_tuples.items() if name not in native}
        return replace(self, tuples=replace(self.tuples, bases=bases, over_tuples=over))

    @cached_property
    def counting_bases(self) -> frozenset[int]:
        """One base of each stream: its partials, or rows, are counted as the events of the stream."""
        first: dict[str, int] = {}
        for number, live in sorted(self.bases.items()):
            first.setdefault(live.plan.stream.name, number)
        for number, base in sorted(self.row_bases.items()):
            first.setdefault(base.stream.name, number)
        for number, tuples in sorted([*self.tuples.bases.items(), *self.held.bases.items()]):
            first.setdefault(tuples.stream.name, number)
        return frozenset(first.values())

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of every table: those of the layout, and one for each row query."""
        rows = {name: schema_of(query, self.workload.streams) for name, query in self.tuples.tables.items()}
        reports = any(query.window.is_sliding for query in self.workload.queries.values())
        answers = self.layout.schemas if self.is_live or reports or not rows else {}
        clash = sorted(rows.keys() & answers.keys())
        if self.takes_rows:
            clash += [LATER_ROWS] if LATER_ROWS in {**answers, **rows} else []
            rows[LATER_ROWS] = LaterRows().schema
        if clash:
            raise NamesClashError(f"query {clash[0]} has the name of another table of the answers; rename it")
        return {**answers, **rows}

    @cached_property
    def behind_us(self) -> int | None:
        """If it reads answers: how far behind Spark's watermark they may come."""
        streams = [stream for stream in self.workload.streams.values() if stream.is_of_answers]
        return max((stream.watermark_us for stream in streams), default=None)

    @property
    def takes_rows(self) -> bool:
        """Whether row queries may come while it runs: a job that began with some has a place for rows."""
        return self.is_live and bool(self.tuples.tables)

    @property
    def merges(self) -> dict[str, AnyMerge]:
        """How the rows of a window are merged from all buckets, for each table where they must be."""
        found: dict[str, AnyMerge] = {**merges_of(self.tuples, is_live=self.takes_rows)}
        for table in set(self.tuples.homes.values()):
            queries = {name: self.tuples.reports[name] for name, home in self.tuples.homes.items() if home == table}
            bases = {name: self.tuples.bases[self.tuples.reads[name][0]] for name in queries}
            ordered = {name: base for name, base in bases.items() if isinstance(base, OrderBase)}
            found[table] = OrderedMerge(table, self.layout, queries, ordered)
        for name, query in over_stream(self.tuples.tables).items():
            found[name] = ordered_query(query, [self.tuples.bases[number] for number in self.tuples.reads[name]])
        return found

    def plans_of(self, stream: str) -> list[tuple[StreamPlan, list[Base]]]:
        """The plans over a stream, each with those of its bases that some query needs."""
        found: dict[int, tuple[StreamPlan, list[Base]]] = {}
        for live in self.bases.values():
            if live.plan.stream.name == stream:
                found.setdefault(live.generation, (live.plan, []))[1].append(live.base)
        return list(found.values())

    @cached_property
    def held_bases(self) -> dict[int, HeldBase]:
        """What is held for lookups of row queries with INTO."""
        return held_bases(self.held)

    @cached_property
    def logged_rows(self) -> dict[int, RowBase | HeldBase]:
        """The bases whose rows are in the row log."""
        return {**self.row_bases, **self.held_bases}

    def tuple_bases_of(self, stream: str) -> list[TupleBase]:
        """The tuple bases of a stream."""
        return [*self.tuples.bases_of(stream), *self.held.bases_of(stream)]

    def cells_of(self, stream: str) -> list[Expression]:
        """What row queries compute of each event of a stream, each expression once."""
        return list(dict.fromkeys([*self.tuples.cells_of(stream), *self.held.cells_of(stream)]))

    def row_bases_of(self, stream: str) -> list[RowBase]:
        """The row bases of a stream."""
        return [base for base in self.row_bases.values() if base.stream.name == stream]

    def row_attributes_of(self, stream: str) -> list[str]:
        """The attributes, besides time, that queries over rows read from a stream, in the order of its declaration."""
        needed = {name for base in self.row_bases_of(stream) for name in base.attributes}
        return [name for name in self.workload.streams[stream].attributes if name in needed]

    def watermark_us(self, newest_us: Mapping[str, int]) -> int | None:
        """The watermark that follows from the newest event of each stream, by Spark's rule; None before there is one.

        It is the least over all streams, in whole milliseconds.
        """
        streams = self.workload.streams
        if not streams.keys() <= newest_us.keys():
            return None
        least_us = min(newest_us[name] - stream.watermark_us for name, stream in streams.items())
        return least_us // 1000 * 1000 if least_us >= 1000 else None

    def judge(self, change: Change) -> Change:
        """The change with the reason why a statement cannot be run, for each that cannot."""
        judged: list[Statement] = []
        workload, columns = self.workload, AnswerColumns.of(self.workload)
        for statement in change.statements:
            try:
                after, columns_after = self._applied(workload, statement.text, columns)
                self.quotas.check(workload, after)
                check_plannable(after, {query.stream for query in added_queries(workload, after)}, self.prices)
                if self.quotas.slots is not None and added_queries(workload, after):
                    accepted = [one for one in judged if one.error is None]
                    planned = self._changed(replace(change, statements=(*accepted, statement)))
                    self.quotas.check_slots(planned.held_slots)
            except PanewiseError as error:
                judged.append(replace(statement, error=str(error)))
            else:
                workload, columns = after, columns_after
                judged.append(statement)
        return replace(change, statements=tuple(judged))

    @property
    def held_slots(self) -> int:
        """How many slots are held for each key: of every base, as many as its longest window needs.

        Bases that wait to take over from others do not count.
        """
        at_work = [replace(base, waiting=None) for base in self.bases.values() if base.is_needed]
        return sum(max(base.retention_us, base.lookback_us) // base.base.granularity for base in at_work)

    def after(self, change: Change) -> Job:
        """The job for the batches after a change, planned anew where it costs too much."""
        job = self._changed(change)
        seen = {name: now.after(job.learned.get(name)) for name, now in (change.seen or {}).items()}
        job = replace(job, learned={**job.learned, **seen})
        for stream in job.workload.streams:
            bases = job._bases_of(stream)
            if _are_ready(bases.values(), change.watermark_us):
                others = {number: live for number, live in job.bases.items() if number not in bases}
                job = replace(job, bases=others | handed_over(bases))
            if stream not in job.known_costs and job.unchecked.get(stream):
                before = cost_of_bases(self._bases_of(stream).values(), self.prices_of(stream))
                job = replace(job, known_costs={**job.known_costs, stream: before})
            job = job._within_tolerance(stream, change)
        return job

    def prices_of(self, stream: str) -> Prices:
        """What planning is told of a stream, with what was seen in place of what was said."""
        seen = self.learned.get(stream)
        return self.prices if seen is None else seen.in_place_of(self.prices)

    def hands_over(self, watermark_us: int | None) -> bool:
        """Whether new bases of some stream hold, after a watermark, all that they need to take over."""
        return any(_are_ready(self._bases_of(stream).values(), watermark_us) for stream in self.workload.streams)

    def is_moving(self, stream: str) -> bool:
        """Whether new bases of a stream wait to take over."""
        return any(live.waiting is not None for live in self._bases_of(stream).values())

    def looks_at(self, stream: str, events: int) -> bool:
        """Whether what was seen of a stream should be written down, after so many events."""
        has_queries = any(tree.queries for live in self._bases_of(stream).values() for tree in live.trees)
        last = self.learned.get(stream)
        return has_queries and is_worth_a_look(events, 0 if last is None else last.events)

    def _within_tolerance(self, stream: str, change: Change) -> Job:
        """The job, with the trees of a stream woven anew if the plan costs more than the tolerance allows.

        If that is not enough, new bases are opened, which will take over.
        """
        bases, prices = self._bases_of(stream), self.prices_of(stream)
        queries = sliding_queries(bases.values())
        has_learned = stream in (change.seen or {}) and len(queries) > 0 and prices.tolerance != inf
        changes = self.unchecked.get(stream, 0)
        if not (has_learned or changes) or self.is_moving(stream):
            return self
        cost = cost_of_bases(bases.values(), prices)
        if not (has_learned or is_due(prices, changes, len(queries), cost, self.known_costs.get(stream))):
            return self
        cost, fresh_cost = self.costs(stream)
        known_costs = {**self.known_costs, stream: fresh_cost}
        job = replace(self, unchecked={**self.unchecked, stream: 0}, known_costs=known_costs)
        has_many = len({live.generation for live in bases.values()}) > MOST_GENERATIONS
        if not (is_beyond(prices, cost, fresh_cost) or has_many):
            return job
        woven = woven_anew(bases, prices)
        woven_cost = cost_of_bases(woven.values(), prices)
        if woven_cost < cost:
            job = replace(job, bases={**self.bases, **woven}, replans=self.replans + 1, replanned_batch=change.batch)
        if change.seen is None or not (is_beyond(prices, min(cost, woven_cost), fresh_cost) or has_many):
            return job
        return job._with_bases_beside(stream, change)

    def _with_bases_beside(self, stream: str, change: Change) -> Job:
        """The job with new bases for all queries of a stream beside the old ones, as far as that can be."""
        bases = self._bases_of(stream)
        if not may_open(bases.values()):
            return self
        since_us = change.since_us(stream)
        fresh = opened(
            self.workload.streams[stream],
            bases.values(),
            self.prices_of(stream),
            self.next_base,
            since_us,
            changes=self.changed_only,
        )
        if since_us is None:
            fresh = handed_over(bases | fresh)
        kept = {number: live for number, live in self.bases.items() if number not in bases or since_us is not None}
        next_base = max(fresh, default=self.next_base) + 1
        return replace(
            self, bases=kept | fresh, next_base=next_base, replans=self.replans + 1, replanned_batch=change.batch
        )

    def costs(self, stream: str) -> tuple[float, float]:
        """Operations per second of a stream's sliding queries as they are planned now, and in a fresh plan.

        Cost: planning.
        """
        bases = self._bases_of(stream).values()
        prices = self.prices_of(stream)
        fresh = plan_stream(self.workload.streams[stream], sliding_queries(bases), prices)
        return cost_of_bases(bases, prices), prices.stream(fresh)

    def _bases_of(self, stream: str) -> dict[int, FedBase]:
        return {number: live for number, live in self.bases.items() if live.plan.stream.name == stream}

    def _changed(self, change: Change) -> Job:
        """The job after a change, with the trees that were there and further ones."""
        workload = self.workload
        for statement in change.statements:
            if statement.error is None:
                workload = apply(workload, statement.text)
        before = self.workload.queries
        gone = {name for name, query in before.items() if workload.queries.get(name) is not query}
        bases = {number: live.aged(change.watermark_us) for number, live in self.bases.items()}
        bases = {number: live.without(gone) for number, live in bases.items()}
        since_us = self.since_us if change.watermark_us is None else change.watermark_us
        counts = Counter(query.stream for name, query in before.items() if name in gone and query.window.is_sliding)
        counts.update(self.unchecked)
        job = replace(self, workload=workload, bases=bases, changes=self.changes + 1, since_us=since_us)
        for stream in workload.streams.values():
            fresh = [query for query in workload.queries_of(stream.name) if before.get(query.name) is not query]
            over_rows = [query for query in fresh if is_over_rows(query)]
            by_slots = [query for query in fresh if not isinstance(query.window, RowWindow)]
            asked = [query for query in by_slots if not query.window.is_sliding]
            sliding = [query for query in by_slots if query.window.is_sliding]
            counts[stream.name] += len(sliding)
            job = job._with_queries(stream, sliding, change)
            job = job._with_lookups(stream, asked, change)
            job = job._with_row_queries(stream, over_rows, gone, change)
        job = job._with_tuples(self.workload, change)
        # Only now, so that a query that replaces another starts with what that one held.
        needed = {number: live.pruned() for number, live in job.bases.items()}
        return replace(
            job,
            bases={number: live for number, live in needed.items() if live.is_needed or live.will_be_needed},
            row_bases={number: base for number, base in job.row_bases.items() if base.queries},
            unchecked=dict(counts),
        )

    def _with_queries(self, stream: Stream, queries: list[Query], change: Change) -> Job:
        """The job with further sliding queries of one stream: on old trees, on old bases, or on new bases."""
        bases = dict(self.bases)
        left = []
        for query in queries:
            joined = _joined(bases.values(), query, self.since_us)
            if joined is None:
                left.append(query)
            else:
                bases[joined.number] = joined
        for generation in sorted({live.generation for live in bases.values() if live.plan.stream.name == stream.name}):
            members = [live for live in bases.values() if live.generation == generation]
            left, with_trees = _grown(members, left, self.prices_of(stream.name), self.since_us)
            bases |= with_trees
        next_base = self.next_base
        if left:
            fresh = plan_stream(stream, left, self.prices_of(stream.name), first_base=next_base)
            since_us = change.since_us(stream.name)
            for base in fresh.bases:
                held_us = None if since_us is None else next_slot(since_us, base.granularity)
                trees = tuple(FedTree.of(tree, held_us, self.since_us) for tree in fresh.fed_by(base))
                bases[base.number] = FedBase(fresh, base, trees, held_us, held_us, self.changed_only)
            next_base += len(fresh.bases)
        return replace(self, bases=bases, next_base=next_base)

    def _with_tuples(self, before: Workload, change: Change) -> Job:
        """The job with the row queries and the reports of substreams that its workload has now."""
        workload = self.workload
        was = {**before.row_queries, **_reports(before)}
        is_now = {**workload.row_queries, **_reports(workload)}
        gone = [name for name, query in was.items() if is_now.get(name) is not query]
        since_us = {name: change.since_us(name) for name in workload.streams}
        rows = {name: query for name, query in _shown(workload).items() if was.get(name) is not query}
        reports = {name: query for name, query in _reports(workload).items() if was.get(name) is not query}
        fresh = TuplePlan.of(rows, workload.streams, self.next_base, reports, since_us)
        next_base = self.next_base + len(fresh.bases)
        into = {name: query for name, query in _with_into(workload).items() if was.get(name) is not query}
        fresh_held = TuplePlan.of(into, workload.streams, next_base, since_us=since_us)
        held = replace(self.held.after(gone, fresh_held), tables=_with_into(workload))
        next_base += len(fresh_held.bases)
        return replace(self, tuples=self.tuples.after(gone, fresh), held=held, next_base=next_base)

    def _applied(self, before: Workload, text: str, columns: AnswerColumns) -> tuple[Workload, AnswerColumns]:
        """The workload after some statements, and the columns of its answers; raises if this job cannot take them."""
        workload, named = changed(before, text)
        if workload.streams.keys() != before.streams.keys():
            raise NotOnSparkError("a running job reads the streams that it began with; CREATE STREAM needs a new job")
        for name in named:
            row_query, query = workload.row_queries.get(name), workload.queries.get(name)
            if row_query is not None and before.row_queries.get(name) is not row_query:
                if row_query.into is not None:
                    check_row_query(row_query, lookups=True)
                    continue
                if not self.takes_rows:
                    raise NotOnSparkError(
                        f"query {name} answers with rows, and this job has no place for them: start a job with a row "
                        f"query, and it takes others while it runs"
                    )
                if over_stream({name: row_query}):
                    raise from_the_beginning(name)
                check_rows(row_query, self.tuples.most_rows)
            elif query is not None and before.queries.get(name) is not query:
                check_changed_only([query], changed_only=self.changed_only)
                check_live_query(workload, query, self.prices, self.answers_schema)
        return workload, columns.after(before, workload, named)

    def _with_lookups(self, stream: Stream, queries: list[Query], change: Change) -> Job:
        """The job with further queries of one stream that are only looked up. Bases hold what they need."""
        if not queries:
            return self
        slot_us = slot_length(stream, self.workload.queries_of(stream.name))
        job = self._with_queries(stream, [in_place_of(query, stream, slot_us) for query in queries], change)
        asked = {query.name: query for query in queries}
        return replace(job, bases={number: _looked_up(live, asked) for number, live in job.bases.items()})

    def _with_row_queries(self, stream: Stream, queries: list[Query], gone: Set[str], change: Change) -> Job:
        """The job without some queries over rows of one stream, and with further ones.

        New ones join a row base that has what they read, or open one.
        """
        bases, left = dict(self.row_bases), []
        for query in queries:
            home = next((base for base in bases.values() if base.can_serve(query)), None)
            if home is None:
                left.append(query)
            else:
                since_us = home.starts_us(query, change.watermark_us)
                bases[home.number] = home.without([query.name]).with_query(query, since_us)
        kept = gone - {query.name for query in queries}
        bases = {
            number: base.without(kept | {query.name for query in left}) if base.stream.name == stream.name else base
            for number, base in bases.items()
        }
        return replace(self, row_bases=bases)._with_row_bases(stream, left, change.since_us(stream.name))

    def _with_row_bases(self, stream: Stream, queries: list[Query], since_us: int | None) -> Job:
        """The job with row bases for some queries."""
        slots = (live.base.granularity for live in self.bases.values() if live.plan.stream.name == stream.name)
        slot_us = next(slots, stream.granularity_us or 1)
        fresh = plan_row_bases(stream, queries, slot_us, self.next_base, since_us)
        return replace(
            self,
            row_bases={**self.row_bases, **{base.number: base for base in fresh}},
            next_base=self.next_base + len(fresh),
        )


def live_schema(workload: Workload) -> pa.Schema:
    """The columns of a live job's answers. They are fixed when it starts, so every attribute has one."""
    attributes: dict[str, pa.DataType] = {}
    for stream in workload.streams.values():
        for name, kind in stream.attributes.items():
            if name in FIXED_COLUMNS or name in FURTHER_COLUMNS:
                continue
            if attributes.setdefault(name, public_type(kind)) != public_type(kind):
                raise NamesClashError(
                    f"attribute {name!r} has another type in stream {stream.name} than in an earlier stream, but in a "
                    f"job with a control stream the answers have one column for both; rename it in CREATE STREAM"
                )
    fixed = answers_schema(Workload(workload.streams))
    fields = [*fixed][: fixed.get_field_index("aggregate")]
    fields += [pa.field(name, kind) for name, kind in attributes.items()]
    fields += [fixed.field(name) for name in ("aggregate", "value", "exact")]
    # Not every sink takes lists, so they have a column only if a query of the start needs it.
    has_lists = ITEMS in AnswerColumns.of(workload).further
    further = {name: kind for name, kind in FURTHER_COLUMNS.items() if has_lists or name != ITEMS}
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in further.items())])


def check_workload(
    workload: Workload, *, lookups: bool = False, rows: bool = False, most_rows: int | None = None
) -> None:
    """Raise if Spark cannot answer some query, before anything starts.

    Queries without SLIDE need `lookups`: a folder for lookups. Row queries need `rows`: tables of their own. An ORDER
    BY without LIMIT needs `most_rows`.
    """
    if _shown(workload) and not rows:
        names = ", ".join(_shown(workload))
        raise NotOnSparkError(
            f"these queries answer with rows, which have columns of their own and no place in the table of answers: "
            f"{names}; read them with panewise.spark.rows or panewise.spark.tables"
        )
    if not workload.queries and not workload.row_queries:
        raise ArgumentError("the workload has no query; add a CREATE QUERY statement")
    for row_query in workload.row_queries.values():
        check_rows(row_query, most_rows, lookups=lookups)
    for query in workload.queries.values():
        check_query(query, lookups=lookups)


def check_rows(query: RowQuery, most_rows: int | None, *, lookups: bool = False) -> None:
    """Raise if Spark cannot answer a row query, which without LIMIT may bring `most_rows` of a window."""
    check_row_query(query, lookups=lookups)
    is_unbounded = isinstance(query, SortedQuery) and query.limit is None and isinstance(query.window, TimeWindow)
    if is_unbounded and query.into is None and most_rows is None:
        raise NotOnSparkError(
            f"query {query.name}: ORDER BY without LIMIT brings all rows of a window together on Spark; "
            f"write LIMIT, or give most_rows=, the most rows that a window may have"
        )


def check_changed_only(queries: Iterable[Query], *, changed_only: bool) -> None:
    """Raise if changes are asked for where no window is before another for all groups."""
    sliding = (query for query in queries if query.window.is_sliding)
    name = next((query.name for query in sliding if isinstance(query.window, RowWindow)), None)
    if changed_only and name is not None:
        raise NotOnSparkError(
            f"query {name} reports when there are its next rows, and not as time passes: leave out changed_only, or "
            f"give the query a job of its own"
        )


def from_the_beginning(query: str) -> NotOnSparkError:
    """The error for a query over the rows of a whole stream that comes while the job runs."""
    return NotOnSparkError(
        f"query {query}: a window over the rows of a whole stream counts them from the beginning, so such a query must "
        f"be there when the job starts; use a RANGE, [PARTITION BY a ROWS n SLIDE m], or a new job"
    )


def _shown(workload: Workload) -> dict[str, RowQuery]:
    """The row queries whose rows go to tables."""
    return {name: query for name, query in workload.row_queries.items() if query.into is None}


def _with_into(workload: Workload) -> dict[str, RowQuery]:
    """The row queries that are looked up."""
    return {name: query for name, query in workload.row_queries.items() if query.into is not None}


def _reports(workload: Workload) -> dict[str, Query]:
    """The queries over rows that slide."""
    queries = workload.queries.items()
    return {name: query for name, query in queries if reports_by_substream(query.window) or _is_over_stream(query)}


def _is_over_stream(query: Query) -> bool:
    """Whether a query slides over the rows of a whole stream."""
    window = query.window
    return isinstance(window, RowWindow) and window.is_sliding and not window.partition_by


def check_query(query: Query, *, lookups: bool = False) -> None:
    """Raise if Spark cannot answer a query. One without SLIDE needs `lookups`."""
    if is_over_rows(query):
        if not lookups:
            raise NotOnSparkError(
                f"query {query.name}: a window over ROWS without SLIDE is answered by lookups; give folder= (in a "
                f"job file: [lookups]) and look it up from there, or look it up with panewise.Engine"
            )
        return
    if isinstance(query.window, RowWindow):
        return
    if not query.window.is_sliding and not lookups:
        raise NotOnSparkError(
            f"query {query.name}: its window is evaluated on demand, and on Spark windows report as they close; "
            f"add SLIDE to the window, give folder= (in a job file: [lookups]) and look it up from there, or look it "
            f"up with panewise.Engine"
        )


def check_live_query(workload: Workload, query: Query, prices: Prices, schema: pa.Schema) -> None:
    """Raise if a running job, whose answers have these columns, cannot take a query of the workload."""
    check_query(query, lookups=True)
    if _is_over_stream(query):
        raise from_the_beginning(query.name)
    if is_unbounded(query.window):
        raise NotOnSparkError(
            f"query {query.name} goes back to the start, and a running job no longer holds what came then: start the "
            f"job with it, or ask for a RANGE"
        )
    stream = workload.streams[query.stream]
    if stream.is_of_answers:
        raise NotOnSparkError(
            f"query {query.name} reads the answers of query {stream.name}, which no query can that comes through the "
            f"control stream; start a job with both"
        )
    if (
        query.window.is_sliding
        and ITEMS not in schema.names
        and any(is_list(item.expression) for item in query.answers)
    ):
        raise NotOnSparkError(
            f"query {query.name} answers with lists, for which the job's answers have no column: no query had lists "
            f"when it started; start it with one that has, look the query up without SLIDE, or use LAST"
        )
    clash = sorted(set(query.group_by) & (FIXED_COLUMNS | set(FURTHER_COLUMNS)))
    if clash:
        raise NamesClashError(
            f"query {query.name} groups by {clash[0]!r}, which is the name of a column of every answers table; rename "
            f"the attribute in CREATE STREAM"
        )
    if is_over_rows(query):
        check_structure(stream, query, prices)
    elif reports_by_substream(query.window):
        return
    elif not query.window.is_sliding:
        check_lookups(query, stream, slot_length(stream, workload.queries_of(stream.name)), prices)
    elif isinstance(query.window, PunctuationWindow):
        return
    elif stream.granularity_us is not None and any(
        length % stream.granularity_us for span in spans_of(query.window) for length in span
    ):
        raise NotOnSparkError(
            f"query {query.name}: its range, slide and offset must be multiples of the stream's GRANULARITY, which is "
            f"{stream.granularity_us} microseconds"
        )


def _are_ready(bases: Iterable[FedBase], watermark_us: int | None) -> bool:
    """Whether some bases wait, and all of those hold what they need after a watermark."""
    waiting = [live for live in bases if live.waiting is not None]
    return bool(waiting) and all(live.is_ready(watermark_us) for live in waiting)


def _looked_up(live: FedBase, asked: Mapping[str, Query]) -> FedBase:
    """A base with stand-ins for some queries, which report nothing."""
    stand_ins = [
        StandIn(asked[name], planned, tree.exact_from_us[name])
        for tree in live.trees
        for name, planned in tree.queries.items()
        if name in asked
    ]
    return replace(live.without(asked.keys()), stand_ins=(*live.stand_ins, *stand_ins)) if stand_ins else live


def _joined(bases: Iterable[FedBase], query: Query, since_us: int | None) -> FedBase | None:
    """A base with a tree that has all a query needs, and the query added to that tree; None if there is none."""
    for live in bases:
        if live.plan.stream.name != query.stream:
            continue
        for place, tree in enumerate(live.trees):
            planned = fit(live.plan, tree.tree, query)
            if planned is not None:
                joined = tree.with_query(planned, live.held_from_us, since_us)
                return replace(live, trees=(*live.trees[:place], joined, *live.trees[place + 1 :]))
    return None


def _grown(
    bases: list[FedBase], queries: list[Query], prices: Prices, since_us: int | None
) -> tuple[list[Query], dict[int, FedBase]]:
    """The queries that found no place, and the bases of one generation with trees for the others."""
    plan = bases[0].plan
    # A base can feed a tree only while events are combined into it.
    grown, left = grow(replace(plan, bases=tuple(live.base for live in bases)), queries, prices)
    known = {tree.number for tree in plan.trees}
    opened = {}
    for live in bases:
        fresh = [tree for tree in grown.fed_by(live.base) if tree.number not in known]
        trees = (*live.trees, *(FedTree.of(tree, live.held_from_us, since_us) for tree in fresh))
        opened[live.number] = replace(live, plan=replace(grown, bases=plan.bases), trees=trees)
    return left, opened
