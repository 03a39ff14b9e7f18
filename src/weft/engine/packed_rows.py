"""Packed rows: how sorted partials lie between two closings, each column in as few bytes as its values need.

Integers are kept as their distance from the least one, in 1, 2, 4 or 8 bytes. A column with one value for all rows is
that value: shards without predicates, the low words of sums that have no fraction to lose. Columns with the same values
(the events of a row, and its values where none is NULL) are held once. Nothing is rounded: unpacking gives back every
bit. Columns are packed when rows are merged, so values that grow widen their column then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates.components import Component
from weft.engine.rows import Multisets, Rows
from weft.engine.sketches import bytes_of_column

Ints = npt.NDArray[np.int64]
Column = npt.NDArray[Any]

NO_SLOT = 2**63 - 1
"""Above every slot."""
_WIDTHS: tuple[type[np.unsignedinteger[Any]], ...] = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class PackedColumn:
    """One column: `base` and what each row adds to it, or `base` alone for so many rows."""

    base: np.int64 | np.float64 | None
    rest: Column | None
    length: int

    @staticmethod
    def of(column: Column) -> PackedColumn:
        """Pack a column of int64, float64 or objects. Cost: O(rows)."""
        length = len(column)
        if column.dtype == np.object_ or not length:
            return PackedColumn(None, column, length)
        # Zeros of both signs and NaN are told apart by their bits.
        bits = column.view(np.int64)
        if bits[0] == bits[-1] and np.all(bits == bits[0]):
            return PackedColumn(column[0], None, length)
        if column.dtype == np.float64:
            return PackedColumn(None, column, length)
        lowest, span = column.min(), int(column.max()) - int(column.min())
        for width in _WIDTHS:
            if span <= np.iinfo(width).max:
                return PackedColumn(lowest, (column - lowest).astype(width), length)
        return PackedColumn(None, column, length)

    def unpacked(self, rows: Ints | None = None) -> Column:
        """The values of some rows, or of all."""
        if self.rest is None:
            assert self.base is not None
            return np.full(self.length if rows is None else len(rows), self.base)
        chosen = self.rest if rows is None else self.rest[rows]
        return chosen if self.base is None else chosen.astype(np.int64) + np.int64(self.base)

    @property
    def nbytes(self) -> int:
        """The memory of the column."""
        if self.rest is None:
            return 8
        return self.rest.nbytes + (bytes_of_column(self.rest) if self.rest.dtype == np.object_ else 0)

    def has_the_values_of(self, other: PackedColumn) -> bool:
        """Whether both are packed alike, so that one array is enough for both."""
        if self.base != other.base or self.rest is None or other.rest is None:
            return False
        return self.rest.dtype == other.rest.dtype and np.array_equal(self.rest, other.rest)


class PackedRows:
    """Rows sorted by (key, slot, shard), packed. A column is unpacked each time that it is asked for."""

    def __init__(self, rows: Rows) -> None:
        self._length = len(rows)
        self.lowest_slot = int(rows.slots.min()) if len(rows) else NO_SLOT
        self._keys, self._slots, self._shards = (
            PackedColumn.of(column) for column in (rows.keys, rows.slots, rows.shards)
        )
        self._columns: dict[str, PackedColumn] = {}
        integers: list[PackedColumn] = []
        for name, column in rows.columns.items():
            packed = PackedColumn.of(column)
            if column.dtype == np.int64:
                packed = next((one for one in integers if one.has_the_values_of(packed)), packed)
                integers.append(packed)
            self._columns[name] = packed
        self.multisets: dict[Component, Multisets] = rows.multisets

    def __len__(self) -> int:
        return self._length

    @property
    def keys(self) -> Ints:
        """The number of each row's key."""
        return self._keys.unpacked()

    @keys.setter
    def keys(self, keys: Ints) -> None:
        self._keys = PackedColumn.of(keys)

    @property
    def slots(self) -> Ints:
        """The slot of each row."""
        return self._slots.unpacked()

    @property
    def shards(self) -> Ints:
        """The number of each row's shard."""
        return self._shards.unpacked()

    def column(self, name: str, rows: Ints | None = None) -> Column:
        """One column of a component, of some rows or of all."""
        return self._columns[name].unpacked(rows)

    def unpacked(self, rows: Ints | None = None) -> Rows:
        """Some rows in plain arrays, or all."""
        return Rows(
            self._keys.unpacked(rows),
            self._slots.unpacked(rows),
            self._shards.unpacked(rows),
            {name: column.unpacked(rows) for name, column in self._columns.items()},
            self.multisets if rows is None else {c: runs.take(rows) for c, runs in self.multisets.items()},
        )

    def picked(self, rows: Ints | None) -> tuple[Ints, Ints]:
        """The keys and slots of some rows, or of all."""
        return self._keys.unpacked(rows), self._slots.unpacked(rows)

    @property
    def nbytes(self) -> int:
        """The memory of all columns, those that are shared counted once."""
        columns = {id(column): column for column in (self._keys, self._slots, self._shards, *self._columns.values())}
        runs = [array for one in self.multisets.values() for array in (one.items, one.counts, one.offsets)]
        return sum(column.nbytes for column in columns.values()) + sum(array.nbytes for array in runs)
