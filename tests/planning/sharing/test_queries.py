"""Queries in any order collapse to their different edge sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.planning.sharing import Queries
from panewise.windows import RowWindow, TimeWindow
from panewise.windows.periodic import paired

Window = tuple[int, int, int]
windows = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(-9, 9)), min_size=1, max_size=12)


@given(windows)
def test_queries_are_in_one_class_iff_their_edges_are_equal(rows: list[Window]) -> None:
    classes = Queries.of(rows).classes
    edges = [paired(*row) for row in rows]
    assert [classes.edges(one) for one in classes.class_of.tolist()] == edges
    assert len(classes) == len(set(edges))


@given(windows)
def test_a_class_has_the_factor_and_the_rate_of_its_queries(rows: list[Window]) -> None:
    classes = Queries.of(rows).classes
    for one in range(len(classes)):
        members = [row for row, found in zip(rows, classes.class_of) if found == one]
        assert classes.factors[one] == pytest.approx(sum(length / slide for length, slide, _ in members))
        assert classes.rates[one] == pytest.approx(float(classes.edges(one).rate))
    factors = [1.0 + place for place in range(len(rows))]
    collapsed = Queries.of(rows, factors).classes
    for one in range(len(collapsed)):
        assert collapsed.factors[one] == sum(f for f, found in zip(factors, collapsed.class_of) if found == one)


@given(windows, st.randoms())
def test_the_order_of_queries_does_not_matter(rows: list[Window], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = Queries.of(rows).classes, Queries.of(shuffled).classes
    for name in ("periods", "firsts", "seconds", "factors"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


@given(windows)
def test_all_edges_lie_on_the_grid(rows: list[Window]) -> None:
    classes = Queries.of(rows).classes
    first = classes.edges(0).residues[0]
    for one in range(len(classes)):
        edges = classes.edges(one)
        assert all((instant - first) % classes.grid == 0 for instant in (edges.period + first, *edges.residues))


def test_windows_of_time_and_of_rows() -> None:
    time = Queries.of_windows([TimeWindow(10, slide_us=6), TimeWindow(4, slide_us=4)])
    rows = Queries.of_windows([RowWindow(10, slide=6), RowWindow(4, slide=4)])
    assert time.ranges.tolist() == rows.ranges.tolist() == [10, 4]
    assert time.slides.tolist() == rows.slides.tolist() == [6, 4]
    assert time.factors is None
    assert time.fold_factors.tolist() == time.overlaps.tolist()
    folded = Queries.of_windows([TimeWindow(10, slide_us=6), TimeWindow(4, slide_us=4)], [1, 2])
    assert folded.fold_factors.tolist() == [1.0, 2.0]
    assert folded.chosen(np.array([1])).fold_factors.tolist() == [2.0]


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="positive range and slide"):
        Queries.of([(1, 0)])
    with pytest.raises(ValueError, match="needs a range, a slide and an offset"):
        Queries(np.ones(2, np.int64), np.ones(1, np.int64), np.ones(2, np.int64))
    with pytest.raises(ValueError, match="2 queries need as many fold factors, got 1"):
        Queries.of([(1, 1), (2, 1)], [1.0])
    with pytest.raises(ValueError, match="finite and not negative"):
        Queries.of([(1, 1)], [float("nan")])
