"""From times to positions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.searching import first_above

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def positions_after(times: Ints, first: int, wanted: Ints) -> Ints:
    """The position of the first of the sorted `times` after each wanted time; times[0] has position `first`."""
    out = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        out[i] = first + first_above(times, 0, len(times), wanted[i])
    return out
