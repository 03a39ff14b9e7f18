"""Keyed columns: the storage of one keyed structure for one sequence of elements a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from panewise.kernels.key_folds import DOUBLE, PAIR, WHOLE
from panewise.kernels.keyed_pool import move_rings
from panewise.structures.column import Bools, Elements, Ints, Operation, Windows, most_frequent_value
from panewise.structures.keyed.pool import Batch, Moves, Pool

_ELEMENTS: dict[type, int] = {np.int64: WHOLE, np.float64: DOUBLE, np.complex128: PAIR}


class PooledColumn(ABC):
    """Arrays with a place, or several, for each place of the pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    @abstractmethod
    def relocate(self, moves: Moves) -> None:
        """Move segments, to new arrays where `moves` says so. The pool knows the new places already."""

    @abstractmethod
    def arrays(self) -> list[Elements]:
        """All arrays that it holds."""

    def cover(self, keys: int) -> None:  # noqa: B027
        """Lengthen the arrays that have a place for each key, where they are too short."""

    def let_go(self, keys: Ints, after: Ints) -> None:  # noqa: B027
        """Some keys will hold nothing before `after`; the pool's `first` still says what they hold now."""

    def fit(self, windows: Windows) -> None:  # noqa: B027
        """Arrange for changed windows, after the pool has done so."""

    def check(self, keys: Ints) -> None:  # noqa: B027
        """Assert what must hold for the arrays of these keys, which are live."""

    def _moved_rings(self, rings: Elements, moves: Moves) -> Elements:
        """An array of rings with its segments moved."""
        target = rings if moves.size is None else np.zeros(moves.size, rings.dtype)
        m = moves
        move_rings(rings, target, m.old_offset, m.old_shift, m.new_offset, m.new_shift, m.first, m.length)
        return target


class KeyedColumn(PooledColumn):
    """Elements that combine. A range [low, high) of a key is held, or empty: then the key may be unknown."""

    fold_way: ClassVar[int]
    """The way in which `kernels.key_folds` folds its arrays; they stand in the order described there."""

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(pool)
        self.operation = operation

    @abstractmethod
    def append(self, batch: Batch, values: Elements) -> None:
        """Take in a batch; the pool has room for it and does not count it yet."""

    @abstractmethod
    def fold(self, keys: Ints, low: Ints, high: Ints) -> Elements:
        """The elements of each key's range combined; the neutral element for an empty range."""

    def way(self) -> tuple[int, int, int]:
        """How `kernels.key_folds` folds its arrays: the way, the type of elements, and the operation.

        Columns with a user's functions have no such way.
        """
        operation = self.operation
        assert operation.user is None, "a user's function is not called from there"
        return self.fold_way, _ELEMENTS[operation.dtype.type], operation.code

    def elements(self, keys: Ints, positions: Ints) -> Elements:
        """The elements at some positions."""
        return self.fold(keys, positions, positions + 1)


class KeyedValuesColumn(PooledColumn):
    """The values themselves, for aggregates that need all of them. NULLs are marked, not left out."""

    def __init__(self, dtype: np.dtype[Any], pool: Pool) -> None:
        super().__init__(pool)
        self.dtype = dtype

    @abstractmethod
    def append(self, batch: Batch, values: Elements, valid: Bools) -> None:
        """Take in a batch; `valid` is False where a value is NULL."""

    @abstractmethod
    def select(self, keys: Ints, low: Ints, high: Ints, ranks: Ints) -> Elements:
        """The value at each range's 1-based rank, NaN last; any value where the rank is 0."""

    @abstractmethod
    def distinct(self, keys: Ints, low: Ints, high: Ints) -> Ints:
        """The number of different values of each range. NaN equals NaN."""

    def mode(self, keys: Ints, low: Ints, high: Ints) -> Elements:
        """The most frequent value of each range, the smallest of several, by sorting it: O(W log W) a range."""
        out = np.zeros(len(keys), self.dtype)
        for i in range(len(keys)):
            positions = np.arange(low[i], high[i])
            values, valid = self.elements(np.full(len(positions), keys[i]), positions)
            out[i] = most_frequent_value(values[valid])
        return out

    @abstractmethod
    def elements(self, keys: Ints, positions: Ints) -> tuple[Elements, Bools]:
        """The values at some positions, and which are valid."""
