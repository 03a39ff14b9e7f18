"""Values of groups as texts, so that one index counts the values of all groups, and the way back.

A text has the attributes of the group and then the value, and is equal where all of them are equal. NULL is a group.

Cost: a pass over the values to make texts. Each text is read once, and remembered while the index may hold it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.columns import bits_of, canonical
from panewise.engine.windowed.positions import positions

_NULL = "~"
_ESCAPED = re.compile(r"\\(.)")


class GroupedValues:
    """The texts of groups and values, whose types are `kinds`; the value is the last."""

    def __init__(self, kinds: Sequence[Type]) -> None:
        self._kinds = tuple(kinds)
        self._read: dict[str, tuple[Any, ...]] = {}

    def texts(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The text of each row."""
        fields = [_field(column, kind) for column, kind in zip(columns, self._kinds, strict=True)]
        return pc.binary_join_element_wise(*fields, ",")

    def columns(self, texts: pa.Array) -> list[pa.Array]:
        """The groups and values of some texts; doubles as they are, all other numbers as int64."""
        listed = texts.to_pylist()
        known = self._read
        # Only what is asked for now is remembered for the next time.
        self._read = {text: known.get(text) or self._values(text) for text in listed}
        rows = list(zip(*(self._read[text] for text in listed))) or [()] * len(self._kinds)
        return [_column(list(values), kind) for values, kind in zip(rows, self._kinds)]

    def _values(self, text: str) -> tuple[Any, ...]:
        return tuple(_value(field, kind) for field, kind in zip(text.split(","), self._kinds, strict=True))


def in_groups(groups: Sequence[pa.Array], keys: Sequence[tuple[pa.Array, str]]) -> tuple[pa.Array, Any]:
    """The order of rows by their groups and then by some keys, and the position of each ordered row in its group."""
    named = {f"{place}": column for place, (column, _) in enumerate([*((group, "") for group in groups), *keys])}
    directions = [*("ascending" for _ in groups), *(direction for _, direction in keys)]
    order = pc.sort_indices(pa.table(named), sort_keys=list(zip(named, directions)))
    return order, positions(_numbers(groups, order))


def group_ranks(groups: Sequence[pa.Array]) -> Ints:
    """The rank of each row's group among the groups here, from 0 on; NULL is the last."""
    groups = [_canonical(group) for group in groups]
    order, _ = in_groups(groups, [])
    ranks = np.empty(len(order), np.int64)
    ranks[np.asarray(order)] = _numbers(groups, order)
    return ranks


def _numbers(groups: Sequence[pa.Array], order: pa.Array) -> Ints:
    """The number of each ordered row's group."""
    changes = np.zeros(len(order), np.int64)
    for group in groups:
        codes = np.asarray(group.take(order).dictionary_encode().indices.fill_null(-1)).astype(np.int64)
        changes |= np.diff(codes, prepend=codes[:1]) != 0
    return np.cumsum(changes)


def _canonical(column: pa.Array) -> pa.Array:
    """A column with one zero and one NaN, if it has doubles."""
    if not pa.types.is_floating(column.type):
        return column
    return pa.array(canonical(np.asarray(column.fill_null(0.0))), mask=np.asarray(column.is_null()))


def _field(column: pa.Array, kind: Type) -> pa.Array:
    if kind is Type.STRING:
        # A comma parts fields, so none is inside one.
        text = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), ",", "\\c")
        return pc.fill_null(pc.binary_join_element_wise("'", text, ""), _NULL)
    words = np.zeros(len(column), np.int64)
    valid = np.asarray(column.is_valid())
    words[valid] = bits_of(column.drop_null(), kind)
    return pc.fill_null(pc.cast(pa.array(words, mask=~valid), pa.string()), _NULL)


def _value(field: str, kind: Type) -> Any:
    if field == _NULL:
        return None
    if kind is not Type.STRING:
        return int(field)
    return _ESCAPED.sub(lambda found: "," if found[1] == "c" else found[1], field[1:])


def _column(values: list[Any], kind: Type) -> pa.Array:
    if kind is Type.STRING:
        return pa.array(values, pa.string())
    words = pa.array(values, pa.int64())
    if kind is not Type.DOUBLE:
        return words
    doubles = np.asarray(words.fill_null(0)).view(np.float64)
    return pa.array(doubles, mask=np.asarray(words.is_null()))
