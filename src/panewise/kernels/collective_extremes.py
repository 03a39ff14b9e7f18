"""CI-MAX: blocks of events over time, and in each the keys in a heap by their greatest value in it.

All events of the largest window lie in one log, in order of time. Blocks of 2**FIRST_LOG events, of four times as
many, and so on up to the length of the log, are kept while they fill: each event enters one block of each size, where
its key has one entry, the greatest value so far. A value that does not raise the entry of its key in one block does
not in the larger ones, which contain that block, so that most events touch one or two.

The events after a time are some single ones up to the next block, then at most three blocks of each size: all those of
the largest blocks reach to the newest event. In each, the keys above a value are a piece of the heap that begins at its
top. Values only rise while a block fills, so a heap only ever climbs. When a block is full, its keys leave the PURGED
blocks of its size before it wherever their value there is not greater: a window that reaches back to those blocks
covers the full one too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.key_events import (
    ABOVE,
    ADVANCE,
    AT_LEAST,
    AT_MOST,
    CLOCK,
    CODE,
    DONE,
    IS_PENDING,
    LARGEST,
    LAST,
    LIVE,
    NEEDS_HEAPS,
    NEEDS_LOG,
    NEWEST,
    NOTHING,
    QUERY,
    UPDATE,
    KeyEvents,
    append_event,
    clear_silent,
    with_room,
)
from panewise.kernels.segments import (
    HEAP_LOG_SIZE,
    HEAP_OFFSET,
    HEAP_SIZE,
    first_later,
    give_segment,
    take_place,
    take_segment,
)

Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]
Values = npt.NDArray[Any]

FIRST_LOG = 8
GROWTH_LOG = 2
PURGED = 3
CHILDREN_LOG = 2

# Places in `marks`.
LOG_START, LOG_END, INDEXED, IS_REPEATED, FROM_SIZE = 0, 1, 2, 3, 4


class Blocks(NamedTuple):
    """The log of events, and the blocks over it."""

    marks: Ints
    """The first and the end of the log's positions; the first that is in no block yet, or in no block of a new size;
    whether it was tried before; and the new size."""
    log_times: Ints
    log_values: Values
    log_seats: Shorts
    rows: Ints
    """Per size of blocks, where its rows in `blocks` begin."""
    blocks: Ints
    """Per block, its segment of `values` and `seats`, and how many keys are in it."""
    firsts: Ints
    """Per size, the first block that is held."""
    values: Values
    seats: Shorts
    free: Ints
    places: Shorts
    """Per size and seat, where the key is in the heap of the block that is being filled."""
    asked: Ints
    """Per seat, the last query that found it."""


@njit(cache=True, nogil=True)
def _row_of(blocks: Blocks, size: int, block: int) -> int:
    """The row of a block: rows of one size are a ring of a power of two."""
    count = blocks.rows[size + 1] - blocks.rows[size]
    return int(blocks.rows[size] + (block & (count - 1)))


@njit(cache=True, nogil=True)
def _drop_old(blocks: Blocks, horizon: int) -> None:
    """Forget events at or before the horizon, and blocks that hold no others."""
    mask = len(blocks.log_times) - 1
    start, end = blocks.marks[LOG_START], blocks.marks[LOG_END]
    while start < end and blocks.log_times[start & mask] <= horizon:
        start += 1
    is_same_block = start >> FIRST_LOG == blocks.marks[LOG_START] >> FIRST_LOG
    blocks.marks[LOG_START] = start
    if is_same_block:
        return
    for size in range(len(blocks.firsts)):
        log_length = FIRST_LOG + size * GROWTH_LOG
        while (blocks.firsts[size] + 1) << log_length <= start:
            row = blocks.blocks[_row_of(blocks, size, blocks.firsts[size])]
            if row[HEAP_OFFSET] >= 0:
                give_segment(blocks.seats, blocks.free, row[HEAP_OFFSET], row[HEAP_LOG_SIZE])
            row[HEAP_OFFSET] = -1
            row[HEAP_SIZE] = 0
            blocks.firsts[size] += 1


@njit(cache=True, nogil=True)
def _climb(blocks: Blocks, size: int, base: int, at: int, value: Any, seat: int) -> None:
    """Put a key into a heap at a place or above it."""
    while at > 0:
        parent = (at - 1) >> CHILDREN_LOG
        if blocks.values[base + parent] >= value:
            break
        other = blocks.seats[base + parent]
        blocks.values[base + at] = blocks.values[base + parent]
        blocks.seats[base + at] = other
        blocks.places[size, other] = at
        at = parent
    blocks.values[base + at] = value
    blocks.seats[base + at] = seat
    blocks.places[size, seat] = at


@njit(cache=True, nogil=True)
def _enter(blocks: Blocks, size: int, row: Ints, value: Any, seat: int) -> int:
    """Add a key to a block; DONE, or what must grow first."""
    at = take_place(row, blocks.seats, blocks.values, blocks.free, 4)
    if at < 0:
        return NEEDS_HEAPS
    _climb(blocks, size, row[HEAP_OFFSET], at, value, seat)
    return DONE


@njit(cache=True, nogil=True)
def _sink(values: Values, seats: Shorts, at: int) -> None:
    """Put the entry at a place of a heap there or below."""
    value, seat = values[at], seats[at]
    while True:
        child = (at << CHILDREN_LOG) + 1
        best, best_value = -1, value
        for c in range(child, min(child + (1 << CHILDREN_LOG), len(values))):
            if values[c] > best_value:
                best, best_value = c, values[c]
        if best < 0:
            break
        values[at] = best_value
        seats[at] = seats[best]
        at = best
    values[at] = value
    seats[at] = seat


@njit(cache=True, nogil=True)
def _purge(blocks: Blocks, size: int, row: Ints, full: Ints) -> None:
    """Drop the keys of a block whose value is not greater than in a later block of its size that was just filled."""
    base, later = row[HEAP_OFFSET], full[HEAP_OFFSET]
    kept = 0
    for i in range(row[HEAP_SIZE]):
        seat, value = blocks.seats[base + i], blocks.values[base + i]
        place = blocks.places[size, seat]
        is_in = place < full[HEAP_SIZE] and blocks.seats[later + place] == seat
        blocks.seats[base + kept] = seat
        blocks.values[base + kept] = value
        kept += not (is_in and blocks.values[later + place] >= value)
    log_size = row[HEAP_LOG_SIZE]
    while log_size > 2 and kept <= 1 << (log_size - 1):
        log_size -= 1
    if log_size < row[HEAP_LOG_SIZE]:
        offset = take_segment(blocks.seats, blocks.free, log_size)
        if offset >= 0:
            blocks.seats[offset : offset + kept] = blocks.seats[base : base + kept]
            blocks.values[offset : offset + kept] = blocks.values[base : base + kept]
            give_segment(blocks.seats, blocks.free, base, row[HEAP_LOG_SIZE])
            row[HEAP_OFFSET] = base = offset
            row[HEAP_LOG_SIZE] = log_size
    row[HEAP_SIZE] = kept
    for at in range((kept + 2) >> CHILDREN_LOG, -1, -1):
        if at < kept:
            _sink(blocks.values[base : base + kept], blocks.seats[base : base + kept], at)


@njit(cache=True, nogil=True)
def _close_blocks(blocks: Blocks, event: int) -> None:
    """Purge the blocks before those that an event fills."""
    for size in range(blocks.marks[FROM_SIZE], len(blocks.firsts)):
        log_length = FIRST_LOG + size * GROWTH_LOG
        if (event + 1) & ((1 << log_length) - 1):
            return
        block = event >> log_length
        full = blocks.blocks[_row_of(blocks, size, block)]
        for earlier in range(max(blocks.firsts[size], block - PURGED), block):
            _purge(blocks, size, blocks.blocks[_row_of(blocks, size, earlier)], full)


@njit(cache=True, nogil=True)
def _index_event(blocks: Blocks, event: int) -> int:
    """Put an event of the log into a block of each size. Safe to repeat when something had to grow."""
    at = event & (len(blocks.log_times) - 1)
    seat, value = blocks.log_seats[at], blocks.log_values[at]
    for size in range(blocks.marks[FROM_SIZE], len(blocks.firsts)):
        row = blocks.blocks[_row_of(blocks, size, event >> (FIRST_LOG + size * GROWTH_LOG))]
        place = blocks.places[size, seat]
        if place < row[HEAP_SIZE] and blocks.seats[row[HEAP_OFFSET] + place] == seat:
            if blocks.values[row[HEAP_OFFSET] + place] >= value:
                # The larger blocks contain this one. After a stop to let something grow, they may lack the event.
                if not blocks.marks[IS_REPEATED]:
                    return DONE
                continue
            _climb(blocks, size, row[HEAP_OFFSET], place, value, seat)
        else:
            need = _enter(blocks, size, row, value, seat)
            if need != DONE:
                return need
    return DONE


@njit(cache=True, nogil=True)
def _log_event(blocks: Blocks, value: Any, time: int, seat: int) -> int:
    """Append an event to the log; DONE, or what must grow first."""
    end = blocks.marks[LOG_END]
    if end - blocks.marks[LOG_START] >= len(blocks.log_times):
        return NEEDS_LOG
    at = end & (len(blocks.log_times) - 1)
    blocks.log_times[at] = time
    blocks.log_values[at] = value
    blocks.log_seats[at] = seat
    blocks.marks[LOG_END] = end + 1
    return DONE


@njit(cache=True, nogil=True)
def _index_log(blocks: Blocks) -> int:
    """Put the events of the log that are in no block yet into theirs."""
    while blocks.marks[INDEXED] < blocks.marks[LOG_END]:
        need = _index_event(blocks, blocks.marks[INDEXED])
        blocks.marks[IS_REPEATED] = need != DONE
        if need != DONE:
            return need
        _close_blocks(blocks, blocks.marks[INDEXED])
        blocks.marks[INDEXED] += 1
    blocks.marks[FROM_SIZE] = 0
    return DONE


@njit(cache=True, nogil=True)
def _first_after(blocks: Blocks, time: int) -> int:
    """The position of the first event after a time."""
    times = blocks.log_times
    return first_later(times, 0, len(times) - 1, blocks.marks[LOG_START], blocks.marks[LOG_END], time)


@njit(cache=True, nogil=True)
def _beats(value: Any, bound: Any, is_strict: bool) -> bool:
    return bool(value > bound or (value == bound and not is_strict))


@njit(cache=True, nogil=True)
def _in_block(blocks: Blocks, row: Ints, bound: Any, is_strict: bool, query: int, found: Ints, used: int) -> int:
    """Append the seats of a block with a value beyond a bound that the query has not found yet."""
    base, size = row[HEAP_OFFSET], row[HEAP_SIZE]
    if size == 0 or not _beats(blocks.values[base], bound, is_strict):
        return used
    found[used] = 0
    i, end = used, used + 1
    while i < end:
        child = (found[i] << CHILDREN_LOG) + 1
        for c in range(child, min(child + (1 << CHILDREN_LOG), size)):
            found[end] = c
            end += _beats(blocks.values[base + c], bound, is_strict)
        i += 1
    for j in range(used, end):
        seat = blocks.seats[base + found[j]]
        found[used] = seat
        used += blocks.asked[seat] != query
        blocks.asked[seat] = query
    return used


@njit(cache=True, nogil=True)
def _seats_beyond(blocks: Blocks, start: int, bound: Any, is_strict: bool, query: int, found: Ints, used: int) -> int:
    """Append the seats of the keys with a value beyond a bound after a time, and mark them as found by the query."""
    mask = len(blocks.log_times) - 1
    event, end = _first_after(blocks, start), blocks.marks[LOG_END]
    single = min(end, (event + (1 << FIRST_LOG) - 1) >> FIRST_LOG << FIRST_LOG)
    for i in range(event, single):
        if _beats(blocks.log_values[i & mask], bound, is_strict):
            seat = blocks.log_seats[i & mask]
            found[used] = seat
            used += blocks.asked[seat] != query
            blocks.asked[seat] = query
    event, size = single, 0
    while event < end:
        while size + 1 < len(blocks.firsts) and event & ((1 << (FIRST_LOG + (size + 1) * GROWTH_LOG)) - 1) == 0:
            size += 1
        log_length = FIRST_LOG + size * GROWTH_LOG
        row = blocks.blocks[_row_of(blocks, size, event >> log_length)]
        used = _in_block(blocks, row, bound, is_strict, query, found, used)
        event += 1 << log_length
    return used


@njit(cache=True, nogil=True)
def _look_up(store: KeyEvents, blocks: Blocks, kind: int, start: int, bound: Any, found: Ints, used: int) -> int:
    """Append the keys whose greatest value after a time passes."""
    store.state[QUERY] += 1
    query = store.state[QUERY]
    # Not above the bound is at most it: a lookup downwards leaves out what the opposite lookup finds.
    is_strict = kind in (ABOVE, AT_MOST)
    end = _seats_beyond(blocks, start, bound, is_strict, query, found, used)
    if kind in (ABOVE, AT_LEAST):
        for i in range(used, end):
            found[i] = store.seats[found[i], CODE]
        return end
    seat = store.state[NEWEST]
    while seat >= 0 and store.seats[seat, LAST] > start:
        found[used] = store.seats[seat, CODE]
        used += blocks.asked[seat] != query
        seat = store.links[seat, 0]
    return used


@njit(cache=True, nogil=True)
def replay_extremes(
    store: KeyEvents,
    blocks: Blocks,
    at: int,
    kinds: npt.NDArray[np.int8],
    keys: Ints,
    values: Values,
    times: Ints,
    starts: Ints,
    ends: Ints,
    found: Ints,
    used: int,
) -> tuple[int, int, Ints, int]:
    """Updates and lookups in their order, as `replay_levels` does them."""
    for i in range(at, len(kinds)):
        need = _index_log(blocks)
        if need != DONE:
            return i, need, found, used
        if kinds[i] == UPDATE or kinds[i] == ADVANCE:
            if not store.state[IS_PENDING]:
                store.state[CLOCK] = times[i]
                _drop_old(blocks, times[i] - store.state[LARGEST])
                clear_silent(store)
                if kinds[i] == UPDATE:
                    need = append_event(store, NOTHING, keys[i], 0, times[i])
                    if need == DONE:
                        need = _log_event(blocks, values[i], times[i], store.seat_of[keys[i]])
                    if need != DONE:
                        return i, need, found, used
                    store.state[IS_PENDING] = 1
            need = _index_log(blocks)
            if need != DONE:
                return i, need, found, used
            store.state[IS_PENDING] = 0
        else:
            # One place more than there are keys: the search of a heap writes before it knows whether the key passes.
            found = with_room(found, used, 2 * store.state[LIVE] + 1)
            used = _look_up(store, blocks, kinds[i], starts[i], values[i], found, used)
        ends[i] = used
    return len(kinds), DONE, found, used
