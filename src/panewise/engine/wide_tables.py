"""Wide tables: the answers of one query, or of a family of queries, with a typed column for each SELECT item.

The columns are those that lowering made; nothing goes through the long form. Rows are in the order of the ends of their
windows, and within an end in the order in which groups were first seen. A row of a family is a window end and a group
for which some query of the family reports something; a query that has no answer there shows NULL.
Cost: O(rows) a column. A family whose rows are few among all pairs of an end and a group is sorted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from operator import ge, le
from typing import Literal

import numpy as np
import pyarrow as pa

from panewise.aggregates.lowering import Lowered
from panewise.arrays import Bools, Column, Ints
from panewise.engine.answers import Groups, QueryAnswers, array_of_objects, objects_or_none, public_type, timestamps
from panewise.engine.families import ENDED, WINDOW_END, Family
from panewise.engine.tables import KeyTable
from panewise.engine.wide_columns import (
    WINDOW_START,
    AggregateColumn,
    GroupColumn,
    aggregate_columns,
    query_columns,
    query_schema,
)
from panewise.errors import NamesClashError
from panewise.language.model import Query, Stream
from panewise.windows import Window, reports_by_substream
from panewise.windows.instances import end_numbers

_DENSE = 8
"""Up to this many pairs of an end and a group for each row, rows are found in an array of all pairs."""


@dataclass(frozen=True)
class Closed:
    """What closed together: the reported answers, and all answers at their places.

    The two differ if only changes are reported: a family shows its row if one of its queries has changed, and the row
    has the answers of all of them.
    """

    reported: Sequence[QueryAnswers]
    every: Sequence[QueryAnswers]
    read: Sequence[QueryAnswers] = ()
    """All answers of the queries whose answers others read, whatever is reported."""

    def of(self, queries: Container[str]) -> Closed:
        """The answers of some queries."""
        return Closed(
            [part for part in self.reported if part.query.name in queries],
            [part for part in self.every if part.query.name in queries],
        )

    @property
    def nbytes(self) -> int:
        """The memory of the reported answers; arrays that several queries share count once."""
        return sum({id(array): array.nbytes for part in self.reported for array in _arrays(part)}.values())


def _arrays(part: QueryAnswers) -> Iterator[Column]:
    yield from (part.starts_us, part.ends_us, part.keys, part.instances)
    for lowered in part.lowered.values():
        yield from (lowered.values, lowered.valid)
        if lowered.exact is not None:
            yield lowered.exact
    for bounds in part.bounds.values():
        yield from bounds


def query_table(stream: Stream, query: Query, parts: Sequence[QueryAnswers], *, marks_ended: bool) -> pa.Table:
    """The answers of one query: `window_start`, `window_end`, its groups, its SELECT items; `ended` if asked for."""
    rows = _Rows(parts, query.group_by, stream)
    columns = _query_columns(stream, query, rows, parts)
    if marks_ended:
        _mark(columns, query.name, rows, [part for part in parts if not part.is_gone])
    return _by_end(pa.table(columns), query.window)


def lookup_table(stream: Stream, answers: QueryAnswers) -> pa.Table:
    """The answers of one lookup, like those of a query whose windows close; in the order in which they were found."""
    query = answers.query
    if not len(answers):
        return query_schema(stream, query).empty_table()
    return pa.table(_query_columns(stream, query, _LookupRows(answers), [answers]))


def _query_columns(
    stream: Stream, query: Query, rows: _Rows | _LookupRows, parts: Sequence[QueryAnswers]
) -> dict[str, pa.Array]:
    columns = {WINDOW_START: timestamps(rows.starts_us), WINDOW_END: timestamps(rows.ends_us)}
    groups = rows.group_columns(stream)
    filling = _Filling(rows, parts)
    for column in query_columns(stream, query):
        if isinstance(column, GroupColumn):
            columns[column.name] = groups[column.attribute]
        else:
            columns[column.name] = filling.column(column)
    return columns


def family_table(stream: Stream, family: Family, closed: Closed, *, marks_ended: bool) -> pa.Table:
    """The answers of a family: `window_end`, the groups, a column for each aggregate; `ended` if asked for.

    `closed` has the answers of its queries and no others.
    """
    every = [part for part in closed.every if not part.is_gone]
    rows = _Rows(closed.reported, family.group_by, stream)
    columns = {WINDOW_END: timestamps(rows.ends_us), **rows.group_columns(stream)}
    found: dict[str, list[QueryAnswers]] = {query.name: [] for query in family.queries}
    for part in every:
        found[part.query.name].append(part)
    fillings = {query.name: _Filling(rows, found[query.name]) for query in family.queries}
    for query, item, name in family.columns:
        for column in aggregate_columns(stream, query, item.expression, name):
            columns[column.name] = fillings[query.name].column(column)
    if marks_ended:
        _mark(columns, family.name, rows, every)
    return _by_end(pa.table(columns), family.queries[0].window)


def _by_end(table: pa.Table, window: Window) -> pa.Table:
    """The rows in the order of their ends in time. Of windows that each substream counts, numbers do not tell it."""
    if not reports_by_substream(window):
        return table
    ends = np.asarray(table.column(WINDOW_END).cast(pa.int64()))
    return table.take(pa.array(np.argsort(ends, kind="stable")))


def beside_changes(
    stream: Stream, families: Iterable[Family], changed: Sequence[QueryAnswers], every: Sequence[QueryAnswers]
) -> list[QueryAnswers]:
    """The answers of all queries at the windows and groups for which a query of their family reports a change."""
    kept: list[QueryAnswers] = []
    for family in families:
        if len(family.queries) == 1:
            kept += [part for part in changed if part.query.name == family.queries[0].name and not part.is_gone]
            continue
        members = {query.name for query in family.queries}
        mine = Closed(changed, every).of(members)
        if mine.reported:
            rows = _Rows(mine.reported, family.group_by, stream)
            kept += [part.from_rows(np.flatnonzero(rows.places(part) >= 0)) for part in mine.every]
    return kept


def _mark(columns: dict[str, pa.Array], what: str, rows: _Rows, lasting: Iterable[QueryAnswers]) -> None:
    """Add the column that tells which groups have no answer any more."""
    if ENDED in columns:
        raise NamesClashError(
            f"{what}: a column of its answers is named {ENDED!r}, which is the name of the column that marks ended "
            f"groups; choose another name after AS, or rename the attribute, or read the changes with long()"
        )
    ended = np.ones(rows.count, np.bool_)
    for part in filter(len, lasting):
        if rows.are_of(part):
            ended[:] = False
            break
        there = rows.places(part)
        ended[there[there >= 0]] = False
    columns[ENDED] = pa.array(ended)


class _Rows:
    """The rows of a table: pairs of a window's end and a group, rising, and where answers lie among them.

    A pair is a number: the end's number times the groups, plus the group's number.
    """

    def __init__(self, parts: Sequence[QueryAnswers], group_by: tuple[str, ...], stream: Stream) -> None:
        self._parts = [part for part in parts if len(part)]
        self._names = group_by
        self._keys = _SharedKeys(self._parts, group_by, stream)
        different = {_windows_of(part): part for part in self._parts}
        self._different = sorted(different.values(), key=len, reverse=True)
        """The parts, one for each set of windows and groups, the longest first."""
        self._known_pairs: dict[_Windows, Ints] = {}
        self._sources: dict[tuple[_Windows, ...], _Sources] = {}
        """Where rows have their answers from, which queries over the same windows share."""
        self._ranks: Ints | None = None
        """The numbers of the ends, if they are far apart."""
        if len(self._different) == 1 and self._is_in_order(self._different[0]):
            self._take_over(self._different[0])
        else:
            self._find_rows()
        self.count = len(self._rows)

    def _is_in_order(self, part: QueryAnswers) -> bool:
        """Whether all answers are of one window, and of groups that rise."""
        keys, instances = self._keys.numbers(part), part.instances
        return bool(
            instances[0] == instances[-1] and (instances == instances[0]).all() and (keys[1:] > keys[:-1]).all()
        )

    def _take_over(self, part: QueryAnswers) -> None:
        """Have the answers of one part as rows, as they are."""
        self._first, self._span = int(_end_numbers(part)[0]), 1
        self._rows = self._known_pairs[_windows_of(part)] = self._keys.numbers(part)
        self._sources[_windows_of(part),] = _Sources(None, None)

    def _find_rows(self) -> None:
        """Find the pairs that some part has."""
        numbers = [_end_numbers(part) for part in self._different]
        self._first = min((int(each.min()) for each in numbers), default=0)
        self._span = max((int(each.max()) for each in numbers), default=self._first - 1) - self._first + 1
        if self._span * self._keys.count > _DENSE * sum(map(len, numbers)) + 1024:
            self._ranks = np.unique(np.concatenate(numbers)) if numbers else np.empty(0, np.int64)
            self._span = len(self._ranks)
        pairs = [self._pairs(part) for part in self._different]
        if self._ranks is None:
            present = np.zeros(self._span * self._keys.count, np.bool_)
            for pair in pairs:
                present[pair] = True
            self._rows = np.flatnonzero(present)
        else:
            self._rows = np.unique(np.concatenate(pairs)) if pairs else np.empty(0, np.int64)

    @property
    def ends_us(self) -> Ints:
        """When the window of each row ends."""
        return self._of_rows("ends_us")

    @property
    def starts_us(self) -> Ints:
        """When the window of each row starts, if all have the same range."""
        return self._of_rows("starts_us")

    def _of_rows(self, times: Literal["starts_us", "ends_us"]) -> Ints:
        """Times that all answers of a row share, from the longest parts that have them."""
        whole = next(filter(self.are_of, self._different), None)
        if whole is not None:
            return np.ascontiguousarray(getattr(whole, times))
        found = np.zeros(self.count, np.int64)
        is_open = np.ones(self.count, np.bool_)
        for part in self._different:
            sources = self.sources([part])
            if sources.present is None:
                return sources.of_rows([getattr(part, times)])
            new = is_open & sources.present
            found[new] = sources.of_rows([getattr(part, times)])[new]
            is_open &= ~new
            if not is_open.any():
                break
        return found

    def group_columns(self, stream: Stream) -> dict[str, pa.Array]:
        """The groups of the rows, in the order of GROUP BY."""
        # Of one end, a pair is the number of a group.
        values = self._keys.columns(self._rows if self._span <= 1 else self._rows % self._keys.count)
        return {name: _public(values[name], stream, name) for name in self._names}

    def are_of(self, part: QueryAnswers) -> bool:
        """Whether the rows are known to be those of a part, in the same order."""
        known = self._sources.get((_windows_of(part),))
        return known is not None and known.places is None and known.present is None

    def places(self, part: QueryAnswers) -> Ints:
        """The row of each answer of a part; -1 for one that has none."""
        if not len(part):
            return np.empty(0, np.int64)
        if self.are_of(part):
            return np.arange(self.count)
        pairs = self._pairs(part)
        if not self.count:
            return np.full(len(pairs), -1)
        found = np.minimum(np.searchsorted(self._rows, pairs), self.count - 1)
        return np.where(self._rows[found] == pairs, found, -1)

    def sources(self, parts: Sequence[QueryAnswers]) -> _Sources:
        """Where the rows have their answers from; `parts` have answers."""
        same = tuple(map(_windows_of, parts))
        if same not in self._sources:
            self._sources[same] = self._find(parts)
        return self._sources[same]

    def _find(self, parts: Sequence[QueryAnswers]) -> _Sources:
        if self._ranks is None:
            answer_of = np.full(self._span * self._keys.count, -1)
            _number(answer_of, _joined([self._pairs(part) for part in parts]))
            places = answer_of[self._rows]
        else:
            places = np.full(self.count, -1)
            _number(places, _joined([self.places(part) for part in parts]))
        present = places >= 0
        if not present.all():
            return _Sources(places, present)
        is_same = sum(map(len, parts)) == self.count and np.array_equal(places, np.arange(self.count))
        return _Sources(None if is_same else places, None)

    def _pairs(self, part: QueryAnswers) -> Ints:
        """The pair of each answer, -1 if no row can have it."""
        same = _windows_of(part)
        if same not in self._known_pairs:
            ends, keys = self._ends(part), self._keys.numbers(part)
            pairs = ends * self._keys.count + keys
            is_known = ends.min() >= 0 and keys.min() >= 0
            self._known_pairs[same] = pairs if is_known else np.where((ends < 0) | (keys < 0), -1, pairs)
        return self._known_pairs[same]

    def _ends(self, part: QueryAnswers) -> Ints:
        """The place of each answer's end among the ends, -1 if it is not there."""
        if self._ranks is None:
            ends = _end_numbers(part) - self._first
            is_known = ends.min() >= 0 and ends.max() < self._span
            return ends if is_known else np.where((ends < 0) | (ends >= self._span), -1, ends)
        wanted = _end_numbers(part)
        if not self._span:
            return np.full(len(wanted), -1, np.int64)
        ends = np.minimum(np.searchsorted(self._ranks, wanted), self._span - 1)
        return np.where(self._ranks[ends] == wanted, ends, -1)


_Windows = tuple[int, int, Window]


def _windows_of(part: QueryAnswers) -> _Windows:
    """What parts have in common that are about the same windows and groups; those of one fold share their arrays."""
    return id(part.keys), id(part.instances), part.query.window


class _SharedKeys:
    """One numbering of the groups for all parts, each of which has a key table of its own."""

    def __init__(self, parts: Sequence[QueryAnswers], group_by: tuple[str, ...], stream: Stream) -> None:
        tables = {id(part.groups.table) for part in parts}
        self._numbers: dict[int, Ints] = {}
        """The numbers of all groups of another key table, or of those of a part with few of them."""
        if len(tables) == 1:
            self._groups = parts[0].groups
        else:
            self._groups = Groups(group_by, KeyTable([stream.attributes[name] for name in group_by]))
            for part in parts:
                self._number(part, self._groups.table.ids)
        self.count = max(1, len(self._groups.table))

    def columns(self, numbers: Ints) -> dict[str, pa.Array]:
        """The attributes of groups, by their numbers."""
        if (numbers[1:] > numbers[:-1]).all():
            return self._groups.decode(numbers)
        if 4 * len(numbers) < self.count:
            used, places = np.unique(numbers, return_inverse=True)
        else:
            used, places = np.arange(len(self._groups.table)), numbers
        indices = pa.array(places)
        return {name: values.take(indices) for name, values in self._groups.decode(used).items()}

    def numbers(self, part: QueryAnswers) -> Ints:
        """The number of each answer's group, -1 for a group that is not here."""
        table = part.groups.table
        if table is self._groups.table:
            return part.keys
        if id(part) not in self._numbers and id(table) not in self._numbers:
            self._number(part, self._groups.table.find)
        return self._numbers[id(part)] if id(part) in self._numbers else self._numbers[id(table)][part.keys]

    def _number(self, part: QueryAnswers, number: Callable[[list[pa.Array], int], Ints]) -> None:
        """Number the groups of a part's key table here, all of them unless the part has few."""
        table = part.groups.table
        if id(table) in self._numbers:
            return
        has_few = 4 * len(part) < len(table)
        keys = part.keys if has_few else np.arange(len(table))
        decoded = part.groups.decode(keys)
        numbers = number([decoded[name] for name in self._groups.names], len(keys))
        self._numbers[id(part) if has_few else id(table)] = numbers


def _end_numbers(part: QueryAnswers) -> Ints:
    """The number of each answer's end: neighbouring ends of a family have neighbouring numbers."""
    return end_numbers(part.query.window, part.instances)


def _public(values: pa.Array, stream: Stream, name: str) -> pa.Array:
    """The values of an attribute in the type that users see."""
    kind = public_type(stream.attributes[name])
    return values if values.type == kind else values.cast(kind)


class _LookupRows:
    """The rows of a lookup: one for each answer, in their order."""

    def __init__(self, answers: QueryAnswers) -> None:
        self.count = len(answers)
        self.starts_us, self.ends_us = answers.starts_us, answers.ends_us
        self._answers = answers

    def group_columns(self, stream: Stream) -> dict[str, pa.Array]:
        """The groups of the rows."""
        values = self._answers.groups.decode(self._answers.keys)
        return {name: _public(array, stream, name) for name, array in values.items()}

    def sources(self, parts: Sequence[QueryAnswers]) -> _Sources:
        """Each row has its own answer. It is copied: structures fill the same arrays again."""
        return _Sources(np.arange(self.count), None)


@dataclass(frozen=True)
class _Sources:
    """For each row the place of its answer among those of some parts, and whether it has one."""

    places: Ints | None
    """None if row and answer have the same place everywhere; any place where there is no answer."""
    present: Bools | None
    """None if every row has an answer."""

    def of_rows(self, values: Sequence[Column]) -> Column:
        """What the rows have of the values of each part; anything where there is no answer."""
        every = _joined(values)
        return np.ascontiguousarray(every) if self.places is None else every.take(self.places, mode="clip")

    @cached_property
    def bits(self) -> pa.Buffer | None:
        """Which rows have an answer, as Arrow says it."""
        return None if self.present is None else _packed(self.present)


class _Filling:
    """The columns of one query's aggregates: answers at their rows, NULL where there is none."""

    def __init__(self, rows: _Rows | _LookupRows, parts: Sequence[QueryAnswers]) -> None:
        self._count = rows.count
        self._parts = [part for part in parts if len(part)]
        self._sources = rows.sources(self._parts) if self._parts else None

    def column(self, column: AggregateColumn) -> pa.Array:
        """A column of an aggregate."""
        if self._sources is None or not self._count:
            return pa.nulls(self._count, column.kind)
        lowered = [part.lowered[column.call] for part in self._parts]
        values = self._sources.of_rows([self._content(column, *each) for each in zip(self._parts, lowered)])
        if pa.types.is_string(column.kind) or pa.types.is_list(column.kind):
            valid = self._sources.of_rows([each.valid for each in lowered])
            if self._sources.present is not None:
                valid = valid & self._sources.present
            return array_of_objects(objects_or_none(values, valid), column.kind)
        content = _packed(values != 0) if pa.types.is_boolean(column.kind) else pa.py_buffer(values)
        buffers = [self._valid(self._sources, lowered), content]
        return pa.Array.from_buffers(column.kind, self._count, buffers)

    @staticmethod
    def _content(column: AggregateColumn, part: QueryAnswers, lowered: Lowered) -> Column:
        match column.content:
            case "values":
                return lowered.values
            case "exact":
                return np.zeros(len(part), np.int64) if lowered.exact is None else lowered.exact
            case side:
                bounds = part.bounds.get(column.call)
                return _around(lowered, side) if bounds is None else bounds[side == "high"]

    @staticmethod
    def _valid(sources: _Sources, lowered: Sequence[Lowered]) -> pa.Buffer | None:
        """Which rows are not NULL; None for all."""
        if all(each.valid.all() for each in lowered):
            return sources.bits
        valid = sources.of_rows([each.valid for each in lowered])
        return _packed(valid if sources.present is None else valid & sources.present)


def _around(lowered: Lowered, side: Literal["low", "high"]) -> Column:
    """A bound of exact answers: themselves, or the next double beside an integer that no double equals."""
    if lowered.exact is None:
        return lowered.values
    away = -inf if side == "low" else inf
    # Python compares a double with an integer exactly.
    known = zip(lowered.values.tolist(), lowered.exact.tolist(), strict=True)
    is_inside = le if side == "low" else ge
    return np.array([value if is_inside(value, exact) else nextafter(value, away) for value, exact in known])


def _joined(parts: Sequence[Column]) -> Column:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _number(numbers: Ints, places: Ints) -> None:
    """Put the numbers 0, 1, 2 ... at some places; -1 is none."""
    if places.min() >= 0:
        numbers[places] = np.arange(len(places))
    else:
        kept = np.flatnonzero(places >= 0)
        numbers[places[kept]] = kept


def _packed(bools: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bools, bitorder="little"))
