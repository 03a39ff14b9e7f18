"""Every method of sharing: printed numbers, prices against brute force, and who beats whom."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import PanewiseError, TooManyQueriesError
from panewise.planning.sharing import EVERY_METHOD, Caps, Method, Queries, SharingPlan, Weights, merge_benefit, share
from panewise.planning.sharing.cost import tree_cost
from panewise.planning.sharing.exhaustive import Exhaustive
from panewise.planning.sharing.few_windows import share_few
from panewise.planning.sharing.incremental_weave_share import IncrementalWeaveShare
from panewise.planning.sharing.insert_then_weave import InsertThenWeave
from panewise.planning.sharing.instants import Instants
from panewise.planning.sharing.local_search import LocalSearch
from panewise.planning.sharing.no_share import NoShare
from panewise.planning.sharing.random_trees import RandomTrees
from panewise.planning.sharing.shared import Shared
from panewise.planning.sharing.space import Space
from panewise.planning.sharing.weave_share import WeaveShare
from panewise.windows.periodic import common_rate, paired

UNIT = Weights()
TEMPLATES = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60]
windows = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(0, 5))
workloads = st.lists(windows, min_size=1, max_size=8)
rates = st.sampled_from([0.2, 1.0, 3.0, 10.0, 30.0])
each_method = pytest.mark.parametrize("method", EVERY_METHOD, ids=lambda method: method.name)


def brute_cost(
    rows: list[tuple[int, ...]],
    tree_of: list[int],
    rate: Fraction,
    weights: Weights = UNIT,
    factors: list[float] | None = None,
) -> Fraction:
    """The cost of a plan by writing out all edges."""
    total = Fraction(0)
    folds = [Fraction(row[0], row[1]) for row in rows] if factors is None else [Fraction(one) for one in factors]
    for tree in set(tree_of):
        members = [(*row, 0)[:3] for row, found in zip(rows, tree_of) if found == tree]
        period = lcm(*(slide for _, slide, _ in members))
        edges = {
            (offset + end + k * slide) % period
            for length, slide, offset in members
            for end in (0, length)
            for k in range(period // slide)
        }
        fold = sum(one for one, found in zip(folds, tree_of) if found == tree)
        total += Fraction(weights.event) * rate + Fraction(weights.combine) * Fraction(len(edges), period) * fold
    return total


def paper_queries(size: int, overlap: float, skew: float, seed: int) -> Queries:
    random = np.random.default_rng(seed)
    slides = np.array(TEMPLATES[::-1])
    weights = 1 / np.arange(1, len(slides) + 1) ** skew
    chosen = random.choice(slides, size, p=weights / weights.sum())
    ranges = np.maximum(1, np.rint(random.uniform(1, overlap, size) * chosen)).astype(np.int64)
    return Queries(ranges, chosen, np.zeros(size, np.int64))


class TestPrintedNumbers:
    """Guirguis et al., example 3: ranges 16, 10 and 8, slides 4, 5 and 4, rate 1.2."""

    QUERIES = Queries.of([(16, 4), (10, 5), (8, 4)])

    @pytest.mark.parametrize(
        ("name", "cost", "trees"),
        [
            ("no_share", 5.5, [0, 1, 2]),
            ("shared", 4.4, [0, 0, 0]),
            ("weave_share", 4.3, [0, 1, 0]),
            ("exhaustive", 4.3, [0, 1, 0]),
        ],
    )
    def test_costs(self, name: str, cost: float, trees: list[int]) -> None:
        plan = share(name, self.QUERIES, 1.2)
        assert plan.cost == pytest.approx(cost)
        assert plan.tree_of.tolist() == trees

    def test_merging_the_last_two_trees_would_cost_more(self) -> None:
        both, b = (1 / 4, 16 / 4 + 8 / 4), (1 / 5, 10 / 5)
        common = float(common_rate(paired(16, 4), paired(10, 5)))
        assert merge_benefit(1.2, both, b, common) == pytest.approx(4.3 - 4.4)


@each_method
@given(rows=workloads, rate=rates)
def test_prices_are_those_of_all_edges_written_out(method: Method, rows: list[tuple[int, ...]], rate: float) -> None:
    weights = Weights(event=0.5, combine=3.0)
    plan = method.share(Queries.of(rows), rate, weights)
    expected = float(brute_cost(rows, plan.tree_of.tolist(), Fraction(rate), weights))
    assert plan.is_exact.all()
    assert plan.cost == pytest.approx(expected)
    assert plan.cost_bounds == (plan.cost, plan.cost)
    assert plan.query_costs.sum() == pytest.approx(expected)


@each_method
@given(rows=workloads, rate=rates, data=st.data())
def test_fold_factors_price_the_fragments(
    method: Method, rows: list[tuple[int, ...]], rate: float, data: st.DataObject
) -> None:
    factor = st.sampled_from([0.0, 0.25, 1.0, 1.5, 40.0])
    factors = data.draw(st.lists(factor, min_size=len(rows), max_size=len(rows)))
    weights = Weights(event=0.5, combine=3.0)
    plan = method.share(Queries.of(rows, factors), rate, weights)
    tree_of = plan.tree_of.tolist()
    expected = float(brute_cost(rows, tree_of, Fraction(rate), weights, factors))
    assert plan.cost == pytest.approx(expected)
    assert plan.query_costs.sum() == pytest.approx(expected)
    for tree in range(len(plan)):
        assert plan.factors[tree] == sum(one for one, found in zip(factors, tree_of) if found == tree)
        overlaps = [row[0] / row[1] for row, found in zip(rows, tree_of) if found == tree]
        assert plan.overlaps[tree] == pytest.approx(sum(overlaps))


def test_fold_factors_decide_who_shares() -> None:
    """A fragment is worth sharing if it costs each query little; it is not if it costs much."""
    rows = [(16, 4), (10, 5)]
    assert len(share("weave_share", Queries.of(rows, [0.1, 0.1]), 1.2)) == 1
    assert len(share("weave_share", Queries.of(rows, [90.0, 90.0]), 1.2)) == 2


@each_method
@given(rows=workloads, rate=rates)
def test_no_plan_beats_exhaustive_search(method: Method, rows: list[tuple[int, ...]], rate: float) -> None:
    queries = Queries.of(rows)
    assert method.share(queries, rate, UNIT).cost >= Exhaustive().share(queries, rate).cost * (1 - 1e-9)


@given(st.lists(windows, min_size=1, max_size=5), rates)
def test_exhaustive_search_finds_the_best_of_all_partitions(rows: list[tuple[int, ...]], rate: float) -> None:
    factors = [float(length % 3 + 1) for length, _, _ in rows]

    def partitions(places: list[int]) -> list[list[int]]:
        if not places:
            return [[]]
        return [[*rest, tree] for rest in partitions(places[1:]) for tree in range(max(rest, default=-1) + 2)]

    plans = partitions(list(range(len(rows))))
    best = min(brute_cost(rows, trees, Fraction(rate)) for trees in plans)
    assert share("exhaustive", Queries.of(rows), rate).cost == pytest.approx(float(best))
    best = min(brute_cost(rows, trees, Fraction(rate), factors=factors) for trees in plans)
    assert share("exhaustive", Queries.of(rows, factors), rate).cost == pytest.approx(float(best))


@given(st.lists(windows, min_size=1, max_size=14), rates)
def test_weave_share_is_never_worse_than_its_rivals(rows: list[tuple[int, ...]], rate: float) -> None:
    queries = Queries.of(rows)
    woven = WeaveShare().share(queries, rate).cost
    rivals: list[Method] = [NoShare(), Shared(), InsertThenWeave(), LocalSearch(), LocalSearch("random")]
    for rival in [*rivals, WeaveShare(is_polished=False)]:
        assert woven <= rival.share(queries, rate, UNIT).cost * (1 + 1e-9), rival


@pytest.mark.parametrize(("is_polished", "least_share", "worst"), [(True, 0.96, 1.04), (False, 0.84, 1.09)])
def test_how_often_weave_share_is_optimal(is_polished: bool, least_share: float, worst: float) -> None:
    """The paper says "mostly"; 240 random sets of 2 to 10 queries."""
    random = np.random.default_rng(7)
    ratios = []
    for seed in range(240):
        queries = paper_queries(int(random.integers(2, 11)), 10, 0.6, seed)
        rate = float(random.choice([0.2, 1, 3, 10, 30]))
        woven = WeaveShare(is_polished=is_polished).share(queries, rate).cost
        ratios.append(woven / Exhaustive().share(queries, rate).cost)
    assert np.mean(np.array(ratios) < 1 + 1e-9) >= least_share
    assert max(ratios) <= worst


@pytest.mark.parametrize("rate", [0.5, 5, 50, 500])
@pytest.mark.parametrize("size", [50, 300])
def test_weave_share_is_never_worse_on_the_papers_workloads(size: int, rate: float) -> None:
    queries = paper_queries(size, 50, 0.6, seed=size)
    woven = WeaveShare().share(queries, rate).cost
    rivals: list[Method] = [NoShare(), Shared(), RandomTrees(), InsertThenWeave(), LocalSearch(), LocalSearch("random")]
    assert woven <= min(rival.share(queries, rate, UNIT).cost for rival in rivals) * (1 + 1e-9)


def test_the_gain_over_shared_falls_with_the_rate() -> None:
    queries = paper_queries(300, 50, 0.6, seed=2)
    gains = [share("weave_share", queries, rate).cost / share("shared", queries, rate).cost for rate in (1, 30, 10_000)]
    assert gains == sorted(gains)
    assert gains[0] < 0.5
    assert gains[-1] == pytest.approx(1)


VARIANTS = [
    WeaveShare(cost_table=table, edge_bitmap=bitmap, probe_with_fewer=fewer)
    for table in (True, False)
    for bitmap in (True, False)
    for fewer in (True, False)
]


class TestOptimizations:
    """Section 8: less work, the same plan."""

    @given(st.lists(windows, min_size=1, max_size=16), rates)
    def test_all_variants_give_the_same_plan(self, rows: list[tuple[int, ...]], rate: float) -> None:
        queries = Queries.of(rows)
        plans = [variant.share(queries, rate) for variant in VARIANTS]
        assert all(plan.tree_of.tolist() == plans[0].tree_of.tolist() for plan in plans)
        assert len({plan.work.steps for plan in plans}) == 1

    def test_each_saves_work(self) -> None:
        """Figure 14, with fewer queries."""
        queries = paper_queries(80, 10, 0.7, seed=1)
        flags = [(False, False, False), (True, False, False), (True, True, False), (True, True, True)]
        plans = [WeaveShare(*flag, is_polished=False).share(queries, 100) for flag in flags]
        assert all(plan.tree_of.tolist() == plans[0].tree_of.tolist() for plan in plans)
        for slower, faster in pairwise(plan.work.operations for plan in plans):
            assert faster < slower / 1.5


class TestScale:
    def test_a_million_queries_over_a_few_templates(self) -> None:
        few = paper_queries(300, 50, 0.6, seed=3)
        queries = few.chosen(np.random.default_rng(4).integers(0, 300, 1_000_000))
        plan = share("weave_share", queries, 1000.0)
        assert len(queries.classes) <= 300
        assert plan.is_exact.all()
        assert plan.cost < min(share(name, queries, 1000.0).cost for name in ("shared", "no_share"))
        assert sum(map(len, plan.trees)) == 1_000_000

    def test_slides_with_no_short_common_period(self) -> None:
        random = np.random.default_rng(5)
        queries = Queries(random.integers(1, 86_401, 200), random.integers(1, 86_401, 200), np.zeros(200, np.int64))
        plan = share("weave_share", queries, 0.5)
        rivals = [share(name, queries, 0.5) for name in ("shared", "no_share")]
        assert plan.cost <= min(rival.cost for rival in rivals)
        low, high = rivals[0].cost_bounds
        assert low <= rivals[0].cost <= high
        assert low < high

    def test_coprime_minutes(self) -> None:
        minute = 60_000_000
        queries = Queries.of((5 * minute * m, minute * m) for m in (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47))
        plan = share("shared", queries, 1e-4)
        assert plan.is_exact.all()
        free = np.prod([1 - 1 / m for m in (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)])
        assert plan.edge_rates[0] == pytest.approx((1 - free) / minute)
        assert float(plan.edge_rate(0).exact) == pytest.approx((1 - free) / minute)
        assert share("weave_share", queries, 1e-4).cost <= plan.cost

    @given(st.lists(windows, min_size=2, max_size=12), rates)
    def test_a_sample_finds_plans_that_are_hardly_worse(self, rows: list[tuple[int, ...]], rate: float) -> None:
        queries = Queries.of(rows)
        exact = WeaveShare().share(queries, rate)
        sampled = WeaveShare(caps=Caps(exact_bits=0, sample_bits=1 << 14)).share(queries, rate)
        assert sampled.is_exact.all()
        assert sampled.cost <= exact.cost * 1.25

    def test_rare_edges_on_a_fine_grid(self) -> None:
        """One odd microsecond makes the grid's step a microsecond, and the period too long for a bitmap."""
        minutes = paper_queries(150, 20, 0.6, seed=10)
        micro = 60_000_000
        queries = Queries(minutes.ranges * micro, minutes.slides * micro, minutes.offsets)
        odd = Queries(
            np.append(queries.ranges, 1_000_001),
            np.append(queries.slides, 60 * micro),
            np.append(queries.offsets, 0),
        )
        rate = 3 / micro
        plain, woven = share("weave_share", queries, rate), share("weave_share", odd, rate)
        assert (plain.queries.classes.grid, odd.classes.grid) == (micro, 1)
        assert plain.cost * 0.97 < woven.cost < plain.cost * 1.05 + rate

    @given(st.lists(windows, min_size=2, max_size=10))
    def test_random_edges_estimate_unions(self, rows: list[tuple[int, ...]]) -> None:
        fine = [(length * 1000, slide * 1000, offset * 1000 + 1) for length, slide, offset in rows]
        queries = Queries.of([*fine, (99_000, 100_000, 0)])
        classes = queries.classes
        everything, starts = np.arange(len(classes)), np.array([0, len(classes)])
        exact = Instants.of(classes, exact_bits=1 << 40, sample_bits=0, seed=0)
        sample = Instants.of(classes, exact_bits=0, sample_bits=1 << 14, seed=0)
        assert sample.length == 1
        rates = [one.union_rates(classes, everything, starts)[0] for one in (exact, sample)]
        assert rates[1] == pytest.approx(rates[0], rel=0.1)

    def test_batches_find_plans_that_are_hardly_worse(self) -> None:
        queries = paper_queries(400, 50, 0.6, seed=6)
        whole = WeaveShare(is_polished=False).share(queries, 20)
        batches = WeaveShare(caps=Caps(table_bytes=4 * 60**2), is_polished=False).share(queries, 20)
        assert Caps(table_bytes=4 * 60**2).most_trees == 60 < len(queries.classes)
        assert batches.cost <= whole.cost * 1.25
        assert batches.cost <= share("shared", queries, 20).cost

    @pytest.mark.parametrize("rate", [0.5, 8.0, 200.0])
    def test_polished_batches_cost_what_one_table_of_all_pairs_costs(self, rate: float) -> None:
        random = np.random.default_rng(8)
        slides = random.choice([60, 90, 120, 300, 600], 500)
        queries = Queries(random.integers(slides, 3600), slides, np.zeros(500, np.int64))
        assert len(queries.classes) > 256  # so many that few edges of each are compared with all trees
        whole = WeaveShare(batch=4096).share(queries, rate)
        batches = WeaveShare(batch=64).share(queries, rate)
        assert batches.cost <= whole.cost * 1.02

    def test_a_cap_on_memory(self) -> None:
        queries = paper_queries(500, 50, 0.6, seed=7)
        cap = 500 * 2000
        space = Space.of(queries.classes, Caps(memory_bytes=cap))
        assert space.bitmaps.nbytes * 2 <= cap
        with pytest.raises(PanewiseError, match=r"raise Caps\.memory_bytes"):
            Space.of(queries.classes, Caps(memory_bytes=1000))


class TestPlans:
    @each_method
    def test_the_same_queries_give_the_same_plan(self, method: Method) -> None:
        queries = paper_queries(14, 10, 0.6, seed=8)
        plans = [method.share(Queries(queries.ranges, queries.slides, queries.offsets), 3, UNIT) for _ in range(2)]
        assert plans[0].tree_of.tolist() == plans[1].tree_of.tolist()
        assert plans[0].cost == plans[1].cost

    def test_another_seed_gives_another_random_plan(self) -> None:
        queries = paper_queries(14, 10, 0.6, seed=8)
        plans = [RandomTrees(seed).share(queries, 3).tree_of.tolist() for seed in (1, 2)]
        assert plans[0] != plans[1]

    @given(st.lists(windows, min_size=2, max_size=10), rates, st.randoms())
    def test_the_order_of_queries_does_not_matter(
        self, rows: list[tuple[int, ...]], rate: float, random: object
    ) -> None:
        order = list(range(len(rows)))
        random.shuffle(order)  # type: ignore[attr-defined]
        plan = share("weave_share", Queries.of(rows), rate)
        shuffled = share("weave_share", Queries.of([rows[place] for place in order]), rate)
        together = {frozenset(tree.tolist()) for tree in plan.trees}
        assert {frozenset(order[place] for place in tree.tolist()) for tree in shuffled.trees} == together

    @each_method
    def test_no_queries(self, method: Method) -> None:
        plan = method.share(Queries.of([]), 1.0, UNIT)
        assert len(plan) == 0
        assert plan.cost == 0
        assert plan.trees == []

    def test_queries_with_equal_edges_share(self) -> None:
        plan = share("weave_share", Queries.of([(7, 5), (12, 5), (7, 5, 5), (3, 5, 2)]), 0.001)
        assert plan.tree_of.tolist() == [0, 0, 0, 0]

    def test_a_summary(self) -> None:
        plan = share("shared", Queries.of([(16, 4), (10, 5), (8, 4)]), 1.2)
        summary = plan.summary()
        assert (summary["queries"], summary["edge_sets"], summary["trees"]) == (3, 2, 1)
        assert isinstance(plan, SharingPlan)

    def test_too_many_for_exhaustive_search(self) -> None:
        queries = Queries.of((slide, slide) for slide in range(1, 30))
        with pytest.raises(TooManyQueriesError, match="at most 16 different edge sets, and these queries have 29"):
            Exhaustive().share(queries, 1.0)

    def test_local_search_says_when_it_needs_too_much_memory(self) -> None:
        random = np.random.default_rng(9)
        queries = Queries(random.integers(1, 86_401, 50), random.integers(1, 86_401, 50), np.zeros(50, np.int64))
        with pytest.raises(PanewiseError, match=r"raise Caps\.memory_bytes or use weave_share"):
            LocalSearch(caps=Caps(memory_bytes=300_000)).share(queries, 1.0)

    def test_an_unknown_method(self) -> None:
        with pytest.raises(PanewiseError, match="unknown method of sharing 'best'; use one of no_share, shared"):
            share("best", Queries.of([(1, 1)]), 1.0)

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(ValueError, match="rate must be positive"):
            share("shared", Queries.of([(1, 1)]), 0.0)
        with pytest.raises(ValueError, match="weights must be positive"):
            Weights(combine=0)


def test_an_edge_may_cost_something_by_itself() -> None:
    """Beyond the paper: what closing windows costs at each edge, whatever the queries."""
    windows = [(16, 4), (10, 5), (8, 4), (12, 9), (6, 3)]
    queries, weights = Queries.of(windows), Weights(edge=3.0)
    best = share("exhaustive", queries, 1.2, weights)
    for method in EVERY_METHOD:
        plan = method.share(queries, 1.2, weights)
        trees = zip(plan.edge_rates.tolist(), plan.factors.tolist(), strict=True)
        assert plan.cost == pytest.approx(sum(tree_cost(1.2, *tree, weights) for tree in trees))
        assert sum(plan.query_costs.tolist()) == pytest.approx(plan.cost)
        assert plan.cost >= best.cost * (1 - 1e-9)
    assert share("weave_share", queries, 1.2, weights).cost == pytest.approx(best.cost)
    few = np.array(share_few(windows, 1.2, edge=3.0))
    assert SharingPlan.of("few", queries, few, 1.2, weights).cost == pytest.approx(best.cost)
    online = IncrementalWeaveShare(1.2, weights, tolerance=np.inf)
    for name, window in enumerate(windows):
        online.add(name, window)
    assert online.cost == pytest.approx(online.plan().cost)
    # Edges that cost more pull queries together.
    assert len(share("weave_share", queries, 0.01)) > len(share("weave_share", queries, 0.01, Weights(edge=100.0)))
