"""Wide tables: the answers of one query, or of a family of queries, with a typed column for each SELECT item.

The columns are those that lowering made; nothing goes through the long form. Rows are in the order of the ends of their
windows, and within an end in the order in which groups were first seen. A row of a family is a window end and a group
for which some query of the family reports something; a query that has no answer there shows NULL.
Cost: O(rows) a column. A family whose rows are few among all pairs of an end and a group is sorted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.lowering import Lowered
from panewise.engine.answers import Groups, QueryAnswers, public_type, timestamps
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
from panewise.language.expressions import AggregateCall
from panewise.language.model import Query, Stream
from panewise.windows.slots import lengths_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

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
    return pa.table(columns)


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
        assert isinstance(item.expression, AggregateCall)
        for column in aggregate_columns(stream, query, item.expression, name):
            columns[column.name] = fillings[query.name].column(column)
    if marks_ended:
        _mark(columns, family.name, rows, every)
    return pa.table(columns)


def beside_changes(
    stream: Stream, families: Iterable[Family], changed: Sequence[QueryAnswers], every: Sequence[QueryAnswers]
) -> list[QueryAnswers]:
    """The answers of all queries at the windows and groups for which a query of their family reports a change."""
    kept: list[QueryAnswers] = []
    for family in families:
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
    for part in lasting:
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
        numbers = [_end_numbers(part) for part in self._parts]
        self._first = min((int(each.min()) for each in numbers), default=0)
        self._span = max((int(each.max()) for each in numbers), default=self._first - 1) - self._first + 1
        self._ranks: Ints | None = None
        """The numbers of the ends, if they are far apart."""
        if self._span * self._keys.count > _DENSE * sum(map(len, numbers)) + 1024:
            self._ranks = np.unique(np.concatenate(numbers)) if numbers else np.empty(0, np.int64)
            self._span = len(self._ranks)
        self._found: dict[tuple[int, int, int], Ints] = {}
        """The rows of answers, which queries over the same windows share."""
        self._place: Ints | None = None
        """The row of each pair, -1 where there is none; None if pairs are far more than rows."""
        pairs = [self._pairs(part) for part in self._different()]
        if self._ranks is None:
            present = np.zeros(self._span * self._keys.count, np.bool_)
            for pair in pairs:
                present[pair] = True
            self._rows = np.flatnonzero(present)
            self._place = np.full(len(present), -1, np.int64)
            self._place[self._rows] = np.arange(len(self._rows))
        else:
            self._rows = np.unique(np.concatenate(pairs)) if pairs else np.empty(0, np.int64)
        self.count = len(self._rows)
        self._end_of, self._group_of = np.divmod(self._rows, self._keys.count)

    @property
    def ends_us(self) -> Ints:
        """When the window of each row ends."""
        return self._at_ends("ends_us")

    @property
    def starts_us(self) -> Ints:
        """When the window of each row starts, if all have the same range."""
        return self._at_ends("starts_us")

    def _at_ends(self, times: Literal["starts_us", "ends_us"]) -> Ints:
        by_end = np.zeros(self._span, np.int64)
        for part in self._different():
            by_end[self._ends(part)] = getattr(part, times)
        return by_end[self._end_of]

    def group_columns(self, stream: Stream) -> dict[str, pa.Array]:
        """The groups of the rows, in the order of GROUP BY."""
        values = self._keys.columns(self._group_of)
        return {name: values[name].cast(public_type(stream.attributes[name])) for name in self._names}

    def places(self, part: QueryAnswers) -> Ints:
        """The row of each answer of a part; -1 for one that has none."""
        if not len(part):
            return np.empty(0, np.int64)
        same = _windows_of(part)
        if same not in self._found:
            self._found[same] = self._find(self._pairs(part))
        return self._found[same]

    def _different(self) -> list[QueryAnswers]:
        """The parts, one for each set of windows and groups."""
        return list({_windows_of(part): part for part in self._parts}.values())

    def _find(self, pairs: Ints) -> Ints:
        if not self.count:
            return np.full(len(pairs), -1, np.int64)
        if self._place is not None:
            found = self._place[pairs]
            return found if pairs.min() >= 0 else np.where(pairs < 0, -1, found)
        found = np.minimum(np.searchsorted(self._rows, pairs), self.count - 1)
        return np.where(self._rows[found] == pairs, found, -1)

    def _pairs(self, part: QueryAnswers) -> Ints:
        """The pair of each answer, -1 if no row can have it."""
        ends, keys = self._ends(part), self._keys.numbers(part)
        pairs = ends * self._keys.count + keys
        is_known = ends.min() >= 0 and keys.min() >= 0
        return pairs if is_known else np.where((ends < 0) | (keys < 0), -1, pairs)

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


def _windows_of(part: QueryAnswers) -> tuple[int, int, int]:
    """What parts have in common that are about the same windows and groups; those of one fold share their arrays."""
    return id(part.keys), id(part.instances), lengths_of(part.query.window)[0]


class _SharedKeys:
    """One numbering of the groups for all parts, each of which has a key table of its own."""

    def __init__(self, parts: Sequence[QueryAnswers], group_by: tuple[str, ...], stream: Stream) -> None:
        tables = {id(part.groups.table) for part in parts}
        self._groups = Groups(group_by, KeyTable([stream.attributes[name] for name in group_by]))
        self._numbers: dict[int, Ints] = {}
        """The numbers of all groups of another key table, or of those of a part with few of them."""
        if len(tables) == 1:
            self._groups = parts[0].groups
        else:
            for part in parts:
                self._number(part, self._groups.table.ids)
        self.count = max(1, len(self._groups.table))

    def columns(self, numbers: Ints) -> dict[str, pa.Array]:
        """The attributes of groups, by their numbers."""
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
    length, slide = lengths_of(part.query.window)
    return part.instances + length // slide


class _LookupRows:
    """The rows of a lookup: one for each answer, in their order."""

    def __init__(self, answers: QueryAnswers) -> None:
        self.count = len(answers)
        self.starts_us, self.ends_us = answers.starts_us, answers.ends_us
        self._answers = answers

    def group_columns(self, stream: Stream) -> dict[str, pa.Array]:
        """The groups of the rows."""
        values = self._answers.groups.decode(self._answers.keys)
        return {name: array.cast(public_type(stream.attributes[name])) for name, array in values.items()}

    def places(self, part: QueryAnswers) -> Ints:
        """The row of each answer."""
        return np.arange(len(part))


class _Filling:
    """The columns of one query's aggregates: answers at their rows, NULL where there is none."""

    def __init__(self, rows: _Rows | _LookupRows, parts: Sequence[QueryAnswers]) -> None:
        self._count = rows.count
        self._parts = [part for part in parts if len(part)]
        self._places = [rows.places(part) for part in self._parts]
        self._kept: list[Ints | None] = []
        """Which answers have a row; None for all."""
        for number, places in enumerate(self._places):
            kept = None if places.min() >= 0 else np.flatnonzero(places >= 0)
            self._kept.append(kept)
            self._places[number] = places if kept is None else places[kept]
        self._is_whole = self._covers_every_row()

    def _covers_every_row(self) -> bool:
        if len(self._places) == 1:
            return len(self._places[0]) == self._count
        covered = np.zeros(self._count, np.bool_)
        for places in self._places:
            covered[places] = True
        return bool(covered.all())

    def column(self, column: AggregateColumn) -> pa.Array:
        """A column of an aggregate."""
        call = column.call
        lowered = [part.lowered[call] for part in self._parts]
        absent = self._absent(lowered)
        match column.content:
            case "values":
                values = [each.values for each in lowered]
            case "exact":
                return _typed(self._placed([_exact_of(each) for each in lowered], np.int64), absent, column.kind)
            case side:
                values = [
                    part.bounds.get(call, (each.values, each.values))[side == "high"]
                    for part, each in zip(self._parts, lowered, strict=True)
                ]
        return _typed(self._placed(values, np.float64), absent, column.kind)

    def _absent(self, lowered: Sequence[Lowered]) -> Bools | None:
        """The rows whose answer is NULL; None if no row's is."""
        if self._is_whole and all(each.valid.all() for each in lowered):
            return None
        return ~self._placed([each.valid for each in lowered], np.bool_)

    def _placed(self, values: Sequence[Column], kind: npt.DTypeLike) -> Column:
        """Values at their rows; zero where there is none."""
        out = np.empty(self._count, kind) if self._is_whole else np.zeros(self._count, kind)
        for some, kept, places in zip(values, self._kept, self._places, strict=True):
            out[places] = some if kept is None else some[kept]
        return out


def _exact_of(lowered: Lowered) -> Ints:
    return np.zeros(len(lowered.values), np.int64) if lowered.exact is None else lowered.exact


def _typed(values: Column, absent: Bools | None, kind: pa.DataType) -> pa.Array:
    array = pa.array(values, mask=absent)
    return array if array.type == kind else array.cast(kind)
