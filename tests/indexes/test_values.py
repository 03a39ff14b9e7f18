"""Values become integers of the same order and come back; each number lies in its own range."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.indexes.plain import plain, sort_key

from panewise.indexes.values import codes_of

doubles = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(doubles, max_size=30))
def test_doubles_keep_their_order(values) -> None:
    codes = codes_of("float64")
    encoded = codes.encode(np.array(values, np.float64))
    assert [plain(value) for value in codes.decode(encoded).tolist()] == [plain(value) for value in values]
    expected = [plain(value) for value in sorted(values, key=sort_key)]
    assert [plain(value) for value in codes.decode(np.sort(encoded)).tolist()] == expected


@given(st.lists(doubles, max_size=30), st.floats(1e-3, 1e6))
def test_doubles_lie_in_their_range(values, width) -> None:
    _check_ranges(np.array(values, np.float64), width)


def test_doubles_at_the_ends_of_ranges() -> None:
    """A quotient is rounded over the end of a range, in either direction, for one double in twenty of these."""
    random = np.random.default_rng(2)
    for width in random.random(20) * 100:
        ends = random.integers(1, 10**6, 200) * width
        for values in (ends, np.nextafter(ends, 0), np.nextafter(ends, np.inf)):
            _check_ranges(values, width)
            _check_ranges(-values, width)


def _check_ranges(values, width) -> None:
    codes = codes_of("float64", width)
    encoded = codes.encode(values)
    low, high = codes.decode(encoded)
    for value, below, above in zip(values.tolist(), low.tolist(), high.tolist()):
        if math.isnan(value):
            assert math.isnan(below)
            assert math.isnan(above)
        else:
            assert below <= value
            assert value < above or value == above == math.inf
    # Ranges are in the order of their codes, and do not overlap.
    ends = sorted(set(zip(encoded.tolist(), low.tolist(), high.tolist())))
    numbers = [end for end in ends if not math.isnan(end[1])]
    assert all(first[2] <= second[1] for first, second in pairwise(numbers))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), st.integers(1, 2**62))
def test_integers_lie_in_their_range(values, width) -> None:
    codes = codes_of("int64", width)
    encoded = codes.encode(np.array(values, np.int64))
    low, high = codes.decode(encoded)
    assert all(a <= value <= b for value, a, b in zip(values, low.tolist(), high.tolist()))
    assert encoded.tolist() == [value // width for value in values]


@given(st.lists(st.lists(st.text(max_size=3), max_size=5), max_size=10))
def test_numbers_of_strings_are_given_out_again(batches) -> None:
    codes = codes_of("string")
    most = 0
    for batch in batches:
        numbers = codes.encode(batch)
        assert codes.decode(numbers).to_pylist() == batch
        assert [batch[place] for place in codes.order(numbers)] == sorted(batch, key=str.encode)
        most = max(most, len(set(batch)))
        assert len(codes) == len(set(batch))
        assert max(numbers.tolist(), default=-1) < most, "a number was free, but a new one was taken"
        codes.release(np.unique(numbers))
        assert (codes.find(batch) == -1).all()
