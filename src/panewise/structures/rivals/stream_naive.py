"""The naive approach of STREAM (TR1536, section 2): a queue and an answer for each query, evaluated at every arrival.

Invariant: each query has a queue of all elements in its window, and its answer over them.
Cost: update windows (each queue takes the element), lookup 1, space the sum of all windows.
Needs: a count, sum, mean, minimum or maximum. Source: TR1536, section 2.

Nothing is shared. It is the baseline for the measurements of TimeGram and OrderedSharing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE, Making
from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.errors import StructureError, WindowError
from panewise.kernels.stream_naive import COUNT, MAX, MIN, SUM, arrive, moved
from panewise.structures.arguments import LONGEST, checked_size, times_of
from panewise.structures.lifting import lift_values
from panewise.structures.sheet import Cost, DataSheet, Described, Lookups

Elements = npt.NDArray[Any]
Answers = np.ma.MaskedArray[Any, np.dtype[Any]]

PIECE = 4_096
"""Queues of time grow by at least this many elements, and a batch is taken in by pieces of this size."""

_FOLDS = {Kind.ROWS: COUNT, Kind.COUNT: COUNT, Kind.SUM_INT: SUM, Kind.MAX: MAX, Kind.MIN: MIN}
"""What the kernel folds for each component."""


class StreamNaive(Described):
    """COUNT, SUM, AVG, MAX or MIN over windows of the newest elements, or (`timed`) of the newest microseconds.

    Each query is one entry of `windows`, equal ones too. A query that is added later begins with an empty queue.

    >>> naive = StreamNaive("AVG", windows=[2, 3])
    >>> naive.update([4, 1, 2, 6])
    >>> naive.lookup([2, 3]).tolist()
    [4.0, 3.0]
    """

    sheet: ClassVar[DataSheet] = DataSheet(
        name="stream_naive",
        title="STREAM, naive",
        source="TR1536, 2",
        kinds=frozenset({Kind.ROWS, Kind.COUNT, Kind.SUM_INT, Kind.SUM_FLOAT, Kind.MIN, Kind.MAX}),
        needs_inverse=False,
        lookups=Lookups.REGISTERED,
        update=Cost("windows", lambda shape: float(shape.windows)),
        lookup=Cost("1", lambda shape: 1.0),
        space=Cost("the sum of all windows", lambda shape: float(shape.windows * shape.width)),
        takes_user_aggregates=False,
        makings=frozenset({Making.FOLD, Making.MEAN}),
    )

    def __init__(
        self, aggregate: str, windows: Iterable[int] = (), *, timed: bool = False, type: Type | None = None
    ) -> None:
        self.aggregate = aggregate.upper()
        entry = CATALOGUE.get(self.aggregate)
        kind = None if entry is None else entry.component()
        if entry is None or kind not in _FOLDS:
            raise StructureError(f"stream_naive answers COUNT, SUM, AVG, MAX and MIN, not {aggregate}")
        self._fold, self._is_mean = _FOLDS[kind], entry.making is Making.MEAN
        self.is_timed = timed
        self.length = 0
        """m: how many elements have come."""
        self._sizes = np.array([checked_size(size) for size in windows], np.int64)
        self._type: Type | None = None
        self._now_us = -LONGEST
        self._greatest = 0.0
        if type is not None:
            self._open(type)

    @property
    def windows(self) -> list[int]:
        """The size of each query's window, in the order in which they were added."""
        return [int(size) for size in self._sizes]

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return 0 if self._type is None else self._pool.nbytes + self._time_pool.nbytes

    def update(self, values: npt.ArrayLike | pa.Array, times: npt.ArrayLike | None = None) -> None:
        """Append elements, with their times if timed, evaluating every query at each. O(windows) an element."""
        self._arrive(values, times, is_asked=False)

    def answers_at_every_event(self, values: npt.ArrayLike | pa.Array, times: npt.ArrayLike | None = None) -> Answers:
        """Append elements; row q of the answers has the answers of query q, element by element."""
        return self._arrive(values, times, is_asked=True)

    def lookup(self, widths: npt.ArrayLike, at_us: int | None = None) -> Answers:
        """The newest answers of queries with these windows; masked where a window is empty, except for COUNT.

        For windows of time, `at_us` must be the newest time: answers come with arrivals only.
        """
        if at_us is not None and at_us != self._now_us:
            raise StructureError(
                f"stream_naive evaluates at arrivals only, and the newest came at {self._now_us}, not at {at_us}"
            )
        wanted = np.atleast_1d(np.asarray(widths, np.int64))
        order = np.argsort(self._sizes, kind="stable")
        at = np.searchsorted(self._sizes, wanted, sorter=order)
        missing = np.flatnonzero(~np.isin(wanted, self._sizes))
        if len(missing):
            raise WindowError(f"window {wanted[missing[0]]} was not added, and stream_naive answers no others")
        queries = order[at]
        if self._type is None:
            return self._lowered(
                np.zeros(len(wanted), np.int64), np.zeros(len(wanted)), np.zeros(len(wanted), np.int64)
            )
        return self._lowered(self._answers[queries], self._rests[queries], self._counts[queries])

    def add_window(self, size: int) -> None:
        """Serve one more query; its queue is empty at first."""
        kept = np.arange(len(self._sizes))
        self._sizes = np.append(self._sizes, checked_size(size))
        self._arrange(kept)

    def remove_window(self, size: int) -> None:
        """Serve one query less."""
        found = np.flatnonzero(self._sizes == size)
        if not len(found):
            raise WindowError(f"window {size} was not added; there are {len(self._sizes)} others")
        kept = np.delete(np.arange(len(self._sizes)), found[0])
        self._sizes = self._sizes[kept]
        self._arrange(kept)

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        if self._type is None:
            return
        rooms = np.diff(self._offsets)
        assert len(rooms) == len(self._sizes) == len(self._counts) == len(self._answers)
        assert np.all((self._counts >= 0) & (self._counts <= rooms) & (self._heads >= 0) & (self._heads < rooms))
        for q, size in enumerate(self._sizes):
            queue = self._queue(q, self._pool)
            assert self.is_timed or len(queue) <= size
            if self.is_timed:
                times = self._queue(q, self._time_pool)
                assert np.all(np.diff(times) >= 0)
            if len(queue) and self._fold in (MAX, MIN):
                assert self._answers[q] == (queue.max() if self._fold == MAX else queue.min())

    def _open(self, type: Type) -> None:
        if type not in (Type.BIGINT, Type.DOUBLE):
            raise StructureError(f"stream_naive takes BIGINT and DOUBLE values, not {type}")
        self._type = type
        number = np.dtype(np.float64 if type is Type.DOUBLE else np.int64)
        self._heads, self._counts, self._offsets = np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64)
        self._answers, self._rests = np.empty(0, number), np.empty(0)
        self._pool, self._time_pool = np.empty(0, number), np.empty(0, np.int64)
        self._arrange(np.empty(0, np.int64))

    def _arrange(self, kept: Ints, coming: int = 0) -> None:
        """Lay out the queues for the current windows; `kept` are the old queues that go on, the others are new."""
        if self._type is None:
            return
        old_rooms, counts = np.diff(self._offsets)[kept], self._counts[kept]
        new = len(self._sizes) - len(kept)
        rooms = self._sizes
        if self.is_timed:
            grown = np.where(counts + coming > old_rooms, 2 * counts + coming, old_rooms)
            rooms = np.append(grown, np.full(new, max(coming, 16)))
        offsets = np.concatenate([[0], np.cumsum(rooms)]).astype(np.int64)
        old_offsets = self._offsets
        for name in ("_pool", "_time_pool"):
            array = getattr(self, name)
            size = offsets[-1] if name == "_pool" or self.is_timed else 0
            moved_array = np.zeros(size, array.dtype)
            if size:
                for place, q in enumerate(kept):
                    ends = slice(place, place + 2)
                    moved(
                        old_offsets[q : q + 2], offsets[ends], self._heads[q : q + 1], self._counts[q : q + 1], array,
                        moved_array,
                    )  # fmt: skip
            setattr(self, name, moved_array)
        self._offsets = offsets
        nothing = np.zeros(new, np.int64)
        self._heads, self._counts = np.zeros(len(self._sizes), np.int64), np.append(counts, nothing)
        self._answers = np.append(self._answers[kept], nothing.astype(self._answers.dtype))
        self._rests = np.append(self._rests[kept], np.zeros(new))

    def _arrive(self, values: npt.ArrayLike | pa.Array, times: npt.ArrayLike | None, *, is_asked: bool) -> Answers:
        lifted = lift_values(values, self._type, self.aggregate)
        if lifted.valid is not None:
            raise StructureError("stream_naive takes no NULLs; leave them out, or give them a value")
        if lifted.type is Type.DOUBLE and not np.all(np.isfinite(lifted.values)):
            raise StructureError("stream_naive takes finite values only, and one is a NaN or an infinity; leave it out")
        when = self._checked_times(times, len(lifted))
        if lifted.type is Type.BIGINT and self._fold == SUM and len(self._sizes):
            greatest, most = max(self._greatest, lifted.greatest()), self.length + len(lifted)
            if greatest * (most if self.is_timed else min(most, int(self._sizes.max()))) >= 2**63:
                raise StructureError("a sum of these values may not fit in 64 bits; give doubles")
            self._greatest = greatest
        if self._type is None:
            self._open(lifted.type)
        shape = (len(self._sizes), len(lifted)) if is_asked else (0, 0)
        out, out_counts = np.zeros(shape, self._answers.dtype), np.zeros(shape, np.int64)
        rests = np.zeros(shape)
        for start in range(0, len(lifted), PIECE):
            piece = slice(start, start + PIECE)
            if self.is_timed and np.any(self._counts + PIECE > np.diff(self._offsets)):
                self._arrange(np.arange(len(self._sizes)), PIECE)
            arrive(
                self._fold, lifted.values[piece], when[piece], self._sizes, self._offsets, self._pool,
                self._time_pool, self._heads, self._counts, self._answers, self._rests, out[:, piece],
                out_counts[:, piece],
            )  # fmt: skip
        self.length += len(lifted)
        if len(when):
            self._now_us = int(when[-1])
        return self._lowered(out, rests, out_counts)

    def _lowered(self, totals: Elements, rests: Elements, counts: Ints) -> Answers:
        if self._fold == COUNT:
            return np.ma.MaskedArray(counts, np.ma.nomask)
        answers = totals + rests if self._type is Type.DOUBLE and self._fold == SUM else totals
        if self._is_mean:
            answers = answers / np.maximum(counts, 1)
        return np.ma.MaskedArray(answers, counts == 0)

    def _checked_times(self, times: npt.ArrayLike | None, count: int) -> Ints:
        if not self.is_timed:
            if times is not None:
                raise StructureError("these windows are of elements; give no times, or build with timed=True")
            return np.empty(0, np.int64)
        return times_of(times, count, self._now_us)

    def _queue(self, q: int, pool: Elements) -> Elements:
        room = self._offsets[q + 1] - self._offsets[q]
        places = (self._heads[q] + np.arange(self._counts[q])) % room
        found: Elements = pool[self._offsets[q] + places]
        return found
