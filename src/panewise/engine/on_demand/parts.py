"""Parts: a run of events in order of their numbers, and the structures over them; all of one pool.

A sequence has two parts: the final events, in the structures that were chosen, and the pending events. These are few,
change with every push, and are folded when a lookup needs them. All structures of a part have the same positions: a
batch is grouped and gets room once for all of them. Events without groups have key 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.engine.on_demand.columns import HeldColumn
from panewise.kernels.key_answers import NULLS, PART_WIDTH, SQUARES, SUMS
from panewise.kernels.key_numbers import positions_between
from panewise.kernels.pool import write_rings
from panewise.structures import build
from panewise.structures.column import PooledColumn
from panewise.structures.described import DescribedColumns
from panewise.structures.folded import FoldedColumns
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.structure import Structure

FEWEST = 64
"""The least number of elements that a structure has room for."""
NO_KEYS = np.zeros(1, np.int64)
"""The keys of a part without groups: one key for all events."""
_MOST = 1 << 40
"""More elements than any key ever has."""


class Part:
    """Events by key, in structures that share one pool."""

    def __init__(self, columns: Iterable[HeldColumn], structure: str | None = None) -> None:
        self.elements = 0
        self.longest = 0
        """The most elements that a key has."""
        self._pool = Pool(_MOST)
        self._numbers = _NumbersColumn(self._pool)
        self.described = DescribedColumns(self._pool, self._numbers)
        self._held = FEWEST
        self._structures: dict[HeldColumn, Structure] = {}
        for column in columns:
            made = build(structure or column.structure, column.key.carrier, type=column.structure_type, pool=self._pool)
            made.hold(FEWEST)
            self._structures[column] = made

    def has(self, key: int) -> bool:
        """Whether some event of a key is here."""
        length = self._pool.length
        return key < len(length) and bool(length[key])

    @property
    def keys(self) -> Ints:
        """The keys that have events here."""
        return self._pool.live

    def append(self, numbers: Ints, codes: Keys, values: Mapping[HeldColumn, Any]) -> None:
        """Take in events whose numbers follow those already there; `codes` is None without groups."""
        pool = self._pool
        self.described.batches += 1
        if codes is not None:
            pool.cover(codes)
        batch, order = pool.group(codes, len(numbers))
        moves = pool.make_room(batch)
        if moves is not None:
            self._numbers.relocate(moves)
        self._numbers.append(batch, numbers if order is None else numbers[order])
        self.elements += len(numbers)
        self.longest = max(self.longest, int((batch.begin + batch.counts).max(initial=0)))
        is_longer = self.longest > self._held
        if is_longer:
            # Twice as many as needed, so that structures are rarely rearranged.
            self._held = 2 * self.longest
        for column, structure in self._structures.items():
            structure.follow_pool(moves)
            if is_longer:
                structure.hold(self._held)
            structure.append_batch(batch, order, values[column])
        pool.advance(batch)

    def positions(self, keys: Ints, from_number: Ints, to_number: Ints) -> tuple[Ints, Ints]:
        """The positions [low, high) of each key's events with numbers in [from_number, to_number)."""
        low, high = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        pool = self._pool
        positions_between(
            self._numbers.numbers, pool.offset, pool.shift, pool.first, pool.length,
            keys, from_number, to_number, low, high,
        )  # fmt: skip
        return low, high

    def fold(self, column: HeldColumn, keys: Ints, low: Ints, high: Ints) -> FoldedColumns:
        """A column over ranges of positions."""
        return self._structures[column].fold_ranges(keys, low, high)

    def positions_of_one(self, key: int, from_number: int, to_number: int) -> tuple[int, int]:
        """The same as `positions` for one key; two equal positions if it has no such events."""
        low, high = self.positions(np.array([key]), np.array([from_number]), np.array([to_number]))
        return int(low[0]), int(high[0])

    def follow_columns(self) -> None:
        """Describe columns as they are now."""
        self.described.follow(self._structures.values())

    def is_described(self, column: HeldColumn) -> bool:
        """Whether kernels can read what a column is made of from a description."""
        components = self._structures[column].components
        return all(one.fold_way is not None for several in components for one in several)

    def rows_of(self, column: HeldColumn) -> list[int]:
        """Where what a column is made of is described, as `kernels.key_answers` asks for it; -1 for none."""
        structure = self._structures[column]
        rows = [-1] * PART_WIDTH
        for first, several in zip((SUMS, SQUARES), structure.components):
            rows[first : first + len(several)] = [self.described.row_of(one) for one in several]
        if structure.null_column is not None:
            rows[NULLS] = self.described.row_of(structure.null_column)
        return rows

    def drop(self, column: HeldColumn) -> None:
        """Drop a column, if it is here."""
        self._structures.pop(column, None)
        self.described.batches += 1

    def numbers_at(self, keys: Ints, positions: Ints) -> Ints:
        """The numbers of the events at existing positions."""
        return self._numbers.numbers[self._pool.places(keys, positions)]

    def nbytes(self, column: HeldColumn) -> int:
        """The memory of a column; 0 if it is not yet built."""
        return self._structures[column].nbytes if column in self._structures else 0

    @property
    def index_nbytes(self) -> int:
        """The memory of the numbers."""
        return self._pool.nbytes + self._numbers.nbytes

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        self._pool.check()
        self.described.check(self._structures.values())
        keys = self.keys
        assert int(self._pool.length.sum()) == self.elements
        for key in keys.tolist():
            length = int(self._pool.length[key])
            assert np.all(np.diff(self.numbers_at(np.full(length, key), np.arange(length))) > 0)
        for structure in self._structures.values():
            structure.check_invariants()
            assert np.array_equal(structure.lengths(keys), self._pool.length[keys])


class _NumbersColumn(PooledColumn):
    """The numbers of each key's events, in its segment."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.numbers = np.zeros(pool.size, np.int64)

    def append(self, batch: Batch, numbers: Ints) -> None:
        """Write the numbers of a batch; the pool has room for it and does not count it yet."""
        pool, b = self.pool, batch
        write_rings(self.numbers, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, numbers)

    def relocate(self, moves: Moves) -> None:
        self.numbers = self._moved_rings(self.numbers, moves)

    def arrays(self) -> list[Ints]:
        return [self.numbers]
