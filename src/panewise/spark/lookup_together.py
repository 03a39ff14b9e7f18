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
from panewise.engine.closed import Fold
from panewise.engine.families import WINDOW_END
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.overflows import Overflows
from panewise.engine.wide_columns import WINDOW_START, GroupColumn, query_columns
from panewise.language.expressions import Expression
from panewise.language.model import Stream
from panewise.planning.optimize import components_of
from panewise.spark.lookup_plan import Covered, Lookup
from panewise.spark.lookup_state import LookupState
from panewise.spark.lookup_store import Components, LookupStore, PlainView

PlainRow = dict[str, Any]
"""The answers of one group by column; the times of the window are microseconds."""

_NUMBERS = (pa.float64(), pa.int64())


@dataclass(frozen=True)
class LookedUpTogether:
    """A query that is looked up together with others, and what its window covers."""

    place: int
    lookup: Lookup
    covered: Covered


class _SharedColumn(NamedTuple):
    """A column of a query's row: a group's attribute, or an aggregate by its place, as a double or exactly."""

    name: str
    attribute: str | None
    aggregate: int
    is_exact: bool


class Together:
    """The rows of one group, for queries of one state."""

    def __init__(self, state: LookupState, overflows: Overflows) -> None:
        self._state = state
        self._overflows = overflows
        self._columns: dict[str, list[_SharedColumn] | None] = {}
        self._components: dict[tuple[str, ...], Components] = {}

    def takes(self, query: str) -> bool:
        """Whether a query can be answered so: it has groups, plain numbers as answers, and no HAVING."""
        if query not in self._columns:
            self._columns[query] = self._plain_columns(query)
        return self._columns[query] is not None

    def _plain_columns(self, query: str) -> list[_SharedColumn] | None:
        lookup = self._state.lookups.get(query)
        if lookup is None or lookup.query.having is not None or lookup.query.computed or not lookup.query.group_by:
            return None
        calls: list[Expression] = [aggregate.call for aggregate in lookup.planned.aggregates]
        columns = []
        for column in query_columns(_stream(lookup), lookup.query):
            if isinstance(column, GroupColumn):
                columns.append(_SharedColumn(column.name, column.attribute, -1, False))
            elif column.content in ("values", "exact") and column.kind in _NUMBERS:
                columns.append(_SharedColumn(column.name, None, calls.index(column.call), column.content == "exact"))
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
            for place, member in enumerate(some[:size]):
                found[member.place] = self._row(member, fold, place, group)

    def _row(self, shared: LookedUpTogether, fold: Fold, place: int, group: Mapping[str, object]) -> PlainRow:
        query = shared.lookup.query
        columns = self._columns[query.name]
        assert columns is not None
        lowered = [fold.lowered(aggregate) for aggregate in shared.lookup.planned.aggregates]
        for one in lowered:
            if one.overflown is not None:
                self._overflows.add(query, int(one.overflown[place]))
        row: PlainRow = {WINDOW_START: shared.covered.start_us, WINDOW_END: shared.covered.end_us}
        for name, attribute, aggregate, is_exact in columns:
            if attribute is not None:
                row[name] = group[attribute]
                continue
            answer = lowered[aggregate]
            values = answer.exact if is_exact else answer.values
            row[name] = values.item(place) if values is not None and answer.valid[place] else None
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
