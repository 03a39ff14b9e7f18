"""From times to positions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def positions_after(times: Ints, first: int, wanted: Ints) -> Ints:
    """The position of the first of the sorted `times` after each wanted time; times[0] has position `first`."""
    out = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        low = 0
        high = len(times)
        while low < high:
            middle = (low + high) >> 1
            if times[middle] <= wanted[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = first + low
    return out
