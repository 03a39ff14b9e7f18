"""Described columns: what `kernels.key_folds` must know of columns that share a pool, in one table.

Invariant: a row has the addresses of the arrays that its column has now. They are checked again after each batch, as
structures replace their arrays while they grow. This module holds all arrays that it describes.
Cost: after a batch, a look at each array of the columns in use.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from panewise.kernels.key_folds import ARRAYS, TABLE_WIDTH, fold_function
from panewise.structures.column import Elements
from panewise.structures.keyed.column import KeyedColumn, PooledColumn
from panewise.structures.keyed.keyed import KeyedStructure
from panewise.structures.keyed.pool import Pool


class DescribedColumns:
    """The table of a pool and of columns in it; `numbers` has the number of each element, rising for each key."""

    def __init__(self, pool: Pool, numbers: PooledColumn) -> None:
        self.batches = 0
        """How often columns may have changed; whoever owns the pool counts its batches here."""
        self.table = np.zeros((1, TABLE_WIDTH), np.int64)
        self._pool, self._numbers = pool, numbers
        self._row_of: dict[KeyedColumn, int] = {}
        self._held: list[list[Elements]] = [[]]
        """The arrays of each row."""
        self._described = -1
        """How many batches there were when the rows were last checked."""

    def row_of(self, column: KeyedColumn) -> int:
        """The row of a column. The column is described from now on, until columns change."""
        if column not in self._row_of:
            self._row_of[column] = len(self.table)
            self._held.append([])
            self.table = np.concatenate([self.table, np.zeros((1, TABLE_WIDTH), np.int64)])
            way, element, operation = column.way()
            self.table[-1, :ARRAYS] = fold_function(way, element).address, element, operation
            self._describe(len(self.table) - 1, column.arrays())
        return self._row_of[column]

    def follow(self, structures: Iterable[KeyedStructure]) -> None:
        """Describe the arrays that are new since the last batch; drop columns that no structure has any more."""
        if self._described != self.batches:
            current = {column for structure in structures for column in (*structure.columns, structure.null_column)}
            if not self._row_of.keys() <= current:
                self._row_of, self._held, self.table = {}, [[]], self.table[:1].copy()
            self._describe(0, self._pool_arrays())
            for column, row in self._row_of.items():
                self._describe(row, column.arrays())
            self._described = self.batches

    def check(self, structures: Iterable[KeyedStructure]) -> None:
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
