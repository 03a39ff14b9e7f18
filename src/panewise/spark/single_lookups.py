"""Lookups of one group from the slot log: the same answers with the least work around the fold.

What never changes for a query (its name, the labels of its aggregates, columns of NULLs) is made once. What belongs to
a key (its number and its columns) is made once for each key, as long as numbers stay the same. The twin of
`panewise.engine.on_demand.single`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.engine.answers import INTERVAL_COLUMNS, TIMESTAMP, QueryAnswers
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.tables import KeyTable
from panewise.language.expressions import AggregateCall
from panewise.language.model import Query, Stream
from panewise.language.printer import label_of
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


class SingleLookups:
    """One query's lookups of one group each."""

    def __init__(self, stream: Stream, query: Query, schema: pa.Schema) -> None:
        self._stream = stream
        self._query = query
        self._schema = schema
        items = [item for item in query.select if isinstance(item.expression, AggregateCall)]
        self._calls = [item.expression for item in items if isinstance(item.expression, AggregateCall)]
        self._constant: dict[str, pa.Array] = {field.name: pa.nulls(len(items), field.type) for field in schema}
        self._constant["query"] = pa.array([query.name] * len(items), pa.string())
        self._constant["aggregate"] = pa.array([label_of(item) for item in items], pa.string())
        names = schema.names
        self._places = [names.index(name) for name in ("window_start", "window_end", "value", "exact")]
        # By place: without intervals, attributes may have these names, and they come earlier.
        self._has_bounds = tuple(names[-2:]) == INTERVAL_COLUMNS
        self._known: dict[Hashable, _Key] = {}
        self._table: KeyTable | None = None
        self._times: tuple[Covered, pa.Array, pa.Array] | None = None

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
            size = len(self._calls)
            repeated = {
                name: pa.concat_arrays([column] * size).cast(self._schema.field(name).type)
                for name, column in columns.items()
            }
            arrays = [repeated.get(name, self._constant[name]) for name in self._schema.names]
            self._known[key] = found = _Key(number, arrays)
        return found.number

    def table(self, key: tuple[object, ...], covered: Covered, answers: QueryAnswers) -> pa.Table:
        """The answers of a key whose number was asked for, as a table."""
        if not len(answers):
            return self._schema.empty_table()
        columns = self._known[key].columns.copy()
        start, end, value, exact = self._places
        if self._times is None or self._times[0] != covered:
            size = len(self._calls)
            starts, ends = ([time_us] * size for time_us in (covered.start_us, covered.end_us))
            self._times = covered, pa.array(starts, TIMESTAMP), pa.array(ends, TIMESTAMP)
        _, columns[start], columns[end] = self._times
        chosen = [answers.lowered[call] for call in self._calls]
        values = [one.values.item() if one.valid[0] else None for one in chosen]
        integers = [one.exact.item() if one.valid[0] and one.exact is not None else None for one in chosen]
        columns[value], columns[exact] = pa.array(values, pa.float64()), pa.array(integers, pa.int64())
        if self._has_bounds:
            for side in range(2):
                ends_of = [
                    answers.bounds[call][side].item() if call in answers.bounds and one is not None else one
                    for call, one in zip(self._calls, values, strict=True)
                ]
                columns[side - 2] = pa.array(ends_of, pa.float64())
        return pa.Table.from_arrays(columns, schema=self._schema)
