"""Label ranges: where the events that a label sees begin and end, among events sorted by key and time.

Labels come sorted by key, and the targets of a key never fall. Each search starts where the one before ended and
doubles its steps, so a key with n events and m labels costs O(m log(n / m)), and never more than one walk over both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.searching import first_above

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def places_behind(values: Ints, segments: Ints, keys: Ints, targets: Ints) -> Ints:
    """For each label the place behind the last value of its key that is at most its target.

    The values of key k are those at segments[k] .. segments[k + 1] - 1, in ascending order.
    """
    out = np.empty(len(keys), np.int64)
    current = -1
    low = end = 0
    for i in range(len(keys)):
        if keys[i] != current:
            current = keys[i]
            low, end = segments[current], segments[current + 1]
        target = targets[i]
        high, step = low, 1
        while high < end and values[high] <= target:
            low = high + 1
            high += step
            step *= 2
        low = first_above(values, low, min(high, end), target)
        out[i] = low
    return out
