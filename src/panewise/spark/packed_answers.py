"""Packed answers: the numbers and times that answer a label as one value, so that they travel on as one column.

Spark moves each cell of a column between rows and Arrow by itself. A label with the answers of one GROUP BY, a hundred
columns perhaps, goes through the shuffle of the next one, and nobody looks at them there.

A value has a word for each answer, and then a bit for each: whether it is there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from panewise.arrays import Bools, Ints
from panewise.engine.columns import bytes_of, numbers_of

PIECE_ROWS = 1 << 13
"""Rows are packed so many at a time: they stay in cache, and the offsets of their bytes fit into 32 bits."""
WORD_BYTES = 8


def is_word(kind: pa.DataType) -> bool:
    """Whether answers of a type can be packed; strings and lists travel beside."""
    return kind in (pa.int64(), pa.float64(), pa.bool_()) or bool(pa.types.is_timestamp(kind))


def pack_answers(columns: Sequence[pa.Array]) -> pa.ChunkedArray:
    """The answers of each row as one binary value; columns are words, and there is at least one.

    >>> packed = pack_answers([pa.array([1, None]), pa.array([0.5, 1.5])])
    >>> [column.to_pylist() for column in unpack_answers(packed, [pa.int64(), pa.float64()])]
    [[1, None], [0.5, 1.5]]
    """
    words_bytes, width = _sizes(len(columns))
    numbers = [numbers_of(one.cast(pa.int64()) if pa.types.is_timestamp(one.type) else one) for one in columns]
    pieces = []
    for begin in range(0, len(columns[0]), PIECE_ROWS):
        size = min(PIECE_ROWS, len(columns[0]) - begin)
        words = np.empty((size, len(columns)), np.int64)
        is_there = np.ones((size, len(columns)), np.bool_)
        for place, (values, valid) in enumerate(numbers):
            words[:, place] = values[begin : begin + size].view(np.int64)
            if len(valid):
                is_there[:, place] = valid[begin : begin + size]
        data = np.empty((size, width), np.uint8)
        data[:, :words_bytes] = words.view(np.uint8)
        data[:, words_bytes:] = np.packbits(is_there, axis=1)
        offsets = np.arange(size + 1, dtype=np.int32) * np.int32(width)
        pieces.append(pa.Array.from_buffers(pa.binary(), size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]))
    return pa.chunked_array(pieces, pa.binary())


def unpack_answers(packed: pa.ChunkedArray, kinds: Sequence[pa.DataType]) -> list[pa.ChunkedArray]:
    """The columns that were packed, given their types."""
    words_bytes, width = _sizes(len(kinds))
    pieces: list[list[pa.Array]] = [[] for _ in kinds]
    for piece in packed.chunks:
        data, ends = bytes_of(piece)
        rows = data[ends[0] : ends[-1]].reshape(len(piece), width)
        words = np.ascontiguousarray(rows[:, :words_bytes]).view(np.int64)
        is_there = np.unpackbits(rows[:, words_bytes:], axis=1, count=len(kinds)).view(np.bool_)
        for place, kind in enumerate(kinds):
            pieces[place].append(_typed(np.ascontiguousarray(words[:, place]), ~is_there[:, place], kind))
    return [pa.chunked_array(some, kind) for some, kind in zip(pieces, kinds, strict=True)]


def _sizes(columns: int) -> tuple[int, int]:
    """How many bytes the words of a value take, and the whole value."""
    return WORD_BYTES * columns, WORD_BYTES * columns + (columns + 7) // 8


def _typed(words: Ints, is_missing: Bools, kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        return pa.array(words.view(np.float64), mask=is_missing)
    return pa.array(words, mask=is_missing).cast(kind)
