"""Packed rows: a run of sorted partials, each column in as few bytes as its values need.

Integers are kept as their distance from the least one, in 1, 2, 4 or 8 bytes. A column with the same value in all rows
is kept as that one value. Columns with the same values (the counts of events and of values, if none is NULL) are held
once. A column of doubles that is mostly 0 (the low words of sums), or mostly like another (the sum and the extremes
where most rows have one event), is kept as what differs. A row's slot and shard are one number, its place: a run has
few different places. Nothing is rounded: unpacking gives back every bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component
from panewise.arrays import Bools, Column, Ints, Numbers
from panewise.engine.rows import Multisets, Rows
from panewise.engine.sketches import bytes_of_column, closed_column

Places = npt.NDArray[np.int32]
"""Places of rows in a run, which has fewer than 2**31."""

NO_SLOT = 2**63 - 1
"""Above every slot."""
NO_END = -(2**63)
"""Below every slot."""
_NOTHING = np.empty(0, np.int32)
MOST_EXCEPTIONS = 8
"""A column is stored as like another if at most one value in so many differs."""
SAMPLED = 256
"""At least so many rows tell whether it is worth to look at all of them."""
_WIDTHS: dict[type[np.unsignedinteger[Any]], int] = {np.uint8: 2**8 - 1, np.uint16: 2**16 - 1, np.uint32: 2**32 - 1}
"""The narrow types, and the greatest number of each."""


@dataclass(frozen=True)
class PackedColumn:
    """One column: `base` and what each row adds to it, or `base` alone for all rows."""

    base: np.int64 | np.float64 | None
    rest: Column | None
    length: int
    like: PackedColumn | None = None
    """Another column that this one equals, but at the places of `exceptions`, which rise."""
    exceptions: tuple[Places, Column] | None = None
    """Where the values are others than those of `like`, or of `base`, and what they are."""

    @staticmethod
    def of(column: Column, doubles: Sequence[PackedColumn] = ()) -> PackedColumn:
        """Pack a column of int64, float64 or objects; it may be much like one of the `doubles`. Cost: O(rows)."""
        length = len(column)
        if column.dtype == np.object_ or not length:
            return PackedColumn(None, column, length)
        if column.dtype == np.float64:
            # Bits tell zeros of both signs apart, and NaN equals itself.
            bits = column.view(np.int64)
            if bits[0] == bits[-1] and (bits == bits[0]).all():
                return PackedColumn(column[0], None, length)
            # Of a row with one event, the sum and the extremes are its value, and a sum has no low part.
            for like in (None, *doubles):
                others = np.zeros_like(bits) if like is None or like.rest is None else like.rest.view(np.int64)
                # Of columns that are not alike, a sample tells. The first rows would not: they are of the busiest keys.
                step = max(1, length // SAMPLED)
                if not (_is_mostly_same(bits[::step], others[::step]) and _is_mostly_same(bits, others)):
                    continue
                places = np.flatnonzero(bits != others).astype(np.int32)
                base = np.float64(0.0) if like is None else None
                exceptions = (places, column[places]) if len(places) else None
                return PackedColumn(base, None, length, like, exceptions)
            return PackedColumn(None, column, length)
        lowest, highest = column.min(), column.max()
        if lowest == highest:
            return PackedColumn(lowest, None, length)
        span = int(highest) - int(lowest)
        for width, most in _WIDTHS.items():
            if span <= most:
                return PackedColumn(lowest, (column - lowest).astype(width), length)
        return PackedColumn(None, column, length)

    def unpacked(self, rows: Ints | Places | None = None) -> Column:
        """The values of some rows, or of all."""
        if self.rest is None:
            if self.like is not None:
                plain = self.like.unpacked(rows).copy()
            else:
                assert self.base is not None
                plain = np.full(self.length if rows is None else len(rows), self.base)
            if self.exceptions is not None:
                self._put_exceptions(plain, rows)
            return plain
        chosen = self.rest if rows is None else self.rest[rows]
        if self.base is None:
            return chosen
        whole = chosen.astype(np.int64)
        whole += np.int64(self.base)
        return whole

    def _put_exceptions(self, plain: Column, rows: Ints | Places | None) -> None:
        assert self.exceptions is not None
        places, values = self.exceptions
        if rows is None:
            plain[places] = values
            return
        found = np.searchsorted(places, rows)
        found[found == len(places)] = 0
        is_exception = places[found] == rows
        plain[is_exception] = values[found[is_exception]]

    def __getstate__(self) -> dict[str, Any]:
        """A copy has sketches as bytes: open ones cannot be copied."""
        if self.rest is None or self.rest.dtype != np.object_:
            return self.__dict__
        return {**self.__dict__, "rest": closed_column(self.rest)}

    @property
    def nbytes(self) -> int:
        """The memory of the column, without those that it is like."""
        if self.exceptions is not None:
            return sum(array.nbytes for array in self.exceptions)
        if self.rest is None:
            return 8
        return self.rest.nbytes + (bytes_of_column(self.rest) if self.rest.dtype == np.object_ else 0)

    def has_the_values_of(self, other: PackedColumn) -> bool:
        """Whether two columns of integers are packed the same, so that one is enough for both."""
        if self.base != other.base:
            return False
        if self.rest is None or other.rest is None:
            return self.rest is other.rest
        return self.rest.dtype == other.rest.dtype and bool((self.rest == other.rest).all())


class PackedRows:
    """Rows sorted by (key, slot, shard), packed. A column is unpacked each time it is read."""

    def __init__(self, rows: Rows) -> None:
        self._length = len(rows)
        self.numbers: Numbers = rows.keys.astype(np.uint32)
        """The number of each row's key."""
        self.places, self.place_slots, self.place_shards = _places(rows.slots, rows.shards)
        self._place_rows = np.bincount(self.places, minlength=len(self.place_slots))
        self.oldest = NO_END
        """Rows before this slot no longer count, though they are still in memory."""
        self.lowest_slot = int(self.place_slots.min(initial=NO_SLOT))
        """The least slot of a row that is held; `NO_SLOT` if there is none."""
        self.highest_slot = int(self.place_slots.max(initial=NO_END))
        """The greatest slot; `NO_END` if there is none."""
        self.live_rows = len(rows)
        """How many rows are held."""
        self._by_place: tuple[Places, Ints] | None = None
        self._columns: dict[str, PackedColumn] = {}
        integers: list[PackedColumn] = []
        doubles: list[PackedColumn] = []
        for name, column in rows.columns.items():
            packed = PackedColumn.of(column, doubles)
            if column.dtype == np.int64:
                packed = next((one for one in integers if one.has_the_values_of(packed)), packed)
                integers.append(packed)
            elif column.dtype == np.float64 and packed.rest is not None:
                doubles.append(packed)
            self._columns[name] = packed
        self._multisets: dict[Component, Multisets] = rows.multisets

    def __len__(self) -> int:
        return self._length

    @property
    def keys(self) -> Ints:
        """The number of each row's key."""
        return self.numbers.astype(np.int64)

    @property
    def slots(self) -> Ints:
        """The slot of each row."""
        return self.place_slots[self.places]

    def forget(self, oldest: int) -> None:
        """No longer hold the rows before a slot. Cost: O(places) if there are such rows, otherwise O(1)."""
        if oldest > self.lowest_slot:
            self.oldest = oldest
            is_held = self.place_slots >= oldest
            self.lowest_slot = int(self.place_slots[is_held].min(initial=NO_SLOT))
            self.live_rows = int(self._place_rows[is_held].sum())

    @property
    def live(self) -> Ints | None:
        """The rows that are held; None if all rows in memory are."""
        if self.live_rows == self._length:
            return None
        return np.flatnonzero((self.place_slots >= self.oldest)[self.places])

    def rows_between(self, first: int, end: int, holds: Bools | None) -> Places:
        """The rows with slots from `first` up to `end`, slot after slot; `holds` says which shards pass.

        Cost: O(rows found), and once O(rows) to put them in the order of their places.
        """
        if first >= end or first > self.highest_slot or end <= self.lowest_slot:
            return _NOTHING
        order, starts = self._places_in_order()
        low, high = self.places_between(first, end)
        rows = order[starts[low] : starts[high]]
        if holds is None:
            return rows
        passes = holds[self.place_shards[low:high]]
        return rows if passes.all() else rows[np.repeat(passes, self._place_rows[low:high])]

    def places_between(self, first: int, end: int) -> tuple[int, int]:
        """The places of held rows with slots from `first` up to `end`; places are in the order of their slots."""
        first = max(first, self.oldest)
        low, high = self.place_slots.searchsorted((first, max(first, end))).tolist()
        return low, high

    def count_from(self, firsts: Ints) -> Ints:
        """How many held rows have slots from each of some slots on."""
        counts = np.append(np.cumsum(self._place_rows[::-1])[::-1], 0)
        return counts[np.searchsorted(self.place_slots, np.maximum(firsts, self.oldest))]

    def _places_in_order(self) -> tuple[Places, Ints]:
        """All rows, place after place, and where the rows of each place begin."""
        if self._by_place is None:
            order = np.argsort(self.places, kind="stable").astype(np.int32)
            self._by_place = order, np.append(0, np.cumsum(self._place_rows))
        return self._by_place

    def is_same(self, name: str, other: str) -> bool:
        """Whether two columns are held as one."""
        return self._columns[name] is self._columns[other]

    def column(self, name: str, rows: Ints | Places | None = None) -> Column:
        """One column of a component, of some rows or of all."""
        return self._columns[name].unpacked(rows)

    def multisets(self, component: Component, rows: Ints | None = None) -> Multisets:
        """The multisets of a component, of some rows or of all."""
        return self._multisets[component] if rows is None else self._multisets[component].take(rows)

    def unpacked(self, rows: Ints | None = None) -> Rows:
        """Some rows in plain arrays, or all."""
        places = self.places if rows is None else self.places[rows]
        return Rows(
            self.keys if rows is None else self.numbers[rows].astype(np.int64),
            self.place_slots[places],
            self.place_shards[places],
            {name: column.unpacked(rows) for name, column in self._columns.items()},
            {component: self.multisets(component, rows) for component in self._multisets},
        )

    def picked(self, rows: Ints | None) -> tuple[Ints, Ints]:
        """The keys and slots of some rows, or of all."""
        if rows is None:
            return self.keys, self.slots
        return self.numbers[rows].astype(np.int64), self.place_slots[self.places[rows]]

    def shards(self, rows: Ints | None) -> Ints:
        """The shard of some rows, or of all."""
        return self.place_shards[self.places if rows is None else self.places[rows]]

    @property
    def nbytes(self) -> int:
        """The memory of all columns, with shared ones counted once."""
        columns = {id(column): column for column in self._columns.values()}
        arrays: list[Column] = [self.numbers, self.places, self.place_slots, self.place_shards, self._place_rows]
        arrays += [array for one in self._multisets.values() for array in (one.items, one.counts, one.offsets)]
        arrays += self._by_place or ()
        return sum(column.nbytes for column in columns.values()) + sum(array.nbytes for array in arrays)


def _is_mostly_same(bits: Ints, others: Ints) -> bool:
    return bool(MOST_EXCEPTIONS * np.count_nonzero(bits != others) <= len(bits))


def _places(slots: Ints, shards: Ints) -> tuple[Numbers, Ints, Ints]:
    """The place of each row, and the slot and the shard of each place."""
    if not len(slots):
        nothing = np.empty(0, np.int64)
        return np.empty(0, np.uint8), nothing, nothing
    lowest, width = slots.min(), int(shards.max()) + 1
    span = int(slots.max()) - int(lowest) + 1
    if span == width == 1:
        # What one closing brings.
        return np.zeros(len(slots), np.uint8), np.array([lowest]), np.zeros(1, np.int64)
    if span * width <= 4 * len(slots) + 1024:
        words = (slots - lowest) * width + shards
        used = np.flatnonzero(np.bincount(words))
        number = np.zeros(span * width, _narrow(len(used)))
        number[used] = np.arange(len(used))
        return number[words], used // width + lowest, used % width
    different, slot_number = np.unique(slots, return_inverse=True)
    used, places = np.unique(slot_number * width + shards, return_inverse=True)
    return places.astype(_narrow(len(used))), different[used // width], used % width


def _narrow(count: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type that can number the places."""
    return next(width for width, most in _WIDTHS.items() if count - 1 <= most)
