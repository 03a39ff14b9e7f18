"""The bitmaps of edge classes, from which trees are merged. No bitmap exceeds the caps, for any slides."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from panewise.arrays import Floats, Ints, Words
from panewise.errors import MemoryBudgetError
from panewise.kernels import edge_sets, tree_search, tree_weaving
from panewise.planning.sharing.cost import Weights
from panewise.planning.sharing.instants import Instants, period_under
from panewise.planning.sharing.queries import EdgeClasses, sums_of


@dataclass(frozen=True)
class Caps:
    """How much memory an optimizer may take.

    `memory_bytes` is for all bitmaps and lists of edges together, `exact_bits` for one exact bitmap, `sample_bits` for
    one bitmap of a sample, `table_bytes` for the table of what each merge saves.
    """

    memory_bytes: int = 512 << 20
    exact_bits: int = 1 << 24
    sample_bits: int = 1 << 18
    table_bytes: int = 1 << 30
    seed: int = 0

    @property
    def most_trees(self) -> int:
        """The most trees for which a table keeps what each pair saves."""
        return max(2, isqrt(self.table_bytes // 4))


DEFAULT_CAPS = Caps()
_LEAST_SAMPLE = 1 << 12
_FEW_TO_MOVE = 256
"""Up to this many classes, all edges of a class are compared with all trees to move it."""
_PROBES = 64
"""How many edges of a class are compared with all trees, if there are more classes."""
_SPARE_TREES = 16
"""Room for new trees when classes move out of theirs."""
_FEW = 64
"""Up to this many classes get a sample four times as large."""


@dataclass(frozen=True, eq=False)
class Space:
    """The bitmaps of groups of classes, one row each; `group_of` gives the group of each class."""

    classes: EdgeClasses
    instants: Instants
    group_of: Ints
    bitmaps: Words
    memory_bytes: int

    @classmethod
    def of(cls, classes: EdgeClasses, caps: Caps = DEFAULT_CAPS, group_of: Ints | None = None) -> Space:
        """The space for some classes; by default each is its own group.

        It is exact if that fits under the caps, and a sample otherwise.
        """
        group_of = np.arange(len(classes)) if group_of is None else group_of
        groups = int(group_of.max()) + 1
        exact_bits = caps.exact_bits
        period = period_under(classes.periods // classes.grid, exact_bits)
        if period is not None and _bytes_needed(classes, groups, period) > caps.memory_bytes:
            exact_bits = 0
        instants = Instants.of(classes, exact_bits=exact_bits, sample_bits=_sample_bits(groups, caps), seed=caps.seed)
        bitmaps = np.zeros((groups, -(-instants.bits // 64)), np.uint64)
        edge_sets.mark(instants.scaled(classes), instants.blocks, instants.length, group_of, bitmaps)
        return cls(classes, instants, group_of, bitmaps, caps.memory_bytes)

    def __len__(self) -> int:
        return len(self.bitmaps)

    @property
    def rates(self) -> Floats:
        """Edges per step of the grid, of each group."""
        if len(self) == len(self.classes):
            return (self.classes.rates * self.instants.grid)[np.argsort(self.group_of)]
        members = np.argsort(self.group_of, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.group_of))])
        return self.instants.union_rates(self.classes, members, starts) * self.instants.grid

    def options(
        self,
        rate: float,
        weights: Weights,
        *,
        cost_table: bool = True,
        edge_bitmap: bool = True,
        probe_with_fewer: bool = True,
    ) -> tree_weaving.Options:
        """What the kernels need to know; costs are per step of the grid."""
        return tree_weaving.Options(
            event_cost=float(weights.event * rate * self.instants.grid),
            combine=float(weights.combine),
            edge=float(weights.edge),
            bit_rate=self.instants.bit_rate,
            is_sample=self.instants.is_sample,
            direct_bits=self.instants.direct_bits,
            cost_table=cost_table,
            edge_bitmap=edge_bitmap,
            probe_with_fewer=probe_with_fewer,
        )

    def trees(self) -> tree_weaving.Trees:
        """A tree for each group."""
        counts = edge_sets.count_rows(self.bitmaps)
        starts = np.cumsum(counts) - counts
        total = int(counts.sum())
        # A merged list is no longer than the two that it replaces, so double room suffices if gaps are closed.
        lists = np.empty(2 * total, np.int32)
        edge_sets.list_bits(self.bitmaps, starts, lists)
        members = np.argsort(self.group_of, kind="stable")
        ends = np.cumsum(np.bincount(self.group_of))
        following = np.full(len(members), -1, np.int64)
        following[members[:-1]] = members[1:]
        following[members[ends - 1]] = -1
        periods = np.zeros(len(self), np.int64)
        if not self.instants.is_sample:
            periods += 1
            np.lcm.at(periods, self.group_of, self.classes.periods // self.instants.grid)
        return tree_weaving.Trees(
            bitmaps=self.bitmaps.copy(),
            lists=lists,
            used=np.array([total], np.int64),
            starts=starts,
            counts=counts,
            rates=self.rates,
            factors=sums_of(self.group_of, self.classes.factors, len(self)),
            alive=np.ones(len(self), np.bool_),
            heads=members[np.concatenate([[0], ends[:-1]])],
            tails=members[ends - 1],
            following=following,
            periods=periods,
        )

    def can_move(self, tree_of: Ints) -> bool:
        """Whether `move` would stay under a cap on memory."""
        return self._rows_to_move(tree_of) * self.instants.bits * 3 <= self.memory_bytes and len(self) < 1 << 16

    def move(self, tree_of: Ints, options: tree_weaving.Options, most_moves: int) -> tuple[Ints, int]:
        """Move single classes between trees while that saves; returns the new trees and the number of moves."""
        if not self.can_move(tree_of):
            raise MemoryBudgetError(
                f"moving {len(self)} edge sets between {tree_of.max() + 1} trees needs more memory than the cap of "
                f"{self.memory_bytes:,} bytes; raise Caps.memory_bytes or use weave_share"
            )
        moved = tree_of.copy()
        rows, bits = self._rows_to_move(tree_of), self.instants.bits
        covers, marks = np.zeros((rows, bits), np.uint16), np.zeros((bits, rows), np.uint8)
        trees = self.trees()
        sampled = (trees.counts * self.instants.bit_rate).astype(np.float64)
        rates = sampled if self.instants.is_of_edges else trees.rates
        most_probes = self.instants.bits if len(self) <= _FEW_TO_MOVE else _PROBES
        moves = tree_search.move_each(
            trees, rates, self.classes.factors, moved, covers, marks, options, most_moves, most_probes
        )
        return moved, moves

    def _rows_to_move(self, tree_of: Ints) -> int:
        return min(len(self), int(tree_of.max()) + 1 + _SPARE_TREES)

    def cost(self, tree_of: Ints, options: tree_weaving.Options) -> float:
        """The cost per step of the grid of the plan that puts class c into tree tree_of[c]."""
        _, numbers = np.unique(tree_of, return_inverse=True)
        sizes = np.bincount(numbers)
        members = np.argsort(numbers, kind="stable")
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rates = self.instants.union_rates(self.classes, members, starts) * self.instants.grid
        weights = options.combine * sums_of(numbers, self.classes.factors, len(sizes)) + options.edge
        return float(options.event_cost * len(sizes) + (rates * weights).sum())

    def weave(self, trees: tree_weaving.Trees, options: tree_weaving.Options, *, insert_first: bool = False) -> Work:
        """Merge trees in place; with `insert_first` each is first inserted into the earlier tree that suits it best."""
        arguments = (
            trees,
            self.instants.scaled(self.classes),
            self.instants.blocks,
            self.instants.length,
            options,
            operations := np.zeros(2),
        )
        merges = tree_weaving.insert_each(*arguments) if insert_first else 0
        merges += tree_weaving.weave(*arguments)
        return Work(merges, float(operations[0]))


@dataclass(frozen=True)
class Work:
    """What a search did: merges or moves, and checks of an edge within the composite slide of two trees."""

    steps: int = 0
    operations: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.steps + other.steps, self.operations + other.operations)


def tree_of_classes(trees: tree_weaving.Trees) -> Ints:
    """The tree of each class after merging."""
    tree_of = np.empty(len(trees.following), np.int64)
    for tree in np.flatnonzero(trees.alive).tolist():
        member = trees.heads[tree]
        while member >= 0:
            tree_of[member] = tree
            member = trees.following[member]
    return tree_of


def _bytes_needed(classes: EdgeClasses, groups: int, period: int) -> int:
    """Bitmaps of groups and of trees, and lists of edges with double room."""
    edges = int((2 * period // (classes.periods // classes.grid)).sum())
    return groups * period // 4 + 8 * edges


def _sample_bits(size: int, caps: Caps) -> int:
    bits = caps.sample_bits * 4 if size <= _FEW else caps.sample_bits
    while bits > _LEAST_SAMPLE and size * bits // 4 > caps.memory_bytes:
        bits //= 2
    if size * bits // 4 > caps.memory_bytes:
        raise MemoryBudgetError(
            f"bitmaps for {size} different edge sets need {size * bits // 4:,} bytes, more than the cap of "
            f"{caps.memory_bytes:,}; raise Caps.memory_bytes"
        )
    return bits
