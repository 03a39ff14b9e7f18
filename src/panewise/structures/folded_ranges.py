"""Folded ranges: the columns of a structure, folded over ranges of positions or at every event, ready to be lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import Sketches
from panewise.arrays import Ints
from panewise.errors import HistoryError
from panewise.kernels.every_event import fold_at_every_event
from panewise.structures.column import Column, Elements, Operation, ValuesColumn
from panewise.structures.folded import FoldedColumns, MustReadError
from panewise.structures.lifting import LiftedValues, in_words
from panewise.structures.pool import Keys


@dataclass(frozen=True, slots=True)
class HeldElements:
    """The columns that a structure holds."""

    columns: Mapping[Kind | None, list[Column]]
    nulls: Column | None
    values: ValuesColumn | None
    is_float: bool
    are_partials: bool
    """Whether the elements are partials, of which the values are not known."""


class FoldedRanges(FoldedColumns):
    """The folded columns of some ranges of keys."""

    def __init__(self, held: HeldElements, keys: Keys, low: Ints, high: Ints) -> None:
        self.is_float = held.is_float
        self.held = held
        self._keys, self._low, self._high = keys, low, high

    @property
    def widths(self) -> Ints:
        return self._high - self._low

    @property
    def counts(self) -> Ints:
        nulls = self.held.nulls
        return self.widths if nulls is None else self.widths - nulls.fold(self._keys, self._low, self._high)

    def columns(self, kind: Kind | None) -> tuple[Elements, ...]:
        return tuple(column.fold(self._keys, self._low, self._high) for column in self.held.columns[kind])

    def values_of(self, place: int) -> npt.NDArray[np.float64]:
        if self.held.are_partials:
            raise MustReadError
        (column,) = self.held.columns[Kind.SUM_FLOAT]
        positions = np.arange(self._low[place], self._high[place])
        keys = None if self._keys is None else np.full(len(positions), self._keys[place])
        return np.ascontiguousarray(column.elements(keys, positions).real)

    def select(self, ranks: Ints) -> Elements:
        return self._values.select(self._keys, self._low, self._high, ranks)

    def distinct(self) -> Ints:
        return self._values.distinct(self._keys, self._low, self._high)

    def mode(self) -> Elements:
        return self._values.mode(self._keys, self._low, self._high)

    def sketches(self, kind: Kind) -> Sketches:
        return self._values.sketches(self._keys, self._low, self._high)

    @property
    def _values(self) -> ValuesColumn:
        assert self.held.values is not None
        return self.held.values


class EveryEvent(FoldedRanges):
    """The folded components of every window after every new element of key 0, window after window."""

    def __init__(
        self,
        held: HeldElements,
        lifted: LiftedValues,
        windows: list[tuple[int, int]],
        held_from: int,
        length: int,
        largest: int,
    ) -> None:
        self._lifted = lifted
        self._windows = np.array(windows, np.int64).reshape(-1, 2)
        self.shape = (len(self._windows), len(lifted))
        self._start = max(held_from, length - largest)
        lefts, rights = self._windows.T
        reach = np.maximum(length + 1 - lefts, 0)
        if len(lifted) and np.any((reach < self._start) & (reach < length + len(lifted) - rights)):
            raise HistoryError(
                f"some window reaches back before position {self._start}, from which on elements are held; "
                f"wait until it has filled, or add the window before its elements come"
            )
        self.has_empty = bool(np.any(length + 1 <= rights))
        """Whether some window covers nothing after some element."""
        positions = np.arange(self._start, length)
        self._before = {
            kind: [column.elements(None, positions) for column in several] for kind, several in held.columns.items()
        }
        nulls = held.nulls
        self._nulls_before = np.zeros(len(positions), np.int64) if nulls is None else nulls.elements(None, positions)
        self._ends = length + 1 + np.arange(len(lifted), dtype=np.int64)
        self.held, self._keys, self.is_float = held, None, held.is_float

    @cached_property
    def _high(self) -> Ints:  # type: ignore[override]
        """Where each window ends after each element."""
        high: Ints = np.maximum(self._ends - self._windows[:, 1:], 0).ravel()
        return high

    @cached_property
    def _low(self) -> Ints:  # type: ignore[override]
        """Where each window begins after each element."""
        low: Ints = np.minimum(np.maximum(self._ends - self._windows[:, :1], 0).ravel(), self._high)
        return low

    @property
    def counts(self) -> Ints:
        if self.held.nulls is None:
            return self.widths
        folded: Ints = self._at_every_event(Operation.add(np.int64), self._nulls_before, self._lifted.nulls())
        return self.widths - folded

    def columns(self, kind: Kind | None) -> tuple[Elements, ...]:
        columns = self.held.columns[kind]
        lifted = self._lifted.elements(kind, columns[0].operation, words=len(columns))
        before = self._before[kind]
        if len(before) < len(lifted):
            assert kind is not None
            before = in_words(kind, before[0])
        return tuple(self._at_every_event(c.operation, b, new) for c, b, new in zip(columns, before, lifted))

    def values_of(self, place: int) -> npt.NDArray[np.float64]:
        (operation,) = (column.operation for column in self.held.columns[Kind.SUM_FLOAT])
        lifted = self._lifted.elements(Kind.SUM_FLOAT, operation, words=1)[0]
        every = np.concatenate([self._before[Kind.SUM_FLOAT][0], lifted]).real
        return np.ascontiguousarray(every[self._low[place] - self._start : self._high[place] - self._start])

    def _at_every_event(self, operation: Operation, before: Elements, new: Elements) -> Elements:
        return fold_at_every_event(
            operation.code, operation.user, operation.identity, before, new, self._windows
        ).ravel()
