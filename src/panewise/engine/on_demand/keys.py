"""Turns the keys that users give to a lookup into columns of the query's GROUP BY attributes.

Keys are a dict from attribute to a value or to several, or a list of tuples in the order of GROUP BY. With one
attribute a list of plain values is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.ingest import as_column, outside_span, to_column
from panewise.engine.on_demand.served import Keys
from panewise.errors import KeysError, TimeError
from panewise.language.model import Query, Stream
from panewise.windows.clock import SPAN


def key_columns(stream: Stream, query: Query, keys: object) -> Keys:
    """The columns of some keys, all of one length."""
    if not query.group_by:
        raise KeysError(f"query {query.name} has no GROUP BY, so it has no keys to look up; leave out `keys`")
    given = _by_attribute(query, keys)
    lengths = {len(values) for values in given.values() if not isinstance(values, _Single)}
    if len(lengths) > 1:
        shown = ", ".join(f"{name}: {len(values)}" for name, values in given.items() if not isinstance(values, _Single))
        raise KeysError(f"query {query.name}: the columns of `keys` differ in length ({shown})")
    length = lengths.pop() if lengths else 1
    plain = {name: values * length if isinstance(values, _Single) else values for name, values in given.items()}
    return {name: to_column(stream, name, stream.attributes[name], plain) for name in query.group_by}


def asked_times(query: Query, times: object) -> Ints:
    """Times of keys as microseconds."""
    try:
        column = as_column(Type.TIMESTAMP, times)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TimeError(f"query {query.name}: `times` are no times: {error}") from None
    known = np.asarray(column.drop_null())
    wrong = known[outside_span(known)]
    if column.null_count or len(wrong):
        shown = wrong[0] if len(wrong) else "NULL"
        raise TimeError(f"query {query.name}: one of `times` is {shown}; {SPAN}")
    return known


class _Single(list[Any]):
    """One value for all keys."""


def _by_attribute(query: Query, keys: object) -> dict[str, Any]:
    names = query.group_by
    if isinstance(keys, Mapping):
        wrong = sorted(set(names) ^ {str(name) for name in keys})
        if wrong:
            problem = "is missing" if wrong[0] in names else "is not grouped by"
            raise KeysError(
                f"query {query.name}: `keys` needs a value or several for each of {', '.join(names)}; "
                f"{wrong[0]!r} {problem}"
            )
        return {name: _several(keys[name]) for name in names}
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise KeysError(
            f"query {query.name}: `keys` is a dict from attribute to values, or a list of tuples in the order of "
            f"GROUP BY ({', '.join(names)}), not {type(keys).__name__}"
        )
    if len(names) == 1 and isinstance(keys, (np.ndarray, pa.Array, pa.ChunkedArray)):
        return {names[0]: keys}
    rows = [row if isinstance(row, (tuple, list)) else (row,) for row in keys]
    wrong_rows = [row for row in rows if len(row) != len(names)]
    if wrong_rows:
        raise KeysError(
            f"query {query.name}: the key {wrong_rows[0]!r} has {len(wrong_rows[0])} values, and GROUP BY has "
            f"{len(names)}: {', '.join(names)}"
        )
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _several(values: Any) -> Any:
    if getattr(values, "ndim", 1) == 0:
        return _Single([values.item()])
    is_several = isinstance(values, (list, tuple, np.ndarray, pa.Array, pa.ChunkedArray)) or hasattr(values, "to_numpy")
    return values if is_several else _Single([values])
