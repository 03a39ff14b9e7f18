"""Nested windows: what closes at one edge, folded for all windows of a predicate in one pass over the rows.

Windows that end together contain each other. Their starts cut the rows into pieces. Each row is combined into its piece
and key; then each piece is combined with the newer ones, which gives the longer windows from the shorter. Rows may lie
in any number of runs, so runs need not be merged first.
Cost: for each component O(rows), and O(keys) a window, for any number of queries. If queries need few keys, as after a
HAVING, only the rows of these are read. Needs: components of a fixed number of words, with an associative and
commutative combine, as rows of a piece are combined run after run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Component, Kind
from panewise.aggregates.lowering import Lowered
from panewise.arrays import Bools, Column, Floats, Ints, Numbers
from panewise.engine.answers import Groups
from panewise.engine.closed_windows import FEW, Folded, Lowering
from panewise.engine.packed_rows import PackedRows
from panewise.kernels.key_ranges import rows_of_ranges
from panewise.kernels.nested_windows import (
    accumulate_pairs,
    accumulate_squares,
    add_doubles,
    add_integers,
    add_sums_of_squares,
    keep_extremes,
    mark_covered,
)
from panewise.planning.trees import PlannedAggregate, StreamPlan

MOST_PIECES = 32
"""The most windows of one edge that are folded in one pass."""
FEW_CELLS = 131_072
"""Up to this many windows times keys are lowered together: separate calls would cost more than the extra numbers."""


def can_nest(component: Component) -> bool:
    """Whether a component can be folded this way: it is neither a multiset nor a sketch nor joined."""
    return component.kind.has_totals


class RowReading:
    """The columns of runs while windows close: each is unpacked once for any number of predicates."""

    def __init__(self) -> None:
        self._columns: dict[tuple[int, str], Column] = {}

    def column(self, run: PackedRows, name: str) -> Column:
        """All rows of a column."""
        key = id(run), name
        if key not in self._columns:
            self._columns[key] = run.column(name)
        return self._columns[key]


@dataclass(frozen=True)
class _SuffixPart:
    """Rows of one run: all, or some. `pieces` has the piece of each place."""

    run: PackedRows
    numbers: Numbers
    places: Numbers
    pieces: Ints
    rows: Ints | None
    reading: RowReading

    def column(self, name: str) -> Column:
        if self.rows is not None:
            return self.run.column(name, self.rows)
        return self.reading.column(self.run, name)

    def of_keys(self, wanted: Ints) -> _SuffixPart:
        """The rows of some keys, which rise; a key's number becomes its place among them."""
        bounds = np.searchsorted(self.numbers, np.append(wanted, wanted + 1).astype(np.uint32))
        low, high = bounds[: len(wanted)], bounds[len(wanted) :]
        rows = rows_of_ranges(low, high, int((high - low).sum()))
        numbers = np.repeat(np.arange(len(wanted), dtype=np.uint32), high - low)
        return _SuffixPart(self.run, numbers, self.places[rows], self.pieces, rows, self.reading)


class NestedWindows:
    """The windows that end at one edge, over the rows that pass one predicate.

    `starts` are the different first slots of the windows, falling; the piece of a window is the place of its start.
    """

    def __init__(self, parts: list[_SuffixPart], pieces: int, keys: int) -> None:
        self._pieces = pieces
        self._keys = keys
        self._parts = parts
        self._places = [(part.numbers, part.places, (part.pieces * keys).astype(np.uint64)) for part in parts]
        """Of each part the keys, the places, and the first cell of the line of each place."""
        self._folded: dict[Component, tuple[Column, ...]] = {}
        self._expected: list[Ints] = []
        self._few: tuple[Ints, NestedWindows] | None = None
        """Some keys, and the windows of these alone."""
        self._all: _AllWindows | None = None
        self.visited = 0
        """How many rows the windows cover."""
        self.covered = self._covered()
        """For each piece, which keys have rows from there on."""

    @staticmethod
    def of(
        runs: list[PackedRows], starts: list[int], end: int, holds: Bools | None, keys: int, reading: RowReading
    ) -> NestedWindows:
        """The windows from some slots up to another; `holds` says which shards pass."""
        parts = []
        for run in runs:
            pieces = len(starts) - np.searchsorted(starts[::-1], run.place_slots, side="right")
            is_out = (run.place_slots >= end) | (run.place_slots < run.oldest)
            pieces[is_out if holds is None else is_out | ~holds[run.place_shards]] = len(starts)
            if len(pieces) and pieces.min() < len(starts):
                parts.append(_SuffixPart(run, run.numbers, run.places, pieces, None, reading))
        return NestedWindows(parts, len(starts), keys)

    @property
    def is_small(self) -> bool:
        """Whether the answers of all windows and keys are lowered together."""
        return self._pieces * self._keys <= FEW_CELLS

    def expect(self, keys: Ints) -> None:
        """Announce that components of some keys will be needed."""
        self._expected.append(keys)

    def lowered(self, aggregate: PlannedAggregate, piece: int, keys: Ints, plan: StreamPlan) -> Lowered | None:
        """The answers of an aggregate, for one window and the given keys, picked from those of all windows and keys.

        None if these are too many.
        """
        if not self.is_small:
            return None
        if self._all is None:
            self._all = _AllWindows(self, plan)
        return self._all.lowered(aggregate).take(piece * self._keys + keys)

    def lines(self, component: Component) -> tuple[Column, ...]:
        """The folded columns of a component, with a line for each piece and a value for each key."""
        if component not in self._folded:
            self._folded[component] = self._fold(component)
        return self._folded[component]

    def component(self, component: Component, piece: int, keys: Ints, *, is_some: bool) -> tuple[Column, ...]:
        """The folded columns of a component, for one window and the given keys, which are some or all that it covers.

        All keys are folded and kept for other queries, unless very few are needed.
        """
        if is_some and component not in self._folded:
            few = self._of_few(keys)
            if few is not None:
                windows, numbers = few
                return windows.component(component, piece, numbers, is_some=False)
        return tuple(column[piece].take(keys) for column in self.lines(component))

    def _of_few(self, keys: Ints) -> tuple[NestedWindows, Ints] | None:
        """The windows of a few keys that include the given ones, and the numbers of these; None if they are many."""
        if self._few is not None:
            wanted, windows = self._few
            numbers = np.searchsorted(wanted, keys)
            if numbers[-1] < len(wanted) and np.array_equal(wanted[numbers], keys):
                return windows, numbers
            self._expected.append(wanted)
        wanted = np.unique(np.concatenate([*self._expected, keys]))
        self._expected = [wanted]
        if FEW * len(wanted) >= self._keys:
            return None
        parts = [part.of_keys(wanted) for part in self._parts]
        windows = NestedWindows([part for part in parts if len(part.numbers)], self._pieces, len(wanted))
        self._few = wanted, windows
        return windows, np.searchsorted(wanted, keys)

    def _cells_of(self, dtype: npt.DTypeLike, start: float | int) -> Column:
        return np.full((self._pieces + 1) * self._keys, start, dtype)

    def _lines_of(self, cells: Column) -> Column:
        """The cells of all pieces, without those of rows that no window covers."""
        return cells.reshape(self._pieces + 1, self._keys)[:-1]

    def _covered(self) -> Bools:
        covered = self._cells_of(np.bool_, start=False)
        for places in self._places:
            self.visited += mark_covered(*places, covered, self._pieces * self._keys)
        return _accumulated(self._lines_of(covered), np.logical_or)

    def _fold(self, component: Component) -> tuple[Column, ...]:
        kind, names = component.kind, component.column_names()
        match kind:
            case Kind.SUM_FLOAT:
                return self._sums_of_pairs(*names)
            case Kind.SQUARES:
                return self._sums_of_squares(names)
            case Kind.MIN | Kind.MAX:
                return (self._extremes(names[0], kind is Kind.MAX),)
            case _:
                return tuple(self._sums(name) for name in names)

    def _sums(self, name: str) -> Ints:
        sums = self._cells_of(np.int64, 0)
        for part, places in zip(self._parts, self._places, strict=True):
            add_integers(*places, part.column(name), sums)
        return _accumulated(self._lines_of(sums), np.add)

    def _sums_of_pairs(self, high_name: str, low_name: str) -> tuple[Floats, Floats]:
        high, low = self._cells_of(np.float64, 0.0), self._cells_of(np.float64, 0.0)
        for part, places in zip(self._parts, self._places, strict=True):
            add_doubles(*places, part.column(high_name), part.column(low_name), high, low)
        lines = self._lines_of(high), self._lines_of(low)
        accumulate_pairs(*lines)
        return lines

    def _sums_of_squares(self, names: tuple[str, ...]) -> tuple[Floats, ...]:
        sums = np.zeros((4, (self._pieces + 1) * self._keys))
        for part, places in zip(self._parts, self._places, strict=True):
            add_sums_of_squares(*places, tuple(part.column(name) for name in names), sums)
        lines = sums.reshape(4, self._pieces + 1, self._keys)[:, :-1]
        accumulate_squares(lines)
        return tuple(lines)

    def _extremes(self, name: str, greatest: bool) -> Column:
        columns = [part.column(name) for part in self._parts]
        if columns[0].dtype == np.float64:
            # NaN is above all numbers, so a MIN starts from NaN and any value replaces it.
            best = self._cells_of(np.float64, -np.inf if greatest else np.nan)
        else:
            best = self._cells_of(np.int64, np.iinfo(np.int64).min if greatest else np.iinfo(np.int64).max)
        for column, places in zip(columns, self._places, strict=True):
            keep_extremes(*places, column, greatest, best)
        return _accumulated(self._lines_of(best), np.maximum if greatest else np.fmin)


class _AllWindows(Lowering):
    """All windows of an edge and all keys, one line after the other, covered or not."""

    def __init__(self, windows: NestedWindows, plan: StreamPlan) -> None:
        self._windows = windows
        self.plan = plan
        self._lowered = {}

    def component(self, component: Component, rows: Ints | None = None) -> tuple[Column, ...]:
        """The folded columns of a component."""
        folded = tuple(column.ravel() for column in self._windows.lines(component))
        return folded if rows is None else tuple(column[rows] for column in folded)


_Edge = tuple[NestedWindows, int, Ints]
"""The windows that end at an edge, and for one of them the piece in which it starts and the keys that it covers."""


@dataclass
class NestedFold(Folded):
    """The instances of one window, one edge after the other."""

    edges: list[_Edge]
    keys: Ints
    instances: Ints
    plan: StreamPlan
    groups: Groups
    _folded: dict[Component, tuple[Column, ...]] = field(default_factory=dict)
    _lowered: dict[tuple[str, int | None, float | None], Lowered] = field(default_factory=dict)

    @staticmethod
    def of(found: list[tuple[int, NestedWindows, int]], plan: StreamPlan, groups: Groups) -> NestedFold:
        """A window's instances: for each its number, the windows that end with it, and the piece where it starts."""
        edges = [(windows, piece, np.flatnonzero(windows.covered[piece])) for _, windows, piece in found]
        instances = np.repeat([instance for instance, _, _ in found], [len(keys) for _, _, keys in edges])
        return NestedFold(_not_empty(edges), np.concatenate([keys for _, _, keys in edges]), instances, plan, groups)

    def _fold(self, component: Component) -> tuple[Column, ...]:
        return _joined([w.component(component, piece, keys, is_some=False) for w, piece, keys in self.edges])

    def _fold_some(self, component: Component, rows: Ints) -> tuple[Column, ...]:
        return _joined([w.component(component, piece, keys, is_some=True) for w, piece, keys in self._at(rows)])

    def _lower(self, aggregate: PlannedAggregate, rows: Ints | None) -> Lowered:
        if len(self.edges) == 1:
            ((windows, piece, keys),) = self.edges
            made = windows.lowered(aggregate, piece, keys if rows is None else keys[rows], self.plan)
            if made is not None:
                return made
        return super()._lower(aggregate, rows)

    def chosen(self, rows: Ints) -> NestedFold:
        """Some of the instances; `rows` rise."""
        return NestedFold(self._at(rows), self.keys[rows], self.instances[rows], self.plan, self.groups)

    def expect(self, rows: Ints) -> None:
        """Announce that components of some instances will be needed."""
        for windows, _, keys in self._at(rows):
            if not windows.is_small:
                windows.expect(keys)

    def _at(self, rows: Ints) -> list[_Edge]:
        """The edges with some of their instances."""
        if len(self.edges) == 1:
            windows, piece, keys = self.edges[0]
            return _not_empty([(windows, piece, keys[rows])])
        begins = np.cumsum([0, *(len(keys) for _, _, keys in self.edges)])
        bounds = np.searchsorted(rows, begins)
        edges = [
            (windows, piece, keys[rows[bounds[place] : bounds[place + 1]] - begins[place]])
            for place, (windows, piece, keys) in enumerate(self.edges)
        ]
        return _not_empty(edges)


def _not_empty(edges: list[_Edge]) -> list[_Edge]:
    return [edge for edge in edges if len(edge[2])]


def _joined(parts: list[tuple[Column, ...]]) -> tuple[Column, ...]:
    if len(parts) == 1:
        return parts[0]
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _accumulated(lines: Column, combine: Callable[..., Any]) -> Column:
    """Each line combined with all before it, in place."""
    for line in range(1, len(lines)):
        combine(lines[line - 1], lines[line], out=lines[line])
    return lines
