"""Kept multisets: the values of each key in one moving window, in order, so that any rank of them is found at once.

Invariant: the pairs of a key rise, each item once, and their counts are those of the rows that the window covers.
Cost: a row that enters or leaves costs the pairs of its key, but in one sweep over memory, where a fold of rows would
look for them in every run. Space: about one and a half pairs of words for each different value of a key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints, Numbers
from panewise.engine.rows import Multisets
from panewise.engine.tables import ColumnTable
from panewise.kernels.kept_multisets import merge_into, take_from
from panewise.kernels.multisets import gather_runs
from panewise.kernels.ordering import order_words


class KeptMultisets:
    """The multisets of all keys."""

    def __init__(self, keys: int, dtype: npt.DTypeLike) -> None:
        nothing = np.empty(0, np.int64)
        self._places = np.zeros((3, keys), np.int64)
        """Of each key, where its pairs begin, how many there are, and room for how many."""
        self._held = Multisets(np.empty(0, dtype), nothing, nothing)
        self._strings: ColumnTable | None = None
        """What the items stand for, if they are strings."""
        self._end = 0

    @property
    def nbytes(self) -> int:
        """The memory of all pairs."""
        return self._held.items.nbytes + self._held.counts.nbytes + self._places.nbytes

    def cover(self, keys: int) -> None:
        """Have room for so many keys."""
        missing = keys - self._places.shape[1]
        self._places = np.concatenate([self._places, np.zeros((3, missing), np.int64)], axis=1)

    def renumber(self, used: Ints) -> None:
        """Keep some keys, which get the numbers of their places."""
        self._places = self._places[:, used]

    def clear(self) -> None:
        """Forget everything."""
        self._places[:] = 0
        self._end = 0

    def change(self, keys: Numbers, rows: Multisets, sign: int) -> None:
        """Take in the multisets of some rows, or take them off; `keys` are those of the rows."""
        self._strings = rows.strings
        order = order_words(keys.astype(np.int64), self._places.shape[1])
        ordered = keys[order].astype(np.int64)
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        merged, different = rows.take(order).merged(np.append(starts, len(order))), ordered[starts]
        if sign < 0:
            held = self._held
            take_from(different, merged.items, merged.counts, merged.offsets, self._places, held.items, held.counts)
            return
        done = 0
        while done < len(different):
            held = self._held
            done, self._end = merge_into(
                different, merged.items, merged.counts, merged.offsets, done,
                self._places, held.items, held.counts, self._end,
            )  # fmt: skip
            if done < len(different):
                self._make_room(2 * (int(self._places[1, different].max()) + len(merged.items)))

    def of(self, keys: Ints) -> tuple[Multisets, Ints, Ints]:
        """The multisets of some keys, as ranges of others."""
        begins = self._places[0, keys]
        offsets = np.stack([begins, begins + self._places[1, keys]], axis=1).ravel()
        low = 2 * np.arange(len(keys))
        return Multisets(self._held.items, self._held.counts, offsets, self._strings), low, low + 1

    def check_equal(self, other: KeptMultisets, keys: Ints) -> None:
        """Assert that other multisets of some keys are the same."""
        for mine, its in zip(self._pairs(keys), other._pairs(keys), strict=True):
            assert np.array_equal(mine, its, equal_nan=mine.dtype == np.float64)

    def _pairs(self, keys: Ints) -> tuple[npt.NDArray[Any], Ints, Ints]:
        every, low, _ = self.of(keys)
        return gather_runs(every.items, every.counts, every.offsets, low)

    def _make_room(self, more: int) -> None:
        """Lay out all pairs again, end to end, with room behind them."""
        items, counts, bounds = self._pairs(np.arange(self._places.shape[1]))
        self._places[0], self._places[2] = bounds[:-1], self._places[1]
        self._end = len(items)
        room = more + len(items) // 4
        self._held = Multisets(
            np.append(items, np.zeros(room, items.dtype)), np.append(counts, np.zeros(room, np.int64)), bounds[:0]
        )
