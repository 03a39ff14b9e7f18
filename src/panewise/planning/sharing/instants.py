"""The instants at which the edges of trees are compared.

If the period after which all edges repeat is short enough, the instants are that period, and every count is exact. If
not, they are a sample, and what classes share is an estimate, while the rates of single classes stay exact:

- if edges are dense on their grid, blocks of instants at random places;
- if they are rare, random edges: each edge of any class is as likely as another. An edge is drawn from a class in
  proportion to its rate, and kept with the probability 1 / number of classes that have it (Karp and Luby, FOCS 1983).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from panewise.arrays import Floats, Ints
from panewise.kernels import edge_sets as kernels
from panewise.planning.sharing.queries import EdgeClasses

BLOCK = 1024
"""The length of a block of a sample."""


DENSE = 1 / 32
"""With at least this many edges per step of the grid, blocks are used."""
_MOST_LOOKUPS = 1 << 24
"""How many times a sample of edges may be compared with a class."""
_LEAST_SAMPLE = 1 << 15
_DIRECT_BITS = 1024
_FAR = 1 << 62
"""Instants are drawn from a time this long, so that any two residues meet as often as they should."""


@dataclass(frozen=True)
class Instants:
    """Instants on the grid of some classes' edges, counted from an edge: blocks[b] .. blocks[b] + length for each b.

    `period` is the number of instants after which edges repeat, None for a sample; `bit_rate` is the rate, per step of
    the grid, that one instant stands for.
    """

    grid: int
    origin: int
    blocks: Ints
    length: int
    period: int | None
    bit_rate: float

    @classmethod
    def of(cls, classes: EdgeClasses, *, exact_bits: int, sample_bits: int, seed: int) -> Instants:
        """The instants for some classes: their period if it has at most `exact_bits`, a sample otherwise."""
        grid, origin = classes.grid, int(classes.firsts[0])
        period = period_under(classes.periods // grid, exact_bits)
        if period is not None:
            return cls(grid, origin, np.zeros(1, np.int64), period, period, 1 / period)
        random = np.random.default_rng(seed)
        if classes.rates.sum() * grid >= DENSE:
            blocks = random.integers(0, _FAR, sample_bits // BLOCK)
            return cls(grid, origin, blocks, BLOCK, None, 1 / (len(blocks) * BLOCK))
        size = min(sample_bits, max(_LEAST_SAMPLE, _MOST_LOOKUPS // len(classes)))
        edges, bit_rate = _random_edges(scaled_classes(classes, grid, origin), classes.rates * grid, size, random)
        return cls(grid, origin, edges, 1, None, bit_rate)

    @property
    def is_sample(self) -> bool:
        """Whether counts are estimates."""
        return self.period is None

    @property
    def is_of_edges(self) -> bool:
        """Whether this is a sample of edges."""
        return self.is_sample and self.length == 1

    @property
    def direct_bits(self) -> int:
        """With at least this many bits, a tree's bits give its rate better than what its classes share.

        In a sample of edges, a few edges that very many classes share would weigh too much.
        """
        return _DIRECT_BITS if self.is_of_edges else 1 << 62

    @property
    def bits(self) -> int:
        """How many instants there are."""
        return len(self.blocks) * self.length

    def scaled(self, classes: EdgeClasses) -> kernels.Classes:
        """The classes in steps of the grid, from the origin."""
        return scaled_classes(classes, self.grid, self.origin)

    def has(self, classes: EdgeClasses) -> bool:
        """Whether other classes have all their edges on the grid, and repeat with the period."""
        off_grid = (classes.firsts - self.origin) % self.grid + (classes.seconds - self.origin) % self.grid
        if off_grid.any() or (classes.periods % self.grid).any():
            return False
        return self.period is None or not (self.period % (classes.periods // self.grid)).any()

    def union_rates(self, classes: EdgeClasses, members: Ints, starts: Ints) -> Floats:
        """Edges per unit of the trees members[starts[t]:starts[t + 1]]; estimates if this is a sample."""
        unions, sums = kernels.count_unions(self.scaled(classes), self.blocks, self.length, members, starts)
        if not self.is_sample:
            return unions / self.bits / self.grid
        known = np.add.reduceat(classes.rates[members], starts[:-1])
        estimates = known - (sums - unions) * self.bit_rate / self.grid
        return np.where(unions < self.direct_bits, estimates, unions * self.bit_rate / self.grid)


def period_under(periods: Ints, most: int) -> int | None:
    """The least common multiple, or None if it exceeds `most`."""
    period = 1
    for one in np.unique(periods).tolist():
        period = lcm(period, one)
        if period > most:
            return None
    return period


def scaled_classes(classes: EdgeClasses, grid: int, origin: int) -> kernels.Classes:
    """Classes in steps of a grid, from an origin."""
    periods = classes.periods // grid
    return kernels.Classes(
        periods, (classes.firsts - origin) // grid % periods, (classes.seconds - origin) // grid % periods
    )


def _random_edges(
    classes: kernels.Classes, rates: Floats, size: int, random: np.random.Generator
) -> tuple[Ints, float]:
    """Random edges of any class, at most `size`, and the rate that each stands for."""
    chosen = random.choice(len(rates), size, p=rates / rates.sum())
    residues = np.where(random.random(size) < 0.5, classes.firsts[chosen], classes.seconds[chosen])
    edges = residues + random.integers(0, _FAR // classes.periods[chosen]) * classes.periods[chosen]
    share = 1 / kernels.count_classes_at(classes, edges)
    kept = edges[random.random(size) < share]
    return kept, float(rates.sum() * share.mean() / len(kept))
