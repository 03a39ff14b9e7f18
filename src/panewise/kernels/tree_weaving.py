"""The greedy merging of trees over their edges.

Each tree has the bitmap of its edges (see `edge_sets`) and the sorted list of its bits, so that a tree with few edges
can probe one with many. Invariant: a tree that is alive has every class that was joined to it, and its rate, factor and
bits are those of the union. Cost: `weave` compares each pair once, and each tree with the one just merged.
Source: Guirguis et al., sections 5 and 8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.edge_sets import Classes, Ints, Places, Words, count, count_common
from panewise.kernels.sorting import sort_with_places

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Trees(NamedTuple):
    """Trees at places 0, 1, 2 and so on; merging joins one into another of a smaller place.

    `lists` holds the bits of tree t at starts[t] .. starts[t] + counts[t], or starts[t] is -1 for a tree with more bits
    than a bitmap has words; used[0] is where its free room begins.
    `heads`, `tails` and `following` chain the classes of a tree. `periods` is 0 where the space is a sample.
    """

    bitmaps: Words
    lists: Places
    used: Ints
    starts: Ints
    counts: Ints
    rates: Floats
    factors: Floats
    alive: Flags
    heads: Ints
    tails: Ints
    following: Ints
    periods: Ints


_MISS = 8
"""About how many lookups in a bitmap that is in the cache take as long as one in a bitmap that is not."""


@njit(inline="always")
def _gcd(left: int, right: int) -> int:
    while right:
        left, right = right, left % right
    return left


@njit(inline="always")
def _meet(classes: Classes, left: int, right: int) -> float:
    """The exact rate of the common edges of two classes: residues meet iff they agree modulo the common divisor."""
    one, other = classes.periods[left], classes.periods[right]
    shared = _gcd(one, other)
    first, second = classes.firsts[right] % shared, classes.seconds[right] % shared
    meetings = 0
    for residue in (classes.firsts[left], classes.seconds[left]):
        meetings += residue % shared == first
        if classes.seconds[right] != classes.firsts[right]:
            meetings += residue % shared == second
        if classes.firsts[left] == classes.seconds[left]:
            break
    return float(meetings * (shared / one) / other)


@njit(inline="always")
def _probes(bits: Places, bitmap: Words) -> int:
    """Count how many bits of a list a bitmap has."""
    found = 0
    for bit in bits:
        found += (bitmap[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1)
    return int(found)


@njit(cache=True, nogil=True)
def _checks(
    trees: Trees, classes: Classes, blocks: Ints, length: int, probing: int, probed: int, checks: Floats
) -> int:
    """Count the common bits by checking each edge of one tree against each class of the other (two checks a class)."""
    found = 0
    start = trees.starts[probing]
    for place in range(start, start + trees.counts[probing]):
        bit = trees.lists[place]
        instant = blocks[bit // length] + bit % length
        member = trees.heads[probed]
        while member >= 0:
            checks[0] += 1
            hit = (instant - classes.firsts[member]) % classes.periods[member] == 0
            if not hit:
                checks[0] += 1
                hit = (instant - classes.seconds[member]) % classes.periods[member] == 0
            if hit:
                found += 1
                break
            member = trees.following[member]
    return found


class Options(NamedTuple):
    """What the greedy merging needs to know besides the trees.

    `event_cost` is the cost of passing the events through one tree, `combine` the weight of a combine, `edge` that of
    an edge by itself, `bit_rate` the rate that one bit stands for. In a sample, the rate of a merged tree follows from
    those of its classes and what they have in common; from `direct_bits` bits on it is that of its bits. The last three
    flags are the optimizations of section 8.
    """

    event_cost: float
    combine: float
    edge: float
    bit_rate: float
    is_sample: bool
    direct_bits: int
    cost_table: bool
    edge_bitmap: bool
    probe_with_fewer: bool


@njit(cache=True, nogil=True)
def _common_rates(
    trees: Trees,
    classes: Classes,
    blocks: Ints,
    length: int,
    options: Options,
    hot: int,
    low: int,
    high: int,
    out: Floats,
    operations: Floats,
) -> None:
    """Write the rate of the edges that a tree has in common with each other living one at a place in [low, high).

    Adds the operations that this takes to operations[0]: the checks or probes within the composite slide of both trees,
    which is what the paper counts. The bitmap of the tree at hand is in the cache; those of the others are not unless
    there are few instants.
    """
    bitmaps, lists, starts, counts, alive = trees.bitmaps, trees.lists, trees.starts, trees.counts, trees.alive
    heads, tails, periods = trees.heads, trees.tails, trees.periods
    hot_bitmap, hot_count, is_single = bitmaps[hot], counts[hot], heads[hot] == tails[hot]
    hot_bits = lists[max(starts[hot], 0) : max(starts[hot], 0) + hot_count]
    for other in range(low, high):
        if other == hot or not alive[other]:
            continue
        scale = 1.0
        if periods[hot]:
            scale = periods[hot] // _gcd(periods[hot], periods[other]) * periods[other] * options.bit_rate
        left, right = min(hot, other), max(hot, other)
        # Any rule that does not look at the edges will do.
        does_right_probe = (left + right) % 2 == 0
        if not options.edge_bitmap:
            operations[1] = 0.0
            probing, probed = (right, left) if does_right_probe else (left, right)
            found = _checks(trees, classes, blocks, length, probing, probed, operations[1:])
            operations[0] += operations[1] * scale
            out[other] = found * options.bit_rate
            continue
        if options.is_sample and is_single and heads[other] == tails[other]:
            operations[0] += 4.0
            out[other] = _meet(classes, heads[left], heads[right])
            continue
        other_bits = lists[max(starts[other], 0) : max(starts[other], 0) + counts[other]]
        if not options.probe_with_fewer:
            probes_hot = does_right_probe == (right == other)
        elif min(hot_count, counts[other]) > len(hot_bitmap):
            operations[0] += min(hot_count, counts[other]) * scale
            out[other] = count_common(hot_bitmap, bitmaps[other]) * options.bit_rate
            continue
        else:
            probes_hot = counts[other] <= hot_count * (_MISS if options.is_sample else 1)
        if probes_hot:
            operations[0] += counts[other] * scale
            out[other] = _probes(other_bits, hot_bitmap) * options.bit_rate
        else:
            operations[0] += hot_count * scale
            out[other] = _probes(hot_bits, bitmaps[other]) * options.bit_rate


@njit(inline="always")
def _benefit(trees: Trees, options: Options, left: int, right: int, common: float) -> float:
    """What merging two trees saves (equation 5)."""
    more = trees.rates[right] * trees.factors[left] + trees.rates[left] * trees.factors[right]
    factor = trees.factors[left] + trees.factors[right]
    return float(options.event_cost - options.combine * (more - common * factor) + options.edge * common)


@njit(cache=True, nogil=True)
def _close_gaps(trees: Trees) -> None:
    """Move the lists of the living trees to the front."""
    used = 0
    for tree in sort_with_places(trees.starts)[1]:
        start = trees.starts[tree]
        if trees.alive[tree] and start >= 0:
            for place in range(trees.counts[tree]):
                trees.lists[used + place] = trees.lists[start + place]
            trees.starts[tree] = used
            used += trees.counts[tree]
    trees.used[0] = used


@njit(cache=True, nogil=True)
def _merge_lists(trees: Trees, left: int, right: int) -> None:
    """Give the left tree the bits of both."""
    if trees.used[0] + trees.counts[left] + trees.counts[right] > len(trees.lists):
        _close_gaps(trees)
    one, one_end = trees.starts[left], trees.starts[left] + trees.counts[left]
    other, other_end = trees.starts[right], trees.starts[right] + trees.counts[right]
    place = trees.used[0]
    lists = trees.lists
    while one < one_end or other < other_end:
        if other == other_end or (one < one_end and lists[one] <= lists[other]):
            if other < other_end and lists[one] == lists[other]:
                other += 1
            lists[place] = lists[one]
            one += 1
        else:
            lists[place] = lists[other]
            other += 1
        place += 1
    trees.starts[left] = trees.used[0]
    trees.used[0] = place


@njit(cache=True, nogil=True)
def merge(trees: Trees, left: int, right: int, common: float, options: Options) -> None:
    """Join the right tree into the left one."""
    trees.bitmaps[left] |= trees.bitmaps[right]
    bits = count(trees.bitmaps[left])
    if bits <= trees.bitmaps.shape[1] or not (options.edge_bitmap and options.probe_with_fewer):
        _merge_lists(trees, left, right)
    else:
        # Trees with so many edges are compared word by word.
        trees.starts[left] = -1
    trees.counts[left] = bits
    if options.is_sample and bits < options.direct_bits:
        trees.rates[left] += trees.rates[right] - common
    else:
        trees.rates[left] = bits * options.bit_rate
    trees.factors[left] += trees.factors[right]
    if trees.periods[left]:
        trees.periods[left] *= trees.periods[right] // _gcd(trees.periods[left], trees.periods[right])
    trees.following[trees.tails[left]] = trees.heads[right]
    trees.tails[left] = trees.tails[right]
    trees.alive[right] = False


@njit(cache=True, nogil=True)
def insert_each(trees: Trees, classes: Classes, blocks: Ints, length: int, options: Options, operations: Floats) -> int:
    """Take the trees by their places and join each to the earlier one that saves most. Returns how many joined."""
    joined = 0
    common = np.empty(len(trees.alive), np.float64)
    for tree in range(len(trees.alive)):
        _common_rates(trees, classes, blocks, length, options, tree, 0, tree, common, operations)
        best, target = 0.0, -1
        for earlier in range(tree):
            if trees.alive[earlier]:
                saved = _benefit(trees, options, earlier, tree, common[earlier])
                if saved > best:
                    best, target = saved, earlier
        if target >= 0:
            merge(trees, target, tree, common[target], options)
            joined += 1
    return joined


@njit(cache=True, nogil=True)
def weave(trees: Trees, classes: Classes, blocks: Ints, length: int, options: Options, operations: Floats) -> int:
    """Merge the pair of trees that saves most until none saves. Returns the number of merges.

    Among equal pairs the first by place wins, so that all variants give the same trees.
    """
    if options.cost_table:
        return _weave_with_table(trees, classes, blocks, length, options, operations)
    merges = 0
    places = len(trees.alive)
    common = np.empty(places, np.float64)
    while True:
        best, left, right, best_common = 0.0, -1, -1, 0.0
        for one in range(places):
            if not trees.alive[one]:
                continue
            _common_rates(trees, classes, blocks, length, options, one, one + 1, places, common, operations)
            for other in range(one + 1, places):
                if trees.alive[other]:
                    saved = _benefit(trees, options, one, other, common[other])
                    if saved > best:
                        best, left, right, best_common = saved, one, other, common[other]
        if left < 0:
            return merges
        merge(trees, left, right, best_common, options)
        merges += 1


@njit(inline="always")
def _row_start(row: int, places: int) -> int:
    """Where the row's entries would begin if it had one per place: the table has only entries right of the diagonal."""
    return row * places - row * (row + 1) // 2 - row - 1


@njit(cache=True, nogil=True)
def _best_in_row(table: Floats, trees: Trees, row: int) -> tuple[float, int]:
    places = len(trees.alive)
    start = _row_start(row, places)
    best, partner = 0.0, -1
    for other in range(row + 1, places):
        if trees.alive[other] and table[start + other] > best:
            best, partner = table[start + other], other
    return best, partner


@njit(cache=True, nogil=True)
def _weave_with_table(
    trees: Trees, classes: Classes, blocks: Ints, length: int, options: Options, operations: Floats
) -> int:
    """The same with a table of what each pair saves, and the best entry of each row.

    When the partner of a row's best entry goes, that entry remains as an upper bound; the row is read again only if the
    bound is the greatest of all.
    """
    places = len(trees.alive)
    table = np.empty(places * (places - 1) // 2, np.float64)
    best = np.zeros(places, np.float64)
    partner = np.full(places, -1, np.int64)
    is_bound = np.zeros(places, np.bool_)
    common = np.empty(places, np.float64)
    for row in range(places):
        if trees.alive[row]:
            _common_rates(trees, classes, blocks, length, options, row, row + 1, places, common, operations)
            start = _row_start(row, places)
            for other in range(row + 1, places):
                if trees.alive[other]:
                    table[start + other] = _benefit(trees, options, row, other, common[other])
            best[row], partner[row] = _best_in_row(table, trees, row)
    merges = 0
    while True:
        left = -1
        for row in range(places):
            if trees.alive[row] and best[row] > 0.0 and (left < 0 or best[row] > best[left]):
                left = row
        if left < 0:
            return merges
        if is_bound[left]:
            best[left], partner[left] = _best_in_row(table, trees, left)
            is_bound[left] = False
            continue
        right = partner[left]
        _common_rates(trees, classes, blocks, length, options, left, right, right + 1, common, np.zeros(2))
        merge(trees, left, right, common[right], options)
        merges += 1
        _common_rates(trees, classes, blocks, length, options, left, 0, places, common, operations)
        for row in range(left):
            if trees.alive[row]:
                saved = _benefit(trees, options, row, left, common[row])
                table[_row_start(row, places) + left] = saved
                if partner[row] == right or (partner[row] == left and saved < best[row]):
                    is_bound[row] = True
                if saved > best[row]:
                    best[row], partner[row], is_bound[row] = saved, left, False
                elif not is_bound[row] and saved == best[row] and left < partner[row]:
                    partner[row] = left
        start = _row_start(left, places)
        for other in range(left + 1, places):
            if trees.alive[other]:
                table[start + other] = _benefit(trees, options, left, other, common[other])
                if other < right and partner[other] == right:
                    is_bound[other] = True
        best[left], partner[left] = _best_in_row(table, trees, left)
        is_bound[left] = False
