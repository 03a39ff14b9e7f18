"""Incremental Weave Share: a plan that stays good while queries come and go.

A new query joins the tree where it saves most, or begins one; the tree of a query that goes is compared with the others
again. How good a plan made from scratch would be is extrapolated from the last two such plans: when the cost exceeds
that by more than the tolerance, the plan is made anew, at once or in a thread while queries come and go. Beyond the
paper it is also made anew when the number of queries has changed by more than the tolerance since the last time, as a
line through two points says little about sizes far from them.

In a thread the new plan is made from a copy, takes in what has changed since, and replaces the old one when it has
caught up. A query with edges that the present instants cannot show waits in a tree of its own until the thread has laid
out the trees over others.
Cost of an addition or removal: one comparison of bitmaps per tree, whatever the number of queries.
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

from weft.errors import WeftError
from weft.planning.sharing.class_table import ONE, ClassTable, Edges, edges_of
from weft.planning.sharing.cost import UNIT_WEIGHTS, Weights
from weft.planning.sharing.online_trees import OnlineTrees, load_kernels
from weft.planning.sharing.plan import SharingPlan
from weft.planning.sharing.queries import Queries
from weft.planning.sharing.space import DEFAULT_CAPS, Caps
from weft.planning.sharing.weave_share import WeaveShare

_SAMPLE_BITS = 1 << 16
_FEW_CHANGES = 32
_MOST_ROUNDS = 3
"""So many rounds of catching up take place beside other changes, which may come as fast as they are taken in."""
_MOST_WAIT_S = 0.002
"""After that the others wait, never longer than this at a time."""


class UnknownQueryError(WeftError):
    """A query that is not in the plan, or is there already."""


# Plain tuples of numbers cost the garbage collector nothing, however many queries there are.
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

    With `tolerance` 0 every change makes the plan anew; with infinity none does. With `in_background` no change waits
    for that: a thread does it.
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
            raise ValueError(f"rate must be positive, got {rate}")
        if not tolerance >= 0:
            raise ValueError(f"the tolerance must not be negative, got {tolerance}")
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
        """What a plan made from scratch should cost, from the last two that were; infinite if none was."""
        if not self.points:
            return inf
        last = self.points[-1]
        before = self.points[-2] if len(self.points) > 1 else Point(0, 0.0)
        slope = (last.cost - before.cost) / (last.queries - before.queries)
        least = self.weights.event * self.rate
        return max(last.cost + slope * (len(self) - last.queries), least)

    def add(self, key: Hashable, window: Sequence[int], factor: float | None = None) -> None:
        """Weave in a query: (range, slide) or (range, slide, offset). Cost: one comparison per tree at most.

        `factor` is what a fragment costs it in combines; range over slide if none is given.
        """
        member = _member(window, factor)
        with self._lock:
            if key in self._members:
                raise UnknownQueryError(f"query {key} is in the plan already; remove it first")
            self._members[key] = member
            self._change((True, edges_of(*member[:3]), member[3]))

    def add_all(
        self, windows: Mapping[Hashable, Sequence[int]], factors: Mapping[Hashable, float] | None = None
    ) -> None:
        """Add many queries at once and make the plan anew."""
        members = {key: _member(window, None if factors is None else factors[key]) for key, window in windows.items()}
        with self._lock:
            known = members.keys() & self._members.keys()
            if known:
                raise UnknownQueryError(f"query {next(iter(known))} is in the plan already; remove it first")
            table = self._trees.table.copy()
            for member in members.values():
                table.add(edges_of(*member[:3]), member[3])
            self._trees = self._made_anew(table)
            self._members.update(members)
            # What a thread is making lacks all of these.
            self._log = None
            self._note_reconstruction(Point(len(self), self.cost))

    def remove(self, key: Hashable) -> None:
        """Take a query out. Cost: one comparison per tree, and the classes of its tree if no other had its edges."""
        with self._lock:
            if key not in self._members:
                raise UnknownQueryError(f"query {key} is not in the plan, so it cannot be removed")
            member = self._members.pop(key)
            self._change((False, edges_of(*member[:3]), member[3]))

    def plan(self) -> SharingPlan:
        """The plan as it stands, its queries in the order in which they came. Cost: the number of queries."""
        with self._lock:
            members = list(self._members.values())
            places, trees = self._trees.table.places, self._trees.table.trees
            found = [places[edges_of(*member[:3])] for member in members]
            tree_of = trees[np.array(found, np.int64)]
        queries = Queries.of([member[:3] for member in members], [member[3] / ONE for member in members])
        return SharingPlan.of("incremental_weave_share", queries, tree_of, self.rate, self.weights)

    def reconstruct(self) -> None:
        """Make the plan anew from all queries, and keep it if it is better."""
        with self._lock:
            made = self._made_anew(self._trees.table.copy())
            self._take(made, Point(len(self), made.cost))

    def reconstruct_in_background(self) -> Thread:
        """Make the plan anew in a thread; queries may come and go meanwhile, and are woven into the new plan."""
        return self._in_background(is_anew=True)

    def wait(self) -> None:
        """Wait until the work in the background, if any, has ended; raises what made it fail."""
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
        """Make the plan anew if it is worse than the tolerance allows."""
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
        """The trees of a table over other instants, and those that stood apart compared with the rest."""
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
        """Go over to a plan that holds the same queries; if it was made anew as `point` says, only if it is better."""
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
        """What the thread does: a plan made anew or laid out, and again while that is needed."""
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
            # The old trees are let go after the lock: there may be very many classes.
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
                    # What came meanwhile may have made the new plan too costly already.
                    if is_anew and had_changes and self._is_too_costly:
                        self._is_wanted_anew = True
                    return True
            sleep(_MOST_WAIT_S / 4)

    def _catch_up(self, made: OnlineTrees) -> bool:
        """Take in what has changed since a new plan was begun, but for the last few; others need not wait."""
        had_changes = False
        for _ in range(_MOST_ROUNDS):
            with self._lock:
                if self._log is None or len(self._log) <= _FEW_CHANGES:
                    break
                log, self._log = self._log, deque()
            had_changes = True
            for change in log:
                _apply(change, made)
        return had_changes


def _member(window: Sequence[int], factor: float | None) -> Member:
    length, slide, offset = (*window, 0)[:3]
    edges_of(length, slide, offset)
    if factor is None:
        return length, slide, offset, length * ONE // slide
    if not (isfinite(factor) and factor >= 0):
        raise ValueError(f"a fold factor must be finite and not negative, got {factor}")
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
