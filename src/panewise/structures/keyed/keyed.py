"""A keyed structure: one aggregate over many substreams, each shared by every window.

It is for many streams what `Structure` is for one: keys are small numbers, state is a few arrays for all of them, and
windows count back from the end of each key's own substream. An algorithm adds a `KeyedColumn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import HistoryError, SnapshotError, StructureError, WindowError
from panewise.kernels.keyed_pool import key_ranges
from panewise.structures.aggregated import Aggregated, Answers, FoldedColumns, aggregate_of, array_name
from panewise.structures.column import Elements, Ints, Operation, Windows
from panewise.structures.keyed.column import KeyedColumn, KeyedValuesColumn
from panewise.structures.keyed.pool import Batch, Moves, Pool
from panewise.structures.lifting import LiftedValues, in_words
from panewise.structures.snapshot import Packed, pack, unpack


class KeyedStructure(Aggregated[KeyedColumn, KeyedValuesColumn]):
    """One aggregate over all windows of many substreams.

    `update(keys, values)` appends an element to each key's substream; `lookup(keys, left, right)` answers windows
    [left, right] counted back from the end of each key's substream. Both take whole arrays. NULLs come as masked arrays
    or Arrow arrays; answers are masked where they are NULL. Keys are numbers from 0 on, close together.

    Structures over the same substreams may share a `pool` that never lets go of elements. Its owner groups each batch
    once, and makes all of them follow it.
    """

    def __init__(
        self,
        aggregate: str | UserAggregate,
        windows: Iterable[tuple[int, int]] = (),
        *,
        type: Type | None = None,
        pool: Pool | None = None,
    ) -> None:
        super().__init__(aggregate, windows, type=type)
        self._shares_pool = pool is not None
        self._pool = Pool(self._windows.largest) if pool is None else pool
        if self._type is not None:
            self._open(self._type)

    @property
    def nbytes(self) -> int:
        """The memory of all elements, their combinations, and the facts about each key unless the pool is shared."""
        own = 0 if self._shares_pool else self._pool.nbytes
        return own + sum(array.nbytes for column in self._every_column() for array in column.arrays())

    @property
    def live_keys(self) -> Ints:
        """The keys that have elements, in order."""
        return self._pool.live

    def length(self, keys: npt.ArrayLike) -> Ints:
        """How many elements each key has had since it was new or forgotten; 0 for keys never seen."""
        return self._per_key(self._pool.length, _codes(keys))

    def update(self, keys: npt.ArrayLike, values: npt.ArrayLike | pa.Array) -> None:
        """Append each value to the substream of its key. O(1) a value; those of one key keep their order."""
        codes = _codes(keys)
        lifted = self._lifted(values)
        if len(codes) != len(lifted):
            raise StructureError(f"there are {len(codes)} keys and {len(lifted)} values; give one key for each value")
        assert not self._shares_pool, "whoever owns the pool appends to all that share it"
        if not len(lifted):
            return
        self._pool.cover(codes)
        batch, order = self._pool.group(codes)
        self.follow_pool(self._pool.make_room(batch))
        self._append_lifted(batch, order, lifted)
        self._pool.advance(batch)

    def follow_pool(self, moves: Moves | None) -> None:
        """Make room as the pool did: for more keys, and in the segments that it moved."""
        for column in self._every_column():
            column.cover(len(self._pool.length))
            if moves is not None:
                column.relocate(moves)

    def append_batch(self, batch: Batch, order: Ints, values: npt.ArrayLike | pa.Array) -> None:
        """Append values that a shared pool has grouped and made room for, but does not count yet.

        The owner of the pool calls `follow_pool` before, and counts the batch when all have it.
        """
        self._append_lifted(batch, order, self._lifted(values))

    def lookup(
        self,
        keys: npt.ArrayLike,
        left: npt.ArrayLike,
        right: npt.ArrayLike = 0,
        parameter: npt.ArrayLike | None = None,
    ) -> Answers:
        """The answers of windows [left, right] of keys, one for each element of the arrays.

        `parameter` is phi for QUANTILE. A window that covers nothing, or belongs to a key never seen, has a count of 0;
        other aggregates are NULL.
        """
        codes, lefts, rights = _lookups(keys, left, right)
        low, high = self._ranges(codes, lefts, rights)
        if self._type is None:
            return self._over_nothing(len(codes))
        return self._lower(FoldedKeys(self, codes, low, high), parameter)

    def lookup_all(self, left: int, right: int = 0, parameter: npt.ArrayLike | None = None) -> tuple[Ints, Answers]:
        """The answers of one window of every live key, and those keys, in order."""
        keys = self.live_keys
        return keys, self.lookup(keys, left, right, parameter)

    def fold_ranges(self, keys: Ints, low: Ints, high: Ints) -> FoldedColumns:
        """The folded columns over positions low .. high - 1 of keys, for any aggregate made of them."""
        return FoldedKeys(self, keys, low, high)

    @property
    def columns(self) -> list[KeyedColumn]:
        """The columns of its components, in order; an integer sum may have one more after the next batch."""
        return [column for several in self._columns.values() for column in several]

    @property
    def components(self) -> list[list[KeyedColumn]]:
        """The same, by component."""
        return list(self._columns.values())

    @property
    def null_column(self) -> KeyedColumn | None:
        """The column that counts NULLs; None until the first NULL comes."""
        return self._nulls

    def hold(self, elements: int) -> None:
        """Serve any window within this many of each key's newest elements, besides its own windows."""
        self._windows.at_least = max(1, elements)
        self._fit()

    def is_held(self, keys: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike = 0) -> npt.NDArray[np.bool_]:
        """Whether windows can be answered: whether everything they cover is still held."""
        codes, lefts, rights = _lookups(keys, left, right)
        length = self._per_key(self._pool.length, codes)
        low, high = np.maximum(length - lefts, 0), length - rights
        held: npt.NDArray[np.bool_] = (low >= self._per_key(self._pool.first, codes)) | (high <= low)
        return held

    def forget(self, keys: npt.ArrayLike) -> None:
        """Drop all elements of some keys; their memory serves other keys. Keys never seen are ignored."""
        codes = np.unique(_codes(keys))
        codes = codes[codes < len(self._pool.length)]
        self._pool.forget(codes[self._pool.length[codes] > 0])

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
                arrays[array_name(kind, place)] = column.elements(keys, positions)
        if self._nulls is not None:
            arrays["nulls"] = self._nulls.elements(keys, positions)
        if self._values is not None:
            arrays["values"], arrays["valid"] = self._values.elements(keys, positions)
        header = {
            "keyed structure": self.name,
            "aggregate": self.label,
            "type": None if self._type is None else self._type.value,
            "windows": self.windows,
            "at_least": self._windows.at_least,
            "greatest": self._greatest,
        }
        return pack(header, arrays)

    @classmethod
    def from_snapshot(cls, packed: Packed, aggregate: str | UserAggregate) -> Self:
        """The structure that a snapshot was taken of."""
        header, arrays = packed
        windows = [(left, right) for left, right in header["windows"]]
        structure = cls(aggregate, windows, type=None if header["type"] is None else Type(header["type"]))
        structure.hold(header.get("at_least", 1))
        structure._greatest = header["greatest"]
        structure._restore(arrays)
        return structure

    def _restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        keys, first = arrays["keys"], arrays["first"]
        self._pool.cover(keys)
        self._pool.length[keys] = self._pool.first[keys] = first
        self._restore_words(arrays)
        if "nulls" in arrays:
            self._nulls = self._null_column()
        bounds = np.concatenate([[0], np.cumsum(arrays["lengths"] - first)]).astype(np.int64)
        valid = ~arrays["nulls"].astype(np.bool_) if "nulls" in arrays else None
        if "values" in arrays:
            lifted = LiftedValues(arrays["values"], arrays["valid"], self._type or Type.BIGINT)
        else:
            lifted = LiftedValues(np.zeros(int(bounds[-1]), np.int64), valid, self._type or Type.BIGINT)
        batch = self._pool.batch(keys, bounds, first)
        self.follow_pool(self._pool.make_room(batch))
        self._take_in(
            batch,
            lambda kind, columns: [arrays[array_name(kind, place)] for place in range(len(columns))],
            lifted,
        )
        self._pool.advance(batch)

    def _take_in(
        self,
        batch: Batch,
        elements_of: Callable[[Kind | None, list[KeyedColumn]], list[Elements]],
        lifted: LiftedValues,
    ) -> None:
        """Append a batch to every column; the pool has room for it but does not count it yet."""
        for kind, columns in self._columns.items():
            for column, elements in zip(columns, elements_of(kind, columns)):
                column.append(batch, elements)
        if self._nulls is not None:
            self._nulls.append(batch, lifted.nulls())
        if self._values is not None:
            self._values.append(batch, lifted.values, lifted.validity())

    def _append_lifted(self, batch: Batch, order: Ints, lifted: LiftedValues) -> None:
        if len(batch.keys) > 1:
            valid = None if lifted.valid is None else lifted.valid[order]
            lifted = LiftedValues(lifted.values[order], valid, lifted.type)
        self._widen_for(lifted)
        if self._nulls is None and lifted.valid is not None:
            self._nulls = self._null_column()
        self._take_in(
            batch,
            lambda kind, columns: lifted.elements(kind, columns[0].operation, words=len(columns)),
            lifted,
        )

    def _widen_for(self, lifted: LiftedValues | None) -> None:
        """Hold integer sums in several words before some window's sum might not fit in one."""
        for kind in self._too_narrow(lifted):
            held = self._pool.held()
            narrow = self._columns[kind][0].elements(*_every_element(held))
            self._columns[kind] = self._wide_columns(kind)
            for column, words in zip(self._columns[kind], in_words(kind, narrow), strict=True):
                column.append(held, words)

    def _null_column(self) -> KeyedColumn:
        from panewise.structures.keyed.running_intervals import KeyedRunningColumn

        return KeyedRunningColumn(Operation.add(np.int64), self._pool)

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

    def _ranges(self, codes: Ints, lefts: Ints, rights: Ints) -> tuple[Ints, Ints]:
        pool = self._pool
        low, high = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
        bad = key_ranges(codes, lefts, rights, pool.length, pool.first, low, high)
        if bad >= 0:
            key, left, right = int(codes[bad]), int(lefts[bad]), int(rights[bad])
            Windows([(left, right)])
            raise HistoryError(
                f"window ({left}, {right}) of key {key} begins at position {max(int(pool.length[key]) - left, 0)} and "
                f"elements are held from position {pool.first[key]} on; add the window before its elements come"
            )
        return low, high

    def _per_key(self, array: Ints, codes: Ints) -> Ints:
        """What an array says about keys; 0 for those that it does not know."""
        out = np.zeros(len(codes), np.int64)
        known = codes < len(array)
        out[known] = array[codes[known]]
        return out


class FoldedKeys(FoldedColumns):
    """The folded columns of some ranges of keys."""

    def __init__(self, structure: KeyedStructure, keys: Ints, low: Ints, high: Ints) -> None:
        self.is_float = structure.type is Type.DOUBLE
        self._structure = structure
        self._keys, self._low, self._high = keys, low, high

    @property
    def widths(self) -> Ints:
        return self._high - self._low

    @property
    def counts(self) -> Ints:
        nulls = self._structure._nulls
        return self.widths if nulls is None else self.widths - nulls.fold(self._keys, self._low, self._high)

    def columns(self, kind: Kind | None) -> tuple[Elements, ...]:
        return tuple(column.fold(self._keys, self._low, self._high) for column in self._structure._columns[kind])

    def values_of(self, place: int) -> npt.NDArray[np.float64]:
        (column,) = self._structure._columns[Kind.SUM_FLOAT]
        positions = np.arange(self._low[place], self._high[place])
        return np.ascontiguousarray(column.elements(np.full(len(positions), self._keys[place]), positions).real)

    def select(self, ranks: Ints) -> Elements:
        assert self._structure._values is not None
        return self._structure._values.select(self._keys, self._low, self._high, ranks)

    def distinct(self) -> Ints:
        assert self._structure._values is not None
        return self._structure._values.distinct(self._keys, self._low, self._high)

    def mode(self) -> Elements:
        assert self._structure._values is not None
        return self._structure._values.mode(self._keys, self._low, self._high)


def restore_keyed(blob: bytes, *, aggregate: UserAggregate | None = None) -> KeyedStructure:
    """The keyed structure that `snapshot` was taken of; a user-defined aggregate must be given again."""
    from panewise.structures.keyed import KEYED_BY_NAME

    packed = unpack(blob)
    header = packed[0]
    if "keyed structure" not in header:
        raise SnapshotError("the snapshot is of a structure without keys; use panewise.structures.restore")
    kind = KEYED_BY_NAME.get(header["keyed structure"])
    if kind is None:
        raise SnapshotError(
            f"the snapshot is of a keyed structure {header['keyed structure']!r} that this version does not have"
        )
    return kind.from_snapshot(packed, aggregate_of(header, aggregate, "restore_keyed"))


def _codes(keys: npt.ArrayLike) -> Ints:
    array = np.atleast_1d(np.asarray(keys))
    if array.ndim != 1:
        raise StructureError(f"keys must have one dimension, not {array.ndim}")
    if array.dtype.kind not in "iu" and array.size:
        raise StructureError(f"keys must be integers, not {array.dtype}; number the keys from 0 on first")
    codes = np.ascontiguousarray(array, np.int64)
    if codes.min(initial=0) < 0:
        raise StructureError(f"key {codes.min()}: keys must be 0 or above; number them from 0 on")
    return codes


def _lookups(keys: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Ints, Ints, Ints]:
    codes, lefts, rights = _codes(keys), np.asarray(left, np.int64), np.asarray(right, np.int64)
    if codes.shape == lefts.shape == rights.shape:
        return codes, np.ascontiguousarray(lefts), np.ascontiguousarray(rights)
    try:
        shape = np.broadcast_shapes(codes.shape, lefts.shape, rights.shape)
    except ValueError:
        raise WindowError(
            f"keys, left and right have shapes {codes.shape}, {lefts.shape}, {rights.shape}; "
            f"give arrays of one length, or numbers"
        ) from None
    if len(shape) != 1:
        raise WindowError(f"left and right must be numbers or arrays of one dimension, not {len(shape)}")
    codes, lefts, rights = (np.broadcast_to(array, shape).copy() for array in (codes, lefts, rights))
    return codes, lefts, rights


def _every_element(held: Batch) -> tuple[Ints, Ints]:
    """The key and the position of each element of a batch."""
    positions = np.arange(held.bounds[-1], dtype=np.int64) + np.repeat(held.begin - held.bounds[:-1], held.counts)
    return np.repeat(held.keys, held.counts), positions
