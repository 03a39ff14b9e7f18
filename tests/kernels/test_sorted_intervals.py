"""Sorted runs: keys keep the order of their values, and selecting and counting agree with a plain sort."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.kernels.sorted_intervals import (
    FEW,
    MOST_RUNS,
    NULL_KEY,
    append_runs,
    bits_of_keys,
    count_distinct_keys,
    find_wrong_run,
    first_above,
    first_not_below,
    keys_of_doubles,
    merge_halves,
    middle_place,
    select_keys,
    select_of_runs,
)

SMALLEST, LARGEST = -(2**63), 2**63 - 1
keys = st.one_of(st.integers(-3, 3), st.sampled_from([SMALLEST, LARGEST]), st.integers(SMALLEST, LARGEST))
doubles = st.one_of(
    st.sampled_from([math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324]), st.floats()
)


def keys_of(values: list[float]) -> list[int]:
    return keys_of_doubles(np.array(values, np.float64).view(np.int64)).tolist()


@given(doubles, doubles)
def test_keys_of_doubles_are_in_the_order_of_the_doubles_with_nan_above_all(a: float, b: float) -> None:
    first, second = keys_of([a, b])
    assert (first < second) == (a < b or (math.isnan(b) and not math.isnan(a)))
    assert (first == second) == (a == b or (math.isnan(a) and math.isnan(b)))
    assert max(first, second) < NULL_KEY


@given(st.lists(doubles))
def test_doubles_come_back_from_their_keys(values: list[float]) -> None:
    back = bits_of_keys(np.array(keys_of(values), np.int64)).view(np.float64).tolist()
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(values, back, strict=True))


@given(st.integers(0, 5).flatmap(lambda level: st.lists(keys, min_size=2 << level, max_size=2 << level)))
def test_merged_halves_are_in_order(values: list[int]) -> None:
    half = len(values) // 2
    array = np.array(sorted(values[half:]) + sorted(values[:half]) + [0] * len(values), np.int64)
    merge_halves(array, half, 0, 2 * half, half)
    assert array[2 * half :].tolist() == sorted(values)


@given(st.lists(keys), keys)
def test_bounds_of_a_pivot_are_those_of_bisect(values: list[int], pivot: int) -> None:
    run = sorted(values)
    array = np.array([SMALLEST, *run, LARGEST], np.int64)
    assert first_not_below(array, 1, 1 + len(run), pivot) == 1 + bisect_left(run, pivot)
    assert first_above(array, 1, 1 + len(run), pivot) == 1 + bisect_right(run, pivot)


@st.composite
def sorted_runs(draw: st.DrawFn) -> list[list[int]]:
    """Runs of any lengths: of the same values, of few values, or each run above the one before."""
    seed, trend = draw(st.integers(0, 2**32)), draw(st.sampled_from([0, 10, 1000]))
    spread = draw(st.sampled_from([1, 10, 10**15]))
    lengths = draw(st.lists(st.integers(1, 200), min_size=1, max_size=20))
    random = np.random.default_rng(seed)
    return [sorted((random.integers(0, spread, n) + trend * i).tolist()) for i, n in enumerate(lengths)]


def laid_out(runs: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The runs end to end, and where each begins and ends."""
    ends = np.zeros(MOST_RUNS, np.int64)
    ends[: len(runs)] = np.cumsum([len(run) for run in runs])
    begins = ends.copy()
    begins[: len(runs)] -= [len(run) for run in runs]
    return np.array([key for run in runs for key in run], np.int64), begins, ends


@given(sorted_runs(), st.data())
def test_selecting_among_runs_agrees_with_sorting_them(runs: list[list[int]], data: st.DataObject) -> None:
    everything = sorted(key for run in runs for key in run)
    rank = data.draw(st.integers(0, len(everything) - 1))
    array, begins, ends = laid_out(runs)
    below, above, few = np.empty(MOST_RUNS, np.int64), np.empty(MOST_RUNS, np.int64), np.empty(FEW, np.int64)
    found = select_of_runs(array, begins, ends, len(runs), len(everything), rank, below, above, few)
    assert found == everything[rank]


@given(sorted_runs())
def test_the_median_of_middles_has_a_quarter_on_either_side(runs: list[list[int]]) -> None:
    array, begins, ends = laid_out(runs)
    order = np.empty(MOST_RUNS, np.int64)
    pivot = array[middle_place(array, begins, ends, len(runs), len(array), order)]
    assert 4 * np.sum(array <= pivot) >= len(array)
    assert 4 * np.sum(array >= pivot) >= len(array)


@given(
    log_size=st.integers(0, 6),
    first=st.integers(0, 200),
    offset=st.integers(0, 9),
    batches=st.lists(st.lists(st.tuples(keys, st.booleans()), max_size=150), min_size=1, max_size=4),
    data=st.data(),
)
def test_appended_runs_select_and_count_as_a_plain_sort(
    log_size: int, first: int, offset: int, batches: list[list[tuple[int, bool]]], data: st.DataObject
) -> None:
    largest = 1 << log_size
    size = offset + largest
    levels, validity = np.full(size * (log_size + 1), 12345, np.int64), np.zeros(size, np.bool_)
    pool = size, np.array([offset]), np.array([log_size], np.int8)
    everything: list[tuple[int, bool]] = []
    for batch in batches:
        taken = np.array([key for key, _ in batch], np.int64), np.array([valid for _, valid in batch], np.bool_)
        begin = first + len(everything)
        after = max(first, begin + len(batch) - largest)
        of_key = np.array([0]), np.array([0, len(batch)]), np.array([begin]), np.array([after])
        append_runs(levels, validity, *pool, *of_key, *taken)
        everything += batch
    end = first + len(everything)
    oldest = max(first, end - largest)
    if end > oldest:
        assert find_wrong_run(levels, validity, *pool, np.array([0]), np.array([oldest]), np.array([end])) == -1
    low = data.draw(st.integers(oldest, end))
    high = data.draw(st.integers(low, end))
    held = sorted(key for key, valid in everything[low - first : high - first] if valid)
    rank = data.draw(st.integers(min(1, len(held)), len(held)))
    ranges = np.array([low], np.int64), np.array([high], np.int64)
    for of_lookup in (None, np.array([0])):
        selected = select_keys(levels, *pool, of_lookup, *ranges, np.array([rank], np.int64))
        assert selected.tolist() == [held[rank - 1] if rank else 0]
        assert count_distinct_keys(levels, validity, *pool, of_lookup, *ranges).tolist() == [len(set(held))]
