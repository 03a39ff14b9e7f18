"""CI-COUNT and CI-SUM: the paper's figure, what p levels guarantee, values that stand for many positions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import SubstreamError
from panewise.substreams import build, error_of, levels_for

# Figure 8 of Sharing: the position of the first event shown, and the times.
FIGURE_8 = {
    0: (44, [76, 80, 82, 86, 90, 93, 94, 96, 98, 100, 101, 103, 104, 105, 106]),
    1: (29, [66, 71, 73, 82, 85, 87, 92, 93, 96, 97, 98, 100, 102, 103, 105]),
    2: (15, [47, 50, 53, 60, 68, 73, 76, 80, 81, 85, 91, 94, 97, 100, 102]),
}


@pytest.fixture(params=["collective_count", "collective_sum"])
def figure_8(request):
    """The three substreams of the figure; the events before those shown are older than all of them."""
    events = [(0, key) for key, (first, _) in FIGURE_8.items() for _ in range(first - 1)]
    events += sorted((time, key) for key, (_, times) in FIGURE_8.items() for time in times)
    index = build(request.param, 1000, levels_per_size=1)
    index.update([key for _, key in events], [1] * len(events), [time for time, _ in events])
    index.check_invariants()
    return index


def test_figure_8_times(figure_8) -> None:
    assert [int(figure_8.level_times(key)[2]) for key in FIGURE_8] == [98, 100, 85]
    # Positions 58, 56 and 48 of k1: the multiples of 1, 2 and 8 in their levels.
    assert figure_8.level_times(0)[[0, 1, 3]].tolist() == [106, 104, 90]


def test_figure_8_lookup(figure_8) -> None:
    near = figure_8.lookup(106, 20, ">=", 11, exact=False)
    assert sorted(near.of(0).tolist()) == [0, 1]
    assert figure_8.lookup(106, 20, ">=", 11).of(0).tolist() == [0]
    # k1 has exactly 11, so "more than 11" is another question.
    assert figure_8.lookup(106, 20, ">", 11).of(0).tolist() == []


def test_figure_8_downwards(figure_8) -> None:
    counts = {key: sum(86 < time <= 106 for time in times) for key, (_, times) in FIGURE_8.items()}
    for bound in range(15):
        expected = sorted(key for key, count in counts.items() if count <= bound)
        assert sorted(figure_8.lookup(106, 20, "<=", bound).of(0).tolist()) == expected


def test_errors_of_the_paper() -> None:
    assert error_of(1) == 3 / 4
    assert error_of(2) == 1 / 2
    assert all(abs(error_of(p) - 2 / p) < 5 / p**2 for p in range(3, 100))


@given(st.floats(0.01, 1))
def test_levels_for_an_error_are_the_fewest(error) -> None:
    p = levels_for(error)
    assert error_of(p) <= error
    assert p == 1 or error_of(p - 1) > error


@given(p=st.integers(1, 70), v=st.integers(1, 10**12))
def test_the_error_holds_for_every_threshold(p, v) -> None:
    """Levels by their ends, from the definition, without the kernel's formulas."""
    begin, level, levels = 1, 0, []
    while begin <= v + 1:
        end = begin + 2 ** (level // p)
        levels.append((begin, end))
        begin, level = end, level + 1
    usable = [(begin, end) for begin, end in levels if end - 1 <= v]
    assert usable[-1][0] >= v * (1 - error_of(p)) - 1e-9 * v
    following = next(index for index, (begin, _) in enumerate([*levels, (begin, 0)]) if begin > v)
    end = begin + 2 ** (following // p) if following == len(levels) else levels[following][1]
    assert end - 2 <= v / (1 - error_of(p)) + 1e-9 * v


@pytest.mark.parametrize("p", [1, 2, 5])
def test_the_error_is_reached(p) -> None:
    """Some threshold gets an answer as bad as the error allows, except for rounding: the bound is tight."""
    index = build("collective_count", 10**9, levels_per_size=p)
    index.update([0] * 600, None, range(1, 601))
    counts, thresholds = (column.ravel() for column in np.meshgrid(np.arange(1, 100), np.arange(1, 400)))
    worst = 0.0
    for now in range(601, 665):
        index.update([0], None, [now])
        near = index.lookup(now, counts, ">=", thresholds, exact=False)
        is_given = np.diff(near.offsets) > 0
        worst = max(worst, float((1 - counts / thresholds)[is_given].max()))
    assert error_of(p) - 0.02 < worst <= error_of(p)


@pytest.mark.parametrize("p", [1, 4])
def test_a_large_value_is_one_insertion(p) -> None:
    index = build("collective_sum", 1000, levels_per_size=p)
    index.update([0, 1, 0], [10**15, 7, 10**15], [1, 2, 3])
    index.check_invariants()
    assert len(index.level_times(0)) <= p * (2 + math.log2(2 * 10**15))
    assert index.lookup(3, 1000, ">=", 2 * 10**15).of(0).tolist() == [0]
    assert index.lookup(3, 1000, ">", 2 * 10**15).of(0).tolist() == []
    assert index.lookup(3, 2, ">=", 10**15).of(0).tolist() == [0]
    assert index.lookup(3, 2, ">", 10**15).of(0).tolist() == []


def test_sums_of_a_long_stream_do_not_overflow() -> None:
    """Values add up to far more than 2**63 over time; the sum of a window is always right."""
    index = build("collective_sum", 10, levels_per_size=2)
    value = 2**57
    for now in range(0, 2000, 10):
        index.update([0] * 10, [value - 1] * 5 + [value] * 5, range(now, now + 10))
        index.check_invariants()
        exact = 10 * value - 5
        at = now + 9
        assert index.lookup(at, 10, [">=", ">", "<=", "<"], exact).offsets.tolist() == [0, 1, 1, 2, 2]


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    index = build("collective_sum", 10)
    with pytest.raises(SubstreamError, match=r"row 2: the sum of key 3 .* larger units"):
        index.update([3] * 3, [2**60 - 1, 2, 2**60], [1, 2, 3])
    index.check_invariants()
    assert index.lookup(3, 10, ">", 2**60).of(0).tolist() == [3]
    assert index.lookup(3, 10, ">", 2**60 + 1).of(0).tolist() == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([5, 0], r"above zero, got 0 in row 1; use scan_substreams"),
        ([-2], "above zero, got -2"),
        ([1.5], "takes integers, got float64; count in a smaller unit"),
        (["a"], "takes integers"),
        (None, "needs the values"),
    ],
)
def test_values_that_cannot_be_summed(values, message) -> None:
    index = build("collective_sum", 10)
    with pytest.raises(SubstreamError, match=message):
        index.update([0] * len(values or [1]), values, range(len(values or [1])))
    assert index.live_keys == 0


def test_the_least_threshold_saves_levels() -> None:
    rng = np.random.default_rng(1)
    keys, values, times = rng.integers(0, 50, 5000), rng.integers(1, 100, 5000), np.arange(5000)
    whole = build("collective_sum", 10**6, levels_per_size=8)
    part = build("collective_sum", 10**6, levels_per_size=8, least_threshold=1000)
    for index in (whole, part):
        index.update(keys, values, times)
    assert part.index_nbytes < whole.index_nbytes / 2
    for bound in (1, 10, 999, 1000, 5000):
        for comparison in (">=", "<="):
            assert sorted(part.lookup(4999, 900, comparison, bound).of(0)) == sorted(
                whole.lookup(4999, 900, comparison, bound).of(0)
            )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": 0.1, "levels_per_size": 4}, "not both"),
        ({"error": 0}, "above 0"),
        ({"levels_per_size": 0}, "1 to 1024"),
        ({"error": 0.0001}, "1 to 1024"),
        ({"least_threshold": 0}, "at least 1"),
    ],
)
def test_options_that_make_no_sense(options, message) -> None:
    with pytest.raises(SubstreamError, match=message):
        build("collective_count", 10, **options)
