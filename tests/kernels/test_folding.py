"""Folds over ranges equal a plain fold of each range."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.kernels.folding import fold_extreme, fold_sum_int, fold_sum_pairs, prefix_sums
from panewise.kernels.instances import closed_instances, listed_instances

floats = st.floats(allow_nan=True, allow_infinity=True, width=64)
ints = st.integers(-(2**63), 2**63 - 1)


@st.composite
def runs(draw, values):
    """Values, and ranges over them in runs whose ends never go back, each run after the one before."""
    column, low, high = [], [], []
    for _ in range(draw(st.integers(1, 3))):
        base = len(column)
        column += draw(st.lists(values, min_size=1, max_size=25))
        begin = end = base
        for _ in range(draw(st.integers(0, 15))):
            end = draw(st.integers(max(end, begin + 1), len(column)))
            begin = draw(st.integers(begin, end - 1))
            low.append(begin)
            high.append(end)
            if begin + 1 > len(column) - 1:
                break
    return column, np.array(low, np.int64), np.array(high, np.int64)


@given(runs(ints))
def test_integer_sums_wrap_to_the_right_difference(case) -> None:
    column, low, high = case
    found = fold_sum_int(prefix_sums(np.array(column, np.int64)), low, high)
    for value, a, b in zip(found, low, high):
        assert (int(value) - sum(column[a:b])) % 2**64 == 0


@given(runs(st.floats(-1e200, 1e200)))
def test_pair_sums_lose_nothing_that_shows(case) -> None:
    column, low, high = case
    found_high, found_low = fold_sum_pairs(np.array(column), np.zeros(len(column)), low, high)
    for upper, lower, a, b in zip(found_high, found_low, low, high):
        exact = sum(map(Fraction, column[a:b]))
        assert abs(Fraction(float(upper)) + Fraction(float(lower)) - exact) <= Fraction(2) ** -95 * sum(
            abs(Fraction(x)) for x in column[a:b]
        )


@given(runs(floats))
def test_not_a_number_and_infinity_stay_in_their_windows(case) -> None:
    column, low, high = case
    found, _ = fold_sum_pairs(np.array(column), np.zeros(len(column)), low, high)
    for value, a, b in zip(found, low, high):
        odd = [x for x in column[a:b] if not math.isfinite(x)]
        if odd:
            assert str(float(value)) == str(sum(odd))


def above(a: float, b: float) -> bool:
    return a > b or (math.isnan(a) and not math.isnan(b))


@given(runs(floats), st.booleans())
def test_extremes(case, greatest: bool) -> None:
    column, low, high = case
    found = fold_extreme(np.array(column), low, high, greatest)
    for value, a, b in zip(found, low, high):
        window = column[a:b]
        assert any(value == x or (math.isnan(value) and math.isnan(x)) for x in window)
        assert not any(above(x, value) if greatest else above(value, x) for x in window)


@given(runs(ints), st.booleans())
def test_extremes_of_integers(case, greatest: bool) -> None:
    column, low, high = case
    found = fold_extreme(np.array(column, np.int64), low, high, greatest)
    pick = max if greatest else min
    assert found.tolist() == [pick(column[a:b]) for a, b in zip(low, high)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20)), max_size=40),
    st.integers(1, 15),
    st.integers(1, 10),
    st.integers(-30, 30),
    st.integers(-1, 40),
    st.integers(0, 9),
    st.integers(0, 3),
)
def test_closed_instances_are_those_that_cover_a_row(rows, length, slide, first, more, offset, grown) -> None:
    rows = sorted(rows)
    keys = np.array([key for key, _ in rows], np.int64)
    slots = np.array([slot for _, slot in rows], np.int64)
    last = first + more
    segments = np.append(np.flatnonzero(np.diff(keys, prepend=-1)), len(keys))
    period = grown * slide
    length = slide if period else length
    parts = (slots, segments, length, slide, offset, period, first, last)
    count = closed_instances(*parts, np.empty((4, 0), np.int64))
    found = np.zeros((4, count), np.int64)
    assert closed_instances(*parts, found) == count
    ks = np.arange(first, last + 1)
    starts = (ks * slide // period * period if period else ks * slide) + offset
    ends = ks * slide + length + offset
    expected = [
        (key, int(k), [place for place, (owner, slot) in enumerate(rows) if owner == key and start <= slot < end])
        for key in sorted(set(keys.tolist()))
        for k, start, end in zip(ks, starts, ends)
    ]
    expected = [row for row in expected if row[2]]
    listed = np.zeros((4, count), np.int64)
    assert listed_instances(slots, segments, starts, ends, first, listed) == count
    assert listed.tolist() == found.tolist()
    assert [(int(keys[begin]), int(k), list(range(low, high))) for begin, k, low, high in found.T] == expected
