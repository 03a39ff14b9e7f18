"""Joined words: components whose words are combined all together.

Moments are sums of powers of distances from the mean, which is held as a pair of doubles: so they keep their digits far
from zero. Joining two parts moves both to the mean of the whole. Source: Chan, Golub and LeVeque, 1979; Pébay,
"Formulas for Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order Statistical Moments", 2008.

A row of words is one partial. Words of a part without values: a count or a weight of 0, or an order that any replaces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pairs import add_near_pairs

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[Any]

MOMENTS, COMOMENTS, DECAYED, AT_LEAST, AT_GREATEST = range(5)
"""What is joined."""


@njit(cache=True, nogil=True)
def _moved_mean(one: Floats, mean: int, share: float, out: Floats) -> None:
    """The mean of the whole: that of one part, and a share of the way to that of the other."""
    out[mean], out[mean + 1] = add_near_pairs(one[mean], one[mean + 1], share, 0.0)


@njit(cache=True, nogil=True)
def _distance(one: Floats, other: Floats, mean: int) -> float:
    """How far the mean of one part is from that of the other."""
    distance: float = (other[mean] - one[mean]) + (other[mean + 1] - one[mean + 1])
    return distance


@njit(cache=True, nogil=True)
def join_moments(one: Floats, other: Floats, out: Floats) -> None:
    """Join count, mean (a pair), and the sums of second, third and fourth powers; `out` is neither of both."""
    n, m = one[0], other[0]
    if n == 0.0 or m == 0.0:
        out[:] = other if n == 0.0 else one
        return
    whole = n + m
    delta = _distance(one, other, 1)
    step = delta / whole
    product = delta * step * n * m
    second, third = (one[3], other[3]), (one[4], other[4])
    out[0] = whole
    _moved_mean(one, 1, step * m, out)
    out[3] = second[0] + second[1] + product
    out[4] = third[0] + third[1] + product * step * (n - m) + 3.0 * step * (n * second[1] - m * second[0])
    out[5] = (
        one[5]
        + other[5]
        + product * step * step * (n * n - n * m + m * m)
        + 6.0 * step * step * (n * n * second[1] + m * m * second[0])
        + 4.0 * step * (n * third[1] - m * third[0])
    )


@njit(cache=True, nogil=True)
def join_comoments(one: Floats, other: Floats, out: Floats) -> None:
    """Join count, two means (pairs), and the sums of squares, products and other squares."""
    n, m = one[0], other[0]
    if n == 0.0 or m == 0.0:
        out[:] = other if n == 0.0 else one
        return
    whole = n + m
    x, y = _distance(one, other, 1), _distance(one, other, 3)
    share = n * m / whole
    out[0] = whole
    _moved_mean(one, 1, x / whole * m, out)
    _moved_mean(one, 3, y / whole * m, out)
    out[5] = one[5] + other[5] + x * x * share
    out[6] = one[6] + other[6] + x * y * share
    out[7] = one[7] + other[7] + y * y * share


@njit(cache=True, nogil=True)
def join_decayed(one: Floats, other: Floats, out: Floats) -> None:
    """Join half life, time, weight and sum: the older part decays to the time of the newer."""
    if one[2] == 0.0 or other[2] == 0.0:
        out[:] = other if one[2] == 0.0 else one
        return
    newer, older = (one, other) if one[1] >= other[1] else (other, one)
    left = 2.0 ** ((older[1] - newer[1]) / newer[0])
    out[0], out[1] = newer[0], newer[1]
    out[2] = newer[2] + older[2] * left
    out[3] = newer[3] + older[3] * left


@njit(cache=True, nogil=True)
def join_floats(kind: int, one: Floats, other: Floats, out: Floats) -> None:
    """Join two rows of words."""
    if kind == MOMENTS:
        join_moments(one, other, out)
    elif kind == COMOMENTS:
        join_comoments(one, other, out)
    else:
        join_decayed(one, other, out)


@njit(cache=True, nogil=True)
def lift_floats(
    kind: int, index: Ints, values: Floats, others: Floats, half_life: float, valid: Bools, out: Floats
) -> None:
    """Join events to the words of their partials; `others` are the second values, or times."""
    words = out.shape[1]
    event, whole = np.zeros(words), np.zeros(words)
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        # Nothing is known of the moments of values that are infinite or NaN.
        if kind == MOMENTS:
            event[0], event[1] = 1.0, values[i]
            event[3] = event[4] = event[5] = values[i] - values[i]
        elif kind == COMOMENTS:
            event[0], event[1], event[3] = 1.0, values[i], others[i]
            event[5], event[7] = values[i] - values[i], others[i] - others[i]
            event[6] = event[5] + event[7]
        else:
            event[0], event[1], event[2], event[3] = half_life, others[i], 1.0, values[i]
        join_floats(kind, out[index[i]], event, whole)
        out[index[i]] = whole


@njit(cache=True, nogil=True)
def fold_floats(kind: int, rows: Floats, low: Ints, high: Ints) -> Floats:
    """The join of each range of rows, with two stacks as in `kernels.folding`."""
    words = rows.shape[1]
    out = np.empty((len(low), words))
    front = np.empty_like(rows)
    back, joined = np.zeros(words), np.zeros(words)
    middle = end = 0
    for i in range(len(low)):
        if low[i] >= middle:
            middle = end = high[i]
            back[:] = 0.0
            joined[:] = 0.0
            for j in range(middle - 1, low[i] - 1, -1):
                join_floats(kind, rows[j], joined, front[j])
                joined[:] = front[j]
        for j in range(end, high[i]):
            join_floats(kind, back, rows[j], joined)
            back[:] = joined
        end = high[i]
        join_floats(kind, front[low[i]], back, out[i])
    return out


@njit(cache=True, nogil=True)
def is_better(order: int, value: int, best_order: int, best_value: int, greatest: bool) -> bool:
    """Whether a pair is above another one, or below."""
    if order != best_order:
        return (order > best_order) == greatest
    return value != best_value and (value > best_value) == greatest


@njit(cache=True, nogil=True)
def lift_pairs(index: Ints, orders: Ints, values: Ints, valid: Bools, best: Ints, greatest: bool) -> None:
    """Keep the least or the greatest pair of each partial."""
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        g = index[i]
        if is_better(orders[i], values[i], best[g, 0], best[g, 1], greatest):
            best[g, 0], best[g, 1] = orders[i], values[i]


@njit(cache=True, nogil=True)
def fold_pairs(rows: Ints, low: Ints, high: Ints, greatest: bool) -> Ints:
    """The least or the greatest pair of each range of rows, with two stacks as in `kernels.folding`."""
    out = np.empty((len(low), 2), np.int64)
    front = np.empty(len(rows), np.int64)
    middle = end = 0
    back = -1  # row of the best pair behind the front, or -1
    for i in range(len(low)):
        if low[i] >= middle:
            middle = end = high[i]
            for j in range(middle - 1, low[i] - 1, -1):
                front[j] = j
                if j + 1 < middle:
                    best = front[j + 1]
                    if is_better(rows[best, 0], rows[best, 1], rows[j, 0], rows[j, 1], greatest):
                        front[j] = best
            back = -1
        for j in range(end, high[i]):
            if back < 0 or is_better(rows[j, 0], rows[j, 1], rows[back, 0], rows[back, 1], greatest):
                back = j
        end = high[i]
        chosen = front[low[i]]
        if back >= 0 and is_better(rows[back, 0], rows[back, 1], rows[chosen, 0], rows[chosen, 1], greatest):
            chosen = back
        out[i, 0], out[i, 1] = rows[chosen, 0], rows[chosen, 1]
    return out
