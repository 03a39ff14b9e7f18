"""Wide tables: the answers of one query, or of a family of queries, with a typed column for each SELECT item.

The columns are those that lowering made; nothing goes through the long form. Rows are in the order of the ends of their
windows, and within an end in the order in which groups were first seen. A row of a family is a window end and a group
for which some query of the family reports something; a query that has no answer there shows NULL.
Cost: O(rows) a column. A family whose rows are few among all pairs of an end and a group is sorted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.lowering import Lowered
from panewise.aggregates.types import Type
from panewise.engine.answers import INTERVAL_COLUMNS, TIMESTAMP, Groups, QueryAnswers, public_type, result_type
from panewise.engine.families import ENDED, WINDOW_END, Family
from panewise.engine.tables import KeyTable
from panewise.errors import PanewiseError
from panewise.language.expressions import AggregateCall, Attribute
from panewise.language.model import Query, Stream
from panewise.language.printer import label_of
from panewise.planning.within import may_be_interval
from panewise.windows.slots import lengths_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

_DENSE = 8
"""Up to this many pairs of an end and a group for each row, rows are found in an array of all pairs."""
_START = "window_start"


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
    rows = _Rows.of(parts, query.group_by, stream)
    columns = {_START: _times(rows.starts_us(query)), WINDOW_END: _times(rows.ends_us)}
    groups = rows.group_columns(stream)
    selected = {item.expression.name for item in query.select if isinstance(item.expression, Attribute)}
    columns |= {name: groups[name] for name in query.group_by if name not in selected}
    places = [rows.places(part) for part in parts]
    for item in query.select:
        if isinstance(item.expression, Attribute):
            columns[label_of(item)] = groups[item.expression.name]
        else:
            columns |= _item_columns(stream, query, item.expression, label_of(item), rows.count, parts, places)
    if marks_ended:
        _mark(columns, query.name, rows, [part for part in parts if not part.is_gone])
    return pa.table(columns)


def family_table(stream: Stream, family: Family, closed: Closed, *, marks_ended: bool) -> pa.Table:
    """The answers of a family: `window_end`, the groups, a column for each aggregate; `ended` if asked for.

    `closed` has the answers of its queries and no others.
    """
    every = [part for part in closed.every if not part.is_gone]
    rows = _Rows.of(closed.reported, family.group_by, stream)
    columns = {WINDOW_END: _times(rows.ends_us), **rows.group_columns(stream)}
    found: dict[str, list[QueryAnswers]] = {query.name: [] for query in family.queries}
    for part in every:
        found[part.query.name].append(part)
    places = {id(part): rows.places(part) for part in every}
    for query, item, name in family.columns:
        parts = found[query.name]
        assert isinstance(item.expression, AggregateCall)
        filled = _item_columns(
            stream, query, item.expression, name, rows.count, parts, [places[id(part)] for part in parts]
        )
        columns |= filled
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
            rows = _Rows.of(mine.reported, family.group_by, stream)
            kept += [part.from_rows(np.flatnonzero(rows.places(part) >= 0)) for part in mine.every]
    return kept


def _mark(columns: dict[str, pa.Array], what: str, rows: _Rows, lasting: Iterable[QueryAnswers]) -> None:
    """Add the column that tells which groups have no answer any more."""
    if ENDED in columns:
        raise PanewiseError(
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
        self._names = group_by
        self._keys = _SharedKeys(parts, group_by, stream)
        self._parts = parts
        numbers = [_end_numbers(part) for part in parts]
        self._first = min((int(each.min()) for each in numbers if len(each)), default=0)
        last = max((int(each.max()) for each in numbers if len(each)), default=-1)
        self._span = last - self._first + 1
        total = sum(map(len, numbers))
        self._ranks: Ints | None = None
        if self._span * self._keys.count > _DENSE * total + 1024:
            self._ranks = np.unique(np.concatenate(numbers)) if numbers else np.empty(0, np.int64)
            self._span = len(self._ranks)
        self._known: dict[int, Ints] = {}
        self._ends = np.zeros(self._span, np.int64)
        pairs = [self._pairs(part) for part in parts]
        for part, pair in zip(parts, pairs, strict=True):
            self._ends[pair // self._keys.count] = part.ends_us
        self._place: Ints | None = None
        if self._ranks is None:
            present = np.zeros(self._span * self._keys.count, np.bool_)
            for pair in pairs:
                present[pair] = True
            self._rows = np.flatnonzero(present)
            self._place = np.where(present, np.cumsum(present) - 1, -1)
        else:
            self._rows = np.unique(np.concatenate(pairs)) if pairs else np.empty(0, np.int64)
        self.count = len(self._rows)
        self._end_of, self._group_of = np.divmod(self._rows, self._keys.count)

    @staticmethod
    def of(parts: Sequence[QueryAnswers], group_by: tuple[str, ...], stream: Stream) -> _Rows:
        """The rows of some answers."""
        return _Rows([part for part in parts if len(part)], group_by, stream)

    @property
    def ends_us(self) -> Ints:
        """When the window of each row ends."""
        return self._ends[self._end_of]

    def starts_us(self, query: Query) -> Ints:
        """When the window of each row starts, of a query alone."""
        starts = np.zeros(self._span, np.int64)
        for part in self._parts:
            starts[self._pairs(part) // self._keys.count] = part.starts_us
        return starts[self._end_of]

    def group_columns(self, stream: Stream) -> dict[str, pa.Array]:
        """The groups of the rows, in the order of GROUP BY."""
        values = self._keys.columns(self._group_of)
        return {name: values[name].cast(public_type(stream.attributes[name])) for name in self._names}

    def places(self, part: QueryAnswers) -> Ints:
        """The row of each answer of a part; -1 for one that has none."""
        if not len(part):
            return np.empty(0, np.int64)
        if id(part) not in self._known:
            self._known[id(part)] = self._find(part)
        return self._known[id(part)]

    def _find(self, part: QueryAnswers) -> Ints:
        pairs = self._pairs(part)
        if not self.count:
            return np.full(len(pairs), -1, np.int64)
        if self._place is not None:
            return np.where(pairs < 0, -1, self._place[pairs])
        found = np.minimum(np.searchsorted(self._rows, pairs), self.count - 1)
        return np.where(self._rows[found] == pairs, found, -1)

    def _pairs(self, part: QueryAnswers) -> Ints:
        """The pair of each answer, -1 if no row can have it."""
        ends, keys = _end_numbers(part), self._keys.numbers(part)
        if self._ranks is None:
            ends = ends - self._first
            is_known = (ends >= 0) & (ends < self._span) & (keys >= 0)
        else:
            wanted = ends
            ends = np.minimum(np.searchsorted(self._ranks, wanted), max(0, self._span - 1))
            is_known = (self._ranks[ends] == wanted) & (keys >= 0)
        return np.where(is_known, ends * self._keys.count + keys, -1)


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


def _item_columns(
    stream: Stream,
    query: Query,
    call: AggregateCall,
    name: str,
    count: int,
    parts: Sequence[QueryAnswers],
    places: Sequence[Ints],
) -> dict[str, pa.Array]:
    """The column of an aggregate, and those of its bounds if it may be answered as an interval."""
    kind = result_type(call, stream)
    is_interval = may_be_interval(stream, query, call)
    has_values = kind is Type.DOUBLE or (is_interval and CATALOGUE[call.function].is_exact)
    lowered = [part.lowered[call] for part in parts]
    valid = _placed([each.valid for each in lowered], places, count, np.bool_)
    if has_values:
        values = _placed([each.values for each in lowered], places, count, np.float64)
        columns = {name: _typed(values, valid, pa.float64())}
    else:
        exact = _placed([_exact_of(each) for each in lowered], places, count, np.int64)
        columns = {name: _typed(exact, valid, public_type(kind))}
    if is_interval:
        for side, label in enumerate(INTERVAL_COLUMNS):
            ends = [
                part.bounds.get(call, (each.values, each.values))[side]
                for part, each in zip(parts, lowered, strict=True)
            ]
            columns[f"{name} {label}"] = _typed(_placed(ends, places, count, np.float64), valid, pa.float64())
    return columns


def _placed(values: Sequence[Column], places: Sequence[Ints], count: int, kind: npt.DTypeLike) -> Column:
    """Values at their rows; zero where there is none."""
    out = np.zeros(count, kind)
    for some, rows in zip(values, places, strict=True):
        if len(rows) and rows.min() < 0:
            known = rows >= 0
            out[rows[known]] = some[known]
        else:
            out[rows] = some
    return out


def _exact_of(lowered: Lowered) -> Ints:
    return np.zeros(len(lowered.values), np.int64) if lowered.exact is None else lowered.exact


def _typed(values: Column, valid: Bools, kind: pa.DataType) -> pa.Array:
    array = pa.array(values) if valid.all() else pa.array(values, mask=~valid)
    return array if array.type == kind else array.cast(kind)


def _times(times_us: Ints) -> pa.Array:
    return pa.array(times_us).cast(TIMESTAMP)
