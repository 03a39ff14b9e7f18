"""The naive approach of STREAM: for every query a queue of its own, and its answer at every arrival.

Queue q is a ring in `pool` from offsets[q] to offsets[q + 1], with `heads[q]` its oldest element and `counts[q]` how
many it has. Extremes are scanned for again when the one that leaves is the answer; sums add what comes and take off
what goes, doubles as pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pairs import add_pairs

Elements = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

COUNT, SUM, MAX, MIN = range(4)


@njit(cache=True, nogil=True)
def arrive(
    kind: int,
    values: Elements,
    times: Ints,
    sizes: Ints,
    offsets: Ints,
    pool: Elements,
    time_pool: Ints,
    heads: Ints,
    counts: Ints,
    answers: Elements,
    rests: Floats,
    out: Elements,
    out_counts: Ints,
) -> None:
    """Take in values one by one, and evaluate every query at each; `out` has the answers after every event, if asked.

    Without times a queue holds `sizes[q]` elements, with times those after the newest time minus `sizes[q]`.
    """
    timed = len(times) > 0
    for i in range(len(values)):
        value = values[i]
        for q in range(len(sizes)):
            base = offsets[q]
            room = offsets[q + 1] - base
            head = heads[q]
            count = counts[q]
            must_scan = False
            while count > 0 and (time_pool[base + head] <= times[i] - sizes[q] if timed else count == sizes[q]):
                oldest = pool[base + head]
                head += 1
                if head == room:
                    head = 0
                count -= 1
                if kind == SUM:
                    answers[q], rests[q] = _add(answers[q], rests[q], -oldest)
                elif kind != COUNT and oldest == answers[q]:
                    must_scan = True
            at = head + count
            if at >= room:
                at -= room
            pool[base + at] = value
            if timed:
                time_pool[base + at] = times[i]
            count += 1
            heads[q] = head
            counts[q] = count
            if kind == SUM:
                if count == 1:
                    answers[q] = value
                    rests[q] = 0.0
                else:
                    answers[q], rests[q] = _add(answers[q], rests[q], value)
            elif kind != COUNT:
                best = answers[q]
                if count == 1 or (value >= best if kind == MAX else value <= best):
                    best = value
                elif must_scan:
                    best = value
                    wrapped = max(head + count - room, 0)
                    for place in range(base + head, base + head + count - wrapped):
                        other = pool[place]
                        best = (other if other > best else best) if kind == MAX else (other if other < best else best)
                    for place in range(base, base + wrapped):
                        other = pool[place]
                        best = (other if other > best else best) if kind == MAX else (other if other < best else best)
                answers[q] = best
            if len(out):
                out[q, i] = answers[q]
                out_counts[q, i] = count


@njit(inline="always")
def _add(total: Any, rest: float, value: Any) -> tuple[Any, float]:
    """A sum and its rest with one more value; sums of integers have no rest."""
    if isinstance(total, float):
        return add_pairs(total, rest, value, 0.0)
    return total + value, 0.0


@njit(cache=True, nogil=True)
def moved(offsets: Ints, new_offsets: Ints, heads: Ints, counts: Ints, pool: Elements, new_pool: Elements) -> None:
    """Copy each queue to where it lies from now on, its oldest element first."""
    for q in range(len(heads)):
        room = offsets[q + 1] - offsets[q]
        for place in range(counts[q]):
            new_pool[new_offsets[q] + place] = pool[offsets[q] + (heads[q] + place) % room]
