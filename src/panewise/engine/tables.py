"""Tables: map values to dense ids in order of first appearance, held only in arrays.

`IntTable`, `CodeTable` and `ByteTable` serve one column each; `KeyTable` gives ids to the rows of several columns.
Memory is the stored values plus a word and a half each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.columns import arrow_type, bits_of, bytes_of, from_bits, from_bytes, frozen
from panewise.kernels.hashing import (
    find_bytes,
    find_ints,
    probe_bytes,
    probe_int,
    probe_ints,
    rehash_bytes,
    rehash_ints,
)

_SMALLEST = 64
_MORE = 4
"""Room for stored integers grows by one in so many."""
_NOWHERE = 2**62


class IntTable:
    """Maps int64 values to ids, with room for `expected` different ones from the start. Cost: O(1) expected a value."""

    def __init__(self, expected: int = _SMALLEST) -> None:
        room = max(_SMALLEST, 1 << max(0, expected - 1).bit_length())
        self._table = np.full(2 * room, -1, np.int32)
        self._stored = np.empty(room, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Ints:
        """The stored values, by id."""
        return self._stored[: self._count]

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return self._table.nbytes + self._stored.nbytes

    def of(self, ids: Ints) -> Ints:
        """The values with some ids."""
        return self._stored[ids]

    def ids(self, values: Ints) -> Ints:
        """The id of each value; values not seen before are stored."""
        values = frozen(values)
        out = np.empty(len(values), np.int64)
        done = 0
        while True:
            done, self._count = find_ints(values, done, self._table, self._stored, self._count, out)
            if done == len(values):
                return out
            self._grow()

    def find(self, values: Ints) -> Ints:
        """The id of each value, -1 of one that is not stored."""
        out = np.empty(len(values), np.int64)
        probe_ints(frozen(values), self._table, self._stored, out)
        return out

    def find_one(self, value: int) -> int:
        """The id of one value, -1 if it is not stored."""
        return probe_int(value, self._table, self._stored)

    def _grow(self) -> None:
        more = max(_SMALLEST, len(self._stored) // _MORE)
        self._stored = np.concatenate([self._stored, np.empty(more, np.int64)])
        if 2 * len(self._stored) > len(self._table):
            self._table = np.full(2 * len(self._table), -1, np.int32)
            rehash_ints(self._table, self._stored, self._count)


class CodeTable:
    """Maps codes to ids as `IntTable` does, for codes that are numbered in the order in which they come, from 1 on.

    So only the place of code 0 among them, which is NULL, must be known.
    """

    nbytes = 0

    def __init__(self) -> None:
        self._codes = 0
        self._null = _NOWHERE
        """The id of code 0; larger than all ids while it has none."""

    def __len__(self) -> int:
        return self._codes + (self._null != _NOWHERE)

    def ids(self, codes: Ints) -> Ints:
        """The id of each code; codes not seen before are counted."""
        if self._null == _NOWHERE and not codes.all():
            before = codes[: int(codes.argmin())]
            self._null = max(self._codes, int(before.max(initial=0)))
        self._codes = max(self._codes, int(codes.max(initial=0)))
        return self.find(codes)

    def find(self, codes: Ints) -> Ints:
        """The id of each code that was seen; -1 of code 0 if it was not."""
        ids = codes - 1
        if self._null != _NOWHERE:
            ids += ids >= self._null
            ids[codes == 0] = self._null
        return ids

    def find_one(self, code: int) -> int:
        """The id of one code that was seen; -1 of code 0 if it was not."""
        if code == 0:
            return self._null if self._null != _NOWHERE else -1
        return code - (code <= self._null)

    def of(self, ids: Ints) -> Ints:
        """The codes with some ids."""
        if self._null == _NOWHERE:
            return ids + 1
        codes = ids + (ids < self._null)
        codes[ids == self._null] = 0
        return codes


class ByteTable:
    """Maps runs of bytes (strings in UTF-8) to ids. Cost: O(length) expected a run."""

    def __init__(self) -> None:
        self._table = np.full(2 * _SMALLEST, -1, np.int64)
        self._data = np.empty(1024, np.uint8)
        self._offsets = np.zeros(_SMALLEST + 1, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> pa.Array:
        """The stored values as large strings, by id. They share the table's memory: what is stored never changes."""
        return from_bytes(self._data[: self._offsets[self._count]], self._offsets[: self._count + 1])

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return self._table.nbytes + self._data.nbytes + self._offsets.nbytes

    def ids(self, values: pa.Array) -> Ints:
        """The id of each value; values not seen before are stored. The array must hold no NULL."""
        data, offsets = bytes_of(values)
        self._reserve(len(values), int(offsets[-1] - offsets[0]))
        out = np.empty(len(values), np.int64)
        self._count = find_bytes(data, offsets, self._table, self._data, self._offsets, self._count, out)
        return out

    def find(self, values: pa.Array) -> Ints:
        """The id of each value, -1 of one that is not stored. The array must hold no NULL."""
        data, offsets = bytes_of(values)
        out = np.empty(len(values), np.int64)
        probe_bytes(data, offsets, self._table, self._data, self._offsets, out)
        return out

    def _reserve(self, more_values: int, more_bytes: int) -> None:
        needed = int(self._offsets[self._count]) + more_bytes
        if needed > len(self._data):
            data = np.empty(max(needed, 2 * len(self._data)), np.uint8)
            data[: len(self._data)] = self._data
            self._data = data
        capacity = len(self._offsets) - 1
        if self._count + more_values > capacity:
            capacity = max(self._count + more_values, 2 * capacity)
            offsets = np.zeros(capacity + 1, np.int64)
            offsets[: len(self._offsets)] = self._offsets
            self._offsets = offsets
            self._table = np.full(1 << (2 * capacity - 1).bit_length(), -1, np.int64)
            rehash_bytes(self._table, self._data, self._offsets, self._count)


class ColumnTable:
    """Maps the values of one typed column to codes; NULL is code 0."""

    def __init__(self, kind: Type) -> None:
        self._type = kind
        self._ints = IntTable()
        self._bytes = ByteTable()

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return self._bytes.nbytes if self._type is Type.STRING else self._ints.nbytes

    def codes(self, column: pa.Array) -> Ints:
        """The code of each value."""
        if column.null_count:
            return _of_valid(self.codes, column)
        if self._type is not Type.STRING:
            return self._ints.ids(bits_of(column, self._type)) + 1
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        places: Ints = np.asarray(column.indices)
        return self._bytes.ids(column.dictionary)[places] + 1

    def find(self, column: pa.Array) -> Ints:
        """The code of each value, -1 of one that is not stored."""
        if column.null_count:
            return _of_valid(self.find, column)
        stored = self._bytes if self._type is Type.STRING else self._ints
        ids = stored.find(column if self._type is Type.STRING else bits_of(column, self._type))
        return np.where(ids < 0, ids, ids + 1)

    def find_one(self, value: object) -> int:
        """The code of one value, -1 if it is not stored; a BIGINT takes a shorter way than `find`."""
        if self._type is Type.BIGINT and type(value) is int and -(2**63) <= value < 2**63:
            found = self._ints.find_one(value)
            return found + 1 if found >= 0 else -1
        return int(self.find(pa.array([value], arrow_type(self._type)))[0])

    def decode(self, codes: Ints) -> pa.Array:
        """The values of codes. Cost: O(codes), however many values are stored."""
        if self._type is not Type.STRING and codes.all():
            return from_bits(self._ints.of(codes - 1), self._type)
        indices = pa.array(np.maximum(codes - 1, 0), mask=codes == 0)
        if self._type is Type.STRING:
            return self._bytes.values.take(indices).cast(pa.string())
        return from_bits(self._ints.values, self._type).take(indices)


def _of_valid(codes_of: Callable[[pa.Array], Ints], column: pa.Array) -> Ints:
    """The codes of the values that are not NULL, at their places; the code of NULL is 0."""
    out = np.zeros(len(column), np.int64)
    out[np.asarray(column.is_valid())] = codes_of(column.drop_null())
    return out


class KeyTable:
    """Maps the rows of several columns to ids: the groups of a GROUP BY. No columns at all make one group."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = list(types)
        self._columns = [ColumnTable(kind) for kind in self._types]
        # Step i numbers the pairs of (group of the columns so far, code in column i); the first step numbers codes.
        self._steps = [IntTable() if place else CodeTable() for place in range(len(self._types))]

    def __len__(self) -> int:
        return len(self._steps[-1]) if self._steps else 1

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return sum(table.nbytes for table in (*self._columns, *self._steps))

    def ids(self, columns: Sequence[pa.Array], length: int) -> Ints:
        """The group of each row."""
        group = np.zeros(length, np.int64)
        for table, step, column in zip(self._columns, self._steps, columns, strict=True):
            group = step.ids((group << 32) | table.codes(column))
        return group

    def find(self, columns: Sequence[pa.Array], length: int) -> Ints:
        """The group of each row, -1 for a group that does not exist; no group is made."""
        group = np.zeros(length, np.int64)
        for table, step, column in zip(self._columns, self._steps, columns, strict=True):
            codes = table.find(column)
            pairs = (group << 32) | codes
            if pairs.min(initial=0) >= 0:
                group = step.find(pairs)
            else:
                group = np.where(pairs < 0, -1, step.find(np.maximum(pairs, 0)))
        return group

    def find_one(self, values: Sequence[object]) -> int:
        """The group of one row of plain values, each of its column's type; -1 if there is none."""
        group = 0
        for table, step, value in zip(self._columns, self._steps, values, strict=True):
            code = table.find_one(value)
            group = -1 if code < 0 else step.find_one((group << 32) | code)
            if group < 0:
                return -1
        return group

    def decode(self, ids: Ints) -> list[pa.Array]:
        """The columns of groups."""
        if len(self._columns) == 1:
            return [self._columns[0].decode(self._steps[0].of(ids))]
        columns: list[pa.Array] = []
        group = ids
        for table, step in zip(reversed(self._columns), reversed(self._steps)):
            pair = step.of(group)
            columns.append(table.decode(pair & 0xFFFFFFFF))
            group = pair >> 32
        return columns[::-1]
