"""Plans stay near the cost of fresh ones while queries come and go, and no window loses its past."""

from __future__ import annotations

import math

import pytest

import panewise
from panewise.engine import stream_state
from panewise.errors import PanewiseError
from panewise.planning import drift
from panewise.planning.sharing import exhaustive

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;"


def tumbling(seconds: int) -> str:
    window = f"[RANGE {seconds} SECONDS SLIDE {seconds} SECONDS]"
    return f"CREATE QUERY q{seconds} AS SELECT k, SUM(x), MAX(x) FROM s {window} GROUP BY k;"


def run(engine: panewise.Engine, first: int, last: int) -> list[dict]:
    """Push two events a second and advance with each; returns the answers."""
    found = []
    for second in range(first, last):
        engine.push("s", {"t": [second * US, second * US + 1], "k": ["a", "b"], "x": [second, -second]})
        found += engine.advance("s", (second + 1) * US).long().to_pylist()
    return found


def trees_of(engine: panewise.Engine) -> int:
    return sum(len(generation.trees) for generation in engine._streams["s"].generations)


def test_queries_added_one_by_one_before_any_event_are_planned_as_if_given_together() -> None:
    # From long to short: no tree has the edges of the next query.
    engine = panewise.Engine(STREAM)
    for seconds in range(40, 0, -1):
        engine.add(tumbling(seconds))
    state = engine._streams["s"]
    together = panewise.optimize(engine.workload)
    assert state.fresh_cost == pytest.approx(together.cost)
    assert state.cost <= 1.2 * together.cost
    assert trees_of(engine) <= 2 * len(together.trees)
    assert state.replans
    assert "last before any event" in engine.explain()


def test_a_plan_that_is_beyond_the_tolerance_is_made_anew_and_no_window_is_lost() -> None:
    lengths = [12, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    given = panewise.Engine(STREAM + "".join(map(tumbling, lengths)))
    live = panewise.Engine(STREAM + tumbling(lengths[0]))
    expected, found = [], []
    for place in range(len(lengths)):
        if place:
            live.add(tumbling(lengths[place]))
        expected += run(given, 7 * place, 7 * place + 7)
        found += run(live, 7 * place, 7 * place + 7)
        # What older trees held has moved over at once.
        state = live._streams["s"]
        assert len(state.generations) == 1
        assert state.cost <= 1.2 * state.fresh_cost
    began = {name: live.exact_from(name) for name in live.workload.queries}
    expected += run(given, 70, 200)
    found += run(live, 70, 200)
    assert state.replans
    assert len(state.generations) == 1
    assert state.cost <= 1.2 * state.fresh_cost
    assert "planned anew" in live.explain()
    assert {name: live.exact_from(name) for name in live.workload.queries} == began

    assert whole(found, began) == whole(expected, began)
    assert len(found) == len(whole(found, began)) > 500


def whole(rows: list[dict], began: dict[str, int | None]) -> list[tuple]:
    """The answers of windows that began when each query saw all events."""
    seen = [row for row in rows if began[row["query"]] is None or _us(row["window_start"]) >= began[row["query"]]]
    return sorted(tuple(map(str, row.values())) for row in seen)


def test_queries_of_several_older_trees_each_see_their_own_past(monkeypatch: pytest.MonkeyPatch) -> None:
    # Plans are compared at the next advance, and by then both trees have events.
    monkeypatch.setattr(stream_state, "FEW_QUERIES", 0)

    def sliding(name: str, select: str, window: tuple[int, int], where: str = "") -> str:
        brackets = f"[RANGE {window[0]} SECONDS SLIDE {window[1]} SECONDS]"
        return f"CREATE QUERY {name} AS SELECT k, {select} FROM s {brackets} {where} GROUP BY k;"

    first = sliding("a", "SUM(x)", (12, 4)) + sliding("b", "SUM(x), COUNT(*)", (9, 3), "WHERE x > 0")
    # No base has their aggregates. Their tree has the same predicates, and edges of its own.
    second = sliding("c", "MIN(x)", (10, 5)) + sliding("d", "MEDIAN(x), MIN(x)", (8, 2), "WHERE x > 0")
    third = sliding("e", "SUM(x)", (9, 3), "WHERE x > 0")
    given = panewise.Engine(STREAM + first + second + third, tolerance=math.inf)
    live = panewise.Engine(STREAM + first, tolerance=0.0)
    expected = run(given, 0, 27)
    found = run(live, 0, 20)
    live.add(second)
    found += run(live, 20, 27)
    live = panewise.Engine.restore(live.snapshot())
    (generation,) = live._streams["s"].generations
    assert len(generation.twins) == 3
    live.add(third)
    assert live.exact_from("e") < 20 * US
    # What ends before it came was never reported.
    began = {**{name: live.exact_from(name) for name in live.workload.queries}, "e": 19 * US}
    for place in range(3):
        live.add(sliding(f"f{place}", "MAX(x)", (11, 7 + place), f"WHERE x > {place}"))
        found += run(live, 27 + 2 * place, 29 + 2 * place)
        live = panewise.Engine.restore(live.snapshot())
    assert 0 < len(live._streams["s"].generations[0].twins) < 12
    expected += run(given, 27, 60)
    found += run(live, 33, 60)
    found = [row for row in found if not row["query"].startswith("f")]
    assert whole(found, began) == whole(expected, began)
    assert len(whole(found, began)) > 100
    (generation,) = live._streams["s"].generations
    for tree in generation.trees:
        assert not tree.twins
        assert not tree.pasts
        assert all(planned.predicate is None or planned.predicate < 4 for planned in tree.queries.values())


def test_a_removal_leaves_a_plan_within_the_tolerance() -> None:
    lengths = range(2, 30)
    engine = panewise.Engine(STREAM + "".join(map(tumbling, lengths)))
    run(engine, 0, 30)
    for seconds in lengths:
        if seconds % 10:
            engine.remove(f"q{seconds}")
    run(engine, 30, 100)
    state = engine._streams["s"]
    assert state.cost <= 1.2 * state.fresh_cost


def test_an_infinite_tolerance_plans_nothing_anew_and_a_snapshot_keeps_it() -> None:
    engine = panewise.Engine(STREAM, tolerance=math.inf, method="shared")
    for seconds in range(20, 0, -1):
        engine.add(tumbling(seconds))
    engine = panewise.Engine.restore(engine.snapshot())
    engine.add(tumbling(41))
    state = engine._streams["s"]
    assert (state.replans, state.prices.tolerance, state.prices.method) == (0, math.inf, "shared")
    assert "never planned anew" in engine.explain()


def test_a_plan_follows_the_rate_and_the_groups_that_were_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody said `groups`: few values of both attributes make one pass over the events cheaper than three.
    monkeypatch.setattr(drift, "FIRST_LOOK", 30_000)
    text = """
        CREATE STREAM s (t TIMESTAMP, a STRING, b BIGINT, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;
        CREATE QUERY by_a AS SELECT a, SUM(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY a;
        CREATE QUERY by_b AS SELECT b, SUM(x) FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY b;
        CREATE QUERY alone AS SELECT SUM(x) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS];
    """
    found: list[list[str]] = []
    for tolerance in (0.2, math.inf):
        engine = panewise.Engine(text, tolerance=tolerance)
        rows: list[dict] = []
        for second in range(30):
            times = [second * US + 83 * place for place in range(12_000)]
            columns = {"a": [f"a{place % 3}" for place in range(12_000)], "b": [place % 4 for place in range(12_000)]}
            engine.push("s", {"t": times, **columns, "x": list(range(second, second + 12_000))})
            rows += engine.advance("s", (second + 1) * US).long().to_pylist()
            if second == 8:
                engine = panewise.Engine.restore(engine.snapshot())
        found.append(sorted(map(str, rows)))
        state = engine._streams["s"]
        assert state.prices.rate == pytest.approx(12_000, rel=0.1)
        assert dict(state.prices.groups) == {"a": 3, "b": 4}
        bases = [base.group_by for generation in state.generations for base in generation.plan.bases]
        assert bases == ([("a", "b")] if tolerance == 0.2 else [("a",), ("b",), ()])
        assert ("as rate and groups were seen" in engine.explain()) == (tolerance == 0.2)
    assert found[0] == found[1]


def test_an_engine_counts_the_combinations_of_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "FIRST_LOOK", 10)
    where = ["x > 0", "x > 5", "x < -5"]
    queries = [
        f"CREATE QUERY q{n} AS SELECT k, SUM(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE {one} GROUP BY k;"
        for n, one in enumerate(where)
    ]
    engine = panewise.Engine(STREAM + "".join(queries))
    run(engine, 0, 20)
    engine = panewise.Engine.restore(engine.snapshot())
    prices = engine._streams["s"].prices
    # None, the first, the first two, the last.
    assert prices.combinations == 4
    (base,) = engine._streams["s"].generations[0].plan.bases
    assert prices.most_rows(base) == prices.groups_of(("k",)) * 4 == 2 * 4


@pytest.mark.parametrize("tolerance", [-0.1, math.nan, "much", True])
def test_a_tolerance_out_of_range_is_refused(tolerance: object) -> None:
    with pytest.raises(PanewiseError, match="tolerance is a share of a plan's cost, at least 0"):
        panewise.Engine(STREAM, tolerance=tolerance)


def _us(time: object) -> int:
    return time if isinstance(time, int) else int(time.timestamp() * US)


def test_a_removal_of_what_is_not_there_changes_nothing() -> None:
    engine = panewise.Engine(STREAM + tumbling(4) + tumbling(6))
    for wrong in (lambda: engine.remove("q5"), lambda: engine.add("DROP QUERY q4; DROP QUERY q5;")):
        with pytest.raises(PanewiseError, match=r"no query named 'q5'|unknown query 'q5'"):
            wrong()
    assert list(engine.workload.queries) == ["q4", "q6"]
    assert {row["query"] for row in run(engine, 0, 13)} == {"q4", "q6"}


def test_a_query_that_exhaustive_search_cannot_take_is_refused_and_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exhaustive, "MOST_EDGE_SETS", 8)
    engine = panewise.Engine(STREAM + "".join(map(tumbling, range(2, 10))), method="exhaustive")
    run(engine, 0, 10)
    with pytest.raises(PanewiseError, match=r"exhaustive search takes at most 8 different edge sets, .* have 9"):
        engine.add(tumbling(19))
    engine.add("DROP QUERY q2;" + tumbling(19))
    run(engine, 10, 20)
    assert list(engine.workload.queries) == [f"q{seconds}" for seconds in [*range(3, 10), 19]]
    assert engine._streams["s"].reports_after_us.keys() == engine.workload.queries.keys()
