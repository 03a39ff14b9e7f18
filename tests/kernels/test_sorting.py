"""The kernels' sort agrees with NumPy's, wherever its parts are split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.kernels.sorting import place_of_rank, sort_with_places

NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(width=64), st.just(float("nan")))


@given(st.lists(NUMBERS, max_size=200))
def test_doubles_with_ties_infinities_and_nan(values: list[float]) -> None:
    array = np.array(values, np.float64)
    ordered, places = sort_with_places(array)
    np.testing.assert_array_equal(ordered, np.sort(array))
    np.testing.assert_array_equal(array[places], ordered)
    assert sorted(places.tolist()) == list(range(len(values)))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=200))
def test_integers(values: list[int]) -> None:
    array = np.array(values, np.int64)
    ordered, places = sort_with_places(array)
    np.testing.assert_array_equal(ordered, np.sort(array))
    np.testing.assert_array_equal(array[places], ordered)


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 3)), min_size=1, max_size=200))
def test_each_rank_of_weighted_values_is_found(pairs: list[tuple[float, int]]) -> None:
    values, weights = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    every = np.sort(np.repeat(values, weights))
    for rank in {1, len(every) // 3 + 1, len(every) // 2 + 1, len(every)}:
        some = values.copy()
        found = some[place_of_rank(some, weights.copy(), len(some), rank)]
        np.testing.assert_array_equal(found, every[rank - 1])


@pytest.mark.parametrize("shape", ["sorted", "reversed", "equal", "sawtooth", "organ pipe"])
def test_long_and_regular(shape: str) -> None:
    line = np.arange(50_000.0)
    array = {
        "sorted": line,
        "reversed": line[::-1].copy(),
        "equal": np.zeros(50_000),
        "sawtooth": line % 37,
        "organ pipe": np.concatenate([line[::2], line[::-2]]),
    }[shape]
    ordered, places = sort_with_places(array)
    np.testing.assert_array_equal(ordered, np.sort(array))
    np.testing.assert_array_equal(array[places], ordered)
