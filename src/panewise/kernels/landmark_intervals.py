"""Landmark intervals: combinations up to the next multiple of a spacing, and from the last one on.

Landmarks lie at multiples of a spacing 2**level. The suffix of a position runs to the next landmark, the prefix of a
position from the landmark before it. A range at least one spacing wide and less than two is its first suffix, at most
one whole block, and its last prefix. Rings hold whole blocks, so a block never lies across a ring's end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine
from panewise.kernels.rings import place

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def extend_landmarks(
    operation: int,
    user: Any,
    ring: Elements,
    suffixes: Elements,
    prefixes: Elements,
    level: int,
    first: int,
    start: int,
    values: Elements,
) -> None:
    """Prefixes of the new positions, and suffixes of the blocks that they complete.

    `ring` holds the elements before `start`, and `first` is the first position whose element is held. A block that
    begins before it gets no useful prefixes: no range asks for them.
    """
    end = start + len(values)
    position = start
    while position < end:
        block = position >> level << level
        stop = min(block + (1 << level), end)
        source = values[position - start : stop - start]
        at = position % len(prefixes)
        target = prefixes[at : at + len(source)]
        total = source[0]
        if position > block and position > first:
            total = combine(operation, user, prefixes[at - 1], total)
        target[0] = total
        for i in range(1, len(source)):
            total = combine(operation, user, total, source[i])
            target[i] = total
        if stop == block + (1 << level):
            at = block % len(suffixes)
            target = suffixes[at : at + (1 << level)]
            before = position - block
            total = source[len(source) - 1]
            target[before + len(source) - 1] = total
            for i in range(len(source) - 2, -1, -1):
                total = combine(operation, user, source[i], total)
                target[before + i] = total
            for i in range(before - 1, max(first - block, 0) - 1, -1):
                total = combine(operation, user, ring[(block + i) % len(ring)], total)
                target[i] = total
        position = stop


@njit(cache=True, nogil=True)
def fold_landmarks(
    operation: int,
    user: Any,
    store: Elements,
    places: Ints,
    length: int,
    low: Ints,
    high: Ints,
    out: Elements,
) -> int:
    """Fold each range with the partition of its width; returns the first range that none serves, or -1.

    places[level] says for the partition of widths from 2**level on: where its suffixes begin in `store`, how many
    there are, their lap, and the same for its prefixes; a level without a partition has none of either.
    """
    for i in range(len(low)):
        a = low[i]
        b = high[i]
        level = _log2(b - a)
        if not _serves(places, level, length, a, b):
            if a > 0:
                return i
            # From the beginning of the stream, where a window is not yet full: a prefix of the first block.
            while level < len(places) and not (b <= 1 << level and _serves(places, level, length, a, b)):
                level += 1
            if level == len(places):
                return i
        suffixes = places[level, 0]
        prefixes = places[level, 3]
        size = places[level, 4]
        lap = places[level, 5]
        ending = store[np.uint64(prefixes + place(b - 1, lap, size))]
        block = a >> level
        last = (b - 1) >> level
        if last == block:
            # One block from its beginning on.
            out[i] = ending
            continue
        total = store[np.uint64(suffixes + place(a, places[level, 2], places[level, 1]))]
        # Combine whether a whole block lies between or not: that is as good as random, and a wrong guess costs more.
        whole = store[np.uint64(prefixes + place((last << level) - 1, lap, size))]
        longer = combine(operation, user, total, whole)
        out[i] = combine(operation, user, longer if last - block == 2 else total, ending)
    return -1


@njit(inline="always")
def _log2(width: int) -> int:
    """The exponent of the width as a double: its logarithm, rounded down."""
    return int(np.float64(width).view(np.int64) >> 52) - 1023


@njit(inline="always")
def _serves(places: Ints, level: int, length: int, low: int, high: int) -> bool:
    """Whether a partition exists and reaches back to both ends of a range."""
    if level >= len(places):
        return False
    return bool(length - low <= places[level, 1] and length - high < places[level, 4] - (1 << level))


def split(low: int, high: int, spacing: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two landmark intervals that make up a range of positions low .. high.

    >>> split(3257, 5164, spacing=1000)
    ((3257, 3999), (4000, 5164))
    """
    landmark = (low // spacing + 1) * spacing
    return (low, landmark - 1), (landmark, high)
