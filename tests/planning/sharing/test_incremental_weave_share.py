"""Plans under change: additions, removals, the tolerance, and reconstruction in the background."""

from __future__ import annotations

from math import inf
from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import UnknownNameError
from panewise.planning.sharing import Caps, Queries, Weights, share
from panewise.planning.sharing.incremental_weave_share import IncrementalWeaveShare
from panewise.planning.sharing.online_trees import OnlineTrees
from panewise.planning.sharing.weave_share import WeaveShare

windows = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(0, 5))
rates = st.sampled_from([0.2, 1.0, 3.0, 10.0, 30.0])
scales = st.sampled_from([1, 1000])
tolerances = st.sampled_from([0.0, 0.1, 0.3, inf])


def paper_windows(size: int, seed: int) -> list[tuple[int, int]]:
    random = np.random.default_rng(seed)
    slides = random.choice([1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60], size)
    ranges = np.maximum(1, np.rint(random.uniform(1, 20, size) * slides)).astype(np.int64)
    return list(zip(ranges.tolist(), slides.tolist()))


def from_scratch(online: IncrementalWeaveShare) -> float:
    return WeaveShare(take_shared_if_better=False).share(online.plan().queries, online.rate, online.weights).cost


@given(st.lists(st.tuples(windows, st.integers(0, 99)), min_size=1, max_size=20), rates, tolerances)
def test_the_running_cost_is_that_of_the_plan(
    steps: list[tuple[tuple[int, int, int], int]], rate: float, tolerance: float
) -> None:
    """Each step adds a query, and two of three steps remove one as well."""
    online = IncrementalWeaveShare(rate, Weights(0.5, 2.0), tolerance=tolerance)
    there: dict[int, tuple[int, int, int]] = {}
    for place, (window, chance) in enumerate(steps):
        online.add(place, window, factor=None if chance % 2 else chance / 7)
        there[place] = window
        if chance % 3:
            gone = list(there)[chance % len(there)]
            online.remove(gone)
            del there[gone]
        online.check_invariants()
        plan = online.plan()
        assert plan.queries.ranges.tolist() == [length for length, _, _ in there.values()]
        assert len(plan) == online.number_of_trees
        assert online.cost == pytest.approx(plan.cost)


@given(st.lists(windows, min_size=1, max_size=12), rates)
def test_without_tolerance_the_plan_is_as_good_as_one_from_scratch(
    rows: list[tuple[int, int, int]], rate: float
) -> None:
    online = IncrementalWeaveShare(rate, tolerance=0)
    for place, window in enumerate(rows):
        online.add(place, window)
        assert online.cost <= from_scratch(online) * (1 + 1e-9)
    assert online.reconstructions == len(rows)


@pytest.mark.parametrize("rate", [1.0, 30.0])
@pytest.mark.parametrize("tolerance", [0.1, 0.3])
def test_the_plan_stays_within_the_tolerance(rate: float, tolerance: float) -> None:
    """Figure 11: on average the deviation from a plan made from scratch is below the tolerance."""
    online = IncrementalWeaveShare(rate, tolerance=tolerance)
    deviations = []
    rows = paper_windows(150, seed=1)
    for place, window in enumerate(rows):
        online.add(place, window)
        assert online.cost <= (1 + tolerance) * online.expected_cost * (1 + 1e-9)
        if place % 10 == 9:
            deviations.append(online.cost / from_scratch(online) - 1)
    for place in range(0, 120):
        online.remove(place)
        assert online.cost <= (1 + tolerance) * online.expected_cost * (1 + 1e-9)
        if place % 10 == 9:
            deviations.append(online.cost / from_scratch(online) - 1)
    assert np.mean(deviations) <= tolerance
    assert 0 < online.reconstructions < len(rows)


def test_more_tolerance_means_fewer_reconstructions() -> None:
    made = []
    for tolerance in (0.0, 0.1, 0.5, inf):
        online = IncrementalWeaveShare(3.0, tolerance=tolerance)
        for place, window in enumerate(paper_windows(60, seed=2)):
            online.add(place, window)
        made.append(online.reconstructions)
    assert made == sorted(made, reverse=True)
    assert made[0] == 60
    assert made[-1] == 0


def test_a_query_with_known_edges_joins_the_tree_that_has_them() -> None:
    online = IncrementalWeaveShare(1.2, tolerance=inf)
    for name, window in {"a": (16, 4), "c": (8, 4), "b": (10, 5)}.items():
        online.add(name, window)
    assert online.plan().tree_of.tolist() == [0, 0, 1]
    assert online.cost == pytest.approx(4.3)
    online.remove("b")
    assert online.cost == pytest.approx(1.2 + 6 / 4)
    online.remove("a")
    online.remove("c")
    assert online.cost == 0
    assert online.number_of_trees == 0


def test_reconstruction_undoes_a_merge_that_came_too_early() -> None:
    """Example 3 in an unlucky order: a and b share before c comes."""
    online = IncrementalWeaveShare(1.2, tolerance=inf)
    for name, window in {"a": (16, 4), "b": (10, 5), "c": (8, 4)}.items():
        online.add(name, window)
    assert online.cost == pytest.approx(4.4)
    online.reconstruct()
    assert online.cost == pytest.approx(4.3)
    assert online.plan().tree_of.tolist() == [0, 1, 0]


def test_many_at_once() -> None:
    rows = paper_windows(500, seed=3)
    online = IncrementalWeaveShare(10.0)
    online.add_all(dict(enumerate(rows)))
    assert online.cost == pytest.approx(share("weave_share", Queries.of(rows), 10.0).cost)
    assert online.reconstructions == 1
    assert online.expected_cost == pytest.approx(online.cost)


def test_slides_that_come_later_need_not_fit_the_earlier_ones() -> None:
    online = IncrementalWeaveShare(0.05, tolerance=inf)
    for place, slide in enumerate((60, 7 * 60, 11 * 60, 13 * 60 + 1, 86_399, 9973)):
        online.add(place, (3 * slide + 5, slide))
        assert online.cost == pytest.approx(online.plan().cost, rel=0.01)


def test_reconstruction_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that come and go while a new plan is made are in the new plan."""
    may_go_on = Event()
    honest = WeaveShare.share_classes

    def slow(self: WeaveShare, *arguments: object) -> object:
        assert may_go_on.wait(60)
        return honest(self, *arguments)  # type: ignore[arg-type]

    rows = paper_windows(80, seed=4)
    online = IncrementalWeaveShare(3.0, tolerance=inf)
    for place, window in enumerate(rows[:60]):
        online.add(place, window)
    monkeypatch.setattr(WeaveShare, "share_classes", slow)
    thread = online.reconstruct_in_background()
    assert online.reconstruct_in_background() is thread
    for place, window in enumerate(rows[60:], 60):
        online.add(place, window)
    for place in range(20):
        online.remove(place)
    before = online.cost
    assert online.reconstructions == 0
    may_go_on.set()
    online.wait()
    assert online.reconstructions == 1
    assert online.cost <= before
    assert online.cost == pytest.approx(online.plan().cost)
    assert online.plan().queries.ranges.tolist() == [length for length, _ in rows[20:]]


def test_the_tolerance_can_start_the_background() -> None:
    online = IncrementalWeaveShare(3.0, tolerance=0.1, in_background=True)
    for place, window in enumerate(paper_windows(60, seed=5)):
        online.add(place, window)
    online.wait()
    online.check_invariants()
    assert online.reconstructions > 0
    assert online.cost == pytest.approx(online.plan().cost)


@pytest.mark.parametrize("most_marks", [0, 1 << 20])
@pytest.mark.parametrize("caps", [Caps(), Caps(exact_bits=0, sample_bits=1 << 12)])
@given(steps=st.lists(st.tuples(windows, st.integers(0, 99)), min_size=1, max_size=25), rate=rates, scale=scales)
def test_large_trees_and_samples_keep_their_invariants(
    most_marks: int, caps: Caps, steps: list[tuple[tuple[int, int, int], int]], rate: float, scale: int
) -> None:
    """Covers for every tree; blocks of instants if edges are dense, and a sample of edges if they are rare."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("panewise.planning.sharing.online_trees._MOST_MARKS", most_marks)
        online = IncrementalWeaveShare(rate / scale, tolerance=inf, caps=caps)
        for place, (window, chance) in enumerate(steps):
            online.add(place, tuple(scale * one + (scale > 1) * (at == 2) for at, one in enumerate(window)))
            if place % 3 == 2:
                online.remove(place - chance % 3)
            online.check_invariants()
    assert online.cost == pytest.approx(online.plan().cost, rel=0.05 if caps.exact_bits == 0 else 1e-9)


def test_a_query_that_the_instants_cannot_show_waits_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the background, a finer grid is laid out while queries come and go."""
    may_go_on = Event()
    honest = OnlineTrees.laid_out

    def slow(*arguments: object) -> object:
        assert may_go_on.wait(60)
        return honest(*arguments)  # type: ignore[arg-type]

    rows = paper_windows(50, seed=6)
    online = IncrementalWeaveShare(0.3, tolerance=inf, in_background=True)
    online.add_all({place: (60 * length, 60 * slide) for place, (length, slide) in enumerate(rows)})
    monkeypatch.setattr(OnlineTrees, "laid_out", slow)
    trees = online.number_of_trees
    online.add("fine", (61, 7))
    assert online.number_of_trees == trees + 1
    online.add("same", (68, 7))
    online.add("known", (60, 60))
    online.remove(3)
    online.check_invariants()
    assert online.cost == pytest.approx(online.plan().cost)
    before = online.cost
    may_go_on.set()
    online.wait()
    online.check_invariants()
    assert online.layouts == 1
    assert online.cost <= before * (1 + 1e-9)
    assert online.cost == pytest.approx(online.plan().cost)
    assert online.plan().tree_of[-3] == online.plan().tree_of[-2]


def test_many_at_once_while_the_background_works(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = Event()
    honest = WeaveShare.share_classes
    rows = paper_windows(40, seed=7)
    online = IncrementalWeaveShare(3.0, tolerance=inf)
    online.add_all(dict(enumerate(rows[:20])))

    def slow(self: WeaveShare, *arguments: object) -> object:
        assert may_go_on.wait(60)
        return honest(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(WeaveShare, "share_classes", slow)
        online.reconstruct_in_background()
    online.add_all(dict(enumerate(rows[20:], 20)))
    may_go_on.set()
    online.wait()
    online.check_invariants()
    assert len(online) == 40


def test_a_failure_in_the_background_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    online = IncrementalWeaveShare(3.0, tolerance=inf)
    online.add("a", (4, 2))

    def fails(*arguments: object) -> object:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(WeaveShare, "share_classes", fails)
        online.reconstruct_in_background()
        with pytest.raises(MemoryError, match="no room"):
            online.wait()
    online.wait()
    online.reconstruct_in_background()
    online.wait()
    assert online.reconstructions == 1


def test_nonsense_is_refused() -> None:
    online = IncrementalWeaveShare(1.0)
    online.add("a", (4, 2))
    with pytest.raises(UnknownNameError, match="query a is already in the plan"):
        online.add("a", (4, 2))
    with pytest.raises(UnknownNameError, match="query a is already in the plan"):
        online.add_all({"a": (4, 2)})
    with pytest.raises(UnknownNameError, match="query b is not in the plan"):
        online.remove("b")
    with pytest.raises(ValueError, match="rate must be positive"):
        IncrementalWeaveShare(0.0)
    with pytest.raises(ValueError, match="tolerance must not be negative"):
        IncrementalWeaveShare(1.0, tolerance=-1)
    with pytest.raises(ValueError, match="positive range and slide"):
        online.add("c", (4, 0))
    with pytest.raises(ValueError, match="fold factor must be finite"):
        online.add("c", (4, 2), factor=-1.0)
    with pytest.raises(ValueError, match="positive range and slide"):
        online.add_all({"c": (4, 2), "d": (0, 2)})
    assert len(online) == 1
