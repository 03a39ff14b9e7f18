"""Lookups of one group: the same answers with the least work around the kernels.

What never changes for a query (its name, the labels of its aggregates, columns of NULLs) is made once, and what belongs
to a key (its code and its columns) once a key, for as long as codes stay the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.types import Type
from weft.engine.answers import TIMESTAMP
from weft.engine.event_log import EventLog
from weft.engine.on_demand.keys import key_columns
from weft.engine.on_demand.scalars import Answer
from weft.engine.on_demand.shared import Served, SharedStructures
from weft.engine.tables import KeyTable
from weft.language.expressions import AggregateCall
from weft.language.model import Query, Stream
from weft.language.printer import label_of

Ints = npt.NDArray[np.int64]

_DOUBLE, _BIGINT = pa.float64(), pa.int64()

MOST_REMEMBERED = 65_536
"""Keys of which code and columns are remembered."""
_PLAIN = frozenset({str, int, float, bool})
_PLAIN_TYPES = {Type.BIGINT: int, Type.STRING: str, Type.BOOLEAN: bool}


@dataclass(frozen=True, slots=True)
class _Key:
    code: int
    codes: Ints
    columns: list[pa.Array]
    """The columns of the answers; those of times and values are still to be put in."""


class SingleLookups:
    """One query's lookups of one group each."""

    def __init__(self, stream: Stream, query: Query, schema: pa.Schema, structures: SharedStructures) -> None:
        self._stream = stream
        self.query = query
        self.schema = schema
        self._structures = structures
        items = [item for item in query.select if isinstance(item.expression, AggregateCall)]
        calls = list(query.aggregates)
        self._asked = [calls.index(item.expression) for item in items if isinstance(item.expression, AggregateCall)]
        """Which of the query's aggregates each item of SELECT is."""
        size = len(items)
        constant: dict[str, pa.Array] = {field.name: pa.nulls(size, field.type) for field in schema}
        constant["query"] = pa.array([query.name] * size, pa.string())
        constant["aggregate"] = pa.array([label_of(item) for item in items], pa.string())
        names = schema.names
        self._constant = [constant[name] for name in names]
        self._places = [names.index(name) for name in ("window_start", "window_end", "value", "exact")]
        self._bounds = range(self._places[-1] + 1, len(names))
        kinds = [stream.attributes[name] for name in query.group_by]
        self._plain = [_PLAIN_TYPES.get(kind) for kind in kinds]
        """The Python type of keys that need no conversion."""
        self._key_places = [names.index(name) for name in query.group_by]
        self._key_types = [schema.field(name).type for name in query.group_by]
        self._order = [query.group_by.index(name) for name in sorted(query.group_by)]
        """Where each attribute of the structures' key, which are in order of their names, stands in GROUP BY."""
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
        if answers.answers is None:
            return self._nothing
        columns = found.columns.copy()
        start, end, value, whole = self._places
        columns[start], columns[end] = self._times(answers.start_us, answers.end_us)
        columns[value], columns[whole] = self._values(answers.answers)
        for bound in self._bounds:
            columns[bound] = columns[value]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _times(self, start_us: int, end_us: int) -> tuple[pa.Array, pa.Array]:
        """The columns of times; lookups that follow each other are often of one time."""
        if (start_us, end_us) != self._last_times:
            size = len(self._asked)
            self._last_times = start_us, end_us
            self._last_columns = pa.array([start_us] * size, TIMESTAMP), pa.array([end_us] * size, TIMESTAMP)
        return self._last_columns

    def _values(self, answers: list[Answer]) -> tuple[pa.Array, pa.Array]:
        """The columns of values and of whole numbers."""
        values = [answers[place][0] for place in self._asked]
        exact = [answers[place][1] for place in self._asked]
        has_exact = any(whole is not None for whole in exact)
        return _column(_DOUBLE, values), _column(_BIGINT, exact) if has_exact else self._no_exact

    def _key(self, served: Served, key: tuple[object, ...]) -> _Key | None:
        table = served.sequence.table
        if self._table is not table or len(self._known) > MOST_REMEMBERED:
            self._known, self._table = {}, table
        # 1 and TRUE are equal, and may stand for different values in different attributes, but not in one.
        found = self._known.get(key)
        if found is None:
            if all(map(_is_plain, key, self._plain)):
                code, columns = table.find_one([key[place] for place in self._order]), key
            else:
                given = key_columns(self._stream, self.query, [key])
                code, columns = int(served.codes(given)[0]), tuple(column[0].as_py() for column in given.values())
            if code < 0:
                return None
            arrays = self._constant.copy()
            for place, kind, value in zip(self._key_places, self._key_types, columns, strict=True):
                arrays[place] = pa.array([value] * len(self._asked), kind)
            self._known[key] = found = _Key(code, np.array([code]), arrays)
        return found


def _is_plain(value: object, plain: type | None) -> bool:
    """Whether a value is of its attribute's type as it is."""
    return type(value) is plain and (type(value) is not int or -(2**63) <= value < 2**63)


def _column(kind: pa.DataType, values: Sequence[float | None]) -> pa.Array:
    """A column of a few numbers; from the memory of an array where none is NULL, which takes a third of the time."""
    if None in values:
        return pa.array(values, kind)
    numbers = np.array(values, np.float64 if kind is _DOUBLE else np.int64)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(numbers)])
