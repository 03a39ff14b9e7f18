"""Basic windows end where plain arithmetic says, whatever the batches; and falling behind is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.indexes.plain import PlainWindow

from panewise.errors import IndexingError
from panewise.indexes import CountCut, Pace, SetWindow, TimeCut


@given(tuples=st.integers(1, 7), basic_windows=st.integers(1, 4), batches=st.lists(st.integers(0, 20), max_size=8))
def test_count_based(tuples, basic_windows, batches) -> None:
    cut, window = CountCut(tuples), SetWindow(basic_windows)
    values = list(range(sum(batches)))
    start = 0
    for size in batches:
        batch = values[start : start + size]
        for piece in cut.pieces(size):
            window.append(batch[piece.begin : piece.end])
            window.attach(piece.attach)
        start += size
        whole = start // tuples * tuples
        assert window.histogram().values.tolist() == values[max(0, whole - basic_windows * tuples) : whole]
        assert cut.filled == start % tuples == window.statistics()["filling"]


@given(
    width=st.integers(1, 9),
    basic_windows=st.integers(1, 4),
    gaps=st.lists(st.lists(st.integers(0, 25), max_size=6), max_size=6),
    start=st.integers(-50, 50),
    ends=st.lists(st.integers(0, 30), min_size=6, max_size=6),
)
def test_time_based(width, basic_windows, gaps, start, ends) -> None:
    """The window holds the tuples of the last complete basic windows of time, with or without tuples in them."""
    cut, window, now = TimeCut(width), SetWindow(basic_windows), start
    seen = []
    for batch, more in zip(gaps, ends):
        times = []
        for gap in batch:
            now += gap
            times.append(now)
        for piece in cut.pieces(times):
            window.append(times[piece.begin : piece.end])
            window.attach(piece.attach)
        seen += times
        now += more
        window.attach(cut.advance(now))
        complete = now // width
        expected = [time for time in seen if complete - basic_windows <= time // width < complete]
        values, counts = window.histogram()
        assert [v for v, c in zip(values.tolist(), counts.tolist()) for _ in range(c)] == expected
        assert window.statistics()["filling"] == sum(time // width == complete for time in seen)


def test_times_that_go_back_change_nothing() -> None:
    cut = TimeCut(10)
    assert [piece.attach for piece in cut.pieces([5, 25])] == [2, 0]
    for times, words in [([24], "24 at place 0 comes after 25"), ([30, 29], "29 at place 1 comes after 30")]:
        with pytest.raises(IndexingError, match=words):
            cut.pieces(times)
    assert cut.filling == 2
    assert cut.advance(20) == 0, "time does not go back"
    assert [tuple(piece) for piece in cut.pieces([25, 31])] == [(0, 1, 1), (1, 2, 0)]
    assert list(cut.pieces([])) == []


def test_bad_sizes_are_named() -> None:
    for call in (lambda: CountCut(0), lambda: TimeCut(0), lambda: Pace(0)):
        with pytest.raises(IndexingError):
            call()


@given(every=st.integers(1, 4), steps=st.lists(st.integers(0, 6), max_size=20))
def test_falling_behind(every, steps) -> None:
    """A step attaches some basic windows, then the query gets its turn if it is due."""
    pace, waits, waiting = Pace(every), [], 0
    for count in steps:
        pace.attached(count)
        waiting += count
        assert pace.is_due == (waiting >= every)
        assert pace.behind == max(0, waiting - every)
        if pace.is_due:
            pace.evaluated()
            waits.append(waiting)
            waiting = 0
    shown = pace.statistics()
    assert shown["evaluations"] == len(waits)
    assert shown["missed"] == sum(wait // every - 1 for wait in waits)
    assert shown["longest_wait"] == max([*waits, waiting], default=0)
    assert shown["waiting"] == waiting


def test_a_tuple_waits_for_the_end_of_its_basic_window() -> None:
    """It is in the first answer after that; the query has until the end of the next one to give it."""
    cut, window, oracle = TimeCut(10), SetWindow(3), PlainWindow(3)
    answered = {}
    for now in range(100):
        attach = cut.advance(now)
        window.attach(attach)
        oracle.attach(attach)
        if attach:
            for value in window.histogram().values.tolist():
                answered.setdefault(value, now)
        for piece in cut.pieces([now]):
            window.append([now])
            oracle.append([now])
            assert piece.attach == 0
    lags = {value: at - value for value, at in answered.items()}
    assert len(lags) == 90
    assert min(lags.values()) == 1
    assert max(lags.values()) == 10
