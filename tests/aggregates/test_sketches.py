"""Sketches: unions in any order, bytes and back, values of every type, and what happens without the package."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise import extras
from panewise.aggregates.approximate import (
    lower_approximate_distinct,
    lower_approximate_quantile,
    lower_top_count,
    lower_top_item,
)
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import Lowered
from panewise.aggregates.sketches import (
    KLL_K,
    bytes_of_sketch,
    doubles_of,
    hashed_words,
    lift,
    lift_counted,
    lift_strings,
    opened,
    ordered_words,
    require_package,
    serialised,
    union,
)
from panewise.extras import MissingPackageError

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


@settings(max_examples=examples(60), deadline=None)
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
    for kind in (Kind.QUANTILES, Kind.DISTINCT, Kind.FREQUENT):
        one, other = lift(kind, np.arange(500.0)), lift(kind, np.arange(400.0, 900.0))
        before = serialised(kind, one), serialised(kind, other)
        union(kind, [one, other])
        assert (serialised(kind, one), serialised(kind, other)) == before
        assert union(kind, [None, one]) is one
        assert serialised(kind, before[0]) is before[0]
        again = opened(kind, before[0])
        if kind is Kind.FREQUENT:
            # The places in its table may change; what it knows does not.
            assert (again.ranking.words == one.ranking.words).all()
            assert (again.ranking.counts == one.ranking.counts).all()
        else:
            assert serialised(kind, again) == before[0]
        assert 0 < bytes_of_sketch(before[0]) < 10_000
        assert 0 < bytes_of_sketch(one) < 30_000


FREQUENT_ERROR = 3.5 / 1024


def top(sketch, rank: int, *, is_float: bool = True) -> tuple[Lowered, Lowered]:
    folded = Folded(Kind.FREQUENT, [sketch], [0])
    folded.is_float = is_float
    return lower_top_item(folded, rank), lower_top_count(folded, rank)


def identity(value: float) -> object:
    return "nan" if math.isnan(value) else value + 0.0


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(doubles, max_size=60), st.data())
def test_a_few_frequent_values_are_exact_whatever_the_order_of_unions(values: list[float], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=5))
    parts = [lift(Kind.FREQUENT, part) for part in pieces(np.array(values), cuts)]
    parts = [serialised(Kind.FREQUENT, part) if data.draw(st.booleans()) else part for part in parts]
    whole = union(Kind.FREQUENT, data.draw(st.permutations(parts)))
    whole = None if whole is None else opened(Kind.FREQUENT, whole)
    counts = Counter(map(identity, values))
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0] == "nan", 0 if pair[0] == "nan" else pair[0]))
    for rank in range(1, len(ranked) + 2):
        item, count = top(whole, rank)
        if rank > len(ranked):
            assert not item.valid
            assert (count.exact, count.bounds) == (0, (0, 0))
        else:
            for found in (item.values, *item.bounds):
                assert identity(found[0]) == ranked[rank - 1][0]
            for found in (count.exact, *count.bounds):
                assert found == ranked[rank - 1][1]


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.05, 1.3, 2.0]), st.integers(1, 12))
def test_bounds_of_frequent_values_always_hold(seed: int, skew: float, parts: int) -> None:
    """Bounds hold for the given value, and for the exact answer at its rank, after any unions."""
    values = np.random.default_rng(seed).zipf(skew, 6000) % 100_000
    whole = union(Kind.FREQUENT, [lift(Kind.FREQUENT, part) for part in np.array_split(values, parts)])
    counts = Counter(values.tolist())
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    assert whole.ranking.error <= FREQUENT_ERROR * len(values)
    for rank in (1, 2, 3, 10, 60, 100):
        item, count = top(whole, rank, is_float=False)
        low, high = (int(end[0]) for end in count.bounds)
        assert high - low <= FREQUENT_ERROR * len(values)
        assert low <= (counts[ordered[rank - 1]] if rank <= len(ordered) else 0) <= high
        if item.valid[0]:
            assert count.exact[0] == high
            assert low <= counts[item.exact[0]] <= high
            if item.bounds[0] == item.bounds[1]:
                assert item.exact[0] == ordered[rank - 1]
            else:
                assert item.bounds == (-math.inf, math.inf)


def test_values_that_are_all_rare_may_be_forgotten() -> None:
    item, count = top(lift(Kind.FREQUENT, np.arange(769)), 100, is_float=False)
    assert not item.valid
    assert (count.exact, count.bounds) == (0, (0, 1))


def test_the_same_values_give_the_same_sketch() -> None:
    values = np.random.default_rng(3).zipf(1.1, 20_000) % 50_000
    words, counts = np.unique(values, return_counts=True)
    mixed = np.random.default_rng(4).permutation(len(words))
    blobs = {lift_counted(words[order], counts[order]).serialised() for order in (mixed, mixed[::-1])}
    assert blobs == {lift(Kind.FREQUENT, values).serialised()}
    parts = [lift(Kind.FREQUENT, part) for part in np.array_split(values, [100, 3000, 9000])]
    assert union(Kind.FREQUENT, parts).serialised() == union(Kind.FREQUENT, parts[::-1]).serialised()


def test_words_are_in_the_order_of_the_values() -> None:
    values = np.array([-math.inf, -1e300, -1.0, -5e-324, 0.0, 5e-324, 2.0, math.inf, math.nan])
    words = ordered_words(values)
    assert np.all(np.diff(words.astype(object)) > 0)
    assert np.array_equal(doubles_of(words), values, equal_nan=True)
    assert ordered_words(np.array([-0.0])) == ordered_words(np.array([0.0]))
    assert ordered_words(np.array([3, -(2**63)])).tolist() == [3, -(2**63)]
    strings = ["", "a", "b", "ä"]
    assert hashed_words(strings).tolist() == hashed_words(strings).tolist()
    assert len(set(hashed_words([*strings, *strings]).tolist())) == 4


def test_the_error_is_that_of_the_size() -> None:
    from datasketches import kll_doubles_sketch

    assert kll_doubles_sketch.get_normalized_rank_error(KLL_K, False) <= RANK_ERROR


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"APPROX_QUANTILE needs .*: pip install 'panewise\[sketches\]'"):
        require_package("APPROX_QUANTILE")
