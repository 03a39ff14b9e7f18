from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.windows import RowWindow, TimeWindow
from panewise.windows.clock import show_time, to_microseconds
from panewise.windows.edges import composite_edges, edges_of
from panewise.windows.instances import instances_closed, oldest_slot_needed
from panewise.windows.slots import granularity_of

lengths = st.integers(1, 40)
sliding = st.builds(lambda r, s: TimeWindow(r, slide_us=s), lengths, lengths)


class TestPrintedNumbers:
    """The edges that Guirguis et al. print, section 3 and section 4."""

    A = TimeWindow(12, slide_us=9)
    B = TimeWindow(10, slide_us=6)

    def test_edges_over_a_composite_slide(self) -> None:
        assert composite_edges([self.A]) == [3, 9]
        assert [e for e in composite_edges([self.A, self.B]) if e % 9 in (3, 0)] == [3, 9, 12, 18]
        assert composite_edges([self.A, self.B]) == [3, 4, 6, 9, 10, 12, 16, 18]

    def test_edge_rates(self) -> None:
        rates = [2 / 9, 2 / 6, len(composite_edges([self.A, self.B])) / 18]
        assert [round(rate, 2) for rate in rates] == [0.22, 0.33, 0.44]

    def test_fragments_of_slide_5_against_slide_3(self) -> None:
        edges = composite_edges([TimeWindow(7, slide_us=5), TimeWindow(3, slide_us=3)])
        assert len(edges) == 9
        assert {e for e in edges if e % 5 in (2, 0) and e % 3 == 0} == {12, 15}


@given(sliding)
def test_every_start_and_end_is_an_edge(window: TimeWindow) -> None:
    slide = window.slide_us
    for k in range(-3, 4):
        for instant in (k * slide, k * slide + window.range_us):
            assert (instant - 1) % slide + 1 in edges_of(window)


@given(sliding, st.integers(-200, 200), st.integers(0, 100))
def test_instances_closed_are_those_that_end_between(window: TimeWindow, after: int, more: int) -> None:
    first, last = instances_closed(window, 1, after, after + more)
    ends = [k * window.slide_us + window.range_us for k in range(-500, 500)]
    expected = [k for k, end in zip(range(-500, 500), ends) if after < end <= after + more]
    assert list(range(first, last + 1)) == expected


@given(st.lists(sliding, min_size=1, max_size=4), st.integers(-200, 200))
def test_no_open_window_reaches_before_the_oldest_slot(windows: list[TimeWindow], closed: int) -> None:
    granularity = granularity_of(windows)
    oldest = oldest_slot_needed(windows, granularity, closed)
    starts = [k * w.slide_us for w in windows for k in range(-500, 500) if k * w.slide_us + w.range_us > closed]
    assert min(starts) == oldest * granularity


def test_granularity_divides_every_length() -> None:
    assert granularity_of([TimeWindow(60, slide_us=45), TimeWindow(30, slide_us=30)]) == 15
    assert granularity_of([RowWindow(10, slide=4)]) == 2
    with pytest.raises(ValueError, match="does not slide"):
        granularity_of([TimeWindow(5)])


@pytest.mark.parametrize(
    "build",
    [
        lambda: TimeWindow(0),
        lambda: TimeWindow(5, 5),
        lambda: TimeWindow(5, slide_us=0),
        lambda: TimeWindow(5, 1, slide_us=1),
        lambda: RowWindow(0),
        lambda: RowWindow(3, 3),
        lambda: RowWindow(3, slide=-1),
    ],
)
def test_windows_that_make_no_sense_are_refused(build) -> None:
    with pytest.raises(ValueError, match="window"):
        build()


def test_times() -> None:
    assert to_microseconds("2013-01-01T00:00:00+01:00") == to_microseconds("2012-12-31 23:00:00")
    assert show_time(to_microseconds("2013-01-01 05:00:00.5")) == "2013-01-01 05:00:00.500000"
    assert show_time(2**63 - 1) == str(2**63 - 1)
