"""Moved folds: the instances that a moving window stood at, as other ways of folding give theirs."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import cached_property

import numpy as np

from panewise.aggregates.components import Component
from panewise.aggregates.lowering import Lowered
from panewise.arrays import Column, Ints
from panewise.engine.answers import Groups
from panewise.engine.closed_windows import Folded, Lowering
from panewise.engine.moving import FoldOfKeys, MovingWindow
from panewise.engine.rows import Multisets
from panewise.planning.trees import PlannedAggregate, StreamPlan


class MovingFold(Folded):
    """One instance of a moving window. What is read is read before the window moves on."""

    def __init__(
        self,
        window: MovingWindow,
        instance: int,
        plan: StreamPlan,
        groups: Groups,
        fold_of_keys: FoldOfKeys,
        keys: Ints | None = None,
    ) -> None:
        self.plan, self.groups = plan, groups
        self._window, self._instance, self._moves = window, instance, window.moves
        self._fold_of_keys = fold_of_keys
        self._folded, self._lowered = {}, {}
        if keys is not None:
            self.keys = keys

    @staticmethod
    def of(
        window: MovingWindow, instance: int, plan: StreamPlan, groups: Groups, fold_of_keys: FoldOfKeys
    ) -> MovingFold:
        """The instance where a window stands now, with all keys."""
        fold = MovingFold(window, instance, plan, groups, fold_of_keys)
        fold.before, touched = window.read(instance)
        fold.touched = None if fold.before is None else touched
        return fold

    @cached_property
    def keys(self) -> Ints:
        """The keys that have events, found when they are first needed: for changes only, they are not."""
        return self._here.present()

    @cached_property
    def instances(self) -> Ints:
        """The same instance for each."""
        return np.full(len(self.keys), self._instance)

    @property
    def is_empty(self) -> bool:
        """Whether no key has events."""
        return not self._here.present_keys

    @property
    def first_instance(self) -> int:
        """The only one."""
        return self._instance

    last_instance = first_instance

    def chosen(self, rows: Ints) -> MovingFold:
        """Some of the keys; `rows` rise."""
        return self._with(self.keys[rows])

    def of_keys(self, keys: Ints) -> MovingFold:
        """Some keys, which rise."""
        return self._with(self._here.present_among(keys))

    def _with(self, keys: Ints) -> MovingFold:
        return MovingFold(self._window, self._instance, self.plan, self.groups, self._fold_of_keys, keys)

    def keep(self, aggregates: Iterable[PlannedAggregate]) -> None:
        """Read all that some aggregates need, so that the window may move on."""
        for component in self._here.components:
            self.component(component)
        for aggregate in aggregates:
            if not self._window.folds(aggregate):
                self.lowered(aggregate)

    @property
    def _here(self) -> MovingWindow:
        assert self._window.moves == self._moves, "the window has moved on"
        return self._window

    def _fold(self, component: Component) -> tuple[Column, ...]:
        held = self._here.held_as(component)
        return self._here.component(component, self.keys) if held == component else self.component(held)

    def _fold_some(self, component: Component, rows: Ints) -> tuple[Column, ...]:
        return self._here.component(component, self.keys[rows])

    def _lower(self, aggregate: PlannedAggregate, rows: Ints | None) -> Lowered:
        if self._here.folds(aggregate):
            return super()._lower(aggregate, rows)
        fold_of_keys = self._of_multisets if self._here.keeps(aggregate) else self._fold_of_keys
        return self._here.lowered(aggregate, self.keys if rows is None else self.keys[rows], fold_of_keys)

    def _of_multisets(self, keys: Ints, first: int, end: int) -> Lowering:
        return _KeptFold(self._here, keys, self.plan)


class _KeptFold(Lowering):
    """What a window holds of some keys, as answers are made from it."""

    def __init__(self, window: MovingWindow, keys: Ints, plan: StreamPlan) -> None:
        self.plan, self._lowered = plan, {}
        self._window, self._keys = window, keys

    def component(self, component: Component, rows: Ints | None = None) -> tuple[Column, ...]:
        """The totals of the keys, of some or of all."""
        return self._window.component(component, self._keys if rows is None else self._keys[rows])

    def runs(self, component: Component, rows: Ints | None = None) -> tuple[Multisets, Ints, Ints]:
        """The values of the keys, in order."""
        return self._window.multisets(component, self._keys if rows is None else self._keys[rows])


class JoinedFold(Folded):
    """Several instances of one moving window, each read before the window moved on."""

    keys: Ints
    instances: Ints

    def __init__(self, folds: list[MovingFold]) -> None:
        self.plan, self.groups = folds[0].plan, folds[0].groups
        self.keys = np.concatenate([fold.keys for fold in folds])
        self.instances = np.concatenate([fold.instances for fold in folds])
        self._folded = {
            component: tuple(np.concatenate(words) for words in zip(*(fold.component(component) for fold in folds)))
            for component in folds[0]._folded
        }
        self._lowered = {call: Lowered.joined([fold._lowered[call] for fold in folds]) for call in folds[0]._lowered}

    def chosen(self, rows: Ints) -> JoinedFold:
        """Some of the instances; `rows` rise."""
        some = copy(self)
        some.keys, some.instances = self.keys[rows], self.instances[rows]
        some._folded = {one: tuple(word[rows] for word in words) for one, words in self._folded.items()}
        some._lowered = {call: lowered.take(rows) for call, lowered in self._lowered.items()}
        return some

    def _fold(self, component: Component) -> tuple[Column, ...]:
        raise AssertionError("everything was read before the window moved on")

    def _fold_some(self, component: Component, rows: Ints) -> None:
        return None
