"""OrderedSharing (TR1536, section 6): MAX or MIN over many windows, whose answers are in the order of their sizes.

Invariant: windows of neighbouring sizes with one answer are a run, and runs are in the order of sizes and of answers.
Cost: update log2 windows, lookup log2 windows (W / 64 where an answer is calculated again), space Nmax + windows.
Needs: MAX or MIN, and no NULLs. Source: TR1536, section 6.

A larger window's maximum is never below a smaller one's (property (2) of the report is <=, not <). So windows with
equal answers are neighbours, and a new element changes a run of the smallest ones. The report's search tree is an array
here: a stack of runs, each with its answer and the position or time of the element that holds it. An answer is valid
while that element lies in the window; the report compares the time of the calculation, which is wrong. When it has
left, the window and all smaller ones are calculated again from the elements held.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import log2
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE, Making
from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.arrays import Ints
from panewise.errors import HistoryError, StructureError
from panewise.kernels.ordered_sharing import BLOCK, ELEMENTS_READ, HEIGHT, RECALCULATIONS, UNKNOWN, close_blocks, replay
from panewise.kernels.time_index import positions_after
from panewise.structures.arguments import LONGEST, checked_size, times_of
from panewise.structures.column import Windows
from panewise.structures.lifting import lift_values
from panewise.structures.sheet import Cost, DataSheet, Described, Lookups, Shape
from panewise.structures.snapshot import pack, unpack_one

Elements = npt.NDArray[Any]
Answers = np.ma.MaskedArray[Any, np.dtype[Any]]

PIECE = 8_192
"""A batch is taken in by pieces of at least this many elements."""


def _steps(shape: Shape) -> float:
    return max(1.0, log2(max(shape.windows, 2)))


class ExtremesSheet(DataSheet):
    """A data sheet of a structure that serves MAX and MIN alone: not COUNT, although both contain a count, too."""

    def why_not(self, aggregate: str | UserAggregate, type: Type | None = None) -> str | None:
        """Why the structure cannot serve an aggregate of values of a type, or of all types; None when it can."""
        if isinstance(aggregate, str) and CATALOGUE[aggregate].only_counts:
            return f"{self.name} counts nothing, and cannot answer {aggregate}"
        return super().why_not(aggregate, type)


class OrderedSharing(Described):
    """MAX or MIN over windows of the newest elements, or (`timed`) of the newest microseconds.

    An update and the lookup of a valid answer take O(log windows). A window that was not added gets its answer from the
    next larger one if that window's element lies in it, otherwise by recalculation. NaN is above all numbers, NULLs are
    refused.

    >>> maxima = OrderedSharing("MAX", windows=[1, 4])
    >>> maxima.update([9, 1, 1, 1])
    >>> maxima.lookup([4, 1]).tolist()
    [9, 1]
    >>> maxima.update([1])
    >>> maxima.lookup([4]).tolist(), maxima.recalculations
    ([1], 2)
    """

    sheet: ClassVar[DataSheet] = ExtremesSheet(
        name="ordered_sharing",
        title="OrderedSharing",
        source="TR1536, 6",
        kinds=frozenset({Kind.COUNT, Kind.MIN, Kind.MAX}),
        needs_inverse=False,
        lookups=Lookups.WIDTHS,
        update=Cost("log2 windows", _steps),
        lookup=Cost("log2 windows, W / 64 to recalculate", _steps),
        space=Cost("Nmax + windows", lambda shape: float(shape.largest + shape.windows)),
        takes_user_aggregates=False,
        makings=frozenset({Making.FOLD}),
    )

    def __init__(
        self, aggregate: str, windows: Iterable[int] = (), *, timed: bool = False, type: Type | None = None
    ) -> None:
        self.aggregate = aggregate.upper()
        kind = CATALOGUE[self.aggregate].fold() if self.aggregate in CATALOGUE else None
        if kind not in (Kind.MAX, Kind.MIN):
            raise StructureError(f"ordered_sharing answers MAX and MIN, not {aggregate}: other answers are in no order")
        self._is_max = kind is Kind.MAX
        self.is_timed = timed
        self.length = 0
        """m: how many elements have come."""
        self.held_from = 0
        """The first position that is held."""
        self._windows = Windows((checked_size(size), 0) for size in windows)
        self._sizes = self._sorted_sizes()
        self._type: Type | None = None
        self._clock = 0
        self._forgotten = UNKNOWN
        self._base = self._end = 0
        self._state = np.zeros(3, np.int64)
        if type is not None:
            self._open(type)

    @property
    def windows(self) -> list[int]:
        """The sizes of its windows, in order; a size that was added twice stands there twice."""
        return [size for size, _ in self._windows.every]

    @property
    def largest(self) -> int:
        """The size of the largest window."""
        return int(self._sizes[-1]) if len(self._sizes) else 1

    @property
    def recalculations(self) -> int:
        """How often an answer had left its window and was calculated again, together with all smaller windows."""
        return int(self._state[RECALCULATIONS])

    @property
    def elements_read(self) -> int:
        """How many elements, or extremes of blocks of them, those recalculations read."""
        return int(self._state[ELEMENTS_READ])

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        if self._type is None:
            return 0
        return sum(
            array.nbytes
            for array in (self._values, self._times, self._blocks, self._sizes, self._ends, self._answers, self._stamps)
        )

    def update(self, values: npt.ArrayLike | pa.Array, times: npt.ArrayLike | None = None) -> None:
        """Append elements, with their times if timed. O(1) each, amortised; O(log windows) at most in the report."""
        self.replay(values, [], [], times)

    def lookup(self, widths: npt.ArrayLike, at_us: int | None = None) -> Answers:
        """The answers of windows of these sizes, of time up to `at_us`; masked where a window covers no element.

        O(log windows) while the answer is valid. After a lookup at some time, earlier times are gone.
        """
        if at_us is not None:
            if not self.is_timed:
                raise StructureError("windows of elements are looked up at the newest element only; give no time")
            if at_us < self._clock and self.length:
                raise HistoryError(f"a lookup at {at_us} comes too late: the clock stands at {self._clock}")
            self._clock = at_us
        empty = np.empty(0, np.float64 if self._type is Type.DOUBLE else np.int64)
        wanted = np.atleast_1d(np.asarray(widths, np.int64))
        # The largest first: one recalculation serves all smaller windows.
        order = np.argsort(-wanted, kind="stable")
        found = self.replay(empty, np.zeros(len(wanted), np.int64), wanted[order], empty.astype(np.int64))
        back = np.empty(len(wanted), np.int64)
        back[order] = np.arange(len(wanted))
        return found[back]

    def replay(
        self,
        values: npt.ArrayLike | pa.Array,
        after: npt.ArrayLike,
        widths: npt.ArrayLike,
        times: npt.ArrayLike | None = None,
    ) -> Answers:
        """Append elements, and answer window `widths[i]` when `after[i]` of them are in; `after` must not fall."""
        lifted = lift_values(values, self._type, self.aggregate)
        if lifted.valid is not None:
            raise StructureError("ordered_sharing takes no NULLs; leave them out, or give them a value")
        when = self._checked_times(times, len(lifted))
        places, sizes = np.atleast_1d(np.asarray(after, np.int64)), np.atleast_1d(np.asarray(widths, np.int64))
        self._check_lookups(places, sizes, when, len(lifted))
        if self._type is None:
            if not len(lifted):
                return np.ma.MaskedArray(np.zeros(len(sizes), np.int64), np.ones(len(sizes), np.bool_))
            self._open(lifted.type)
        parts: list[tuple[Elements, npt.NDArray[np.bool_]]] = []
        start = asked = 0
        while True:
            stop = min(start + max(PIECE, self.length - self.held_from), len(lifted))
            is_last = stop == len(lifted)
            until = len(places) if is_last else int(np.searchsorted(places, stop))
            parts.append(
                self._play(lifted.values[start:stop], when[start:stop], places[asked:until] - start, sizes[asked:until])
            )
            start, asked = stop, until
            if is_last:
                break
        answers, valid = (np.concatenate(side) for side in zip(*parts))
        return np.ma.MaskedArray(answers, np.ma.nomask if valid.all() else ~valid)

    def add_window(self, size: int) -> None:
        """Serve one more window; elements that have left do not come back. O(windows)."""
        self._windows.add((checked_size(size), 0))
        at = int(np.searchsorted(self._sizes, size))
        if at < len(self._sizes) and self._sizes[at] == size:
            return
        is_largest = at == len(self._sizes)
        self._sizes = self._sorted_sizes()
        if self._type is None:
            return
        # It joins the run of the next larger window, whose answer bounds its own; the largest window has no such run.
        ends, answers, stamps = self._runs()
        ends = ends + (ends >= at)
        if is_largest:
            ends, stamps = np.insert(ends, 0, at), np.insert(stamps, 0, UNKNOWN)
            answers = np.insert(answers, 0, self._unknown)
        self._set_runs(ends, answers, stamps)

    def remove_window(self, size: int) -> None:
        """Serve one window less. O(windows)."""
        self._windows.remove((size, 0))
        at = int(np.searchsorted(self._sizes, size))
        self._sizes = self._sorted_sizes()
        if at < len(self._sizes) and self._sizes[at] == size:
            return
        if self._type is not None:
            ends, answers, stamps = self._runs()
            ends = ends - (ends >= at)
            above = np.append(ends[1:], -1)
            kept = ends > above
            self._set_runs(ends[kept], answers[kept], stamps[kept])
            self._let_go()

    def runs(self) -> list[tuple[int, Any, int]]:
        """The runs, smallest windows first: each with its largest window, its answer, the place of what holds it.

        The place is a position, or a time. Runs that were never calculated, or cover nothing, are left out.
        """
        if self._type is None:
            return []
        ends, answers, stamps = self._runs()
        known = np.abs(stamps.astype(np.float64)) < LONGEST
        offset = 0 if self.is_timed else 1
        return [
            (int(self._sizes[end]), answer.item(), int(stamp) - offset)
            for end, answer, stamp in zip(ends[known][::-1], answers[known][::-1], stamps[known][::-1])
        ]

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        assert 0 <= self._base <= self.held_from <= self.length == self._base + self._end
        assert np.all(np.diff(self._sizes) > 0)
        if self._type is None:
            return
        ends, answers, _ = self._runs()
        assert len(ends) <= len(self._sizes)
        assert np.all(np.diff(ends) < 0)
        assert (len(ends) > 0) == (len(self._sizes) > 0)
        if len(ends):
            assert ends[0] == len(self._sizes) - 1
            assert ends[-1] >= 0
        # Larger windows are at least as extreme; NaN is above all numbers.
        key = [(answer != answer, answer) for answer in answers.tolist()]
        for larger, smaller in pairwise(key):
            low, high = (smaller, larger) if self._is_max else (larger, smaller)
            assert low[0] < high[0] or (low[0] == high[0] and (low[0] or low[1] <= high[1]))

    def snapshot(self) -> bytes:
        """The state as bytes; nothing is pickled."""
        header = {
            "structure": self.name,
            "aggregate": self.aggregate,
            "type": None if self._type is None else self._type.value,
            "timed": self.is_timed,
            "windows": self.windows,
            "places": [self.length, self.held_from, self._clock, self._forgotten],
        }
        arrays: dict[str, Elements] = {}
        if self._type is not None:
            held = slice(self.held_from - self._base, self._end)
            arrays = {"values": self._values[held], "state": self._state}
            arrays["times"] = self._times[held] if self.is_timed else self._times
            arrays["ends"], arrays["answers"], arrays["stamps"] = self._runs()
        return pack(header, arrays)

    @classmethod
    def restore(cls, blob: bytes) -> OrderedSharing:
        """The structure that a snapshot was taken of."""
        header, arrays = unpack_one(blob, cls.sheet.name)
        type = None if header["type"] is None else Type(header["type"])
        sharing = cls(header["aggregate"], header["windows"], timed=header["timed"], type=type)
        sharing.length, sharing.held_from, sharing._clock, sharing._forgotten = header["places"]
        sharing._base = sharing.held_from
        if type is not None:
            sharing._make_room(len(arrays["values"]))
            sharing._store(arrays["values"], arrays["times"])
            sharing._state[:] = arrays["state"]
            sharing._set_runs(arrays["ends"], arrays["answers"], arrays["stamps"])
        return sharing

    def _open(self, type: Type) -> None:
        self._type = type
        number: Any = np.float64 if type is Type.DOUBLE else np.int64
        top, bottom = (np.nan, -np.inf) if type is Type.DOUBLE else (2**63 - 1, -(2**63))
        self._unknown, self._lowest = (number(end) for end in ((top, bottom) if self._is_max else (bottom, top)))
        self._values, self._blocks = np.empty(0, number), np.empty(0, number)
        self._times = np.empty(0, np.int64)
        some = int(len(self._sizes) > 0)
        self._set_runs(
            np.full(some, len(self._sizes) - 1, np.int64),
            np.full(some, self._unknown),
            np.full(some, UNKNOWN, np.int64),
        )

    def _runs(self) -> tuple[Ints, Elements, Ints]:
        """The runs, the largest windows first."""
        height = int(self._state[HEIGHT])
        return self._ends[:height], self._answers[:height], self._stamps[:height]

    def _set_runs(self, ends: Ints, answers: Elements, stamps: Ints) -> None:
        size = len(self._sizes) + 1
        self._ends, self._stamps = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._answers = np.zeros(size, self._values.dtype)
        self._ends[: len(ends)], self._answers[: len(ends)], self._stamps[: len(ends)] = ends, answers, stamps
        self._state[HEIGHT] = len(ends)

    def _sorted_sizes(self) -> Ints:
        return np.array([size for size, _ in self._windows.pairs], np.int64)

    def _checked_times(self, times: npt.ArrayLike | None, count: int) -> Ints:
        if not self.is_timed:
            if times is not None and len(np.atleast_1d(np.asarray(times))):
                raise StructureError("these windows are of elements; give no times, or build with timed=True")
            return np.empty(0, np.int64)
        when = times_of(times, count, self._clock if self.length else None)
        if np.any(np.abs(when) >= LONGEST):
            raise StructureError(f"times must stay below {LONGEST} microseconds")
        return when

    def _check_lookups(self, after: Ints, widths: Ints, times: Ints, count: int) -> None:
        if len(after) != len(widths):
            raise StructureError(
                f"there are {len(after)} places and {len(widths)} windows; give a place for each window"
            )
        if not len(widths):
            return
        if np.any(after[1:] < after[:-1]) or after[0] < 0 or after[-1] > count:
            raise StructureError(f"`after` must never fall and must lie between 0 and {count}, the number of elements")
        checked_size(int(widths.min()))
        checked_size(int(widths.max()))
        is_filled = (
            self._forgotten <= self._clock - self.largest
            if self.is_timed
            else self.held_from <= max(0, self.length - self.largest)
        )
        if is_filled and widths.max() <= self.largest:
            return
        if self.is_timed:
            clocks = np.append(self._clock, times)[after]
            bad = (clocks - widths < self._forgotten) | (widths > self.largest)
        else:
            lengths = self.length + after
            begins = np.maximum(lengths - widths, 0)
            bad = begins < np.maximum(self.held_from, lengths - self.largest)
        for at in np.flatnonzero(bad)[:1]:
            raise HistoryError(
                f"window {widths[at]} reaches back to elements that have left (the largest window is {self.largest}); "
                f"add the window before its elements come"
            )

    def _play(self, values: Elements, times: Ints, after: Ints, widths: Ints) -> tuple[Elements, npt.NDArray[np.bool_]]:
        """Append one piece with its lookups, and let go of what no window needs any more."""
        self._make_room(len(values))
        start = self._end
        self._store(values, times)
        if not len(values) and not self.length:
            return np.zeros(len(widths), self._values.dtype), np.zeros(len(widths), np.bool_)
        answers, valid = replay(
            self._is_max, self._lowest, self._base, self.held_from - self._base, start, self._end,
            self._clock if self.is_timed else self.length, self._values, self._times, self._blocks, self._sizes,
            self._ends, self._answers, self._stamps, self._state, after, widths,
        )  # fmt: skip
        self.length += len(values)
        if self.is_timed and len(times):
            self._clock = int(times[-1])
        self._let_go()
        return answers, valid

    def _store(self, values: Elements, times: Ints) -> None:
        start, end = self._end, self._end + len(values)
        self._values[start:end] = values
        if self.is_timed:
            self._times[start:end] = times
        close_blocks(self._is_max, self._values, self._blocks, start, end)
        self._end = end

    def _make_room(self, coming: int) -> None:
        """Drop what has left when the storage is full; half of it is free then, so elements move O(1) times."""
        if self._end + coming <= len(self._values):
            return
        gone = (self.held_from - self._base) // BLOCK * BLOCK
        kept = slice(gone, self._end)
        values, times = self._values[kept], self._times[kept]
        blocks = self._blocks[gone // BLOCK : self._end // BLOCK]
        needed = 2 * (len(values) + coming)
        if not needed <= len(self._values) <= 4 * needed:
            size = max(2 * BLOCK, -(-needed // BLOCK) * BLOCK)
            self._values, self._blocks = np.empty(size, values.dtype), np.empty(size // BLOCK, values.dtype)
            self._times = np.empty(size if self.is_timed else 0, np.int64)
        self._values[: len(values)], self._blocks[: len(blocks)] = values, blocks
        self._times[: len(times)] = times
        self._base += gone
        self._end = len(values)

    def _let_go(self) -> None:
        needed = self.length - self.largest
        if self.is_timed:
            held = self._times[self.held_from - self._base : self._end]
            needed = int(positions_after(held, self.held_from, np.array([self._clock - self.largest]))[0])
        if needed > self.held_from:
            self._forgotten = int(self._times[needed - self._base - 1]) if self.is_timed else needed
            self.held_from = needed
