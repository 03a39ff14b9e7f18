"""Cells of pieces and keys hold what a plain loop over the rows puts there."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.kernels.nested_windows import accumulate_pairs, add_doubles, add_integers, keep_extremes, mark_covered

KEYS, PIECES = 4, 3
doubles = st.floats(-1e9, 1e9) | st.sampled_from([math.inf, -math.inf, math.nan])
rows = st.lists(
    st.tuples(st.integers(0, KEYS - 1), st.integers(0, 4), st.integers(-(2**63), 2**63 - 1), doubles), max_size=40
)
pieces = st.lists(st.integers(0, PIECES), min_size=5, max_size=5)


def split(rows, pieces):
    """The arrays that kernels take, and the rows of each cell."""
    keys = np.array([row[0] for row in rows], np.uint32)
    places = np.array([row[1] for row in rows], np.uint8)
    lines = (np.array(pieces) * KEYS).astype(np.uint64)
    cells = [[row for row in rows if pieces[row[1]] * KEYS + row[0] == cell] for cell in range((PIECES + 1) * KEYS)]
    return (keys, places, lines), cells


def above(a: float, b: float) -> bool:
    return a > b or (math.isnan(a) and not math.isnan(b))


@settings(deadline=None)
@given(rows, pieces)
def test_rows_are_marked_and_counted(rows, pieces) -> None:
    places, cells = split(rows, pieces)
    covered = np.zeros(len(cells), np.bool_)
    visited = mark_covered(*places, covered, PIECES * KEYS)
    assert covered.tolist() == [bool(cell) for cell in cells]
    assert visited == sum(len(cell) for cell in cells[: PIECES * KEYS])


@settings(deadline=None)
@given(rows, pieces)
def test_integers_are_added(rows, pieces) -> None:
    places, cells = split(rows, pieces)
    sums = np.zeros(len(cells), np.int64)
    add_integers(*places, np.array([row[2] for row in rows], np.int64), sums)
    assert all((int(found) - sum(row[2] for row in cell)) % 2**64 == 0 for found, cell in zip(sums, cells))


@settings(deadline=None)
@given(rows, pieces, st.booleans())
def test_extremes_are_kept(rows, pieces, greatest: bool) -> None:
    places, cells = split(rows, pieces)
    integers = np.full(len(cells), -(2**63) if greatest else 2**63 - 1)
    keep_extremes(*places, np.array([row[2] for row in rows], np.int64), greatest, integers)
    numbers = np.full(len(cells), -math.inf if greatest else math.nan)
    keep_extremes(*places, np.array([row[3] for row in rows], np.float64), greatest, numbers)
    for cell, integer, number in zip(cells, integers.tolist(), numbers.tolist()):
        if not cell:
            continue
        assert integer == (max if greatest else min)(row[2] for row in cell)
        values = [row[3] for row in cell]
        assert any(number == value or (math.isnan(number) and math.isnan(value)) for value in values)
        assert not any(above(value, number) if greatest else above(number, value) for value in values)


@settings(deadline=None)
@given(rows, pieces)
def test_pairs_are_added_and_accumulated(rows, pieces) -> None:
    places, cells = split(rows, pieces)
    high, low = np.zeros(len(cells)), np.zeros(len(cells))
    add_doubles(*places, np.array([row[3] for row in rows], np.float64), np.zeros(len(rows)), high, low)
    high, low = high.reshape(PIECES + 1, KEYS)[:-1], low.reshape(PIECES + 1, KEYS)[:-1]
    accumulate_pairs(high, low)
    for piece in range(PIECES):
        for key in range(KEYS):
            values = [row[3] for line in range(piece + 1) for row in cells[line * KEYS + key]]
            odd = [value for value in values if not math.isfinite(value)]
            if odd:
                assert str(float(high[piece, key])) == str(sum(odd))
                continue
            error = Fraction(float(high[piece, key])) + Fraction(float(low[piece, key])) - sum(map(Fraction, values))
            assert abs(error) <= Fraction(2) ** -95 * sum(abs(Fraction(value)) for value in values)
