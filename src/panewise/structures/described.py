"""Described columns: what `kernels.key_folds` must know of columns that share a pool, in one table.

Invariant: a row has the addresses of the arrays that its column has now. They are checked again after each batch, as
structures replace their arrays while they grow. This module holds all arrays that it describes.
Cost: after a batch, a look at each array of the columns in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np

from panewise.kernels.key_folds import ARRAYS, DOUBLE, PAIR, TABLE_WIDTH, WHOLE, fold_function
from panewise.structures.column import Column, Elements, PooledColumn
from panewise.structures.pool import Pool
from panewise.structures.structure import Structure

_ELEMENTS: dict[type, int] = {np.int64: WHOLE, np.float64: DOUBLE, np.complex128: PAIR}


class DescribedColumns:
    """The table of a pool and of columns in it; `numbers` has the number of each element, rising for each key."""

    def __init__(self, pool: Pool, numbers: PooledColumn) -> None:
        self.batches = 0
        """How often columns may have changed; whoever owns the pool counts its batches here."""
        self.table = np.zeros((1, TABLE_WIDTH), np.int64)
        self._pool, self._numbers = pool, numbers
        self._row_of: dict[Column, int] = {}
        self._held: list[list[Elements]] = [[]]
        """The arrays of each row."""
        self._described = -1
        """How many batches there were when the rows were last checked."""

    def row_of(self, column: Column) -> int:
        """The row of a column. The column is described from now on, until columns change."""
        if column not in self._row_of:
            self._row_of[column] = len(self.table)
            self._held.append([])
            self.table = np.concatenate([self.table, np.zeros((1, TABLE_WIDTH), np.int64)])
            operation, element = column.operation, _ELEMENTS[column.operation.dtype.type]
            assert column.fold_way is not None
            assert operation.user is None, "a user's function is not called from there"
            self.table[-1, :ARRAYS] = fold_function(column.fold_way, element).address, element, operation.code
            self._describe(len(self.table) - 1, column.arrays())
        return self._row_of[column]

    def follow(self, structures: Iterable[Structure]) -> None:
        """Describe the arrays that are new since the last batch; drop columns that no structure has any more."""
        if self._described != self.batches:
            current = {
                column
                for structure in structures
                for column in (*chain.from_iterable(structure.components), structure.null_column)
            }
            if not self._row_of.keys() <= current:
                self._row_of, self._held, self.table = {}, [[]], self.table[:1].copy()
            self._describe(0, self._pool_arrays())
            for column, row in self._row_of.items():
                self._describe(row, column.arrays())
            self._described = self.batches

    def check(self, structures: Iterable[Structure]) -> None:
        """Assert that after `follow` every row has the addresses of the current arrays."""
        self.follow(structures)
        for row, arrays in enumerate([self._pool_arrays(), *(column.arrays() for column in self._row_of)]):
            described = _addresses(arrays)
            assert self.table[row, ARRAYS : ARRAYS + len(described)].tolist() == described

    def _pool_arrays(self) -> list[Elements]:
        pool = self._pool
        return [*self._numbers.arrays(), pool.offset, pool.shift, pool.first, pool.length]

    def _describe(self, row: int, arrays: list[Elements]) -> None:
        held = self._held[row]
        if len(held) != len(arrays) or any(one is not other for one, other in zip(held, arrays)):
            self._held[row] = arrays
            described = _addresses(arrays)
            self.table[row, ARRAYS : ARRAYS + len(described)] = described


def _addresses(arrays: list[Elements]) -> list[int]:
    """The address and the length of each array."""
    return [number for array in arrays for number in (array.ctypes.data, len(array))]
