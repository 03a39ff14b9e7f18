"""Incremental Weave Share: a plan that stays good while queries come and go.

A new query joins the tree where it saves most, or begins one; the tree of a query that leaves is compared with the
others again. The cost of a plan made from scratch is extrapolated from the last two such plans. If the real cost
exceeds it by more than the tolerance, a new plan is made from scratch, at once or in a thread while queries come and
go. Beyond the paper, this also happens if the number of queries has changed by more than the tolerance since the last
time, as a line through two points says little about sizes far from them.

In a thread the new plan is made from a copy, takes in what has changed since, and replaces the old plan when it has
caught up. A query with edges that the present instants cannot show waits in a tree of its own until the thread has laid
out the trees over other instants. Cost of an addition or removal: one comparison of bitmaps per tree, for any number of
queries.
Source: Guirguis et al., section 5.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from threading import RLock, Thread
from time import perf_counter, sleep

import numpy as np

from panewise.errors import ArgumentError, UnknownNameError
from panewise.planning.sharing.class_table import ONE, ClassTable, Edges, edges_of
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.online_trees import OnlineTrees, load_kernels
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries
from panewise.planning.sharing.space import DEFAULT_CAPS, Caps
from panewise.planning.sharing.weave_share import WeaveShare

_SAMPLE_BITS = 1 << 16
_FEW_CHANGES = 32
_MOST_ROUNDS = 3
"""The rounds of catching up during other changes, which may come as fast as they are taken in."""
_MOST_WAIT_S = 0.002
"""After these rounds other changes wait, never longer than this at a time."""
_MOST_HELD_S = 0.001
"""Before that, the thread lets others run after so long: Python would let a change wait for 5 ms."""


# Plain tuples of numbers cost the garbage collector nothing, for any number of queries.
Member = tuple[int, int, int, int]
"""Range, slide and offset of a query, and its fold factor in parts of ONE."""
Change = tuple[bool, Edges, int]
"""Whether a query came (or went), its edges, and its fold factor in parts of ONE."""


@dataclass(frozen=True)
class Point:
    """A plan made from scratch: how many queries it had, and what it cost."""

    queries: int
    cost: float


class IncrementalWeaveShare:
    """A plan under change. All methods may be called from several threads.

    With `tolerance` 0 every change makes a new plan from scratch; with infinity none does. With `in_background` no
    change waits for that: a thread does it.
    """

    def __init__(
        self,
        rate: float,
        weights: Weights = UNIT_WEIGHTS,
        *,
        tolerance: float = 0.2,
        in_background: bool = False,
        caps: Caps = DEFAULT_CAPS,
    ) -> None:
        if not rate > 0:
            raise ArgumentError(f"rate must be positive, got {rate}")
        if not tolerance >= 0:
            raise ArgumentError(f"the tolerance must not be negative, got {tolerance}")
        load_kernels()
        self.rate = rate
        self.weights = weights
        self.tolerance = tolerance
        self.in_background = in_background
        self.reconstructions = 0
        self.layouts = 0
        self.points: list[Point] = []
        self._caps = replace(caps, sample_bits=min(caps.sample_bits, _SAMPLE_BITS))
        self._offline = WeaveShare(caps=self._caps)
        self._members: dict[Hashable, Member] = {}
        self._trees = self._laid_out(ClassTable())
        self._lock = RLock()
        self._thread: Thread | None = None
        self._log: deque[Change] | None = None
        self._is_at_work = False
        self._is_wanted_anew = self._is_making_anew = False
        self._failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._members)

    @property
    def number_of_trees(self) -> int:
        """How many trees there are."""
        return len(self._trees)

    @property
    def cost(self) -> float:
        """Operations per unit of all trees."""
        with self._lock:
            return self._trees.cost

    @property
    def expected_cost(self) -> float:
        """What a plan made from scratch should cost, judging by the last two; infinite if there was none."""
        if not self.points:
            return inf
        last = self.points[-1]
        before = self.points[-2] if len(self.points) > 1 else Point(0, 0.0)
        slope = (last.cost - before.cost) / (last.queries - before.queries)
        least = self.weights.event * self.rate
        return max(last.cost + slope * (len(self) - last.queries), least)

    def add(self, key: Hashable, window: Sequence[int], factor: float | None = None) -> None:
        """Weave in a query: (range, slide) or (range, slide, offset). Cost: one comparison per tree at most.

        `factor` is what a fragment costs it in combines; the default is range over slide.
        """
        member = _member(window, factor)
        with self._lock:
            if key in self._members:
                raise UnknownNameError(f"query {key} is already in the plan; remove it first")
            self._members[key] = member
            self._change((True, edges_of(*member[:3]), member[3]))

    def add_all(
        self, windows: Mapping[Hashable, Sequence[int]], factors: Mapping[Hashable, float] | None = None
    ) -> None:
        """Add many queries at once and make a new plan from scratch."""
        members = {key: _member(window, None if factors is None else factors[key]) for key, window in windows.items()}
        with self._lock:
            known = members.keys() & self._members.keys()
            if known:
                raise UnknownNameError(f"query {next(iter(known))} is already in the plan; remove it first")
            table = self._trees.table.copy()
            for member in members.values():
                table.add(edges_of(*member[:3]), member[3])
            self._trees = self._made_anew(table)
            self._members.update(members)
            # The plan that a thread is making lacks all of these.
            self._log = None
            self._note_reconstruction(Point(len(self), self.cost))

    def remove(self, key: Hashable) -> None:
        """Take a query out. Cost: one comparison per tree, and the classes of its tree if no other had its edges."""
        with self._lock:
            if key not in self._members:
                raise UnknownNameError(f"query {key} is not in the plan, so it cannot be removed")
            member = self._members.pop(key)
            self._change((False, edges_of(*member[:3]), member[3]))

    def plan(self) -> SharingPlan:
        """The present plan, with its queries in the order in which they came. Cost: the number of queries."""
        with self._lock:
            members = list(self._members.values())
            places, trees = self._trees.table.places, self._trees.table.trees
            found = [places[edges_of(*member[:3])] for member in members]
            tree_of = trees[np.array(found, np.int64)]
        queries = Queries.of([member[:3] for member in members], [member[3] / ONE for member in members])
        return SharingPlan.of("incremental_weave_share", queries, tree_of, self.rate, self.weights)

    def reconstruct(self) -> None:
        """Make a new plan from all queries, and keep it if it is better."""
        with self._lock:
            made = self._made_anew(self._trees.table.copy())
            self._take(made, Point(len(self), made.cost))

    def reconstruct_in_background(self) -> Thread:
        """Make a new plan in a thread; queries that come and go meanwhile are woven into it."""
        return self._in_background(is_anew=True)

    def wait(self) -> None:
        """Wait until the work in the background, if any, has ended; if it failed, raise its error."""
        thread = self._thread
        if thread is not None:
            thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def check_invariants(self) -> None:
        """Raise AssertionError if the trees do not hold exactly the queries. Cost: all queries."""
        with self._lock:
            table = ClassTable()
            for member in self._members.values():
                table.add(edges_of(*member[:3]), member[3])
            there = self._trees.table
            assert table.places.keys() == there.places.keys()
            for edges, place in table.places.items():
                assert table.sizes[place] == there.sizes[there.places[edges]]
                assert table.folds[place] == there.folds[there.places[edges]]
            self._trees.check_invariants()

    def _change(self, change: Change) -> None:
        _apply(change, self._trees)
        if self._log is not None:
            self._log.append(change)
        if self._needs_layout:
            if self.in_background:
                self._in_background(is_anew=False)
            else:
                self._take(self._laid_out(self._trees.table, self._trees.apart))
        self._check()

    @property
    def _needs_layout(self) -> bool:
        return bool(self._trees.apart) or self._trees.is_outgrown

    def _check(self) -> None:
        """Make a new plan if the present one is worse than the tolerance allows."""
        if not self.points and self._members:
            self.points.append(Point(len(self), self.cost))
        if self._is_too_costly:
            if self.in_background:
                self.reconstruct_in_background()
            else:
                self.reconstruct()

    @property
    def _is_too_costly(self) -> bool:
        if not self._members or self.tolerance == inf:
            return False
        last, most = self.points[-1].queries, 1 + self.tolerance
        has_moved = len(self) > last * most or len(self) * most < last
        return self.tolerance == 0 or has_moved or self.cost > most * self.expected_cost

    def _laid_out(self, table: ClassTable, apart: Sequence[Edges] = ()) -> OnlineTrees:
        """The trees of a table over other instants; trees that stood apart are compared with the rest."""
        trees = OnlineTrees.laid_out(table, self.rate, self.weights, self._caps)
        for edges in apart:
            trees.merge(int(table.trees[table.places[edges]]))
        return trees

    def _made_anew(self, table: ClassTable) -> OnlineTrees:
        """A plan made from scratch for a table that nobody else uses."""
        classes, places = table.in_order()
        if len(classes):
            tree_of, _ = self._offline.share_classes(classes, self.rate, self.weights)
            table.trees[places] = tree_of
        return self._laid_out(table)

    def _take(self, trees: OnlineTrees, point: Point | None = None) -> None:
        """Change to a plan that holds the same queries; with `point`, a plan from scratch, only if it is better."""
        if point is None:
            self.layouts += 1
            self._trees = trees
            return
        if trees.cost < self._trees.cost:
            self._trees = trees
        elif point.queries == len(self):
            point = Point(len(self), self.cost)
        self._note_reconstruction(point)

    def _note_reconstruction(self, point: Point) -> None:
        self.reconstructions += 1
        if point.queries:
            self.points = [one for one in self.points if one.queries != point.queries][-1:]
            self.points.append(point)

    def _in_background(self, *, is_anew: bool) -> Thread:
        with self._lock:
            self._is_wanted_anew |= is_anew and not self._is_making_anew
            if self._thread is None or not self._is_at_work:
                self._is_at_work = True
                self._thread = Thread(target=self._work, daemon=True)
                self._thread.start()
            return self._thread

    def _work(self) -> None:
        """The thread's work: make or lay out a plan, and repeat while needed."""
        try:
            while self._has_more_work():
                pass
        except BaseException as failure:
            with self._lock:
                self._failure, self._log = failure, None
                self._is_at_work = self._is_wanted_anew = self._is_making_anew = False

    def _has_more_work(self) -> bool:
        with self._lock:
            is_anew, self._is_wanted_anew = self._is_wanted_anew, False
            self._is_making_anew = is_anew
            if not (is_anew or self._needs_layout):
                self._is_at_work = False
                return False
            # The old trees are freed after the lock: there may be very many classes.
            old = self._trees
            table, apart = old.table.copy(), old.apart
            queries = len(self)
            self._log = deque()
        made = self._made_anew(table) if is_anew else self._laid_out(table, apart)
        point = Point(queries, made.cost) if is_anew else None
        had_changes = self._catch_up(made)
        while True:
            with self._lock:
                if self._log is None:
                    return True
                stop = perf_counter() + _MOST_WAIT_S
                while self._log and perf_counter() < stop:
                    had_changes = True
                    _apply(self._log.popleft(), made)
                if not self._log:
                    self._log = None
                    self._take(made, point)
                    # Queries that came meanwhile may already have made the new plan too costly.
                    if is_anew and had_changes and self._is_too_costly:
                        self._is_wanted_anew = True
                    return True
            sleep(_MOST_WAIT_S / 4)

    def _catch_up(self, made: OnlineTrees) -> bool:
        """Take in what has changed since a new plan was begun, except the last few changes; others need not wait."""
        had_changes = False
        for _ in range(_MOST_ROUNDS):
            with self._lock:
                if self._log is None or len(self._log) <= _FEW_CHANGES:
                    break
                log, self._log = self._log, deque()
            had_changes = True
            stop = perf_counter() + _MOST_HELD_S
            for change in log:
                _apply(change, made)
                if perf_counter() > stop:
                    sleep(_MOST_HELD_S / 4)
                    stop = perf_counter() + _MOST_HELD_S
        return had_changes


def _member(window: Sequence[int], factor: float | None) -> Member:
    length, slide, offset = (*window, 0)[:3]
    edges_of(length, slide, offset)
    if factor is None:
        return length, slide, offset, length * ONE // slide
    if not (isfinite(factor) and factor >= 0):
        raise ArgumentError(f"a fold factor must be finite and not negative, got {factor}")
    return length, slide, offset, int(factor * ONE)


def _apply(change: Change, trees: OnlineTrees) -> None:
    is_addition, edges, fold = change
    if is_addition:
        trees.add(edges, fold)
    else:
        trees.remove(edges, fold)


@dataclass(frozen=True)
class IncrementalMethod:
    """Incremental Weave Share as a method: the queries come one at a time, in their order."""

    tolerance: float = 0.2
    caps: Caps = DEFAULT_CAPS
    name: str = "incremental_weave_share"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        online = IncrementalWeaveShare(rate, weights, tolerance=self.tolerance, caps=self.caps)
        windows = zip(queries.ranges.tolist(), queries.slides.tolist(), queries.offsets.tolist())
        for place, (window, factor) in enumerate(zip(windows, queries.fold_factors.tolist())):
            online.add(place, window, factor)
        return online.plan()
