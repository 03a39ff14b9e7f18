"""Packing: record batches as bytes and back, for the trip through Spark's rows and for the state's log."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import pyarrow as pa

_PART = struct.Struct("<iq")


def pack_batch(batch: pa.RecordBatch) -> bytes:
    """A batch without its schema, for a reader that knows it."""
    return bytes(batch.serialize())


def unpack_batch(content: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The inverse of `pack_batch`."""
    return pa.ipc.read_record_batch(pa.py_buffer(content), schema)


def pack_parts(parts: Iterable[tuple[int, bytes]]) -> bytes:
    """Several numbered blobs as one."""
    return b"".join(piece for number, content in parts for piece in (_PART.pack(number, len(content)), content))


def unpack_parts(blob: bytes) -> Iterator[tuple[int, bytes]]:
    """The inverse of `pack_parts`."""
    at = 0
    while at < len(blob):
        number, length = _PART.unpack_from(blob, at)
        at += _PART.size
        yield number, blob[at : at + length]
        at += length


def pack_stream(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Batches of one schema with that schema and their dictionaries."""
    sink = pa.BufferOutputStream()
    writer = None
    for batch in batches:
        writer = writer or pa.ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()
    return bytes(sink.getvalue())


def unpack_stream(content: bytes) -> Iterator[pa.RecordBatch]:
    """The inverse of `pack_stream`."""
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        yield from reader
