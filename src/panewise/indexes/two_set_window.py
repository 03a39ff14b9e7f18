"""Two windows over one index whose nodes hold two counts: which values both have (Indexing, section 6.2)."""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints
from panewise.errors import IndexingError
from panewise.indexes.counted import CountedOptions, CountedWindows
from panewise.indexes.set_window import Histogram
from panewise.indexes.values import Values


class Intersection(NamedTuple):
    """Values of two windows, in order, and how often each window has them; with a G-INDEX, `values` are `Ranges`."""

    values: Values
    left: Ints
    right: Ints


class TwoSetWindow:
    """The values of two windows, side 0 and side 1, in one index.

    The sides may have different numbers of basic windows, and attach them independently. `options` are those of
    `SetWindow`.

    >>> both = TwoSetWindow(basic_windows=(2, 1))
    >>> both.append(0, [1, 2, 2, 7]); both.attach(0)
    >>> both.append(1, [2, 7, 7, 9]); both.attach(1)
    >>> both.intersection()
    Intersection(values=array([2, 7]), left=array([2, 1]), right=array([1, 2]))
    """

    def __init__(self, basic_windows: tuple[int, int], type: str = "int64", **options: Unpack[CountedOptions]) -> None:
        if len(basic_windows) != 2:
            raise IndexingError(f"two windows have two numbers of basic windows, got {len(basic_windows)}")
        self._windows = CountedWindows(list(basic_windows), type, **options)

    def append(self, side: int, values: Values) -> None:
        """Put values into the basic window of a side that fills."""
        self._windows.append(_side(side), values)

    def attach(self, side: int, count: int = 1) -> None:
        """Make the filling basic window of a side its newest, then `count` - 1 empty ones."""
        self._windows.attach(_side(side), count)

    def purge(self) -> None:
        """Take out values that no longer occur, now rather than at the next due purge."""
        self._windows.purge()

    def intersection(self) -> Intersection:
        """The values, or ranges, that both windows have. Cost: the index's histogram.

        Two windows that share a range need not share a value: with a G-INDEX the answer is a superset.
        """
        codes, counts = self._windows.table()
        return self._chosen(codes, counts, (counts[0] > 0) & (counts[1] > 0))

    def union(self) -> Intersection:
        """The values, or ranges, that some window has. Cost: the index's histogram."""
        codes, counts = self._windows.table()
        return self._chosen(codes, counts, (counts[0] > 0) | (counts[1] > 0))

    def difference(self) -> Intersection:
        """The values, or ranges, that the first window has and the second has not. Cost: the index's histogram."""
        codes, counts = self._windows.table()
        return self._chosen(codes, counts, (counts[0] > 0) & (counts[1] == 0))

    def _chosen(self, codes: Ints, counts: Ints, chosen: npt.NDArray[np.bool_]) -> Intersection:
        return Intersection(self._windows.codes.decode(codes[chosen]), counts[0][chosen], counts[1][chosen])

    def histogram(self, side: int) -> Histogram:
        """The values of one window in order, and how often each occurs."""
        codes, counts = self._windows.table()
        is_present = counts[_side(side)] > 0
        return Histogram(self._windows.codes.decode(codes[is_present]), counts[side][is_present])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._windows.nbytes

    def statistics(self, side: int = 0) -> dict[str, int]:
        """What one window and the index hold."""
        return self._windows.statistics(_side(side))

    def check_invariants(self) -> None:
        """Raise AssertionError if the windows are not what they should be."""
        self._windows.check_invariants()


def _side(side: int) -> int:
    if side not in (0, 1):
        raise IndexingError(f"a side is 0 or 1, got {side}")
    return side
