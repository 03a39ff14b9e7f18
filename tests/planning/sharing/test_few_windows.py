"""The search for few windows finds what the compiled methods find."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise.planning.sharing import UNIT_WEIGHTS, Queries, SharingPlan, share
from panewise.planning.sharing.few_windows import MOST_BITS, MOST_CLASSES, share_few

slides = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30])
windows = st.lists(st.tuples(st.integers(1, 60), slides), min_size=1, max_size=7)
rates = st.sampled_from([0.01, 0.3, 1.0, 5.0, 40.0])


def cost_of(queries: Queries, tree_of: list[int], rate: float) -> float:
    return SharingPlan.of("few", queries, np.array(tree_of), rate, UNIT_WEIGHTS).cost


@settings(max_examples=examples(150), deadline=None)
@given(windows, rates)
def test_never_worse_than_no_sharing_and_one_tree_and_mostly_the_best(windows, rate) -> None:
    queries = Queries.of(windows)
    found = share_few(windows, rate)
    assert found is not None
    cost = cost_of(queries, found, rate)
    assert cost <= share("no_share", queries, rate).cost * (1 + 1e-9)
    assert cost <= share("shared", queries, rate).cost * (1 + 1e-9)
    assert cost <= share("exhaustive", queries, rate).cost * 1.15
    assert [found.index(number) for number in range(max(found) + 1)] == sorted(
        found.index(number) for number in range(max(found) + 1)
    )


def test_nearly_always_the_best() -> None:
    random = np.random.default_rng(5)
    best = 0
    for _ in range(100):
        size = int(random.integers(2, 7))
        some = [(int(random.integers(1, 60)), int(random.choice([2, 3, 4, 6, 8, 10, 12, 15]))) for _ in range(size)]
        queries, rate = Queries.of(some), float(random.choice([0.1, 1.0, 5.0]))
        found = share_few(some, rate)
        assert found is not None
        best += cost_of(queries, found, rate) <= share("exhaustive", queries, rate).cost * (1 + 1e-9)
    assert best >= 95


def test_the_papers_example_stops_at_4_3() -> None:
    windows = [(16, 4), (10, 5), (8, 4)]
    assert share_few(windows, 1.2) == [0, 1, 0]
    assert round(cost_of(Queries.of(windows), [0, 1, 0], 1.2), 1) == 4.3


def test_windows_that_are_not_few_are_left_to_the_compiled_search() -> None:
    assert share_few([(1, 509), (1, 521)], 1.0) is None or MOST_BITS >= 509 * 521
    assert share_few([(1, 2003), (1, 2011)], 1.0) is None
    assert share_few([(place, 2 * MOST_CLASSES) for place in range(1, MOST_CLASSES + 2)], 1.0) is None
