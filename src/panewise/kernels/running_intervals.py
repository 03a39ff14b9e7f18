"""Running intervals: the combination of all elements up to each position, in a ring of Nmax + 1 places.

Integers wrap, and differences of wrapped sums are exact as long as the window's own sum fits. Pairs start again at
each lap of the ring, so a sum is never larger than what two laps hold, however long the stream runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine, take_off
from panewise.kernels.pairs import add_pairs
from panewise.kernels.rings import place

Elements = npt.NDArray[Any]
Pairs = npt.NDArray[np.complex128]
Ints = npt.NDArray[np.int64]

PAIR_ERROR = 2.0**-102
"""A bound of the relative error of one addition of pairs, with room to spare."""


@njit(cache=True, nogil=True)
def extend_running(operation: int, user: Any, running: Elements, length: int, values: Elements) -> None:
    """running[t mod size] is the combination of the first t elements; positions length + 1, ... are added."""
    size = len(running)
    at = length % size
    total = running[at]
    done = 0
    while done < len(values):
        at = at + 1 if at + 1 < size else 0
        # Up to the end of the ring without a test in the loop.
        run = min(len(values) - done, size - at)
        source = values[done : done + run]
        target = running[at : at + run]
        for i in range(run):
            total = combine(operation, user, total, source[i])
            target[i] = total
        done += run
        at += run - 1


@njit(cache=True, nogil=True)
def fold_running(inverse: Any, running: Elements, lap: int, low: Ints, high: Ints) -> Elements:
    """Fold each range as the difference of two running combinations."""
    out = np.empty(len(low), running.dtype)
    size = len(running)
    for i in range(len(low)):
        whole = running[place(high[i], lap, size)]
        prefix = running[place(low[i], lap, size)]
        out[i] = take_off(inverse, whole, prefix)
    return out


@njit(cache=True, nogil=True)
def extend_running_pairs(
    running: Pairs, elements: Pairs, special: Ints, laps: npt.NDArray[np.float64], length: int, values: Pairs
) -> None:
    """Sums of pairs since the beginning of each lap.

    `laps` holds the sum (high, low) of the whole lap before the current one, the sum of |x| of that lap, and of the
    current lap so far. `special` counts infinities and NaNs in the same way as `running` sums; it is empty until one
    comes.
    """
    size = len(running)
    at = length % size
    high = running[at].real
    low = running[at].imag
    marked = special[at] if len(special) else 0
    for i in range(len(values)):
        value = values[i]
        elements[at] = value
        if np.isfinite(value.real):
            high, low = add_pairs(high, low, value.real, value.imag)
            laps[3] += np.abs(value.real)
        else:
            marked += 1
        at += 1
        if at == size:
            at = 0
            laps[0] = high
            laps[1] = low
            laps[2] = laps[3]
            laps[3] = 0.0
            high = low = 0.0
        running[at] = complex(high, low)
        if len(special):
            special[at] = marked


@njit(cache=True, nogil=True)
def fold_running_pairs(
    running: Pairs, elements: Pairs, special: Ints, laps: npt.NDArray[np.float64], lap: int, low: Ints, high: Ints
) -> Pairs:
    """Fold each range as a difference, or add it up where a difference would not be good enough.

    That is where the range has an infinity or a NaN, and where the sums of two laps are so much larger than the answer
    that their rounding might show in it.
    """
    out = np.empty(len(low), running.dtype)
    size = len(running)
    error = PAIR_ERROR * size * (laps[2] + laps[3])
    for i in range(len(low)):
        a = place(low[i], lap, size)
        b = place(high[i], lap, size)
        total_high, total_low = add_pairs(running[b].real, running[b].imag, -running[a].real, -running[a].imag)
        if low[i] < lap <= high[i]:
            total_high, total_low = add_pairs(laps[0], laps[1], total_high, total_low)
        is_special = len(special) > 0 and special[a] != special[b]
        if is_special or not np.isfinite(total_high) or error > 2.0**-54 * np.abs(total_high):
            total_high = total_low = 0.0
            for _ in range(high[i] - low[i]):
                total_high, total_low = add_pairs(total_high, total_low, elements[a].real, elements[a].imag)
                a += 1
                if a == size:
                    a = 0
        out[i] = complex(total_high, total_low)
    return out
