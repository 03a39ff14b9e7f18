"""Moving windows: the folded partials of one window, carried from one edge to the next.

Invariant: for every key, the totals are the fold of its rows with slots in [start, end) that pass one predicate.
A move adds the rows that enter and takes off those that leave, so it costs what enters and leaves and not what the
window covers. Components that can be taken off exactly (counts and sums of integers) are one total for each key. The
others (extremes, sums of doubles) have two parts, as in a queue of two stacks: what came before the *turn* lies in the
back, what came after it in the front. Rows enter the front. For the back it is noted, when it is made, what remains of
a key's back once a row leaves; when all of it has left, the front becomes the back. The notes are made block by block
and, within the oldest block only, row by row, so that they take less memory than the rows.

Cost: a move is O(rows that enter and leave), amortised, and O(keys) for each component that is read.
Space: a few words for each key and component, and a note for each key of a block.
Needs: components of a fixed number of words with an associative and commutative combine.
Source: Arasu and Widom, VLDB 2004 (landmark intervals); Tangwongsan, Hirzel, Schneider, "Low-Latency Sliding-Window
Aggregation in Worst-Case Constant Time", 2017, section 2 (two stacks).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component, Kind
from panewise.aggregates.lowering import Lowered
from panewise.aggregates.types import Type
from panewise.engine.answers import Groups
from panewise.engine.closed import Folded
from panewise.engine.packed_rows import PackedRows, Places
from panewise.kernels.moving_windows import note_doubles, note_extremes, note_squares
from panewise.kernels.nested_windows import add_doubles, add_integers, add_sums_of_squares, keep_extremes
from panewise.kernels.pairs import sum_pairs
from panewise.kernels.squares import sum_squares
from panewise.planning.plan import StreamPlan

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
Numbers = npt.NDArray[np.unsignedinteger[Any]]

_EVENTS = Component(Kind.ROWS)
_ONE_LINE = np.zeros(1, np.uint64)
"""The kernels of nested windows put rows into lines of cells; a moving window has one."""


def can_be_taken_off(component: Component, inputs: tuple[Type, ...]) -> bool:
    """Whether what leaves can be taken off a total, given the types of the stream's inputs.

    A difference of sums of doubles would show what was rounded in values that have left.
    """
    return component.kind.is_subtractable and not component.is_float(inputs)


class PredicateRows:
    """The rows that pass one predicate, over all runs of a store. What several windows read is picked once."""

    def __init__(self, runs: Iterable[PackedRows], holds: Bools | None) -> None:
        self._runs = list(runs)
        self._holds = holds
        self._newest: dict[tuple[int, int], PickedRows] = {}

    def between(self, first: int, end: int) -> PickedRows:
        """The rows with slots from `first` up to `end`."""
        found = ((run, run.rows_between(first, end, self._holds)) for run in self._runs)
        return PickedRows([(run, rows) for run, rows in found if len(rows)])

    def entering(self, first: int, end: int) -> PickedRows:
        """The same, kept for the other windows that go on from there."""
        if (first, end) not in self._newest:
            self._newest[first, end] = self.between(first, end)
        return self._newest[first, end]


class PickedRows:
    """Some rows of several runs."""

    def __init__(self, parts: list[tuple[PackedRows, Places]]) -> None:
        self._parts = parts
        self.keys: Numbers = _joined([run.numbers[rows] for run, rows in parts], np.uint32)
        self._columns: dict[Component, tuple[Column, ...]] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def slots(self) -> Ints:
        """The slot of each row."""
        return _joined([run.place_slots[run.places[rows]] for run, rows in self._parts], np.int64)

    def columns(self, component: Component) -> tuple[Column, ...]:
        """The columns of a component."""
        if component not in self._columns:
            self._columns[component] = tuple(
                _joined([run.column(name, rows) for run, rows in self._parts], np.int64)
                for name in component.column_names()
            )
        return self._columns[component]


def _joined(columns: list[Column], dtype: npt.DTypeLike) -> Column:
    if len(columns) == 1:
        return columns[0]
    return np.concatenate(columns) if columns else np.empty(0, dtype)


class _Totals:
    """One component: words for each key, into which rows are folded."""

    def __init__(self, component: Component, is_float: bool, keys: int) -> None:
        self.component = component
        self._start = _start_of(component.kind, is_float)
        self.words = self._fresh(keys)

    def _fresh(self, keys: int) -> Column:
        return np.full((self.component.kind.words, keys), self._start)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def cover(self, keys: int) -> None:
        """Have words for as many keys."""
        if keys > self.words.shape[1]:
            self.words = np.concatenate([self.words, self._fresh(keys - self.words.shape[1])], axis=1)

    def clear(self) -> None:
        """Forget everything."""
        self.words[:] = self._start

    def renumber(self, used: Ints) -> None:
        """Keep some keys, which get the numbers of their places."""
        self.words = self.words[:, used]

    def fold(self, keys: Numbers, columns: tuple[Column, ...]) -> None:
        """Fold rows in."""
        places = np.zeros(len(keys), np.uint8)
        words = self.words
        match self.component.kind:
            case Kind.SUM_FLOAT:
                add_doubles(keys, places, _ONE_LINE, columns[0], columns[1], words[0], words[1])
            case Kind.SQUARES:
                add_sums_of_squares(keys, places, _ONE_LINE, columns, words)
            case Kind.MIN | Kind.MAX as kind:
                keep_extremes(keys, places, _ONE_LINE, columns[0], kind is Kind.MAX, words[0])
            case _:
                for word, column in zip(words, columns, strict=True):
                    add_integers(keys, places, _ONE_LINE, column, word)

    def note(self, keys: Numbers, columns: tuple[Column, ...]) -> Column:
        """Fold rows in, one after the other; returns the words of each row's key before it."""
        notes = np.empty((len(self.words), len(keys)), self.words.dtype)
        match self.component.kind:
            case Kind.SUM_FLOAT:
                note_doubles(keys, columns, self.words, notes)
            case Kind.SQUARES:
                note_squares(keys, columns, self.words, notes)
            case kind:
                note_extremes(keys, columns[0], kind is Kind.MAX, self.words[0], notes[0])
        return notes


def _start_of(kind: Kind, is_float: bool) -> np.int64 | np.float64:
    """What a component of nothing is."""
    match kind:
        case Kind.MAX:
            return np.float64(-np.inf) if is_float else np.int64(np.iinfo(np.int64).min)
        case Kind.MIN:
            # NaN is above all numbers, so any value replaces it.
            return np.float64(np.nan) if is_float else np.int64(np.iinfo(np.int64).max)
        case _:
            return np.float64(0.0) if is_float else np.int64(0)


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

    def __init__(self, components: Iterable[Component], inputs: tuple[Type, ...], start: int) -> None:
        self._inputs = inputs
        self.start = self.end = self._turn = start
        self.next_start = start
        """Where the next instance begins: rows before it may go as soon as the present one has been read."""
        self.moves = 0
        """How often it changed: what was read before a change may not be read after it."""
        self._keys = 0
        self._instance: int | None = None
        """The instance that was read last; None if what changed since then is not known."""
        self._touched: list[Numbers] = []
        """The keys of the rows that entered or left since then."""
        self._totals: dict[Component, _Totals] = {}
        self._front: dict[Component, _Totals] = {}
        self._back: dict[Component, _Totals] = {}
        self._blocks: deque[_Block] = deque()
        self._open: _OpenBlock | None = None
        for component in components:
            is_float = component.is_float(inputs)
            if can_be_taken_off(component, inputs):
                self._totals[component] = _Totals(component, is_float, 0)
            else:
                self._front[component] = _Totals(component, is_float, 0)
                self._back[component] = _Totals(component, is_float, 0)

    @property
    def components(self) -> frozenset[Component]:
        """What it folds."""
        return frozenset((*self._totals, *self._back))

    @property
    def nbytes(self) -> int:
        """The memory of totals and notes."""
        noted = sum(block.nbytes for block in self._blocks) + (0 if self._open is None else self._open.nbytes)
        return noted + sum(cells.nbytes for cells in self._cells())

    def move(self, start: int, end: int, source: PredicateRows, keys: int) -> int:
        """Cover the slots from `start` up to `end`, neither of them before where it is; returns the rows visited."""
        self._cover(keys)
        visited = self.leave(start, source)
        entering = source.entering(self.end, end)
        if len(entering):
            self._touch(entering.keys)
            for cells in (*self._totals.values(), *self._front.values()):
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
            self._touch(leaving.keys)
            for cells in self._totals.values():
                cells.fold(leaving.keys, tuple(-column for column in leaving.columns(cells.component)))
            if self._back:
                visited += self._leave_back(start, source)
        self.start = start
        return visited + len(leaving)

    def present(self) -> Ints:
        """The keys with events in the window, rising."""
        # Rows would not tell: two of them become one when their runs are merged.
        return np.flatnonzero(self._totals[_EVENTS].words[0])

    def read(self, instance: int) -> tuple[int | None, Ints]:
        """Note that an instance is read; returns the one read before it, and the keys touched since then."""
        is_touched = np.zeros(self._keys, np.bool_)
        for keys in self._touched:
            is_touched[keys] = True
        before, self._instance, self._touched = self._instance, instance, []
        return before, np.flatnonzero(is_touched)

    def _touch(self, keys: Numbers) -> None:
        self.moves += 1
        self._touched.append(keys)

    def component(self, component: Component, keys: Ints) -> tuple[Column, ...]:
        """The folded columns of a component for some keys."""
        if component in self._totals:
            return tuple(self._totals[component].words[:, keys])
        back, front = self._back[component].words[:, keys], self._front[component].words[:, keys]
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
        self._instance, self._touched = None, []
        for cells in self._cells():
            cells.renumber(used)
        for part in self._blocks:
            part.keys = numbers[part.keys]
        if self._open is not None:
            self._open.keys = numbers[self._open.keys]

    def check_invariants(self, source: PredicateRows, keys: int) -> None:
        """The totals are the fold of the rows that the window covers."""
        self._cover(keys)
        fresh = MovingWindow(self.components, self._inputs, self.start)
        fresh.move(self.start, self.end, source, keys)
        present = self.present()
        assert np.array_equal(present, fresh.present())
        for component in self.components:
            for mine, its in zip(self.component(component, present), fresh.component(component, present), strict=True):
                if component.kind in (Kind.SUM_FLOAT, Kind.SQUARES):
                    assert np.allclose(mine, its, rtol=1e-9, atol=1e-9, equal_nan=True)
                else:
                    assert np.array_equal(mine, its, equal_nan=mine.dtype == np.float64)

    def _cells(self) -> Iterable[_Totals]:
        return (*self._totals.values(), *self._front.values(), *self._back.values())

    def _cover(self, keys: int) -> None:
        if keys > self._keys:
            self._keys = keys
            for cells in self._cells():
                cells.cover(keys)

    def _clear(self, start: int) -> None:
        """Forget everything, and go on at a slot from which on nothing was covered."""
        self._touch(self.present().astype(np.uint32))
        for cells in self._cells():
            cells.clear()
        self._blocks.clear()
        self._open = None
        self.start = self.end = self._turn = start

    def _turn_round(self, source: PredicateRows) -> int:
        """Make a back of all that is covered: the front is empty then. Returns the rows visited."""
        for cells in (*self._front.values(), *self._back.values()):
            cells.clear()
        self._blocks.clear()
        self._open = None
        visited = 0
        bounds = np.unique(np.linspace(self.start, self.end, int((self.end - self.start) ** 0.5) + 1).astype(np.int64))
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


@dataclass
class MovingFold(Folded):
    """The instances of a moving window that closed. What is read is read before the window moves on."""

    window: MovingWindow | None
    keys: Ints
    instances: Ints
    plan: StreamPlan
    groups: Groups
    _folded: dict[Component, tuple[Column, ...]] = field(default_factory=dict)
    _lowered: dict[tuple[str, int | None, float | None], Lowered] = field(default_factory=dict)
    _moves: int = 0
    before: int | None = None
    """The instance that was read before this one; None if it is not known."""
    touched: Ints | None = None
    """The keys of rows that entered or left since then: no other key's totals differ."""

    @staticmethod
    def of(window: MovingWindow, instance: int, plan: StreamPlan, groups: Groups) -> MovingFold:
        """The instance where a window stands now."""
        keys = window.present()
        before, touched = window.read(instance)
        return MovingFold(
            window,
            keys,
            np.full(len(keys), instance),
            plan,
            groups,
            _moves=window.moves,
            before=before,
            touched=None if before is None else touched,
        )

    @staticmethod
    def joined(folds: list[MovingFold]) -> MovingFold:
        """Several instances of one window; all but the last have been read by `keep`."""
        if len(folds) == 1:
            return folds[0]
        folds[-1].keep()
        first = folds[0]
        return MovingFold(
            None,
            np.concatenate([fold.keys for fold in folds]),
            np.concatenate([fold.instances for fold in folds]),
            first.plan,
            first.groups,
            {
                component: tuple(np.concatenate(words) for words in zip(*(fold._folded[component] for fold in folds)))
                for component in first._folded
            },
        )

    def keep(self) -> None:
        """Read everything, so that the window may move on."""
        assert self.window is not None
        for component in self.window.components:
            self.component(component)

    def component(self, component: Component, rows: Ints | None = None) -> tuple[Column, ...]:
        """The folded columns of a component, one value per instance, of some instances or of all."""
        if component in self._folded:
            folded = self._folded[component]
            return folded if rows is None else tuple(column[rows] for column in folded)
        assert self.window is not None
        assert self.window.moves == self._moves, "the window has moved on"
        found = self.window.component(component, self.keys if rows is None else self.keys[rows])
        if rows is None:
            self._folded[component] = found
        return found

    def chosen(self, rows: Ints) -> MovingFold:
        """Some of the instances; `rows` rise."""
        folded = {component: tuple(word[rows] for word in words) for component, words in self._folded.items()}
        return replace(self, keys=self.keys[rows], instances=self.instances[rows], _folded=folded, _lowered={})

    def expect(self, rows: Ints) -> None:
        """Nothing to prepare: each key has its totals."""
