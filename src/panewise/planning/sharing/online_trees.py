"""Trees that change by one query at a time, compared at a fixed set of instants.

Invariant: the bitmap of a tree is the union of its classes' edges at the instants; its rate follows from the number of
bits, as for a plan made from scratch. A class with edges that the instants cannot show stands apart, in a tree of its
own that is not compared, until the trees are laid out over other instants.
Cost of a change: one comparison per tree, and the classes of the tree if one has left it. Both are bounded: trees with
very many edges have a cover (see `kernels.online_bits`), and merging pauses after a number of words.
Source: Guirguis et al., section 5.2.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints, Words
from panewise.kernels import edge_sets, online_bits
from panewise.planning.sharing.class_table import ONE, ClassTable, Edges, rate_of
from panewise.planning.sharing.cost import Weights
from panewise.planning.sharing.instants import Instants
from panewise.planning.sharing.queries import EdgeClasses
from panewise.planning.sharing.space import Caps

CHUNK = 256
"""Bitmaps come in chunks of this many rows: a chunk never has to be copied to make room."""
_EXACT_BITS = 1 << 18
_SAMPLE_BITS = 1 << 16
_LEAST_BITS = 1 << 12
"""Longer bitmaps would make a single addition slow."""
_MOST_MARKS = 1 << 20
"""Trees with more edges at the instants than this have a cover."""
_MOST_WORDS = 1 << 21
"""After this many words a change stops merging trees; the next change may go on."""
_NO_COVER = np.zeros(0, np.int32)


class OnlineTrees:
    """The trees of a table of classes. Not safe for threads."""

    def __init__(self, table: ClassTable, instants: Instants, rate: float, weights: Weights) -> None:
        self.table = table
        self.instants = instants
        self.sampled = len(table)
        self._event_cost = weights.event * rate
        self._combine = weights.combine
        self._edge = weights.edge
        self._words = -(-instants.bits // 64)
        self._unit = instants.bit_rate / instants.grid
        self._scratch = np.zeros(max(instants.bits, 1), np.int32)
        self._chunks: list[Words] = []
        self._covers: dict[int, npt.NDArray[np.int32]] = {}
        self._free: list[int] = []
        self._rows = 0
        self._folds: list[int] = []
        self._sizes: list[int] = []
        self._apart: dict[int, Edges] = {}
        self._is_compared = np.zeros(0, np.bool_)
        self._rates = np.zeros(0)
        self._factors = np.zeros(0)
        self._known = np.zeros(0)
        self._sums = np.zeros(0, np.int64)
        self._unions = np.zeros(0, np.int64)

    @classmethod
    def laid_out(cls, table: ClassTable, rate: float, weights: Weights, caps: Caps) -> OnlineTrees:
        """The trees of a table's classes, over instants that show all of their edges."""
        classes, places = table.in_order()
        numbers, rows = np.unique(table.trees[places], return_inverse=True)
        if not len(numbers):
            return cls(table, _NOTHING, rate, weights)
        made = cls(table, instants_for(classes, len(numbers), caps), rate, weights)
        made._fill(classes, places, rows, len(numbers))
        return made

    def __len__(self) -> int:
        return self._rows - len(self._free)

    @property
    def apart(self) -> list[Edges]:
        """The classes that stand apart."""
        return list(self._apart.values())

    @property
    def is_outgrown(self) -> bool:
        """Whether most classes came after the instants were drawn; a sample knows little of their edges."""
        return self.instants.is_sample and len(self.table) > 2 * self.sampled

    @property
    def cost(self) -> float:
        """Operations per unit of all trees."""
        combines, edges = online_bits.totals(self._rates, self._factors, self._rows)
        return self._event_cost * len(self) + self._combine * float(combines) + self._edge * float(edges)

    def add(self, edges: Edges, fold: int) -> None:
        """Weave in a query: into the tree that has its edges, or where it saves most."""
        place, is_new = self.table.add(edges, fold)
        if not is_new:
            self._grow(int(self.table.trees[place]), fold)
            return
        row = self._new_row()
        self.table.trees[place] = row
        self._sizes[row] = 1
        self._known[row] = rate_of(edges)
        self._grow(row, fold)
        if self._can_show(edges):
            bits = self._bits_of(edges)
            self._sums[row] = len(bits)
            self._unions[row] = online_bits.set_bits(bits, self._bitmap(row), _NO_COVER)
            self._is_compared[row] = True
        else:
            self._apart[row] = edges
        self._set_rate(row)
        self.merge(row)

    def remove(self, edges: Edges, fold: int) -> None:
        """Take a query out, and compare its tree with the others again."""
        row = int(self.table.trees[self.table.places[edges]])
        _, is_gone = self.table.remove(edges, fold)
        self._grow(row, -fold)
        if is_gone:
            self._sizes[row] -= 1
            if not self._sizes[row]:
                self._drop(row)
                return
            self._take_class_out(row, edges)
        self.merge(row)

    def merge(self, row: int) -> None:
        """Merge a tree with the one that saves most, while any merge saves."""
        words = 0
        while words < _MOST_WORDS and row not in self._apart:
            common = self._common(row)
            words += self._words * self._rows
            best = int(
                online_bits.best_partner(
                    self._rates,
                    self._factors,
                    self._is_compared,
                    common,
                    self._unit,
                    self._event_cost,
                    self._combine,
                    self._edge,
                    row,
                )
            )
            if best < 0:
                return
            # The tree with more classes stays, so that fewer classes change their tree.
            kept, gone = (row, best) if self._sizes[row] >= self._sizes[best] else (best, row)
            self._join(kept, gone, int(common[best]))
            row = kept

    def _join(self, row: int, other: int, common: int) -> None:
        if self._sums[row] + self._sums[other] > _MOST_MARKS:
            self._covers[row] = self._cover(row) + self._cover(other)
        self.table.trees[self._members(other)] = row
        bitmap = self._bitmap(row)
        bitmap |= self._bitmap(other)
        self._sizes[row] += self._sizes[other]
        self._known[row] += self._known[other]
        self._sums[row] += self._sums[other]
        self._unions[row] += self._unions[other] - common
        fold = self._folds[other]
        self._drop(other)
        self._grow(row, fold)
        self._set_rate(row)

    def _take_class_out(self, row: int, edges: Edges) -> None:
        """Forget the bits of a class that is no longer in the table."""
        bits = self._bits_of(edges)
        self._known[row] -= rate_of(edges)
        self._sums[row] -= len(bits)
        bitmap = self._bitmap(row)
        if row in self._covers:
            self._unions[row] -= online_bits.clear_bits(bits, bitmap, self._covers[row])
        else:
            bitmap[:] = 0
            self._unions[row] = self._mark(row, bitmap, _NO_COVER)
        self._set_rate(row)

    def _cover(self, row: int) -> npt.NDArray[np.int32]:
        if row not in self._covers:
            self._covers[row] = np.zeros(self.instants.bits, np.int32)
            self._mark(row, np.zeros(self._words, np.uint64), self._covers[row])
        return self._covers[row]

    def _members(self, row: int) -> Ints:
        members: Ints = online_bits.members_of(self.table.trees, row, self.table.used)
        return members

    def _mark(self, row: int, bitmap: Words, cover: npt.NDArray[np.int32]) -> int:
        members = self._members(row)
        periods, firsts, seconds = self.table.edges[:, members]
        none = np.empty(0)
        classes = self.instants.scaled(EdgeClasses(periods, firsts, seconds, none, members))
        return int(
            online_bits.mark_members(classes, self.instants.blocks, self.instants.length, self._scratch, bitmap, cover)
        )

    def _common(self, row: int) -> Ints:
        """How many bits each tree shares with one tree."""
        bitmap = self._bitmap(row)
        counts = np.zeros(len(self._chunks) * CHUNK, np.int64)
        # A lookup of a bit takes longer than a comparison of two words.
        does_probe = 2 * int(self._unions[row]) < self._words
        bits = self._scratch[: online_bits.list_one(bitmap, self._scratch)] if does_probe else self._scratch[:0]
        for place, chunk in enumerate(self._chunks):
            rows = min(CHUNK, self._rows - place * CHUNK)
            out = counts[place * CHUNK : place * CHUNK + rows]
            if does_probe:
                online_bits.probe_each(bits, chunk, rows, out)
            else:
                online_bits.compare_each(bitmap, chunk, rows, out)
        return counts[: self._rows]

    def _bits_of(self, edges: Edges) -> npt.NDArray[np.int32]:
        period, first, second = edges
        grid, origin = self.instants.grid, self.instants.origin
        steps = period // grid
        found = online_bits.bits_of(
            steps,
            (first - origin) // grid % steps,
            (second - origin) // grid % steps,
            self.instants.blocks,
            self.instants.length,
            self._scratch,
        )
        return self._scratch[:found]

    def _can_show(self, edges: Edges) -> bool:
        period, first, second = edges
        grid, origin = self.instants.grid, self.instants.origin
        if period % grid or (first - origin) % grid or (second - origin) % grid:
            return False
        return self.instants.period is None or self.instants.period % (period // grid) == 0

    def _set_rate(self, row: int) -> None:
        union = int(self._unions[row])
        if row in self._apart:
            rate = self._known[row]
        elif not self.instants.is_sample or union >= self.instants.direct_bits:
            rate = union * self._unit
        else:
            rate = self._known[row] - (int(self._sums[row]) - union) * self._unit
        self._rates[row] = rate

    def _grow(self, row: int, fold: int) -> None:
        self._folds[row] += fold
        self._factors[row] = self._folds[row] / ONE

    def _bitmap(self, row: int) -> Words:
        bitmap: Words = self._chunks[row // CHUNK][row % CHUNK]
        return bitmap

    def _new_row(self) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self._rows
            self._make_room(row + 1)
        return row

    def _make_room(self, rows: int) -> None:
        while len(self._chunks) * CHUNK < rows:
            self._chunks.append(np.zeros((CHUNK, self._words), np.uint64))
        if rows > len(self._rates):
            more = max(rows, CHUNK)
            for name in ("_is_compared", "_rates", "_factors", "_known", "_sums", "_unions"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros(more, old.dtype)]))
        self._folds.extend([0] * (rows - self._rows))
        self._sizes.extend([0] * (rows - self._rows))
        self._rows = rows

    def _drop(self, row: int) -> None:
        self._bitmap(row)[:] = 0
        self._covers.pop(row, None)
        self._folds[row] = self._sizes[row] = 0
        self._apart.pop(row, None)
        for column in (self._is_compared, self._rates, self._factors, self._known):
            column[row] = 0
        self._sums[row] = self._unions[row] = 0
        self._free.append(row)

    def _fill(self, classes: EdgeClasses, places: Ints, rows: Ints, size: int) -> None:
        """Lay out the trees of a table from scratch; class c is at places[c] and goes into the row rows[c]."""
        self.table.trees[places] = rows
        self._make_room(size)
        used = slice(0, size)
        self._is_compared[used] = True
        scaled, blocks, length = self.instants.scaled(classes), self.instants.blocks, self.instants.length
        for chunk, first in zip(self._chunks, range(0, size, CHUNK)):
            inside = np.flatnonzero((rows >= first) & (rows < first + CHUNK))
            part = edge_sets.Classes(*(column[inside] for column in scaled))
            sums = np.zeros(CHUNK, np.int64)
            online_bits.mark_trees(part, blocks, length, rows[inside] - first, chunk, sums)
            end = min(first + CHUNK, size)
            self._sums[first:end] = sums[: end - first]
            self._unions[first:end] = edge_sets.count_rows(chunk[: end - first])
        self._known[used] = np.bincount(rows, classes.rates, minlength=size)
        for place, row in zip(places.tolist(), rows.tolist()):
            self._folds[row] += self.table.folds[place]
            self._sizes[row] += 1
        self._factors[used] = [fold / ONE for fold in self._folds]
        for row in range(size):
            self._set_rate(row)
        large = np.flatnonzero(self._sums[used] > _MOST_MARKS)
        if len(large):
            numbers = np.full(size, -1, np.int64)
            numbers[large] = np.arange(len(large))
            covers = np.zeros((len(large), self.instants.bits), np.int32)
            online_bits.cover_trees(scaled, blocks, length, rows, numbers, covers)
            self._covers = {row: covers[place] for place, row in enumerate(large.tolist())}

    def check_invariants(self) -> None:
        """Raise AssertionError if anything here contradicts the table of classes. Cost: all classes."""
        classes, places = self.table.in_order()
        rows = self.table.trees[places]
        assert set(rows.tolist()) == set(np.flatnonzero(self._is_compared[: self._rows]).tolist()) | set(self._apart)
        assert len(self.table) == len(places)
        for row in set(rows.tolist()):
            members = places[rows == row].tolist()
            assert self._sizes[row] == len(members)
            assert self._folds[row] == sum(self.table.folds[member] for member in members)
            inside = classes.chosen(np.flatnonzero(rows == row))
            assert (row in self._apart) == (not self.instants.has(inside))
            if row in self._apart:
                assert len(members) == 1
                continue
            bitmap = np.zeros((1, self._words), np.uint64)
            none = np.zeros(len(members), np.int64)
            edge_sets.mark(self.instants.scaled(inside), self.instants.blocks, self.instants.length, none, bitmap)
            assert (bitmap[0] == self._bitmap(row)).all()
            everything = np.arange(len(members)), np.array([0, len(members)])
            assert np.isclose(self._rates[row], self.instants.union_rates(inside, *everything)[0])
            assert row in self._covers or len(members) == 1 or self._sums[row] <= _MOST_MARKS
            if row in self._covers:
                cover = np.zeros(self.instants.bits, np.int32)
                self._mark(row, np.zeros(self._words, np.uint64), cover)
                assert (cover == self._covers[row]).all()


_NOTHING = Instants(1, 0, np.zeros(1, np.int64), 1, 1, 1.0)


def instants_for(classes: EdgeClasses, trees: int, caps: Caps) -> Instants:
    """The instants for a number of trees of some classes: few enough that a change is quick and memory suffices."""
    most = max(_LEAST_BITS, caps.memory_bytes * 4 // max(trees, 1))
    return Instants.of(
        classes,
        exact_bits=min(caps.exact_bits, _EXACT_BITS, most),
        sample_bits=min(caps.sample_bits, _SAMPLE_BITS, most),
        seed=caps.seed,
    )


@cache
def load_kernels() -> None:
    """Compile what a change needs, or load it if it was compiled before, so that no change has to wait for it."""
    trees = OnlineTrees.laid_out(ClassTable(), 1e9, Weights(), Caps())
    windows = [(4, 0, 2), (4, 0, 0), (2, 0, 0), (1, 0, 0)]
    for edges in windows:
        trees.add(edges, ONE)
    trees = OnlineTrees.laid_out(trees.table, 1e9, Weights(), Caps())
    for edges in windows:
        trees.merge(int(trees.table.trees[trees.table.places[edges]]))
    trees.remove(windows[0], ONE)
    cover, bitmap, none = np.ones(64, np.int32), np.zeros(1, np.uint64), np.zeros(0, np.int64)
    online_bits.clear_bits(np.zeros(1, np.int32), bitmap, cover)
    online_bits.compare_each(bitmap, bitmap[None], 1, np.zeros(1, np.int64))
    online_bits.probe_each(np.zeros(1, np.int32), bitmap[None], 1, np.zeros(1, np.int64))
    online_bits.cover_trees(edge_sets.Classes(none, none, none), none, 1, none, none, cover[None])
    trees.check_invariants()
