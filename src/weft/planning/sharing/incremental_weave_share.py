"""Incremental Weave Share: a plan that stays good while queries come and go.

A new query joins the tree where it saves most, or begins one; the tree of a query that goes is compared with the others
again. How good a plan made from scratch would be is extrapolated from the last two such plans: when the cost exceeds
that by more than the tolerance, the plan is made anew, at once or in a thread while queries come and go. Beyond the
paper it is also made anew when the number of queries has changed by more than the tolerance since the last time, as a
line through two points says little about sizes far from them.
Cost of an addition or removal: one comparison of bitmaps per tree, whatever the number of queries.
Source: Guirguis et al., section 5.2.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from threading import RLock, Thread

import numpy as np

from weft.errors import WeftError
from weft.kernels import edge_sets as kernels
from weft.planning.sharing.cost import UNIT_WEIGHTS, Weights, tree_cost
from weft.planning.sharing.instants import Instants
from weft.planning.sharing.plan import SharingPlan
from weft.planning.sharing.queries import EdgeClasses, Queries
from weft.planning.sharing.space import DEFAULT_CAPS, Caps, Words
from weft.planning.sharing.weave_share import WeaveShare
from weft.windows.periodic import PeriodicSet, paired

_EXACT_BITS = 1 << 20
_SAMPLE_BITS = 1 << 16
"""Longer bitmaps would make a single addition slow."""


class UnknownQueryError(WeftError):
    """A query that is not in the plan, or is there already."""


@dataclass(eq=False)
class _Class:
    """The queries with the same edges."""

    edges: PeriodicSet
    overlap: Fraction = Fraction(0)
    size: int = 0


@dataclass(eq=False)
class _Tree:
    """Classes that share fragments. `rate` is in edges per unit."""

    bitmap: Words
    rate: float
    overlap: float
    classes: set[PeriodicSet] = field(default_factory=set)


@dataclass(frozen=True)
class Point:
    """A plan made from scratch: how many queries it had, and what it cost."""

    queries: int
    cost: float


class IncrementalWeaveShare:
    """A plan under change. All methods may be called from several threads.

    With `tolerance` 0 every change makes the plan anew; with infinity none does.
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
        self.rate = rate
        self.weights = weights
        self.tolerance = tolerance
        self.in_background = in_background
        self.reconstructions = 0
        self.points: list[Point] = []
        caps = replace(caps, sample_bits=min(caps.sample_bits, _SAMPLE_BITS))
        self._offline = WeaveShare(caps=caps)
        self._caps = replace(caps, exact_bits=min(caps.exact_bits, _EXACT_BITS))
        self._windows: dict[Hashable, tuple[int, int, int]] = {}
        self._classes: dict[PeriodicSet, _Class] = {}
        self._tree_of: dict[PeriodicSet, _Tree] = {}
        self._trees: dict[_Tree, None] = {}
        self._instants: Instants | None = None
        self._sampled = 0
        self._lock = RLock()
        self._thread: Thread | None = None

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def number_of_trees(self) -> int:
        """How many trees there are."""
        return len(self._trees)

    @property
    def cost(self) -> float:
        """Operations per unit of all trees."""
        with self._lock:
            return sum(tree_cost(self.rate, tree.rate, tree.overlap, self.weights) for tree in self._trees)

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

    def add(self, key: Hashable, window: Sequence[int]) -> None:
        """Weave in a query: (range, slide) or (range, slide, offset). Cost: one comparison per tree at most."""
        with self._lock:
            if key in self._windows:
                raise UnknownQueryError(f"query {key} is in the plan already; remove it first")
            self._count(key, window)
            edges = paired(*self._windows[key])
            if edges in self._tree_of:
                self._tree_of[edges].overlap += window[0] / window[1]
            else:
                if len(self._classes) > 2 * self._sampled:
                    # A sample of edges knows little of those that came later.
                    self._instants = None
                self._insert(edges)
            self._check()

    def add_all(self, windows: Mapping[Hashable, Sequence[int]]) -> None:
        """Add many queries at once and make the plan anew."""
        with self._lock:
            known = windows.keys() & self._windows.keys()
            if known:
                raise UnknownQueryError(f"query {next(iter(known))} is in the plan already; remove it first")
            for key, window in windows.items():
                self._count(key, window)
            self.reconstruct()

    def remove(self, key: Hashable) -> None:
        """Take a query out. Cost: one comparison per tree, and the classes of its tree if no other had its edges."""
        with self._lock:
            if key not in self._windows:
                raise UnknownQueryError(f"query {key} is not in the plan, so it cannot be removed")
            length, slide, offset = self._windows.pop(key)
            edges = paired(length, slide, offset)
            found = self._classes[edges]
            found.size -= 1
            found.overlap -= Fraction(length, slide)
            tree = self._tree_of[edges]
            tree.overlap -= length / slide
            if not found.size:
                del self._classes[edges], self._tree_of[edges]
                tree.classes.remove(edges)
                del self._trees[tree]
                if tree.classes:
                    tree = self._tree(tree.classes)
                    self._trees[tree] = None
            if tree in self._trees:
                self._merge(tree)
            self._check()

    def plan(self) -> SharingPlan:
        """The plan as it stands, its queries in the order in which they came. Cost: the number of queries."""
        with self._lock:
            numbers = {tree: number for number, tree in enumerate(self._trees)}
            queries = Queries.of(self._windows.values())
            trees = [numbers[self._tree_of[paired(*window)]] for window in self._windows.values()]
            return SharingPlan.of(
                "incremental_weave_share", queries, np.array(trees, np.int64), self.rate, self.weights
            )

    def reconstruct(self) -> None:
        """Make the plan anew from all queries, and keep it if it is better."""
        with self._lock:
            self._take(*self._made_anew(*self._snapshot()))

    def reconstruct_in_background(self) -> Thread:
        """Make the plan anew in a thread; queries may come and go meanwhile, and are woven into the new plan."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                snapshot = self._snapshot()
                self._thread = Thread(target=lambda: self._take(*self._made_anew(*snapshot)), daemon=True)
                self._thread.start()
            return self._thread

    def wait(self) -> None:
        """Wait until a reconstruction in the background, if any, has ended."""
        if self._thread is not None:
            self._thread.join()

    def _count(self, key: Hashable, window: Sequence[int]) -> None:
        length, slide, offset = (*window, 0)[:3]
        edges = paired(length, slide, offset)
        self._windows[key] = (length, slide, offset)
        found = self._classes.setdefault(edges, _Class(edges))
        found.size += 1
        found.overlap += Fraction(length, slide)

    def _check(self) -> None:
        """Make the plan anew if it is worse than the tolerance allows."""
        if not self.points and self._windows:
            self.points.append(Point(len(self), self.cost))
        if not self._windows or self.tolerance == inf:
            return
        last, most = self.points[-1].queries, 1 + self.tolerance
        has_moved = len(self) > last * most or len(self) * most < last
        if self.tolerance == 0 or has_moved or self.cost > most * self.expected_cost:
            if self.in_background:
                self.reconstruct_in_background()
            else:
                self.reconstruct()

    def _snapshot(self) -> tuple[int, list[_Class]]:
        order = sorted(self._classes.values(), key=lambda one: (one.edges.period, one.edges.residues))
        return len(self), [replace(one) for one in order]

    def _made_anew(self, queries: int, classes: list[_Class]) -> tuple[int, list[list[_Class]]]:
        """The classes of each tree of a plan made from scratch."""
        if not classes:
            return queries, []
        tree_of, _ = self._offline.share_classes(_as_arrays(classes), self.rate, self.weights)
        groups: dict[int, list[_Class]] = {}
        for one, tree in zip(classes, tree_of.tolist()):
            groups.setdefault(tree, []).append(one)
        return queries, list(groups.values())

    def _take(self, queries: int, groups: list[list[_Class]]) -> None:
        """Go over to a plan that was made from a snapshot, and weave in what has come since."""
        with self._lock:
            self.reconstructions += 1
            old_trees, old_tree_of, old_cost = self._trees, self._tree_of, self.cost
            was_complete = len(old_tree_of) == len(self._classes)
            self._trees, self._tree_of = {}, {}
            for group in groups:
                left = {one.edges for one in group if one.edges in self._classes}
                if left:
                    tree = self._tree(left)
                    self._trees[tree] = None
            for edges in [edges for edges in self._classes if edges not in self._tree_of]:
                self._insert(edges)
            if was_complete and old_cost <= self.cost:
                self._trees, self._tree_of = old_trees, old_tree_of
            if self._windows:
                self.points = [point for point in self.points if point.queries != len(self)][-1:]
                self.points.append(Point(len(self), self.cost))

    def _insert(self, edges: PeriodicSet) -> None:
        """Begin a tree with a new class, and merge it while that saves."""
        tree = self._tree({edges})
        self._trees[tree] = None
        self._merge(tree)

    def _tree(self, classes: set[PeriodicSet]) -> _Tree:
        """A tree of some classes, which are all counted already."""
        chosen = [self._classes[edges] for edges in sorted(classes, key=lambda one: (one.period, one.residues))]
        arrays = _as_arrays(chosen)
        instants = self._instants_for(arrays)
        bitmap = np.zeros((1, -(-instants.bits // 64)), np.uint64)
        rows = np.zeros(len(chosen), np.int64)
        kernels.mark(instants.scaled(arrays), instants.blocks, instants.length, rows, bitmap)
        rate = float(instants.union_rates(arrays, np.arange(len(chosen)), np.array([0, len(chosen)]))[0])
        tree = _Tree(bitmap[0], rate, float(arrays.overlaps.sum()), classes)
        self._tree_of.update(dict.fromkeys(classes, tree))
        return tree

    def _instants_for(self, classes: EdgeClasses) -> Instants:
        """The instants at which edges are compared; new ones when a class has edges that the old ones cannot show."""
        if self._instants is None or not self._instants.has(classes):
            order = sorted(self._classes.values(), key=lambda one: (one.edges.period, one.edges.residues))
            self._sampled = len(order)
            self._instants = Instants.of(
                _as_arrays(order),
                exact_bits=self._caps.exact_bits,
                sample_bits=self._caps.sample_bits,
                seed=self._caps.seed,
            )
            for tree in list(self._trees):
                new = self._tree(tree.classes)
                tree.bitmap, tree.rate = new.bitmap, new.rate
                self._tree_of.update(dict.fromkeys(tree.classes, tree))
        return self._instants

    def _merge(self, tree: _Tree) -> None:
        """Merge a tree with the one that saves most, while any saves."""
        assert self._instants is not None
        bit_rate = self._instants.bit_rate / self._instants.grid
        others = [other for other in self._trees if other is not tree]
        while others:
            common = np.array([kernels.count_common(other.bitmap, tree.bitmap) for other in others]) * bit_rate
            rates = np.array([other.rate for other in others])
            overlaps = np.array([other.overlap for other in others])
            more = rates * tree.overlap + tree.rate * overlaps - common * (overlaps + tree.overlap)
            saved = self.weights.event * self.rate - self.weights.combine * more
            best = int(saved.argmax())
            if saved[best] <= 0:
                return
            other = others.pop(best)
            del self._trees[other]
            tree.bitmap = tree.bitmap | other.bitmap
            tree.rate += other.rate - float(common[best])
            tree.overlap += other.overlap
            tree.classes |= other.classes
            self._tree_of.update(dict.fromkeys(other.classes, tree))


def _as_arrays(classes: list[_Class]) -> EdgeClasses:
    return EdgeClasses(
        periods=np.array([one.edges.period for one in classes], np.int64),
        firsts=np.array([one.edges.residues[0] for one in classes], np.int64),
        seconds=np.array([one.edges.residues[-1] for one in classes], np.int64),
        overlaps=np.array([float(one.overlap) for one in classes], np.float64),
        class_of=np.empty(0, np.int64),
    )


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
        for place, window in enumerate(windows):
            online.add(place, window)
        return online.plan()
