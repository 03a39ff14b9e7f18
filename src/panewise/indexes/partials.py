"""Aggregates of a window from one partial for each basic window, without a look at tuples (Indexing, section 3.2).

Invariant: there is a partial for each attached basic window, and one for the filling one.
Cost: O(1) per tuple, O(n) per answer for n basic windows. Space: n partials. Needs: numbers.

The paper counts variance among the operators that must probe the entire window. That is not necessary: the sum of
squares about the mean of a whole follows from those of its parts and from their means (Chan, Golub and LeVeque, 1979).
Each answer folds the partials again, so doubles keep no error of basic windows that have left, and a NaN leaves with
its basic window.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.errors import IndexingError
from panewise.indexes.values import DoubleCodes, IntegerCodes, ValueCodes, Values, known

_CODES: dict[str, type[ValueCodes]] = {"int64": IntegerCodes, "float64": DoubleCodes}


@dataclass(frozen=True)
class Partial:
    """What the tuples of a basic window leave behind; integer sums are exact."""

    count: int = 0
    sum: Any = 0
    mean: float = 0.0
    squares: float = 0.0
    """The sum of squares about the mean."""
    least: Any = None
    greatest: Any = None

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Partial:
        """The partial of values; NaN is above all."""
        if len(values) == 0:
            return cls()
        total = _sum(values.tolist()) if values.dtype.kind == "f" else _exact_sum(values)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = float(total / len(values))
            squares = float(np.square(values - mean).sum())
        ordered = np.sort(values)
        return cls(len(values), total, mean, squares, ordered[0].item(), ordered[-1].item())


def combine(parts: list[Partial]) -> Partial:
    """Combine partials into the partial of the whole.

    >>> whole = combine([Partial.of(np.array([1, 5])), Partial.of(np.array([3, 3, 8]))])
    >>> whole.count, whole.sum, whole.mean, whole.squares, whole.least, whole.greatest
    (5, 20, 4.0, 28.0, 1, 8)
    """
    parts = [part for part in parts if part.count]
    if not parts:
        return Partial()
    count = sum(part.count for part in parts)
    total = _sum([part.sum for part in parts])
    mean = float(total / count)
    squares = _sum([part.squares + part.count * (part.mean - mean) * (part.mean - mean) for part in parts])
    least = min((part.least for part in parts), key=_nan_last)
    greatest = max((part.greatest for part in parts), key=_nan_last)
    return Partial(count, total, mean, float(squares), least, greatest)


class PartialWindow:
    """Count, sum, mean, variance and extremes of a window of basic windows.

    >>> window = PartialWindow(basic_windows=2)
    >>> for basic_window in ([100, 200], [2, 4], [6]):
    ...     window.append(basic_window)
    ...     window.attach()
    >>> window.sum(), window.mean(), window.variance(), window.greatest()
    (12, 4.0, 2.6666666666666665, 6)
    """

    def __init__(self, basic_windows: int, type: str = "int64") -> None:
        known(type, _CODES, "type of numbers")
        if basic_windows < 1:
            raise IndexingError(f"a window has at least one basic window, got {basic_windows}")
        self._codes = _CODES[type]()
        self._attached: deque[Partial] = deque(maxlen=basic_windows)
        self._filling = Partial()

    def append(self, values: Values) -> None:
        """Put values into the basic window that fills."""
        numbers = self._codes.decode(self._codes.encode(values))
        self._filling = combine([self._filling, Partial.of(numbers)])

    def attach(self, count: int = 1) -> None:
        """Make the filling basic window the newest, then `count` - 1 empty ones; as many of the oldest leave."""
        if count < 0:
            raise IndexingError(f"the number of basic windows to attach must be 0 or more, got {count}")
        for _ in range(min(count, (self._attached.maxlen or 0) + 1)):
            self._attached.append(self._filling)
            self._filling = Partial()

    def whole(self) -> Partial:
        """The partial of the window."""
        return combine(list(self._attached))

    def count(self) -> int:
        """How many tuples there are."""
        return self.whole().count

    def sum(self) -> Any:
        """The sum, exact for integers; None for an empty window."""
        whole = self.whole()
        return whole.sum if whole.count else None

    def mean(self) -> float | None:
        """The mean, None for an empty window."""
        whole = self.whole()
        return whole.mean if whole.count else None

    def variance(self, sample: bool = False) -> float | None:
        """The variance of the window, or of the population that it samples; None for too few tuples."""
        whole = self.whole()
        return whole.squares / (whole.count - sample) if whole.count > sample else None

    def least(self) -> Any:
        """The least value, None for an empty window."""
        return self.whole().least

    def greatest(self) -> Any:
        """The greatest value, where NaN is above all; None for an empty window."""
        return self.whole().greatest


def _exact_sum(values: npt.NDArray[Any]) -> int:
    """The sum of integers, added up in halves so that nothing overflows."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _sum(numbers: list[Any]) -> Any:
    """Exact for integers, rounded once for doubles; NaN, infinities and sums beyond a double as they add up."""
    if all(isinstance(number, int) for number in numbers):
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):
        return sum(numbers)


def _nan_last(value: Any) -> tuple[bool, Any]:
    is_nan = value != value
    return is_nan, 0 if is_nan else value
