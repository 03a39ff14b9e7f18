"""The events of many keys in shared arrays: a seat per live key, a ring of recent events per seat.

A key has a seat from its first event until its newest one is older than the largest window; then the seat and the
ring go to other keys. A ring is a segment of the pool, a power of two long, which doubles when it is full of events
that still count and halves when it is nearly empty. Seats are linked from the newest event to the oldest, so that
moving a key to the front and finding silent keys take constant time.

What is stored beside the time of an event depends on the question: nothing for a count (positions are counts), the sum
up to the event for a sum, the value for an extreme. For extremes a ring holds only the key's staircase: the events that
no later one reaches, so that the first one in a window is its maximum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.segments import first_later, give_segment, take_segment

Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]

# What a ring holds beside times.
NOTHING, COUNTS, SUMS, STAIRCASE = 0, 1, 2, 3

# Steps of a replay.
UPDATE, AT_LEAST, AT_MOST, ABOVE, BELOW, ADVANCE = 0, 1, 2, 3, 4, 5

# Why a replay stopped: what must grow, or what is wrong.
DONE, NEEDS_SEATS, NEEDS_EVENTS, NEEDS_PLACES, NEEDS_HEAPS, NEEDS_LOG, SUM_TOO_LARGE = 0, 1, 2, 3, 4, 5, 6

# Columns of `seats`: one line of the cache per key.
OFFSET, LOG_SIZE, START, END, LAST, CODE, SUM_BEFORE, TOTAL = 0, 1, 2, 3, 4, 5, 6, 7
SEAT_COLUMNS = 8

# Places in `state`.
CLOCK, NEWEST, OLDEST, USED, FREE_SEAT, LIVE, LARGEST, IS_PENDING, PENDING_TOTAL, QUERY = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
STATE_PLACES = 10

LEAST_LOG_SIZE = 2
FAR_PAST = -(1 << 62)
SUM_LIMIT = 1 << 61
"""The sum of one key's events in the largest window must stay below this."""


class KeyEvents(NamedTuple):
    """The arrays of all keys."""

    state: Ints
    seat_of: Shorts
    """The seat of a code; -1 when the key has none."""
    seats: Ints
    links: Shorts
    """The seats with the next older and the next newer last event; of a free seat, the next free one."""
    times: Ints
    values: npt.NDArray[Any]
    free: Ints


@njit(cache=True, nogil=True)
def _unlink(store: KeyEvents, seat: int) -> None:
    older, newer = store.links[seat, 0], store.links[seat, 1]
    if newer >= 0:
        store.links[newer, 0] = older
    else:
        store.state[NEWEST] = older
    if older >= 0:
        store.links[older, 1] = newer
    else:
        store.state[OLDEST] = newer


@njit(cache=True, nogil=True)
def _link_newest(store: KeyEvents, seat: int) -> None:
    newest = store.state[NEWEST]
    store.links[seat, 0] = newest
    store.links[seat, 1] = -1
    if newest >= 0:
        store.links[newest, 1] = seat
    else:
        store.state[OLDEST] = seat
    store.state[NEWEST] = seat


@njit(cache=True, nogil=True)
def _move_ring(store: KeyEvents, holds: int, seat: int, log_size: int) -> bool:
    """Give a key a ring of another size with the same events; False when the pool is used up."""
    offset = take_segment(store.times, store.free, log_size)
    if offset < 0:
        return False
    old, old_mask = store.seats[seat, OFFSET], (1 << store.seats[seat, LOG_SIZE]) - 1
    mask = (1 << log_size) - 1
    for i in range(store.seats[seat, START], store.seats[seat, END]):
        store.times[offset + (i & mask)] = store.times[old + (i & old_mask)]
        if holds >= SUMS:
            store.values[offset + (i & mask)] = store.values[old + (i & old_mask)]
    give_segment(store.times, store.free, old, store.seats[seat, LOG_SIZE])
    store.seats[seat, OFFSET] = offset
    store.seats[seat, LOG_SIZE] = log_size
    return True


@njit(cache=True, nogil=True)
def _sit_down(store: KeyEvents, holds: int, code: int) -> int:
    """A seat for a key that has none; less than 0 is what must grow first, negated."""
    state = store.state
    seat = state[FREE_SEAT]
    if seat < 0 and state[USED] == len(store.seats):
        return -NEEDS_SEATS
    offset = -1
    if holds != NOTHING:
        offset = take_segment(store.times, store.free, LEAST_LOG_SIZE)
        if offset < 0:
            return -NEEDS_EVENTS
    if seat >= 0:
        state[FREE_SEAT] = store.links[seat, 0]
    else:
        seat = state[USED]
        state[USED] += 1
    row = store.seats[seat]
    row[OFFSET] = offset
    row[LOG_SIZE] = LEAST_LOG_SIZE
    row[START] = row[END] = row[SUM_BEFORE] = row[TOTAL] = 0
    row[CODE] = code
    store.seat_of[code] = seat
    state[LIVE] += 1
    _link_newest(store, seat)
    return int(seat)


@njit(cache=True, nogil=True)
def _drop_old(store: KeyEvents, holds: int, seat: int, horizon: int) -> None:
    """Forget a key's events at or before the horizon."""
    row = store.seats[seat]
    mask = (1 << row[LOG_SIZE]) - 1
    while row[START] < row[END] and store.times[row[OFFSET] + (row[START] & mask)] <= horizon:
        if holds == SUMS:
            row[SUM_BEFORE] = store.values[row[OFFSET] + (row[START] & mask)]
        row[START] += 1


@njit(cache=True, nogil=True)
def _shift_sums(store: KeyEvents, seat: int) -> None:
    """Subtract 2**61 from all running sums of a key: they stay small, and multiples of powers of two stay multiples.

    Sums of negative values may go around the other end, which their differences do not notice.
    """
    row = store.seats[seat]
    mask = (1 << row[LOG_SIZE]) - 1
    for i in range(row[START], row[END]):
        store.values[row[OFFSET] + (i & mask)] -= SUM_LIMIT
    row[SUM_BEFORE] -= SUM_LIMIT
    row[TOTAL] -= SUM_LIMIT


@njit(cache=True, nogil=True)
def append_event(store: KeyEvents, holds: int, code: int, value: Any, time: int) -> int:
    """Add an event of a key; DONE, or why nothing was done. `state[PENDING_TOTAL]` is the key's total before it."""
    horizon = time - store.state[LARGEST]
    seat = store.seat_of[code]
    if seat >= 0 and holds != NOTHING:
        _drop_old(store, holds, seat, horizon)
    if holds == SUMS:
        held_sum = store.seats[seat, TOTAL] - store.seats[seat, SUM_BEFORE] if seat >= 0 else 0
        if not -SUM_LIMIT < value < SUM_LIMIT or not -SUM_LIMIT < held_sum + value < SUM_LIMIT:
            return SUM_TOO_LARGE
    if seat < 0:
        seat = _sit_down(store, holds, code)
        if seat < 0:
            return -seat
    elif store.state[NEWEST] != seat:
        _unlink(store, seat)
        _link_newest(store, seat)
    row = store.seats[seat]
    row[LAST] = time
    store.state[CLOCK] = time
    if holds == NOTHING:
        return DONE
    if holds == STAIRCASE:
        mask = (1 << row[LOG_SIZE]) - 1
        while row[END] > row[START] and store.values[row[OFFSET] + ((row[END] - 1) & mask)] <= value:
            row[END] -= 1
    elif holds == SUMS and row[TOTAL] + value >= 2 * SUM_LIMIT - 1:
        _shift_sums(store, seat)
    held = row[END] - row[START]
    if held == 1 << row[LOG_SIZE]:
        if not _move_ring(store, holds, seat, row[LOG_SIZE] + 1):
            return NEEDS_EVENTS
    elif row[LOG_SIZE] > LEAST_LOG_SIZE and held << 3 <= 1 << row[LOG_SIZE]:
        _move_ring(store, holds, seat, row[LOG_SIZE] - 1)
    at = row[OFFSET] + (row[END] & ((1 << row[LOG_SIZE]) - 1))
    store.times[at] = time
    row[END] += 1
    store.state[PENDING_TOTAL] = row[TOTAL]
    if holds == COUNTS:
        row[TOTAL] = row[END]
    elif holds == SUMS:
        row[TOTAL] += value
        store.values[at] = row[TOTAL]
    else:
        store.values[at] = value
    return DONE


@njit(cache=True, nogil=True)
def silent_seat(store: KeyEvents) -> int:
    """A key whose newest event is older than the largest window; -1 when there is none."""
    oldest = store.state[OLDEST]
    if oldest >= 0 and store.seats[oldest, LAST] <= store.state[CLOCK] - store.state[LARGEST]:
        return int(oldest)
    return -1


@njit(cache=True, nogil=True)
def stand_up(store: KeyEvents, seat: int) -> None:
    """Take the seat and the ring of a key back."""
    row = store.seats[seat]
    if row[OFFSET] >= 0:
        give_segment(store.times, store.free, row[OFFSET], row[LOG_SIZE])
    store.seat_of[row[CODE]] = -1
    _unlink(store, seat)
    row[CODE] = -1
    row[OFFSET] = -1
    row[LAST] = FAR_PAST
    store.links[seat, 0] = store.state[FREE_SEAT]
    store.state[FREE_SEAT] = seat
    store.state[LIVE] -= 1


@njit(cache=True, nogil=True)
def clear_silent(store: KeyEvents) -> None:
    """Take the seats of silent keys back."""
    seat = silent_seat(store)
    while seat >= 0:
        stand_up(store, seat)
        seat = silent_seat(store)


@njit(cache=True, nogil=True)
def first_after(store: KeyEvents, seat: int, time: int) -> int:
    """The position of a key's first event after a time; its end when there is none."""
    row = store.seats[seat]
    offset, mask = row[OFFSET], (1 << row[LOG_SIZE]) - 1
    return int(first_later(store.times, offset, mask, row[START], row[END], time))


@njit(cache=True, nogil=True)
def count_after(store: KeyEvents, seat: int, time: int) -> int:
    """How many events a key has after a time."""
    return int(store.seats[seat, END]) - first_after(store, seat, time)


@njit(cache=True, nogil=True)
def sum_after(store: KeyEvents, seat: int, time: int) -> int:
    """The sum of a key's events after a time: the difference of two running sums."""
    row = store.seats[seat]
    first = first_after(store, seat, time)
    if first == row[START]:
        return int(row[TOTAL] - row[SUM_BEFORE])
    return int(row[TOTAL] - store.values[row[OFFSET] + ((first - 1) & ((1 << row[LOG_SIZE]) - 1))])


@njit(cache=True, nogil=True)
def extreme_after(store: KeyEvents, seat: int, time: int) -> Any:
    """The greatest value of a key's events after a time: the first of the staircase. There must be such an event."""
    row = store.seats[seat]
    return store.values[row[OFFSET] + (first_after(store, seat, time) & ((1 << row[LOG_SIZE]) - 1))]


@njit(cache=True, nogil=True)
def reaches_count(store: KeyEvents, seat: int, time: int, count: int) -> bool:
    """Whether a key has `count` events or more after a time: one look at the event that far from the end."""
    row = store.seats[seat]
    if count < 1:
        return True
    if row[END] - row[START] < count:
        return False
    return bool(store.times[row[OFFSET] + ((row[END] - count) & ((1 << row[LOG_SIZE]) - 1))] > time)


@njit(cache=True, nogil=True)
def event_of_sum(store: KeyEvents, seat: int, guess: int, total: int) -> int:
    """The position of the event with which a key's running sum reached a total. Cheap near the guess.

    The sum must have reached the total. Steps double away from the guess, then a search goes between the last two.
    """
    row = store.seats[seat]
    offset, mask = row[OFFSET], (1 << row[LOG_SIZE]) - 1
    step = 1
    if store.values[offset + (guess & mask)] >= total:
        high = guess
        low = high - step
        while low >= row[START] and store.values[offset + (low & mask)] >= total:
            high = low
            step *= 2
            low = high - step
        low = max(low, row[START] - 1)
    else:
        low = guess
        high = low + step
        while high < row[END] and store.values[offset + (high & mask)] < total:
            low = high
            step *= 2
            high = low + step
        high = min(high, row[END] - 1)
    while high - low > 1:
        middle = (low + high) >> 1
        if store.values[offset + (middle & mask)] >= total:
            high = middle
        else:
            low = middle
    return int(high)


@njit(cache=True, nogil=True)
def with_room(found: Ints, used: int, more: int) -> Ints:
    """An array with the same first `used` elements and room for more."""
    if used + more <= len(found):
        return found
    larger = np.empty(max(2 * len(found), used + more), np.int64)
    for place in range(used):
        larger[place] = found[place]
    return larger
