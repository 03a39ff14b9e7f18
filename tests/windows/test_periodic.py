"""Periodic edge sets against their expansion, and the numbers that Guirguis et al. print."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import TooManyEdgesError
from panewise.windows import RowWindow, TimeWindow
from panewise.windows.edges import edge_set
from panewise.windows.periodic import (
    PeriodicSet,
    common_rate,
    fragments,
    paired,
    prime_factors,
    union,
    union_bounds,
    union_rate,
    weaveability,
)

lengths = st.integers(1, 24)
windows = st.builds(paired, st.integers(1, 60), lengths, st.integers(-30, 30))


def instants(one: PeriodicSet, period: int) -> set[int]:
    return {instant for instant in range(period) if instant % one.period in one.residues}


class TestPrintedNumbers:
    """Guirguis et al., sections 4 and 8."""

    A, B = paired(12, 9), paired(10, 6)

    def test_edges(self) -> None:
        assert self.A.up_to(18) == [3, 9, 12, 18]
        assert self.B.up_to(18) == [4, 6, 10, 12, 16, 18]
        assert union([self.A, self.B]).up_to(18) == [3, 4, 6, 9, 10, 12, 16, 18]

    def test_edge_rates(self) -> None:
        rates = [self.A.rate, self.B.rate, union_rate([self.A, self.B]).exact]
        assert [f"{float(rate):.2f}" for rate in rates] == ["0.22", "0.33", "0.44"]

    def test_weaveability(self) -> None:
        assert weaveability([self.A], [self.B]) == Fraction(1, 4)
        assert weaveability([self.A], [self.A]) == 1

    def test_slide_5_with_fragments_2_and_3_against_slide_3(self) -> None:
        x, y = paired(7, 5), paired(3, 3)
        assert fragments(7, 5) == (2, 3)
        assert union_rate([x, y]).exact == Fraction(9, 15)
        assert common_rate(x, y) == Fraction(2, 15)
        assert set(x.up_to(15)) & set(y.up_to(15)) == {12, 15}


@given(st.integers(1, 60), lengths, st.integers(-30, 30))
def test_edges_are_where_windows_open_and_close(length: int, slide: int, offset: int) -> None:
    edges = paired(length, slide, offset)
    expected = {(offset + k * slide + end) % (slide * 4) for k in range(8) for end in (0, length)}
    assert instants(edges, slide * 4) == expected
    assert edges.rate == Fraction(len(expected), slide * 4)


@given(windows, windows)
def test_equal_sets_compare_equal(left: PeriodicSet, right: PeriodicSet) -> None:
    period = lcm(left.period, right.period)
    assert (left == right) == (instants(left, period) == instants(right, period))


@given(windows, windows)
def test_common_edges(left: PeriodicSet, right: PeriodicSet) -> None:
    period = lcm(left.period, right.period)
    both = instants(left, period) & instants(right, period)
    assert common_rate(left, right) == Fraction(len(both), period)


@given(st.lists(windows, max_size=6), st.sampled_from([1, 16, 1 << 22]))
def test_union_rate_with_and_without_bitmaps(sets: list[PeriodicSet], most_bits: int) -> None:
    period = lcm(*(one.period for one in sets))
    edges = {instant for one in sets for start in one.residues for instant in range(start, period, one.period)}
    assert union_rate(sets, most_bits=most_bits, most_work=10**9).exact == Fraction(len(edges), period)


@given(st.lists(windows, min_size=1, max_size=6), st.sampled_from([8, 64, 1 << 20]))
def test_bounds_hold(sets: list[PeriodicSet], most_bits: int) -> None:
    exact = union_rate(sets, most_work=10**9).exact
    bounds = union_bounds(sets, most_bits=most_bits)
    assert bounds.lower <= exact <= bounds.upper


@given(st.lists(windows, min_size=1, max_size=4), st.integers(1, 1000), st.integers(-1000, 1000))
def test_rates_scale_and_shift(sets: list[PeriodicSet], unit: int, shift: int) -> None:
    moved = [PeriodicSet.of(one.period * unit, [r * unit + shift for r in one.residues]) for one in sets]
    assert union_rate(moved).exact == union_rate(sets).exact / unit


def test_coprime_slides_of_minutes_stay_exact_without_expansion() -> None:
    minute = 60_000_000
    sets = [paired(minute * m * 3, minute * m) for m in (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)]
    free = Fraction(1)
    for one in sets:
        free *= 1 - Fraction(minute, one.period)
    assert union_rate(sets, most_bits=1024).exact == (1 - free) / minute


def test_offsets_that_never_meet_add_up() -> None:
    sets = [paired(1000, 1000, offset) for offset in range(0, 1000, 10)]
    assert union_rate(sets).exact == Fraction(1, 10)


def test_without_work_there_are_bounds() -> None:
    sets = [paired(3 * m + 1, 2 * m) for m in (101, 103, 107, 109, 113, 127, 131, 137)]
    rough = union_rate(sets, most_work=1, most_bits=50_000)
    exact = union_rate(sets, most_work=10**7).exact
    assert not rough.is_exact
    assert rough.lower < exact < rough.upper
    assert rough.upper - rough.lower < exact / 10
    with pytest.raises(TooManyEdgesError, match="raise most_bits or most_work"):
        _ = rough.exact


def test_a_union_that_is_too_long_is_not_written_out() -> None:
    with pytest.raises(TooManyEdgesError, match="use union_rate"):
        union([paired(m, m) for m in (9973, 99991, 999983)])


def test_no_sets_have_no_edges() -> None:
    assert union_rate([]).exact == 0
    assert union_bounds([]).upper == 0


@given(st.integers(1, 5000))
def test_prime_factors(number: int) -> None:
    primes = [p for p in range(2, number + 1) if number % p == 0 and all(p % d for d in range(2, int(p**0.5) + 1))]
    assert list(prime_factors(number)) == primes


def test_windows_of_time_and_of_rows() -> None:
    assert edge_set(TimeWindow(10, slide_us=6)) == edge_set(RowWindow(10, slide=6)) == PeriodicSet(6, (0, 4))


@pytest.mark.parametrize(
    "build",
    [
        lambda: PeriodicSet(0, ()),
        lambda: PeriodicSet(4, (4,)),
        lambda: PeriodicSet(4, (2, 1)),
        lambda: PeriodicSet.of(0, [1]),
        lambda: paired(0, 1),
        lambda: paired(1, 0),
    ],
)
def test_nonsense_is_refused(build: object) -> None:
    with pytest.raises(ValueError, match=r"must|needs"):
        build()  # type: ignore[operator]
