"""Ranges of the value for ORDER BY without LIMIT: each place puts one range of every window in order.

Where events are read, a few evenly spaced keys of each slot go to every bucket: a sketch. So when a window closes, all
buckets know the same ranges, without asking each other: those that split the keys of its slots evenly. The ranges of
each window are its own, and move with the data. A bucket sends its rows to the places of their ranges, and to each
place how many of its rows lie in the ranges before: the sum over all buckets comes before the first row there.

Invariant: the sketch has every slot that some window to come covers, and is the same in all buckets.
Cost: a window costs a sort of its sketch and a search for each row. A place has about rows / places of a window; more
where one value alone has more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.windowed.histogram import COUNT
from panewise.engine.windowed.sorted_window import KEY
from panewise.engine.windowed.values import indexed
from panewise.language.row_queries import SortedQuery
from panewise.spark.tuple_bases import HeadBase
from panewise.windows.slots import lengths_of

BEFORE, TOTAL = "before", "total"
"""Of a window, how many rows of a bucket lie before those of a place, and how many it has."""


class Share(NamedTuple):
    """Rows for a place, and how many rows the bucket has before them, by window."""

    part: int
    rows: pa.Table
    before: pa.RecordBatch


class RangeSketch:
    """The sketch of one base in one bucket, for so many places."""

    def __init__(self, base: HeadBase, places: int) -> None:
        self._base = base
        self._places = places
        self._slots: dict[int, list[tuple[npt.NDArray[np.generic], Ints]]] = {}
        """Keys and how many events each stands for, by the beginning of the slot."""

    def count(self, sketch: pa.RecordBatch) -> None:
        """Take in keys of some slots."""
        times = self._base.times(sketch)
        keys, counts = comparable(sketch.column(KEY)), np.asarray(sketch.column(COUNT))
        for start_us in np.unique(times).tolist():
            here = times == start_us
            self._slots.setdefault(start_us, []).append((keys[here], counts[here]))

    def settle(self, closed_us: int) -> None:
        """Forget slots that no window covers which ends after a time."""
        kept_us = self._base.kept_us
        self._slots = {start: some for start, some in self._slots.items() if start + kept_us > closed_us}

    def split(self, query: SortedQuery, rows: pa.Table) -> Iterator[Share]:
        """The rows of some windows, by the places that put them in order."""
        length_us, slide_us = lengths_of(query.window)
        ends = np.asarray(rows.column("window_end").cast(pa.int64()))
        keys = rows.column(str(list(self._base.attributes).index(query.by))).combine_chunks()
        has_key = np.asarray(keys.is_valid())
        compared = comparable(keys.drop_null())
        behind = np.cumsum(has_key) - has_key
        windows, which = np.unique(ends, return_inverse=True)
        ranges = np.zeros(len(ends), np.int64)
        for number, end_us in enumerate(windows.tolist()):
            here = np.flatnonzero((which == number) & has_key)
            bounds = self._bounds(end_us - length_us, end_us)
            ranges[here] = np.searchsorted(bounds, compared[behind[here]], side="right")
        if query.descending:
            # In the order of the rows; NULL comes last.
            ranges = self._places - 1 - ranges
            ranges[~has_key] = self._places - 1
        parts = (windows[which] // slide_us + ranges) % self._places
        counts = np.zeros((len(windows), self._places + 1), np.int64)
        np.add.at(counts, (which, ranges + 1), 1)
        before = np.cumsum(counts, axis=1)
        for part in range(self._places):
            own = (part - windows // slide_us) % self._places
            told = pa.record_batch(
                {"window_end": windows, BEFORE: before[np.arange(len(windows)), own], TOTAL: before[:, -1]}
            )
            yield Share(part, rows.filter(pa.array(parts == part)), told)

    def _bounds(self, start_us: int, end_us: int) -> npt.NDArray[np.generic]:
        """Where ranges begin that split the keys from one time to another evenly, but for the first range."""
        some = [each for start, found in self._slots.items() if start_us <= start < end_us for each in found]
        if not some:
            return np.empty(0, np.int64)
        keys, counts = (np.concatenate(arrays) for arrays in zip(*some, strict=True))
        order = np.argsort(keys, kind="stable")
        passed = np.cumsum(counts[order])
        wanted = np.arange(1, self._places) * int(passed[-1]) // self._places
        bounds: npt.NDArray[np.generic] = keys[order][np.searchsorted(passed, wanted, side="right")]
        return bounds


def comparable(keys: pa.Array) -> npt.NDArray[np.generic]:
    """Keys without NULL in a form whose order is that of ORDER BY: strings by their bytes, NaN above all numbers."""
    if pa.types.is_string(keys.type):
        found = np.empty(len(keys), object)
        found[:] = keys.cast(pa.binary()).to_pylist()
        return found
    return np.asarray(keys.cast(pa.int64()) if pa.types.is_timestamp(keys.type) else indexed(keys))
