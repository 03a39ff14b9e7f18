"""Lookups of one group: the same answers with the least work around the kernels.

What belongs to a key (its code and its columns) is made once a key, while codes stay the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.engine.answers import QueryAnswers
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.on_demand.one_group import FoundOne, find_one
from panewise.engine.on_demand.scalars import Values, as_scalars
from panewise.engine.on_demand.sequence import S
from panewise.engine.on_demand.served import Keys, Served, labelled_aggregates
from panewise.engine.on_demand.shared_structures import SharedStructures
from panewise.engine.one_row import OneRow, PlainRow
from panewise.language.model import Query, Stream

MOST_REMEMBERED = 65_536
"""The most keys whose code and columns are remembered."""
_PLAIN = frozenset({str, int, float, bool})
_NOTHING = FoundOne(0, 0, None)
_PLAIN_TYPES = {Type.BIGINT: int, Type.STRING: str, Type.BOOLEAN: bool}


class SingleLookups(Generic[S]):
    """One query's lookups of one group each."""

    def __init__(self, stream: Stream, query: Query, structures: SharedStructures[S]) -> None:
        self._stream = stream
        self.query = query
        self._structures = structures
        self._row = OneRow(stream, query)
        self._plain = [_PLAIN_TYPES.get(stream.attributes[name]) for name in query.group_by]
        """The Python type of keys that need no conversion."""
        self._order = [query.group_by.index(name) for name in sorted(query.group_by)]
        """The place in GROUP BY of each attribute of the structures' key; these are in the order of their names."""
        self.is_plain = query.having is None and query.within is None and not query.computed
        """Whether structures alone have the answers, with nothing left to do."""
        self.has_table = self.is_plain and not self._row.has_bounds
        """Whether the answers are all that a table shows."""
        self.has_plain_row = self.has_table and self._row.is_plain
        """Whether a plain row has all that a table shows."""
        self._key_length = len(query.group_by)
        self._is_ordered = self._order == sorted(self._order)
        self._labels = [(label, self._row.place_of(call)) for label, call in labelled_aggregates(query)]
        self._known: dict[Hashable, list[pa.Array]] = {}
        """The columns of the keys that were looked up; the columns of times and values are put in later."""

    def key_of(self, key: object) -> tuple[object, ...] | None:
        """The requested key, in the order of GROUP BY; None if it is no key of this query, or not of plain values.

        It is given as a value, as a tuple in the order of GROUP BY, or as a dict from attribute to value.
        """
        if isinstance(key, dict):
            if len(key) != self._key_length:
                return None
            try:
                key = tuple([key[name] for name in self.query.group_by])
            except KeyError:
                return None
        elif not isinstance(key, tuple):
            key = (key,)
        for value in key:
            # A NaN does not equal itself, so it cannot be remembered.
            if type(value) not in _PLAIN or value != value:
                return None
        return key if len(key) == self._key_length else None

    def find(self, source: S, at: int, since_us: int | None, key: tuple[object, ...]) -> FoundOne | None:
        """The answers of one group; None if what the window covers must be read."""
        served = self._structures.served(self.query.name)
        if served is None:
            return None
        pending = served.prepare(source)
        code = self.code(served, key)
        if code < 0:
            # A lookup that needs elements that are not held must say so for any key.
            served.coverage(source, at, since_us, np.empty(0, np.int64))
            return _NOTHING
        return find_one(self._structures, served, source, pending, at, since_us, code)

    def values(self, found: FoundOne) -> Values | None:
        """Answers by the names of SELECT."""
        if found.answers is None:
            return None
        values: Values = {}
        for label, place in self._labels:
            value, exact = found.answers[place]
            values[label] = value if exact is None else exact
        return values

    def table(self, found: FoundOne, key: tuple[object, ...]) -> pa.Table:
        """Answers as a table."""
        if found.answers is None:
            return self._row.nothing
        return self._row.table(self._columns(key), found.start_us, found.end_us, found.answers)

    def shown_group(self, key: tuple[object, ...]) -> dict[str, Any]:
        """The attributes of a group that tables of this query show, as they show them."""
        return self._row.shown_group(self._columns(key))

    def plain_row(self, found: FoundOne, group: Mapping[str, Any]) -> PlainRow | None:
        """Answers as plain values, with what `shown_group` gave; None if the group has none."""
        if found.answers is None:
            return None
        return self._row.plain(group, found.start_us, found.end_us, found.answers)

    def table_of(self, answers: QueryAnswers, key: tuple[object, ...]) -> pa.Table:
        """Answers that were found in another way as a table."""
        if not len(answers):
            return self._row.nothing
        scalars = [as_scalars(answers.lowered[call]) for call in (*self.query.aggregates, *self.query.computed)]
        bounds = {call: (low.item(0), high.item(0)) for call, (low, high) in answers.bounds.items()}
        times_us = int(answers.starts_us[0]), int(answers.ends_us[0])
        return self._row.table(self._columns(key), *times_us, scalars, bounds)

    def code(self, served: Served[Any], key: tuple[object, ...]) -> int:
        """The number of a group, -1 if there is none."""
        if not key:
            return 0
        known = served.sequence.known_keys
        ordered = key if self._is_ordered else tuple([key[place] for place in self._order])
        # 1 and TRUE are equal, and may stand for different values in different attributes, but not in one.
        code = known.get(ordered)
        if code is None:
            if all(map(_is_plain, key, self._plain)):
                try:
                    code = served.sequence.table.find_one(ordered)
                except UnicodeEncodeError:
                    key_columns(self._stream, self.query, [key])  # names the attribute and the cure
                    raise
            else:
                code = int(served.codes(key_columns(self._stream, self.query, [key]))[0])
            if code >= 0 and len(known) < MOST_REMEMBERED:
                known[ordered] = code
        return code

    def _columns(self, key: tuple[object, ...]) -> list[pa.Array]:
        """The columns of a group's answers, without times and values."""
        columns = self._known.get(key)
        if columns is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            if all(map(_is_plain, key, self._plain)):
                group: Keys = {name: pa.array([value]) for name, value in zip(self.query.group_by, key, strict=True)}
            else:
                group = key_columns(self._stream, self.query, [key])
            self._known[key] = columns = self._row.of_group(group)
        return columns


def _is_plain(value: object, plain: type | None) -> bool:
    """Whether a value already has its attribute's type."""
    return type(value) is plain and (type(value) is not int or -(2**63) <= value < 2**63)
