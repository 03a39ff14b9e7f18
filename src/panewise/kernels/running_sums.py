"""Running sums of doubles by key, as pairs, and the sums of ranges as their differences.

A running sum starts again with each key, and holds what comes before a place. A difference is good if the rounding of
the running sums cannot show beside the sum of |x| of the range. Ranges with an infinity or a NaN, and those that are
tiny beside what came before, are left to `kernels.folding`, which never subtracts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pairs import add_pairs
from panewise.kernels.running_intervals import PAIR_ERROR

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@njit(cache=True, nogil=True)
def running_sums(values: Floats, segments: Ints) -> tuple[Floats, Floats, Floats]:
    """The sum of the key's values before each place as a pair, and the sum of their magnitudes.

    Infinities and NaNs are left out.
    """
    high, low, magnitude = np.empty(len(values)), np.empty(len(values)), np.empty(len(values))
    for key in range(len(segments) - 1):
        sum_high = sum_low = total = 0.0
        for i in range(segments[key], segments[key + 1]):
            high[i], low[i], magnitude[i] = sum_high, sum_low, total
            if np.isfinite(values[i]):
                sum_high, sum_low = add_pairs(sum_high, sum_low, values[i], 0.0)
                total += np.abs(values[i])
    return high, low, magnitude


@njit(cache=True, nogil=True)
def sums_of_ranges(
    values: Floats,
    running: tuple[Floats, Floats, Floats],
    special: Ints,
    longest: int,
    begins: Ints,
    ends: Ints,
) -> tuple[Floats, Floats, Bools]:
    """The sums of ranges that are not empty, as pairs, and whether each is good.

    `special` counts the infinities and NaNs before each place, and is empty if there are none. No key has more than
    `longest` values.
    """
    high, low, magnitude = running
    out_high, out_low = np.empty(len(begins)), np.empty(len(begins))
    good = np.empty(len(begins), np.bool_)
    for i in range(len(begins)):
        first, last = begins[i], ends[i] - 1
        end_high, end_low = add_pairs(high[last], low[last], values[last], 0.0)
        out_high[i], out_low[i] = add_pairs(end_high, end_low, -high[first], -low[first])
        whole = magnitude[last] + np.abs(values[last])
        # The magnitudes of the range are known as well as their own rounding allows.
        part = (whole - magnitude[first]) - 2.0**-52 * longest * whole
        is_plain = len(special) == 0 or special[first] == special[last + 1]
        good[i] = is_plain and np.isfinite(out_high[i]) and PAIR_ERROR * longest * whole <= 2.0**-54 * part
    return out_high, out_low, good
