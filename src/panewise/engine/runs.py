"""Runs: the rows of a store in several sorted parts, so that what is new does not move what is old.

Invariant: each run is sorted by (key, slot, shard), with one row for each. Runs are in the order in which they were
made; any slot may be in any of them, and the same key, slot and shard may be in several.
Cost: a row is moved O(log `SMALL`) times while its run is small, and then about once more, if at all. A run whose slots
have all left is dropped without looking at its rows; a run that has lost half of its rows is rewritten. There are a few
small runs, and about one more for each `SMALL` rows.
Source: merging runs by size as log-structured merge trees do (O'Neil et al., 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component
from panewise.engine.packed_rows import NO_END, NO_SLOT, PackedRows
from panewise.engine.rows import Rows

SMALL = 65_536
"""Runs up to this many rows are merged with others of their size: below it, calls cost more than rows do."""
RATIO = 4
"""A run is merged into the next if that has this many times more rows. Where runs are few, one is merged unless it has
this many times more rows than the next: a row is copied about four times for each fourfold growth, and millions of rows
lie in fewer than ten runs."""


class Runs:
    """Sorted runs of rows, the oldest first."""

    def __init__(self, components: tuple[Component, ...], *, are_few: bool = False) -> None:
        self._components = components
        self._are_few = are_few
        """Whether a run is merged whatever its size, as is best where each question looks into all runs."""
        self._runs: list[PackedRows] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[PackedRows]:
        return iter(self._runs)

    def fork(self) -> Runs:
        """The same runs, which may go other ways from now on; their columns are shared, as nothing writes to them."""
        twin = Runs(self._components, are_few=self._are_few)
        twin._runs = [copy(run) for run in self._runs]
        return twin

    @property
    def live_rows(self) -> int:
        """How many rows are held."""
        return sum(run.live_rows for run in self._runs)

    @property
    def lowest_slot(self) -> int:
        """The least slot that is held; `NO_SLOT` if there is none."""
        return min((run.lowest_slot for run in self._runs), default=NO_SLOT)

    @property
    def highest_slot(self) -> int:
        """The greatest slot; `NO_END` if there is none."""
        return max((run.highest_slot for run in self._runs), default=NO_END)

    @property
    def nbytes(self) -> int:
        """The memory of all runs."""
        return sum(run.nbytes for run in self._runs)

    def add(self, rows: Rows) -> None:
        """Take in rows of any order, as a new run or merged into the last ones."""
        if not len(rows):
            return
        length, merged = len(rows), 0
        while merged < len(self._runs) and self._belong_together(len(self._runs[-1 - merged]), length):
            merged += 1
            length += self._runs[-merged].live_rows
        if merged:
            first, *others = (run.unpacked(run.live) for run in self._runs[-merged:])
            rows = first.joined(*others, rows)
            del self._runs[-merged:]
        rows = rows.merged(self._components)
        self._runs.append(PackedRows(rows))

    def forget(self, oldest: int) -> int:
        """Drop the rows before a slot; returns how many they were."""
        if oldest <= self.lowest_slot:
            return 0
        before, kept = self.live_rows, []
        for run in self._runs:
            run.forget(oldest)
            if run.live_rows:
                kept.append(run if 2 * run.live_rows > len(run) else PackedRows(run.unpacked(run.live)))
        self._runs = kept
        return before - self.live_rows

    def as_one(self, empty: Rows) -> PackedRows:
        """All held rows in one run, which replaces the others. Cost: O(rows) unless there is only one run."""
        if len(self._runs) != 1 or self._runs[0].live is not None:
            rows = empty.joined(*(run.unpacked(run.live) for run in self._runs))
            self._runs = [PackedRows(rows.merged(self._components))]
        return self._runs[0]

    def keep(self, rows: npt.NDArray[np.int64], empty: Rows) -> int:
        """Hold only some rows of those that are one run; returns how many others there were."""
        run = self.as_one(empty)
        self._runs = [PackedRows(run.unpacked(rows))] if len(rows) else []
        return len(run) - len(rows)

    def gather(self, oldest: int, before: int, empty: Rows) -> None:
        """Give the rows before a slot one slot, and hold one of each key and shard there. Cost: O(rows)."""
        rows = self.as_one(empty).unpacked()
        rows.slots = np.where(rows.slots < oldest, before, rows.slots)
        self._runs = [PackedRows(rows.merged(self._components))] if len(rows) else []

    def replace(self, replaced: Callable[[PackedRows], PackedRows]) -> None:
        """Hold other runs with the same rows, such as runs whose arrays are shared with other processes."""
        self._runs = [replaced(run) for run in self._runs]

    def compact(self, empty: Rows) -> None:
        """Keep only held rows, and each key, slot and shard once."""
        slots = np.concatenate([np.unique(run.place_slots) for run in self._runs]) if self._runs else np.empty(0)
        if len(np.unique(slots)) < len(slots):
            self.as_one(empty)
        self._runs = [run if run.live is None else PackedRows(run.unpacked(run.live)) for run in self._runs]

    def used_keys(self, count: int) -> npt.NDArray[np.int64]:
        """The keys that have rows, rising; `count` is the number of all keys."""
        used = np.zeros(count, np.bool_)
        for run in self._runs:
            used[run.numbers] = True
        return np.flatnonzero(used)

    def renumber(self, numbers: npt.NDArray[np.uint32]) -> None:
        """Give keys new numbers, by their old ones; the new numbers must keep the order of the old."""
        for run in self._runs:
            run.numbers = numbers[run.numbers]

    def check_invariants(self) -> None:
        """Runs are sorted by (key, slot, shard), each at most once, and know which of their rows are held."""
        for run in self._runs:
            rows = run.unpacked()
            places = list(zip(rows.keys.tolist(), rows.slots.tolist(), rows.shards.tolist()))
            assert places == sorted(set(places))
            assert all(len(column) == len(rows) for column in rows.columns.values())
            held = rows.slots[rows.slots >= run.oldest]
            assert run.live_rows == len(held)
            assert run.lowest_slot == held.min(initial=NO_SLOT)
            assert run.highest_slot == rows.slots.max(initial=NO_END)
            for runs in rows.multisets.values():
                assert len(runs.offsets) == len(rows) + 1
                assert runs.offsets[0] == 0
                assert runs.offsets[-1] == len(runs.items) == len(runs.counts)
                assert np.all(runs.counts > 0)

    def _belong_together(self, older: int, younger: int) -> bool:
        """Whether two neighbouring runs with these numbers of rows must be merged."""
        if self._are_few:
            return older < RATIO * younger
        return RATIO * older <= younger or (older + younger <= SMALL and older <= 2 * younger)
