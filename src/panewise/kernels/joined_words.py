"""Joined words: components whose words are combined all together.

Moments are sums of powers of distances from the mean, which is held as a pair of doubles: so they keep their digits far
from zero. Joining two parts moves both to the mean of the whole. Source: Chan, Golub and LeVeque, 1979; Pébay,
"Formulas for Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order Statistical Moments", 2008.

A row of words is one partial. Words of a part without values: a count or a weight of 0, or an order that any replaces.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.pairs import add_near_pairs

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MOMENTS, COMOMENTS, DECAYED, AT_LEAST, AT_GREATEST = range(5)
"""What is joined."""


Row = tuple[float, float, float, float, float, float, float, float]
WIDTH = 8
"""The words of a row in these kernels; those that a component does not have are zeros."""
_NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@njit(inline="always")
def _read(rows: Floats, i: int) -> Row:
    return rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3], rows[i, 4], rows[i, 5], rows[i, 6], rows[i, 7]


@njit(inline="always")
def _write(rows: Floats, i: int, row: Row) -> None:
    for place in range(WIDTH):
        rows[i, place] = row[place]


@njit(cache=True, nogil=True)
def join_moments(one: Row, other: Row) -> Row:
    """Join count, mean (a pair), and the sums of second, third and fourth powers."""
    n, m = one[0], other[0]
    whole = n + m
    delta = (other[1] - one[1]) + (other[2] - one[2])
    step = delta / whole
    product = delta * step * n * m
    mean, rest = add_near_pairs(one[1], one[2], step * m, 0.0)
    second = one[3] + other[3] + product
    third = one[4] + other[4] + product * step * (n - m) + 3.0 * step * (n * other[3] - m * one[3])
    fourth = (
        one[5]
        + other[5]
        + product * step * step * (n * n - n * m + m * m)
        + 6.0 * step * step * (n * n * other[3] + m * m * one[3])
        + 4.0 * step * (n * other[4] - m * one[4])
    )
    return whole, mean, rest, second, third, fourth, 0.0, 0.0


@njit(cache=True, nogil=True)
def join_comoments(one: Row, other: Row) -> Row:
    """Join count, two means (pairs), and the sums of squares, products and other squares."""
    n, m = one[0], other[0]
    whole = n + m
    x, y = (other[1] - one[1]) + (other[2] - one[2]), (other[3] - one[3]) + (other[4] - one[4])
    share, part = n * m / whole, m / whole
    mean, rest = add_near_pairs(one[1], one[2], x * part, 0.0)
    other_mean, other_rest = add_near_pairs(one[3], one[4], y * part, 0.0)
    squares, products = one[5] + other[5] + x * x * share, one[6] + other[6] + x * y * share
    return whole, mean, rest, other_mean, other_rest, squares, products, one[7] + other[7] + y * y * share


@njit(cache=True, nogil=True)
def join_decayed(one: Row, other: Row) -> Row:
    """Join half life, time, weight and sum: the older part decays to the time of the newer."""
    newer, older = (one, other) if one[1] >= other[1] else (other, one)
    left = np.exp2((older[1] - newer[1]) / newer[0])
    return newer[0], newer[1], newer[2] + older[2] * left, newer[3] + older[3] * left, 0.0, 0.0, 0.0, 0.0


@njit(cache=True, nogil=True)
def join_rows(kind: int, one: Row, other: Row) -> Row:
    """Join two rows of words; one without values changes nothing."""
    place = 2 if kind == DECAYED else 0
    if one[place] == 0.0 or other[place] == 0.0:
        return other if one[place] == 0.0 else one
    if kind == MOMENTS:
        return join_moments(one, other)
    return join_comoments(one, other) if kind == COMOMENTS else join_decayed(one, other)


@njit(cache=True, nogil=True)
def lift_floats(
    kind: int, index: Ints, values: Floats, others: Floats, half_life: float, valid: Bools, out: Floats
) -> None:
    """Join events to the words of their partials; `others` are the second values, or times."""
    has_nulls = len(valid) > 0
    for i in range(len(index)):
        if has_nulls and not valid[i]:
            continue
        x, y = values[i], others[i]
        # Nothing is known of the moments of values that are infinite or NaN.
        odd, other_odd = x - x, y - y
        if kind == MOMENTS:
            event = (1.0, x, 0.0, odd, odd, odd, 0.0, 0.0)
        elif kind == COMOMENTS:
            event = (1.0, x, 0.0, y, 0.0, odd, odd + other_odd, other_odd)
        else:
            event = (half_life, y, 1.0, x, 0.0, 0.0, 0.0, 0.0)
        _write(out, index[i], join_rows(kind, _read(out, index[i]), event))


@njit(cache=True, nogil=True)
def fold_floats(kind: int, rows: Floats, low: Ints, high: Ints) -> Floats:
    """The join of each range of rows, with two stacks as in `kernels.folding`."""
    out = np.empty((len(low), WIDTH))
    front = np.empty_like(rows)
    back = _NOTHING
    middle = end = 0
    for i in range(len(low)):
        if low[i] >= middle:
            middle = end = high[i]
            back = joined = _NOTHING
            for j in range(middle - 1, low[i] - 1, -1):
                joined = join_rows(kind, _read(rows, j), joined)
                _write(front, j, joined)
        for j in range(end, high[i]):
            back = join_rows(kind, back, _read(rows, j))
        end = high[i]
        _write(out, i, join_rows(kind, _read(front, low[i]), back))
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
