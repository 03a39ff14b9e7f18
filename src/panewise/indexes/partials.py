"""Aggregates of a window from one partial for each basic window, without a look at tuples (Indexing, section 3.2).

Invariant: there is a partial for each attached basic window, and one for the filling one.
Cost: O(1) per tuple, O(n) per answer for n basic windows. Space: n partials. Needs: numbers.

The paper counts variance among the operators that must probe the entire window. That is not necessary: the variance
follows from the count, the sum and the sum of squares, if those have all the digits that cancel. Sums of integers are
exact; those of doubles are kept as `kernels.pairs` and `kernels.squares` describe. Each answer folds the partials
again, so doubles keep no error of basic windows that have left, and a NaN leaves with its basic window.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.errors import IndexingError
from panewise.indexes.values import DoubleCodes, IntegerCodes, ValueCodes, Values, known
from panewise.kernels.folding import fold_squares, fold_sum_pairs
from panewise.kernels.integer_squares import squares_in_words
from panewise.kernels.pairs import value_of_pair
from panewise.kernels.squares import squares_of, variance

_CODES: dict[str, type[ValueCodes]] = {"int64": IntegerCodes, "float64": DoubleCodes}


@dataclass(frozen=True)
class Partial:
    """What the tuples of a basic window leave behind. Sums of integers are Python's, those of doubles are pairs."""

    count: int = 0
    sum: Any = 0
    """An integer, or a pair as in `kernels.pairs`."""
    squares: Any = 0
    """The sum of squares: an integer, or as `kernels.squares` keeps it."""
    least: Any = None
    greatest: Any = None

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Partial:
        """The partial of values; NaN is above all."""
        if len(values) == 0:
            return cls()
        total: Any
        squares: Any
        if values.dtype.kind == "f":
            total, squares = _fold_pairs(values, np.zeros(len(values))), squares_of(values)
        else:
            total, squares = _exact_sum(values), _exact_squares(values)
        ordered = np.sort(values)
        return cls(len(values), total, squares, ordered[0].item(), ordered[-1].item())

    def divided_sum(self, divisor: int) -> Any:
        """The sum, or what it is divided by a number from 2 on: the mean where that is the count."""
        if isinstance(self.sum, int):
            return self.sum if divisor == 1 else self.sum / divisor
        high, low = self.sum
        return float(value_of_pair(high, low, float(divisor)))

    def variance(self, sample: bool) -> float:
        """The variance of more than `sample` values. NaN where one is NaN or infinite."""
        if isinstance(self.sum, int):
            difference: int = self.count * self.squares - self.sum**2
            return difference / (self.count * (self.count - sample))
        (total, rest), (high, low, rest_high, rest_low) = self.sum, self.squares
        return float(variance(self.count, total, rest, high, low, rest_high, rest_low, int(sample), False))


def combine(parts: list[Partial]) -> Partial:
    """Combine partials into the partial of the whole.

    >>> whole = combine([Partial.of(np.array([1, 5])), Partial.of(np.array([3, 3, 8]))])
    >>> whole.count, whole.sum, whole.squares, whole.least, whole.greatest
    (5, 20, 108, 1, 8)
    """
    parts = [part for part in parts if part.count]
    if not parts:
        return Partial()
    count = sum(part.count for part in parts)
    if isinstance(parts[0].sum, int):
        total: Any = sum(part.sum for part in parts)
        squares: Any = sum(part.squares for part in parts)
    else:
        total = _fold_pairs(*np.array([part.sum for part in parts]).T.copy())
        columns = tuple(np.array([part.squares for part in parts]).T.copy())
        squares = tuple(column[0] for column in fold_squares(columns, *_all_of(len(parts))))
    least = min((part.least for part in parts), key=_nan_last)
    greatest = max((part.greatest for part in parts), key=_nan_last)
    return Partial(count, total, squares, least, greatest)


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
        return whole.divided_sum(1) if whole.count else None

    def mean(self) -> float | None:
        """The mean, None for an empty window."""
        whole = self.whole()
        return float(whole.divided_sum(whole.count)) if whole.count else None

    def variance(self, sample: bool = False) -> float | None:
        """The variance of the window, or of the population that it samples; None for too few tuples."""
        whole = self.whole()
        return whole.variance(sample) if whole.count > sample else None

    def least(self) -> Any:
        """The least value, None for an empty window."""
        return self.whole().least

    def greatest(self) -> Any:
        """The greatest value, where NaN is above all; None for an empty window."""
        return self.whole().greatest


def _exact_sum(values: npt.NDArray[Any]) -> int:
    """The sum of integers, added up in halves so that nothing overflows."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _exact_squares(values: npt.NDArray[Any]) -> int:
    """The sum of the squares of integers, added up in words so that nothing overflows."""
    return sum(int(word.sum()) << (32 * place) for place, word in enumerate(squares_in_words(values)))


def _fold_pairs(high: npt.NDArray[np.float64], low: npt.NDArray[np.float64]) -> tuple[float, float]:
    sum_high, sum_low = fold_sum_pairs(high, low, *_all_of(len(high)))
    return float(sum_high[0]), float(sum_low[0])


def _all_of(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One range over all of so many places."""
    return np.array([0]), np.array([count])


def _nan_last(value: Any) -> tuple[bool, Any]:
    is_nan = value != value
    return is_nan, 0 if is_nan else value
