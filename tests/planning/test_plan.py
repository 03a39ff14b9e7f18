from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise
from panewise.aggregates.components import Component, Kind
from panewise.planning.calibration import SHIPPED
from panewise.planning.cost import COMBINE_NS, HELD, STEPS_PER_S, Prices
from panewise.planning.optimize import fit, plan_stream
from panewise.planning.sharing.cost import UNIT_WEIGHTS

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, j STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;\n"


COMBINE = sum(SHIPPED.costs[kind].combine_ns for kind in (Kind.ROWS, Kind.COUNT, Kind.SUM_INT)) / COMBINE_NS
"""Of a row for SUM of integers."""


def plan_of(*queries: str) -> panewise.Plan:
    return panewise.optimize(
        panewise.read(STREAM + "".join(f"CREATE QUERY q{n} AS {q};" for n, q in enumerate(queries)))
    )


def test_queries_with_the_same_groups_share_a_base() -> None:
    plan = plan_of(
        "SELECT SUM(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k, j",
        "SELECT MAX(y) FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS] WHERE x > 1 GROUP BY j, k",
        "SELECT COUNT(*) FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS]",
    )
    stream = plan.streams["s"]
    assert [base.group_by for base in stream.bases] == [("j", "k"), ()]
    assert [len(tree.queries) for tree in stream.fed_by(stream.bases[1])] == [1]
    assert sum(len(tree.queries) for tree in stream.fed_by(stream.bases[0])) == 2
    assert {base.granularity for base in stream.bases} == {1_000_000}


def test_windows_of_like_edges_share_a_tree_and_a_month_by_the_hour_does_not_keep_seconds() -> None:
    plan = plan_of(
        "SELECT SUM(x) FROM s [RANGE 5 MINUTES SLIDE 10 SECONDS]",
        "SELECT SUM(x) FROM s [RANGE 1 MINUTE SLIDE 10 SECONDS]",
        "SELECT MAX(x) FROM s [RANGE 30 DAYS SLIDE 1 HOUR]",
        "SELECT MAX(x) FROM s [RANGE 1 DAY SLIDE 1 HOUR]",
    )
    assert [[planned.query.name for planned in tree.queries] for tree in plan.trees] == [["q0", "q1"], ["q2", "q3"]]
    assert [tree.cuts.edges for tree in plan.trees] == [((1, 0),), ((360, 0),)]
    (base,) = plan.streams["s"].bases
    data = plan.to_dict()
    assert data["cost_per_s"] < min(data["shared_per_s"], data["no_share_per_s"])
    assert {component.kind for component in plan.trees[1].components} < {c.kind for c in base.components}
    assert sum(query["cost_per_s"] for tree in data["trees"] for query in tree["queries"]) == pytest.approx(plan.cost)


def test_groups_with_an_attribute_in_common_share_a_base_when_they_are_few() -> None:
    queries = (
        "SELECT SUM(x) FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY k",
        "SELECT MAX(x) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY j, k",
        "SELECT COUNT(*) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY j",
        "SELECT MEDIAN(x) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY j, k",
    )
    text = STREAM + "".join(f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(queries[:3]))
    # Where groups are spread over buckets, they need an attribute in common.
    few = panewise.optimize(panewise.read(text), groups={"k": 3, "j": 5}, in_bulk=True).streams["s"]
    assert [(base.group_by, base.together_by) for base in few.bases] == [(("j", "k"), ("k",)), (("j",), ("j",))]
    assert [tree.group_by for tree in few.fed_by(few.bases[0])] == [("k",), ("j", "k")]
    together = panewise.optimize(panewise.read(text), groups={"k": 3, "j": 5}).streams["s"]
    assert [base.group_by for base in together.bases] == [("j", "k")]
    many = panewise.optimize(panewise.read(text), groups={"k": 3000, "j": 5000}).streams["s"]
    assert [base.group_by for base in many.bases] == [("k",), ("j", "k"), ("j",)]
    whole = panewise.read(text + f"CREATE QUERY q3 AS {queries[3]}")
    assert len(panewise.optimize(whole, groups={"k": 3, "j": 5}, in_bulk=True).streams["s"].bases) == 3
    unknown = panewise.optimize(panewise.read(text), groups={"k": 3}).streams["s"]
    assert [base.group_by for base in unknown.bases] == [("k",), ("j", "k"), ("j",)]


def test_a_plan_is_the_same_when_it_is_made_again_from_its_shares() -> None:
    plan = plan_of(
        "SELECT SUM(x) FROM s [RANGE 5 MINUTES SLIDE 10 SECONDS]",
        "SELECT MAX(x) FROM s [RANGE 1 DAY SLIDE 1 HOUR]",
        "SELECT SUM(x) FROM s [RANGE 1 MINUTE SLIDE 10 SECONDS]",
        "SELECT SUM(x) FROM s [RANGE 1 MINUTE SLIDE 10 SECONDS] GROUP BY k",
    ).streams["s"]
    queries = sorted((planned.query for tree in plan.trees for planned in tree.queries), key=lambda q: q.name)
    assert plan_stream(plan.stream, queries, shape=plan.shape) == plan


def test_aggregates_share_components_and_equal_predicates_share_a_bit() -> None:
    plan = plan_of(
        "SELECT AVG(x), SUM(x), COUNT(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 1",
        "SELECT COUNT(*) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 1",
    )
    (tree,) = plan.trees
    assert set(tree.components) == {Component(Kind.ROWS), Component(Kind.COUNT, 0), Component(Kind.SUM_INT, 0)}
    assert tree.predicates == (0,)


def test_the_cost_is_what_the_store_does() -> None:
    plan = plan_of(
        "SELECT SUM(x) FROM s [RANGE 16 SECONDS SLIDE 4 SECONDS]",
        "SELECT SUM(x) FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]",
        "SELECT SUM(x) FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS]",
    )
    one = UNIT_WEIGHTS
    windows = one.window * (1 / 4 + 1 / 5 + 1 / 4)
    # Slots of a second, each with events. All edges lie in 8 of 20 seconds. The window of 8 seconds is a part of that
    # of 16, which ends with it, and rows are held for 16 seconds.
    visits = (16 / 4 + 10 / 5) * COMBINE + 16 * HELD
    by_itself = one.feed + one.tree + 8 / 20 * one.closing
    assert plan.cost == pytest.approx(1000 + by_itself + windows + 8 / 20 * visits)
    assert plan.to_dict()["shared_per_s"] == pytest.approx(plan.cost)
    # Alone, the first and the third window have slots of 4 seconds, the second has slots of 5.
    slots_per_s = 1 / 4 + 1 / 5 + 1 / 4
    rows = (4 * COMBINE + 16 * HELD) / 4 + (2 * COMBINE + 10 * HELD) / 5 + (2 * COMBINE + 8 * HELD) / 4
    apart = (one.feed + one.tree + one.closing) * slots_per_s + windows + rows
    assert plan.to_dict()["no_share_per_s"] == pytest.approx(3000 + apart)
    with pytest.raises(panewise.PanewiseError, match="rate must be positive"):
        panewise.optimize(panewise.read(STREAM + "CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 1 SECOND];"), rate=0)


@given(
    st.lists(
        st.tuples(st.integers(1, 200), st.integers(1, 60), st.sampled_from(["", " GROUP BY k"])), min_size=1, max_size=8
    ),
    st.sampled_from([1.0, 50.0, 1000.0]),
    st.booleans(),
)
def test_no_alternative_is_priced_below_the_plan(
    windows: list[tuple[int, int, str]], rate: float, in_bulk: bool
) -> None:
    """A plan of one query is that query alone; sharing is chosen where it costs less, by the same prices."""
    queries = [f"SELECT SUM(x) FROM s [RANGE {r} SECONDS SLIDE {s} SECONDS]{by}" for r, s, by in windows]
    text = STREAM + "".join(f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(queries))
    plan = panewise.optimize(panewise.read(text), rate=rate, in_bulk=in_bulk)
    data = plan.to_dict()
    if len(queries) == 1:
        assert data["cost_per_s"] == pytest.approx(data["no_share_per_s"])
        assert data["cost_per_s"] == pytest.approx(data["shared_per_s"])
    assert data["cost_per_s"] <= data["shared_per_s"] * (1 + 1e-9)


def test_long_windows_move_so_their_range_costs_only_what_is_held() -> None:
    by_hour, by_day = (
        plan_of(f"SELECT SUM(x) FROM s [RANGE {length} SLIDE 1 SECOND]").cost for length in ("1 HOUR", "1 DAY")
    )
    assert by_day - by_hour == pytest.approx(23 * 3600 * HELD)
    # Multisets do not move: all that a window covers is visited each time.
    medians = [
        plan_of(f"SELECT MEDIAN(x) FROM s [RANGE {length} SLIDE 1 SECOND]").cost for length in ("1 HOUR", "1 DAY")
    ]
    per_row = sum(SHIPPED.costs[kind].combine_ns for kind in (Kind.ROWS, Kind.COUNT, Kind.VALUES)) / COMBINE_NS
    assert medians[1] - medians[0] == pytest.approx(23 * 3600 * (per_row + HELD))


def test_without_groups_one_tree_costs_less_than_trees_with_fewer_edges() -> None:
    queries = [f"SELECT SUM(x) FROM s [RANGE {4 * s} SECONDS SLIDE {s} SECONDS]" for s in (2, 3, 5, 7)]
    assert len(plan_of(*queries).trees) == 1
    # Nothing of that counts where windows close in bulk.
    text = STREAM + "".join(f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(queries))
    in_bulk = panewise.optimize(panewise.read(text), in_bulk=True)
    assert in_bulk.cost < 1100


def test_short_fragments_of_many_groups_have_few_rows() -> None:
    """With an event of each group in a hundred seconds, edges in between cut hardly any row in two."""
    queries = [f"SELECT k, SUM(x) FROM s [RANGE {4 * s} SECONDS SLIDE {s} SECONDS] GROUP BY k" for s in (2, 3, 5, 7)]
    text = STREAM + "".join(f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(queries))
    plans = [panewise.optimize(panewise.read(text), rate=1000, groups={"k": groups}) for groups in (100_000, 1000)]
    costs = [plan.to_dict()["shared_per_s"] for plan in plans]
    assert costs[0] < 1.6 * costs[1]


def test_a_query_fits_a_tree_only_if_its_partials_hold_all_it_needs() -> None:
    plan = plan_of("SELECT AVG(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 1 GROUP BY k")
    stream = plan.streams["s"]
    (tree,) = plan.trees

    def fits(text: str) -> bool:
        workload = panewise.read(STREAM + f"CREATE QUERY q AS {text};")
        return fit(stream, tree, workload.queries["q"]) is not None

    assert fits("SELECT SUM(x), COUNT(*) FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE x > 1 GROUP BY k")
    assert fits("SELECT SUM(x) FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] GROUP BY k")
    assert not fits("SELECT SUM(x) FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] GROUP BY k")
    assert not fits("SELECT MAX(x) FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] GROUP BY k")
    assert not fits("SELECT SUM(x) FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE x > 2 GROUP BY k")
    assert not fits("SELECT SUM(x) FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] GROUP BY j")
    assert not fits("SELECT SUM(x) FROM s [ROWS 8 SLIDE 4] GROUP BY k")


def test_explain_names_every_query_and_is_plain_data() -> None:
    plan = plan_of(
        "SELECT SUM(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE k = 'a'",
        "SELECT SUM(x) FROM s [ROWS 6 SLIDE 4] GROUP BY k",
        "SELECT MAX(y) FROM s [RANGE 4 SECONDS]",
    )
    text = plan.explain()
    assert all(f"q{n}" in text for n in range(3))
    assert "2 rows" in text
    assert "k = 'a'" in text
    data = json.loads(json.dumps(plan.to_dict()))
    assert [tree["tree"] for tree in data["trees"]] == [0, 1]
    assert [base["base"] for base in data["bases"]] == [0, 1]
    assert data["on_demand"][0]["query"] == "q2"


def test_a_tree_whose_queries_wait_is_fed_and_closes_nothing() -> None:
    workload = panewise.read(
        "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t;"
        "CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 10 SECONDS SLIDE 1 SECOND];"
    )
    (plan,) = panewise.optimize(workload, rate=100).streams.values()
    (tree,), prices = plan.trees, Prices(100)
    waits = prices.serving(tree, plan.base_of(tree), [])
    steps = prices.weights.tree * min(prices.slots_per_s(tree), STEPS_PER_S)
    assert waits == prices.feeding(plan.base_of(tree)) + steps
    assert waits < prices.tree(tree, plan.base_of(tree)) / 2
