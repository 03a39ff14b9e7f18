"""Lookups of one group from the slot log: the same answers with the least work around the fold.

What belongs to a key (its number and its columns) is made once for each key, as long as numbers stay the same. The twin
of `panewise.engine.on_demand.single`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.engine.answers import QueryAnswers
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.on_demand.scalars import as_scalars
from panewise.engine.one_row import OneRow
from panewise.engine.tables import KeyTable
from panewise.language.model import Query, Stream
from panewise.spark.lookup_plan import Covered
from panewise.spark.lookup_store import LookupStore

Ints = npt.NDArray[np.int64]

MOST_REMEMBERED = 65_536
"""For so many keys, the number and the columns are remembered."""
_PLAIN = frozenset({str, int, float, bool})


class _Key(NamedTuple):
    number: Ints
    columns: list[pa.Array]
    """The columns of the answers except times and values."""


class SingleStoreLookups:
    """One query's lookups of one group each."""

    def __init__(self, stream: Stream, query: Query) -> None:
        self._stream = stream
        self._query = query
        self._row = OneRow(stream, query)
        self._known: dict[Hashable, _Key] = {}
        self._table: KeyTable | None = None

    def key_of(self, keys: object) -> tuple[object, ...] | None:
        """The one key that is asked for, in the order of GROUP BY; None if there are several keys, or a wrong one."""
        if not isinstance(keys, dict) or len(keys) != len(self._query.group_by):
            return None
        key = tuple([keys.get(name) for name in self._query.group_by])
        # A NaN does not equal itself, so it cannot be remembered.
        return key if all(type(value) in _PLAIN and value == value for value in key) else None

    def number(self, store: LookupStore, key: tuple[object, ...]) -> Ints | None:
        """The number of a key, alone in an array; None if it does not exist."""
        if self._table is not store.key_table or len(self._known) > MOST_REMEMBERED:
            self._known, self._table = {}, store.key_table
        # 1 and TRUE are equal. They may stand for different values in different attributes, but not in one attribute.
        found = self._known.get(key)
        if found is None:
            columns = key_columns(self._stream, self._query, [key])
            number = store.find([columns[name] for name in store.tree.group_by], 1)
            if number[0] < 0:
                return None
            self._known[key] = found = _Key(number, self._row.of_group(columns))
        return found.number

    def table(self, key: tuple[object, ...], covered: Covered, answers: QueryAnswers) -> pa.Table:
        """The answers of a key whose number was asked for, as a table."""
        if not len(answers):
            return self._row.nothing
        scalars = [as_scalars(answers.lowered[call]) for call in (*self._query.aggregates, *self._query.computed)]
        bounds = {call: (low.item(0), high.item(0)) for call, (low, high) in answers.bounds.items()}
        return self._row.table(self._known[key].columns, covered.start_us, covered.end_us, scalars, bounds)
