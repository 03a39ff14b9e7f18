"""Moving windows: the folded partials of one window, carried from one edge to the next.

Invariant: for every key, the totals are the fold of its rows with slots in [start, end) that pass one predicate.
A move adds the rows that enter and takes off those that leave, so it costs what enters and leaves and not what the
window covers. Components that can be taken off exactly (counts and sums of integers) are one total for each key. The
others (extremes, sums of doubles) have two parts, as in a queue of two stacks: what came before the *turn* lies in the
back, what came after it in the front. Rows enter the front. For the back it is noted, when it is made, what remains of
a key's back once a row leaves; when all of it has left, the front becomes the back. The notes are made block by block
and, within the oldest block only, row by row, so that they take less memory than the rows. A row that comes late is
put where it belongs: into the totals, or into the front or the back and the notes of all older blocks. Where a key has
few rows, parts and notes would be larger than these: there is only a front then, and a key that a row leaves is folded
anew from its rows. While no value is NULL, counts of values are the counts of events, and are held once.
Multisets and sketches have no totals: the answers made of them are kept for each key until a row of it enters or
leaves, and are then made anew. Multisets of many rows a key are kept in order, and so is what they are made from; for
others, the rows of that key are folded.

Cost: a move is O(rows that enter and leave), amortised, and O(keys) for each component that is read. A row that is late
costs O(blocks). An answer of multisets or sketches that changed costs the rows of its key; where these are kept in
order, one sweep over them.
Space: a few words for each key and component, and a note for each key of a block.
Needs: for totals, components of a fixed number of words with an associative and commutative combine.
Source: Arasu and Widom, VLDB 2004 (landmark intervals); Tangwongsan, Hirzel, Schneider, "Low-Latency Sliding-Window
Aggregation in Worst-Case Constant Time", 2017, section 2 (two stacks).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Component, Kind
from panewise.aggregates.lowering import Lowered
from panewise.aggregates.types import Type
from panewise.arrays import Column, Ints, Numbers
from panewise.engine.closed_windows import Lowering
from panewise.engine.kept_answers import KeptAnswers
from panewise.engine.kept_multisets import KeptMultisets
from panewise.engine.packed_rows import NO_END
from panewise.engine.picked_rows import PickedRows, PredicateRows
from panewise.engine.rows import Multisets
from panewise.engine.totals import ComponentTotals, fold_into
from panewise.kernels.moving_windows import count_events
from panewise.kernels.pairs import sum_pairs
from panewise.kernels.squares import sum_squares
from panewise.planning.memory import FEWEST_BLOCKS
from panewise.planning.trees import PlannedAggregate

FoldOfKeys = Callable[[Ints, int, int], Lowering]
"""The fold of the rows of some keys, between two slots."""

MORE_KEYS = 32
"""There is room for one key more in so many."""
_EVENTS = Component(Kind.ROWS)


@dataclass
class _Block:
    """Slots of the back that leave one after the other, and what the back of their keys is once all have left."""

    first: int
    end: int
    keys: Numbers
    notes: dict[Component, Column]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + sum(note.nbytes for note in self.notes.values())


@dataclass
class _OpenBlock:
    """The oldest block, row by row, the newest first: what the back of each row's key is once it has left."""

    keys: Numbers
    slots: Ints
    notes: dict[Component, Column]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.slots.nbytes + sum(note.nbytes for note in self.notes.values())


class MovingWindow:
    """One window over the rows of one predicate. It covers the slots from `start` up to `end`."""

    def __init__(
        self, components: Iterable[Component], inputs: tuple[Type, ...], start: int, *, has_many: bool = True
    ) -> None:
        self._inputs = inputs
        self.has_many = has_many
        """Whether it is made for many rows a key: with two parts, and with multisets in order."""
        self.start = self.end = self._turn = start
        self.next_start = start
        """Where the next instance begins: rows before it may go as soon as the present one has been read."""
        self.moves = 0
        """How often it changed: what was read before a change may not be read after it."""
        self.present_keys = 0
        """How many keys have events in it."""
        self._keys = 0
        self._instance: int | None = None
        """The instance that was read last; None if what changed since then is not known."""
        self._touched = np.empty(0, np.uint32)
        """The keys of the rows that entered or left since then, and maybe room for more."""
        self._is_touched = np.empty(0, np.bool_)
        self._touched_keys = 0
        self._kept: dict[PlannedAggregate, KeptAnswers] = {}
        """The answers of multisets and sketches."""
        self._multisets: dict[Component, KeptMultisets] = {}
        self._totals: dict[Component, ComponentTotals] = {}
        self._counted: set[Component] = set()
        """The counts of values that are those of events so far, and have no totals of their own."""
        self._front: dict[Component, ComponentTotals] = {}
        self._back: dict[Component, ComponentTotals] = {}
        self._blocks: deque[_Block] = deque()
        self._open: _OpenBlock | None = None
        for component in components:
            is_float = component.is_float(inputs)
            if component.kind is Kind.VALUES:
                assert component.input is not None
                if has_many:
                    holds_doubles = inputs[component.input] is Type.DOUBLE
                    self._multisets[component] = KeptMultisets(0, np.float64 if holds_doubles else np.int64)
            elif component.kind is Kind.COUNT:
                self._counted.add(component)
            elif component.can_be_taken_off(inputs):
                self._totals[component] = ComponentTotals(component, is_float, 0)
            else:
                self._front[component] = ComponentTotals(component, is_float, 0)
                if has_many:
                    self._back[component] = ComponentTotals(component, is_float, 0)
        self.components = frozenset((*self._totals, *self._counted, *self._front))
        """What it folds."""
        self._needs: dict[PlannedAggregate, frozenset[Component]] = {}
        self._folds: dict[PlannedAggregate, bool] = {}

    def folds(self, aggregate: PlannedAggregate) -> bool:
        """Whether all that an aggregate needs is folded here."""
        if aggregate not in self._folds:
            self._folds[aggregate] = self.components >= self._needed(aggregate)
        return self._folds[aggregate]

    def keeps(self, aggregate: PlannedAggregate) -> bool:
        """Whether all that an aggregate needs is folded here, or kept in order."""
        return self.components.union(self._multisets) >= self._needed(aggregate)

    def _needed(self, aggregate: PlannedAggregate) -> frozenset[Component]:
        if aggregate not in self._needs:
            needed: Iterable[Component] = ()
            if aggregate.input is not None:
                kinds = CATALOGUE[aggregate.call.function].kinds(self._inputs[aggregate.input])
                needed = (Component(kind, aggregate.input) for kind in kinds)
            self._needs[aggregate] = frozenset(needed)
        return self._needs[aggregate]

    @property
    def nbytes(self) -> int:
        """The memory of totals and notes."""
        noted = sum(block.nbytes for block in self._blocks) + (0 if self._open is None else self._open.nbytes)
        by_key = sum(part.nbytes for part in self._by_key())
        return noted + by_key + self._touched.nbytes + self._is_touched.nbytes

    def move(self, start: int, end: int, source: PredicateRows, keys: int) -> int:
        """Cover the slots from `start` up to `end`, neither of them before where it is; returns the rows visited."""
        self._cover(keys)
        visited = self.leave(start, source)
        entering = source.entering(self.end, end)
        if len(entering):
            self._count(entering, 1)
            for cells in (*self._totals.values(), *self._front.values()):
                if cells.component != _EVENTS:
                    cells.fold(entering.keys, entering.columns(cells.component))
        self.end = end
        return visited + len(entering)

    def leave(self, start: int, source: PredicateRows) -> int:
        """No longer cover the slots before `start`; returns the rows visited."""
        if start <= self.start:
            return 0
        if start >= self.end:
            self._clear(start)
            return 0
        visited = 0
        if self._back and self._turn < start:
            # All that the back has is about to leave.
            visited += self._turn_round(source)
        leaving = source.between(self.start, start)
        if len(leaving):
            self._count(leaving, -1)
            for cells in self._totals.values():
                if cells.component != _EVENTS:
                    cells.fold(leaving.keys, tuple(-column for column in leaving.columns(cells.component)))
            if self._back:
                visited += self._leave_back(start, source)
            elif self._front:
                visited += self._fold_anew(np.unique(leaving.keys).astype(np.int64), start, source)
        self.start = start
        return visited + len(leaving)

    def insert(self, late: PredicateRows, keys: int) -> None:
        """Take in rows that come late; those that it does not cover are left out."""
        self._cover(keys)
        # Rows that have left meanwhile correct the answers that the next ones are compared with.
        self._touch(late.between(NO_END, self.end).keys)
        covered = late.between(self.start, self.end)
        if not len(covered):
            return
        self._count(covered, 1)
        for cells in self._totals.values():
            if cells.component != _EVENTS:
                cells.fold(covered.keys, covered.columns(cells.component))
        newer = late.between(max(self._turn, self.start), self.end)
        if len(newer):
            for cells in self._front.values():
                cells.fold(newer.keys, newer.columns(cells.component))
        if self._back:
            self._insert_back(late.between(self.start, self._turn))

    def _insert_back(self, late: PickedRows) -> None:
        """Take late rows into the back, and into what is noted to remain of it."""
        if not len(late):
            return
        self._open = None
        slots = late.slots
        for slot in np.unique(slots).tolist():
            self._know_in_block(slot, np.unique(late.keys[slots == slot]))
        for block in self._blocks:
            places, is_here = _places_in(block.keys, late.keys)
            remains = is_here & (slots >= block.end)
            if remains.any():
                for component, note in block.notes.items():
                    columns = tuple(column[remains] for column in late.columns(component))
                    fold_into(note, component, places[remains].astype(np.uint32), columns)
        for component, cells in self._back.items():
            cells.fold(late.keys, late.columns(component))

    def _know_in_block(self, slot: int, keys: Numbers) -> None:
        """Have notes for some keys in the block of a slot, with what remains of them now."""
        place = next((place for place, block in enumerate(self._blocks) if slot < block.end), len(self._blocks))
        if place == len(self._blocks) or slot < self._blocks[place].first:
            nothing = {component: cells.words[:, :0] for component, cells in self._back.items()}
            self._blocks.insert(place, _Block(slot, slot + 1, keys[:0], nothing))
        block = self._blocks[place]
        keys = keys[~_places_in(block.keys, keys)[1]]
        remains = {component: cells.words[:, keys] for component, cells in self._back.items()}
        # The nearest older block that has a key notes what remains after it, and none of that is in between.
        for older in [self._blocks[before] for before in range(place)]:
            places, is_here = _places_in(older.keys, keys)
            for component, words in remains.items():
                words[:, is_here] = older.notes[component][:, places[is_here]]
        at = np.searchsorted(block.keys, keys)
        block.keys = np.insert(block.keys, at, keys)
        for component, words in remains.items():
            block.notes[component] = np.insert(block.notes[component], at, words, axis=1)

    def present(self) -> Ints:
        """The keys with events in the window, rising."""
        # Rows would not tell: two of them become one when their runs are merged.
        return np.flatnonzero(self._totals[_EVENTS].words[0])

    def present_among(self, keys: Ints) -> Ints:
        """Those of some keys that have events in the window."""
        is_here: npt.NDArray[np.bool_] = self._totals[_EVENTS].words[0, keys] != 0
        return keys[is_here]

    def read(self, instance: int) -> tuple[int | None, Numbers]:
        """Note that an instance is read; returns the one read before it, and the keys touched since then."""
        before, self._instance = self._instance, instance
        touched = self._touched[: self._touched_keys]
        self._is_touched[touched] = False
        self._touched, self._touched_keys = self._touched[:0].copy(), 0
        return before, touched

    def lowered(self, aggregate: PlannedAggregate, keys: Ints, fold_of_keys: FoldOfKeys) -> Lowered:
        """The answers of an aggregate that is not made of totals, for some keys with events."""
        if not len(keys):
            return fold_of_keys(keys, self.start, self.end).lowered(aggregate)
        if aggregate not in self._kept:
            self._kept[aggregate] = KeptAnswers(self._keys)
        kept = self._kept[aggregate]
        stale = kept.stale_among(keys)
        if len(stale):
            kept.put(stale, fold_of_keys(stale, self.start, self.end).lowered(aggregate))
        return kept.of(keys)

    def _touch(self, keys: Numbers) -> None:
        """Note that the answers of some keys may change."""
        new = np.unique(keys[~self._is_touched[keys]])
        self._make_room(len(new))
        self._touched[self._touched_keys : self._touched_keys + len(new)] = new
        self._is_touched[new] = True
        self._touched_keys += len(new)

    def _make_room(self, keys: int) -> None:
        """Have room for so many keys more among those that are touched."""
        needed = min(self._touched_keys + keys, self._keys)
        if needed > len(self._touched):
            # What rows take in at once lies here only until the next instance is read.
            room = np.empty(max(needed, min(2 * len(self._touched), self._keys)), np.uint32)
            room[: self._touched_keys] = self._touched[: self._touched_keys]
            self._touched = room

    def _count(self, rows: PickedRows, sign: int) -> None:
        """Count the events of rows that enter or leave, and note their keys."""
        self.moves += 1
        self._make_room(len(rows))
        for component in [one for one in self._counted if not rows.is_same(one, _EVENTS)]:
            self._counted.remove(component)
            self._totals[component] = ComponentTotals(component, False, 0)
            self._totals[component].words = self._totals[_EVENTS].words.copy()
        (events,), (totals,) = rows.columns(_EVENTS), self._totals[_EVENTS].words
        more, self._touched_keys = count_events(
            rows.keys, events, sign, totals, self._is_touched, self._touched, self._touched_keys
        )
        self.present_keys += more
        for kept in self._kept.values():
            kept.forget(rows.keys)
        for component, values in self._multisets.items():
            values.change(rows.keys, rows.multisets(component), sign)

    def multisets(self, component: Component, keys: Ints) -> tuple[Multisets, Ints, Ints]:
        """The values of some keys, if they are kept in order, and which range of them each key has."""
        return self._multisets[component].of(keys)

    def held_as(self, component: Component) -> Component:
        """The component that has the same values, if one is not held apart."""
        return _EVENTS if component in self._counted else component

    def component(self, component: Component, keys: Ints) -> tuple[Column, ...]:
        """The folded columns of a component for some keys."""
        component = self.held_as(component)
        if component not in self._back:
            cells = self._totals[component] if component in self._totals else self._front[component]
            return tuple(cells.words.take(keys, axis=1))
        back, front = (parts[component].words.take(keys, axis=1) for parts in (self._back, self._front))
        match component.kind:
            case Kind.SUM_FLOAT:
                return sum_pairs(*back, *front)
            case Kind.SQUARES:
                return sum_squares(tuple(back), tuple(front))
            case Kind.MAX:
                return (np.maximum(back[0], front[0]),)
            case _:
                return (np.fmin(back[0], front[0]),)

    def renumber(self, used: Ints, numbers: Numbers) -> None:
        """Give keys new numbers; `used` are the old ones that remain, with all that the window covers."""
        self._cover(len(numbers))
        self._keys = len(used)
        # Some of the keys that were touched may have lost their numbers.
        self._instance, self._touched_keys = None, 0
        self._touched, self._is_touched = self._touched[:0].copy(), np.zeros(len(used), np.bool_)
        for part in self._by_key():
            part.renumber(used)
        for block in self._blocks:
            block.keys = numbers[block.keys]
        if self._open is not None:
            self._open.keys = numbers[self._open.keys]

    def check_invariants(self, source: PredicateRows, keys: int) -> None:
        """The totals are the fold of the rows that the window covers."""
        self._cover(keys)
        fresh = MovingWindow((*self.components, *self._multisets), self._inputs, self.start)
        fresh.move(self.start, self.end, source, keys)
        present = self.present()
        assert np.array_equal(present, fresh.present())
        assert len(present) == self.present_keys
        for component, values in self._multisets.items():
            values.check_equal(fresh._multisets[component], present)
        for component in self.components:
            words = list(zip(self.component(component, present), fresh.component(component, present), strict=True))
            if component.kind not in (Kind.SUM_FLOAT, Kind.SQUARES):
                assert all(np.array_equal(mine, its, equal_nan=mine.dtype == np.float64) for mine, its in words)
                continue
            # A sum that is NaN says so in its first word, and the others mean nothing.
            is_nan = np.isnan(words[0][0])
            assert np.array_equal(is_nan, np.isnan(words[0][1]))
            for mine, its in words:
                assert np.allclose(mine[~is_nan], its[~is_nan], rtol=1e-9, atol=1e-9)

    def _cells(self) -> Iterable[ComponentTotals]:
        return (*self._totals.values(), *self._front.values(), *self._back.values())

    def _by_key(self) -> tuple[ComponentTotals | KeptAnswers | KeptMultisets, ...]:
        """All that is held for each key."""
        return (*self._cells(), *self._kept.values(), *self._multisets.values())

    def _cover(self, keys: int) -> None:
        if keys > self._keys:
            # A little more than is needed: some keys come with every move.
            keys = max(keys, self._keys + self._keys // MORE_KEYS)
            more = keys - self._keys
            self._keys = keys
            self._is_touched = np.concatenate([self._is_touched, np.zeros(more, np.bool_)])
            for part in self._by_key():
                part.cover(keys)

    def _clear(self, start: int) -> None:
        """Forget everything, and go on at a slot from which on nothing was covered."""
        self.moves += 1
        left = self.present().astype(np.uint32)
        self._touch(left)
        self.present_keys = 0
        for kept in self._kept.values():
            kept.forget(left)
        for cells in self._cells():
            cells.clear()
        for values in self._multisets.values():
            values.clear()
        self._blocks.clear()
        self._open = None
        self.start = self.end = self._turn = start

    def _fold_anew(self, keys: Ints, start: int, source: PredicateRows) -> int:
        """Fold some keys from their rows from `start` on. Returns the rows visited."""
        remaining = source.rows_of_keys(keys, start, self.end)
        for cells in self._front.values():
            cells.clear(keys)
            if len(remaining):
                cells.fold(remaining.keys, remaining.columns(cells.component))
        return len(remaining)

    def _turn_round(self, source: PredicateRows) -> int:
        """Make a back of all that is covered: the front is empty then. Returns the rows visited."""
        for cells in (*self._front.values(), *self._back.values()):
            cells.clear()
        self._blocks.clear()
        self._open = None
        visited = 0
        slots = self.end - self.start
        # As many blocks as make notes of blocks and of the rows of one block smallest together.
        rows_a_key = source.count(self.start, self.end) / max(1, self.present_keys)
        blocks = int(min(slots, max(FEWEST_BLOCKS**2, rows_a_key)) ** 0.5)
        bounds = np.unique(np.linspace(self.start, self.end, blocks + 1).astype(np.int64))
        for first, end in zip(bounds[-2::-1].tolist(), bounds[:0:-1].tolist()):
            some = source.between(first, end)
            if not len(some):
                continue
            visited += len(some)
            different = np.unique(some.keys)
            notes = {component: cells.words[:, different] for component, cells in self._back.items()}
            self._blocks.appendleft(_Block(first, end, different, notes))
            for component, cells in self._back.items():
                cells.fold(some.keys, some.columns(component))
        self._turn = self.end
        return visited

    def _leave_back(self, start: int, source: PredicateRows) -> int:
        """Take the slots before `start` off the back. Returns the rows visited."""
        visited = 0
        while self._blocks and self._blocks[0].end <= start:
            block = self._blocks.popleft()
            self._open = None
            for component, cells in self._back.items():
                cells.words[:, block.keys] = block.notes[component]
        if not self._blocks or self._blocks[0].first >= start:
            return visited
        if self._open is None:
            visited += self._open_block(self._blocks[0], source)
        assert self._open is not None
        keys, slots = self._open.keys, self._open.slots
        # The newest come first. Of a key with several rows that leave, the newest one tells what remains.
        gone = slice(int(np.searchsorted(-slots, -start, side="right")), None)
        for component, cells in self._back.items():
            cells.words[:, keys[gone][::-1]] = self._open.notes[component][:, gone][:, ::-1]
        kept = slice(None, gone.start)
        notes = {component: note[:, kept] for component, note in self._open.notes.items()}
        self._open = _OpenBlock(keys[kept], slots[kept], notes)
        return visited

    def _open_block(self, block: _Block, source: PredicateRows) -> int:
        """Note row by row what remains of the back as a block leaves. Returns the rows visited."""
        some = source.between(max(block.first, self.start), block.end)
        slots = some.slots
        newest_first = np.argsort(slots, kind="stable")[::-1]
        keys = some.keys[newest_first]
        notes: dict[Component, Column] = {}
        for component, cells in self._back.items():
            whole = cells.words[:, block.keys]
            cells.words[:, block.keys] = block.notes[component]
            notes[component] = cells.note(keys, tuple(column[newest_first] for column in some.columns(component)))
            cells.words[:, block.keys] = whole
        self._open = _OpenBlock(keys, slots[newest_first], notes)
        return len(some)


def _places_in(keys: Numbers, some: Numbers) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The places of some keys among others, which rise, and whether they are there."""
    places = np.searchsorted(keys, some)
    is_here = places < len(keys)
    is_here[is_here] = keys[places[is_here]] == some[is_here]
    return places, is_here
