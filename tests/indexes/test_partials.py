"""Sums, means, extremes and the variance are incremental: partials of basic windows are enough (Indexing, 3.2)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.indexes.plain import PlainWindow

from panewise.errors import IndexingError
from panewise.indexes import PartialWindow

whole = st.one_of(st.integers(-20, 20), st.sampled_from([2**63 - 1, -(2**63), 2**62]))
double = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([1e150, 1.1e150, 2.0**53, 2.0**53 + 2, 1.7e15, 1.7e15 + 1, 1e-170, 3e-170]),
)
odd = st.one_of(st.floats(-4, 4), st.sampled_from([math.nan, math.inf, -math.inf, -0.0]))


def steps(values):
    return st.lists(st.tuples(st.lists(values, max_size=6), st.sampled_from([0, 1, 1, 1, 3])), max_size=20)


def exact_variance(values, sample):
    mean = Fraction(sum(map(Fraction, values)), len(values))
    return sum((value - mean) ** 2 for value in map(Fraction, values)) / (len(values) - sample)


@pytest.mark.parametrize(("type", "values"), [("int64", whole), ("float64", double)])
@given(data=st.data(), basic_windows=st.integers(1, 4))
def test_finite_values(type, values, data, basic_windows) -> None:
    tested, oracle = PartialWindow(basic_windows, type), PlainWindow(basic_windows)
    for batch, attach in data.draw(steps(values)):
        tested.append(np.array(batch, type))
        tested.attach(attach)
        oracle.append(batch)
        oracle.attach(attach)
        held = oracle.values()
        assert tested.count() == len(held)
        if not held:
            assert tested.sum() is tested.mean() is tested.variance() is tested.least() is tested.greatest() is None
            continue
        if type == "int64":
            assert tested.sum() == sum(held)
        else:
            assert tested.sum() == pytest.approx(math.fsum(held), rel=1e-12, abs=1e-12 * math.fsum(map(abs, held)))
        scale = max(map(abs, held))
        assert tested.mean() == pytest.approx(float(sum(map(Fraction, held)) / len(held)), rel=1e-12, abs=1e-12 * scale)
        assert (tested.least(), tested.greatest()) == (min(held), max(held))
        # The error is that of the values' last digits, not of their squares.
        for sample in (False, True):
            if len(held) > sample:
                exact = float(exact_variance(held, sample))
                assert tested.variance(sample) == pytest.approx(exact, rel=1e-9, abs=1e-20 * scale * scale + 1e-300)
            else:
                assert tested.variance(sample) is None


def test_variance_has_no_memory_of_what_has_left() -> None:
    """A running sum of squares would still carry the rounding of 1e16 in its last digits."""
    window = PartialWindow(2, "float64")
    for batch in ([1e16, -1e16, 3.0], [1e15], [1.0, 2.0], [3.0, 4.0]):
        window.append(batch)
        window.attach()
    assert window.variance() == 1.25
    assert window.sum() == 10.0


@pytest.mark.parametrize(
    ("type", "batches", "variance"),
    [
        ("int64", [[1_700_000_000_000_000 + n % 4 for n in range(1_000)]] * 2, 1.25),
        ("int64", [[2**53 + n for n in range(3)], [2**53 + n for n in range(3, 6)]], 35 / 12),
        ("float64", [[1e155], [1e155]], 0.0),
        ("float64", [[1e154, 3e154], [1e154, 3e154]], 1e308),
        ("float64", [[2.0**53], [2.0**53 + 2]], 1.0),
        ("float64", [[1e-150, 3e-150]], 1e-300),
    ],
)
def test_variance_has_its_digits_at_any_magnitude(type, batches, variance) -> None:
    window = PartialWindow(2, type)
    for batch in batches:
        window.append(batch)
        window.attach()
    assert window.variance() == pytest.approx(variance, rel=1e-12)


def test_sums_beyond_a_double_are_infinite() -> None:
    window = PartialWindow(2, "float64")
    for _ in range(2):
        window.append([1e308, 1e308])
        window.attach()
    assert window.sum() == math.inf
    window.append([1.0])
    window.attach(2)
    assert window.sum() == 1.0


@given(batches=steps(odd), basic_windows=st.integers(1, 3))
def test_nan_and_infinities_leave_with_their_basic_window(batches, basic_windows) -> None:
    tested, oracle = PartialWindow(basic_windows, "float64"), PlainWindow(basic_windows)
    for batch, attach in batches:
        tested.append(np.array(batch, np.float64))
        tested.attach(attach)
        oracle.append(batch)
        oracle.attach(attach)
        held = oracle.values()
        if not held:
            continue
        if all(map(math.isfinite, held)):
            assert math.isfinite(tested.sum())
            assert tested.variance() == pytest.approx(float(exact_variance(held, 0)), rel=1e-9, abs=1e-15)
        else:
            assert math.isnan(tested.variance())
            assert str(tested.sum()) == str(sum(held))
        has_nan = any(map(math.isnan, held))
        assert math.isnan(tested.greatest()) if has_nan else tested.greatest() == max(held)
        numbers = [value for value in held if not math.isnan(value)]
        assert tested.least() == min(numbers) if numbers else math.isnan(tested.least())


def test_bad_arguments_are_named() -> None:
    for call, words in [
        (lambda: PartialWindow(0), "at least one basic window"),
        (lambda: PartialWindow(2, "string"), "type of numbers"),
        (lambda: PartialWindow(2).append([0.5]), "int64"),
        (lambda: PartialWindow(2).attach(-1), "-1"),
    ]:
        with pytest.raises(IndexingError, match=words):
            call()
