"""Sliding windows kept up to date at every element: the work of materialising every answer.

Each window has a queue in two stacks: suffix combinations of its front elements, and one combination of the others.
Source: the two-stacks queue, as in Tangwongsan, Hirzel and Schneider, DEBS 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import combine

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def slide_windows(
    operation: int,
    user: Any,
    identity: Any,
    ring: Elements,
    lefts: Ints,
    rights: Ints,
    fronts: Elements,
    places: Ints,
    middles: Ints,
    backs: Elements,
    answers: Elements,
    start: int,
    values: Elements,
) -> None:
    """Bring every window's answer up to date after each of the new elements.

    `ring` holds the elements before `start`. Window w has its front at places[w] .. places[w + 1] of `fronts`, by
    position modulo its width; `middles` is where its front ends, `backs` the combination of what follows.
    """
    for window in range(len(lefts)):
        front = fronts[places[window] : places[window + 1]]
        width = len(front)
        middle = middles[window]
        back = backs[window]
        answer = answers[window]
        for i in range(len(values)):
            end = start + i + 1
            high = end - rights[window]
            if high <= 0:
                continue
            low = max(end - lefts[window], 0)
            newest = high - 1
            element = values[newest - start] if newest >= start else ring[newest % len(ring)]
            back = combine(operation, user, back, element)
            if low >= middle:
                # The front is used up: everything moves there.
                total = identity
                for t in range(high - 1, low - 1, -1):
                    element = values[t - start] if t >= start else ring[t % len(ring)]
                    total = combine(operation, user, element, total)
                    front[t % width] = total
                middle = high
                back = identity
            answer = combine(operation, user, front[low % width], back)
        middles[window] = middle
        backs[window] = back
        answers[window] = answer
