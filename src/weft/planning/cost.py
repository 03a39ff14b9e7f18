"""What a tree costs: one operation per event, and one per slot and instance that the slot belongs to.

The formula is that of Guirguis et al., section 3, with the stream's slots as the fragments.
"""

from __future__ import annotations

from weft.planning.plan import Clock, Tree
from weft.windows.slots import lengths_of


def overlap(tree: Tree) -> float:
    """How many instances of the tree's different windows an event belongs to: the sum of range over slide."""
    return sum(length / slide for length, slide in map(lengths_of, tree.windows))


def tree_cost(tree: Tree, rate_per_s: float) -> float:
    """Operations per second of one tree, for one key."""
    slots_per_s = 1_000_000 / tree.granularity if tree.clock is Clock.TIME else rate_per_s / tree.granularity
    return rate_per_s + slots_per_s * overlap(tree)
