"""Values as indexes take them: int64, float64 or strings, without NULL; and numbers observed about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.engine.columns import bits_of
from panewise.planning.windowed import ObservedWindow


def indexed(values: pa.Array) -> pa.Array:
    """Values in a type that an index knows: truth values become 0 and 1."""
    return values.cast(pa.int64()) if pa.types.is_boolean(values.type) else values


def key_texts(columns: Sequence[pa.Array], kinds: Sequence[Type]) -> pa.Array:
    """One text for the values of each row, equal where all are equal in their types; NULL if one of them is NULL."""
    texts = []
    for column, kind in zip(columns, kinds, strict=True):
        if kind is Type.STRING:
            # The length in front keeps apart what would run together.
            lengths = pc.cast(pc.binary_length(column), pa.string())
            texts.append(pc.binary_join_element_wise(lengths, column, ":"))
            continue
        words = np.zeros(len(column), np.int64)
        valid = np.asarray(column.is_valid())
        present = column.drop_null()
        words[valid] = bits_of(present.cast(pa.float64(), safe=False) if kind is Type.DOUBLE else present, kind)
        texts.append(pc.cast(pa.array(words, mask=~valid), pa.string()))
    return pc.binary_join_element_wise(*texts, ",")


def plain(column: pa.ChunkedArray) -> Any:
    """A column without NULL as an index takes it: a NumPy array of numbers, or an Arrow array of strings."""
    if pa.types.is_string(column.type):
        return column.combine_chunks()
    return np.asarray(column)


def observed(basic_windows: Iterable[pa.Table], count: int, column: str, counts: str, distinct: int) -> ObservedWindow:
    """What a full window shows: tuples and different values of a basic window, different values of the window.

    `count` is the number of basic windows, empty ones included.
    """
    tuples, different = [], []
    for table in basic_windows:
        weights = table.column(counts) if counts in table.column_names else None
        tuples.append(table.num_rows if weights is None else int(pc.sum(weights).as_py() or 0))
        different.append(table.num_rows if weights is not None else len(pc.unique(table.column(column))))
    return ObservedWindow(sum(tuples) / count, float(distinct), sum(different) / count)
