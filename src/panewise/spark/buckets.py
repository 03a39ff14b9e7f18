"""Buckets: which bucket a key belongs to, and bucket ids that Spark spreads evenly over its partitions.

A bucket is the unit of state. A hash that never changes gives a key's bucket. The ids of buckets are chosen so that
Spark's hash partitioning gives every partition the same number of buckets.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.columns import bits_of, bytes_of
from panewise.kernels.hashing import hash_bytes, hash_ints
from panewise.planning.trees import Base, StreamPlan


def bucket_ids(partitions: int, buckets: int) -> list[int]:
    """The ids of some buckets, spread over Spark's partitions as evenly as their number allows."""
    room = [buckets // partitions + (place < buckets % partitions) for place in range(partitions)]
    ids: list[int] = []
    candidate = 0
    while len(ids) < buckets:
        partition = spark_partition(candidate, partitions)
        if room[partition]:
            room[partition] -= 1
            ids.append(candidate)
        candidate += 1
    return ids


def spark_partition(value: int, partitions: int) -> int:
    """The partition that Spark's hash partitioning gives to an INT: Murmur3 with seed 42, modulo the partitions.

    >>> [spark_partition(value, 200) for value in range(5)]
    [191, 43, 174, 51, 102]
    """
    word = value & 0xFFFFFFFF
    word = word * 0xCC9E2D51 & 0xFFFFFFFF
    word = (word << 15 | word >> 17) & 0xFFFFFFFF
    word = word * 0x1B873593 & 0xFFFFFFFF
    h = 42 ^ word
    h = (h << 13 | h >> 19) & 0xFFFFFFFF
    h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return (h - (1 << 32) if h >> 31 else h) % partitions


def bucket_places(plan: StreamPlan, base: Base, partials: pa.RecordBatch, buckets: int) -> Ints:
    """The place in the list of buckets of each partial, by what all trees of its base group by."""
    keys = [(partials.column(plan.key_column(key)), plan.stream.attributes[key]) for key in base.together_by]
    return places_of(base.number, keys, partials.num_rows, buckets)


def places_of(base: int, keys: list[tuple[pa.Array, Type]], length: int, buckets: int) -> Ints:
    """The place in the list of buckets of each key of a base, given the columns of the keys and their types."""
    hashes = np.zeros(length, np.uint64)
    hash_ints(np.full(length, base), hashes)
    for column, kind in keys:
        hash_ints(_words(column, kind), hashes)
    return (hashes % np.uint64(buckets)).astype(np.int64)


def _words(column: pa.Array, kind: Type) -> Ints:
    """A word per value; NULL has its own."""
    words = np.full(len(column), -(2**63) + 1)
    valid = np.asarray(column.is_valid())
    present = column.drop_null()
    if kind is Type.STRING:
        encoded = present.dictionary_encode()
        data, offsets = bytes_of(encoded.dictionary)
        hashes = np.empty(len(encoded.dictionary), np.uint64)
        hash_bytes(data, offsets, hashes)
        words[valid] = hashes.view(np.int64)[np.asarray(encoded.indices)]
    else:
        words[valid] = bits_of(present, kind)
    return words
