"""The job: a planned workload and its buckets, all that the Python workers need to know.

Its queries may come and go while it runs. A `Job` is a value: the bases that events are combined into, the trees that
they feed, and from where on each query is exact. `after` gives the job after a change. It is a function of the job
before and of the change alone, so every worker that has seen the same changes has the same job, and a batch that is
repeated is answered as it was the first time.

A new query joins a tree that holds all it needs, or opens a tree on a base that does; both start from the partials that
the base's log still has. Other new queries are planned together onto new bases, which begin with the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from weft.engine.answers import FIXED_COLUMNS, INTERVAL_COLUMNS, answers_schema, public_type
from weft.errors import WeftError
from weft.language.model import Query, Stream, Workload
from weft.language.reader import apply
from weft.planning.cost import Prices
from weft.planning.optimize import fit, grow, plan_stream
from weft.planning.plan import DEFAULT_RATE, Base, PlannedQuery, StreamPlan, Tree
from weft.spark.stand_ins import StandIn, in_place_of, plan_with_stand_ins, slot_length
from weft.windows import TimeWindow
from weft.windows.slots import lengths_of


@dataclass(frozen=True)
class FedTree:
    """A tree with the queries that it answers now.

    Of each query, from where on it sees every event, and the watermark from which on its windows are reported; None is
    the beginning of the stream.
    """

    tree: Tree
    queries: Mapping[str, PlannedQuery]
    exact_from_us: Mapping[str, int | None]
    reports_after_us: Mapping[str, int | None]

    @staticmethod
    def of(tree: Tree, held_from_us: int | None = None, reports_after_us: int | None = None) -> FedTree:
        """A new tree with all its queries."""
        queries = {planned.query.name: planned for planned in tree.queries}
        return FedTree(tree, queries, dict.fromkeys(queries, held_from_us), dict.fromkeys(queries, reports_after_us))

    def with_query(self, planned: PlannedQuery, held_from_us: int | None, reports_after_us: int | None) -> FedTree:
        """The tree with one query more."""
        name = planned.query.name
        return FedTree(
            self.tree,
            {**self.queries, name: planned},
            {**self.exact_from_us, name: held_from_us},
            {**self.reports_after_us, name: reports_after_us},
        )

    def without(self, names: Set[str]) -> FedTree:
        """The tree without some queries."""
        kept = [name for name in self.queries if name not in names]
        return FedTree(
            self.tree,
            {name: self.queries[name] for name in kept},
            {name: self.exact_from_us[name] for name in kept},
            {name: self.reports_after_us[name] for name in kept},
        )


@dataclass(frozen=True)
class FedBase:
    """A base, its trees, and from where on its partials miss no event (None: always).

    `held_from_us` is for what the state's log holds, `logged_from_us` for what lookups find in the slot log.
    """

    plan: StreamPlan
    base: Base
    trees: tuple[FedTree, ...]
    held_from_us: int | None = None
    logged_from_us: int | None = None
    tells_changes: bool = False
    stand_ins: tuple[StandIn, ...] = ()
    """Queries that are only looked up."""

    @property
    def number(self) -> int:
        """The number that its partials carry."""
        return self.base.number

    @property
    def generation(self) -> int:
        """What the bases that were planned together have in common."""
        return self.plan.bases[0].number

    @cached_property
    def retention_us(self) -> int:
        """How long after a slot began its partials are needed: by windows, by corrections, and to tell changes."""
        return max((length for length, _ in self._lengths), default=0) + self.kept_longer_us

    @property
    def lookback_us(self) -> int:
        """How far before the time up to which windows have closed a lookup may reach.

        The newest window that has closed ended less than a slide ago; a query without SLIDE is looked up less than a
        slot ago or later. Corrections reach further back by as much as an event may be late.
        """
        reaches = [length + slide for length, slide in self._lengths]
        reaches += [stand_in.window.left_us + self.base.granularity for stand_in in self.stand_ins]
        return max(reaches, default=0) + self.plan.stream.correct_us

    @cached_property
    def kept_longer_us(self) -> int:
        """How long partials are needed after the last window that covers them closed."""
        # What a change is told from is the window before the one that closes next.
        before = max((slide for _, slide in self._lengths), default=0) if self.tells_changes else 0
        return before + self.plan.stream.correct_us

    @cached_property
    def _lengths(self) -> list[tuple[int, int]]:
        return [lengths_of(planned.query.window) for tree in self.trees for planned in tree.queries.values()]

    def aged(self, watermark_us: int | None) -> FedBase:
        """The base once partials have left that no query needs any more at a watermark."""
        if watermark_us is None:
            return self
        return replace(
            self,
            held_from_us=self._later(self.held_from_us, watermark_us - self.retention_us + 1),
            logged_from_us=self._later(self.logged_from_us, watermark_us - self.lookback_us + 1),
        )

    def without(self, names: Set[str]) -> FedBase:
        """The base without some queries; trees stay, if empty."""
        stand_ins = tuple(stand_in for stand_in in self.stand_ins if stand_in.query.name not in names)
        return replace(self, trees=tuple(tree.without(names) for tree in self.trees), stand_ins=stand_ins)

    def pruned(self) -> FedBase:
        """The base without trees that answer no query."""
        return replace(self, trees=tuple(tree for tree in self.trees if tree.queries))

    def _later(self, known_us: int | None, time_us: int) -> int:
        start_us = _next_slot(time_us, self.base.granularity)
        return start_us if known_us is None else max(known_us, start_us)


@dataclass(frozen=True)
class Statement:
    """What came through the control stream, and why it was refused, if it was."""

    text: str
    error: str | None = None


@dataclass(frozen=True)
class Change:
    """The statements of one batch; they hold from the next batch on.

    `newest_us` is the newest event of each stream up to that batch, and `watermark_us` the watermark in it: all events
    from there on will reach what is opened now.
    """

    batch: int
    statements: tuple[Statement, ...]
    newest_us: Mapping[str, int]
    watermark_us: int | None

    def since_us(self, stream: str) -> int | None:
        """From where on a stream's events are all still to come; None when none has come."""
        seen = [time + 1 for time in (self.newest_us.get(stream),) if time is not None]
        seen += [time for time in (self.watermark_us,) if time is not None and self.newest_us]
        return max(seen, default=None)


@dataclass(frozen=True)
class Job:
    """What the workers of one batch need to know: `prices` are what queries are planned with."""

    workload: Workload
    bucket_ids: tuple[int, ...]
    bases: Mapping[int, FedBase]
    prices: Prices
    answers_schema: pa.Schema
    next_base: int
    is_live: bool = False
    changed_only: bool = False
    changes: int = 0
    since_us: int | None = None
    """The watermark when the last change came; what ended up to then was reported by the job before it."""

    @staticmethod
    def of(
        workload: Workload,
        bucket_ids: Sequence[int],
        *,
        rate: float = DEFAULT_RATE,
        groups: Mapping[str, int] | None = None,
        is_live: bool = False,
        changed_only: bool = False,
    ) -> Job:
        """Plan a workload for some buckets. Where queries may come and go, every attribute has a column of answers."""
        plan, stand_ins = plan_with_stand_ins(workload, rate, groups)
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
        return Job(
            workload,
            tuple(bucket_ids),
            bases,
            Prices(rate, groups=dict(groups or {}), in_bulk=True),
            live_schema(workload) if is_live else answers_schema(workload),
            next_base=max(bases, default=-1) + 1,
            is_live=is_live,
            changed_only=changed_only,
        )

    def for_combining(self) -> Job:
        """The job for the combine step of queries that stay: it needs no trees, and stays small with many of them."""
        bases = {
            number: replace(live, plan=replace(live.plan, trees=()), trees=()) for number, live in self.bases.items()
        }
        return replace(self, workload=Workload(self.workload.streams), bases=bases)

    @cached_property
    def counting_bases(self) -> frozenset[int]:
        """One base of each stream: the one whose partials are counted as the stream's events."""
        first: dict[str, int] = {}
        for number, live in sorted(self.bases.items()):
            first.setdefault(live.plan.stream.name, number)
        return frozenset(first.values())

    def plans_of(self, stream: str) -> list[tuple[StreamPlan, list[Base]]]:
        """The plans over a stream, each with the bases of it that some query needs."""
        found: dict[int, tuple[StreamPlan, list[Base]]] = {}
        for live in self.bases.values():
            if live.plan.stream.name == stream:
                found.setdefault(live.generation, (live.plan, []))[1].append(live.base)
        return list(found.values())

    def watermark_us(self, newest_us: Mapping[str, int]) -> int | None:
        """The watermark that follows from the newest event of each stream, as Spark has it; None before there is one.

        It is the least of the streams', and whole milliseconds.
        """
        streams = self.workload.streams
        if not streams.keys() <= newest_us.keys():
            return None
        least_us = min(newest_us[name] - stream.watermark_us for name, stream in streams.items())
        return least_us // 1000 * 1000 if least_us >= 1000 else None

    def judge(self, texts: Iterable[str]) -> tuple[Statement, ...]:
        """Texts of statements in their order, each with the reason why it cannot be run, if there is one."""
        judged = []
        workload = self.workload
        for text in texts:
            try:
                workload = _applied(workload, text)
            except WeftError as error:
                judged.append(Statement(text, str(error)))
            else:
                judged.append(Statement(text))
        return tuple(judged)

    def after(self, change: Change) -> Job:
        """The job for the batches after a change."""
        workload = self.workload
        for statement in change.statements:
            if statement.error is None:
                workload = apply(workload, statement.text)
        before = self.workload.queries
        gone = {name for name, query in before.items() if workload.queries.get(name) is not query}
        bases = {number: live.aged(change.watermark_us) for number, live in self.bases.items()}
        bases = {number: live.without(gone) for number, live in bases.items()}
        since_us = self.since_us if change.watermark_us is None else change.watermark_us
        job = replace(self, workload=workload, bases=bases, changes=self.changes + 1, since_us=since_us)
        for stream in workload.streams.values():
            fresh = [query for query in workload.queries_of(stream.name) if before.get(query.name) is not query]
            job = job._with_queries(stream, [query for query in fresh if query.window.is_sliding], change)
            job = job._with_lookups(stream, [query for query in fresh if not query.window.is_sliding], change)
        # Only now, so that a query that takes the place of another starts with what that one held.
        needed = {number: live.pruned() for number, live in job.bases.items()}
        return replace(job, bases={number: live for number, live in needed.items() if live.trees or live.stand_ins})

    def _with_queries(self, stream: Stream, queries: list[Query], change: Change) -> Job:
        """The job with further sliding queries of one stream: onto trees, onto bases, and onto bases of their own."""
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
            left, opened = _grown(members, left, self.prices, self.since_us)
            bases |= opened
        next_base = self.next_base
        if left:
            fresh = plan_stream(stream, left, self.prices, first_base=next_base)
            since_us = change.since_us(stream.name)
            for base in fresh.bases:
                held_us = None if since_us is None else _next_slot(since_us, base.granularity)
                trees = tuple(FedTree.of(tree, held_us, self.since_us) for tree in fresh.fed_by(base))
                bases[base.number] = FedBase(fresh, base, trees, held_us, held_us, self.changed_only)
            next_base += len(fresh.bases)
        return replace(self, bases=bases, next_base=next_base)

    def _with_lookups(self, stream: Stream, queries: list[Query], change: Change) -> Job:
        """The job with further queries of one stream that are only looked up: bases hold what they need."""
        if not queries:
            return self
        slot_us = slot_length(stream, self.workload.queries_of(stream.name))
        job = self._with_queries(stream, [in_place_of(query, stream, slot_us) for query in queries], change)
        asked = {query.name: query for query in queries}
        return replace(job, bases={number: _looked_up(live, asked) for number, live in job.bases.items()})


def live_schema(workload: Workload) -> pa.Schema:
    """The columns of a live job's answers: they are fixed when it starts, so every attribute has one."""
    attributes: dict[str, pa.DataType] = {}
    for stream in workload.streams.values():
        for name, kind in stream.attributes.items():
            if name in FIXED_COLUMNS or name in INTERVAL_COLUMNS:
                continue
            if attributes.setdefault(name, public_type(kind)) != public_type(kind):
                raise WeftError(
                    f"attribute {name!r} has another type in stream {stream.name} than in a stream before it, and the "
                    f"answers of a job with a control stream have one column for both; rename it in CREATE STREAM"
                )
    fixed = answers_schema(Workload(workload.streams))
    fields = [*fixed][: fixed.get_field_index("aggregate")]
    fields += [pa.field(name, kind) for name, kind in attributes.items()]
    fields += [fixed.field(name) for name in ("aggregate", "value", "exact")]
    return pa.schema([*fields, *(pa.field(name, pa.float64()) for name in INTERVAL_COLUMNS)])


def check_query(query: Query, *, lookups: bool = False) -> None:
    """Raise where Spark cannot answer a query; those without SLIDE need `lookups`."""
    if not isinstance(query.window, TimeWindow):
        raise WeftError(
            f"query {query.name}: a window over ROWS needs the stream's total order, which Spark does not keep; "
            f"use a RANGE window with SLIDE, or weft.Engine"
        )
    if not query.window.is_sliding and not lookups:
        raise WeftError(
            f"query {query.name}: its window is evaluated on demand, and on Spark windows report as they close; "
            f"add SLIDE to the window, give folder= (in a job file: [lookups]) and look it up from there, or look it "
            f"up with weft.Engine"
        )


def check_live_query(workload: Workload, query: Query) -> None:
    """Raise where a running job cannot take a query of the workload."""
    check_query(query, lookups=True)
    stream = workload.streams[query.stream]
    clash = sorted(set(query.group_by) & (FIXED_COLUMNS | set(INTERVAL_COLUMNS)))
    if clash:
        raise WeftError(
            f"query {query.name} groups by {clash[0]!r}, which is the name of a column of every answers table; rename "
            f"the attribute in CREATE STREAM"
        )
    if not query.window.is_sliding:
        in_place_of(query, stream, slot_length(stream, workload.queries_of(stream.name)))
    elif stream.granularity_us is not None and any(
        length % stream.granularity_us for length in lengths_of(query.window)
    ):
        raise WeftError(
            f"query {query.name}: its range and slide must be multiples of the stream's GRANULARITY, which is "
            f"{stream.granularity_us} microseconds"
        )


def _applied(before: Workload, text: str) -> Workload:
    """The workload after some statements; raises where a running job cannot take them."""
    workload = apply(before, text)
    if workload.streams.keys() != before.streams.keys():
        raise WeftError("a running job reads the streams that it began with; CREATE STREAM needs a new job")
    if workload.row_queries:
        raise WeftError("row queries run in the engine only, and Spark answers aggregates; use weft.Engine")
    for query in workload.queries.values():
        if before.queries.get(query.name) is not query:
            check_live_query(workload, query)
    answers_schema(workload)
    return workload


def _looked_up(live: FedBase, asked: Mapping[str, Query]) -> FedBase:
    """A base whose stand-ins of some queries report nothing."""
    stand_ins = [
        StandIn(asked[name], planned, tree.exact_from_us[name])
        for tree in live.trees
        for name, planned in tree.queries.items()
        if name in asked
    ]
    return replace(live.without(asked.keys()), stand_ins=(*live.stand_ins, *stand_ins)) if stand_ins else live


def _joined(bases: Iterable[FedBase], query: Query, since_us: int | None) -> FedBase | None:
    """A base in one of whose trees a query finds all it needs, with the query; None if there is none."""
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
    """The queries that are left, and the bases of one generation with trees for the others."""
    plan = bases[0].plan
    # Only bases that events are still combined into can feed a tree.
    grown, left = grow(replace(plan, bases=tuple(live.base for live in bases)), queries, prices)
    known = {tree.number for tree in plan.trees}
    opened = {}
    for live in bases:
        fresh = [tree for tree in grown.fed_by(live.base) if tree.number not in known]
        trees = (*live.trees, *(FedTree.of(tree, live.held_from_us, since_us) for tree in fresh))
        opened[live.number] = replace(live, plan=replace(grown, bases=plan.bases), trees=trees)
    return left, opened


def _next_slot(time_us: int, granularity: int) -> int:
    """The first instant from a time on at which a slot begins."""
    return -(-time_us // granularity) * granularity
