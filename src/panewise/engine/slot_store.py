"""The slot store: the keyed, columnar state of one execution tree, and the answers of the windows that close.

This is the inner part of the engine and of each Spark bucket: partials are appended, windows are closed, old fragments
leave. Each partial goes to the fragment of its slot; a fragment is named by its first slot. Rows are kept in packed
runs, each sorted by (key, slot); a row is the partial of one fragment. New partials wait until a window closes, or
until there are as many as rows. Then they become a run: rows that are already held stay where they are.

A window that closes again and again is carried from edge to edge with `panewise.engine.moving`, where that costs less
than to fold it anew. Other windows that end at one edge, or at a few, are folded together with
`panewise.engine.nested`, over the runs as they are. If many edges have passed at once, and for multisets and sketches,
runs are merged into one, and each window is folded over its ranges of rows with `kernels.folding`: for any overlap, a
row is combined a constant number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Component, Kind
from panewise.aggregates.types import Type
from panewise.engine.answers import Groups
from panewise.engine.asked import Asked, AskedWindow
from panewise.engine.closed_windows import ClosedWindows, Fold, Folded, RepeatedFold, View
from panewise.engine.combine import partials_schema
from panewise.engine.moving import JoinedFold, MovingFold, MovingWindow
from panewise.engine.nested import MOST_PIECES, NestedFold, NestedWindows, RowReading, can_nest
from panewise.engine.packed_rows import NO_END, NO_SLOT, PackedRows
from panewise.engine.picked_rows import PredicateRows
from panewise.engine.rows import Multisets, Rows
from panewise.engine.runs import Runs
from panewise.engine.sessions import SessionRows, punctuated
from panewise.engine.several_windows import SeveralWindows
from panewise.engine.sketches import from_arrow, to_arrow
from panewise.engine.tables import ColumnTable, KeyTable
from panewise.kernels.instances import closed_instances, listed_instances
from panewise.planning.cost import MOVED_ROWS
from panewise.planning.memory import FEWEST_KEPT
from panewise.planning.trees import BITS_PER_WORD, StreamPlan, Tree
from panewise.windows import PunctuationWindow, SessionWindow, TimeWindow, Window
from panewise.windows.clock import END_OF_STREAM, FIRST_US
from panewise.windows.instances import ends_of, instances_closed, last_ending, last_starting, starts_of
from panewise.windows.slots import lengths_in_slots, lengths_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

FEWEST_NEW = 131_072
"""This many partials may always wait before they are merged, for any number of rows."""
MOST_EDGES = 4
"""With more edges than this at once, ranges of rows are folded, which visits a row once for all edges."""

SWEPT_VALUES = 8
"""So many values of a key, in order, are swept over in the time of one row."""
FEWEST_CLOSINGS = 2
"""A window moves once it has closed this many times, one after the other: one that closes once is folded once."""
FEWEST_GATHERED = 4096
"""Fewer rows from the start on are never gathered."""
MOST_ORDERED = 2**62
"""Keys and slots are ordered as one number below this."""
SAME_CHOICE = 16
"""For this many closings the same windows move."""

Closing = dict[Window, tuple[int, int]]
"""The first and the last instance of each window that ends."""
Instances = list[tuple[int, int, int]]
"""Some instances of a window: number, first slot, and the slot after the last."""
Edges = dict[int, dict[Window, tuple[int, int]]]
"""The windows that end at each edge, with the instance and its first slot."""


@dataclass(frozen=True)
class Extent:
    """How far a store reaches: where its first and its last slot begin, its rows, and the groups that they are of."""

    first: int
    last: int
    rows: int
    groups: int


@dataclass(frozen=True)
class _Choice:
    """Which windows of a predicate move."""

    among: set[Window]
    """Those that may move."""
    ending: AbstractSet[Window]
    """All that end at the same time."""
    moving: list[Window]
    costs: dict[Window, tuple[float, float]]
    """What each of those that may move would take in a closing, in rows: to move it, and to fold it anew."""
    until: int
    """Up to how many closings it holds."""

    def holds(self, among: set[Window], ending: Mapping[Window, Any], closings: int) -> bool:
        """Whether the same windows still move."""
        return closings <= self.until and among == self.among and ending.keys() == self.ending


class SlotStore:
    """The partials of one tree, from the oldest slot that an open window may need.

    `append` costs O(1) a batch and O(log rows) a partial over time. `close` costs nothing if no window ends; otherwise
    a sort of the new partials, then O(rows) per different predicate and O(groups) per different window and predicate.
    Space: `PackedRows`, and the new partials.
    """

    def __init__(self, plan: StreamPlan, tree: Tree) -> None:
        self.plan = plan
        self.tree = tree
        self._schema = partials_schema(plan, tree)
        self._key_types = [plan.stream.attributes[key] for key in tree.group_by]
        self._keys = KeyTable(self._key_types)
        self._shards = KeyTable([Type.BIGINT] * plan.shard_words)
        self._items = {
            component: ColumnTable(Type.STRING)
            for component in tree.components
            if component.kind is Kind.VALUES and plan.inputs[component.input or 0].type is Type.STRING
        }
        self._runs = Runs(tree.components)
        self._nests = all(map(can_nest, tree.components))
        self._can_be_in_order = all(can_nest(one) or one.kind is Kind.VALUES for one in tree.components)
        self._new: list[pa.RecordBatch] = []
        self._new_rows = 0
        self._lowest_new = NO_SLOT
        """The least slot of the new partials."""
        self._oldest: int | None = None
        """Rows before this slot, in runs and in the first `_old_batches` new batches, are about to leave."""
        self._old_batches = 0
        self._left = 0
        """How many rows have left since keys were last looked through."""
        self._moving: dict[tuple[int | None, Window], MovingWindow] = {}
        """The windows that are carried from edge to edge, by predicate."""
        self._closed: dict[tuple[int | None, Window], tuple[int, int]] = {}
        """The last instance that closed of each, and how many closed one by one up to it."""
        self._choices: dict[int | None, _Choice] = {}
        """Of each predicate, the windows that move."""
        self._asked: Asked | None = None
        """What queries asked when windows last closed."""
        self._gathered = 0
        """How many rows there were when they were last gathered from the start on."""
        self._has_ended_sessions = False
        """Whether sessions closed since rows were last looked through for those that have ended."""
        self.fed = 0
        """How many partials were taken in."""
        self.folded = 0
        """How many fragments were visited, and answers made of them, as windows closed."""
        self.closings = 0
        """How many times some window closed."""
        self.last_start: int | None = None
        """Where the newest window that closed with events starts, whether or not a group passed HAVING."""

    @property
    def live_rows(self) -> int:
        """How many partials are held."""
        if self._oldest is not None:
            self._settle()
        return self._runs.live_rows + self._new_rows

    @property
    def live_keys(self) -> int:
        """How many keys have a number; those of silent keys are given back as slots leave."""
        return len(self._keys)

    @property
    def combinations(self) -> int:
        """How many combinations of the tree's predicates partials had so far."""
        return len(self._shards)

    def count_values(self) -> list[int]:
        """How many different values each group-by attribute has among the keys. Cost: O(keys)."""
        return [len(column.unique()) for column in self._keys.decode(np.arange(len(self._keys)))]

    @property
    def bytes_held(self) -> int:
        """The memory of all rows, with new ones merged in, and of the tables of keys and shards."""
        self._settle()
        self._runs.compact(self._to_rows([]))
        moving = sum(window.nbytes for window in self._moving.values())
        return self._runs.nbytes + self._keys.nbytes + self._shards.nbytes + moving

    def extent(self) -> Extent | None:
        """How far what is held reaches; None if nothing is held."""
        self._settle()
        rows = self._runs.live_rows
        if not rows:
            return None
        unit = self.tree.granularity
        return Extent(self._runs.lowest_slot * unit, self._runs.highest_slot * unit, rows, len(self._keys))

    def fork(self) -> SlotStore:
        """A store that holds the same and goes on in place of this one. Cost: O(runs); rows and keys are shared."""
        twin = copy(self)
        twin._runs, twin._new = self._runs.fork(), list(self._new)
        twin._closed = dict(self._closed)
        # Moving windows go with the twin: only one of the two can move them on.
        self._moving, self._choices = {}, {}
        return twin

    def append(self, partials: pa.RecordBatch) -> None:
        """Take in partials of the tree's base, or of the tree itself, of any slots, in any order."""
        if not partials.num_rows:
            return
        partials = partials.select(self._schema.names)
        lowest = self.tree.cuts.starts(np.asarray(partials.column("slot")).min(keepdims=True))
        self._new.append(partials)
        self._new_rows += partials.num_rows
        self.fed += partials.num_rows
        self._lowest_new = min(self._lowest_new, int(lowest[0]))
        if self._new_rows > max(FEWEST_NEW, self._runs.live_rows):
            self._settle()

    def close(
        self, asked: Asked, after: int | None, until: int | None, *, may_pass: bool = False, keys: Ints | None = None
    ) -> Iterator[ClosedWindows]:
        """The answers of each query's windows that end in (after, until]; None means the beginning or the end of time.

        Each query's folded windows come as one `ClosedWindows`; queries with the same window and predicate share the
        search for instances and every common component. With `may_pass`, queries whose HAVING no group can pass may be
        left out. With `keys`, which rise, only windows of these, at the cost of their rows.
        """
        ending = {window: instances_closed(window, self.tree.granularity, after, until) for window in asked.windows}
        if all(first > last for first, last in ending.values()):
            return
        self._settle()
        closing = self._covering(ending)
        self.closings += 1
        if self.tree.session_gap_us:
            yield from self._sessions(asked, closing, after, until, may_pass=may_pass)
            return
        if self.tree.is_punctuated:
            yield from self._from_event_to_event(asked, closing, after, until, may_pass=may_pass)
            return
        if self.tree.is_unbounded:
            yield from self._since_the_start(asked, closing, may_pass=may_pass)
            return
        self._forget_windows(asked)
        edges = self._edges(closing) if keys is None else None
        reading = RowReading()
        for predicate, windows in asked.by_predicate.items():
            here = {window: closing[window] for window in windows if window in closing}
            by_window = {window: windows[window] for window in here}
            if not here:
                continue
            may_move = self._follow(predicate, here, is_few=edges is not None) if keys is None else set()
            if edges is None:
                folds = self._folds(predicate, here, keys)
            else:
                folds = self._few_folds(predicate, edges, by_window, may_move, reading)
            joined, kept = asked.joined.get(predicate, []), {}
            for window, fold in folds:
                if not fold.is_empty:
                    if joined:
                        kept[window] = fold
                    start = starts_of(window, fold.last_instance)
                    self.last_start = start if self.last_start is None else max(start, self.last_start)
                    queries = by_window[window].may_pass(fold) if may_pass else by_window[window].queries
                    yield from (ClosedWindows(planned, fold) for planned in queries)
            for planned in joined:
                several = SeveralWindows.of(planned, kept)
                if several is not None:
                    yield ClosedWindows(planned, several)

    def _sessions(
        self, asked: Asked, closing: Closing, after: int | None, until: int | None, *, may_pass: bool
    ) -> Iterator[ClosedWindows]:
        """The sessions of each query that close in (after, until]."""
        after_us, until_us = FIRST_US if after is None else after, END_OF_STREAM if until is None else until
        groups = Groups(self.tree.group_by, self._keys)
        for predicate, windows in asked.by_predicate.items():
            here = [window for window in windows if isinstance(window, SessionWindow) and window in closing]
            if not here:
                continue
            rows = SessionRows(self._view(predicate), self._event_times)
            for window, fold in rows.folds(here, after_us, until_us, self.plan, groups):
                if fold.is_empty:
                    continue
                self._has_ended_sessions = True
                self.folded += len(fold)
                start = int(fold.starts_us.max())
                self.last_start = start if self.last_start is None else max(start, self.last_start)
                queries = windows[window].may_pass(fold) if may_pass else windows[window].queries
                yield from (ClosedWindows(planned, fold) for planned in queries)

    def _from_event_to_event(
        self, asked: Asked, closing: Closing, after: int | None, until: int | None, *, may_pass: bool
    ) -> Iterator[ClosedWindows]:
        """The windows that events open and close, of each query, that close in (after, until]."""
        after_us, until_us = FIRST_US if after is None else after, END_OF_STREAM if until is None else until
        groups = Groups(self.tree.group_by, self._keys)
        for predicate, windows in asked.by_predicate.items():
            for window in (one for one in windows if one in closing):
                assert isinstance(window, PunctuationWindow)
                planned = next(one for one in self.tree.queries if one.query.window == window)
                assert planned.opens is not None
                assert planned.closes is not None
                view = self._view(predicate)
                shards = self._shards_of_view(predicate)
                opens, closes = (self._holds(bit)[shards] for bit in (planned.opens, planned.closes))
                fold = punctuated(view, opens, closes, window, (after_us, until_us), self.plan, groups)
                if fold.is_empty:
                    continue
                self.folded += len(fold)
                start = int(fold.starts_us.max())
                self.last_start = start if self.last_start is None else max(start, self.last_start)
                queries = windows[window].may_pass(fold) if may_pass else windows[window].queries
                yield from (ClosedWindows(planned, fold) for planned in queries)

    def _shards_of_view(self, predicate: int | None) -> Ints:
        """The shard of each row of the view of a predicate."""
        rows = self._runs.as_one(self._to_rows([]))
        shards = rows.place_shards[rows.places]
        return shards if predicate is None else shards[self._holds(predicate)[shards]]

    def _since_the_start(self, asked: Asked, closing: Closing, *, may_pass: bool) -> Iterator[ClosedWindows]:
        """The windows from the start of each query, of the groups that have events in the slide that ends.

        Cost: O(log rows) for each of these groups and run, and their rows.
        """
        unit = self.tree.granularity
        lowest = self._runs.lowest_slot
        for predicate, windows in asked.by_predicate.items():
            source = PredicateRows(self._runs, None if predicate is None else self._holds(predicate))
            for window in (one for one in windows if one in closing):
                assert isinstance(window, TimeWindow)
                first, last = closing[window]
                end = ends_of(window, last) // unit
                keys = np.unique(source.between(ends_of(window, first - 1) // unit, end).keys).astype(np.int64)
                if not len(keys):
                    continue
                if (end - lowest) * len(keys) < MOST_ORDERED:
                    view = source.of_keys(keys, lowest, end, self.tree.components, self._to_rows([]))
                else:
                    view = self._view(predicate)
                # A slide by itself has the groups; all rows before it belong to them too.
                slide = replace(window, left_us=lengths_of(window)[1], grows=False)
                owner, instances, _, high = self._found(view, slide, first, last)
                fold = Fold(
                    view, view.keys[owner], instances, owner, high, self.plan, Groups(self.tree.group_by, self._keys)
                )
                if fold.is_empty:
                    continue
                self.folded += int((high - owner).sum())
                start = ends_of(window, fold.last_instance - 1)
                self.last_start = start if self.last_start is None else max(start, self.last_start)
                queries = windows[window].may_pass(fold) if may_pass else windows[window].queries
                yield from (ClosedWindows(planned, fold) for planned in queries)

    def gather(self, oldest: int, *, at_once: bool = False) -> None:
        """Hold the rows before the slot `oldest` as one for each key and shard, once they are much more than that.

        They go to the last fragment before it. Cost: O(rows), each time when there are twice as many as then.
        """
        if not at_once and self._runs.live_rows + self._new_rows < max(FEWEST_GATHERED, 2 * self._gathered):
            return
        self._settle()
        before = int(self.tree.cuts.starts(np.array([oldest - 1]))[0])
        self._runs.gather(oldest, before, self._to_rows([]))
        self._gathered = self._runs.live_rows

    def evict_sessions(self, closed_us: int) -> None:
        """Forget the rows that no event from a time on can be near to, once they are the larger part."""
        if not self._has_ended_sessions:
            return
        self._has_ended_sessions = False
        self._settle()
        # Events of the slot that the time lies in may still come.
        open_us = closed_us // self.tree.granularity * self.tree.granularity
        rows = SessionRows(self._view(None), self._event_times).open(self.tree.session_gap_us, open_us)
        if 2 * len(rows) < self._runs.live_rows:
            self._left += self._runs.keep(rows, self._to_rows([]))

    @property
    def _event_times(self) -> int:
        """The place of the event times among the inputs, in a tree of sessions."""
        return next(planned.times for planned in self.tree.queries if planned.times is not None)

    def numbers_at(self, columns: list[pa.Array]) -> Ints:
        """The numbers here of some groups, rising; groups that are not here have none."""
        self._settle()
        numbers = self._keys.find(columns, len(columns[0])) if columns else np.zeros(1, np.int64)
        return np.unique(numbers[numbers >= 0])

    def numbers_of(self, groups: Groups, keys: Ints) -> Ints:
        """The numbers here of some groups of another table, rising; groups that are not here have none."""
        self._settle()
        columns = groups.decode(keys)
        numbers = self._keys.find([columns[name] for name in self.tree.group_by], len(keys))
        return np.unique(numbers[numbers >= 0])

    def folds_ranges(self, instances: float) -> bool:
        """Whether windows are folded over ranges of rows when this many instances of each close at once."""
        in_order = self._can_be_in_order and self._runs.live_rows >= FEWEST_KEPT * len(self._keys)
        return not (self._nests or in_order) or instances > MOST_EDGES

    @property
    def choices(self) -> Iterator[tuple[Window, bool, float, float]]:
        """Of each window that could move when it last closed, whether it did, and what both ways take in rows."""
        for choice in self._choices.values():
            for window, (moved, folded) in choice.costs.items():
                yield window, window in choice.moving, moved, folded

    def evict(self, oldest: int) -> None:
        """Forget the fragments before the slot `oldest`, and the keys without any fragment left."""
        if oldest > min(self._runs.lowest_slot, self._lowest_new):
            self._oldest = oldest if self._oldest is None else max(oldest, self._oldest)
            self._old_batches = len(self._new)

    def partials(self) -> pa.RecordBatch:
        """All that is held, as partials that another store can append: the content of a snapshot."""
        self._settle()
        rows = self._runs.as_one(self._to_rows([])).unpacked()
        columns: list[pa.Array] = [pa.array(rows.slots), *self._keys.decode(rows.keys)]
        columns += self._shards.decode(rows.shards)
        for component in self.tree.components:
            names = component.column_names()
            if component.kind.is_sketch:
                columns.append(to_arrow(component.kind, rows.columns[names[0]]))
                continue
            if component.kind is not Kind.VALUES:
                columns += [pa.array(rows.columns[name]) for name in names]
                continue
            runs = rows.multisets[component]
            offsets = pa.array(runs.offsets.astype(np.int32))
            items = pa.array(runs.items)
            if component in self._items:
                items = self._items[component].decode(runs.items.astype(np.int64))
            items = items.cast(self._schema.field(names[0]).type.value_type)
            columns += [
                pa.ListArray.from_arrays(offsets, items),
                pa.ListArray.from_arrays(offsets, pa.array(runs.counts)),
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def check_invariants(self) -> None:
        """Runs are sorted by (key, slot, shard), each at most once, and fill every column; slots begin fragments."""
        self._runs.check_invariants()
        for run in self._runs:
            assert np.array_equal(self.tree.cuts.starts(run.place_slots), run.place_slots)
            assert run.numbers.max(initial=0) < max(1, len(self._keys))
        for (predicate, _), moving in self._moving.items():
            holds = None if predicate is None else self._holds(predicate)
            moving.check_invariants(PredicateRows(self._runs, holds), len(self._keys))

    def _covering(self, closing: Closing) -> Closing:
        """The ending instances that may cover a row: those before the first slot or after the last one cannot."""
        lowest, highest, unit = self._runs.lowest_slot, self._runs.highest_slot, self.tree.granularity
        covering: Closing = {}
        for window, (first, last) in closing.items():
            first = max(first, last_ending(window, lowest * unit) + 1)
            last = min(last, last_starting(window, highest * unit))
            if first <= last:
                covering[window] = first, last
        return covering

    def _edges(self, closing: Closing) -> Edges | None:
        """The windows that end at each edge; None if there are too many edges."""
        if any(last - first >= MOST_EDGES for first, last in closing.values()):
            return None
        edges: Edges = {}
        for window, (first, last) in closing.items():
            for instance in range(first, last + 1):
                start, end = self._slots_of(window, instance)
                edges.setdefault(end, {})[window] = instance, start
        return edges if len(edges) <= MOST_EDGES else None

    def _slots_of(self, window: Window, instance: int) -> tuple[int, int]:
        """The first slot of an instance, and the slot after its last."""
        unit = self.tree.granularity
        return starts_of(window, instance) // unit, ends_of(window, instance) // unit

    def _follow(self, predicate: int | None, closing: Closing, *, is_few: bool) -> set[Window]:
        """Note how windows close, and return those that may move: they close for the first time, and not in bulk."""
        may_move = set()
        for window, (first, last) in closing.items():
            key = predicate, window
            before, times = self._closed.get(key, (first - 1, 0))
            if first <= before:
                continue
            self._closed[key] = last, times + 1 if is_few else 0
            length, slide = lengths_in_slots(window, self.tree.granularity)
            if not is_few:
                self._moving.pop(key, None)
            elif key in self._moving or (times + 1 >= FEWEST_CLOSINGS and slide < length):
                may_move.add(window)
        return may_move

    def _forget_windows(self, asked: Asked) -> None:
        """Forget the totals of windows that no query has any more, and how they closed, once queries have changed."""
        if asked is self._asked:
            return
        self._asked = asked
        known = {(predicate, window) for predicate, windows in asked.by_predicate.items() for window in windows}
        self._closed = {key: closed for key, closed in self._closed.items() if key in known}
        self._moving = {key: moving for key, moving in self._moving.items() if key in known}
        self._choices = {}

    def _few_folds(
        self,
        predicate: int | None,
        edges: Edges,
        asked: Mapping[Window, AskedWindow],
        may_move: set[Window],
        reading: RowReading,
    ) -> Iterator[tuple[Window, Folded]]:
        """Each window with its instances; those for which it costs less move to their edges."""
        holds = None if predicate is None else self._holds(predicate)
        instances: dict[Window, Instances] = {window: [] for window in asked}
        for end, ending in sorted(edges.items()):
            for window, (instance, start) in ending.items():
                if window in instances:
                    instances[window].append((instance, start, end))
        moving = self._choice(predicate, instances, may_move) if may_move else []
        for window in may_move.difference(moving):
            self._moving.pop((predicate, window), None)
        source = PredicateRows(self._runs, holds)
        for window in moving:
            yield window, self._moved(predicate, window, instances[window], asked[window], source)
        others = [window for window in asked if window not in moving]
        if others and self._nests:
            yield from self._nested_folds(holds, edges, others, reading)
        elif others:
            yield from self._folds(predicate, {one: (instances[one][0][0], instances[one][-1][0]) for one in others})

    def _choice(
        self, predicate: int | None, instances: Mapping[Window, Instances], may_move: set[Window]
    ) -> list[Window]:
        """The windows that move; this is thought over from time to time, and when other windows close."""
        chosen = self._choices.get(predicate)
        if chosen is None or not chosen.holds(may_move, instances, self.closings):
            moving, costs = self._cheaper_to_move(instances, may_move)
            chosen = _Choice(may_move, instances.keys(), moving, costs, self.closings + SAME_CHOICE)
            self._choices[predicate] = chosen
        return chosen.moving

    def _cheaper_to_move(
        self, instances: Mapping[Window, Instances], may_move: set[Window]
    ) -> tuple[list[Window], dict[Window, tuple[float, float]]]:
        """The windows that move, the longest first: if these do, fewer rows are left to fold the others from.

        Also what each would take.
        """
        candidates = sorted(may_move, key=lambda window: instances[window][0][1])
        slides = np.array([lengths_in_slots(window, self.tree.granularity)[1] for window in candidates])
        starts = np.array([instances[window][0][1] for window in candidates])
        ends = np.array([instances[window][-1][2] for window in candidates])
        covered = self._rows_from(starts)
        moved = covered - self._rows_from(starts + slides) + self._rows_from(ends - slides) - self._rows_from(ends)
        if not self._nests:
            # What is not made of totals is made anew from all rows of a key, or in a sweep over its values in order.
            rows_a_key = covered // len(self._keys)
            in_order = (rows_a_key >= FEWEST_KEPT) & self._can_be_in_order
            moved = moved * np.maximum(1, np.where(in_order, rows_a_key // SWEPT_VALUES, rows_a_key))
        others = [found[0][1] for window, found in instances.items() if window not in may_move]
        fixed = int(self._rows_from(np.array([min(others)]))[0]) if others else 0
        # All windows that do not move are folded in one pass over the rows of the longest.
        folded = np.maximum(np.append(covered, 0), fixed)
        cost = np.append(0.0, np.cumsum(MOVED_ROWS * moved)) + folded
        costs = zip((MOVED_ROWS * moved).tolist(), covered.tolist(), strict=True)
        return candidates[: int(np.argmin(cost))], dict(zip(candidates, costs, strict=True))

    def _rows_from(self, slots: Ints) -> Ints:
        """How many rows have slots from each of some slots on, with any predicate."""
        counts = np.zeros(len(slots), np.int64)
        for run in self._runs:
            counts += run.count_from(slots)
        return counts

    def _moved(
        self,
        predicate: int | None,
        window: Window,
        instances: Instances,
        asked: AskedWindow,
        source: PredicateRows,
    ) -> Folded:
        """Move a window to each of its instances, and fold these."""
        key = predicate, window
        moving = self._moving.get(key)
        types = tuple(one.type for one in self.plan.inputs)
        needed = [one for one in asked.components(types) if can_nest(one)]
        start, end = instances[0][1:]
        has_many = moving is not None and moving.has_many
        if moving is None or self.closings % SAME_CHOICE == 0:
            fewest = FEWEST_KEPT / 2 if has_many else FEWEST_KEPT
            has_many = source.count(start, end) >= fewest * len(self._keys)
        if moving is None or moving.has_many != has_many or not moving.components.issuperset(needed):
            values = [one for one in asked.components(types) if one.kind is Kind.VALUES]
            moving = self._moving[key] = MovingWindow([*needed, *values], types, start, has_many=has_many)
        groups, folds = Groups(self.tree.group_by, self._keys), []

        def fold_of_keys(keys: Ints, first: int, end: int) -> Fold:
            view = source.of_keys(keys, first, end, self.tree.components, self._to_rows([]))
            self.folded += len(view.slots)
            return Fold(view, keys, np.zeros_like(keys), view.segments[:-1], view.segments[1:], self.plan, groups)

        for instance, start, end in instances:
            self.folded += moving.move(start, end, source, len(self._keys)) + moving.present_keys
            moving.next_start = self._slots_of(window, instance + 1)[0]
            folds.append(MovingFold.of(moving, instance, self.plan, groups, fold_of_keys))
            if len(instances) > 1:
                folds[-1].keep(asked.aggregates)
        return folds[0] if len(folds) == 1 else JoinedFold(folds)

    def _nested_folds(
        self, holds: Bools | None, edges: Edges, windows: Iterable[Window], reading: RowReading
    ) -> Iterator[tuple[Window, Folded]]:
        """Each window with its instances, all windows of an edge folded together."""
        groups = Groups(self.tree.group_by, self._keys)
        found: dict[Window, list[tuple[int, NestedWindows, int]]] = {window: [] for window in windows}
        for end, ending in sorted(edges.items()):
            starts = sorted({start for window, (_, start) in ending.items() if window in found}, reverse=True)
            for begin in range(0, len(starts), MOST_PIECES):
                some = starts[begin : begin + MOST_PIECES]
                nested = NestedWindows.of(list(self._runs), some, end, holds, len(self._keys), reading)
                self.folded += nested.visited
                for window, (instance, start) in ending.items():
                    if window in found and start in some:
                        found[window].append((instance, nested, some.index(start)))
        for window, instances in found.items():
            fold = NestedFold.of(instances, self.plan, groups)
            self.folded += len(fold)
            yield window, fold

    def _folds(
        self, predicate: int | None, closing: Closing, keys: Ints | None = None
    ) -> Iterator[tuple[Window, Folded]]:
        """Each window with its instances, of some keys or of all, folded over ranges of rows."""
        view = self._view(predicate) if keys is None else self._view_of_keys(predicate, closing, keys)
        for window, (first, last) in closing.items():
            yield window, self._fold(view, window, first, last)

    def _view(self, predicate: int | None) -> View:
        rows = self._runs.as_one(self._to_rows([]))
        chosen = None
        if predicate is not None:
            chosen = np.flatnonzero(self._holds(predicate)[rows.place_shards][rows.places])
        return View(rows, chosen)

    def _view_of_keys(self, predicate: int | None, closing: Closing, keys: Ints) -> View:
        """The rows of some keys that some instances cover."""
        covered = []
        for window, (first, last) in closing.items():
            covered.append((self._slots_of(window, first)[0], self._slots_of(window, last)[1]))
        source = PredicateRows(self._runs, None if predicate is None else self._holds(predicate))
        first, end = min(start for start, _ in covered), max(end for _, end in covered)
        return source.of_keys(keys, first, end, self.tree.components, self._to_rows([]))

    def _found(self, view: View, window: Window, first: int, last: int) -> Ints:
        """The instances first .. last of a window, as the kernels list them."""
        # Enough room in most cases: one instance a key when few close, one a row when many do.
        room = min(len(view.slots), (len(view.segments) - 1) * (last - first + 1))
        found = np.empty((4, room), np.int64)
        count = self._find_instances(view, window, first, last, found)
        if count > room:
            found = np.empty((4, count), np.int64)
            self._find_instances(view, window, first, last, found)
        return found[:, :count]

    def _fold(self, view: View, window: Window, first: int, last: int) -> Folded:
        """The instances first .. last of a window, each with its range of the view's rows."""
        owner, instances, low, high = self._found(view, window, first, last)
        if len(owner):
            # Ranges of one key overlap: two stacks visit each row once, and each instance once more.
            behind = np.append(low[0], high[:-1])
            self.folded += int((high - np.maximum(low, behind)).sum()) + len(owner)
        groups = Groups(self.tree.group_by, self._keys)
        return RepeatedFold.of(Fold(view, view.keys[owner], instances, low, high, self.plan, groups))

    def _find_instances(self, view: View, window: Window, first: int, last: int, found: Ints) -> int:
        """List the instances that cover rows; returns how many there are."""
        unit = self.tree.granularity
        if isinstance(window, TimeWindow) and window.zone is not None:
            # No two days of a zone need to be equally long. They are few, so their bounds are listed.
            instances = np.arange(first, last + 1)
            starts, ends = starts_of(window, instances) // unit, ends_of(window, instances) // unit
            return listed_instances(view.slots, view.segments, starts, ends, first, found)
        length, slide = lengths_in_slots(window, unit)
        offset, period = 0, 0
        if isinstance(window, TimeWindow):
            offset = window.offset_us // unit
            length, period = (slide, length) if window.grows else (length, 0)
        return closed_instances(view.slots, view.segments, length, slide, offset, period, first, last, found)

    def _holds(self, predicate: int) -> Bools:
        """Which shards satisfy a predicate."""
        words = self._shards.decode(np.arange(len(self._shards)))
        bits = np.asarray(words[predicate // BITS_PER_WORD])
        return ((bits >> (predicate % BITS_PER_WORD)) & 1).astype(np.bool_)

    def _settle(self) -> None:
        """Turn new partials into a run, and drop old ones."""
        oldest, self._oldest = self._oldest, None
        self._leave(oldest)
        if oldest is not None:
            self._left += self._runs.forget(oldest)
        if self._new:
            new = self._to_rows(self._new)
            if oldest is not None:
                # Partials that came after the eviction stay, with any slot.
                held = sum(batch.num_rows for batch in self._new[: self._old_batches])
                stays = (new.slots >= oldest) | (np.arange(len(new)) >= held)
                self._left += int(np.count_nonzero(~stays))
                new = new.take(np.flatnonzero(stays))
            self._insert_late(new)
            self._runs.add(new)
            self._new, self._new_rows, self._lowest_new = [], 0, NO_SLOT
        # Only when as many rows have left as are held: to look for unused keys means to look at all rows.
        if self._left > self._runs.live_rows:
            self._left = 0
            self._renumber_keys()

    def _insert_late(self, new: Rows) -> None:
        """Put new rows into the moving windows that have passed their slots."""
        passed = max((moving.end for moving in self._moving.values()), default=NO_END)
        if self._lowest_new >= passed:
            return
        late = PackedRows(new.take(np.flatnonzero(new.slots < passed)).merged(self.tree.components))
        for (predicate, _), moving in self._moving.items():
            holds = None if predicate is None else self._holds(predicate)
            moving.insert(PredicateRows([late], holds), len(self._keys))

    def _leave(self, oldest: int | None) -> None:
        """Take off moving windows what their next instance does not cover, before the rows are dropped."""
        for (predicate, window), moving in list(self._moving.items()):
            holds = None if predicate is None else self._holds(predicate)
            self.folded += moving.leave(moving.next_start, PredicateRows(self._runs, holds))
            if oldest is not None and moving.start < oldest:
                # No query has this window any more.
                del self._moving[predicate, window]

    def _to_rows(self, batches: list[pa.RecordBatch]) -> Rows:
        batch = batches[0] if len(batches) == 1 else _united(batches, self._schema)
        columns: dict[str, Column] = {}
        multisets: dict[Component, Multisets] = {}
        for component in self.tree.components:
            names = component.column_names()
            if component.kind is Kind.VALUES:
                multisets[component] = self._to_multisets(component, _one(batch, names[0]), _one(batch, names[1]))
            elif component.kind.is_sketch:
                columns[names[0]] = from_arrow(_one(batch, names[0]))
            else:
                columns.update({name: np.asarray(_one(batch, name)) for name in names})
        keys = [_one(batch, self.plan.key_column(key)) for key in self.tree.group_by]
        # Predicates that no query of this tree has would only split its partials.
        words = [
            pa.array(np.asarray(_one(batch, f"shard_{word}")) & np.int64(mask))
            for word, mask in enumerate(self.plan.shard_masks(self.tree.predicates))
        ]
        return Rows(
            self._keys.ids(keys, batch.num_rows),
            self.tree.cuts.starts(np.asarray(_one(batch, "slot"))),
            self._shards.ids(words, batch.num_rows),
            columns,
            multisets,
        )

    def _to_multisets(self, component: Component, items: pa.Array, counts: pa.Array) -> Multisets:
        offsets = np.asarray(items.offsets).astype(np.int64)
        flat = items.flatten()
        if component in self._items:
            values: Column = self._items[component].codes(flat)
        else:
            values = np.asarray(flat.cast(pa.int64()) if pa.types.is_boolean(flat.type) else flat)
        numbers = np.asarray(counts.flatten())
        return Multisets(values, numbers, offsets - offsets[0], self._items.get(component))

    def _renumber_keys(self) -> None:
        """Free the numbers of keys without rows, once these are the larger part."""
        if not self.tree.group_by:
            return
        used = self._runs.used_keys(len(self._keys))
        if 2 * len(used) >= len(self._keys):
            return
        numbers = np.zeros(len(self._keys), np.uint32)
        live = self._keys.decode(used)
        self._keys = KeyTable(self._key_types)
        # Keys are numbered as they appear; here that is from the least number to the greatest, so the order of rows
        # stays.
        numbers[used] = self._keys.ids(live, len(used))
        self._runs.renumber(numbers)
        for moving in self._moving.values():
            moving.renumber(used, numbers)


def _united(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch | pa.Table:
    table = pa.Table.from_batches(batches, schema)
    return table.combine_chunks().to_batches()[0] if table.num_rows else schema.empty_table()


def _one(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = batch.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
