"""Lookups of one group by many queries: what the queries share is found and folded once.

Queries of one store with the same WHERE read the same rows of a key. These are gathered over the longest stretch that
some window covers, in the order of their slots. The window of each query is then a range of them, and each aggregate is
folded and lowered for all ranges with the same end at once.
Cost: O(log rows + rows of the key in that stretch) for each store and WHERE, and O(values) for each query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panewise.engine.answers import Groups, public_type
from panewise.engine.closed_windows import Fold
from panewise.engine.families import WINDOW_END
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.overflows import Overflows
from panewise.engine.wide_columns import WINDOW_START, GroupColumn, query_columns
from panewise.language.expressions import Expression
from panewise.language.model import Stream
from panewise.planning.optimize import components_of
from panewise.planning.trees import PlannedAggregate
from panewise.spark.lookup_plan import Covered, Lookup
from panewise.spark.lookup_state import LookupState
from panewise.spark.lookup_store import Components, LookupStore, PlainView
from panewise.windows import SessionWindow

PlainRow = dict[str, Any]
"""The answers of one group by column; the times of the window are microseconds."""

_CellKey = tuple[str, int | None, float | None, bool]
_NUMBERS = (pa.float64(), pa.int64())


@dataclass(frozen=True)
class LookedUpTogether:
    """A query that is looked up together with others, and what its window covers."""

    place: int
    lookup: Lookup
    covered: Covered


class _SharedColumn(NamedTuple):
    """A column of a query's row: a group's attribute, or an aggregate, as a double or exactly."""

    name: str
    attribute: str | None
    aggregate: PlannedAggregate | None = None
    key: _CellKey | None = None
    """Queries with the same aggregate of the same input share its answers."""
    is_exact: bool = False
    is_first: bool = False
    """Whether no column of the query before is of the same aggregate: what does not fit is counted once."""


class _Cells:
    """The answers of a fold as plain values; those of an aggregate are made once for all queries."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._made: dict[_CellKey, tuple[list[Any], list[int] | None]] = {}

    def of(self, column: _SharedColumn) -> tuple[list[Any], list[int] | None]:
        """The value of each instance, None for NULL; and which did not fit, if any can."""
        assert column.key is not None
        made = self._made.get(column.key)
        if made is None:
            assert column.aggregate is not None
            lowered = self._fold.lowered(column.aggregate)
            values = lowered.exact if column.is_exact else lowered.values
            shown = [None] * len(lowered.valid)
            if values is not None:
                shown = [value if valid else None for value, valid in zip(values.tolist(), lowered.valid.tolist())]
            made = shown, None if lowered.overflown is None else [int(one) for one in lowered.overflown]
            self._made[column.key] = made
        return made


class Together:
    """The rows of one group, for queries of one state."""

    def __init__(self, state: LookupState, overflows: Overflows) -> None:
        self._state = state
        self._overflows = overflows
        self._columns: dict[str, list[_SharedColumn] | None] = {}
        self._components: dict[tuple[str, ...], Components] = {}

    def over(self, state: LookupState) -> Together:
        """The same for a later state. What depends on the queries alone is kept, if they are the same."""
        later = Together(state, self._overflows)
        if state.lookups is self._state.lookups:
            later._columns, later._components = self._columns, self._components
        return later

    def takes(self, query: str) -> bool:
        """Whether a query can be answered so: it has groups, plain numbers as answers, and no HAVING."""
        if query not in self._columns:
            self._columns[query] = self._plain_columns(query)
        return self._columns[query] is not None

    def _plain_columns(self, query: str) -> list[_SharedColumn] | None:
        lookup = self._state.lookups.get(query)
        if (
            lookup is None
            or lookup.query.has_own_windows
            or isinstance(lookup.query.window, SessionWindow)
            or lookup.query.having is not None
            or lookup.query.computed
            or not lookup.query.group_by
        ):
            return None
        planned: dict[Expression, PlannedAggregate] = {one.call: one for one in lookup.planned.aggregates}
        columns: list[_SharedColumn] = []
        for column in query_columns(_stream(lookup), lookup.query):
            if isinstance(column, GroupColumn):
                columns.append(_SharedColumn(column.name, column.attribute))
            elif column.content in ("values", "exact") and column.kind in _NUMBERS:
                aggregate, is_exact = planned[column.call], column.content == "exact"
                key = aggregate.call.function, aggregate.input, aggregate.call.parameter, is_exact
                is_first = all(other.aggregate is not aggregate for other in columns)
                columns.append(_SharedColumn(column.name, None, aggregate, key, is_exact, is_first))
            else:
                return None
        return columns

    def rows(self, asked: Sequence[tuple[Lookup, Covered | None]], key: Mapping[str, object]) -> list[PlainRow | None]:
        """For each query its row; None if the group has no answer."""
        found: list[PlainRow | None] = [None] * len(asked)
        shares: dict[tuple[int, int | None], list[LookedUpTogether]] = {}
        for place, (lookup, covered) in enumerate(asked):
            if covered is not None:
                share = id(self._state.store(lookup.family)), lookup.planned.predicate
                shares.setdefault(share, []).append(LookedUpTogether(place, lookup, covered))
        for members in shares.values():
            self._answer(members, key, found)
        return found

    def _answer(self, members: list[LookedUpTogether], key: Mapping[str, object], found: list[PlainRow | None]) -> None:
        first = members[0].lookup
        store = self._state.store(first.family)
        given = {name: key[name] for name in first.query.group_by}
        columns = key_columns(_stream(first), first.query, given)
        number = store.find([columns[name] for name in store.tree.group_by], 1)
        if number[0] < 0:
            return
        parts = store.rows(
            first.planned.predicate,
            self._components_of(store, members),
            number,
            min(member.covered.from_slot for member in members),
            max(member.covered.to_slot for member in members),
        )
        if not parts:
            return
        rows = parts[0]
        for more in parts[1:]:
            rows = rows.joined(more)
        if len(parts) > 1:
            rows = rows.take(np.argsort(rows.slots, kind="stable"))
        view = PlainView(rows, is_one_key=True)
        types = _stream(first).attributes
        group = {name: column.cast(public_type(types[name]))[0].as_py() for name, column in columns.items()}
        # Ranges that are folded together must not fall, neither where they begin nor where they end.
        by_end: dict[int, list[LookedUpTogether]] = {}
        for member in sorted(members, key=lambda member: member.covered.from_slot):
            by_end.setdefault(member.covered.to_slot, []).append(member)
        for to_slot, some in by_end.items():
            low = np.searchsorted(rows.slots, [member.covered.from_slot for member in some])
            end = int(np.searchsorted(rows.slots, to_slot))
            # Those that begin behind the last row have none.
            size = int(np.searchsorted(low, end))
            fold = Fold(
                view,
                np.full(size, number[0]),
                np.array([member.covered.instance for member in some[:size]], np.int64),
                low[:size],
                np.full(size, end),
                store.plan,
                Groups(store.tree.group_by, store.key_table),
            )
            cells = _Cells(fold)
            for place, member in enumerate(some[:size]):
                found[member.place] = self._row(member, cells, place, group)

    def _row(self, shared: LookedUpTogether, cells: _Cells, place: int, group: Mapping[str, object]) -> PlainRow:
        query = shared.lookup.query
        columns = self._columns[query.name]
        assert columns is not None
        row: PlainRow = {WINDOW_START: shared.covered.start_us, WINDOW_END: shared.covered.end_us}
        for column in columns:
            if column.attribute is not None:
                row[column.name] = group[column.attribute]
                continue
            values, overflown = cells.of(column)
            row[column.name] = values[place]
            if overflown is not None and column.is_first:
                self._overflows.add(query, overflown[place])
        return row

    def _components_of(self, store: LookupStore, members: list[LookedUpTogether]) -> Components:
        names = tuple([member.lookup.query.name for member in members])
        if names not in self._components:
            if len(self._components) > 10_000:
                self._components.clear()
            planned = [member.lookup.planned for member in members]
            self._components[names] = components_of(planned, store.plan.input_types)
        return self._components[names]


def _stream(lookup: Lookup) -> Stream:
    return lookup.family.fed.plan.stream
