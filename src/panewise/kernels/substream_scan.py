"""The baseline of substream filters: ask every live key for its count, sum or extreme."""

from __future__ import annotations

from typing import Any

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
    COUNTS,
    DONE,
    LAST,
    LIVE,
    SUMS,
    UPDATE,
    USED,
    KeyEvents,
    append_event,
    clear_silent,
    count_after,
    extreme_after,
    reaches_count,
    sum_after,
    with_room,
)

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def passes(kind: int, value: Any, bound: Any) -> bool:
    """Whether a value passes a lookup of a kind."""
    if kind == AT_LEAST:
        return bool(value >= bound)
    if kind == AT_MOST:
        return bool(value <= bound)
    if kind == ABOVE:
        return bool(value > bound)
    return bool(value < bound)


@njit(cache=True, nogil=True)
def _check_every_key(
    store: KeyEvents, holds: int, by_probe: bool, kind: int, start: int, bound: Any, found: Ints, used: int
) -> int:
    """Append the keys that pass. By probe, one look at the event that decides it is enough for a count."""
    for seat in range(store.state[USED]):
        if store.seats[seat, LAST] <= start:
            continue
        if holds == COUNTS:
            if by_probe:
                reached = reaches_count(store, seat, start, int(bound) + (kind != AT_LEAST))
                chosen = reached == (kind == AT_LEAST)
            else:
                chosen = passes(kind, count_after(store, seat, start), bound)
        elif holds == SUMS:
            chosen = passes(kind, sum_after(store, seat, start), bound)
        else:
            chosen = passes(kind, extreme_after(store, seat, start), bound)
        found[used] = store.seats[seat, CODE]
        used += chosen
    return used


@njit(cache=True, nogil=True)
def replay_scan(
    store: KeyEvents,
    holds: int,
    by_probe: bool,
    at: int,
    kinds: npt.NDArray[np.int8],
    keys: Ints,
    values: npt.NDArray[Any],
    times: Ints,
    starts: Ints,
    ends: Ints,
    found: Ints,
    used: int,
) -> tuple[int, int, Ints, int]:
    """Updates and lookups in their order, as `replay_levels` does them."""
    for i in range(at, len(kinds)):
        if kinds[i] == UPDATE or kinds[i] == ADVANCE:
            store.state[CLOCK] = times[i]
            clear_silent(store)
            if kinds[i] == UPDATE:
                need = append_event(store, holds, keys[i], values[i], times[i])
                if need != DONE:
                    return i, need, found, used
        else:
            found = with_room(found, used, store.state[LIVE] + 1)
            used = _check_every_key(store, holds, by_probe, kinds[i], starts[i], values[i], found, used)
        ends[i] = used
    return len(kinds), DONE, found, used
