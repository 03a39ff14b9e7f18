"""Running intervals: the combination of all of a key's elements up to and with each position.

A segment holds as many of them as elements. The combination of what came before the first held position is one more
number for each key (`base`); for pairs it follows from the elements, which are kept beside their sums. Integers wrap,
and differences of wrapped sums are exact as long as the window's own sum fits. Sums of pairs start again at each lap of
the segment, so that they are never larger than what two laps hold, however long the stream runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine, differs, take_off
from panewise.kernels.pairs import add_pairs
from panewise.kernels.pool import Keys, key_at, write_ring

Elements = npt.NDArray[Any]
Pairs = npt.NDArray[np.complex128]
Ints = npt.NDArray[np.int64]
Shifts = npt.NDArray[np.int8]
Marks = npt.NDArray[np.int32]

PAIR_ERROR = 2.0**-102
"""A bound of the relative error of one addition of pairs, with room to spare."""


@njit(cache=True, nogil=True)
def append_running(
    operation: int,
    user: Any,
    identity: Any,
    running: Elements,
    base: Elements,
    offset: Ints,
    shift: Shifts,
    first: Ints,
    keys: Ints,
    bounds: Ints,
    begin: Ints,
    after: Ints,
    values: Elements,
) -> None:
    """Take in each key's group of values from position `begin` on; `after` is its first held position when done."""
    for j in range(len(keys)):
        key = keys[j]
        mask = (1 << int(shift[key])) - 1
        at = offset[key]
        start = begin[j]
        last_left = after[j] - 1
        total = identity
        if start == first[key]:
            base[key] = identity
        else:
            total = running[at + ((start - 1) & mask)]
        if first[key] <= last_left < start:
            base[key] = running[at + (last_left & mask)]
        i = bounds[j]
        t = start
        while i < bounds[j + 1]:
            # Up to the end of the ring, and up to what leaves with this batch, without a test in the loop.
            stop = min(i + mask + 1 - (t & mask), bounds[j + 1])
            if t <= last_left:
                stop = min(stop, i + last_left + 1 - t)
            place = at + (t & mask) - i
            t += stop - i
            for source in range(i, stop):
                total = combine(operation, user, total, values[np.uint64(source)])
                running[np.uint64(place + source)] = total
            if t == last_left + 1:
                base[key] = total
            i = stop


@njit(cache=True, nogil=True)
def advance_base(
    running: Elements, base: Elements, offset: Ints, shift: Shifts, first: Ints, keys: Ints, after: Ints
) -> None:
    """Let go of what is held before `after`."""
    for j in range(len(keys)):
        key = keys[j]
        if after[j] > first[key]:
            base[key] = running[offset[key] + ((after[j] - 1) & ((1 << int(shift[key])) - 1))]


@njit(cache=True, nogil=True)
def fold_running(
    inverse: Any,
    identity: Any,
    running: Elements,
    base: Elements,
    offset: Ints,
    shift: Shifts,
    first: Ints,
    keys: Keys,
    low: Ints,
    high: Ints,
) -> Elements:
    """Fold each key's range as the difference of two running combinations."""
    out = np.empty(len(low), running.dtype)
    for i in range(len(low)):
        if low[i] >= high[i]:
            out[i] = identity
            continue
        key = key_at(keys, i)
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        prefix = base[key] if low[i] == first[key] else running[np.uint64(at + ((low[i] - 1) & mask))]
        out[i] = take_off(inverse, running[np.uint64(at + ((high[i] - 1) & mask))], prefix)
    return out


@njit(cache=True, nogil=True)
def _extend_pairs(
    running: Pairs,
    elements: Pairs,
    special: Marks,
    magnitudes: Pairs,
    key: int,
    at: int,
    mask: int,
    start: int,
    end: int,
    is_fresh: bool,
) -> None:
    """Write the sums at positions start .. end - 1, whose elements are there; `is_fresh`: nothing before them counts.

    `magnitudes` has for each key the sum of |x| of the lap before the current one and, as the imaginary part, of the
    current one. `special` counts infinities and NaNs as `running` sums the others; it is empty until one comes.
    """
    high = low = before = now = 0.0
    marked = np.int32(0)
    if not is_fresh:
        last = at + ((start - 1) & mask)
        high = running[last].real
        low = running[last].imag
        before = magnitudes[key].real
        now = magnitudes[key].imag
        if len(special):
            marked = special[last]
    for t in range(start, end):
        if t & mask == 0:
            high = low = 0.0
            before = now
            now = 0.0
        place = np.uint64(at + (t & mask))
        value = elements[place]
        if np.isfinite(value.real):
            high, low = add_pairs(high, low, value.real, value.imag)
            now += np.abs(value.real)
        else:
            marked = np.int32(marked + 1)
        running[place] = complex(high, low)
        if len(special):
            special[place] = marked
    magnitudes[key] = complex(before, now)


@njit(cache=True, nogil=True)
def append_running_pairs(
    running: Pairs,
    elements: Pairs,
    special: Marks,
    magnitudes: Pairs,
    offset: Ints,
    shift: Shifts,
    first: Ints,
    keys: Ints,
    bounds: Ints,
    begin: Ints,
    after: Ints,
    values: Pairs,
) -> None:
    """Take in each key's group of values from position `begin` on; `after` is its first held position when done."""
    for j in range(len(keys)):
        key = keys[j]
        mask = (1 << int(shift[key])) - 1
        at = offset[key]
        source = bounds[j] - begin[j]
        end = bounds[j + 1] - source
        start = max(begin[j], after[j])
        write_ring(elements, at, mask + 1, values, source, start, end)
        is_fresh = start == after[j] or start == first[key]
        _extend_pairs(running, elements, special, magnitudes, key, at, mask, start, end, is_fresh)


@njit(cache=True, nogil=True)
def rebuild_pairs(
    running: Pairs,
    elements: Pairs,
    special: Marks,
    magnitudes: Pairs,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    first: Ints,
    length: Ints,
) -> None:
    """Build the sums of some keys again from their elements."""
    for j in range(len(keys)):
        key = keys[j]
        mask = (1 << int(shift[key])) - 1
        _extend_pairs(running, elements, special, magnitudes, key, offset[key], mask, first[key], length[key], True)


@njit(cache=True, nogil=True)
def fold_running_pairs(
    running: Pairs,
    elements: Pairs,
    special: Marks,
    magnitudes: Pairs,
    offset: Ints,
    shift: Shifts,
    length: Ints,
    keys: Keys,
    low: Ints,
    high: Ints,
) -> Pairs:
    """Fold each key's range as a difference, or add it up where a difference would not be good enough.

    That is where the range has an infinity or a NaN, where sums overflow, and where the sums of two laps are so much
    larger than the answer that their rounding might show in it.
    """
    out = np.empty(len(low), running.dtype)
    for i in range(len(low)):
        a = low[i]
        b = high[i] - 1
        if a > b:
            out[i] = complex(0.0, 0.0)
            continue
        key = key_at(keys, i)
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        lap = (length[key] - 1) & ~mask
        head = elements[np.uint64(at + (a & mask))]
        whole = running[np.uint64(at + (b & mask))]
        prefix = running[np.uint64(at + (a & mask))]
        total_high, total_low = add_pairs(whole.real, whole.imag, -prefix.real, -prefix.imag)
        total_high, total_low = add_pairs(head.real, head.imag, total_high, total_low)
        if a < lap <= b:
            # The last sum of the lap before stays in its place until the current lap is full.
            total_high, total_low = add_pairs(running[at + mask].real, running[at + mask].imag, total_high, total_low)
        is_good = np.isfinite(total_high)
        if is_good and len(special):
            is_good = special[at + (a & mask)] == special[at + (b & mask)]
        error = PAIR_ERROR * (mask + 1) * (magnitudes[key].real + magnitudes[key].imag)
        if not (is_good and error <= 2.0**-54 * np.abs(total_high)):
            total_high = total_low = 0.0
            for t in range(a, b + 1):
                element = elements[at + (t & mask)]
                total_high, total_low = add_pairs(total_high, total_low, element.real, element.imag)
        out[i] = complex(total_high, total_low)
    return out


@njit(cache=True, nogil=True)
def find_wrong_sums(
    running: Pairs,
    elements: Pairs,
    special: Marks,
    magnitudes: Pairs,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    first: Ints,
    length: Ints,
) -> int:
    """The first key whose sums do not follow from each other, or exceed its magnitudes; -1 if there is none."""
    for j in range(len(keys)):
        key = keys[j]
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        now = 0.0
        for t in range(first[key], length[key]):
            element = elements[at + (t & mask)]
            is_finite = np.isfinite(element.real)
            if t & mask == 0:
                now = 0.0
            if is_finite:
                now += np.abs(element.real)
            if t == first[key]:
                continue
            before = running[at + ((t - 1) & mask)] if t & mask else complex(0.0, 0.0)
            wanted = before
            if is_finite:
                high, low = add_pairs(before.real, before.imag, element.real, element.imag)
                wanted = complex(high, low)
            stored = running[at + (t & mask)]
            if differs(stored, wanted):
                return int(key)
            if len(special):
                marked = np.int32(special[at + (t & mask)] - special[at + ((t - 1) & mask)])
                if marked != (0 if is_finite else 1):
                    return int(key)
            elif not is_finite:
                return int(key)
        if now > magnitudes[key].imag * (1.0 + 1e-9):
            return int(key)
    return -1
