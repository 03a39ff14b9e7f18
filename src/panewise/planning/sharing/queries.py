"""Queries as the optimizer sees them: ranges, slides and offsets in one whole unit, of time or of rows.

Queries with the same edges always share a tree: it has no more edges than each alone, and saves one pass over the
events. Even in the best plan they can be put together, as the query in the tree with more edges can move to the other
tree. So a million queries over a few hundred templates become a few hundred edge classes before any search begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from panewise.arrays import Floats, Ints
from panewise.errors import ArgumentError
from panewise.windows.periodic import PeriodicSet
from panewise.windows.slots import spans_of
from panewise.windows.window import Window


@dataclass(frozen=True, eq=False)
class Queries:
    """Windows by place: query i has ranges[i], slides[i] and offsets[i].

    `factors` tells how many combines a fragment costs each query. None means one per instance that the fragment belongs
    to, which is range over slide as in the paper.
    """

    ranges: Ints
    slides: Ints
    offsets: Ints
    factors: Floats | None = None

    def __post_init__(self) -> None:
        if not len(self.ranges) == len(self.slides) == len(self.offsets):
            raise ArgumentError("a query needs a range, a slide and an offset")
        if len(self.ranges) and (self.ranges.min() < 1 or self.slides.min() < 1):
            raise ArgumentError("a window needs a positive range and slide")
        if self.factors is not None:
            if len(self.factors) != len(self.ranges):
                raise ArgumentError(f"{len(self.ranges)} queries need as many fold factors, got {len(self.factors)}")
            if not (np.isfinite(self.factors) & (self.factors >= 0)).all():
                raise ArgumentError("fold factors must be finite and not negative")

    @classmethod
    def of(cls, windows: Iterable[Sequence[int]], factors: Sequence[float] | Floats | None = None) -> Queries:
        """Queries from (range, slide) or (range, slide, offset)."""
        rows = np.array([(*one, 0)[:3] for one in windows], np.int64).reshape(-1, 3)
        given = None if factors is None else np.array(factors, np.float64)
        return cls(rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy(), given)

    @classmethod
    def of_windows(cls, windows: Iterable[Window], factors: Sequence[float] | Floats | None = None) -> Queries:
        """Queries from sliding windows, all of time (in microseconds) or all of rows."""
        return cls.of((spans_of(window)[0] for window in windows), factors)

    def __len__(self) -> int:
        return len(self.ranges)

    def chosen(self, places: Ints) -> Queries:
        """Some of the queries."""
        factors = None if self.factors is None else self.factors[places]
        return Queries(self.ranges[places], self.slides[places], self.offsets[places], factors)

    @property
    def overlaps(self) -> Floats:
        """How many instances of each window an event falls into."""
        return self.ranges / self.slides

    @property
    def fold_factors(self) -> Floats:
        """How many combines a fragment costs each query: `factors`, or the overlaps if none were given."""
        return self.overlaps if self.factors is None else self.factors

    @cached_property
    def classes(self) -> EdgeClasses:
        """The queries by their edges."""
        return EdgeClasses.of(self)


@dataclass(frozen=True, eq=False)
class EdgeClasses:
    """Different edge sets, in an order that does not depend on the order of the queries.

    Class c has the edges firsts[c] and seconds[c] modulo periods[c]; both are equal if there is one edge a period.
    `class_of` gives the class of each query, `factors` the sum of the fold factors of a class's queries.
    """

    periods: Ints
    firsts: Ints
    seconds: Ints
    factors: Floats
    class_of: Ints

    @classmethod
    def of(cls, queries: Queries) -> EdgeClasses:
        """Collapse queries with equal edges. Cost: a sort."""
        periods = queries.slides.copy()
        starts = queries.offsets % periods
        ends = (starts + queries.ranges) % periods
        firsts, seconds = np.minimum(starts, ends), np.maximum(starts, ends)
        # Two edges half a period apart are one edge with half the period.
        halved = (seconds - firsts) * 2 == periods
        periods[halved] //= 2
        firsts[halved] %= periods[halved]
        seconds[halved] = firsts[halved]
        order = np.lexsort((seconds, firsts, periods))
        rows = np.stack([periods, firsts, seconds])[:, order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (rows[:, 1:] != rows[:, :-1]).any(axis=0)
        class_of = np.empty(len(order), np.int64)
        class_of[order] = np.cumsum(is_new) - 1
        periods, firsts, seconds = (np.ascontiguousarray(row) for row in rows[:, is_new])
        # Sums are taken in the order of the ranges, so that they do not depend on the order of the queries either.
        each = queries.fold_factors
        by_range = np.lexsort((each, queries.ranges, queries.slides))
        factors = sums_of(class_of[by_range], each[by_range], len(periods))
        return cls(periods, firsts, seconds, factors, class_of)

    def __len__(self) -> int:
        return len(self.periods)

    @property
    def rates(self) -> Floats:
        """Edges per unit of each class."""
        return np.where(self.firsts == self.seconds, 1, 2) / self.periods

    @property
    def grid(self) -> int:
        """The greatest step of a grid that all edges lie on."""
        parts = np.concatenate([self.periods, self.firsts - self.firsts[0], self.seconds - self.firsts[0]])
        return int(np.gcd.reduce(parts))

    def edges(self, place: int) -> PeriodicSet:
        """The edges of one class."""
        residues = {int(self.firsts[place]), int(self.seconds[place])}
        return PeriodicSet(int(self.periods[place]), tuple(sorted(residues)))

    def chosen(self, places: Ints) -> EdgeClasses:
        """Some of the classes, without their queries."""
        return EdgeClasses(
            self.periods[places],
            self.firsts[places],
            self.seconds[places],
            self.factors[places],
            np.empty(0, np.int64),
        )


def sums_of(groups: Ints, values: Floats, size: int) -> Floats:
    """The sum of the values of each group 0 .. size - 1."""
    return np.bincount(groups, values, minlength=size).astype(np.float64)
