"""Hash tables over arrays: values to dense ids in order of first appearance, and hashes that never change.

A table is an array of ids (-1 is free; int32 for integers, int64 for bytes) of a power-of-two length, beside the stored
values themselves. When it becomes half full a kernel stops and says how far it came; the caller doubles the table and
calls again.
The hash functions decide which bucket a key belongs to, so stored streams depend on them: they must not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


@njit(inline="always")
def mix(value: int | np.uint64) -> np.uint64:
    """Scatter the bits of a word (the finaliser of splitmix64)."""
    h = np.uint64(value)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@njit(inline="always")
def mix_bytes(data: Bytes, start: int, end: int) -> np.uint64:
    """Hash a run of bytes: FNV-1a, then mixed."""
    h = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        h = (h ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return mix(h)


@njit(cache=True, nogil=True)
def hash_ints(values: Ints, out: Words) -> None:
    """Fold each value into the hash so far."""
    for i in range(len(values)):
        out[i] = mix(out[i] * np.uint64(0x9E3779B97F4A7C15) + mix(values[i] + 0x1234567))


@njit(cache=True, nogil=True)
def hash_bytes(data: Bytes, offsets: Ints, out: Words) -> None:
    """Hash each run of bytes."""
    for i in range(len(out)):
        out[i] = mix_bytes(data, offsets[i], offsets[i + 1])


@njit(cache=True, nogil=True)
def rehash_ints(table: Places, stored: Ints, count: int) -> None:
    """Enter the stored values into an empty table."""
    mask = len(table) - 1
    for i in range(count):
        place = np.int64(mix(stored[i]) & np.uint64(mask))
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = i


@njit(inline="always")
def _find_int(value: int, table: Places, stored: Ints) -> tuple[Any, Any]:
    """The place in the table of a value, and its id; -1 if it is not stored and the place is free."""
    mask = len(table) - 1
    place = np.int64(mix(value) & np.uint64(mask))
    found = np.int64(table[place])
    while found >= 0 and stored[found] != value:
        place = (place + 1) & mask
        found = np.int64(table[place])
    return place, found


@njit(cache=True, nogil=True)
def find_ints(values: Ints, begin: int, table: Places, stored: Ints, count: int, ids: Ints) -> tuple[int, int]:
    """Give each value its id, entering new ones. Returns how far it came and how many values are stored."""
    for i in range(begin, len(values)):
        place, found = _find_int(values[i], table, stored)
        if found < 0:
            if count >= len(stored):
                return i, count
            table[place] = count
            stored[count] = values[i]
            found = count
            count += 1
        ids[i] = found
    return len(values), count


@njit(cache=True, nogil=True)
def probe_ints(values: Ints, table: Places, stored: Ints, ids: Ints) -> None:
    """The id of each value, or -1 if it is not stored; enters nothing."""
    for i in range(len(values)):
        ids[i] = _find_int(values[i], table, stored)[1]


@njit(cache=True, nogil=True)
def find_small_ints(values: Ints, table: Ints, ids: Ints) -> int:
    """Give each value its id by direct addressing; values lie in [0, len(table)), and the table starts all -1."""
    count = 0
    for i in range(len(values)):
        found = table[values[i]]
        if found < 0:
            found = count
            table[values[i]] = count
            count += 1
        ids[i] = found
    return count


@njit(cache=True, nogil=True)
def probe_int(value: int, table: Places, stored: Ints) -> int:
    """The id of one value, -1 when it is not stored."""
    return int(_find_int(value, table, stored)[1])


@njit(cache=True, nogil=True)
def first_places(ids: Ints, out: Ints) -> None:
    """The place at which each id appears first; ids are dense and numbered in order of first appearance."""
    seen = 0
    for i in range(len(ids)):
        if ids[i] == seen:
            out[seen] = i
            seen += 1


@njit(cache=True, nogil=True)
def rehash_bytes(table: Ints, data: Bytes, offsets: Ints, count: int) -> None:
    """Enter the stored runs of bytes into an empty table."""
    mask = len(table) - 1
    for i in range(count):
        place = np.int64(mix_bytes(data, offsets[i], offsets[i + 1]) & np.uint64(mask))
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = i


@njit(inline="always")
def _same_bytes(a: Bytes, a_start: int, a_end: int, b: Bytes, b_start: int, b_end: int) -> bool:
    if a_end - a_start != b_end - b_start:
        return False
    for i in range(a_end - a_start):  # noqa: SIM110 - numba compiles loops, not generators
        if a[a_start + i] != b[b_start + i]:
            return False
    return True


@njit(inline="always")
def _find_run(new_data: Bytes, start: int, end: int, table: Ints, data: Bytes, offsets: Ints) -> tuple[Any, Any]:
    """The place in the table of a run of bytes, and its id; -1 if it is not stored and the place is free."""
    mask = len(table) - 1
    place = np.int64(mix_bytes(new_data, start, end) & np.uint64(mask))
    found = table[place]
    while found >= 0 and not _same_bytes(new_data, start, end, data, offsets[found], offsets[found + 1]):
        place = (place + 1) & mask
        found = table[place]
    return place, found


@njit(cache=True, nogil=True)
def find_bytes(
    new_data: Bytes, new_offsets: Ints, table: Ints, data: Bytes, offsets: Ints, count: int, ids: Ints
) -> int:
    """Give each new run of bytes its id, entering those not seen before; the table must have room for all of them."""
    for i in range(len(ids)):
        start, end = new_offsets[i], new_offsets[i + 1]
        place, found = _find_run(new_data, start, end, table, data, offsets)
        if found < 0:
            found = count
            table[place] = count
            at = offsets[count]
            for j in range(start, end):
                data[at + j - start] = new_data[j]
            offsets[count + 1] = at + end - start
            count += 1
        ids[i] = found
    return count


@njit(cache=True, nogil=True)
def probe_bytes(new_data: Bytes, new_offsets: Ints, table: Ints, data: Bytes, offsets: Ints, ids: Ints) -> None:
    """The id of each run of bytes, or -1 if it is not stored; enters nothing."""
    for i in range(len(ids)):
        ids[i] = _find_run(new_data, new_offsets[i], new_offsets[i + 1], table, data, offsets)[1]
