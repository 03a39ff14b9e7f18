"""Moved windows: which windows of a store are carried from edge to edge, and which are folded anew.

A window may move once it has closed a few times, one after the other. The store compares the rows that would enter and
leave with those that a fold of all windows would visit, every few closings, and takes the cheaper way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from panewise.aggregates.components import Kind
from panewise.arrays import Column, Ints
from panewise.engine.asked import Asked, AskedWindow
from panewise.engine.closed_windows import Fold, Folded
from panewise.engine.moved_folds import JoinedFold, MovingFold
from panewise.engine.moving import MovingWindow
from panewise.engine.nested import can_nest
from panewise.engine.packed_rows import NO_END, PackedRows
from panewise.engine.partial_store import PartialStore
from panewise.engine.picked_rows import PredicateRows
from panewise.engine.rows import Rows
from panewise.planning.cost import MOVED_ROWS
from panewise.planning.memory import FEWEST_KEPT
from panewise.planning.trees import Tree
from panewise.windows import Window
from panewise.windows.instances import starts_of
from panewise.windows.slots import lengths_in_slots

SWEPT_VALUES = 8
"""So many values of a key, in order, are swept over in the time of one row."""
FEWEST_CLOSINGS = 2
"""A window moves once it has closed this many times, one after the other: one that closes once is folded once."""
SAME_CHOICE = 16
"""For this many closings the same windows move."""

Instances = list[tuple[int, int, int]]
"""Some instances of a window: number, first slot, and the slot after the last."""


@dataclass(frozen=True)
class _Choice:
    """Which windows of a predicate move."""

    among: set[Window]
    """Those that may move."""
    ending: AbstractSet[Window]
    """All that end at the same time."""
    moving: list[Window]
    costs: dict[Window, tuple[float, float]]
    """What each of those that may move would take in a closing, in rows: to move it, and to fold it anew."""
    until: int
    """Up to how many closings it holds."""

    def holds(self, among: set[Window], ending: Mapping[Window, Any], closings: int) -> bool:
        """Whether the same windows still move."""
        return closings <= self.until and among == self.among and ending.keys() == self.ending


class MovedWindows:
    """The windows of one tree that move, by predicate. Each call is told of the store that they move over."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._is_made_of_totals = all(map(can_nest, tree.components))
        self._can_be_in_order = all(can_nest(one) or one.kind is Kind.VALUES for one in tree.components)
        self._moving: dict[tuple[int | None, Window], MovingWindow] = {}
        self._closed: dict[tuple[int | None, Window], tuple[int, int]] = {}
        """The last instance that closed of each, and how many closed one by one up to it."""
        self._choices: dict[int | None, _Choice] = {}
        self._asked: Asked | None = None
        """What queries asked when windows last closed."""
        self.visited = 0
        """How many rows were visited, and groups with answers."""

    @property
    def nbytes(self) -> int:
        """The memory of totals and notes."""
        return sum(window.nbytes for window in self._moving.values())

    @property
    def choices(self) -> Iterator[tuple[Window, bool, float, float]]:
        """Of each window that could move when it last closed, whether it did, and what both ways take in rows."""
        for choice in self._choices.values():
            for window, (moved, folded) in choice.costs.items():
                yield window, window in choice.moving, moved, folded

    def hand_over(self) -> MovedWindows:
        """The same for a store that goes on in place of another, whose windows no longer move."""
        twin = MovedWindows(self._tree)
        twin._closed, twin._asked, twin.visited = dict(self._closed), self._asked, self.visited
        # Only one of the two can move them on.
        twin._moving, twin._choices = self._moving, self._choices
        self._moving, self._choices = {}, {}
        return twin

    def follow(self, predicate: int | None, closing: Mapping[Window, tuple[int, int]], *, is_few: bool) -> set[Window]:
        """Note how windows close, and return those that may move: they close for the first time, and not in bulk."""
        may_move = set()
        for window, (first, last) in closing.items():
            key = predicate, window
            before, times = self._closed.get(key, (first - 1, 0))
            if first <= before:
                continue
            self._closed[key] = last, times + 1 if is_few else 0
            length, slide = lengths_in_slots(window, self._tree.granularity)
            if not is_few:
                self._moving.pop(key, None)
            elif key in self._moving or (times + 1 >= FEWEST_CLOSINGS and slide < length):
                may_move.add(window)
        return may_move

    def forget(self, asked: Asked) -> None:
        """Forget the totals of windows that no query has any more, and how they closed, once queries have changed."""
        if asked is self._asked:
            return
        self._asked = asked
        known = {(predicate, window) for predicate, windows in asked.by_predicate.items() for window in windows}
        self._closed = {key: closed for key, closed in self._closed.items() if key in known}
        self._moving = {key: moving for key, moving in self._moving.items() if key in known}
        self._choices = {}

    def choose(
        self,
        predicate: int | None,
        instances: Mapping[Window, Instances],
        may_move: set[Window],
        held: PartialStore,
        closings: int,
    ) -> list[Window]:
        """The windows that move; this is thought over from time to time, and when other windows close."""
        if not may_move:
            return []
        chosen = self._choices.get(predicate)
        if chosen is None or not chosen.holds(may_move, instances, closings):
            moving, costs = self._cheaper_to_move(instances, may_move, held)
            chosen = _Choice(may_move, instances.keys(), moving, costs, closings + SAME_CHOICE)
            self._choices[predicate] = chosen
        for window in may_move.difference(chosen.moving):
            self._moving.pop((predicate, window), None)
        return chosen.moving

    def move(
        self,
        predicate: int | None,
        window: Window,
        instances: Instances,
        asked: AskedWindow,
        held: PartialStore,
        source: PredicateRows,
        closings: int,
    ) -> Folded:
        """Move a window to each of its instances, and fold these."""
        plan, tables = held.plan, held.tables
        types = tuple(one.type for one in plan.inputs)
        moving = self._moving_window(predicate, window, instances[0], asked, types, source, closings, held.live_keys)
        folds = []

        def fold_of_keys(keys: Ints, first: int, end: int) -> Fold:
            view = source.of_keys(keys, first, end, self._tree.components, tables.no_rows)
            self.visited += len(view.slots)
            return Fold(view, keys, np.zeros_like(keys), view.segments[:-1], view.segments[1:], plan, tables.groups)

        for instance, start, end in instances:
            self.visited += moving.move(start, end, source, held.live_keys) + moving.present_keys
            moving.next_start = starts_of(window, instance + 1) // self._tree.granularity
            folds.append(MovingFold.of(moving, instance, plan, tables.groups, fold_of_keys))
            if len(instances) > 1:
                folds[-1].keep(asked.aggregates)
        return folds[0] if len(folds) == 1 else JoinedFold(folds)

    def leave(self, oldest: int | None, held: PartialStore) -> None:
        """Take off what the next instances do not cover, before the rows before a slot are dropped."""
        for (predicate, window), moving in list(self._moving.items()):
            self.visited += moving.leave(moving.next_start, held.rows_of(predicate))
            if oldest is not None and moving.start < oldest:
                # No query has this window any more.
                del self._moving[predicate, window]

    def insert_late(self, new: Rows, held: PartialStore) -> None:
        """Put new rows into the windows that have passed their slots."""
        passed = max((moving.end for moving in self._moving.values()), default=NO_END)
        if int(new.slots.min(initial=passed)) >= passed:
            return
        late = PackedRows(new.take(np.flatnonzero(new.slots < passed)).merged(self._tree.components))
        for (predicate, _), moving in self._moving.items():
            moving.insert(PredicateRows([late], held.tables.holds(predicate)), held.live_keys)

    def renumber(self, used: Ints, numbers: Column) -> None:
        """Give keys new numbers, by their old ones; only `used` keys are left."""
        for moving in self._moving.values():
            moving.renumber(used, numbers)

    def check_invariants(self, held: PartialStore) -> None:
        """Each window has the totals of the rows that it covers."""
        for (predicate, _), moving in self._moving.items():
            moving.check_invariants(held.rows_of(predicate), held.live_keys)

    def _moving_window(
        self,
        predicate: int | None,
        window: Window,
        first: tuple[int, int, int],
        asked: AskedWindow,
        types: Any,
        source: PredicateRows,
        closings: int,
        keys: int,
    ) -> MovingWindow:
        """The window as it was moved before; a new one if queries need more of it, or keys have more or fewer rows."""
        _, start, end = first
        moving = self._moving.get((predicate, window))
        needed = asked.in_totals(types)
        has_many = moving is not None and moving.has_many
        if moving is None or closings % SAME_CHOICE == 0:
            fewest = FEWEST_KEPT / 2 if has_many else FEWEST_KEPT
            has_many = source.count(start, end) >= fewest * keys
        if moving is None or moving.has_many != has_many or not moving.components.issuperset(needed):
            values = [one for one in asked.components(types) if one.kind is Kind.VALUES]
            moving = MovingWindow([*needed, *values], types, start, has_many=has_many)
            self._moving[predicate, window] = moving
        return moving

    def _cheaper_to_move(
        self, instances: Mapping[Window, Instances], may_move: set[Window], held: PartialStore
    ) -> tuple[list[Window], dict[Window, tuple[float, float]]]:
        """The windows that move, the longest first: if these do, fewer rows are left to fold the others from.

        Also what each would take.
        """
        candidates = sorted(may_move, key=lambda window: instances[window][0][1])
        slides = np.array([lengths_in_slots(window, self._tree.granularity)[1] for window in candidates])
        starts = np.array([instances[window][0][1] for window in candidates])
        ends = np.array([instances[window][-1][2] for window in candidates])
        covered = held.count_from(starts)
        moved = covered - held.count_from(starts + slides) + held.count_from(ends - slides) - held.count_from(ends)
        if not self._is_made_of_totals:
            # What is not made of totals is made anew from all rows of a key, or in a sweep over its values in order.
            rows_a_key = covered // held.live_keys
            in_order = (rows_a_key >= FEWEST_KEPT) & self._can_be_in_order
            moved = moved * np.maximum(1, np.where(in_order, rows_a_key // SWEPT_VALUES, rows_a_key))
        others = [found[0][1] for window, found in instances.items() if window not in may_move]
        fixed = int(held.count_from(np.array([min(others)]))[0]) if others else 0
        # All windows that do not move are folded in one pass over the rows of the longest.
        folded = np.maximum(np.append(covered, 0), fixed)
        cost = np.append(0.0, np.cumsum(MOVED_ROWS * moved)) + folded
        costs = zip((MOVED_ROWS * moved).tolist(), covered.tolist(), strict=True)
        return candidates[: int(np.argmin(cost))], dict(zip(candidates, costs, strict=True))
