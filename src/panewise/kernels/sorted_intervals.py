"""Sorted base intervals: the elements of 1, 2, 4, ... neighbours in order, in each key's segment.

Interval k of level j covers positions k * 2**j .. (k + 1) * 2**j - 1 and is a run of that many keys in order. `levels`
has an array of `size` places for each level, and in it the runs lie where their elements lie in the segment.

The keys of values are int64 in the order of the values: an integer is its own key; among doubles, -0.0 has the key of
0.0 and NaN has a key above infinity. NULL has the largest key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pool import Keys, key_at

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Shifts = npt.NDArray[np.int8]

NULL_KEY = np.iinfo(np.int64).max
_SMALLEST = np.iinfo(np.int64).min
_MAGNITUDE = np.iinfo(np.int64).max
_INFINITY = 0x7FF0000000000000
_NAN = 0x7FF8000000000000

MOST_RUNS = 128
"""Two runs a level, and no more than 63 levels."""

FEW = 24
"""This many keys or fewer are sorted rather than split further."""


@njit(cache=True, nogil=True)
def keys_of_doubles(bits: Ints) -> Ints:
    """The keys of doubles, given as their bits."""
    keys = np.empty(len(bits), np.int64)
    for i in range(len(bits)):
        magnitude = bits[i] & _MAGNITUDE
        if magnitude > _INFINITY:
            keys[i] = _NAN
        elif bits[i] >= 0:
            keys[i] = bits[i]
        else:
            keys[i] = -magnitude
    return keys


@njit(cache=True, nogil=True)
def bits_of_keys(keys: Ints) -> Ints:
    """The bits of the doubles that have these keys."""
    bits = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        bits[i] = keys[i] if keys[i] >= 0 else -keys[i] | _SMALLEST
    return bits


@njit(cache=True, nogil=True)
def append_runs(
    levels: Ints,
    validity: Bools,
    size: int,
    offset: Ints,
    shift: Shifts,
    keys: Ints,
    bounds: Ints,
    begin: Ints,
    after: Ints,
    values: Ints,
    valid: Bools,
) -> None:
    """Take in each key's group of keys of values, and complete the runs that end there and begin at `after` or later.

    Each key's group goes to positions `begin` and on; `after` is its first held position when done.
    """
    for j in range(len(keys)):
        key = keys[j]
        log_size = int(shift[key])
        mask = (1 << log_size) - 1
        at = offset[key]
        source = bounds[j] - begin[j]
        end = bounds[j + 1] - source
        for t in range(max(begin[j], after[j]), end):
            levels[at + (t & mask)] = values[source + t] if valid[source + t] else NULL_KEY
            validity[at + (t & mask)] = valid[source + t]
        for level in range(1, log_size + 1):
            half = 1 << (level - 1)
            number = max(begin[j] >> level, (after[j] + 2 * half - 1) >> level)
            last = end >> level
            if number >= last:
                break
            below = (level - 1) * size + at
            for run in range(number, last):
                place = (run << level) & mask
                merge_halves(levels, below + place, below + place + half, level * size + at + place, half)


@njit(cache=True, nogil=True)
def move_runs(
    source: Ints,
    target: Ints,
    old_size: int,
    new_size: int,
    old_offset: Ints,
    old_shift: Shifts,
    new_offset: Ints,
    new_shift: Shifts,
    first: Ints,
    length: Ints,
) -> None:
    """Copy the whole runs of moved segments to their places; runs that a larger segment has room for are merged."""
    for j in range(len(old_offset)):
        old_mask = (1 << int(old_shift[j])) - 1
        new_mask = (1 << int(new_shift[j])) - 1
        for level in range(int(new_shift[j]) + 1):
            span = 1 << level
            old = level * old_size + old_offset[j]
            new = level * new_size + new_offset[j]
            for run in range((first[j] + span - 1) >> level, length[j] >> level):
                place = (run << level) & new_mask
                if level <= old_shift[j]:
                    begin = old + ((run << level) & old_mask)
                    for t in range(span):
                        target[new + place + t] = source[begin + t]
                else:
                    merge_halves(
                        target, new - new_size + place, new - new_size + place + span // 2, new + place, span // 2
                    )


@njit(cache=True, nogil=True)
def find_wrong_run(
    levels: Ints, validity: Bools, size: int, offset: Ints, shift: Shifts, keys: Ints, first: Ints, length: Ints
) -> int:
    """The first key with a run that is not its two halves in order, or a NULL without its key; -1 if there is none."""
    merged = np.empty(0, np.int64)
    for j in range(len(keys)):
        key = keys[j]
        at = offset[key]
        mask = (1 << int(shift[key])) - 1
        for t in range(first[key], length[key]):
            if not validity[at + (t & mask)] and levels[at + (t & mask)] != NULL_KEY:
                return int(key)
        if len(merged) < 2 * (mask + 1):
            merged = np.empty(2 * (mask + 1), np.int64)
        for level in range(1, int(shift[key]) + 1):
            span = 1 << level
            for run in range((first[key] + span - 1) >> level, length[key] >> level):
                place = at + ((run << level) & mask)
                for t in range(span):
                    merged[t] = levels[(level - 1) * size + place + t]
                merge_halves(merged, 0, span // 2, span, span // 2)
                for t in range(span):
                    if merged[span + t] != levels[level * size + place + t]:
                        return int(key)
    return -1


@njit(cache=True, nogil=True)
def merge_halves(keys: Ints, left: int, right: int, out: int, half: int) -> None:
    """Merge two runs of the same length.

    The smaller half is merged from the front and the larger from the back: neither can use up a run, so nothing but
    keys is compared.
    """
    left_back = left + half - 1
    right_back = right + half - 1
    back = out + 2 * half - 1
    for i in range(half):
        a = keys[left]
        b = keys[right]
        take_right = b < a
        keys[out + i] = b if take_right else a
        right += take_right
        left += 1 - take_right
        a = keys[left_back]
        b = keys[right_back]
        take_left = b < a
        keys[back - i] = a if take_left else b
        left_back -= take_left
        right_back -= 1 - take_left


@njit(cache=True, nogil=True)
def cover_runs(size: int, at: int, mask: int, low: int, high: int, begins: Ints, ends: Ints) -> int:
    """Where the runs of a range begin and end, the short ones first; returns how many there are."""
    count = 0
    level = 0
    while low < high:
        if low & 1:
            begins[count] = at + ((low << level) & mask)
            ends[count] = begins[count] + (1 << level)
            count += 1
            low += 1
        if high & 1:
            high -= 1
            begins[count] = at + ((high << level) & mask)
            ends[count] = begins[count] + (1 << level)
            count += 1
        low >>= 1
        high >>= 1
        level += 1
        at += size
    return count


@njit(cache=True, nogil=True)
def select_keys(
    levels: Ints, size: int, offset: Ints, shift: Shifts, keys: Keys, low: Ints, high: Ints, ranks: Ints
) -> Ints:
    """The key at each range's 1-based rank; 0 where the rank is 0."""
    out = np.zeros(len(low), np.int64)
    begins = np.empty(MOST_RUNS, np.int64)
    ends = np.empty(MOST_RUNS, np.int64)
    below = np.empty(MOST_RUNS, np.int64)
    above = np.empty(MOST_RUNS, np.int64)
    few = np.empty(FEW, np.int64)
    for i in range(len(low)):
        if ranks[i] > 0:
            key = key_at(keys, i)
            runs = cover_runs(size, offset[key], (1 << int(shift[key])) - 1, low[i], high[i], begins, ends)
            out[i] = select_of_runs(levels, begins, ends, runs, high[i] - low[i], ranks[i] - 1, below, above, few)
    return out


@njit(cache=True, nogil=True)
def select_of_runs(
    keys: Ints, begins: Ints, ends: Ints, runs: int, total: int, rank: int, below: Ints, above: Ints, few: Ints
) -> int:
    """The key at a 0-based rank among the `total` keys of some runs. Narrows the runs to it.

    A pivot splits each run by binary search, and one side goes. The longest run is a sample of all: two of its keys, a
    little to either side of the wanted share, leave about the square root of the keys. If a pivot took off less than a
    quarter (values with a trend), the next is the weighted median of the middles, which always takes off that much.
    """
    is_guess = True
    while runs > 1 and total > len(few):
        if is_guess:
            pivot = keys[guess_place(begins, ends, runs, total, rank)]
        else:
            pivot = keys[middle_place(keys, begins, ends, runs, total, below)]
        smaller = 0
        equal = 0
        for r in range(runs):
            at = first_not_below(keys, begins[r], ends[r], pivot)
            below[r] = at
            smaller += at - begins[r]
            if at < ends[r] and keys[at] == pivot:
                after = first_above(keys, at, ends[r], pivot)
                equal += after - at
                at = after
            above[r] = at
        if smaller <= rank < smaller + equal:
            return int(pivot)
        before = total
        kept = 0
        if rank < smaller:
            total = smaller
            for r in range(runs):
                if below[r] > begins[r]:
                    begins[kept] = begins[r]
                    ends[kept] = below[r]
                    kept += 1
        else:
            total -= smaller + equal
            rank -= smaller + equal
            for r in range(runs):
                if above[r] < ends[r]:
                    begins[kept] = above[r]
                    ends[kept] = ends[r]
                    kept += 1
        runs = kept
        is_guess = 4 * total <= 3 * before
    if runs == 1:
        return int(keys[begins[0] + rank])
    return select_of_few(keys, begins, ends, runs, rank, few)


@njit(cache=True, nogil=True)
def guess_place(begins: Ints, ends: Ints, runs: int, total: int, rank: int) -> int:
    """The place in the longest run of a key that is likely just beyond the rank, on the side with more keys."""
    longest = 0
    for r in range(1, runs):
        if ends[r] - begins[r] > ends[longest] - begins[longest]:
            longest = r
    length = ends[longest] - begins[longest]
    share = rank / total
    # The standard deviation of the rank in a sample of `length` out of `total`.
    slack = 1.0 + 1.5 * np.sqrt(length * share * (1.0 - share) * (1.0 - length / total))
    at = int(share * length + (slack if share < 0.5 else -slack))
    return int(begins[longest] + min(max(at, 0), length - 1))


@njit(cache=True, nogil=True)
def middle_place(keys: Ints, begins: Ints, ends: Ints, runs: int, total: int, order: Ints) -> int:
    """The place of the median of the runs' middle keys, each weighted by the length of its run."""
    for r in range(runs):
        middle = (begins[r] + ends[r]) >> 1
        at = r
        while at > 0 and keys[(begins[order[at - 1]] + ends[order[at - 1]]) >> 1] > keys[middle]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = r
    at = 0
    weight = ends[order[0]] - begins[order[0]]
    while 2 * weight < total:
        at += 1
        weight += ends[order[at]] - begins[order[at]]
    return int((begins[order[at]] + ends[order[at]]) >> 1)


@njit(cache=True, nogil=True)
def first_not_below(keys: Ints, begin: int, end: int, pivot: int) -> int:
    """The place of the first key of a run that is at least the pivot; `end` where there is none."""
    length = end - begin
    while length > 0:
        half = length >> 1
        begin = begin + length - half if keys[begin + half] < pivot else begin
        length = half
    return begin


@njit(cache=True, nogil=True)
def first_above(keys: Ints, begin: int, end: int, pivot: int) -> int:
    """The place of the first key of a run that is above the pivot; `end` where there is none."""
    length = end - begin
    while length > 0:
        half = length >> 1
        begin = begin + length - half if keys[begin + half] <= pivot else begin
        length = half
    return begin


@njit(cache=True, nogil=True)
def select_of_few(keys: Ints, begins: Ints, ends: Ints, runs: int, rank: int, few: Ints) -> int:
    """The key at a 0-based rank of a few keys, which are sorted by insertion."""
    count = 0
    for r in range(runs):
        for source in range(begins[r], ends[r]):
            key = keys[source]
            at = count
            while at > 0 and few[at - 1] > key:
                few[at] = few[at - 1]
                at -= 1
            few[at] = key
            count += 1
    return int(few[rank])


@njit(cache=True, nogil=True)
def count_distinct_keys(
    levels: Ints, validity: Bools, size: int, offset: Ints, shift: Shifts, keys: Keys, low: Ints, high: Ints
) -> Ints:
    """The number of different keys of each range, NULL left out.

    The runs are merged from short to long, which takes O(W): their lengths double.
    """
    out = np.zeros(len(low), np.int64)
    begins = np.empty(MOST_RUNS, np.int64)
    ends = np.empty(MOST_RUNS, np.int64)
    merged = np.empty(0, np.int64)
    spare = np.empty(0, np.int64)
    for i in range(len(low)):
        if low[i] >= high[i]:
            continue
        if high[i] - low[i] > len(merged):
            merged = np.empty(high[i] - low[i], np.int64)
            spare = np.empty(high[i] - low[i], np.int64)
        key = key_at(keys, i)
        mask = (1 << int(shift[key])) - 1
        runs = cover_runs(size, offset[key], mask, low[i], high[i], begins, ends)
        length = 0
        for r in range(runs):
            merge_run(merged, length, levels, begins[r], ends[r], spare)
            length += ends[r] - begins[r]
            merged, spare = spare, merged
        # NULLs are the last keys; an integer may have the same key, so they are counted by their marks.
        for position in range(low[i], high[i]):
            length -= not validity[offset[key] + (position & mask)]
        for at in range(length):
            out[i] += at == 0 or merged[at] != merged[at - 1]
    return out


@njit(cache=True, nogil=True)
def merge_run(merged: Ints, length: int, keys: Ints, begin: int, end: int, out: Ints) -> None:
    """Merge the first `length` keys of an array with a run."""
    at = 0
    count = 0
    while at < length and begin < end:
        a = merged[at]
        b = keys[begin]
        take_run = b < a
        out[count] = b if take_run else a
        begin += take_run
        at += 1 - take_run
        count += 1
    while at < length:
        out[count] = merged[at]
        at += 1
        count += 1
    while begin < end:
        out[count] = keys[begin]
        begin += 1
        count += 1
