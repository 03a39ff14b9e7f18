"""Bits of single classes and of whole trees, for trees that change one class at a time.

A tree has a bitmap over the instants (see `edge_sets`); one with very many edges also has a cover: how many of its
classes have an edge at each instant, so that a class can leave without the others being marked again.
The kernels that serve one change keep the interpreter's lock: they take less time than waiting for it would.
Source: Guirguis et al., sections 5.2 and 8.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.edge_sets import Classes, Ints, Places, Words, count_common

Covers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@njit(cache=True)
def bits_of(period: int, first: int, second: int, blocks: Ints, length: int, out: Places) -> int:
    """Write the bits of one class and return how many there are; `out` has room for all instants."""
    found = 0
    for residue in (first, second):
        for block in range(len(blocks)):
            place = block * length + (residue - blocks[block]) % period
            while place < (block + 1) * length:
                out[found] = place
                found += 1
                place += period
        if first == second:
            break
    return found


@njit(cache=True)
def set_bits(bits: Places, bitmap: Words, cover: Covers) -> int:
    """Add the bits of a class to a tree; returns how many are new. For a tree without a cover, pass an empty one."""
    new = 0
    for bit in bits:
        mask = np.uint64(1) << np.uint64(bit & 63)
        new += bitmap[bit >> 6] & mask == np.uint64(0)
        bitmap[bit >> 6] |= mask
        if len(cover):
            cover[bit] += 1
    return new


@njit(cache=True)
def clear_bits(bits: Places, bitmap: Words, cover: Covers) -> int:
    """Take the bits of a class from a tree with a cover; returns how many no other class has."""
    gone = 0
    for bit in bits:
        cover[bit] -= 1
        if cover[bit] == 0:
            bitmap[bit >> 6] &= ~(np.uint64(1) << np.uint64(bit & 63))
            gone += 1
    return gone


@njit(cache=True)
def mark_members(classes: Classes, blocks: Ints, length: int, scratch: Places, bitmap: Words, cover: Covers) -> int:
    """Add the bits of some classes to one tree; returns how many are new."""
    new = 0
    for one in range(len(classes.periods)):
        found = bits_of(classes.periods[one], classes.firsts[one], classes.seconds[one], blocks, length, scratch)
        new += set_bits(scratch[:found], bitmap, cover)
    return new


@njit(cache=True)
def probe_each(bits: Places, bitmaps: Words, rows: int, out: Ints) -> None:
    """Count how many bits of a list each of the first rows has."""
    for row in range(rows):
        found = np.uint64(0)
        bitmap = bitmaps[row]
        for bit in bits:
            found += (bitmap[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1)
        out[row] = found


@njit(cache=True)
def compare_each(bitmap: Words, bitmaps: Words, rows: int, out: Ints) -> None:
    """Count how many bits each of the first rows has in common with one bitmap."""
    for row in range(rows):
        out[row] = count_common(bitmaps[row], bitmap)


@njit(cache=True)
def list_one(bitmap: Words, out: Places) -> int:
    """Write the set bits of one bitmap in rising order and return how many there are."""
    found = 0
    for word in range(len(bitmap)):
        left = bitmap[word]
        place = word * 64
        while left != np.uint64(0):
            if left & np.uint64(1):
                out[found] = place
                found += 1
            left >>= np.uint64(1)
            place += 1
    return found


@njit(cache=True)
def best_partner(
    rates: Floats,
    factors: Floats,
    others: Flags,
    common: Ints,
    unit: float,
    event_cost: float,
    combine: float,
    edge: float,
    row: int,
) -> int:
    """The tree that saves most when one tree is merged with it (equation 5), or -1 if no merge saves anything."""
    best, partner = 0.0, -1
    for other in range(len(common)):
        if others[other] and other != row:
            more = rates[other] * factors[row] + rates[row] * factors[other]
            shared = common[other] * unit
            saved = event_cost - combine * (more - shared * (factors[row] + factors[other])) + edge * shared
            if saved > best:
                best, partner = saved, other
    return partner


@njit(cache=True)
def members_of(trees: Ints, tree: int, used: int) -> Ints:
    """The classes among the first `used` that are in one tree."""
    found = 0
    for one in range(used):
        found += trees[one] == tree
    members = np.empty(found, np.int64)
    found = 0
    for one in range(used):
        if trees[one] == tree:
            members[found] = one
            found += 1
    return members


@njit(cache=True)
def totals(rates: Floats, factors: Floats, rows: int) -> tuple[float, float]:
    """The combines per unit of the first rows, edge rate times fold factor, and their edges."""
    combines = edges = 0.0
    for row in range(rows):
        combines += rates[row] * factors[row]
        edges += rates[row]
    return combines, edges


@njit(cache=True, nogil=True)
def mark_trees(classes: Classes, blocks: Ints, length: int, rows: Ints, bitmaps: Words, sums: Ints) -> None:
    """Set the bits of each class c in the row rows[c], and add how many it has to sums[rows[c]]."""
    for one in range(len(rows)):
        period, bitmap, found = classes.periods[one], bitmaps[rows[one]], 0
        for residue in (classes.firsts[one], classes.seconds[one]):
            for block in range(len(blocks)):
                place = block * length + (residue - blocks[block]) % period
                while place < (block + 1) * length:
                    bitmap[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
                    found += 1
                    place += period
            if classes.firsts[one] == classes.seconds[one]:
                break
        sums[rows[one]] += found


@njit(cache=True, nogil=True)
def cover_trees(classes: Classes, blocks: Ints, length: int, rows: Ints, places: Ints, covers: Covers) -> None:
    """Fill the covers of some trees: the tree in row r has covers[places[r]], or none if that is negative."""
    for one in range(len(rows)):
        place_of_cover = places[rows[one]]
        if place_of_cover >= 0:
            period, cover = classes.periods[one], covers[place_of_cover]
            for residue in (classes.firsts[one], classes.seconds[one]):
                for block in range(len(blocks)):
                    place = block * length + (residue - blocks[block]) % period
                    while place < (block + 1) * length:
                        cover[place] += 1
                        place += period
                if classes.firsts[one] == classes.seconds[one]:
                    break
