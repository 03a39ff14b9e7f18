"""Packed events: the events of each place as few values, so that they go through a shuffle as few rows.

Spark moves each cell of a row into and out of a shuffle, sorts rows, and moves each cell to Arrow again. Events that a
worker packs by place before the shuffle go through it as blobs. A blob is an Arrow record batch without its schema, and
not compressed: Spark compresses the shuffle. So a blob of a few events, where there are many places, costs little too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panewise.spark.gathering import gathered

PLACE, EVENTS = "panewise_place", "panewise_events"
PACKED_SCHEMA = f"{PLACE} int, {EVENTS} binary"
MOST_BYTES = 48 << 20
"""Events are held up to this size before they are packed: with hundreds of places a blob still has many of them."""

Batches = Iterator[pa.RecordBatch]


def packs_events(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """The function that `mapInArrow` applies to events with their places; `schema` is that of what is packed."""

    def pack_events(batches: Batches) -> Batches:
        for some in gathered(batches, lambda batch: batch.nbytes, MOST_BYTES):
            yield _packed(some, schema)

    return pack_events


def _packed(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """A row for each place, in the order of places; the events of a place keep theirs."""
    table = pa.Table.from_batches(batches)
    places = np.asarray(table.column(PLACE).combine_chunks())
    order = np.argsort(places, kind="stable")
    rows = table.select(schema.names).cast(schema).take(pa.array(order)).combine_chunks()
    places = places[order]
    begins = np.flatnonzero(np.append(True, places[1:] != places[:-1])) if len(places) else np.empty(0, np.int64)
    blobs = [
        rows.slice(begin, end - begin).to_batches()[0].serialize().to_pybytes()
        for begin, end in pairwise([*begins.tolist(), len(places)])
    ]
    return pa.record_batch([pa.array(places[begins], pa.int32()), pa.array(blobs, pa.binary())], names=[PLACE, EVENTS])


def unpack_events(packed: Iterable[pa.Scalar], schema: pa.Schema) -> pa.RecordBatch:
    """The events of some blobs.

    >>> schema = pa.schema([("ts", pa.int64())])
    >>> batch = pa.record_batch([pa.array([7, 3, 7], pa.int32()), pa.array([1, 2, 3])], names=[PLACE, "ts"])
    >>> (packed,) = packs_events(schema)(iter([batch]))
    >>> packed[PLACE].to_pylist(), unpack_events(packed[EVENTS], schema)["ts"].to_pylist()
    ([3, 7], [2, 1, 3])
    """
    parts = [pa.ipc.read_record_batch(one.as_buffer(), schema) for one in packed]
    return pa.concat_batches(parts) if parts else pa.RecordBatch.from_pylist([], schema)
