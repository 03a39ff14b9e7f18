"""Columns: how typed values lie in Arrow and in NumPy arrays.

Timestamps are int64 microseconds throughout. Doubles that Spark treats as equal (-0.0 and 0.0, every NaN) get equal
bits before they serve as keys or items of a multiset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.arrays import Bools, Floats, Ints
from panewise.language.evaluate import ARROW_TYPES

Bytes = npt.NDArray[np.uint8]


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type that holds a type inside Panewise."""
    return ARROW_TYPES[kind]


def frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view. With read-only inputs only, a kernel is compiled once and not again for Arrow's memory."""
    view = values.view()
    view.flags.writeable = False
    return view


def canonical(values: Floats) -> Floats:
    """Doubles with one zero and one NaN."""
    values = values + 0.0
    values[np.isnan(values)] = np.nan
    return values


def bits_of(column: pa.Array, kind: Type) -> Ints:
    """The values of a column without NULLs as int64 words; equal words mean equal values."""
    match kind:
        case Type.DOUBLE:
            return canonical(np.asarray(column)).view(np.int64)
        case Type.BOOLEAN:
            return np.asarray(column).astype(np.int64)
        case _:
            return np.asarray(column)


def from_bits(words: Ints, kind: Type) -> pa.Array:
    """The inverse of `bits_of`."""
    match kind:
        case Type.DOUBLE:
            return pa.array(words.view(np.float64))
        case Type.BOOLEAN:
            return pa.array(words.astype(np.bool_))
        case _:
            return pa.array(words)


def bytes_of(column: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes and offsets of a string column without NULLs."""
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return frozen(raw), ends


def from_bytes(data: Bytes, offsets: Ints) -> pa.Array:
    """The inverse of `bytes_of`, as large strings over the same memory. Cost: O(1)."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def numbers_of(column: pa.Array) -> tuple[Ints | Floats, Bools]:
    """The values of a numeric column (anything where NULL) and their validity, empty when nothing is NULL."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int64())
    if column.null_count == 0:
        return frozen(np.asarray(column)), np.empty(0, np.bool_)
    valid = np.asarray(column.is_valid())
    return frozen(np.asarray(column.fill_null(0))), valid
