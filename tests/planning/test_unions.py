"""How many fragments trees would have as one: exact for few trees, close to that for many."""

from __future__ import annotations

import numpy as np
import pytest

import panewise
from panewise.planning import unions
from panewise.planning.trees import Tree
from panewise.planning.unions import unions_of
from panewise.windows import TimeWindow

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;\n"


def trees_of(windows: list[tuple[int, int]], rate: float = 1000.0) -> tuple[Tree, ...]:
    text = STREAM + "".join(
        f"CREATE QUERY q{n} AS SELECT k, SUM(x) FROM s [RANGE {length} SECONDS SLIDE {slide} SECONDS] GROUP BY k;"
        for n, (length, slide) in enumerate(windows)
    )
    return panewise.optimize(panewise.read(text), rate=rate, method="no_share").trees


def slots_with_edges(trees: list[Tree], period: int) -> int:
    """The slots of a period at which some window of some tree opens or closes, one by one."""
    edges: set[int] = set()
    for tree in trees:
        for window in tree.windows:
            assert isinstance(window, TimeWindow)
            assert window.slide_us is not None
            length, slide = window.range_us // tree.granularity, window.slide_us // tree.granularity
            for start in range(-length - length % slide, period + slide, slide):
                edges |= {(start // slide * slide) % period, (start // slide * slide + length) % period}
    return len(edges)


PERIOD = 2 * 3 * 4 * 5 * 7
SMALL = [(length, slide) for slide in (2, 3, 5, 7, 4, 6, 10, 14, 12, 20) for length in (1, slide + 1, 3 * slide)]


@pytest.mark.parametrize("few", [0, 1000])
def test_unions_with_a_common_period_are_exact(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unions, "FEW", few)
    trees = trees_of(SMALL, rate=0.5)
    assert len(trees) > 2
    counted = unions_of(trees)
    for other in range(1, len(trees)):
        expected = slots_with_edges([trees[0], trees[other]], PERIOD) / PERIOD
        assert counted.of_two(0, other) == pytest.approx(expected)
    assert counted.of_all() == pytest.approx(slots_with_edges(list(trees), PERIOD) / PERIOD)


def test_unions_of_windows_that_never_repeat_are_close(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    windows = list(zip(random.integers(1, 20_000, 150).tolist(), random.integers(50, 3600, 150).tolist()))
    trees = trees_of(windows)
    assert len(trees) > unions.FEW
    estimated = unions_of(trees)
    monkeypatch.setattr(unions, "FEW", len(trees))
    exact = unions_of(trees)
    for other in range(1, len(trees)):
        assert estimated.of_two(0, other) == pytest.approx(exact.of_two(0, other), rel=0.05)
    assert estimated.of_all() == pytest.approx(exact.of_all(), rel=0.1)


def test_a_window_that_is_in_two_trees_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unions, "FEW", 0)
    (tree,) = trees_of([(12, 9)])
    twice = unions_of([tree, tree])
    assert twice.of_two(0, 1) == pytest.approx(tree.cuts.rate)
    assert twice.of_all() == pytest.approx(tree.cuts.rate)
