from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.windows.cuts import EVERY_SLOT, Cuts

lengths = st.integers(1, 30)
windows = st.lists(st.tuples(lengths, lengths), min_size=1, max_size=5)


def edges_up_to(windows: list[tuple[int, int]], last: int) -> list[int]:
    """Every edge in [-200, last], written out."""
    return sorted(
        {
            edge
            for length, slide in windows
            for k in range(-300, 300)
            for edge in (k * slide, k * slide + length)
            if -200 <= edge <= last
        }
    )


@given(windows)
def test_a_slot_belongs_to_the_fragment_of_the_last_edge(windows: list[tuple[int, int]]) -> None:
    slots = np.arange(-100, 100)
    edges = edges_up_to(windows, 100)
    expected = [max(edge for edge in edges if edge <= slot) for slot in slots.tolist()]
    cuts = Cuts.of(windows)
    assert cuts.starts(slots).tolist() == expected
    # Few slots, far apart and in no order: the slots between them are not looked at.
    assert cuts.starts(slots[[190, 0, 95, 0]]).tolist() == [expected[place] for place in (190, 0, 95, 0)]


@given(windows)
def test_the_rate_counts_the_edges_and_holds_every_window(windows: list[tuple[int, int]]) -> None:
    cuts = Cuts.of(windows)
    period = int(np.lcm.reduce([slide for _, slide in windows]))
    starts = cuts.starts(np.arange(period))
    assert abs(cuts.rate - len(np.unique(starts[starts >= 0])) / period) < 1e-9 + (starts.min() < 0) / period
    assert cuts.holds(windows)


@given(windows, st.tuples(lengths, lengths))
def test_a_window_that_is_held_has_no_other_edges(windows: list[tuple[int, int]], window: tuple[int, int]) -> None:
    if Cuts.of(windows).holds([window]):
        assert set(edges_up_to([window], 100)) <= set(edges_up_to(windows, 100))


def test_edges_are_few_however_long_they_take_to_repeat() -> None:
    cuts = Cuts.of([(10**6 + 3, 10**6 + 3), (10**6 + 33, 10**6 + 33), (999_983, 999_983)])
    assert len(cuts.edges) == 3
    assert cuts.starts(np.array([10**12])).tolist() == [max(10**12 // p * p for p, _ in cuts.edges)]
    assert EVERY_SLOT.starts(np.arange(5)).tolist() == [0, 1, 2, 3, 4]
