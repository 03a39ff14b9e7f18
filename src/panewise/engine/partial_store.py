"""The store of partials: the keyed, columnar rows of one tree, whoever asks for them.

Partials are appended in any order. Each goes to the fragment of its slot; a fragment is named by its first slot. Rows
are kept in packed runs, each sorted by (key, slot); a row is the partial of one fragment. New partials wait until
somebody asks, or until there are as many as rows. Then they become a run: rows that are already held stay where they
are. `SlotStore` closes windows over them, `panewise.spark.lookup_store` answers lookups from them, and compaction of
the slot log merges with them.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from panewise.arrays import Column, Ints
from panewise.engine.closed_windows import ClosedWindows, View
from panewise.engine.packed_rows import NO_SLOT
from panewise.engine.picked_rows import PredicateRows
from panewise.engine.row_tables import RowTables
from panewise.engine.rows import Rows
from panewise.engine.runs import Runs
from panewise.engine.sessions import SessionFold, SessionRows, punctuated
from panewise.planning.trees import PlannedQuery, StreamPlan, Tree
from panewise.windows import PunctuationWindow, SessionWindow
from panewise.windows.clock import END_OF_STREAM, FIRST_US

FEWEST_NEW = 131_072
"""This many partials may always wait before they are merged, for any number of rows."""

FEWEST_GATHERED = 4096
"""Fewer rows are not gathered."""


@dataclass(frozen=True)
class Extent:
    """How far a store reaches: where its first and its last slot begin, its rows, and the groups that they are of."""

    first: int
    last: int
    rows: int
    groups: int


class PartialStore:
    """The partials of one tree.

    `append` costs O(1) a batch and O(log rows) a partial over time. Space: `PackedRows`, and the new partials.
    """

    def __init__(self, plan: StreamPlan, tree: Tree, runs: Runs | None = None) -> None:
        self.plan = plan
        self.tree = tree
        self.tables = RowTables(plan, tree)
        """What rows have numbers for; other tables once keys have other numbers."""
        self._runs = Runs(tree.components) if runs is None else runs
        self._new: list[pa.RecordBatch] = []
        self._new_rows = 0
        self._lowest_new = NO_SLOT
        """The least slot of the new partials."""
        self._oldest: int | None = None
        """Rows before this slot, in runs and in the first `_old_batches` new batches, are about to leave."""
        self._old_batches = 0
        self._left = 0
        """How many rows have left since keys were last looked through."""
        self._gathered = 0
        """How many rows there were when they were last gathered."""
        self.fed = 0
        """How many partials were taken in."""
        self._past_combinations = 0, 0
        """How many combinations of predicates older stores had, of which rows were taken over, and how many these
        rows have."""

    @property
    def live_rows(self) -> int:
        """How many partials are held."""
        if self._oldest is not None:
            self._settle()
        return self._runs.live_rows + self._new_rows

    @property
    def live_keys(self) -> int:
        """How many keys have a number; those of silent keys are given back as slots leave."""
        return len(self.tables.keys)

    @property
    def combinations(self) -> int:
        """How many combinations of the tree's predicates partials had so far."""
        before, marked = self._past_combinations
        return max(before, len(self.tables.shards) - marked)

    def count_values(self) -> list[int]:
        """How many different values each group-by attribute has among the keys. Cost: O(keys)."""
        return [len(column.unique()) for column in self.tables.keys.decode(np.arange(self.live_keys))]

    @property
    def bytes_held(self) -> int:
        """The memory of all rows, with new ones merged in, and of the tables of keys and shards."""
        self._settle()
        self._runs.compact(self.tables.no_rows)
        return self._runs.nbytes + self.tables.nbytes

    def extent(self) -> Extent | None:
        """How far what is held reaches; None if nothing is held."""
        self._settle()
        rows = self._runs.live_rows
        if not rows:
            return None
        unit = self.tree.granularity
        return Extent(self._runs.lowest_slot * unit, self._runs.highest_slot * unit, rows, self.live_keys)

    def fork(self) -> Self:
        """A store that holds the same and goes on in place of this one. Cost: O(runs); rows and keys are shared."""
        twin = copy(self)
        twin._runs, twin._new = self._runs.fork(), list(self._new)
        return twin

    def append(self, partials: pa.RecordBatch) -> None:
        """Take in partials of the tree's base, or of the tree itself, of any slots, in any order."""
        if not partials.num_rows:
            return
        partials = partials.select(self.tables.schema.names)
        lowest = self.tree.cuts.starts(np.asarray(partials.column("slot")).min(keepdims=True))
        self._new.append(partials)
        self._new_rows += partials.num_rows
        self.fed += partials.num_rows
        self._lowest_new = min(self._lowest_new, int(lowest[0]))
        if self._new_rows > max(FEWEST_NEW, self._runs.live_rows):
            self._settle()

    def take_over(self, partials: pa.RecordBatch, combinations: int) -> None:
        """Take in what an older store held, in which predicates had so many combinations."""
        fed = self.fed
        self.append(partials)
        self.fed = fed
        self._settle()
        self._past_combinations = max(combinations, self._past_combinations[0]), len(self.tables.shards)

    def evict(self, oldest: int) -> None:
        """Forget the fragments before the slot `oldest`, and the keys without any fragment left."""
        if oldest > min(self._runs.lowest_slot, self._lowest_new):
            self._oldest = oldest if self._oldest is None else max(oldest, self._oldest)
            self._old_batches = len(self._new)

    def gather(self, oldest: int, *, at_once: bool = False) -> None:
        """Hold the rows before the slot `oldest` as one for each key and shard, once they are much more than that.

        They go to the last fragment before it. Cost: O(rows), each time when there are twice as many as then.
        """
        if not at_once and self._runs.live_rows + self._new_rows < max(FEWEST_GATHERED, 2 * self._gathered):
            return
        self._settle()
        before = int(self.tree.cuts.starts(np.array([oldest - 1]))[0])
        self._runs.gather(oldest, before, self.tables.no_rows)
        self._gathered = self._runs.live_rows

    def numbers_at(self, columns: list[pa.Array]) -> Ints:
        """The numbers here of some groups, rising; groups that are not here have none."""
        self._settle()
        numbers = self.tables.keys.find(columns, len(columns[0])) if columns else np.zeros(1, np.int64)
        return np.unique(numbers[numbers >= 0])

    def rows_of(self, predicate: int | None) -> PredicateRows:
        """The rows in runs that pass a predicate."""
        return PredicateRows(self._runs, self.tables.holds(predicate))

    def standing(
        self, planned: PlannedQuery, at_us: int, keys: Ints | None, slots: tuple[int, int] | None = None
    ) -> ClosedWindows:
        """The sessions, or the windows from one event to another, that a time lies in if no more events come.

        They are made of the slots from one up to another, or of all that are held; none has events after that time.
        With `keys`, which rise, only those of these groups. Cost: O(log rows) a key and run, and these keys' rows;
        O(rows) for all keys.
        """
        self._settle()
        first, end = (self._runs.lowest_slot, self._runs.highest_slot + 1) if slots is None else slots
        first = max(first, self._runs.lowest_slot)
        source, components = self.rows_of(planned.predicate), self.tree.components
        view = source.of_keys(keys, first, end, components, self.tables.no_rows)
        window = planned.query.window
        if isinstance(window, SessionWindow):
            rows = SessionRows(view, self._event_times)
            ((_, fold),) = rows.folds([window], FIRST_US, END_OF_STREAM, self.plan, self.tables.groups)
        else:
            fold = self._punctuated(planned, view, FIRST_US, END_OF_STREAM)
        return ClosedWindows(planned, fold.standing(at_us))

    @property
    def _event_times(self) -> int:
        """The place of the event times among the inputs, in a tree of sessions."""
        return next(planned.times for planned in self.tree.queries if planned.times is not None)

    def _punctuated(self, planned: PlannedQuery, view: View, after_us: int, until_us: int) -> SessionFold:
        """The windows from one event to another of a query that close after a time, up to another."""
        opens, closes = self.tables.holds(planned.opens), self.tables.holds(planned.closes)
        assert opens is not None
        assert closes is not None
        window, groups, shards = planned.query.window, self.tables.groups, view.shards
        assert isinstance(window, PunctuationWindow)
        return punctuated(view, opens[shards], closes[shards], window, (after_us, until_us), self.plan, groups)

    def count_from(self, slots: Ints) -> Ints:
        """How many rows in runs have slots from each of some slots on, with any predicate."""
        counts = np.zeros(len(slots), np.int64)
        for run in self._runs:
            counts += run.count_from(slots)
        return counts

    def partials(self) -> pa.RecordBatch:
        """All that is held, as partials that another store can append: the content of a snapshot."""
        self._settle()
        return self.tables.partials_of(self._runs.as_one(self.tables.no_rows).unpacked())

    def check_invariants(self) -> None:
        """Runs are sorted by (key, slot, shard), each at most once, and fill every column; slots begin fragments."""
        self._runs.check_invariants()
        for run in self._runs:
            assert np.array_equal(self.tree.cuts.starts(run.place_slots), run.place_slots)
            assert run.numbers.max(initial=0) < max(1, self.live_keys)

    def _settle(self) -> None:
        """Turn new partials into a run, and drop old ones."""
        oldest, self._oldest = self._oldest, None
        self._before_leaving(oldest)
        if oldest is not None:
            self._left += self._runs.forget(oldest)
        if self._new:
            new = self.tables.rows_of(self._new)
            if oldest is not None:
                # Partials that came after the eviction stay, with any slot.
                held = sum(batch.num_rows for batch in self._new[: self._old_batches])
                stays = (new.slots >= oldest) | (np.arange(len(new)) >= held)
                self._left += int(np.count_nonzero(~stays))
                new = new.take(np.flatnonzero(stays))
            self._before_adding(new)
            self._runs.add(new)
            self._new, self._new_rows, self._lowest_new = [], 0, NO_SLOT
        # Only when as many rows have left as are held: to look for unused keys means to look at all rows.
        if self._left > self._runs.live_rows:
            self._left = 0
            self._free_keys()

    def _before_leaving(self, oldest: int | None) -> None:
        """Rows before a slot are about to leave runs; None if no row is."""

    def _before_adding(self, new: Rows) -> None:
        """New rows are about to become a run."""

    def _renumbered(self, used: Ints, numbers: Column) -> None:
        """Only these keys are left, and have new numbers, given by their old ones."""

    def _free_keys(self) -> None:
        """Free the numbers of keys without rows, once these are the larger part."""
        if not self.tree.group_by:
            return
        used = self._runs.used_keys(self.live_keys)
        if 2 * len(used) >= self.live_keys:
            return
        self.tables, numbers = self.tables.of_keys(used)
        self._runs.renumber(numbers)
        self._renumbered(used, numbers)
