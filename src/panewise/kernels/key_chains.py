"""Key chains: the events of a key, from the newest back, each linked to the one before it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def extend_chains(codes: Ints, first: int, newest: Ints, previous: Ints) -> None:
    """Link events numbered first, first + 1, ... to the key's event before; newest[key] is the key's last, or -1."""
    for i in range(len(codes)):
        previous[i] = newest[codes[i]]
        newest[codes[i]] = first + i


@njit(cache=True, nogil=True)
def events_of_keys(keys: Ints, newest: Ints, previous: Ints, times: Ints, first: int, after: int) -> Ints:
    """The numbers of the keys' events after a time, in any order; arrays begin with the event of number `first`."""
    count = 0
    for key in keys:
        number = newest[key]
        while number >= first and times[number - first] > after:
            count += 1
            number = previous[number - first]
    out = np.empty(count, np.int64)
    count = 0
    for key in keys:
        number = newest[key]
        while number >= first and times[number - first] > after:
            out[count] = number
            count += 1
            number = previous[number - first]
    return out
