"""Lookups of one group: the same answers with the least work around the kernels.

What never changes for a query (its name, the labels of its aggregates, columns of NULLs) is made once, and what belongs
to a key (its code and its columns) once a key, for as long as codes stay the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.lowering import Lowered
from weft.engine.answers import TIMESTAMP
from weft.engine.event_log import EventLog
from weft.engine.on_demand.keys import key_columns
from weft.engine.on_demand.shared import Served, SharedStructures
from weft.engine.tables import KeyTable
from weft.language.expressions import AggregateCall
from weft.language.model import Query, Stream
from weft.language.printer import label_of

Ints = npt.NDArray[np.int64]

MOST_REMEMBERED = 65_536
"""Keys of which code and columns are remembered."""
_PLAIN = frozenset({str, int, float, bool})


@dataclass(frozen=True, slots=True)
class _Key:
    code: int
    codes: Ints
    columns: list[pa.Array]
    """The columns of the answers but for times and values, which are None in it."""


class SingleLookups:
    """One query's lookups of one group each."""

    def __init__(self, stream: Stream, query: Query, schema: pa.Schema, structures: SharedStructures) -> None:
        self._stream = stream
        self.query = query
        self.schema = schema
        self._structures = structures
        items = [item for item in query.select if isinstance(item.expression, AggregateCall)]
        self._calls = [item.expression for item in items if isinstance(item.expression, AggregateCall)]
        size = len(items)
        self._constant: dict[str, pa.Array] = {field.name: pa.nulls(size, field.type) for field in schema}
        self._constant["query"] = pa.array([query.name] * size, pa.string())
        self._constant["aggregate"] = pa.array([label_of(item) for item in items], pa.string())
        names = schema.names
        self._places = [names.index(name) for name in ("window_start", "window_end", "value", "exact")]
        self._bounds = range(self._places[-1] + 1, len(names))
        self._nothing = schema.empty_table()
        self._known: dict[Hashable, _Key] = {}
        self._table: KeyTable | None = None
        self._last_times: tuple[int, int] | None = None
        self._last_columns: tuple[pa.Array, pa.Array] = pa.nulls(0), pa.nulls(0)
        self._no_exact = pa.nulls(size, pa.int64())

    @staticmethod
    def key_of(query: Query, keys: object) -> tuple[object, ...] | None:
        """The one key that is asked for, in the order of GROUP BY; None where keys are several, or wrong."""
        key: tuple[object, ...]
        if isinstance(keys, dict):
            if len(keys) != len(query.group_by):
                return None
            try:
                key = tuple([keys[name] for name in query.group_by])
            except KeyError:
                return None
        elif isinstance(keys, list) and len(keys) == 1:
            key = keys[0] if isinstance(keys[0], tuple) else (keys[0],)
        else:
            return None
        for value in key:
            # A NaN does not equal itself, so it cannot be remembered.
            if type(value) not in _PLAIN or value != value:
                return None
        return key if len(key) == len(query.group_by) else None

    def lookup(self, log: EventLog, at_us: int, since_us: int | None, key: tuple[object, ...]) -> pa.Table | None:
        """The answers of one group; None when the window's events must be read."""
        served = self._structures.served(self.query.name)
        if served is None:
            return None
        served.prepare(log)
        found = self._key(served, key)
        if found is None:
            # A lookup that needs what is not held must say so, whatever the key.
            served.coverage(log, at_us, since_us, np.empty(0, np.int64))
            return self._nothing
        answers = self._structures.find_one(served, log, at_us, since_us, found.code, found.codes)
        if answers is None:
            return None
        if answers.lowered is None:
            return self._nothing
        columns = found.columns.copy()
        start, end, value, whole = self._places
        columns[start], columns[end] = self._times(answers.start_us, answers.end_us)
        columns[value], columns[whole] = self._values(answers.lowered)
        for bound in self._bounds:
            columns[bound] = columns[value]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _times(self, start_us: int, end_us: int) -> tuple[pa.Array, pa.Array]:
        """The columns of times; lookups that follow each other are often of one time."""
        if (start_us, end_us) != self._last_times:
            size = len(self._calls)
            self._last_times = start_us, end_us
            self._last_columns = pa.array([start_us] * size, TIMESTAMP), pa.array([end_us] * size, TIMESTAMP)
        return self._last_columns

    def _values(self, answers: dict[AggregateCall, Lowered]) -> tuple[pa.Array, pa.Array]:
        """The columns of values and of whole numbers."""
        if len(self._calls) == 1:
            (lowered,) = answers.values()
            if lowered.valid[0]:
                # From their memory, which is a third of the way through Python objects.
                whole = self._no_exact if lowered.exact is None else _column(pa.int64(), lowered.exact)
                return _column(pa.float64(), lowered.values), whole
        chosen = [answers[call] for call in self._calls]
        values = [one.values.item() if one.valid[0] else None for one in chosen]
        exact = [one.exact.item() if one.valid[0] and one.exact is not None else None for one in chosen]
        return pa.array(values, pa.float64()), pa.array(exact, pa.int64())

    def _key(self, served: Served, key: tuple[object, ...]) -> _Key | None:
        table = served.sequence.table
        if self._table is not table or len(self._known) > MOST_REMEMBERED:
            self._known, self._table = {}, table
        # 1 and TRUE are equal, and may stand for different values in different attributes, but not in one.
        found = self._known.get(key)
        if found is None:
            columns = key_columns(self._stream, self.query, [key])
            code = int(served.codes(columns)[0])
            if code < 0:
                return None
            size = len(self._calls)
            repeated = {
                name: pa.concat_arrays([column] * size).cast(self.schema.field(name).type)
                for name, column in columns.items()
            }
            arrays = [repeated.get(name, self._constant[name]) for name in self.schema.names]
            self._known[key] = found = _Key(code, np.array([code]), arrays)
        return found


def _column(kind: pa.DataType, values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
