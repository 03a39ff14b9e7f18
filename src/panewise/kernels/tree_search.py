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
Marks = npt.NDArray[np.uint8]
Shares = npt.NDArray[np.int32]

_CANDIDATES = 4
"""With how many trees a class is compared exactly."""


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
def _count_common(marks: Marks, bits: Places, out: Shares) -> None:
    """Write how many bits of a list each tree has."""
    out[:] = 0
    for bit in bits:
        row = marks[bit]
        for tree in range(len(out)):
            out[tree] += row[tree]


@njit(inline="always")
def _count_covered(cover: Covers, bits: Places, least: int) -> int:
    """Count how many bits of a list one tree covers at least so often."""
    found = 0
    for bit in bits:
        found += cover[bit] >= least
    return found


@njit(cache=True, nogil=True)
def _shuffle(bits: Places) -> None:
    """Put a list into an order that looks random and is always the same."""
    seed = np.uint64(88172645463325252)
    for place in range(len(bits) - 1, 0, -1):
        seed ^= seed << np.uint64(13)
        seed ^= seed >> np.uint64(7)
        seed ^= seed << np.uint64(17)
        other = np.int64(seed % np.uint64(place + 1))
        bits[place], bits[other] = bits[other], bits[place]


@njit(cache=True, nogil=True)
def move_each(
    trees: Trees,
    rates: Floats,
    factors: Floats,
    tree_of: Ints,
    covers: Covers,
    marks: Marks,
    options: Options,
    most_moves: int,
    most_probes: int,
) -> int:
    """Local search: go round the classes, move each to the tree where it saves most, until none saves.

    `trees` has the list of each class. Trees are numbered by the rows of `covers`, which are all zero and get the
    number of classes with an edge at each instant, and by the columns of `marks`, which get 1 where there is any: a
    class is compared with all trees by reading a row for each of its edges. An empty tree is room for one of its own.
    Returns the moves.

    At most `most_probes` random edges of a class are compared with all trees, and then all its edges with the few trees
    that look best: no move makes the plan worse. A class that did not move is compared again only with trees that
    changed since.
    """
    classes, rows = len(tree_of), len(covers)
    commons = np.empty(rows, np.int32)
    # The rate of a tree is that of its classes less what they have in common: edges covered more than once.
    excess = np.zeros(rows, np.int64)
    sums = np.zeros(rows, np.float64)
    tree_factors = np.zeros(rows, np.float64)
    sizes = np.zeros(rows, np.int64)
    for one in range(classes):
        tree = tree_of[one]
        bits = trees.lists[trees.starts[one] : trees.starts[one] + trees.counts[one]]
        if len(bits) > most_probes:
            _shuffle(bits)
        for bit in bits:
            excess[tree] += covers[tree, bit] > 0
            covers[tree, bit] += 1
            marks[bit, tree] = 1
        sums[tree] += rates[one]
        tree_factors[tree] += factors[one]
        sizes[tree] += 1
    changed = np.ones(rows, np.int64)
    compared = np.zeros(classes, np.int64)
    gains = np.empty(_CANDIDATES, np.float64)
    places = np.empty(_CANDIDATES, np.int64)
    moves, quiet, one, step = 0, 0, 0, 1
    while quiet < classes and moves < most_moves:
        home = tree_of[one]
        since = 0 if changed[home] > compared[one] else compared[one]
        bits = trees.lists[trees.starts[one] : trees.starts[one] + trees.counts[one]]
        alone = options.event_cost + rates[one] * (options.combine * factors[one] + options.edge)
        shared = _count_covered(covers[home], bits, 2)
        rate = sums[home] - excess[home] * options.bit_rate
        rate_without = rate - rates[one] + shared * options.bit_rate
        saved = options.combine * (rate * tree_factors[home] - rate_without * (tree_factors[home] - factors[one]))
        saved += options.edge * (rate - rate_without)
        if sizes[home] == 1:
            saved = alone
        # Less than this is rounding, and following it could go on for ever.
        least = 1e-12 * (options.event_cost + saved)
        probes = min(len(bits), most_probes)
        _count_common(marks, bits[:probes], commons)
        scale = len(bits) / max(probes, 1)
        gains[:] = least
        places[:] = -1
        has_seen_empty = sizes[home] == 1 or since > 0
        for tree in range(rows):
            if tree == home or changed[tree] <= since or (sizes[tree] == 0 and has_seen_empty):
                continue
            added = alone
            if sizes[tree] == 0:
                has_seen_empty = True
            else:
                before = sums[tree] - excess[tree] * options.bit_rate
                after = before + rates[one] - commons[tree] * scale * options.bit_rate
                added = options.combine * (after * (tree_factors[tree] + factors[one]) - before * tree_factors[tree])
                added += options.edge * (after - before)
            gain, place = saved - added, _CANDIDATES
            while place > 0 and gain > gains[place - 1]:
                place -= 1
            for later in range(_CANDIDATES - 1, place, -1):
                gains[later], places[later] = gains[later - 1], places[later - 1]
            if place < _CANDIDATES:
                gains[place], places[place] = gain, tree
        best, target, best_common = least, -1, 0
        for candidate in range(_CANDIDATES):
            tree = places[candidate]
            if tree < 0:
                break
            common, added = 0, alone
            if sizes[tree] > 0:
                common = commons[tree] if probes == len(bits) else _count_covered(covers[tree], bits, 1)
                before = sums[tree] - excess[tree] * options.bit_rate
                after = before + rates[one] - common * options.bit_rate
                added = options.combine * (after * (tree_factors[tree] + factors[one]) - before * tree_factors[tree])
                added += options.edge * (after - before)
            if saved - added > best:
                best, target, best_common = saved - added, tree, common
        quiet += 1
        compared[one] = step
        if target >= 0:
            quiet = 0
            moves += 1
            step += 1
            excess[home] -= shared
            excess[target] += best_common
            for bit in bits:
                covers[home, bit] -= 1
                marks[bit, home] = covers[home, bit] > 0
                covers[target, bit] += 1
                marks[bit, target] = 1
            for tree, sign in ((home, -1), (target, 1)):
                sums[tree] += sign * rates[one]
                tree_factors[tree] += sign * factors[one]
                sizes[tree] += sign
                changed[tree] = step
            tree_of[one] = target
        one = (one + 1) % classes
    return moves
