"""Weave Share: begin with a tree for each class of queries, and merge the pair that saves most until none saves.

The three optimizations of section 8 can each be switched off, which changes the work and never the plan: `cost_table`
keeps what each pair saves and computes only the pairs with the tree just merged; `edge_bitmap` looks edges up in a
bitmap instead of checking each against every query of the other tree; `probe_with_fewer` looks up the edges of the tree
with fewer edges. Beyond the paper:

- queries with equal edges are one tree from the start;
- merging one pair at a time can stop although merging all would save, so the plan of Shared is taken if it is better;
  so is the plan with a tree for each class, if edges were compared at a sample of instants and merging was a mistake;
- single classes are then moved between trees while that saves. If there are few, this also begins from the plans of
  Insert-then-Weave, No Share and Random, and the best is taken: merging alone misses the optimum more often;
- trees that have become alike by such moves are merged again, and so on while that saves;
- if there are many classes, those with similar slides are woven in batches, and then the trees of all batches, in as
  many rounds as needed; edges are compared at fewer instants, as the pairs of all classes at all instants take too
  long.

Source: Guirguis et al., sections 5 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from panewise.arrays import Ints
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.plan import SharingPlan, by_first_query
from panewise.planning.sharing.queries import EdgeClasses, Queries
from panewise.planning.sharing.random_trees import random_trees
from panewise.planning.sharing.space import DEFAULT_CAPS, Caps, Space, Work, tree_of_classes

BATCH = 512
"""How many trees are woven at once: the pairs of more take too long."""
SEARCH_BITS = 1 << 16
"""The most instants at which the trees of more classes than that are compared."""
FEW = 256
"""Up to this many classes are polished from four beginnings."""
MOVES_PER_CLASS = 10
"""A bound on the moves of single classes, so that the search ends."""
_MOST_TURNS = 4
_ROUNDING = 1e-12
_LITTLE = 1e-3
"""With many classes, another turn must save at least this share of the cost."""
_WORTHWHILE = 0.9
"""Another round of batches is worth its time if the last left at most this share of the trees."""


@dataclass(frozen=True)
class WeaveShare:
    """Greedy merging. Cost: classes squared comparisons, each of at most as many probes as a tree has edges."""

    cost_table: bool = True
    edge_bitmap: bool = True
    probe_with_fewer: bool = True
    take_shared_if_better: bool = True
    is_polished: bool = True
    batch: int = BATCH
    caps: Caps = DEFAULT_CAPS
    name: str = "weave_share"

    def share(self, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
        """Plan queries for a stream that brings `rate` events per unit of their ranges and slides."""
        if not len(queries):
            return empty_plan(self.name, queries, rate, weights)
        class_trees, work = self.share_classes(queries.classes, rate, weights)
        tree_of = class_trees[queries.classes.class_of]
        plan = SharingPlan.of(self.name, queries, tree_of, rate, weights, work)
        if not self.take_shared_if_better or len(plan) == 1:
            return plan
        rivals = [SharingPlan.of(self.name, queries, np.zeros(len(queries), np.int64), rate, weights, work)]
        if not plan.is_exact.all():
            rivals.append(SharingPlan.of(self.name, queries, queries.classes.class_of, rate, weights, work))
        return min([plan, *rivals], key=lambda one: one.cost)

    def share_classes(self, classes: EdgeClasses, rate: float, weights: Weights) -> tuple[Ints, Work]:
        """The tree of each class."""
        tree_of = np.arange(len(classes))
        work = Work()
        caps = self.caps
        if len(classes) > self.batch:
            exact, sample = min(caps.exact_bits, SEARCH_BITS), min(caps.sample_bits, SEARCH_BITS)
            caps = replace(caps, exact_bits=exact, sample_bits=sample)
        most = min(self.batch, caps.most_trees)
        while (trees := int(tree_of.max()) + 1) > most:
            # Classes are in the order of their periods, and trees in the order of their first classes: those of a batch
            # have few different periods, and so few instants at which they differ.
            parts = -(-trees // most)
            merged = np.empty_like(tree_of)
            used = 0
            for part in np.array_split(np.arange(trees), parts):
                chosen = np.flatnonzero((tree_of >= part[0]) & (tree_of <= part[-1]))
                numbers, more = self._weave(classes.chosen(chosen), tree_of[chosen] - part[0], rate, weights, caps)
                merged[chosen] = numbers + used
                used += int(numbers.max()) + 1
                work += more
            tree_of = by_first_query(merged)
            if used > trees * _WORTHWHILE:
                break
        if int(tree_of.max()) < caps.most_trees:
            tree_of, more = self._weave(classes, tree_of, rate, weights, caps)
            work += more
            if self.is_polished:
                tree_of = self._polish(classes, tree_of, rate, weights, caps)
        return tree_of, work

    def _weave(
        self, classes: EdgeClasses, group_of: Ints, rate: float, weights: Weights, caps: Caps
    ) -> tuple[Ints, Work]:
        """Merge groups of classes; the trees are numbered by their first classes."""
        space = Space.of(classes, caps, group_of)
        trees = space.trees()
        options = space.options(
            rate,
            weights,
            cost_table=self.cost_table,
            edge_bitmap=self.edge_bitmap,
            probe_with_fewer=self.probe_with_fewer,
        )
        work = space.weave(trees, options)
        return by_first_query(tree_of_classes(trees)), work

    def _polish(self, classes: EdgeClasses, woven: Ints, rate: float, weights: Weights, caps: Caps) -> Ints:
        """The best plan that moves of single classes reach, from four beginnings if there are few classes."""
        space = Space.of(classes, caps)
        options = space.options(rate, weights)
        begins = [woven]
        if len(classes) <= FEW:
            inserted = space.trees()
            space.weave(inserted, options, insert_first=True)
            others = tree_of_classes(inserted), np.arange(len(classes)), random_trees(len(classes), 0)
            begins += [by_first_query(other) for other in others]
        best, least = woven, space.cost(woven, options)
        for begin in begins:
            if space.can_move(begin):
                tree_of, _ = space.move(begin, options, MOVES_PER_CLASS * len(classes))
                cost = space.cost(tree_of, options)
                # Anything less is rounding: without a real gain the plan of merging stays.
                if cost < least * (1 - _ROUNDING):
                    best, least = tree_of, cost
        return self._alternate(space, by_first_query(best), least, rate, weights, caps)

    def _alternate(self, space: Space, best: Ints, least: float, rate: float, weights: Weights, caps: Caps) -> Ints:
        """Merge trees and move classes in turn while that saves."""
        options = space.options(rate, weights)
        for _ in range(_MOST_TURNS):
            merged, work = self._weave(space.classes, best, rate, weights, caps)
            if not work.steps or not space.can_move(merged):
                break
            moved, _ = space.move(merged, options, MOVES_PER_CLASS * len(space.classes))
            cost = space.cost(moved, options)
            if cost >= least * (1 - _ROUNDING):
                break
            is_little = len(space.classes) > self.batch and cost >= least * (1 - _LITTLE)
            best, least = by_first_query(moved), cost
            if is_little:
                break
        return best


def empty_plan(name: str, queries: Queries, rate: float, weights: Weights) -> SharingPlan:
    """The plan of no queries."""
    return SharingPlan.of(name, queries, np.zeros(0, np.int64), rate, weights)
