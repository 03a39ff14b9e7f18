"""How many fragments trees would have if they were one: the reasons of a plan are computed from this.

Few trees are counted exactly, as far as `Cuts` can. If there are many, each has a bitmap of the instants at which it
has an edge, over a common period or over a sample of time, and what two trees share is counted in those. The rates of
the trees themselves are as exact as before, so only what they share is an estimate.
Cost: few trees, a count of edges for each pair asked; many, one pass over the edges, then a pass over two bitmaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from panewise.planning.trees import Tree
from panewise.windows.cuts import Cuts
from panewise.windows.slots import spans_in_slots

FEW = 8
"""Up to this many trees are counted exactly, each with each."""
FEW_WINDOWS = 200
"""Only if they have no more windows than this together."""
MOST_BYTES = 128 << 20
"""The memory that all bitmaps may take."""
_MOST_BITS = 1 << 18
_LEAST_BITS = 1 << 12
_SEED = 1


class Unions(Protocol):
    """Fragments per slot of trees with the same slots and groups, by their places."""

    def of_two(self, one: int, other: int) -> float:
        """The fragments of two trees as one."""
        ...

    def of_all(self) -> float:
        """The fragments of all trees as one."""
        ...


def unions_of(trees: Sequence[Tree]) -> Unions:
    """What counts the unions of some trees with the same slots."""
    is_few = len(trees) <= FEW and sum(len(tree.windows) for tree in trees) <= FEW_WINDOWS
    return _Counted(trees) if is_few else _Marked(trees)


class _Counted:
    """Each union from the edges of its windows."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self._lengths = [_lengths(tree) for tree in trees]

    def of_two(self, one: int, other: int) -> float:
        return Cuts.of(self._lengths[one] + self._lengths[other]).rate

    def of_all(self) -> float:
        return Cuts.of(lengths for every in self._lengths for lengths in every).rate


class _Marked:
    """Each union from what the bitmaps of its trees share."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        # Compiled code, which plans of few trees do without.
        from panewise.kernels import edge_sets
        from panewise.planning.sharing.instants import Instants
        from panewise.planning.sharing.queries import Queries

        self._count_common = edge_sets.count_common
        self._rates = [tree.cuts.rate for tree in trees]
        lengths = [_lengths(tree) for tree in trees]
        self._classes = Queries.of([one for every in lengths for one in every]).classes
        # A class may be in several trees, if queries came one after the other.
        tree_of = np.repeat(np.arange(len(trees)), [len(every) for every in lengths])
        pairs = np.unique(np.stack([tree_of, self._classes.class_of]), axis=1)
        bits = max(_LEAST_BITS, min(_MOST_BITS, MOST_BYTES * 8 // len(trees)))
        self._instants = Instants.of(self._classes, exact_bits=bits, sample_bits=bits, seed=_SEED)
        self._bitmaps: npt.NDArray[np.uint64] = np.zeros((len(trees), -(-self._instants.bits // 64)), np.uint64)
        scaled = self._instants.scaled(self._classes.chosen(pairs[1]))
        edge_sets.mark(scaled, self._instants.blocks, self._instants.length, pairs[0], self._bitmaps)

    def of_two(self, one: int, other: int) -> float:
        common = int(self._count_common(self._bitmaps[one], self._bitmaps[other]))
        in_common = common * self._instants.bit_rate / self._instants.grid
        # Two trees share at most as many edges as the one with fewer has.
        return self._rates[one] + self._rates[other] - min(in_common, self._rates[one], self._rates[other])

    def of_all(self) -> float:
        every = np.arange(len(self._classes))
        return float(self._instants.union_rates(self._classes, every, np.array([0, len(every)]))[0])


def _lengths(tree: Tree) -> list[tuple[int, int, int]]:
    return [span for window in tree.windows for span in spans_in_slots(window, tree.granularity)]
