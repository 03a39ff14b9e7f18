"""Columns: the storage of one structure for one sequence of elements.

An aggregate is made of a few components, a component of one or two columns of elements. Each algorithm is a `Column`;
what is common to all of them (positions, NULLs, lowering) is `Structure`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.user import UserAggregate
from panewise.errors import WindowError
from panewise.kernels.operations import ADD, MAX, MIN, USER

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


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


class Column(ABC):
    """The elements of one column, and their combinations, for all windows within the newest `largest` elements.

    Positions count from 0 at the beginning of the stream. A range [low, high) of positions is never empty and always
    held: `Structure` makes sure of that.
    """

    def __init__(self, operation: Operation, windows: Windows) -> None:
        self.operation = operation

    @abstractmethod
    def append(self, start: int, values: Elements) -> None:
        """Take in elements at positions start, start + 1, ..., which follow those already there."""

    @abstractmethod
    def fold(self, low: Ints, high: Ints) -> Elements:
        """The elements of each range combined."""

    @abstractmethod
    def elements(self, start: int, end: int) -> Elements:
        """The elements at positions start .. end - 1."""

    @abstractmethod
    def fit(self, windows: Windows, start: int, end: int) -> None:
        """Arrange for changed windows; what is held of positions start .. end - 1 stays as far as they need it."""

    @abstractmethod
    def arrays(self) -> list[Elements]:
        """All arrays that it holds."""

    @property
    def nbytes(self) -> int:
        """The memory of all that it holds."""
        return sum(array.nbytes for array in self.arrays())

    @abstractmethod
    def check(self, start: int, end: int) -> None:
        """Assert what must hold for the arrays when positions start .. end - 1 are held."""


class ValuesColumn(ABC):
    """The values themselves, for aggregates that need all of them. NULLs are marked, not left out."""

    def __init__(self, dtype: np.dtype[Any], windows: Windows) -> None:
        self.dtype = dtype

    @abstractmethod
    def append(self, start: int, values: Elements, valid: Bools) -> None:
        """Take in values at positions start, start + 1, ...; `valid` is False where a value is NULL."""

    @abstractmethod
    def select(self, low: Ints, high: Ints, ranks: Ints) -> Elements:
        """The value at each range's 1-based rank among its values in order, NaN last; any value where the rank is 0."""

    @abstractmethod
    def distinct(self, low: Ints, high: Ints) -> Ints:
        """The number of different values of each range. NaN equals NaN."""

    def mode(self, low: Ints, high: Ints) -> Elements:
        """The most frequent value of each range, the smallest of several, by sorting it: O(W log W) a range."""
        out = np.zeros(len(low), self.dtype)
        for i, (begin, end) in enumerate(zip(low.tolist(), high.tolist())):
            values, valid = self.elements(begin, end)
            out[i] = most_frequent_value(values[valid])
        return out

    @abstractmethod
    def elements(self, start: int, end: int) -> tuple[Elements, Bools]:
        """The values at positions start .. end - 1, and which are valid."""

    @abstractmethod
    def fit(self, windows: Windows, start: int, end: int) -> None:
        """Arrange for changed windows."""

    @abstractmethod
    def arrays(self) -> list[Elements]:
        """All arrays that it holds."""

    @property
    def nbytes(self) -> int:
        """The memory of all that it holds."""
        return sum(array.nbytes for array in self.arrays())

    @abstractmethod
    def check(self, start: int, end: int) -> None:
        """Assert what must hold for the arrays."""
