"""A structure: one aggregate over the elements of a stream, or of each of its keys, shared by every window.

Positions, NULLs, types, history, snapshots and lowering are the same for all structures and live here. An algorithm
adds a `Column` (how elements are stored and folded) and a data sheet. A stream without groups has key 0 alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import Lowered
from panewise.aggregates.sketches import require_package
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.arrays import Ints
from panewise.errors import HistoryError, SnapshotError, StructureError
from panewise.kernels.pool import window_ranges
from panewise.structures.arguments import codes_of, known_aggregate, lookups_of
from panewise.structures.column import Column, Elements, Operation, ValuesColumn, Windows
from panewise.structures.folded import Answers, FoldedColumns, lower, masked
from panewise.structures.folded_ranges import EveryEvent, FoldedRanges, HeldElements
from panewise.structures.lifting import WORDS, Lifted, LiftedPartials, LiftedValues, in_words, lift_values
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.running_column import RunningColumn
from panewise.structures.sheet import DataSheet, Described
from panewise.structures.snapshot import Packed, pack

NARROW_LIMIT = 2.0**62
"""While the largest window times the largest |value| stays below this, one int64 word holds every window's sum. For
squares it is the square of the largest |value|."""


class Structure(Described, ABC):
    """One aggregate over all windows of one stream, or of each of its keys.

    `update(values)` appends elements; `lookup(left, right)` answers windows [left, right] counted back from the end:
    positions m - left + 1 .. m - right of the m elements so far. With `keys`, a number from 0 on for each value or
    window, both speak of the substream of each key. All take whole arrays. NULLs come as masked arrays or Arrow arrays;
    answers are masked where they are NULL.

    Structures over the same substreams may share a `pool` that never lets go of elements. Its owner groups each batch
    once, and makes all of them follow it.
    """

    sheet: ClassVar[DataSheet]

    def __init__(
        self,
        aggregate: str | UserAggregate,
        windows: Iterable[tuple[int, int]] = (),
        *,
        type: Type | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.aggregate = aggregate if isinstance(aggregate, UserAggregate) else known_aggregate(aggregate)
        if type is not None or not self.sheet.served_types(self.aggregate):
            self._check_served(type)
        if self.aggregate in CATALOGUE and not CATALOGUE[str(self.aggregate)].is_exact:
            require_package(str(self.aggregate))
        self._windows = Windows(windows)
        self._type = self.aggregate.type if isinstance(self.aggregate, UserAggregate) else type
        self._columns: dict[Kind | None, list[Column]] = {}
        self._values: ValuesColumn | None = None
        self._nulls: Column | None = None
        self._greatest = 0.0
        self._of_partials = False
        """Whether its elements are partials, of which it does not know the values."""
        self._shares_pool = pool is not None
        self._pool = Pool(self._windows.largest) if pool is None else pool
        # Fresh memory for the positions of every batch of lookups would cost more than some structures take.
        self._scratch = np.empty((2, 0), np.int64)
        if self._type is not None:
            self._open(self._type)

    @property
    def windows(self) -> list[tuple[int, int]]:
        """The windows that it serves, in order."""
        return self._windows.every

    @property
    def largest(self) -> int:
        """Nmax: how many of the newest elements are held."""
        return self._windows.largest

    @property
    def label(self) -> str:
        """The name of the aggregate."""
        return self.aggregate.name if isinstance(self.aggregate, UserAggregate) else self.aggregate

    @property
    def nbytes(self) -> int:
        """The memory of all elements, their combinations, and the facts about each key unless the pool is shared."""
        own = 0 if self._shares_pool else self._pool.nbytes
        return own + sum(column.nbytes for column in self._every_column())

    @property
    def length(self) -> int:
        """m: how many elements have come to a stream without groups."""
        return int(self._pool.length[0])

    @property
    def held_from(self) -> int:
        """The first position that is known in a stream without groups."""
        return int(self._pool.first[0])

    @property
    def live_keys(self) -> Ints:
        """The keys that have elements, in order."""
        return self._pool.live

    def lengths(self, keys: npt.ArrayLike) -> Ints:
        """How many elements each key has had since it was new or forgotten; 0 for keys never seen."""
        return self._per_key(self._pool.length, codes_of(keys))

    def update(self, values: npt.ArrayLike | pa.Array, keys: npt.ArrayLike | None = None) -> None:
        """Append each value to the substream of its key. O(1) a value; those of one key keep their order."""
        codes = None if keys is None else codes_of(keys)
        lifted = self._lifted(values)
        if codes is not None and len(codes) != len(lifted):
            raise StructureError(f"there are {len(codes)} keys and {len(lifted)} values; give one key for each value")
        if len(lifted):
            self._append(codes, lifted)

    def follow_pool(self, moves: Moves | None) -> None:
        """Make room as the pool did: for more keys, and in the segments that it moved."""
        for column in self._every_column():
            column.cover(len(self._pool.length))
            if moves is not None:
                column.relocate(moves)

    def append_batch(self, batch: Batch, order: Ints | None, values: npt.ArrayLike | pa.Array | LiftedPartials) -> None:
        """Append values, or partials, that a shared pool has grouped and made room for, but does not count yet.

        The owner of the pool calls `follow_pool` before, and counts the batch when all have it.
        """
        lifted = values if isinstance(values, LiftedPartials) else self._lifted(values)
        self._append_lifted(batch, order, lifted)

    def lookup(
        self,
        left: npt.ArrayLike,
        right: npt.ArrayLike = 0,
        parameter: npt.ArrayLike | None = None,
        *,
        keys: npt.ArrayLike | None = None,
    ) -> Answers:
        """The answers of windows [left, right], one for each element of the arrays; `parameter` is phi for QUANTILE.

        A window that covers nothing, or belongs to a key never seen, has a count of 0; other aggregates are NULL.
        """
        return self._answer(*self._ranges(left, right, keys), parameter)

    def lookup_all(self, left: int, right: int = 0, parameter: npt.ArrayLike | None = None) -> tuple[Ints, Answers]:
        """The answers of one window of every live key, and those keys, in order."""
        keys = self.live_keys
        return keys, self.lookup(left, right, parameter, keys=keys)

    def lookup_with_bounds(
        self,
        left: npt.ArrayLike,
        right: npt.ArrayLike = 0,
        parameter: npt.ArrayLike | None = None,
        *,
        keys: npt.ArrayLike | None = None,
    ) -> tuple[Answers, Answers, Answers]:
        """The answers of windows, and bounds of the exact answers; all three are equal for exact aggregates."""
        codes, low, high, empty = self._ranges(left, right, keys)
        if not isinstance(self.aggregate, str) or CATALOGUE[self.aggregate].is_exact or self._type is None:
            answers = self._answer(codes, low, high, empty, parameter)
            return answers, answers, answers
        lowered = lower(self.aggregate, FoldedRanges(self._held, codes, low, high), parameter)
        assert lowered.bounds is not None
        least, greatest = (masked(Lowered(ends, None, lowered.valid)) for ends in lowered.bounds)
        return masked(lowered), least, greatest

    def lookup_ranges(self, low: Ints, high: Ints, parameter: npt.ArrayLike | None = None) -> Answers:
        """The answers over positions low .. high - 1 of a stream without groups; none where low = high."""
        covered = low < high
        if np.any(covered & ((low < self.held_from) | (high > self.length))):
            raise HistoryError(f"positions {self.held_from} to {self.length - 1} are held, and a range lies outside")
        return self._answer(None, low, np.maximum(low, high), int(np.count_nonzero(~covered)), parameter)

    def fold_ranges(self, keys: Keys, low: Ints, high: Ints) -> FoldedColumns:
        """The folded columns over positions low .. high - 1 of keys, for any aggregate made of them."""
        return FoldedRanges(self._held, keys, low, high)

    @property
    def components(self) -> list[list[Column]]:
        """The columns of each component, in order; an integer sum may have one more after the next batch."""
        return list(self._columns.values())

    @property
    def null_column(self) -> Column | None:
        """The column that counts NULLs; None until the first NULL comes."""
        return self._nulls

    def add_window(self, left: int, right: int = 0) -> None:
        """Serve one more window. Elements that have left do not come back: see `is_held`."""
        self._windows.add((left, right))
        self._fit()

    def remove_window(self, left: int, right: int = 0) -> None:
        """Serve one window less; let go of what only it needed."""
        self._windows.remove((left, right))
        self._fit()

    def hold(self, elements: int) -> None:
        """Serve any window within this many of each key's newest elements, besides its own windows."""
        self._windows.at_least = max(1, elements)
        self._fit()

    def is_held(
        self, left: npt.ArrayLike, right: npt.ArrayLike = 0, *, keys: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.bool_]:
        """Whether windows can be answered: whether everything they cover is still held."""
        codes, lefts, rights = lookups_of(keys, left, right)
        length, first = self._per_key(self._pool.length, codes), self._per_key(self._pool.first, codes)
        low, high = np.maximum(length - lefts, 0), length - rights
        held: npt.NDArray[np.bool_] = (low >= first) | (high <= low)
        return held

    def forget(self, keys: npt.ArrayLike) -> None:
        """Drop all elements of some keys; their memory serves other keys. Keys never seen are ignored."""
        codes = np.unique(codes_of(keys))
        codes = codes[codes < len(self._pool.length)]
        codes = codes[self._pool.length[codes] > 0]
        self._pool.forget(codes)
        for column in self._every_column():
            column.forget(codes)

    def answers_at_every_event(self, values: npt.ArrayLike | pa.Array) -> Answers:
        """Append elements to a stream without groups; a row of answers per window of `windows`, after each of them."""
        lifted = self._lifted(values)
        if self._type is None:
            return np.ma.MaskedArray(np.zeros((len(self.windows), 0)))
        if self._values is not None:
            raise StructureError(f"{self.label} at every event is not offered; look up the windows after each update")
        every = EveryEvent(self._held, lifted, self.windows, self.held_from, self.length, self.largest)
        if len(lifted):
            self._append(None, lifted)
            # The first NULL makes a column.
            every.held = self._held
        if not every.has_empty and self._nulls is None and (plain := self._plain_kind()) is not None:
            (folded,) = every.columns(plain)
            return np.ma.MaskedArray(folded.reshape(every.shape), np.ma.nomask)
        return self._lower(every, None).reshape(every.shape)

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        assert self._pool.largest == self.largest or (self._shares_pool and self._pool.largest > self.largest)
        self._pool.check()
        keys = self.live_keys
        for column in self._every_column():
            column.check(keys)

    def snapshot(self) -> bytes:
        """The state as bytes; nothing is pickled."""
        held = self._pool.held()
        keys, positions = _every_element(held)
        arrays: dict[str, npt.NDArray[Any]] = {
            "keys": held.keys,
            "lengths": self._pool.length[held.keys],
            "first": held.begin,
        }
        for kind, columns in self._columns.items():
            for place, column in enumerate(columns):
                arrays[_array_name(kind, place)] = column.elements(keys, positions)
        if self._nulls is not None:
            arrays["nulls"] = self._nulls.elements(keys, positions)
        if self._values is not None:
            arrays["values"], arrays["valid"] = self._values.elements(keys, positions)
        header = {
            "structure": self.name,
            "aggregate": self.label,
            "type": None if self._type is None else self._type.value,
            "windows": self.windows,
            "at_least": self._windows.at_least,
            "greatest": self._greatest,
        }
        return pack(header, arrays)

    @classmethod
    def from_snapshot(cls, packed: Packed, given: UserAggregate | None) -> Self:
        """The structure that a snapshot was taken of; a user-defined aggregate must be given again."""
        header, arrays = packed
        if "keys" not in arrays:
            raise SnapshotError("the snapshot is of an earlier version, which this one does not read; take a new one")
        windows = [(left, right) for left, right in header["windows"]]
        type = None if header["type"] is None else Type(header["type"])
        structure = cls(_aggregate_of(header, given), windows, type=type)
        structure.hold(header["at_least"])
        structure._greatest = header["greatest"]
        structure._restore(arrays)
        return structure

    @abstractmethod
    def _column(self, operation: Operation) -> Column:
        """A new column of this structure's algorithm."""

    def _values_column(self, dtype: np.dtype[Any]) -> ValuesColumn:
        """A new column of plain values; only structures that serve holistic aggregates have one."""
        raise NotImplementedError

    def _sketch_column(self, kind: Kind, dtype: np.dtype[Any]) -> ValuesColumn:
        """A new column of sketches; only structures that serve approximate aggregates have one."""
        raise NotImplementedError

    def _check_served(self, type: Type | None) -> None:
        problem = self.sheet.why_not(self.aggregate, type)
        if problem is not None:
            raise StructureError(f"{problem}; see the data sheets in docs/structures.md for one that can")

    def _open(self, type: Type) -> None:
        """Make the columns, once the type of the values is known."""
        if isinstance(self.aggregate, UserAggregate):
            dtype = np.int64 if self.aggregate.type is Type.BIGINT else np.float64
            self._columns[None] = [self._column(Operation.of_user(self.aggregate, dtype))]
            return
        entry = CATALOGUE[self.aggregate]
        if not entry.accepts(type):
            raise StructureError(
                f"{self.aggregate} of {type} values is not defined; give numbers, or another aggregate"
            )
        self._check_served(type)
        self._type = type
        number = np.dtype(np.float64 if type is Type.DOUBLE else np.int64)
        for kind in entry.kinds(type):
            if kind is Kind.VALUES:
                self._values = self._values_column(number)
            elif kind.is_sketch:
                self._values = self._sketch_column(kind, number)
            elif kind in WORDS:
                self._columns[kind] = [self._column(Operation.add(np.int64))]
            elif kind in (Kind.SUM_FLOAT, Kind.SQUARES):
                # Squares, and what rounding left of them.
                pairs = kind.words // 2
                self._columns[kind] = [self._column(Operation.add(np.complex128)) for _ in range(pairs)]
            elif kind in (Kind.MIN, Kind.MAX):
                self._columns[kind] = [self._column(Operation.extreme(number, greatest=kind is Kind.MAX))]

    def _lifted(self, values: npt.ArrayLike | pa.Array) -> LiftedValues:
        """Values in the form from which elements are made. The first ones decide the type, if none was given."""
        lifted = lift_values(values, self._type, self.aggregate)
        if self._type is None and len(lifted):
            self._open(lifted.type)
        return lifted

    def _append(self, codes: Keys, lifted: LiftedValues) -> None:
        assert not self._shares_pool, "whoever owns the pool appends to all that share it"
        if codes is not None:
            self._pool.cover(codes)
        batch, order = self._pool.group(codes, len(lifted))
        self.follow_pool(self._pool.make_room(batch))
        self._append_lifted(batch, order, lifted)
        self._pool.advance(batch)

    def _append_lifted(self, batch: Batch, order: Ints | None, lifted: Lifted) -> None:
        if order is not None:
            lifted = lifted.take(order)
        self._widen_for(lifted)
        if self._nulls is None and lifted.has_nulls:
            self._nulls = self._null_column()
        self._of_partials = isinstance(lifted, LiftedPartials)
        self._take_in(
            batch,
            lambda kind, columns: lifted.elements(kind, columns[0].operation, words=len(columns)),
            lifted,
        )

    def _take_in(
        self, batch: Batch, elements_of: Callable[[Kind | None, list[Column]], list[Elements]], lifted: Lifted
    ) -> None:
        """Append a batch to every column; the pool has room for it but does not count it yet."""
        for kind, columns in self._columns.items():
            for column, elements in zip(columns, elements_of(kind, columns)):
                column.append(batch, elements)
        if self._nulls is not None:
            self._nulls.append(batch, lifted.nulls())
        if self._values is not None:
            assert isinstance(lifted, LiftedValues), "a partial is of many values, and no structure holds these"
            self._values.append(batch, lifted.values, lifted.validity())

    def _restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        keys, first = arrays["keys"], arrays["first"]
        self._pool.cover(keys)
        self._pool.length[keys] = self._pool.first[keys] = first
        for kind in WORDS:
            if _array_name(kind, 1) in arrays:
                self._columns[kind] = self._wide_columns(kind)
        if "nulls" in arrays:
            self._nulls = self._null_column()
        bounds = np.concatenate([[0], np.cumsum(arrays["lengths"] - first)]).astype(np.int64)
        valid = ~arrays["nulls"].astype(np.bool_) if "nulls" in arrays else None
        if "values" in arrays:
            lifted = LiftedValues(arrays["values"], arrays["valid"].astype(np.bool_), self._type or Type.BIGINT)
        else:
            lifted = LiftedValues(np.zeros(int(bounds[-1]), np.int64), valid, self._type or Type.BIGINT)
        batch = self._pool.batch(keys, bounds, first)
        self.follow_pool(self._pool.make_room(batch))
        self._take_in(
            batch,
            lambda kind, columns: [arrays[_array_name(kind, place)] for place in range(len(columns))],
            lifted,
        )
        self._pool.advance(batch)

    def _wide_columns(self, kind: Kind) -> list[Column]:
        """A column for each word of an integer sum."""
        return [self._column(Operation.add(np.int64)) for _ in range(WORDS[kind])]

    def _widen_for(self, lifted: Lifted | None) -> None:
        """Hold integer sums in several words before some window's sum might not fit in one."""
        held = [kind for kind in WORDS if kind in self._columns]
        if held and lifted is not None:
            self._greatest = max(self._greatest, lifted.greatest())
        for kind in held:
            power = 2 if kind is Kind.SQUARES_INT else 1
            if len(self._columns[kind]) > 1 or self.largest * self._greatest**power < NARROW_LIMIT:
                continue
            batch = self._pool.held()
            narrow = self._columns[kind][0].elements(*_every_element(batch))
            self._columns[kind] = self._wide_columns(kind)
            for column, words in zip(self._columns[kind], in_words(kind, narrow), strict=True):
                column.append(batch, words)

    def _null_column(self) -> Column:
        return RunningColumn(Operation.add(np.int64), self._pool)

    def _every_column(self) -> list[Column | ValuesColumn]:
        columns: list[Column | ValuesColumn] = [column for several in self._columns.values() for column in several]
        if self._nulls is not None:
            columns.append(self._nulls)
        if self._values is not None:
            columns.append(self._values)
        return columns

    def _fit(self) -> None:
        if not self._shares_pool:
            self._fit_pool()
        for column in self._every_column():
            column.fit(self._windows)
        self._widen_for(None)

    def _fit_pool(self) -> None:
        """Let go of what no window reaches any more."""
        pool = self._pool
        keys = pool.live
        after = np.maximum(pool.first[keys], pool.length[keys] - self.largest)
        for column in self._every_column():
            column.let_go(keys, after)
        pool.first[keys] = after
        self.follow_pool(pool.fit(self.largest))

    def _ranges(
        self, left: npt.ArrayLike, right: npt.ArrayLike, keys: npt.ArrayLike | None
    ) -> tuple[Keys, Ints, Ints, int]:
        """The keys of lookups, the positions that their windows cover, and how many cover nothing."""
        codes, lefts, rights = lookups_of(keys, left, right)
        pool = self._pool
        if len(self._scratch[0]) < len(lefts):
            self._scratch = np.empty((2, len(lefts)), np.int64)
        low, high = self._scratch[:, : len(lefts)]
        empty, bad = window_ranges(codes, lefts, rights, pool.length, pool.first, low, high)
        if bad >= 0:
            window, key = (int(lefts[bad]), int(rights[bad])), 0 if codes is None else int(codes[bad])
            Windows([window])
            whose = "" if codes is None else f" of key {key}"
            raise HistoryError(
                f"window {window}{whose} begins at position {max(int(pool.length[key]) - window[0], 0)} and elements "
                f"are held from position {pool.first[key]} on; add the window before its elements come"
            )
        return codes, low, high, empty

    def _answer(self, keys: Keys, low: Ints, high: Ints, empty: int, parameter: npt.ArrayLike | None) -> Answers:
        if self._type is None:
            # Before any value came there are counts of 0, and NULLs.
            is_count = isinstance(self.aggregate, str) and CATALOGUE[self.aggregate].fewest == 0
            return np.ma.MaskedArray(np.zeros(len(low), np.int64 if is_count else np.float64), mask=not is_count)
        if not empty and parameter is None and self._nulls is None:
            # The answers themselves where they are one folded column, which saves passes over the lookups.
            if isinstance(self.aggregate, str) and CATALOGUE[self.aggregate].only_counts:
                return np.ma.MaskedArray(high - low, np.ma.nomask)
            kind = self._plain_kind()
            if kind is not None:
                return np.ma.MaskedArray(self._columns[kind][0].fold(keys, low, high), np.ma.nomask)
        return self._lower(FoldedRanges(self._held, keys, low, high), parameter)

    @property
    def _held(self) -> HeldElements:
        is_float = self._type is Type.DOUBLE
        return HeldElements(self._columns, self._nulls, self._values, is_float=is_float, are_partials=self._of_partials)

    def _plain_kind(self) -> Kind | None:
        """The component whose one column holds the answers as they are; None where answers must be lowered."""
        kind = None if isinstance(self.aggregate, UserAggregate) else CATALOGUE[self.aggregate].fold(self._type)
        return kind if kind is not Kind.SUM_FLOAT and len(self._columns.get(kind, [])) == 1 else None

    def _lower(self, folded: FoldedColumns, parameter: npt.ArrayLike | None) -> Answers:
        """From folded columns to answers."""
        if isinstance(self.aggregate, UserAggregate):
            (elements,) = folded.columns(None)
            answers = elements if self.aggregate.lower is None else self.aggregate.lower(elements)
            return np.ma.MaskedArray(answers, folded.counts == 0)
        return masked(lower(self.aggregate, folded, parameter))

    def _per_key(self, array: Ints, codes: Keys) -> Ints:
        """What an array says about keys; 0 for those that it does not know."""
        if codes is None:
            return array[:1]
        out = np.zeros(len(codes), np.int64)
        known = codes < len(array)
        out[known] = array[codes[known]]
        return out


def _aggregate_of(header: dict[str, Any], given: UserAggregate | None) -> str | UserAggregate:
    label: str = header["aggregate"]
    if label in CATALOGUE:
        return label
    if given is None or given.name != label:
        raise SnapshotError(
            f"the snapshot is of the user-defined aggregate {label!r}; give it: restore(blob, aggregate=...)"
        )
    return given


def _array_name(kind: Kind | None, place: int) -> str:
    """What a column of a component is called in a snapshot."""
    return f"{kind.value if kind else 'user'} {place}"


def _every_element(held: Batch) -> tuple[Ints, Ints]:
    """The key and the position of each element of a batch."""
    positions = np.arange(held.bounds[-1], dtype=np.int64) + np.repeat(held.begin - held.bounds[:-1], held.counts)
    return np.repeat(held.keys, held.counts), positions
