"""Totals: the words of one component for each key, into which rows are folded one by one."""

from __future__ import annotations

import numpy as np

from panewise.aggregates.components import Component, Kind
from panewise.arrays import Column, Ints, Numbers
from panewise.kernels.moving_windows import note_doubles, note_extremes, note_squares
from panewise.kernels.nested_windows import add_doubles, add_integers, add_sums_of_squares, keep_extremes

_ONE_LINE = np.zeros(1, np.uint64)
"""The kernels of nested windows put rows into lines of cells; a moving window has one."""


def fold_into(words: Column, component: Component, keys: Numbers, columns: tuple[Column, ...]) -> None:
    """Fold rows into the words of their keys, or of other places."""
    places = np.zeros(len(keys), np.uint8)
    match component.kind:
        case Kind.SUM_FLOAT:
            add_doubles(keys, places, _ONE_LINE, columns[0], columns[1], words[0], words[1])
        case Kind.SQUARES:
            add_sums_of_squares(keys, places, _ONE_LINE, columns, words)
        case Kind.MIN | Kind.MAX as kind:
            keep_extremes(keys, places, _ONE_LINE, columns[0], kind is Kind.MAX, words[0])
        case _:
            for word, column in zip(words, columns, strict=True):
                add_integers(keys, places, _ONE_LINE, column, word)


class ComponentTotals:
    """One component: words for each key, into which rows are folded."""

    def __init__(self, component: Component, is_float: bool, keys: int) -> None:
        self.component = component
        self._start = _start_of(component.kind, is_float)
        self.words = self._fresh(keys)

    def _fresh(self, keys: int) -> Column:
        return np.full((self.component.kind.words, keys), self._start)

    @property
    def nbytes(self) -> int:
        """The memory of the words."""
        return self.words.nbytes

    def cover(self, keys: int) -> None:
        """Have words for as many keys."""
        if keys > self.words.shape[1]:
            self.words = np.concatenate([self.words, self._fresh(keys - self.words.shape[1])], axis=1)

    def clear(self, keys: Ints | None = None) -> None:
        """Forget some keys, or all."""
        self.words[:, slice(None) if keys is None else keys] = self._start

    def renumber(self, used: Ints) -> None:
        """Keep some keys, which get the numbers of their places."""
        self.words = self.words[:, used]

    def fold(self, keys: Numbers, columns: tuple[Column, ...]) -> None:
        """Fold rows in."""
        fold_into(self.words, self.component, keys, columns)

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
