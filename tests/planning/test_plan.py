from __future__ import annotations

import json

import pytest

import weft
from weft.aggregates.components import Component, Kind
from weft.planning.plan import fit

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, j STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;\n"


def plan_of(*queries: str) -> weft.Plan:
    return weft.optimize(weft.read(STREAM + "".join(f"CREATE QUERY q{n} AS {q};" for n, q in enumerate(queries))))


def test_queries_with_the_same_groups_share_a_tree() -> None:
    plan = plan_of(
        "SELECT SUM(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k, j",
        "SELECT MAX(y) FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS] WHERE x > 1 GROUP BY j, k",
        "SELECT COUNT(*) FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS]",
    )
    assert [(tree.group_by, len(tree.queries)) for tree in plan.trees] == [(("j", "k"), 2), ((), 1)]
    assert {tree.granularity for tree in plan.trees} == {1_000_000}


def test_aggregates_share_components_and_equal_predicates_share_a_bit() -> None:
    plan = plan_of(
        "SELECT AVG(x), SUM(x), COUNT(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 1",
        "SELECT COUNT(*) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 1",
    )
    (tree,) = plan.trees
    assert set(tree.components) == {Component(Kind.ROWS), Component(Kind.COUNT, 0), Component(Kind.SUM_INT, 0)}
    assert tree.predicates == (0,)


def test_cost_is_the_papers_with_slots_as_fragments() -> None:
    plan = plan_of(
        "SELECT SUM(x) FROM s [RANGE 16 SECONDS SLIDE 4 SECONDS]",
        "SELECT SUM(x) FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]",
    )
    assert plan.cost == 1000 + 1 * (16 / 4 + 10 / 5)
    with pytest.raises(ValueError, match="rate must be positive"):
        weft.optimize(weft.read(STREAM + "CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 1 SECOND];"), rate=0)


def test_a_query_fits_a_tree_only_if_its_partials_hold_all_it_needs() -> None:
    plan = plan_of("SELECT AVG(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 1 GROUP BY k")
    stream = plan.streams["s"]
    (tree,) = plan.trees

    def fits(text: str) -> bool:
        workload = weft.read(STREAM + f"CREATE QUERY q AS {text};")
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
    assert data["on_demand"][0]["query"] == "q2"
