"""OrderedSharing: the report's figures, its two errors corrected, and exactness in any order of calls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structures.oracle import answer, covered
from tests.thoroughness import examples

from panewise.aggregates.types import Type
from panewise.errors import HistoryError, PanewiseError, WindowError
from panewise.structures import ordered_sharing as module
from panewise.structures.ordered_sharing import OrderedSharing

VALUES = st.integers(-6, 6) | st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.sampled_from([-1.5, 0.0, 2.5, math.inf, -math.inf, math.nan]) | st.floats()
WINDOWS_A_TO_F = {"A": 1, "B": 3, "C": 5, "D": 7, "E": 9, "F": 12}
FIGURE_8 = [50, 1, 1, 30, 1, 20, 1, 15, 1, 10, 1, 5]
"""Values after which windows A to F have the answers 5, 10, 15, 20, 30 and 50."""


def same(a: Any, b: Any) -> bool:
    return a == b or (a is not None and b is not None and a != a and b != b)


def figure_8() -> OrderedSharing:
    sharing = OrderedSharing("MAX", WINDOWS_A_TO_F.values())
    sharing.update(FIGURE_8)
    assert sharing.lookup([12]).tolist() == [50]
    assert sharing.recalculations == 1
    return sharing


def test_figure_8_one_recalculation_answers_all_smaller_windows() -> None:
    sharing = figure_8()
    assert sharing.lookup(list(WINDOWS_A_TO_F.values())).tolist() == [5, 10, 15, 20, 30, 50]
    assert [answer for _, answer, _ in sharing.runs()] == [5, 10, 15, 20, 30, 50]
    assert sharing.recalculations == 1


def test_figure_7_an_insert_of_30_answers_e_and_all_smaller_windows() -> None:
    sharing = figure_8()
    sharing.update([30])
    # The 50 leaves F with the same step, but the answers of A to E are one run held by the new element.
    assert sharing.runs()[0] == (WINDOWS_A_TO_F["E"], 30, 12)
    assert sharing.lookup([1, 3, 5, 7, 9]).tolist() == [30] * 5
    assert sharing.recalculations == 1
    assert sharing.lookup([12]).tolist() == [30]
    assert sharing.recalculations == 2


def test_figure_8_a_window_between_e_and_f() -> None:
    # F's element lies in a window of 12 only, so E' of 11 is recalculated.
    sharing = figure_8()
    assert sharing.lookup([11]).tolist() == [30]
    assert sharing.recalculations == 2
    # With F's element nearer, E' has F's answer without recalculation.
    sharing = OrderedSharing("MAX", WINDOWS_A_TO_F.values())
    sharing.update([2, 2, 50, *FIGURE_8[3:]])
    assert sharing.lookup([12]).tolist() == [50]
    assert sharing.lookup([10, 11]).tolist() == [50, 50]
    assert sharing.recalculations == 1


def test_an_answer_is_valid_by_the_time_of_its_element_not_of_its_calculation() -> None:
    sharing = OrderedSharing("MAX", [4])
    sharing.update([9, 1, 1, 1])
    assert sharing.lookup([4]).tolist() == [9]
    sharing.update([1])
    # currentTime - ts < size with ts = 4, the time of the calculation, would still say 9.
    assert sharing.lookup([4]).tolist() == [1]
    assert sharing.recalculations == 2


def test_windows_may_have_equal_answers() -> None:
    # Property (2) is <=: both windows have the same answer, in one run.
    sharing = OrderedSharing("MAX", [2, 3])
    sharing.update([1, 7, 2])
    assert sharing.lookup([3, 2]).tolist() == [7, 7]
    assert sharing.runs() == [(3, 7, 1)]


def test_the_order_is_mended_when_an_invalid_window_is_passed() -> None:
    # Section 6.3.2.1: E is invalid when 35 arrives, so D takes it; E must not keep a smaller answer.
    sharing = OrderedSharing("MAX", [2, 4])
    sharing.update([30, 1, 1, 20])
    assert sharing.lookup([4, 2]).tolist() == [30, 20]
    sharing.update([1, 25])
    sharing.check_invariants()
    assert sharing.lookup([2]).tolist() == [25]
    assert sharing.lookup([4]).tolist() == [25]
    sharing.check_invariants()


@pytest.mark.parametrize("aggregate", ["MAX", "MIN"])
@settings(max_examples=examples(100))
@given(data=st.data())
def test_any_interleaving_agrees_with_the_oracle(aggregate: str, data: st.DataObject) -> None:
    is_float = data.draw(st.booleans())
    values = DOUBLES if is_float else data.draw(st.sampled_from([st.integers(-6, 6), VALUES]))
    sizes = data.draw(st.lists(st.integers(1, 90), min_size=1, max_size=8))
    sharing = OrderedSharing(aggregate, sizes, type=Type.DOUBLE if is_float else Type.BIGINT)
    elements: list[Any] = []
    for _ in range(data.draw(st.integers(1, 6))):
        batch = data.draw(st.lists(values, max_size=70))
        count = data.draw(st.integers(0, 12))
        after = sorted(data.draw(st.lists(st.integers(0, len(batch)), min_size=count, max_size=count)))
        widths = [data.draw(st.sampled_from(sizes) | st.integers(1, max(sizes))) for _ in after]
        got = sharing.replay(batch, after, widths).tolist()
        sharing.check_invariants()
        for place, width, found in zip(after, widths, got):
            assert same(found, answer(aggregate, covered(elements + batch[:place], width, 0)))
        elements += batch
        for size, found in zip(sizes, sharing.lookup(sizes).tolist()):
            assert same(found, answer(aggregate, covered(elements, size, 0)))


@settings(max_examples=examples(80))
@given(data=st.data())
def test_windows_of_time(data: st.DataObject) -> None:
    aggregate = data.draw(st.sampled_from(["MAX", "MIN"]))
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=6))
    sharing = OrderedSharing(aggregate, sizes, timed=True, type=Type.BIGINT)
    arrived: list[tuple[int, int]] = []
    clock = data.draw(st.integers(-1_000, 1_000))

    def wanted(events: list[tuple[int, int]], now: int, width: int) -> Any:
        return answer(aggregate, [value for time, value in events if now - width < time <= now])

    for _ in range(data.draw(st.integers(1, 6))):
        batch: list[tuple[int, int]] = []
        for step, value in data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(-6, 6)), max_size=40)):
            clock += step
            batch.append((clock, value))
        after = sorted(data.draw(st.lists(st.integers(1, max(1, len(batch))), max_size=8))) if batch else []
        widths = [data.draw(st.integers(1, max(sizes))) for _ in after]
        got = sharing.replay([v for _, v in batch], after, widths, [t for t, _ in batch]).tolist()
        sharing.check_invariants()
        for place, width, found in zip(after, widths, got):
            now = batch[place - 1][0]
            assert found == wanted(arrived + batch[:place], now, width)
        arrived += batch
        if arrived:
            clock += data.draw(st.integers(0, 30))
            for size, found in zip(sizes, sharing.lookup(sizes, at_us=clock).tolist()):
                assert found == wanted(arrived, clock, size)


@settings(max_examples=examples(80))
@given(data=st.data())
def test_windows_come_and_go(data: st.DataObject) -> None:
    is_timed = data.draw(st.booleans())
    sharing = OrderedSharing("MAX", timed=is_timed)
    elements: list[Any] = []
    sizes: list[int] = []
    for _ in range(data.draw(st.integers(3, 14))):
        match data.draw(st.sampled_from(["add", "add", "remove", "update", "update", "lookup"])):
            case "add":
                sizes.append(data.draw(st.integers(1, 40)))
                sharing.add_window(sizes[-1])
            case "remove" if sizes:
                sizes.remove(gone := data.draw(st.sampled_from(sizes)))
                sharing.remove_window(gone)
            case "update":
                batch = data.draw(st.lists(st.integers(-9, 9), max_size=30))
                times = list(range(len(elements), len(elements) + len(batch)))
                sharing.update(batch, times if is_timed else None)
                elements += batch
        sharing.check_invariants()
        assert sharing.windows == sorted(sizes)
        held = sharing.length - sharing.held_from
        for size in sizes:
            if size <= held or len(elements) == held:
                assert sharing.lookup([size]).tolist() == [answer("MAX", covered(elements, size, 0))]


@settings(max_examples=examples(30))
@given(values=st.lists(st.integers(-9, 9), min_size=1, max_size=80), is_timed=st.booleans())
def test_a_snapshot_goes_on_as_before(values: list[int], is_timed: bool) -> None:
    sharing = OrderedSharing("MIN", [3, 8, 20], timed=is_timed)
    times = np.arange(len(values) + 4)
    sharing.update(values, times[:-4] if is_timed else None)
    sharing.lookup([8])
    copy = OrderedSharing.restore(sharing.snapshot())
    assert copy.runs() == sharing.runs()
    for one in (sharing, copy):
        one.update([3, 1, 4, 1], times[-4:] if is_timed else None)
        one.check_invariants()
    assert copy.lookup([3, 8, 20, 5]).tolist() == sharing.lookup([3, 8, 20, 5]).tolist()
    assert copy.recalculations == sharing.recalculations


def test_rising_values_never_need_recalculation_and_falling_ones_share_it() -> None:
    sizes = list(range(1, 101))
    rising = OrderedSharing("MAX", sizes)
    rising.update([0])
    rising.lookup(sizes)
    assert rising.recalculations == 1
    for value in range(1, 300):
        rising.update([value])
        assert rising.lookup(sizes).tolist() == [value] * 100
    assert rising.recalculations == 1
    falling = OrderedSharing("MAX", sizes)
    falling.update(np.arange(300, 0, -1))
    assert falling.lookup(sizes).tolist() == sizes
    assert falling.recalculations == 1


def test_recalculation_passes_over_blocks() -> None:
    sharing = OrderedSharing("MAX", [100_000])
    sharing.update(np.random.default_rng(1).normal(size=100_000))
    sharing.lookup([100_000])
    assert sharing.recalculations == 1
    assert sharing.elements_read < 6_000


def test_pieces_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).integers(0, 1_000, 700).tolist()
    monkeypatch.setattr(module, "PIECE", 5)
    sharing = OrderedSharing("MAX", [3, 10])
    after = list(range(0, 701, 3))
    widths = [1 + place % 10 for place in after]
    got = sharing.replay(values, after, widths).tolist()
    assert got == [answer("MAX", covered(values[:place], width, 0)) for place, width in zip(after, widths)]


def test_bad_input_is_refused() -> None:
    with pytest.raises(PanewiseError, match="MAX and MIN"):
        OrderedSharing("SUM", [3])
    with pytest.raises(WindowError, match="above 0"):
        OrderedSharing("MAX", [0])
    sharing = OrderedSharing("MAX", [5])
    assert sharing.lookup([3]).tolist() == [None]
    with pytest.raises(PanewiseError, match="no NULLs"):
        sharing.update(np.ma.MaskedArray([1, 2], [False, True]))
    with pytest.raises(PanewiseError, match="give no times"):
        sharing.update([1], [1])
    sharing.update(np.arange(9))
    with pytest.raises(HistoryError, match="have left"):
        sharing.lookup([6])
    with pytest.raises(WindowError, match="was not added"):
        sharing.remove_window(4)
    with pytest.raises(PanewiseError, match="must never fall"):
        sharing.replay([1, 2], [2, 1], [3, 3])
    with pytest.raises(PanewiseError, match="a place for each"):
        sharing.replay([1, 2], [2], [3, 3])
    with pytest.raises(PanewiseError, match="give no time"):
        sharing.lookup([3], at_us=4)
    timed = OrderedSharing("MAX", [10], timed=True)
    timed.update([1, 2], [5, 6])
    with pytest.raises(PanewiseError, match="backwards"):
        timed.update([3], [5])
    with pytest.raises(HistoryError, match="clock stands at 6"):
        timed.lookup([3], at_us=5)
    with pytest.raises(PanewiseError, match="1 times and 2 values"):
        timed.update([3, 4], [7])


def test_its_data_sheet() -> None:
    assert OrderedSharing.sheet.is_exact
    assert OrderedSharing.sheet.why_not("MAX") is None
    assert OrderedSharing.sheet.why_not("SUM") is not None
    assert OrderedSharing.sheet.why_not("COUNT") is not None
