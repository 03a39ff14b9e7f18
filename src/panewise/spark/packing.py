"""Packing: record batches as bytes and back, for the trip through Spark's rows and for the state's log.

The bytes are Arrow IPC with Zstandard. Partials are full of small numbers and zero words, and every byte passes several
sockets and the state's files. Partials of ten components take two thirds of the bytes that LZ4 needs, in the same time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from panewise.spark.counts import PackedTable

if TYPE_CHECKING:
    from panewise.spark.layouts import TableRows

_HEAD = struct.Struct("<iq")
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


def pack(batch: pa.RecordBatch) -> bytes:
    """A batch with its schema and dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(content: bytes | pa.Buffer) -> pa.RecordBatch:
    """The inverse of `pack`."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_next_batch()


def pack_table(rows: TableRows) -> PackedTable:
    """Rows of a table, packed."""
    return PackedTable(rows.table, pack(rows.rows), rows.answers, rows.part)


class PackedPart(NamedTuple):
    """The partials of one base, packed and unpacked."""

    base: int
    content: bytes
    partials: pa.RecordBatch

    @staticmethod
    def of(base: int, content: bytes) -> PackedPart:
        """A part from its bytes."""
        return PackedPart(base, content, unpack(content))


def pack_parts(parts: Iterable[PackedPart]) -> bytes:
    """Several parts as one entry of the log."""
    return b"".join(piece for part in parts for piece in (_HEAD.pack(part.base, len(part.content)), part.content))


def unpack_parts(entry: bytes) -> list[PackedPart]:
    """The inverse of `pack_parts`."""
    parts, at = [], 0
    while at < len(entry):
        base, length = _HEAD.unpack_from(entry, at)
        at += _HEAD.size
        parts.append(PackedPart.of(base, entry[at : at + length]))
        at += length
    return parts
