"""The slot store: the keyed, columnar state of one execution tree, and the answers of the windows that close.

This is the inner part of the engine and of each Spark bucket: partials are appended, windows are closed, old fragments
leave.

A window that closes again and again is carried from edge to edge with `panewise.engine.moving`, where that costs less
than to fold it anew. Other windows that end at one edge, or at a few, are folded together with
`panewise.engine.nested`, over the runs as they are. If many edges have passed at once, and for multisets and sketches,
runs are merged into one, and each window is folded over its ranges of rows with `kernels.folding`: for any overlap, a
row is combined a constant number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Self

import numpy as np

from panewise.aggregates.components import Kind
from panewise.arrays import Column, Ints
from panewise.engine.answers import Groups
from panewise.engine.asked import Asked, AskedWindow
from panewise.engine.closed_windows import ClosedWindows, Fold, Folded, RepeatedFold, View
from panewise.engine.moved_windows import Instances, MovedWindows
from panewise.engine.nested import MOST_PIECES, NestedFold, NestedWindows, RowReading, can_nest
from panewise.engine.packed_rows import PackedRows
from panewise.engine.partial_store import PartialStore
from panewise.engine.rows import Rows
from panewise.engine.sessions import SessionRows
from panewise.engine.several_windows import SeveralWindows
from panewise.kernels.instances import closed_instances, listed_instances
from panewise.planning.memory import FEWEST_KEPT
from panewise.planning.trees import StreamPlan, Tree
from panewise.windows import PunctuationWindow, SessionWindow, TimeWindow, Window
from panewise.windows.clock import END_OF_STREAM, FIRST_US
from panewise.windows.instances import ends_of, instances_closed, last_ending, last_starting, starts_of
from panewise.windows.slots import lengths_in_slots, lengths_of

MOST_EDGES = 4
"""With more edges than this at once, ranges of rows are folded, which visits a row once for all edges."""

MOST_ORDERED = 2**62
"""Keys and slots are ordered as one number below this."""

Closing = dict[Window, tuple[int, int]]
"""The first and the last instance of each window that ends."""
Edges = dict[int, dict[Window, tuple[int, int]]]
"""The windows that end at each edge, with the instance and its first slot."""


class SlotStore(PartialStore):
    """The partials of one tree, from the oldest slot that an open window may need.

    `close` costs nothing if no window ends; otherwise a sort of the new partials, then O(rows) per different predicate
    and O(groups) per different window and predicate.
    """

    def __init__(self, plan: StreamPlan, tree: Tree) -> None:
        super().__init__(plan, tree)
        self._nests = all(map(can_nest, tree.components))
        self._can_be_in_order = all(can_nest(one) or one.kind is Kind.VALUES for one in tree.components)
        self._moved = MovedWindows(tree)
        self._has_ended_sessions = False
        """Whether sessions closed since rows were last looked through for those that have ended."""
        self._folded = 0
        """How many fragments were visited, and answers made of them, by folding anew."""
        self.closings = 0
        """How many times some window closed."""
        self.last_start: int | None = None
        """Where the newest window that closed with events starts, whether or not a group passed HAVING."""

    @property
    def bytes_held(self) -> int:
        """The memory of all rows, with new ones merged in, of the tables, and of the windows that move."""
        return super().bytes_held + self._moved.nbytes

    @property
    def folded(self) -> int:
        """How many fragments were visited, and answers made of them, as windows closed."""
        return self._folded + self._moved.visited

    @property
    def choices(self) -> Iterator[tuple[Window, bool, float, float]]:
        """Of each window that could move when it last closed, whether it did, and what both ways take in rows."""
        return self._moved.choices

    def fork(self) -> Self:
        """A store that holds the same and goes on in place of this one. Cost: O(runs); rows and keys are shared."""
        twin = super().fork()
        twin._moved = self._moved.hand_over()
        return twin

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
        self._moved.forget(asked)
        edges = self._edges(closing) if keys is None else None
        reading = RowReading()
        for predicate, windows in asked.by_predicate.items():
            here = {window: closing[window] for window in windows if window in closing}
            by_window = {window: windows[window] for window in here}
            if not here:
                continue
            may_move = self._moved.follow(predicate, here, is_few=edges is not None) if keys is None else set()
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
                several = SeveralWindows.of(planned, kept, self._no_instances)
                if several is not None:
                    yield ClosedWindows(planned, several)

    def _sessions(
        self, asked: Asked, closing: Closing, after: int | None, until: int | None, *, may_pass: bool
    ) -> Iterator[ClosedWindows]:
        """The sessions of each query that close in (after, until]."""
        after_us, until_us = FIRST_US if after is None else after, END_OF_STREAM if until is None else until
        groups = self.tables.groups
        for predicate, windows in asked.by_predicate.items():
            here = [window for window in windows if isinstance(window, SessionWindow) and window in closing]
            if not here:
                continue
            rows = SessionRows(self._view(predicate), self._event_times)
            for window, fold in rows.folds(here, after_us, until_us, self.plan, groups):
                if fold.is_empty:
                    continue
                self._has_ended_sessions = True
                self._folded += len(fold)
                start = int(fold.starts_us.max())
                self.last_start = start if self.last_start is None else max(start, self.last_start)
                queries = windows[window].may_pass(fold) if may_pass else windows[window].queries
                yield from (ClosedWindows(planned, fold) for planned in queries)

    def _from_event_to_event(
        self, asked: Asked, closing: Closing, after: int | None, until: int | None, *, may_pass: bool
    ) -> Iterator[ClosedWindows]:
        """The windows that events open and close, of each query, that close in (after, until]."""
        after_us, until_us = FIRST_US if after is None else after, END_OF_STREAM if until is None else until
        for predicate, windows in asked.by_predicate.items():
            view = self._view(predicate)
            for window in (one for one in windows if one in closing):
                assert isinstance(window, PunctuationWindow)
                planned = next(one for one in self.tree.queries if one.query.window == window)
                fold = self._punctuated(planned, view, after_us, until_us)
                if fold.is_empty:
                    continue
                self._folded += len(fold)
                start = int(fold.starts_us.max())
                self.last_start = start if self.last_start is None else max(start, self.last_start)
                queries = windows[window].may_pass(fold) if may_pass else windows[window].queries
                yield from (ClosedWindows(planned, fold) for planned in queries)

    def _since_the_start(self, asked: Asked, closing: Closing, *, may_pass: bool) -> Iterator[ClosedWindows]:
        """The windows from the start of each query, of the groups that have events in the slide that ends.

        Cost: O(log rows) for each of these groups and run, and their rows.
        """
        unit = self.tree.granularity
        lowest = self._runs.lowest_slot
        for predicate, windows in asked.by_predicate.items():
            source = self.rows_of(predicate)
            for window in (one for one in windows if one in closing):
                assert isinstance(window, TimeWindow)
                first, last = closing[window]
                end = ends_of(window, last) // unit
                keys = np.unique(source.between(ends_of(window, first - 1) // unit, end).keys).astype(np.int64)
                if not len(keys):
                    continue
                if (end - lowest) * len(keys) < MOST_ORDERED:
                    view = source.of_keys(keys, lowest, end, self.tree.components, self.tables.no_rows)
                else:
                    view = self._view(predicate)
                # A slide by itself has the groups; all rows before it belong to them too.
                slide = replace(window, left_us=lengths_of(window)[1], grows=False)
                owner, instances, _, high = self._found(view, slide, first, last)
                fold = Fold(view, view.keys[owner], instances, owner, high, self.plan, self.tables.groups)
                if fold.is_empty:
                    continue
                self._folded += int((high - owner).sum())
                start = ends_of(window, fold.last_instance - 1)
                self.last_start = start if self.last_start is None else max(start, self.last_start)
                queries = windows[window].may_pass(fold) if may_pass else windows[window].queries
                yield from (ClosedWindows(planned, fold) for planned in queries)

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
            self._left += self._runs.keep(rows, self.tables.no_rows)

    def numbers_of(self, groups: Groups, keys: Ints) -> Ints:
        """The numbers here of some groups of another table, rising; groups that are not here have none."""
        self._settle()
        columns = groups.decode(keys)
        numbers = self.tables.keys.find([columns[name] for name in self.tree.group_by], len(keys))
        return np.unique(numbers[numbers >= 0])

    def folds_ranges(self, instances: float) -> bool:
        """Whether windows are folded over ranges of rows when this many instances of each close at once."""
        in_order = self._can_be_in_order and self._runs.live_rows >= FEWEST_KEPT * self.live_keys
        return not (self._nests or in_order) or instances > MOST_EDGES

    def check_invariants(self) -> None:
        """Runs are in order, and windows that move have the totals of the rows that they cover."""
        super().check_invariants()
        self._moved.check_invariants(self)

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

    def _few_folds(
        self,
        predicate: int | None,
        edges: Edges,
        asked: Mapping[Window, AskedWindow],
        may_move: set[Window],
        reading: RowReading,
    ) -> Iterator[tuple[Window, Folded]]:
        """Each window with its instances; those for which it costs less move to their edges."""
        instances: dict[Window, Instances] = {window: [] for window in asked}
        for end, ending in sorted(edges.items()):
            for window, (instance, start) in ending.items():
                if window in instances:
                    instances[window].append((instance, start, end))
        moving = self._moved.choose(predicate, instances, may_move, self, self.closings)
        source = self.rows_of(predicate)
        for window in moving:
            found = instances[window]
            yield window, self._moved.move(predicate, window, found, asked[window], self, source, self.closings)
        others = [window for window in asked if window not in moving]
        if others and self._nests:
            yield from self._nested_folds(predicate, edges, others, reading)
        elif others:
            yield from self._folds(predicate, {one: (instances[one][0][0], instances[one][-1][0]) for one in others})

    def _nested_folds(
        self, predicate: int | None, edges: Edges, windows: Iterable[Window], reading: RowReading
    ) -> Iterator[tuple[Window, Folded]]:
        """Each window with its instances, all windows of an edge folded together."""
        groups, holds = self.tables.groups, self.tables.holds(predicate)
        found: dict[Window, list[tuple[int, NestedWindows, int]]] = {window: [] for window in windows}
        for end, ending in sorted(edges.items()):
            starts = sorted({start for window, (_, start) in ending.items() if window in found}, reverse=True)
            for begin in range(0, len(starts), MOST_PIECES):
                some = starts[begin : begin + MOST_PIECES]
                nested = NestedWindows.of(list(self._runs), some, end, holds, self.live_keys, reading)
                self._folded += nested.visited
                for window, (instance, start) in ending.items():
                    if window in found and start in some:
                        found[window].append((instance, nested, some.index(start)))
        for window, instances in found.items():
            fold = NestedFold.of(instances, self.plan, groups)
            self._folded += len(fold)
            yield window, fold

    def _folds(
        self, predicate: int | None, closing: Closing, keys: Ints | None = None
    ) -> Iterator[tuple[Window, Folded]]:
        """Each window with its instances, of some keys or of all, folded over ranges of rows."""
        view = self._view(predicate) if keys is None else self._view_of_keys(predicate, closing, keys)
        for window, (first, last) in closing.items():
            yield window, self._fold(view, window, first, last)

    def _view(self, predicate: int | None) -> View:
        rows = self._runs.as_one(self.tables.no_rows)
        holds = self.tables.holds(predicate)
        return View(rows, None if holds is None else np.flatnonzero(holds[rows.place_shards][rows.places]))

    def _view_of_keys(self, predicate: int | None, closing: Closing, keys: Ints) -> View:
        """The rows of some keys that some instances cover."""
        covered = []
        for window, (first, last) in closing.items():
            covered.append((self._slots_of(window, first)[0], self._slots_of(window, last)[1]))
        first, end = min(start for start, _ in covered), max(end for _, end in covered)
        return self.rows_of(predicate).of_keys(keys, first, end, self.tree.components, self.tables.no_rows)

    @property
    def _no_instances(self) -> Fold:
        none = np.empty(0, np.int64)
        view = View(PackedRows(self.tables.no_rows), None)
        return Fold(view, none, none, none, none, self.plan, self.tables.groups)

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
            self._folded += int((high - np.maximum(low, behind)).sum()) + len(owner)
        groups = self.tables.groups
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

    def _before_leaving(self, oldest: int | None) -> None:
        self._moved.leave(oldest, self)

    def _before_adding(self, new: Rows) -> None:
        self._moved.insert_late(new, self)

    def _renumbered(self, used: Ints, numbers: Column) -> None:
        self._moved.renumber(used, numbers)
