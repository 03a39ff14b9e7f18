"""Weave Share for few windows, with words of bits as sets of edges: nothing is compiled.

Most workloads have a few dozen different slides that soon meet again. For these the edges of a tree within one common
period are the bits of one array, a union is `|`, and a count is `np.bitwise_count`. Merging begins with a tree for each
set of edges and merges the pair that saves most; then single sets are moved while that saves (Guirguis et al., sections
5 and 6). Larger workloads use the compiled search, which takes seconds to compile on a new machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm

import numpy as np

from panewise.arrays import Words
from panewise.windows.periodic import PeriodicSet, paired

MOST_CLASSES = 128
MOST_BITS = 1 << 21


@dataclass
class _Tree:
    """Some classes, their edges, and how many combines a fragment costs them."""

    classes: set[int]
    edges: Words
    visits: float
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = _count(self.edges)


def share_few(
    windows: Sequence[Sequence[int]], rate: float, visits: Sequence[float] | None = None, edge: float = 0.0
) -> list[int] | None:
    """The tree of each window, given by range, slide and maybe offset; None if there are too many.

    `rate` is inputs a unit. `visits` tells how many combines a fragment costs each window, range over slide if it is
    not given; `edge` how many an edge of a tree costs by itself.

    >>> share_few([(16, 4), (10, 5), (8, 4)], 1.2)
    [0, 1, 0]
    """
    visits = [window[0] / window[1] for window in windows] if visits is None else visits
    class_of: dict[PeriodicSet, int] = {}
    places = [class_of.setdefault(paired(*window), len(class_of)) for window in windows]
    period = lcm(*(window[1] for window in windows))
    if len(class_of) > MOST_CLASSES or period > MOST_BITS:
        return None
    edges = [_bits(one, period) for one in class_of]
    visits_of = [0.0] * len(edges)
    for combines, place in zip(visits, places):
        visits_of[place] += combines
    trees = [_Tree({place}, edges[place], visits_of[place]) for place in range(len(edges))]
    search = _Search(edges, visits_of, rate * period, edge)
    search.merge(trees)
    search.move(trees)
    # Numbered by their first windows.
    number: dict[int, int] = {}
    tree_of = {place: at for at, tree in enumerate(trees) for place in tree.classes}
    return [number.setdefault(tree_of[place], len(number)) for place in places]


def _bits(edges: PeriodicSet, period: int) -> Words:
    """The edges up to a period."""
    marks = np.zeros(-(-period // 64) * 64, np.bool_)
    for residue in edges.residues:
        marks[residue : period : edges.period] = True
    return np.packbits(marks).view(np.uint64)


def _count(edges: Words) -> int:
    return int(np.bitwise_count(edges).sum(dtype=np.int64))


@dataclass(frozen=True)
class _Search:
    edges: list[Words]
    visits_of: list[float]
    input: float
    """What feeding a tree costs in one period."""
    edge: float
    """What an edge of a tree costs by itself."""

    def cost(self, edges: int, visits: float) -> float:
        """The cost of a tree with some number of edges in a period."""
        return self.input + edges * (visits + self.edge)

    def gain(self, one: _Tree, other: _Tree) -> float:
        apart = self.cost(one.count, one.visits) + self.cost(other.count, other.visits)
        return apart - self.cost(_count(one.edges | other.edges), one.visits + other.visits)

    def merge(self, trees: list[_Tree]) -> None:
        """Merge the pair that saves most, until none saves."""
        gains = {(i, j): self.gain(trees[i], trees[j]) for j in range(len(trees)) for i in range(j)}
        gone: set[int] = set()
        while gains:
            (i, j), most = max(gains.items(), key=lambda item: item[1])
            if most <= 0:
                break
            one, other = trees[i], trees[j]
            trees[i] = _Tree(one.classes | other.classes, one.edges | other.edges, one.visits + other.visits)
            gone.add(j)
            gains = {pair: gain for pair, gain in gains.items() if j not in pair}
            for pair in gains:
                if i in pair:
                    gains[pair] = self.gain(trees[pair[0]], trees[pair[1]])
        trees[:] = [tree for place, tree in enumerate(trees) if place not in gone]

    def move(self, trees: list[_Tree]) -> None:
        """Move single classes to another tree, or to one of their own, while that saves."""
        moved = True
        while moved:
            moved = False
            for place in range(len(self.edges)):
                home = next(tree for tree in trees if place in tree.classes)
                left = self.tree(home.classes - {place})
                before = self.cost(home.count, home.visits)
                without = self.cost(left.count, left.visits) if left.classes else 0.0
                # Savings that are only rounding could go on for ever.
                least, best = before - without - 1e-9 * before, home
                alone = self.tree(set())
                for tree in [*(one for one in trees if one is not home), *([alone] if left.classes else [])]:
                    edges = _count(tree.edges | self.edges[place])
                    joined = self.cost(edges, tree.visits + self.visits_of[place])
                    added = joined - (self.cost(tree.count, tree.visits) if tree.classes else 0.0)
                    if added < least:
                        least, best = added, tree
                if best is not home:
                    trees[:] = [tree for tree in trees if tree is not home and tree is not best]
                    trees += [self.tree(best.classes | {place}), *([left] if left.classes else [])]
                    moved = True

    def tree(self, classes: set[int]) -> _Tree:
        edges = np.zeros_like(self.edges[0])
        for place in classes:
            edges |= self.edges[place]
        return _Tree(classes, edges, sum(self.visits_of[place] for place in classes))
