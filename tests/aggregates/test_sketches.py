"""Sketches: unions in any order, bytes and back, values of every type, and what happens without the package."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.aggregates import sketches
from weft.aggregates.approximate import lower_approximate_distinct, lower_approximate_quantile
from weft.aggregates.components import Kind
from weft.aggregates.lowering import Lowered
from weft.aggregates.sketches import (
    KLL_K,
    MissingPackageError,
    bytes_of_sketch,
    lift,
    lift_strings,
    opened,
    require_package,
    serialised,
    union,
)

RANK_ERROR = 0.0133
"""What `KLL_K` promises."""
RELATIVE_ERROR = 1.04 / math.sqrt(4096)
"""One standard error of 4,096 registers."""


class Folded:
    """Sketches and counts as a lowering reads them."""

    is_float = True

    def __init__(self, kind: Kind, of: list, counts: list[int]) -> None:
        self.kind, self.of, self.counts = kind, of, counts

    def ints(self, kind: Kind) -> tuple[np.ndarray]:
        assert kind is Kind.COUNT
        return (np.array(self.counts),)

    def sketches(self, kind: Kind) -> np.ndarray:
        assert kind is self.kind
        return np.fromiter(self.of, np.object_, len(self.of))


def quantile(sketch, count: int, phi: float) -> Lowered:
    return lower_approximate_quantile(Folded(Kind.QUANTILES, [sketch], [count]), phi)


def distinct(sketch) -> Lowered:
    return lower_approximate_distinct(Folded(Kind.DISTINCT, [sketch], [0]), None)


def plain_quantile(values: list[float], phi: float) -> float:
    ordered = sorted(values, key=lambda value: (math.isnan(value), value))
    return ordered[max(1, math.floor(phi * len(values) + 1e-9)) - 1]


def pieces(values: np.ndarray, cuts: list[int]) -> list[np.ndarray]:
    return np.split(values, sorted(cuts))


doubles = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0, math.nan])


@settings(max_examples=60, deadline=None)
@given(st.lists(doubles, min_size=1, max_size=60), st.data())
def test_a_few_values_are_exact_whatever_the_order_of_unions(values: list[float], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=5))
    phi = data.draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
    for kind in (Kind.QUANTILES, Kind.DISTINCT):
        parts = [lift(kind, part) for part in pieces(np.array(values), cuts)]
        parts = [serialised(kind, part) if data.draw(st.booleans()) else part for part in parts]
        parts = data.draw(st.permutations(parts))
        middle = data.draw(st.integers(0, len(parts)))
        whole = union(kind, [union(kind, parts[:middle]), union(kind, parts[middle:])])
        if kind is Kind.QUANTILES:
            answer = quantile(whole, len(values), phi)
            wanted = plain_quantile(values, phi)
        else:
            answer = distinct(whole)
            wanted = len({"nan" if math.isnan(value) else value for value in values})
        assert answer.bounds is not None
        for found in (answer.values, *answer.bounds):
            assert found[0] == wanted or (math.isnan(found[0]) and math.isnan(wanted))


def test_many_values_are_within_the_error_stated() -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=40_000)
    parts = [lift(Kind.QUANTILES, part) for part in np.split(values, 80)]
    for whole in (union(Kind.QUANTILES, parts), lift(Kind.QUANTILES, values)):
        assert whole.n == len(values)
        for phi in (0.01, 0.3, 0.5, 0.99):
            answer = quantile(whole, len(values), phi)
            rank = np.count_nonzero(values <= answer.values[0]) / len(values)
            assert abs(rank - phi) <= 3 * RANK_ERROR
            low, high = answer.bounds
            ranks = [np.count_nonzero(values <= end[0]) / len(values) for end in (low, high)]
            assert ranks[0] <= rank <= ranks[1]
            assert ranks[1] - ranks[0] <= 6 * RANK_ERROR
        assert quantile(whole, len(values), 0.0).values == values.min()
        assert quantile(whole, len(values), 1.0).values == values.max()
        assert quantile(whole, len(values), 1.0).bounds == (values.max(), values.max())


def test_many_different_values_are_within_the_error_stated() -> None:
    values = np.random.default_rng(6).integers(0, 2**62, 30_000)
    parts = [lift(Kind.DISTINCT, part) for part in np.split(values, 30)]
    for is_last in (False, True):
        answer = distinct(union(Kind.DISTINCT, [*parts, *parts], is_last=is_last))
        count = len(np.unique(values))
        assert abs(answer.values[0] - count) <= 6 * RELATIVE_ERROR * count
        assert answer.exact == answer.values
        low, high = answer.bounds
        assert low[0] < answer.values[0] < high[0]
        assert high[0] - low[0] <= 6 * RELATIVE_ERROR * count


def test_nan_is_above_all_numbers() -> None:
    sketch = lift(Kind.QUANTILES, np.array([1.0, math.nan, 2.0, math.nan]))
    assert quantile(sketch, 4, 0.5).values == 2.0
    assert np.isnan(quantile(sketch, 4, 0.75).values)
    assert np.isnan(quantile(lift(Kind.QUANTILES, np.array([math.nan])), 1, 0.5).values)


def test_no_value() -> None:
    assert lift(Kind.QUANTILES, np.empty(0)) is None
    assert lift_strings([]) is None
    assert union(Kind.DISTINCT, [None, None]) is None
    assert serialised(Kind.QUANTILES, None) is None
    assert not quantile(None, 0, 0.5).valid
    assert distinct(None).exact == 0
    assert distinct(None).valid


def test_strings_are_told_apart_the_empty_one_too() -> None:
    strings = ["", "a", "A", "a\0b", "\0", "äöü", " ", "a"]
    assert distinct(lift_strings(strings)).exact == 7
    assert distinct(union(Kind.DISTINCT, [lift_strings(["", "x"]), lift_strings(["", "y"])])).exact == 3


def test_equal_numbers_count_once() -> None:
    payload = np.array([0x7FF8000000000001], np.int64).view(np.float64)[0]
    assert distinct(lift(Kind.DISTINCT, np.array([0.0, -0.0, math.nan, payload, -math.nan, 1.0]))).exact == 3
    assert distinct(lift(Kind.DISTINCT, np.array([2**53, 2**53 + 1, -(2**63)]))).exact == 3


def test_a_union_leaves_its_parts_alone() -> None:
    for kind in (Kind.QUANTILES, Kind.DISTINCT):
        one, other = lift(kind, np.arange(500.0)), lift(kind, np.arange(400.0, 900.0))
        before = serialised(kind, one), serialised(kind, other)
        union(kind, [one, other])
        assert (serialised(kind, one), serialised(kind, other)) == before
        assert union(kind, [None, one]) is one
        assert serialised(kind, before[0]) is before[0]
        assert serialised(kind, opened(kind, before[0])) == before[0]
        assert 0 < bytes_of_sketch(before[0]) < 10_000
        assert 0 < bytes_of_sketch(one) < 10_000


def test_the_error_is_that_of_the_size() -> None:
    from datasketches import kll_doubles_sketch

    assert kll_doubles_sketch.get_normalized_rank_error(KLL_K, False) <= RANK_ERROR


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"APPROX_QUANTILE needs .*: pip install 'weft\[sketches\]'"):
        require_package("APPROX_QUANTILE")
