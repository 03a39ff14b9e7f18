"""Fed bases: a base of a job, the trees that it feeds, and from where on each query is exact.

They are values: every change gives a new one. The queries that a base has now decide which partials it must keep, and
for how long.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from panewise.planning.trees import Base, PlannedQuery, StreamPlan, Tree
from panewise.spark.stand_ins import StandIn
from panewise.windows import Window, is_unbounded
from panewise.windows.slots import most_lengths_of


@dataclass(frozen=True)
class FedTree:
    """A tree with the queries that it answers now.

    For each query: from when on it sees every event, and the watermark from which on its windows are reported. None is
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

    @property
    def windows(self) -> frozenset[Window]:
        """The different windows of its queries."""
        return frozenset(window for planned in self.queries.values() for window in planned.windows)

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
class Waiting:
    """What a base will take over from older ones, once it holds all that the next windows and lookups need.

    Its partials miss no event from `since_us` on.
    """

    trees: tuple[FedTree, ...]
    stand_ins: tuple[StandIn, ...]
    since_us: int | None

    def without(self, names: Set[str]) -> Waiting:
        """The same without some queries."""
        trees = tuple(tree.without(names) for tree in self.trees)
        return replace(self, trees=trees, stand_ins=_without(self.stand_ins, names))


@dataclass(frozen=True)
class FedBase:
    """A base, its trees, and from when on its partials miss no event (None: always).

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
    waiting: Waiting | None = None
    """What it will take over."""

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

    @cached_property
    def gathers(self) -> bool:
        """Whether some window goes back to the start: partials that others no longer need become one for each key."""
        return any(is_unbounded(window) for tree in self.trees for window in tree.windows)

    @cached_property
    def logs_gather(self) -> bool:
        """The same for lookups."""
        return self.gathers or any(stand_in.window.is_unbounded for stand_in in self.stand_ins)

    @property
    def lookback_us(self) -> int:
        """How far before the time up to which windows have closed a lookup may reach.

        The newest closed window ended less than a slide ago. A query without SLIDE is looked up at most a slot ago.
        Corrections reach further back, by as much as an event may be late.
        """
        reaches = [length + slide for length, slide in self._lengths]
        stand_ins = (*self.stand_ins, *(self.waiting.stand_ins if self.waiting is not None else ()))
        reaches += [
            (0 if stand_in.window.is_unbounded else stand_in.window.left_us) + self.base.granularity
            for stand_in in stand_ins
        ]
        return max(reaches, default=0) + self.plan.stream.correct_us

    @cached_property
    def kept_longer_us(self) -> int:
        """How long partials are needed after the last window that covers them closed."""
        # Changes are told by comparing with the window before the one that closes next.
        before = max((slide for _, slide in self._lengths), default=0) if self.tells_changes else 0
        return before + self.plan.stream.correct_us

    @cached_property
    def _lengths(self) -> list[tuple[int, int]]:
        trees = (*self.trees, *(self.waiting.trees if self.waiting is not None else ()))
        return [most_lengths_of(planned.query.window) for tree in trees for planned in tree.queries.values()]

    @property
    def is_needed(self) -> bool:
        """Whether some query is answered from it now."""
        return bool(self.stand_ins) or any(tree.queries for tree in self.trees)

    @property
    def will_be_needed(self) -> bool:
        """Whether some query waits to be answered from it."""
        return self.waiting is not None and bool(
            self.waiting.stand_ins or any(tree.queries for tree in self.waiting.trees)
        )

    def is_ready(self, watermark_us: int | None) -> bool:
        """Whether it holds all that what waits needs after a watermark."""
        if self.waiting is None or self.waiting.since_us is None:
            return True
        reach_us = max(self.retention_us, self.lookback_us)
        return watermark_us is not None and watermark_us - reach_us >= self.waiting.since_us

    def aged(self, watermark_us: int | None) -> FedBase:
        """The base after partials that no query needs at a watermark have left."""
        if watermark_us is None:
            return self
        return replace(
            self,
            held_from_us=self._later(self.held_from_us, watermark_us - self.retention_us + 1),
            logged_from_us=self._later(self.logged_from_us, watermark_us - self.lookback_us + 1),
        )

    def without(self, names: Set[str]) -> FedBase:
        """The base without some queries; its trees stay, even if they are empty."""
        waiting = None if self.waiting is None else self.waiting.without(names)
        trees = tuple(tree.without(names) for tree in self.trees)
        return replace(self, trees=trees, stand_ins=_without(self.stand_ins, names), waiting=waiting)

    def pruned(self) -> FedBase:
        """The base without trees that answer no query."""
        return replace(self, trees=tuple(tree for tree in self.trees if tree.queries))

    def _later(self, known_us: int | None, time_us: int) -> int:
        start_us = next_slot(time_us, self.base.granularity)
        return start_us if known_us is None else max(known_us, start_us)


def _without(stand_ins: tuple[StandIn, ...], names: Set[str]) -> tuple[StandIn, ...]:
    return tuple(stand_in for stand_in in stand_ins if stand_in.query.name not in names)


def next_slot(time_us: int, granularity: int) -> int:
    """The first instant at or after a time at which a slot begins."""
    return -(-time_us // granularity) * granularity
