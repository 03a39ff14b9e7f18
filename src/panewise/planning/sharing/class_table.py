"""Classes of queries with equal edges, in columns; queries come and go.

Invariant: `places` has exactly the classes with a size above 0, and `trees` the tree of each, -1 at free places.
Cost: an addition or removal O(1); a copy only copies arrays, so that a thread can take one without delaying others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from panewise.arrays import Floats, Ints
from panewise.errors import ArgumentError
from panewise.planning.sharing.queries import EdgeClasses

Edges = tuple[int, int, int]
"""The period and the first and second residue of a class; both are equal if there is one edge a period."""
ONE = 1 << 52
"""Fold factors are kept as whole multiples of 1 / ONE, so that subtracting what was added leaves no rest."""


def edges_of(length: int, slide: int, offset: int = 0) -> Edges:
    """The edges of a window.

    >>> edges_of(10, 6), edges_of(16, 4), edges_of(6, 4)
    ((6, 0, 4), (4, 0, 0), (2, 0, 0))
    """
    if length < 1 or slide < 1:
        raise ArgumentError(f"a window needs a positive range and slide, got {length} and {slide}")
    start = offset % slide
    first, second = sorted((start, (start + length) % slide))
    # Two edges half a period apart are one edge with half the period.
    if (second - first) * 2 == slide:
        return slide // 2, first % (slide // 2), first % (slide // 2)
    return slide, first, second


def rate_of(edges: Edges) -> float:
    """Edges per unit of a class."""
    return (1 if edges[1] == edges[2] else 2) / edges[0]


@dataclass(eq=False)
class ClassTable:
    """Classes at places 0 to `used`; `sizes` counts their queries, `folds` adds up their factors in parts of ONE."""

    places: dict[Edges, int] = field(default_factory=dict)
    edges: Ints = field(default_factory=lambda: np.zeros((3, 64), np.int64))
    trees: Ints = field(default_factory=lambda: np.full(64, -1, np.int64))
    sizes: list[int] = field(default_factory=list)
    folds: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def used(self) -> int:
        """How many places were ever taken."""
        return len(self.sizes)

    def copy(self) -> ClassTable:
        """Another table with the same classes."""
        return ClassTable(
            dict(self.places),
            self.edges.copy(),
            self.trees.copy(),
            list(self.sizes),
            list(self.folds),
            list(self.free),
        )

    def add(self, edges: Edges, fold: int) -> tuple[int, bool]:
        """Count a query; returns the place of its class, and whether the class is new."""
        place = self.places.get(edges)
        if place is not None:
            self.sizes[place] += 1
            self.folds[place] += fold
            return place, False
        if self.free:
            place = self.free.pop()
            self.sizes[place], self.folds[place] = 1, fold
        else:
            place = self.used
            self.sizes.append(1)
            self.folds.append(fold)
            if place == len(self.trees):
                self.edges = np.concatenate([self.edges, np.zeros_like(self.edges)], axis=1)
                self.trees = np.concatenate([self.trees, np.full_like(self.trees, -1)])
        self.places[edges] = place
        self.edges[:, place] = edges
        self.trees[place] = -1
        return place, True

    def remove(self, edges: Edges, fold: int) -> tuple[int, bool]:
        """Take a query out; returns the place of its class, and whether the class is gone too."""
        place = self.places[edges]
        self.sizes[place] -= 1
        self.folds[place] -= fold
        if self.sizes[place]:
            return place, False
        del self.places[edges]
        self.free.append(place)
        self.trees[place] = -1
        return place, True

    def in_order(self) -> tuple[EdgeClasses, Ints]:
        """All classes sorted by their edges, and their places. The order in which they came does not matter."""
        there = np.flatnonzero(np.array(self.sizes, np.int64))
        rows = self.edges[:, there]
        order = np.lexsort((rows[2], rows[1], rows[0]))
        places = there[order]
        periods, firsts, seconds = (np.ascontiguousarray(row) for row in rows[:, order])
        return EdgeClasses(periods, firsts, seconds, self.factors(places), np.empty(0, np.int64)), places

    def factors(self, places: Ints) -> Floats:
        """The fold factors of some classes."""
        return np.array([self.folds[place] / ONE for place in places.tolist()], np.float64)
