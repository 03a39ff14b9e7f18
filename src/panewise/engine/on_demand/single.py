"""Lookups of one group: the same answers with the least work around the kernels.

What never changes for a query (its name, the labels of its aggregates, columns of NULLs) is made once. What belongs to
a key (its code and its columns) is made once a key, while codes stay the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from struct import pack

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.engine.answers import TIMESTAMP
from panewise.engine.event_log import EventLog
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.on_demand.one_group import FoundOne, find_one
from panewise.engine.on_demand.scalars import Answer, Values
from panewise.engine.on_demand.served import Served
from panewise.engine.on_demand.shared import SharedStructures
from panewise.language.expressions import AggregateCall
from panewise.language.model import Query, Stream
from panewise.language.printer import label_of

_DOUBLE, _BIGINT = pa.float64(), pa.int64()

MOST_REMEMBERED = 65_536
"""The most keys whose code and columns are remembered."""
_PLAIN = frozenset({str, int, float, bool})
_NOTHING = FoundOne(0, 0, None)
_PLAIN_TYPES = {Type.BIGINT: int, Type.STRING: str, Type.BOOLEAN: bool}


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
        """For each item of SELECT, its place among the query's aggregates."""
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
        self._order = [query.group_by.index(name) for name in sorted(query.group_by)]
        """The place in GROUP BY of each attribute of the structures' key; these are in the order of their names."""
        self.is_short = query.having is None and query.within is None
        """Whether structures alone have the answers, with nothing left to do."""
        self._key_length = len(query.group_by)
        self._nothing = schema.empty_table()
        self._is_ordered = self._order == sorted(self._order)
        self._labels = [(label_of(item), place) for item, place in zip(items, self._asked)]
        self._known: dict[Hashable, list[pa.Array]] = {}
        """The columns of the keys that were looked up; the columns of times and values are put in later."""
        self._last_times: tuple[int, int] | None = None
        self._last_columns: tuple[pa.Array, pa.Array] = pa.nulls(0), pa.nulls(0)
        self._no_exact = pa.nulls(size, pa.int64())

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

    def find(self, log: EventLog, at_us: int, since_us: int | None, key: tuple[object, ...]) -> FoundOne | None:
        """The answers of one group; None if the window's events must be read."""
        served = self._structures.served(self.query.name)
        if served is None:
            return None
        pending = served.prepare(log)
        code = self._code(served, key)
        if code < 0:
            # A lookup that needs events that are not held must say so for any key.
            served.coverage(log, at_us, since_us, np.empty(0, np.int64))
            return _NOTHING
        return find_one(self._structures, served, log, pending, at_us, since_us, code)

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
            return self._nothing
        columns = self._columns(key).copy()
        start, end, value, whole = self._places
        columns[start], columns[end] = self._times(found.start_us, found.end_us)
        columns[value], columns[whole] = self._values(found.answers)
        for bound in self._bounds:
            columns[bound] = columns[value]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _times(self, start_us: int, end_us: int) -> tuple[pa.Array, pa.Array]:
        """The columns of times; lookups in a row often share one time."""
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
        return _column(_DOUBLE, "d", values), _column(_BIGINT, "q", exact) if has_exact else self._no_exact

    def _code(self, served: Served, key: tuple[object, ...]) -> int:
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
            columns = self._constant.copy()
            values = key
            if not all(map(_is_plain, key, self._plain)):
                values = tuple(column[0].as_py() for column in key_columns(self._stream, self.query, [key]).values())
            for place, value in zip(self._key_places, values, strict=True):
                columns[place] = pa.array([value] * len(self._asked), self.schema.field(place).type)
            self._known[key] = columns
        return columns


def _is_plain(value: object, plain: type | None) -> bool:
    """Whether a value already has its attribute's type."""
    return type(value) is plain and (type(value) is not int or -(2**63) <= value < 2**63)


def _column(kind: pa.DataType, code: str, values: Sequence[float | None]) -> pa.Array:
    """A column of a few numbers from their bytes, which takes a third of the time; `code` is its type for `struct`."""
    size = len(values)
    if None not in values:
        return pa.Array.from_buffers(kind, size, [None, pa.py_buffer(pack(f"{size}{code}", *values))])
    bits = sum(1 << place for place, value in enumerate(values) if value is not None)
    data = pack(f"{size}{code}", *[0 if value is None else value for value in values])
    return pa.Array.from_buffers(kind, size, [pa.py_buffer(bits.to_bytes(size // 8 + 1, "little")), pa.py_buffer(data)])
