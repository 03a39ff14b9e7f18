"""Columns: the storage of one structure for one sequence of elements a key.

An aggregate is made of a few components, a component of one or two columns of elements. Each algorithm is a `Column`;
what is common to all of them (positions, NULLs, lowering) is `Structure`. Where a key's elements lie is `Pool`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from panewise.aggregates.sketches import Sketches
from panewise.aggregates.user import UserAggregate
from panewise.arrays import Bools, Ints
from panewise.errors import WindowError
from panewise.kernels.operations import ADD, MAX, MIN, USER
from panewise.kernels.pool import move_rings
from panewise.structures.pool import Batch, Keys, Moves, Pool

Elements = npt.NDArray[Any]


def most_frequent_value(values: Elements) -> Any:
    """The value that occurs most often, the smallest of several (NaN last); 0 when there is none."""
    if not len(values):
        return 0
    different, counts = np.unique(values, return_counts=True)
    return different[np.argmax(counts)]


@dataclass(frozen=True, eq=False)
class Operation:
    """How the elements of a column combine: a code of `kernels.operations`, its neutral element, and the type."""

    code: int
    identity: Any
    dtype: np.dtype[Any]
    user: Any
    inverse: Any

    @staticmethod
    def add(dtype: npt.DTypeLike) -> Operation:
        """Sums of int64, of doubles, or of pairs."""
        dtype = np.dtype(dtype)
        return Operation._built_in(ADD, dtype.type(0), dtype)

    @staticmethod
    def extreme(dtype: npt.DTypeLike, *, greatest: bool) -> Operation:
        """MAX or MIN; NaN is above all numbers."""
        dtype = np.dtype(dtype)
        if dtype == np.int64:
            limits = np.iinfo(np.int64)
            return Operation._built_in(
                MAX if greatest else MIN, np.int64(limits.min if greatest else limits.max), dtype
            )
        return Operation._built_in(MAX if greatest else MIN, np.float64(-np.inf if greatest else np.nan), dtype)

    @staticmethod
    def of_user(aggregate: UserAggregate, dtype: npt.DTypeLike) -> Operation:
        """A user's function, and its inverse where it has one."""
        dtype = np.dtype(dtype)
        inverse = None if aggregate.inverse is None else aggregate.compiled_inverse
        return Operation(USER, np.array(aggregate.identity, dtype)[()], dtype, aggregate.compiled_combine, inverse)

    @staticmethod
    def _built_in(code: int, identity: Any, dtype: np.dtype[Any]) -> Operation:
        return Operation(code, identity, dtype, None, None)


class Windows:
    """The windows of a structure, [left, right] back from the end, each as often as it was added."""

    def __init__(self, windows: Iterable[tuple[int, int]]) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self._longest = 0
        self.at_least = 1
        """Any window within this many of the newest elements is served, too."""
        for window in windows:
            self.add(window)

    def add(self, window: tuple[int, int]) -> None:
        """Add a window."""
        left, right = (int(end) for end in window)
        if not left > right >= 0:
            raise WindowError(f"window ({left}, {right}): needs left > right >= 0, both counted back from the end")
        self._counts[left, right] += 1
        self._longest = max(self._longest, left)

    def remove(self, window: tuple[int, int]) -> None:
        """Remove a window that was added."""
        left, right = (int(end) for end in window)
        if not self._counts[left, right]:
            raise WindowError(f"window ({left}, {right}) was not added; there are {len(self)} others")
        self._counts[left, right] -= 1
        if not self._counts[left, right]:
            del self._counts[left, right]
        if left == self._longest:
            self._longest = max((other for other, _ in self._counts), default=0)

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The different windows, in order."""
        return sorted(self._counts)

    @property
    def every(self) -> list[tuple[int, int]]:
        """All windows; a window that was added twice stands there twice."""
        return sorted(self._counts.elements())

    @property
    def largest(self) -> int:
        """Nmax: how many of the newest elements some window may need."""
        return max(self.at_least, self._longest)


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

    @property
    def nbytes(self) -> int:
        """The memory of all that it holds."""
        return sum(array.nbytes for array in self.arrays())

    def cover(self, keys: int) -> None:  # noqa: B027
        """Lengthen the arrays that have a place for each key, where they are too short."""

    def let_go(self, keys: Ints, after: Ints) -> None:  # noqa: B027
        """Some keys will hold nothing before `after`; the pool's `first` still says what they hold now."""

    def forget(self, keys: Ints) -> None:  # noqa: B027
        """Some keys hold nothing any more; if they come back, they begin again at position 0."""

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

    @staticmethod
    def _lengthened(array: Elements, length: int, fill: Any) -> Elements:
        """An array with a place for each key, with more places where it is too short."""
        if length <= len(array):
            return array
        return np.concatenate([array, np.full(length - len(array), fill, array.dtype)])


class Column(PooledColumn):
    """Elements that combine. A range [low, high) of a key is held, or empty: then the key may be unknown.

    Positions count from 0 at the beginning of a key's substream. `keys` is None for key 0 alone.
    """

    fold_way: ClassVar[int | None] = None
    """The way in which `kernels.key_folds` folds its arrays, in the order described there; None if it does not."""

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(pool)
        self.operation = operation

    @abstractmethod
    def append(self, batch: Batch, values: Elements) -> None:
        """Take in a batch; the pool has room for it and does not count it yet."""

    @abstractmethod
    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        """The elements of each range combined; the neutral element for an empty range."""

    def elements(self, keys: Keys, positions: Ints) -> Elements:
        """The elements at some positions."""
        return self.fold(keys, positions, positions + 1)


class RingColumn(Column):
    """The elements themselves, a ring of them a key, and maybe more beside them."""

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._elements = np.zeros(pool.size, operation.dtype)

    def elements(self, keys: Keys, positions: Ints) -> Elements:
        return self._elements[self.pool.places(keys, positions)]

    def relocate(self, moves: Moves) -> None:
        self._elements = self._moved_rings(self._elements, moves)


class ValuesColumn(PooledColumn):
    """The values themselves, for aggregates that need all of them. NULLs are marked, not left out."""

    def __init__(self, dtype: np.dtype[Any], pool: Pool) -> None:
        super().__init__(pool)
        self.dtype = dtype

    @abstractmethod
    def append(self, batch: Batch, values: Elements, valid: Bools) -> None:
        """Take in a batch; `valid` is False where a value is NULL."""

    @abstractmethod
    def elements(self, keys: Keys, positions: Ints) -> tuple[Elements, Bools]:
        """The values at some positions, and which are valid."""

    def select(self, keys: Keys, low: Ints, high: Ints, ranks: Ints) -> Elements:
        """The value at each range's 1-based rank among its values in order, NaN last; any value where the rank is 0."""
        raise NotImplementedError

    def distinct(self, keys: Keys, low: Ints, high: Ints) -> Ints:
        """The number of different values of each range. NaN equals NaN."""
        raise NotImplementedError

    def sketches(self, keys: Keys, low: Ints, high: Ints) -> Sketches:
        """A sketch of each range; None where it has no value."""
        raise NotImplementedError

    def mode(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        """The most frequent value of each range, the smallest of several, by sorting it: O(W log W) a range."""
        out = np.zeros(len(low), self.dtype)
        for i in range(len(low)):
            positions = np.arange(low[i], high[i])
            values, valid = self.elements(None if keys is None else np.full(len(positions), keys[i]), positions)
            out[i] = most_frequent_value(values[valid])
        return out
