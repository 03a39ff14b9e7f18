"""CI-COUNT and CI-SUM: per level, the keys in a heap by the time of one of their events (Sharing, section 4).

Counted back from its newest event, the positions of a key fall into levels: p of one position, p of two, p of four,
and so on. Level j = q p + r has 2**q positions and begins at distance D(j) = 1 - p + (p + r) 2**q. Its event is the one
at the position that is a multiple of 2**q. When the key grows to m events, the levels of size 2**q get a new event
exactly when 2**q divides m + p, and then it is the one at position m + p - (p + r) 2**q.

For a sum, an event of value v stands for v positions with the same time: the totals before and after it say in one
comparison per size whether the levels of that size move.

The event of a level only ever moves forward in time. So the paper's search tree can be a heap with the newest time on
top: a move is a climb, O(log keys) at worst and a step or two as a rule, and the keys after a time are a piece of the
heap that begins at its top, which is read in time proportional to the answer. Level 0, the newest event, is the order
in which the keys are linked anyway.

Levels before `first` are not kept: few thresholds need them, if any, and they move the most. A lookup that needs one
checks every key with an event in the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.key_events import (
    ADVANCE,
    AT_LEAST,
    CLOCK,
    CODE,
    COUNTS,
    DONE,
    END,
    IS_PENDING,
    LAST,
    LIVE,
    LOG_SIZE,
    NEEDS_HEAPS,
    NEEDS_PLACES,
    NEWEST,
    OFFSET,
    PENDING_TOTAL,
    START,
    SUM_BEFORE,
    TOTAL,
    UPDATE,
    KeyEvents,
    append_event,
    event_of_sum,
    reaches_count,
    silent_seat,
    stand_up,
    sum_after,
    with_room,
)
from panewise.kernels.segments import HEAP_OFFSET, HEAP_SIZE, give_segment, take_place, take_segment

Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]

# Columns of `entries`.
ENTRY_OFFSET, ENTRY_LOG_SIZE, ENTRY_COUNT = 0, 1, 2
CHILDREN_LOG = 2
"""A node of a heap has 2**CHILDREN_LOG children."""


class Levels(NamedTuple):
    """The arrays of all levels."""

    heaps: Ints
    """Per level, its segment of `times` and `seats`, and how many keys are in it."""
    times: Ints
    seats: Shorts
    heap_free: Ints
    entries: Ints
    """Per seat, where in `places` level 0 would be, the size of its segment, the first level it has not reached."""
    places: Shorts
    """Where in the heap of each level the key is."""
    place_free: Ints


@njit(cache=True, nogil=True)
def level_of(distance: int, per_size: int) -> int:
    """The level of a distance from the end; the newest event has distance 1."""
    reach = distance + per_size - 1
    q = 0
    while (reach >> (q + 1)) >= per_size:
        q += 1
    return q * per_size + (reach >> q) - per_size


@njit(cache=True, nogil=True)
def level_start(level: int, per_size: int) -> int:
    """The least distance of a level."""
    q, r = divmod(level, per_size)
    return 1 - per_size + ((per_size + r) << q)


@njit(cache=True, nogil=True)
def _climb(levels: Levels, level: int, at: int, time: int, seat: int) -> None:
    """Put a key into a heap at a place or above it."""
    base = levels.heaps[level, HEAP_OFFSET]
    while at > 0:
        parent = (at - 1) >> CHILDREN_LOG
        if levels.times[base + parent] >= time:
            break
        other = levels.seats[base + parent]
        levels.times[base + at] = levels.times[base + parent]
        levels.seats[base + at] = other
        levels.places[levels.entries[other, ENTRY_OFFSET] + level] = at
        at = parent
    levels.times[base + at] = time
    levels.seats[base + at] = seat
    levels.places[levels.entries[seat, ENTRY_OFFSET] + level] = at


@njit(cache=True, nogil=True)
def _sink(levels: Levels, level: int, at: int, time: int, seat: int) -> None:
    """Put a key into a heap at a place or below it."""
    base, size = levels.heaps[level, HEAP_OFFSET], levels.heaps[level, HEAP_SIZE]
    while True:
        child = (at << CHILDREN_LOG) + 1
        best, best_time = -1, time
        for c in range(child, min(child + (1 << CHILDREN_LOG), size)):
            if levels.times[base + c] > best_time:
                best, best_time = c, levels.times[base + c]
        if best < 0:
            break
        other = levels.seats[base + best]
        levels.times[base + at] = best_time
        levels.seats[base + at] = other
        levels.places[levels.entries[other, ENTRY_OFFSET] + level] = at
        at = best
    levels.times[base + at] = time
    levels.seats[base + at] = seat
    levels.places[levels.entries[seat, ENTRY_OFFSET] + level] = at


@njit(cache=True, nogil=True)
def _enter(levels: Levels, first: int, level: int, time: int, seat: int) -> int:
    """Add a key to a level, the first that it has not reached; DONE, or what must grow first."""
    entry = levels.entries[seat]
    if entry[ENTRY_LOG_SIZE] < 0 or level - first == 1 << entry[ENTRY_LOG_SIZE]:
        log_size = entry[ENTRY_LOG_SIZE] + 1
        offset = take_segment(levels.places, levels.place_free, log_size)
        if offset < 0:
            return NEEDS_PLACES
        if entry[ENTRY_LOG_SIZE] >= 0:
            old = entry[ENTRY_OFFSET] + first
            for i in range(level - first):
                levels.places[offset + i] = levels.places[old + i]
            give_segment(levels.places, levels.place_free, old, entry[ENTRY_LOG_SIZE])
        entry[ENTRY_OFFSET] = offset - first
        entry[ENTRY_LOG_SIZE] = log_size
    at = take_place(levels.heaps[level], levels.times, levels.seats, levels.heap_free, 2)
    if at < 0:
        return NEEDS_HEAPS
    entry[ENTRY_COUNT] = level + 1
    _climb(levels, level, at, time, seat)
    return DONE


@njit(cache=True, nogil=True)
def _leave(levels: Levels, first: int, seat: int) -> None:
    """Take a key out of all levels."""
    entry = levels.entries[seat]
    for level in range(first, entry[ENTRY_COUNT]):
        base, last = levels.heaps[level, HEAP_OFFSET], levels.heaps[level, HEAP_SIZE] - 1
        at = levels.places[entry[ENTRY_OFFSET] + level]
        levels.heaps[level, HEAP_SIZE] = last
        if at != last:
            time, other = levels.times[base + last], levels.seats[base + last]
            if at > 0 and levels.times[base + ((at - 1) >> CHILDREN_LOG)] < time:
                _climb(levels, level, at, time, other)
            else:
                _sink(levels, level, at, time, other)
    if entry[ENTRY_LOG_SIZE] >= 0:
        give_segment(levels.places, levels.place_free, entry[ENTRY_OFFSET] + first, entry[ENTRY_LOG_SIZE])
    entry[ENTRY_LOG_SIZE] = -1
    entry[ENTRY_COUNT] = first


@njit(cache=True, nogil=True)
def _move_levels(
    store: KeyEvents, levels: Levels, holds: int, per_size: int, first: int, seat: int, before: int
) -> int:
    """Give the levels of a key that grew from `before` their new events. Safe to repeat when something had to grow."""
    row = store.seats[seat]
    offset, mask = row[OFFSET], (1 << row[LOG_SIZE]) - 1
    after = row[TOTAL]
    newest = row[END] - 1
    q = first // per_size
    skipped = first - q * per_size
    while (after + per_size) >> q != (before + per_size) >> q:
        unit = ((after + per_size) >> q) - per_size
        for r in range(skipped, per_size):
            position = (unit - r) << q
            if holds == COUNTS:
                newest = position - 1
                if newest < row[START]:
                    return DONE
            else:
                if position <= row[SUM_BEFORE]:
                    return DONE
                if position <= before:
                    newest = event_of_sum(store, seat, newest, position)
            time = store.times[offset + (newest & mask)]
            level = q * per_size + r
            if level < levels.entries[seat, ENTRY_COUNT]:
                _climb(levels, level, levels.places[levels.entries[seat, ENTRY_OFFSET] + level], time, seat)
            else:
                need = _enter(levels, first, level, time, seat)
                if need != DONE:
                    return need
        q += 1
        skipped = 0
    return DONE


@njit(cache=True, nogil=True)
def _is_after(levels: Levels, seat: int, level: int, start: int) -> bool:
    """Whether a key has reached a level and its event there is after a time."""
    if level >= levels.entries[seat, ENTRY_COUNT]:
        return False
    at = levels.places[levels.entries[seat, ENTRY_OFFSET] + level]
    return bool(levels.times[levels.heaps[level, HEAP_OFFSET] + at] > start)


@njit(cache=True, nogil=True)
def _active_seats(store: KeyEvents, start: int, found: Ints, used: int) -> int:
    """Append the seats of the keys with an event after a time."""
    seat = store.state[NEWEST]
    while seat >= 0 and store.seats[seat, LAST] > start:
        found[used] = seat
        used += 1
        seat = store.links[seat, 0]
    return used


@njit(cache=True, nogil=True)
def _seats_after(levels: Levels, level: int, start: int, found: Ints, used: int) -> int:
    """Append the seats of the keys whose event at a level is after a time: the piece of the heap around its top."""
    if level >= len(levels.heaps):
        return used
    base, size = levels.heaps[level, HEAP_OFFSET], levels.heaps[level, HEAP_SIZE]
    if size == 0 or levels.times[base] <= start:
        return used
    found[used] = 0
    i, end = used, used + 1
    while i < end:
        at = found[i]
        child = (at << CHILDREN_LOG) + 1
        for c in range(child, min(child + (1 << CHILDREN_LOG), size)):
            found[end] = c
            end += levels.times[base + c] > start
        found[i] = levels.seats[base + at]
        i += 1
    return end


@njit(cache=True, nogil=True)
def _at_least(
    store: KeyEvents,
    levels: Levels,
    holds: int,
    per_size: int,
    first: int,
    is_exact: bool,
    start: int,
    bound: int,
    found: Ints,
    used: int,
) -> int:
    """Append the keys whose count or sum after a time is at least a bound."""
    level = level_of(bound + 1, per_size) - 1 if bound > 1 else 0
    is_kept = level >= first
    end = _seats_after(levels, level, start, found, used) if is_kept else _active_seats(store, start, found, used)
    if bound <= 1 or not (is_exact or 0 < level < first):
        for i in range(used, end):
            found[i] = store.seats[found[i], CODE]
        return end
    sure = level_of(bound - 1, per_size) + 1
    for i in range(used, end):
        seat = found[i]
        if holds == COUNTS:
            passes = reaches_count(store, seat, start, bound)
        else:
            is_sure = sure >= first and _is_after(levels, seat, sure, start)
            passes = is_sure or sum_after(store, seat, start) >= bound
        found[used] = store.seats[seat, CODE]
        used += passes
    return used


@njit(cache=True, nogil=True)
def _at_most(
    store: KeyEvents,
    levels: Levels,
    holds: int,
    per_size: int,
    first: int,
    is_exact: bool,
    start: int,
    bound: int,
    found: Ints,
    used: int,
) -> int:
    """Append the keys with an event after a time whose count or sum since is at most a bound."""
    if bound < 1:
        return used
    level = level_of(bound, per_size) + 1
    is_exact = is_exact or level < first
    seat = store.state[NEWEST]
    while seat >= 0 and store.seats[seat, LAST] > start:
        passes = level < first or not _is_after(levels, seat, level, start)
        if is_exact and passes:
            if holds == COUNTS:
                passes = not reaches_count(store, seat, start, bound + 1)
            else:
                passes = sum_after(store, seat, start) <= bound
        found[used] = store.seats[seat, CODE]
        used += passes
        seat = store.links[seat, 0]
    return used


@njit(cache=True, nogil=True)
def replay_levels(
    store: KeyEvents,
    levels: Levels,
    holds: int,
    per_size: int,
    first: int,
    is_exact: bool,
    at: int,
    kinds: npt.NDArray[np.int8],
    keys: Ints,
    values: Ints,
    times: Ints,
    starts: Ints,
    ends: Ints,
    found: Ints,
    used: int,
) -> tuple[int, int, Ints, int]:
    """Updates and lookups in their order, from step `at` on: where it stopped, why, and the keys found so far.

    An update has a key, a value and a time; a lookup the start of its window and, in `values`, its bound. `ends[i]` is
    how many keys were found up to step i.
    """
    for i in range(at, len(kinds)):
        if kinds[i] == UPDATE or kinds[i] == ADVANCE:
            if not store.state[IS_PENDING]:
                store.state[CLOCK] = times[i]
                seat = silent_seat(store)
                while seat >= 0:
                    _leave(levels, first, seat)
                    stand_up(store, seat)
                    seat = silent_seat(store)
                if kinds[i] == ADVANCE:
                    ends[i] = used
                    continue
                need = append_event(store, holds, keys[i], values[i], times[i])
                if need != DONE:
                    return i, need, found, used
            seat, before = store.seat_of[keys[i]], store.state[PENDING_TOTAL]
            need = _move_levels(store, levels, holds, per_size, first, seat, before)
            store.state[IS_PENDING] = need != DONE
            if need != DONE:
                return i, need, found, used
        else:
            # One place more than there are keys: the search of a heap writes before it knows whether the key passes.
            found = with_room(found, used, store.state[LIVE] + 1)
            if kinds[i] == AT_LEAST:
                used = _at_least(store, levels, holds, per_size, first, is_exact, starts[i], values[i], found, used)
            else:
                used = _at_most(store, levels, holds, per_size, first, is_exact, starts[i], values[i], found, used)
        ends[i] = used
    return len(kinds), DONE, found, used


@njit(cache=True, nogil=True)
def level_times(store: KeyEvents, levels: Levels, first: int, seat: int, out: Ints) -> int:
    """TSTAMP of a key at level 0 and at each level that is kept; the end of those that it has reached."""
    out[0] = store.seats[seat, LAST]
    count = levels.entries[seat, ENTRY_COUNT]
    for level in range(first, count):
        at = levels.places[levels.entries[seat, ENTRY_OFFSET] + level]
        out[level] = levels.times[levels.heaps[level, HEAP_OFFSET] + at]
    return int(count)
