"""Different group-by attributes: prices by a plain oracle, and the best of all partitions of few sets."""

from __future__ import annotations

from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import PanewiseError
from panewise.planning.sharing import Queries, Weights
from panewise.planning.sharing.grouping import GroupingPlan, plan_grouping

Set = tuple[str, ...]
Window = tuple[int, int]
DISTINCT = {"a": 2.0, "b": 30.0, "c": 1000.0}
windows = st.tuples(st.integers(1, 40), st.sampled_from([2, 3, 4, 6, 12]))
names = st.lists(st.sampled_from("abcd"), unique=True, max_size=3).map(lambda one: tuple(sorted(one)))
workloads = st.dictionaries(names, st.lists(windows, min_size=1, max_size=3), min_size=1, max_size=5)
rates = st.sampled_from([0.5, 5.0, 200.0, 1e5])


def edge_rate(rows: list[Window]) -> float:
    period = lcm(*(slide for _, slide in rows))
    edges = {
        (end + k * slide) % period for length, slide in rows for end in (0, length) for k in range(period // slide)
    }
    return len(edges) / period


def groups_of(attributes: Set, rows: list[Window], rate: float) -> float:
    product = 1.0
    for name in attributes:
        product *= DISTINCT.get(name, 100.0)
    return min(product, rate * max(length for length, _ in rows))


def tree_cost(members: dict[Set, list[Window]], rate: float, weights: Weights) -> float:
    union = tuple(sorted({name for one in members for name in one}))
    everything = [row for rows in members.values() for row in rows]
    partials = min(rate, groups_of(union, everything, rate) * edge_rate(everything))
    total = weights.event * rate
    for one, rows in members.items():
        factor = sum(length / slide for length, slide in rows)
        groups = groups_of(one, rows, rate)
        work = partials + groups * edge_rate(rows) * factor
        if one == union:
            work = min(work, groups * edge_rate(everything) * factor)
        total += weights.combine * work
    return total


def partitions(items: list[Set]) -> list[list[list[Set]]]:
    if not items:
        return [[]]
    first, found = items[0], []
    for rest in partitions(items[1:]):
        found.append([[first], *rest])
        found += [[*rest[:at], [first, *rest[at]], *rest[at + 1 :]] for at in range(len(rest))]
    return found


def planned(sets: dict[Set, list[Window]], rate: float, weights: Weights) -> GroupingPlan:
    return plan_grouping({one: Queries.of(rows) for one, rows in sets.items()}, rate, weights, DISTINCT)


@given(workloads, rates, st.sampled_from([Weights(), Weights(5.0, 0.5)]))
def test_prices_and_the_best_of_all_partitions(sets: dict[Set, list[Window]], rate: float, weights: Weights) -> None:
    plan = planned(sets, rate, weights)
    assert sorted(member for tree in plan.trees for member in tree.members) == sorted(sets)
    for tree in plan.trees:
        assert tree.attributes == tuple(sorted({name for member in tree.members for name in member}))
        members = {member: sets[member] for member in tree.members}
        assert tree.cost == pytest.approx(tree_cost(members, rate, weights))
        assert all(plan.tree_of(member) is tree for member in tree.members)
    assert plan.cost == pytest.approx(sum(tree.cost for tree in plan.trees))
    assert plan.separate_cost == pytest.approx(sum(tree_cost({one: sets[one]}, rate, weights) for one in sets))
    assert plan.cost <= plan.separate_cost * (1 + 1e-9)
    best = min(
        sum(tree_cost({one: sets[one] for one in part}, rate, weights) for part in split)
        for split in partitions(list(sets))
    )
    assert plan.cost >= best * (1 - 1e-9)


def test_how_often_merging_is_the_best_of_all() -> None:
    random = np.random.default_rng(5)
    ratios = []
    for _ in range(120):
        sets: dict[Set, list[Window]] = {}
        for _ in range(int(random.integers(2, 6))):
            chosen = tuple(sorted(random.choice(list("abcd"), int(random.integers(0, 4)), replace=False).tolist()))
            sets[chosen] = [(int(random.integers(1, 40)), int(random.choice([2, 3, 4, 6, 12])))]
        rate = float(random.choice([5, 200, 2000, 1e5]))
        weights = Weights(3.0, 1.0)
        best = min(
            sum(tree_cost({one: sets[one] for one in part}, rate, weights) for part in split)
            for split in partitions(list(sets))
        )
        ratios.append(planned(sets, rate, weights).cost / best)
    assert np.mean(np.array(ratios) < 1 + 1e-9) >= 0.95
    assert max(ratios) < 1.1


def test_few_groups_share_and_many_do_not() -> None:
    queries = Queries.of([(600, 60)], [1.0])
    sets = {("carrier",): queries, ("origin",): queries}
    few = plan_grouping(sets, 1000.0, distinct={"carrier": 16, "origin": 3})
    assert [tree.attributes for tree in few.trees] == [("carrier", "origin")]
    assert "share a tree over (carrier, origin)" in few.reasons[0]
    many = plan_grouping(sets, 1000.0, distinct={"carrier": 1e5, "origin": 1e5})
    assert [tree.members for tree in many.trees] == [(("carrier",),), (("origin",),)]
    assert "no further merge saves" in many.reasons[0]
    assert many.cost == many.separate_cost


def test_the_order_of_attributes_does_not_matter() -> None:
    queries = Queries.of([(600, 60)])
    plan = plan_grouping({("a", "b"): queries, ("b", "a"): queries}, 10.0)
    assert [tree.members for tree in plan.trees] == [(("a", "b"),)]
    assert plan.tree_of(["b", "a"]).groups == 600 * 10


def test_nonsense_is_refused() -> None:
    queries = Queries.of([(600, 60)])
    plan = plan_grouping({("a",): queries, (): queries}, 10.0)
    with pytest.raises(PanewiseError, match=r"no query groups by \(b\); the sets are"):
        plan.tree_of(["b"])
    with pytest.raises(PanewiseError, match="attribute a must have at least one distinct value"):
        plan_grouping({("a",): queries}, 10.0, distinct={"a": 0})
    with pytest.raises(PanewiseError, match=r"no query groups by \(a\); leave the set out"):
        plan_grouping({("a",): Queries.of([])}, 10.0)
    with pytest.raises(ValueError, match="rate must be positive"):
        plan_grouping({("a",): queries}, 0.0)
    assert plan_grouping({}, 1.0).trees == ()
