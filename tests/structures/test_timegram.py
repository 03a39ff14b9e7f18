"""TimeGram: the report's example, its error corrected, and intervals that always contain the exact answer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structures.oracle import covered
from tests.thoroughness import examples

from panewise.aggregates.types import Type
from panewise.errors import HistoryError, PanewiseError, WindowError
from panewise.structures import timegram as module
from panewise.structures.timegram import Intervals, TimeGram, buckets_for
from panewise.structures.timegram_elements import BucketedElements

AGGREGATES = ["MAX", "MIN", "COUNT", "SUM", "AVG"]
REPORT_VALUES = [3, -10, -9, 5, 2, 7, -3]
REPORT_BOUNDS = [-10, -6, -2, 4, 6, 10]
DOUBLES = st.floats(-1e6, 1e6) | st.floats(allow_nan=False, allow_infinity=False, width=32)
INTEGERS = st.integers(-50, 50) | st.integers(-(2**63), 2**63 - 1)


def exact_answer(aggregate: str, values: list[Any]) -> Fraction | int | None:
    """What an interval must contain, without any rounding."""
    if aggregate == "COUNT":
        return len(values)
    if not values:
        return None
    exact = [Fraction(value) for value in values]
    return {"MAX": max(exact), "MIN": min(exact), "SUM": sum(exact), "AVG": sum(exact) / len(exact)}[aggregate]


def promised_width(timegram: TimeGram, aggregate: str, values: list[Any]) -> float:
    """How wide an interval may be: the buckets of the window's elements, and what rounding may add."""
    lows, highs = timegram.bucket_bounds
    widths = []
    for value in values:
        # A bound may belong to either of two buckets.
        mine = [float(h) - float(low) for low, h in zip(lows, highs) if low <= value <= h]
        widths.append(max(mine))
    scale = max(max(abs(float(end)) for end in (*lows, *highs)), 1e-300) * len(values)
    rounding = 2.0**-40 * scale
    if aggregate in ("MAX", "MIN"):
        return max(widths)
    return (sum(widths) + rounding) / (len(values) if aggregate == "AVG" else 1) + 1e-300


def assert_holds(timegram: TimeGram, aggregate: str, low: Any, high: Any, values: list[Any]) -> None:
    wanted = exact_answer(aggregate, values)
    if wanted is None:
        assert low is None
        assert high is None
        return
    if math.isfinite(low):
        assert Fraction(low) <= wanted
    if math.isfinite(high):
        assert wanted <= Fraction(high)
    if aggregate == "COUNT":
        assert low == high
    elif math.isfinite(low) and math.isfinite(high):
        assert float(high) - float(low) <= promised_width(timegram, aggregate, values) * (1 + 1e-9)


def pairs(intervals: Intervals) -> list[tuple[Any, Any]]:
    return list(zip(intervals.low.tolist(), intervals.high.tolist()))


def test_the_example_of_section_3_2_4() -> None:
    timegram = TimeGram(bounds=REPORT_BOUNDS, windows=[(4, 0)])
    timegram.update(REPORT_VALUES)
    # Positions from 0, so T4 is 3. The report puts T5, value 2, into the bucket of T4 by mistake.
    assert timegram.contents() == [[], [6], [4], [3], [5]]
    assert pairs(timegram.lookup([3], aggregate="MAX")) == [(6, 10)]
    assert pairs(timegram.lookup([4], aggregate="SUM")) == [(2, 18)]
    assert pairs(timegram.lookup([4, 2, 1], aggregate="COUNT")) == [(4, 4), (2, 2), (1, 1)]
    assert pairs(timegram.lookup([4], aggregate="MIN")) == [(-6, -2)]


def test_an_average_is_divided_by_the_count_in_its_own_window() -> None:
    timegram = TimeGram(bounds=REPORT_BOUNDS, windows=[(4, 0)])
    timegram.update(REPORT_VALUES)
    # Dividing by all four elements held, as the report says, would give [0, 2].
    assert pairs(timegram.lookup([2], aggregate="AVG")) == [(0, 4)]


def test_the_example_while_it_fills() -> None:
    timegram = TimeGram(bounds=REPORT_BOUNDS, windows=[(4, 0)])
    for value in REPORT_VALUES[:5]:
        timegram.update([value])
    assert timegram.contents() == [[1, 2], [], [4], [3], []]


@pytest.mark.parametrize("refine", [False, True])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_intervals_contain_the_answer_and_are_as_narrow_as_the_buckets(refine: bool, data: st.DataObject) -> None:
    is_float = data.draw(st.booleans())
    values = DOUBLES if is_float else data.draw(st.sampled_from([st.integers(-50, 50), INTEGERS]))
    buckets = data.draw(st.integers(1, 20))
    windows = data.draw(st.lists(st.tuples(st.integers(5, 90), st.integers(0, 4)), min_size=1, max_size=3))
    timegram = TimeGram(buckets, windows=windows, refine=refine, type=Type.DOUBLE if is_float else Type.BIGINT)
    elements: list[Any] = []
    for _ in range(data.draw(st.integers(1, 6))):
        batch = data.draw(st.lists(values, max_size=60))
        timegram.update(batch)
        elements += batch
        timegram.check_invariants()
        lefts = data.draw(st.lists(st.integers(1, timegram.largest), min_size=1, max_size=6))
        rights = [data.draw(st.integers(0, left)) for left in lefts]
        names = [data.draw(st.sampled_from(AGGREGATES)) for _ in lefts]
        for left, right, name, (low, high) in zip(lefts, rights, names, pairs(timegram.lookup(lefts, rights, names))):
            assert_holds(timegram, name, low, high, covered(elements, left, right))


@pytest.mark.parametrize("refine", [False, True])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_bounds_of_the_users_own_stretch_at_the_ends(refine: bool, data: st.DataObject) -> None:
    is_float = data.draw(st.booleans())
    bounds = sorted(data.draw(st.sets(st.integers(-20, 20), min_size=2, max_size=8)))
    timegram = TimeGram(bounds=bounds, windows=[(40, 0)], refine=refine, type=Type.DOUBLE if is_float else Type.BIGINT)
    elements: list[Any] = []
    for _ in range(data.draw(st.integers(1, 5))):
        batch = data.draw(st.lists(st.floats(-40, 40) if is_float else st.integers(-40, 40), max_size=50))
        timegram.update(batch)
        elements += batch
        timegram.check_invariants()
        for name in AGGREGATES:
            lefts = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
            for left, (low, high) in zip(lefts, pairs(timegram.lookup(lefts, aggregate=name))):
                assert_holds(timegram, name, low, high, covered(elements, left, 0))


@settings(max_examples=examples(50))
@given(data=st.data())
def test_windows_of_time(data: st.DataObject) -> None:
    timegram = TimeGram(
        data.draw(st.integers(1, 9)),
        windows=data.draw(st.lists(st.just((10, 0)), max_size=1)),
        time_windows=[(30, 0), (20, 5)],
        refine=data.draw(st.booleans()),
        type=Type.BIGINT,
    )
    arrived: list[tuple[int, int]] = []
    clock = 0
    for _ in range(data.draw(st.integers(1, 7))):
        batch = []
        for step, value in data.draw(st.lists(st.tuples(st.integers(0, 6), st.integers(-99, 99)), max_size=20)):
            clock += step
            batch.append((clock, value))
        timegram.update([value for _, value in batch], [time for time, _ in batch])
        timegram.check_invariants()
        arrived += batch
        if not arrived:
            continue
        now = timegram.now_us + data.draw(st.integers(0, 3))
        lefts = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=5))
        rights = [data.draw(st.integers(0, left)) for left in lefts]
        names = [data.draw(st.sampled_from(AGGREGATES)) for _ in lefts]
        got = pairs(timegram.lookup_time(lefts, rights, names, at_us=now))
        for left, right, name, (low, high) in zip(lefts, rights, names, got):
            inside = [value for time, value in arrived if now - left < time <= now - right]
            assert_holds(timegram, name, low, high, inside)


@settings(max_examples=examples(40))
@given(data=st.data())
def test_windows_come_and_go(data: st.DataObject) -> None:
    timegram = TimeGram(6, windows=[(20, 0)], refine=data.draw(st.booleans()), type=Type.BIGINT)
    elements: list[Any] = []
    for _ in range(data.draw(st.integers(2, 8))):
        match data.draw(st.sampled_from(["add", "remove", "update"])):
            case "add":
                timegram.add_window(data.draw(st.integers(1, 80)))
            case "remove" if timegram.windows:
                timegram.remove_window(*data.draw(st.sampled_from(timegram.windows)))
            case _:
                batch = data.draw(st.lists(st.integers(-30, 30), max_size=50))
                timegram.update(batch)
                elements += batch
        timegram.check_invariants()
        assert timegram.length == len(elements)
        held = timegram.length - timegram.held_from
        if held:
            left = data.draw(st.integers(1, held))
            for name, (low, high) in zip(AGGREGATES, pairs(timegram.lookup([left] * 5, aggregate=AGGREGATES))):
                assert_holds(timegram, name, low, high, covered(elements, left, 0))


@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_snapshot_goes_on_as_before(data: st.DataObject) -> None:
    is_timed, own = data.draw(st.booleans()), data.draw(st.booleans())
    timegram = TimeGram(
        None if own else 5,
        bounds=[-20, 0, 7, 20] if own else None,
        windows=[(30, 0)],
        time_windows=[(25, 0)] if is_timed else [],
        refine=data.draw(st.booleans()),
    )
    for turn in range(2):
        values = data.draw(st.lists(st.integers(-30, 30), min_size=1, max_size=60))
        times = list(range(100 * turn, 100 * turn + len(values)))
        timegram.update(values, times if is_timed else None)
    copy = TimeGram.restore(timegram.snapshot())
    for same in (timegram, copy):
        same.update([4, -4, 40], [500, 501, 502] if is_timed else None)
        same.check_invariants()
    lefts = [1, 2, 5, 30]
    for name in AGGREGATES:
        assert pairs(copy.lookup(lefts, aggregate=name)) == pairs(timegram.lookup(lefts, aggregate=name))


def test_a_value_outside_the_buckets_stretches_and_later_moves_them() -> None:
    timegram = TimeGram(10, windows=[(400, 0)])
    timegram.update(np.arange(400) % 100)
    timegram.update([50])
    timegram.update([1_000])
    lows, highs = timegram.bucket_bounds
    assert (lows[-1], highs[-1]) == (90, 1_000)
    for _ in range(110):
        timegram.update([50])
    lows, highs = timegram.bucket_bounds
    assert highs[-1] >= 1_000
    assert highs[0] - lows[0] >= 99
    # Once the outlier has left, the buckets are narrow again.
    for value in range(600):
        timegram.update([value % 100])
    lows, highs = timegram.bucket_bounds
    assert max(highs - lows) <= 12


def test_buckets_follow_a_drift_with_a_bounded_number_of_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = []
    keep = BucketedElements.set_buckets
    monkeypatch.setattr(
        BucketedElements, "set_buckets", lambda self, low, high: (layouts.append(low), keep(self, low, high))
    )
    timegram = TimeGram(16, windows=[(1_000, 0)])
    drift = np.arange(20_000) + np.random.default_rng(1).integers(-30, 30, 20_000)
    for value in drift:
        timegram.update([value])
    assert len(layouts) <= 150
    low, high = (side[0] for side in timegram.lookup([500], aggregate="MAX"))
    assert low <= drift[-500:].max() <= high
    assert high - low <= 2 * 1_060 / 16


def test_refined_intervals_are_never_wider_and_sums_nearly_exact() -> None:
    values = np.random.default_rng(2).normal(size=5_000)
    plain, refined = (TimeGram(16, windows=[(4_000, 0)], refine=refine) for refine in (False, True))
    plain.update(values)
    refined.update(values)
    widths = np.arange(1, 4_001, 37)
    for name in AGGREGATES:
        wide, narrow = plain.lookup(widths, aggregate=name), refined.lookup(widths, aggregate=name)
        assert np.all(narrow.high - narrow.low <= wide.high - wide.low + 1e-9)
    wide, narrow = plain.lookup([4_000], aggregate="SUM"), refined.lookup([4_000], aggregate="SUM")
    assert 100 * float((narrow.high - narrow.low)[0]) < float((wide.high - wide.low)[0])


def test_sums_beyond_64_bits_are_doubles_wide_enough() -> None:
    for refine in (False, True):
        timegram = TimeGram(16, windows=[(10, 0)], refine=refine)
        values = [2**62 + 1, 2**62 + 3, 2**62 - 5, 2**62]
        timegram.update(values)
        low, high = pairs(timegram.lookup([4], aggregate="SUM"))[0]
        assert Fraction(low) <= sum(values) <= Fraction(high)
        assert pairs(timegram.lookup([4], aggregate="MAX")) == [(2**62 + 3, 2**62 + 3)]


@pytest.mark.parametrize("refine", [False, True])
def test_rounding_never_pushes_the_exact_sum_out(refine: bool) -> None:
    # One value, so that the bucket has no width: 3 * 0.1 rounds to more than three times the double 0.1.
    timegram = TimeGram(3, windows=[(200, 0)], refine=refine)
    timegram.update([0.1] * 200)
    widths = list(range(1, 201))
    for name in ("SUM", "AVG"):
        for width, (low, high) in zip(widths, pairs(timegram.lookup(widths, aggregate=name))):
            wanted = exact_answer(name, [0.1] * width)
            assert wanted is not None
            assert Fraction(low) <= wanted <= Fraction(high)
            assert high - low <= 1e-10


def test_doubles_near_the_largest_do_not_break_the_interval() -> None:
    values = [1.7e308, -1.7e308, 1.6e308, 1.7e308]
    for refine in (False, True):
        timegram = TimeGram(4, windows=[(10, 0)], refine=refine)
        timegram.update(values)
        for name, (low, high) in zip(AGGREGATES, pairs(timegram.lookup([4] * 5, aggregate=AGGREGATES))):
            wanted = exact_answer(name, values)
            assert wanted is not None
            assert low == -math.inf or Fraction(low) <= wanted
            assert high == math.inf or wanted <= Fraction(high)


def test_a_batch_larger_than_a_piece_is_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).integers(-1_000, 1_000, 500)
    monkeypatch.setattr(module, "PIECE", 7)
    timegram = TimeGram(8, windows=[(100, 0)], refine=True)
    timegram.update(values)
    timegram.check_invariants()
    for left in (1, 50, 100):
        for name, (low, high) in zip(AGGREGATES, pairs(timegram.lookup([left] * 5, aggregate=AGGREGATES))):
            assert_holds(timegram, name, low, high, covered(values.tolist(), left, 0))


@settings(max_examples=examples(60))
@given(
    precision=st.floats(0.01, 1),
    aggregate=st.sampled_from(["MAX", "SUM", "AVG"]),
    low=st.integers(1, 500),
    span=st.integers(1, 500),
    seed=st.integers(0, 99),
)
def test_buckets_for_a_wanted_precision(precision: float, aggregate: str, low: int, span: int, seed: int) -> None:
    values = np.random.default_rng(seed).uniform(low, low + span, 300)
    buckets = buckets_for(precision, aggregate, low, low + span, magnitude=low)
    timegram = TimeGram(buckets, windows=[(300, 0)])
    timegram.update([float(low), float(low + span)])
    timegram.update(values)
    for left in (1, 10, 300):
        least, most = pairs(timegram.lookup([left], aggregate=aggregate))[0]
        wanted = float(exact_answer(aggregate, values[-left:].tolist()) or 0)
        assert most - least <= precision * abs(wanted) * (1 + 1e-9)


def test_buckets_for_says_what_it_cannot_do() -> None:
    assert buckets_for(0.1, "COUNT", 0, 100) == 1
    assert buckets_for(0.5, "MAX", 0, 100) < buckets_for(0.05, "MAX", 0, 100)
    with pytest.raises(PanewiseError, match="AVG may be near 0"):
        buckets_for(0.1, "AVG", -5, 5)
    with pytest.raises(PanewiseError, match="exact structure"):
        buckets_for(1e-9, "MAX", 0, 100)
    with pytest.raises(PanewiseError, match="above 0"):
        buckets_for(0, "MAX", 0, 100)
    with pytest.raises(PanewiseError, match="does not answer MEDIAN"):
        buckets_for(0.1, "MEDIAN", 0, 100)


def test_nothing_yet() -> None:
    timegram = TimeGram(4, windows=[(5, 0)], time_windows=[(5, 0)])
    assert pairs(timegram.lookup([3, 3], aggregate=["COUNT", "SUM"])) == [(0, 0), (None, None)]
    assert pairs(timegram.lookup_time([3], aggregate="MIN")) == [(None, None)]
    timegram.update([], [])
    assert timegram.length == 0


def test_bad_input_is_refused() -> None:
    timegram = TimeGram(4, windows=[(5, 0)])
    with pytest.raises(PanewiseError, match="finite values only"):
        timegram.update([1.0, math.nan])
    with pytest.raises(PanewiseError, match="finite values only"):
        timegram.update([math.inf])
    with pytest.raises(PanewiseError, match="no NULLs"):
        timegram.update(np.ma.MaskedArray([1, 2], [False, True]))
    with pytest.raises(PanewiseError, match="no windows of time"):
        timegram.update([1], [1])
    with pytest.raises(WindowError, match="no times"):
        timegram.lookup_time([1])
    timegram.update(np.arange(9))
    with pytest.raises(HistoryError, match="held from position 4"):
        timegram.lookup([6])
    with pytest.raises(WindowError, match="left > right"):
        timegram.lookup([2], [3])
    with pytest.raises(PanewiseError, match="does not answer MEDIAN"):
        timegram.lookup([2], aggregate="MEDIAN")
    with pytest.raises(PanewiseError, match="2 aggregates and 3 windows"):
        timegram.lookup([1, 2, 3], aggregate=["MAX", "MIN"])
    with pytest.raises(PanewiseError, match="not both"):
        TimeGram(4, bounds=[1, 2])
    with pytest.raises(PanewiseError, match="must rise"):
        TimeGram(bounds=[1, 1])
    with pytest.raises(PanewiseError, match="from 1 to"):
        TimeGram(0)
    with pytest.raises(PanewiseError, match="must be whole"):
        TimeGram(bounds=[0.5, 1.5], type=Type.BIGINT)
    timed = TimeGram(4, time_windows=[(10, 0)])
    timed.update([1, 2], [5, 6])
    with pytest.raises(PanewiseError, match="backwards"):
        timed.update([3], [5])
    with pytest.raises(PanewiseError, match="1 times and 2 values"):
        timed.update([3, 4], [7])
    timed.update([5], [100])
    timed.add_time_window(200)
    with pytest.raises(HistoryError, match="up to time 6 have left"):
        timed.lookup_time([200])


def test_its_data_sheet_says_that_it_is_not_exact() -> None:
    assert not TimeGram.sheet.is_exact
    assert TimeGram.sheet.why_not("AVG") is None
    assert TimeGram.sheet.why_not("MEDIAN") is not None
