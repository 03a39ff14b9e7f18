"""Searches over trees that do not merge: every partition of few classes, and moves of single classes.

Cost: `best_partition` takes 3 ** rows steps, `move_each` the classes times the trees for each round.
Source: Guirguis et al., section 6.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.edge_sets import Ints, Places, Words, count
from panewise.kernels.tree_weaving import Floats, Options, Trees

Covers = npt.NDArray[np.uint16]
Shares = npt.NDArray[np.int32]


@njit(cache=True, nogil=True)
def count_subsets(bitmaps: Words) -> Ints:
    """How many bits the union of each subset of rows has; bit r of a subset's number stands for row r."""
    rows, words = bitmaps.shape
    counts = np.zeros(1 << rows, np.int64)
    # joined[r] is the union of the subset's rows from r on.
    joined = np.zeros((rows + 1, words), np.uint64)
    for subset in range(1, 1 << rows):
        changed = 0
        while (subset >> changed) & 1 == 0:
            changed += 1
        for row in range(changed, -1, -1):
            if (subset >> row) & 1:
                joined[row] = joined[row + 1] | bitmaps[row]
            else:
                joined[row] = joined[row + 1]
        counts[subset] = count(joined[0])
    return counts


@njit(cache=True, nogil=True)
def best_partition(costs: Floats, rows: int) -> Ints:
    """The partition of all rows into subsets with the least sum of costs, as the number of a subset per row."""
    best = np.zeros(1 << rows, np.float64)
    choice = np.zeros(1 << rows, np.int64)
    for whole in range(1, 1 << rows):
        lowest = whole & -whole
        rest = whole ^ lowest
        best[whole] = np.inf
        part = rest
        while True:
            cost = costs[part | lowest] + best[rest ^ part]
            if cost < best[whole]:
                best[whole], choice[whole] = cost, part | lowest
            if part == 0:
                break
            part = (part - 1) & rest
    subset_of = np.empty(rows, np.int64)
    left = (1 << rows) - 1
    while left:
        for row in range(rows):
            if (choice[left] >> row) & 1:
                subset_of[row] = choice[left]
        left ^= choice[left]
    return subset_of


@njit(cache=True, nogil=True)
def _count_common(covers: Covers, bits: Places, home: int, out: Shares) -> int:
    """Write how many bits of a list each tree covers; returns how many the home tree covers at least twice."""
    out[:] = 0
    shared = 0
    for bit in bits:
        cover = covers[bit]
        for tree in range(len(out)):
            out[tree] += cover[tree] > 0
        shared += cover[home] > 1
    return shared


@njit(cache=True, nogil=True)
def move_each(
    trees: Trees, rates: Floats, factors: Floats, tree_of: Ints, covers: Covers, options: Options, most_moves: int
) -> int:
    """Local search: go round the classes, move each to the tree where it saves most, until none saves.

    `trees` has the list of each class. Trees are numbered by the columns of `covers`, which are all zero and get the
    number of classes with an edge at each instant: a class is compared with all trees by reading a row for each of its
    edges. An empty column is room for a tree of its own. Returns the moves.
    """
    classes, rows = len(tree_of), covers.shape[1]
    commons = np.empty(rows, np.int32)
    # The rate of a tree is that of its classes less what they have in common: edges covered more than once.
    excess = np.zeros(rows, np.int64)
    sums = np.zeros(rows, np.float64)
    tree_factors = np.zeros(rows, np.float64)
    sizes = np.zeros(rows, np.int64)
    for one in range(classes):
        tree = tree_of[one]
        for bit in trees.lists[trees.starts[one] : trees.starts[one] + trees.counts[one]]:
            excess[tree] += covers[bit, tree] > 0
            covers[bit, tree] += 1
        sums[tree] += rates[one]
        tree_factors[tree] += factors[one]
        sizes[tree] += 1
    moves, quiet, one = 0, 0, 0
    while quiet < classes and moves < most_moves:
        home = tree_of[one]
        bits = trees.lists[trees.starts[one] : trees.starts[one] + trees.counts[one]]
        alone = options.event_cost + options.combine * rates[one] * factors[one]
        shared = _count_common(covers, bits, home, commons)
        rate = sums[home] - excess[home] * options.bit_rate
        rate_without = rate - rates[one] + shared * options.bit_rate
        saved = options.combine * (rate * tree_factors[home] - rate_without * (tree_factors[home] - factors[one]))
        if sizes[home] == 1:
            saved = alone
        # Less than this is rounding, and following it could go on for ever.
        best, target, best_common = 1e-12 * (options.event_cost + saved), -1, 0
        has_seen_empty = sizes[home] == 1
        for tree in range(rows):
            if tree == home or (sizes[tree] == 0 and has_seen_empty):
                continue
            common, added = 0, alone
            if sizes[tree] == 0:
                has_seen_empty = True
            else:
                common = commons[tree]
                before = sums[tree] - excess[tree] * options.bit_rate
                after = before + rates[one] - common * options.bit_rate
                added = options.combine * (after * (tree_factors[tree] + factors[one]) - before * tree_factors[tree])
            if saved - added > best:
                best, target, best_common = saved - added, tree, common
        quiet += 1
        if target >= 0:
            quiet = 0
            moves += 1
            excess[home] -= shared
            excess[target] += best_common
            for bit in bits:
                covers[bit, home] -= 1
                covers[bit, target] += 1
            for tree, sign in ((home, -1), (target, 1)):
                sums[tree] += sign * rates[one]
                tree_factors[tree] += sign * factors[one]
                sizes[tree] += sign
            tree_of[one] = target
        one = (one + 1) % classes
    return moves
