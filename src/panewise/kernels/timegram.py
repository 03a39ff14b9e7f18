"""TimeGram: which value bucket each element fell into, and how many of each bucket lie in a window.

Elements lie in slots 0, 1, ... in order of arrival. `codes` has the bucket of each slot. Every `block` slots a row of
`counts` says how many of each bucket came before; so the counts of any window are the difference of two rows and a scan
of less than a block at each end: O(K), whatever the size of the window.

The refined form also has, for each block, the exact sum, minimum and maximum. `levels` are base intervals over them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import ADD, combine
from panewise.kernels.pairs import add_pairs, value_of_pair

Elements = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint16]
Counts = npt.NDArray[np.int32]

COUNT, SUM, MAX, MIN = range(4)


@njit(inline="always")
def bucket_of(value: Any, edges: Elements, scale: float) -> int:
    """The last bucket whose lower edge is not above the value; the first bucket for values below all edges."""
    last = len(edges) - 1
    if scale == 0.0:
        low = 0
        high = last
        while low < high:
            middle = (low + high + 1) >> 1
            if edges[middle] <= value:
                low = middle
            else:
                high = middle - 1
        return low
    # A guess from equal widths. It may be off by rounding, and the edges decide.
    guess = float(value) * scale - float(edges[0]) * scale
    at = last if guess >= last else (int(guess) if guess > 0.0 else 0)
    while at > 0 and value < edges[at]:
        at -= 1
    while at < last and value >= edges[at + 1]:
        at += 1
    return at


@njit(cache=True, nogil=True)
def put(
    values: Elements,
    slot: int,
    codes: Codes,
    counts: Counts,
    totals: Counts,
    edges: Elements,
    scale: float,
    lows: Elements,
    highs: Elements,
    block: int,
) -> bool:
    """Put values into slots slot, slot + 1, ...; returns whether an outermost bucket was stretched to hold one."""
    least = lows[0]
    greatest = highs[len(edges) - 1]
    done = 0
    while done < len(values):
        size = min(len(values) - done, block - slot % block)
        for i in range(done, done + size):
            value = values[i]
            least = min(least, value)
            greatest = max(greatest, value)
            code = bucket_of(value, edges, scale)
            codes[slot] = code
            totals[code] += 1
            slot += 1
        done += size
        if slot % block == 0:
            for code in range(len(totals)):
                counts[slot // block, code] = totals[code]
    stretched = bool(least < lows[0] or greatest > highs[len(edges) - 1])
    lows[0] = least
    highs[len(edges) - 1] = greatest
    return stretched


@njit(cache=True, nogil=True)
def put_refined(
    values: Elements,
    elements: Elements,
    slot: int,
    sums: Elements,
    magnitudes: Floats,
    running: Elements,
    running_magnitudes: Floats,
    least: Elements,
    greatest: Elements,
    offsets: Ints,
    block: int,
) -> None:
    """Take values into the sums and extremes of their blocks; `elements` are the values as `sums` holds them."""
    for i in range(len(values)):
        value = values[i]
        at = slot // block
        if slot % block == 0:
            sums[at] = elements[i]
            magnitudes[at] = abs(float(value))
            least[at] = value
            greatest[at] = value
        else:
            sums[at] = combine(ADD, None, sums[at], elements[i])
            magnitudes[at] += abs(float(value))
            least[at] = min(least[at], value)
            greatest[at] = max(greatest[at], value)
        slot += 1
        if slot % block == 0 or i == len(values) - 1:
            running[at + 1] = combine(ADD, None, running[at], sums[at])
            running_magnitudes[at + 1] = running_magnitudes[at] + magnitudes[at]
        if slot % block == 0:
            raise_levels(least, greatest, offsets, at)


@njit(cache=True, nogil=True)
def raise_levels(least: Elements, greatest: Elements, offsets: Ints, at: int) -> None:
    """Complete the base intervals that end with block `at`."""
    level = 1
    while level < len(offsets) - 1 and at & 1:
        at >>= 1
        left = offsets[level - 1] + 2 * at
        least[offsets[level] + at] = min(least[left], least[left + 1])
        greatest[offsets[level] + at] = max(greatest[left], greatest[left + 1])
        level += 1


@njit(cache=True, nogil=True)
def recount_blocks(
    sums: Elements,
    magnitudes: Floats,
    running: Elements,
    running_magnitudes: Floats,
    least: Elements,
    greatest: Elements,
    offsets: Ints,
    complete: int,
    blocks: int,
) -> None:
    """Rebuild the running sums and the levels from the blocks; the last of `blocks` may still be filling."""
    for at in range(blocks):
        running[at + 1] = combine(ADD, None, running[at], sums[at])
        running_magnitudes[at + 1] = running_magnitudes[at] + magnitudes[at]
        if at < complete:
            raise_levels(least, greatest, offsets, at)


@njit(inline="always")
def _weigh(found: Counts, lows: Elements, highs: Elements) -> tuple[Any, Any, float]:
    """The sums of the buckets' lower and upper ends, by count, and the sum of their magnitudes."""
    low = lows[0] * found[0]
    high = highs[0] * found[0]
    magnitude = abs(float(lows[0])) * found[0] + abs(float(highs[0])) * found[0]
    # Empty buckets count zero times: reading them costs less than a test.
    for code in range(1, len(found)):
        low += lows[code] * found[code]
        high += highs[code] * found[code]
        magnitude += (abs(float(lows[code])) + abs(float(highs[code]))) * found[code]
    return low, high, magnitude


@njit(inline="always")
def _count_window(
    codes: Codes, counts: Counts, totals: Counts, block: int, end: int, a: int, b: int, found: Counts
) -> None:
    """How many of each bucket lie in slots a .. b - 1."""
    if b - a <= block:
        found[:] = 0
        for i in range(a, b):
            found[codes[i]] += 1
    else:
        # The nearer of the two rows around each end; the newest end needs none.
        lower = min((a + block // 2) // block, end // block)
        upper = min((b + block // 2) // block, end // block)
        bottom = counts[lower]
        if b == end:
            for code in range(len(found)):
                found[code] = totals[code] - bottom[code]
        else:
            top = counts[upper]
            for code in range(len(found)):
                found[code] = top[code] - bottom[code]
            for i in range(upper * block, b):
                found[codes[i]] += 1
            for i in range(b, upper * block):
                found[codes[i]] -= 1
        for i in range(lower * block, a):
            found[codes[i]] -= 1
        for i in range(a, lower * block):
            found[codes[i]] += 1


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def fold_buckets(
    kinds: Ints,
    low_slots: Ints,
    high_slots: Ints,
    codes: Codes,
    counts: Counts,
    totals: Counts,
    block: int,
    end: int,
    lows: Elements,
    highs: Elements,
) -> tuple[Elements, Elements, Floats]:
    """The bounds of the aggregate of each range of slots; the magnitudes bound the rounding of sums."""
    out_low = np.zeros(len(low_slots), lows.dtype)
    out_high = np.zeros(len(low_slots), lows.dtype)
    magnitudes = np.zeros(len(low_slots))
    found = np.empty(len(totals), np.int32)
    begin = 0
    stop = -1
    for i in range(len(low_slots)):
        a = low_slots[i]
        b = high_slots[i]
        if a >= b:
            continue
        if kinds[i] == COUNT:
            out_low[i] = out_high[i] = b - a
            continue
        if b == stop and begin <= a <= begin + block // 2:
            # A little smaller than the window before: only what lies between the two leaves.
            for slot in range(begin, a):
                found[codes[slot]] -= 1
        else:
            _count_window(codes, counts, totals, block, end, a, b, found)
        begin = a
        stop = b
        if kinds[i] == SUM:
            out_low[i], out_high[i], magnitudes[i] = _weigh(found, lows, highs)
        else:
            at = 0
            if kinds[i] == MAX:
                at = len(found) - 1
                while found[at] == 0:
                    at -= 1
            else:
                while found[at] == 0:
                    at += 1
            out_low[i] = lows[at]
            out_high[i] = highs[at]
    return out_low, out_high, magnitudes


@njit(inline="always")
def _extend(is_max: bool, is_set: bool, low: Any, high: Any, more_low: Any, more_high: Any) -> tuple[Any, Any]:
    """The bounds of the extreme once a further part, with bounds of its own, is taken in."""
    if not is_set:
        return more_low, more_high
    if is_max:
        return max(low, more_low), max(high, more_high)
    return min(low, more_low), min(high, more_high)


@njit(cache=True, nogil=True)
def fold_refined(
    kinds: Ints,
    low_slots: Ints,
    high_slots: Ints,
    codes: Codes,
    block: int,
    end: int,
    lows: Elements,
    highs: Elements,
    least: Elements,
    greatest: Elements,
    offsets: Ints,
) -> tuple[Elements, Elements, Floats, Ints, Ints]:
    """As `fold_buckets`, with whole blocks exact and buckets at the two ends only.

    For SUM it gives what the ends add, and in the last two arrays which running sums the whole blocks lie between.
    """
    size = len(low_slots)
    out_low = np.zeros(size, lows.dtype)
    out_high = np.zeros(size, lows.dtype)
    magnitudes = np.zeros(size)
    first = np.zeros(size, np.int64)
    last = np.zeros(size, np.int64)
    for i in range(size):
        a = low_slots[i]
        b = high_slots[i]
        if a >= b:
            continue
        if kinds[i] == COUNT:
            out_low[i] = out_high[i] = b - a
            continue
        begin = (a + block - 1) // block
        stop = b // block
        # The block that is filling is known exactly up to the newest element.
        is_open = b == end and b % block != 0 and begin <= stop
        whole = stop + 1 if is_open else stop
        head = min(b, begin * block)
        tail = b if is_open else max(head, stop * block)
        if begin >= whole:
            head = tail = b
        low = high = lows[0] - lows[0]
        if kinds[i] == SUM:
            for slot in range(a, head):
                code = codes[slot]
                low += lows[code]
                high += highs[code]
                magnitudes[i] += abs(float(lows[code])) + abs(float(highs[code]))
            for slot in range(tail, b):
                code = codes[slot]
                low += lows[code]
                high += highs[code]
                magnitudes[i] += abs(float(lows[code])) + abs(float(highs[code]))
            if begin < whole:
                first[i] = begin
                last[i] = whole
        else:
            is_max = kinds[i] == MAX
            extremes = greatest if is_max else least
            is_set = False
            for slot in range(a, head):
                low, high = _extend(is_max, is_set, low, high, lows[codes[slot]], highs[codes[slot]])
                is_set = True
            for slot in range(tail, b):
                low, high = _extend(is_max, is_set, low, high, lows[codes[slot]], highs[codes[slot]])
                is_set = True
            if is_open:
                low, high = _extend(is_max, is_set, low, high, extremes[stop], extremes[stop])
                is_set = True
            x = begin
            y = stop
            level = 0
            while x < y:
                if x & 1:
                    exact = extremes[offsets[level] + x]
                    low, high = _extend(is_max, is_set, low, high, exact, exact)
                    is_set = True
                if y & 1:
                    exact = extremes[offsets[level] + y - 1]
                    low, high = _extend(is_max, is_set, low, high, exact, exact)
                    is_set = True
                x = (x + 1) >> 1
                y >>= 1
                level += 1
        out_low[i] = low
        out_high[i] = high
    return out_low, out_high, magnitudes, first, last


@njit(cache=True, nogil=True)
def pair_differences(running: npt.NDArray[np.complex128], first: Ints, last: Ints) -> Floats:
    """running[last] - running[first], of pairs."""
    out = np.empty(len(first))
    for i in range(len(first)):
        a = running[first[i]]
        b = running[last[i]]
        high, low = add_pairs(b.real, b.imag, -a.real, -a.imag)
        out[i] = value_of_pair(high, low, 1.0)
    return out
