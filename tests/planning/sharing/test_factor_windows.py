"""Factor windows: prices by writing out all edges, bases that have every edge, and the best of all on tiny sets."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import gcd, lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.planning.sharing import Queries, Weights, share
from panewise.planning.sharing.factor_windows import FactorPlan, factor_windows
from panewise.planning.sharing.no_share import NoShare

Window = tuple[int, int, int]
windows = st.tuples(st.integers(1, 60), st.sampled_from([2, 3, 4, 6, 8, 9, 12]), st.integers(0, 3))
workloads = st.lists(windows, min_size=1, max_size=7)
rates = st.sampled_from([0.2, 1.0, 3.0, 30.0])
each_weights = st.sampled_from([Weights(), Weights(2.0, 0.5), Weights(0.5, 2.0)])


def edges_of(rows: list[Window], period: int) -> set[int]:
    return {
        (offset + end + k * slide) % period
        for length, slide, offset in rows
        for end in (0, length)
        for k in range(period // slide)
    }


def priced(rows: list[Window], better: FactorPlan, rate: float, weights: Weights) -> float:
    """The cost of a factor plan, with every edge written out; fails if a base lacks an edge."""
    period = lcm(*(slide for _, slide, _ in rows), *(base.edges.period for base in better.bases))
    total = Fraction(0)
    bases = []
    for base in better.bases:
        step = base.edges.period
        bases.append({residue + k * step for residue in base.edges.residues for k in range(period // step)})
        total += Fraction(weights.event) * Fraction(rate)
    for tree, source in enumerate(better.sources):
        members = [row for row, found in zip(rows, better.plan.tree_of.tolist()) if found == tree]
        edges = edges_of(members, period)
        fold = sum(Fraction(length, slide) for length, slide, _ in members)
        total += Fraction(weights.combine) * Fraction(len(edges), period) * fold
        if source is None:
            total += Fraction(weights.event) * Fraction(rate)
        else:
            assert edges <= bases[source]
            if edges != bases[source]:
                total += Fraction(weights.combine) * Fraction(len(bases[source]), period)
    return float(total)


def best_of_all(trees: list[list[Window]], rate: float, weights: Weights) -> float:
    """The least input cost of fixed trees: every set of bases among the grids and unions of all groups of trees."""
    period = lcm(*(slide for tree in trees for _, slide, _ in tree))
    sets = [edges_of(tree, period) for tree in trees]
    candidates = set()
    for size in range(1, len(trees) + 1):
        for group in combinations(sets, size):
            joined = set().union(*group)
            first = min(joined)
            step = gcd(period, *(edge - first for edge in joined))
            candidates |= {frozenset(joined), frozenset(range(first % step, period, step))}
    event = weights.event * rate
    least = event * len(trees)
    for size in range(1, 3):
        for bases in combinations(candidates, size):
            inputs = [
                min(event, *(
                    (0 if one == base else weights.combine * len(base) / period) if one <= base else event
                    for base in bases
                ))
                for one in sets
            ]  # fmt: skip
            least = min(least, event * size + sum(inputs))
    return least


@given(workloads, rates, each_weights, st.sampled_from(["weave_share", "no_share", "random"]), st.booleans())
def test_prices_are_those_of_all_edges_written_out(
    rows: list[Window], rate: float, weights: Weights, method: str, may_regroup: bool
) -> None:
    plan = share(method, Queries.of(rows), rate, weights)
    better = factor_windows(plan, may_regroup=may_regroup)
    assert better.cost <= plan.cost * (1 + 1e-9)
    assert better.cost == pytest.approx(priced(rows, better, rate, weights))
    assert len(better.sources) == len(better.plan)
    assert better.saving >= -1e-9
    assert set(better.sources) - {None} == set(range(len(better.bases)))
    assert better.reasons
    if not may_regroup:
        assert better.plan.tree_of.tolist() == plan.tree_of.tolist()


@given(st.lists(windows, min_size=1, max_size=4), rates, each_weights)
def test_no_choice_of_bases_beats_the_best_of_all(rows: list[Window], rate: float, weights: Weights) -> None:
    plan = NoShare().share(Queries.of(rows), rate, weights)
    better = factor_windows(plan, may_regroup=False)
    folding = plan.cost - weights.event * rate * len(rows)
    assert better.cost >= best_of_all([[row] for row in rows], rate, weights) + folding - 1e-9 * plan.cost


def test_how_often_the_choice_is_the_best_of_all() -> None:
    random = np.random.default_rng(3)
    ratios = []
    for _ in range(80):
        size = int(random.integers(2, 5))
        rows = [
            (int(random.integers(1, 60)), int(random.choice([2, 3, 4, 6, 8, 9, 12])), int(random.integers(0, 3)))
            for _ in range(size)
        ]
        rate = float(random.choice([0.3, 1, 3]))
        plan = NoShare().share(Queries.of(rows), rate)
        better = factor_windows(plan, may_regroup=False)
        best = best_of_all([[row] for row in rows], rate, Weights()) + plan.cost - rate * size
        ratios.append(better.cost / best)
    assert np.mean(np.array(ratios) < 1 + 1e-9) >= 0.95
    assert max(ratios) < 1.1


def test_many_trees_over_one_grid() -> None:
    """At 100 events a unit, 20 trees read a base of one edge a unit."""
    rows = [(500 * slide + 1, slide, 0) for slide in range(20, 40)]
    plan = NoShare().share(Queries.of(rows), 100.0)
    better = factor_windows(plan, may_regroup=False)
    assert [str(base) for base in better.bases] == ["every 1"]
    assert better.bases[0].is_uniform
    assert better.cost == pytest.approx(plan.cost - 20 * 100 + 100 + 20)
    assert "feeds 20 trees" in better.reasons[0]


def test_a_tree_that_has_the_edges_of_the_others_is_the_base() -> None:
    plan = NoShare().share(Queries.of([(60, 6), (60, 12), (60, 30)]), 10.0)
    better = factor_windows(plan, may_regroup=False)
    assert [str(base) for base in better.bases] == ["every 6"]
    assert better.cost == pytest.approx(plan.cost - 30 + 10 + 2 / 6)


def test_a_base_makes_more_trees_pay() -> None:
    """Over the events one tree is best; over a base, two."""
    rows = [(60, 60), (120, 60), (1260, 84)]
    queries = Queries.of(rows, [10.0, 10.0, 10.0])
    plan = share("weave_share", queries, 0.4)
    better = factor_windows(plan)
    assert (len(plan), len(better.plan)) == (1, 2)
    assert better.cost < plan.cost
    assert any("regroup" in reason for reason in better.reasons)


def test_other_rates_and_weights() -> None:
    plan = NoShare().share(Queries.of([(60, 6), (60, 12)]), 0.001)
    assert not factor_windows(plan).bases
    assert "no base saves more" in factor_windows(plan, may_regroup=False).reasons[0]
    assert factor_windows(plan, rate=100.0, may_regroup=False).bases
    assert not factor_windows(plan, rate=100.0, weights=Weights(1e-6, 1.0), may_regroup=False).bases


def test_trees_that_no_base_can_serve_say_so() -> None:
    rows = [(60, 6, 0), (60, 12, 0), (24, 24, 0), (2310, 7, 0)]
    plan = NoShare().share(Queries.of(rows), 0.6)
    better = factor_windows(plan, may_regroup=False)
    assert better.sources[3] is None
    assert any(reason.startswith("tree 3 reads the events") for reason in better.reasons)


def test_no_queries() -> None:
    better = factor_windows(share("weave_share", Queries.of([]), 1.0))
    assert (better.cost, better.bases, better.sources) == (0, (), ())
