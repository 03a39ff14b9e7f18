"""A window that answers set-valued questions: histogram, quantiles, distinct values, mode, top k (Indexing, section 4).

Counts follow the basic windows, so an answer reads the index, never the tuples: O(D), or O(g) for ranges.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Unpack

import numpy as np

from panewise.aggregates.lowering import quantile_ranks
from panewise.arrays import Ints
from panewise.errors import IndexingError
from panewise.indexes.counted import CountedOptions, CountedWindows
from panewise.indexes.values import Values


class Histogram(NamedTuple):
    """Values in order and how often each occurs; with a G-INDEX, `values` are `Ranges`."""

    values: Values
    counts: Ints


class SetWindow:
    """The values of a window of basic windows, and how often each occurs.

    Tuples go to a separate basic window that fills; `attach` makes it the newest and lets the oldest leave. Answers
    cover the attached basic windows. With `index="g_index"` values are known by ranges of `group_width`, and answers
    are ranges.

    `options` are `CountedOptions`: `storage` ("list"), `index` ("t_index"), `purge` ("periodic"), `group_width`,
    `storage_buckets` for storage hash, `index_buckets` for h_index, `purges_per_roll_over`.

    >>> window = SetWindow(basic_windows=2, type="int64")
    >>> for basic_window in ([5, 3, 5], [1, 5], [3, 3]):
    ...     window.append(basic_window)
    ...     window.attach()
    >>> window.histogram()
    Histogram(values=array([1, 3, 5]), counts=array([1, 2, 1]))
    >>> window.median(), window.mode(), window.distinct()
    (3, 3, 3)
    """

    def __init__(self, basic_windows: int, type: str = "int64", **options: Unpack[CountedOptions]) -> None:
        self._windows = CountedWindows([basic_windows], type, **options)
        self._is_exact = options.get("group_width") is None

    def append(self, values: Values) -> None:
        """Put values into the basic window that fills. Cost: the storage's insert, and finding new values."""
        self._windows.append(0, values)

    def attach(self, count: int = 1) -> None:
        """Make the filling basic window the newest, then `count` - 1 empty ones; as many of the oldest leave.

        Cost: the entries of the basic windows that come and go.
        """
        self._windows.attach(0, count)

    def purge(self) -> None:
        """Take out values that no longer occur, now rather than at the next due purge."""
        self._windows.purge()

    def histogram(self) -> Histogram:
        """The values in order, and how often each occurs. Cost: the index's histogram."""
        codes, counts = self._table()
        return Histogram(self._windows.codes.decode(codes), counts)

    def quantile(self, phi: float) -> Any:
        """The value at position max(1, floor(phi n)) of the sorted window, None for an empty one.

        phi counts as the decimal number that was written. With ranges, the answer is the (low, high) of that position.
        """
        if not 0 < phi <= 1:
            raise IndexingError(f"phi must be above 0 and at most 1, got {phi}")
        return self._at(int(quantile_ranks(np.array([self.tuples]), phi)[0]))

    def median(self) -> Any:
        """The middle value, the lower one of two; None for an empty window."""
        return self._at((self.tuples + 1) // 2)

    def distinct(self) -> int:
        """How many values there are. Cost: O(1)."""
        if not self._is_exact:
            raise IndexingError(
                "g_index knows ranges, not values; count distinct values with l_index, t_index or h_index"
            )
        return self._windows.index.present(0)

    def mode(self) -> Any:
        """The value that occurs most, the smallest of several; None for an empty window."""
        codes, counts = self._table()
        return self._one(codes[np.argmax(counts)]) if len(codes) else None

    def top_k(self, k: int) -> Histogram:
        """The k values that occur most, the most frequent first, ties by value."""
        if k < 1:
            raise IndexingError(f"k must be at least 1, got {k}")
        codes, counts = self._table()
        order = np.argsort(-counts, kind="stable")[:k]
        return Histogram(self._windows.codes.decode(codes[order]), counts[order])

    @property
    def tuples(self) -> int:
        """How many tuples the window has."""
        return self._windows.storages[0].array.tuples

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._windows.nbytes

    def statistics(self) -> dict[str, int]:
        """What is held: basic windows, tuples, filling tuples, entries, distinct values, nodes, zero nodes, purges."""
        return self._windows.statistics(0)

    def check_invariants(self) -> None:
        """Raise AssertionError if the window is not what it should be."""
        self._windows.check_invariants()

    def _table(self) -> tuple[Ints, Ints]:
        codes, counts = self._windows.table()
        return codes, counts[0]

    def _at(self, position: int) -> Any:
        """The value at a 1-based position of the sorted window."""
        if self.tuples == 0:
            return None
        codes, counts = self._table()
        return self._one(codes[np.searchsorted(np.cumsum(counts), position)])

    def _one(self, code: np.int64) -> Any:
        value = self._windows.codes.decode(np.array([code]))
        if not self._is_exact:
            return value.low[0].item(), value.high[0].item()
        return value[0].as_py() if hasattr(value[0], "as_py") else value[0].item()
