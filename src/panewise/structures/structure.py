"""A structure: one aggregate over one sequence of elements, shared by every window.

Positions, NULLs, types, history, snapshots and lowering are the same for all structures and live here. An algorithm
adds a `Column` (how elements are stored and folded) and a data sheet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import Sketches
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import HistoryError, SnapshotError, StructureError, WindowError
from panewise.kernels.every_event import fold_at_every_event
from panewise.kernels.rings import window_ranges
from panewise.structures.aggregated import Aggregated, Answers, FoldedColumns, aggregate_of, array_name
from panewise.structures.column import Column, Operation, ValuesColumn, Windows
from panewise.structures.lifting import LiftedValues, in_words
from panewise.structures.sketch_column import SketchColumn
from panewise.structures.snapshot import Packed, pack, unpack

Ints = npt.NDArray[np.int64]


class Structure(Aggregated[Column, ValuesColumn]):
    """One aggregate over all windows of one stream.

    `update(values)` appends elements; `lookup(left, right)` answers windows [left, right] counted back from the end:
    positions m - left + 1 .. m - right of the m elements so far. Both take whole arrays. NULLs come as masked arrays or
    Arrow arrays; answers are masked where they are NULL.
    """

    def __init__(
        self,
        aggregate: str | UserAggregate,
        windows: Iterable[tuple[int, int]] = (),
        *,
        type: Type | None = None,
    ) -> None:
        super().__init__(aggregate, windows, type=type)
        self.length = 0
        """m: how many elements have come."""
        self.held_from = 0
        """The first position that is known."""
        # Fresh memory for the positions of every batch of lookups would cost more than some structures take.
        self._scratch = np.empty((2, 0), np.int64)
        if self._type is not None:
            self._open(self._type)

    @property
    def nbytes(self) -> int:
        """The memory of all elements and their combinations."""
        return sum(column.nbytes for column in self._every_column())

    def update(self, values: npt.ArrayLike | pa.Array) -> None:
        """Append elements."""
        lifted = self._lifted(values)
        if len(lifted):
            self._append(lifted)

    def lookup(self, left: npt.ArrayLike, right: npt.ArrayLike = 0, parameter: npt.ArrayLike | None = None) -> Answers:
        """The answers of windows [left, right], one for each element of the arrays; `parameter` is phi for QUANTILE."""
        return self._answer(*self._ranges(left, right), parameter)

    def lookup_with_bounds(
        self, left: npt.ArrayLike, right: npt.ArrayLike = 0, parameter: npt.ArrayLike | None = None
    ) -> tuple[Answers, Answers, Answers]:
        """The answers of windows, and bounds of the exact answers; all three are equal for exact aggregates."""
        low, high, empty = self._ranges(left, right)
        if not isinstance(self._values, SketchColumn):
            answers = self._answer(low, high, empty, parameter)
            return answers, answers, answers
        return self._lower_with_bounds(_Folded(self, low, high), parameter)

    def lookup_ranges(self, low: Ints, high: Ints, parameter: npt.ArrayLike | None = None) -> Answers:
        """The answers over positions low .. high - 1 counted from the stream's beginning; none where low = high."""
        covered = low < high
        if np.any(covered & ((low < self.held_from) | (high > self.length))):
            raise HistoryError(f"positions {self.held_from} to {self.length - 1} are held, and a range lies outside")
        return self._answer(low, np.maximum(low, high), int(np.count_nonzero(~covered)), parameter)

    def fold_ranges(self, low: Ints, high: Ints) -> FoldedColumns:
        """The folded columns over positions low .. high - 1, for any aggregate made of them."""
        return _Folded(self, low, high)

    def is_held(self, left: npt.ArrayLike, right: npt.ArrayLike = 0) -> npt.NDArray[np.bool_]:
        """Whether windows can be answered: whether everything they cover is still held."""
        lefts, rights = _window_arrays(left, right)
        low, high = np.maximum(self.length - lefts, 0), self.length - rights
        held: npt.NDArray[np.bool_] = (low >= self.held_from) | (high <= low)
        return held

    def hold(self, elements: int) -> None:
        """Serve any window within this many of the newest elements, besides its own windows."""
        self._windows.at_least = max(1, elements)
        self._fit()

    def answers_at_every_event(self, values: npt.ArrayLike | pa.Array) -> Answers:
        """Append elements; returns the answers of every window after each of them, a row per window as in `windows`."""
        lifted = self._lifted(values)
        if self._type is None:
            return np.ma.MaskedArray(np.zeros((len(self.windows), 0)))
        if self._values is not None:
            raise StructureError(f"{self.label} at every event is not offered; look up the windows after each update")
        history = self._history(max(self.held_from, self.length - self.largest))
        every = _EveryEvent(self, history, lifted)
        self._append(lifted)
        if not every.has_empty and self._nulls is None and (plain := self._plain_columns()) is not None:
            (folded,) = every.columns(plain)
            return np.ma.MaskedArray(folded.reshape(every.shape), np.ma.nomask)
        return self._lower(every, None).reshape(every.shape)

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        assert 0 <= self.held_from <= self.length
        assert self.length - self.held_from <= self.largest
        for column in self._every_column():
            column.check(self.held_from, self.length)

    def snapshot(self) -> bytes:
        """The state as bytes; nothing is pickled."""
        start, end = self.held_from, self.length
        arrays: dict[str, npt.NDArray[Any]] = {}
        for kind, columns in self._columns.items():
            for place, column in enumerate(columns):
                arrays[array_name(kind, place)] = column.elements(start, end)
        if self._nulls is not None:
            arrays["nulls"] = self._nulls.elements(start, end)
        if self._values is not None:
            arrays["values"], arrays["valid"] = self._values.elements(start, end)
        header = {
            "structure": self.name,
            "aggregate": self.label,
            "type": None if self._type is None else self._type.value,
            "windows": self.windows,
            "at_least": self._windows.at_least,
            "length": self.length,
            "held_from": self.held_from,
            "greatest": self._greatest,
        }
        return pack(header, arrays)

    @classmethod
    def from_snapshot(cls, packed: Packed, aggregate: str | UserAggregate) -> Self:
        """The structure that a snapshot was taken of."""
        header, arrays = packed
        structure = cls(aggregate, [(left, right) for left, right in header["windows"]])
        structure.hold(header["at_least"])
        structure.length = structure.held_from = header["held_from"]
        structure._greatest = header["greatest"]
        if header["type"] is None:
            return structure
        if structure._type is None:
            structure._open(Type(header["type"]))
        structure._restore(arrays)
        structure.length = header["length"]
        return structure

    def _restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        start = self.held_from
        self._restore_words(arrays)
        for kind, columns in self._columns.items():
            for place, column in enumerate(columns):
                column.append(start, arrays[array_name(kind, place)])
        if "nulls" in arrays:
            self._nulls = self._null_column()
            self._nulls.append(start, arrays["nulls"])
        if self._values is not None:
            self._values.append(start, arrays["values"], arrays["valid"].astype(np.bool_))

    def _append(self, lifted: LiftedValues) -> None:
        start, length = self.length, self.length + len(lifted)
        self._widen_for(lifted)
        if self._nulls is None and lifted.valid is not None:
            self._nulls = self._null_column()
            self._nulls.append(self.held_from, np.zeros(start - self.held_from, np.int64))
        if self._nulls is not None:
            self._nulls.append(start, lifted.nulls())
        for kind, columns in self._columns.items():
            for column, elements in zip(columns, lifted.elements(kind, columns[0].operation, words=len(columns))):
                column.append(start, elements)
        if self._values is not None:
            self._values.append(start, lifted.values, lifted.validity())
        self.length = length
        self.held_from = max(self.held_from, length - self.largest)

    def _widen_for(self, lifted: LiftedValues | None) -> None:
        """Hold integer sums in several words before some window's sum might not fit in one."""
        for kind in self._too_narrow(lifted):
            narrow = self._columns[kind][0].elements(self.held_from, self.length)
            self._columns[kind] = self._wide_columns(kind)
            for column, words in zip(self._columns[kind], in_words(kind, narrow), strict=True):
                column.append(self.held_from, words)

    def _null_column(self) -> Column:
        from panewise.structures.running_intervals import RunningColumn

        return RunningColumn(Operation.add(np.int64), self._windows)

    def _fit(self) -> None:
        for column in self._every_column():
            column.fit(self._windows, self.held_from, self.length)
        self.held_from = max(self.held_from, self.length - self.largest)
        self._widen_for(None)

    def _ranges(self, left: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Ints, Ints, int]:
        lefts, rights = _window_arrays(left, right)
        if len(self._scratch[0]) < len(lefts):
            self._scratch = np.empty((2, len(lefts)), np.int64)
        low, high = self._scratch[:, : len(lefts)]
        empty, bad = window_ranges(lefts, rights, self.length, self.held_from, low, high)
        if bad >= 0:
            Windows([(lefts[bad], rights[bad])])
            raise HistoryError(
                f"window ({lefts[bad]}, {rights[bad]}) begins at position {max(self.length - lefts[bad], 0)} and "
                f"elements are held from position {self.held_from} on; add the window before its elements come"
            )
        return low, high, empty

    def _answer(self, low: Ints, high: Ints, empty: int, parameter: npt.ArrayLike | None) -> Answers:
        if self._type is None:
            return self._over_nothing(len(low))
        if not empty and parameter is None and self._nulls is None:
            plain = self._plain_fold(low, high)
            if plain is not None:
                return np.ma.MaskedArray(plain, np.ma.nomask)
        return self._lower(_Folded(self, low, high), parameter)

    def _plain_fold(self, low: Ints, high: Ints) -> npt.NDArray[Any] | None:
        """The answers themselves where they are one folded column, which saves passes over the lookups."""
        if self.aggregate in ("COUNT", "COUNT_ALL"):
            return high - low
        kind = self._plain_columns()
        return None if kind is None else self._columns[kind][0].fold(low, high)

    def _plain_columns(self) -> Kind | None:
        """The component whose one column holds the answers as they are; None where answers must be lowered."""
        kinds = {"SUM": Kind.SUM_INT, "MIN": Kind.MIN, "MAX": Kind.MAX}
        kind = None if isinstance(self.aggregate, UserAggregate) else kinds.get(self.aggregate)
        return kind if kind is not None and len(self._columns.get(kind, [])) == 1 else None

    def _history(self, start: int) -> _History:
        columns = {
            kind: [column.elements(start, self.length) for column in several] for kind, several in self._columns.items()
        }
        nulls = None if self._nulls is None else self._nulls.elements(start, self.length)
        return _History(start, self.length, columns, nulls)


class _Folded(FoldedColumns):
    """The folded columns of some ranges of positions."""

    def __init__(self, structure: Structure, low: Ints, high: Ints) -> None:
        self.structure = structure
        self.is_float = structure.type is Type.DOUBLE
        self.low, self.high = low, high

    @property
    def widths(self) -> Ints:
        return self.high - self.low

    @property
    def counts(self) -> Ints:
        nulls = self.structure._nulls
        return self.widths if nulls is None else self.widths - self._fold(nulls)

    def columns(self, kind: Kind | None) -> tuple[npt.NDArray[Any], ...]:
        return tuple(self._fold(column) for column in self.structure._columns[kind])

    def values_of(self, place: int) -> npt.NDArray[np.float64]:
        (column,) = self.structure._columns[Kind.SUM_FLOAT]
        return np.ascontiguousarray(column.elements(int(self.low[place]), int(self.high[place])).real)

    def select(self, ranks: Ints) -> npt.NDArray[Any]:
        assert self.structure._values is not None
        return self.structure._values.select(self.low, self.high, ranks)

    def distinct(self) -> Ints:
        assert self.structure._values is not None
        return self.structure._values.distinct(self.low, self.high)

    def sketches(self, kind: Kind) -> Sketches:
        assert isinstance(self.structure._values, SketchColumn)
        return self.structure._values.sketches(self.low, self.high)

    def mode(self) -> npt.NDArray[Any]:
        assert self.structure._values is not None
        return self.structure._values.mode(self.low, self.high)

    def _fold(self, column: Column) -> npt.NDArray[Any]:
        """A column's folds, with the neutral element where a range is empty."""
        covered = self.high > self.low
        if covered.all():
            return column.fold(self.low, self.high)
        out = np.full(len(self.low), column.operation.identity, column.operation.dtype)
        out[covered] = column.fold(self.low[covered], self.high[covered])
        return out


@dataclass
class _History:
    """What a structure held before some elements came: positions start .. end - 1."""

    start: int
    end: int
    columns: dict[Kind | None, list[npt.NDArray[Any]]]
    nulls: Ints | None


class _EveryEvent(_Folded):
    """The folded components of every window after every new element, window after window."""

    def __init__(self, structure: Structure, history: _History, lifted: LiftedValues) -> None:
        self.structure = structure
        self.is_float = structure.type is Type.DOUBLE
        self._before = history
        self._lifted = lifted
        self._windows = np.array(structure.windows, np.int64).reshape(-1, 2)
        self.shape = (len(self._windows), len(lifted))
        lefts, rights = self._windows.T
        reach = np.maximum(history.end + 1 - lefts, 0)
        if len(lifted) and np.any((reach < history.start) & (reach < history.end + len(lifted) - rights)):
            raise HistoryError(
                f"some window reaches back before position {history.start}, from which on elements are held; "
                f"wait until it has filled, or add the window before its elements come"
            )
        self.has_empty = bool(np.any(history.end + 1 <= rights))
        """Whether some window covers nothing after some element."""

    @cached_property
    def high(self) -> Ints:  # type: ignore[override]
        """Where each window ends after each element."""
        ends = self._before.end + 1 + np.arange(len(self._lifted), dtype=np.int64)
        high: Ints = np.maximum(ends - self._windows[:, 1:], 0).ravel()
        return high

    @cached_property
    def low(self) -> Ints:  # type: ignore[override]
        """Where each window begins after each element."""
        ends = self._before.end + 1 + np.arange(len(self._lifted), dtype=np.int64)
        low: Ints = np.minimum(np.maximum(ends - self._windows[:, :1], 0).ravel(), self.high)
        return low

    def columns(self, kind: Kind | None) -> tuple[npt.NDArray[Any], ...]:
        columns = self.structure._columns[kind]
        lifted = self._lifted.elements(kind, columns[0].operation, words=len(columns))
        before = self._before.columns[kind]
        if len(before) < len(lifted):
            assert kind is not None
            before = in_words(kind, before[0])
        return tuple(self._at_every_event(c.operation, b, new) for c, b, new in zip(columns, before, lifted))

    def values_of(self, place: int) -> npt.NDArray[np.float64]:
        (operation,) = (column.operation for column in self.structure._columns[Kind.SUM_FLOAT])
        lifted = self._lifted.elements(Kind.SUM_FLOAT, operation, words=1)[0]
        every = np.concatenate([self._before.columns[Kind.SUM_FLOAT][0], lifted]).real
        start = self._before.start
        return np.ascontiguousarray(every[self.low[place] - start : self.high[place] - start])

    def _fold(self, column: Column) -> npt.NDArray[Any]:
        before = self._before.nulls
        if before is None:
            before = np.zeros(self._before.end - self._before.start, np.int64)
        return self._at_every_event(column.operation, before, self._lifted.nulls())

    def _at_every_event(
        self, operation: Operation, before: npt.NDArray[Any], new: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        return fold_at_every_event(
            operation.code, operation.user, operation.identity, before, new, self._windows
        ).ravel()


def restore(blob: bytes, *, aggregate: UserAggregate | None = None) -> Structure:
    """The structure that `snapshot` was taken of; a user-defined aggregate must be given again."""
    from panewise.structures import BY_NAME

    packed = unpack(blob)
    header = packed[0]
    kind = BY_NAME.get(header["structure"])
    if kind is None:
        raise SnapshotError(f"the snapshot is of a structure {header['structure']!r} that this version does not have")
    return kind.from_snapshot(packed, aggregate_of(header, aggregate, "restore"))


def _window_arrays(left: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Ints, Ints]:
    lefts, rights = np.atleast_1d(np.asarray(left, np.int64)), np.atleast_1d(np.asarray(right, np.int64))
    if lefts.shape != rights.shape:
        lefts, rights = (np.ascontiguousarray(ends) for ends in np.broadcast_arrays(lefts, rights))
    if lefts.ndim != 1:
        raise WindowError(f"left and right must be numbers or arrays of one dimension, not {lefts.ndim}")
    return lefts, rights
